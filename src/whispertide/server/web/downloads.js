// The transcript as files: txt, srt, vtt and json, the same as the command line writes, saving and copying them.

import { prepare } from "./phrases.js";
import { RATE } from "./sound.js";
import { cues } from "./subtitles.js";

const oneLine = (text) => text.split(/\s+/u).filter(Boolean).join(" ");
const ms = (samples) => halfEven((samples * 1000) / RATE);
const seconds = (samples) => samples / RATE;

// Python's rounding: a half goes to the even number
function halfEven(value) {
  const floor = Math.floor(value);
  return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
}

function stamp(value, mark) {
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const rest = String(value % 1000).padStart(3, "0");
  return `${two(value / 3600000)}:${two((value / 60000) % 60)}:${two((value / 1000) % 60)}${mark}${rest}`;
}

function txt(transcript) {
  const lines = transcript.all.map(({ text, speaker }) => named(transcript, oneLine(text), speaker));
  return lines.filter(Boolean).map((line) => `${line}\n`).join("");
}

/** A line of plain text with its voice before it; an empty one stays empty. */
const named = (transcript, text, speaker) => (text ? voice(transcript, speaker) + text : text);
const voice = (transcript, speaker) => (speaker == null ? "" : `${transcript.nameOf(speaker)}: `);

const languageOf = (transcript, about) => transcript.language ?? about.language ?? null;

function srt(transcript, about) {
  const clean = (text) => text.replace(/-{2,}>/gu, "->");
  return cues(transcript.all, languageOf(transcript, about), clean, (speaker) => clean(voice(transcript, speaker)))
    .map(({ start, end, text }, index) => `${index + 1}\n${stamp(ms(start), ",")} --> ${stamp(ms(end), ",")}\n${text}\n`)
    .join("\n");
}

function vtt(transcript, about) {
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const head = transcript.complete ? "WEBVTT\n\n" : "WEBVTT\n\nNOTE This transcript is incomplete.\n\n";
  return head + cues(transcript.all, languageOf(transcript, about))
    .map(({ start, end, text, speaker }) => {
      const voice = speaker == null ? "" : `<v ${escaped(transcript.nameOf(speaker))}>`;
      return `${stamp(ms(start), ".")} --> ${stamp(ms(end), ".")}\n${voice}${escaped(text)}\n`;
    })
    .join("\n");
}

/** Translations and corrections, where there are any. */
function others(transcript) {
  const inSeconds = ({ start, end, text, language, speaker }) =>
    ({ ...(language && { language }), start: seconds(start), end: seconds(end), text, ...(speaker != null && { speaker }) });
  const [translations, corrections] = [true, false].map((translated) =>
    transcript.others.filter(({ language }) => Boolean(language) === translated).map(inSeconds));
  return { ...(corrections.length && { corrections }), ...(translations.length && { translations }) };
}

function json(transcript, about) {
  let first = 0;
  const segments = transcript.all.map(({ start, end, text, words, speaker }, id) => {
    const range = [first, (first += words.length)];
    const voice = speaker == null ? {} : { speaker };
    return { id, start: seconds(start), end: seconds(end), text, words: range, ...voice };
  });
  const words = transcript.words.map((word) => ({ ...word, start: seconds(word.start), end: seconds(word.end) }));
  const document = {
    text: transcript.text,
    language: languageOf(transcript, about),
    duration: seconds(transcript.duration),
    complete: transcript.complete,
    source: about.source ?? "",
    model: about.model ?? "",
    recipe: about.recipe ?? "",
    segments,
    words,
    metrics: {},
    ...others(transcript),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

const FORMATS = {
  txt: [txt, "text/plain"],
  srt: [srt, "application/x-subrip"],
  vtt: [vtt, "text/vtt"],
  json: [json, "application/json"],
};

/** The file's text. `about` has model, recipe, language and source. */
export async function render(format, transcript, about = {}) {
  if (format === "srt" || format === "vtt") await prepare(transcript.text, languageOf(transcript, about));
  return FORMATS[format][0](transcript, about);
}

/** Let the browser save the transcript. */
export async function save(format, transcript, about) {
  const blob = new Blob([await render(format, transcript, about)], { type: `${FORMATS[format][1]};charset=utf-8` });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  const now = new Date();
  const local = new Date(now - now.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  link.download = `transcript ${local.replace("T", " ").replace(":", ".")}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Whether it could be copied. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** For pages without a secure origin, which have no clipboard. Behind an open dialog nothing can be selected. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
