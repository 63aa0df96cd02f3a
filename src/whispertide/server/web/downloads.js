// The transcript as files: txt, srt, vtt and json, the same as the command line writes, saving and copying them.

import { cues, LINE_CHARS, RATE } from "./transcript.js";

const oneLine = (text) => text.split(/\s+/u).filter(Boolean).join(" ");
const ms = (samples) => halfEven((samples * 1000) / RATE);
const seconds = (samples) => samples / RATE;

// Python's rounding: a half goes to the even number
function halfEven(value) {
  const floor = Math.floor(value);
  return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
}

/** Broken once, at the space nearest to the middle, if it is wider than a subtitle line. */
function twoLines(text) {
  const letters = [...text];
  if (letters.length <= LINE_CHARS) return text;
  const spaces = letters.flatMap((letter, index) => (letter === " " ? [index] : []));
  if (!spaces.length) return text;
  const far = (at) => Math.abs(2 * at - letters.length);
  const middle = spaces.reduce((best, at) => (far(at) < far(best) ? at : best));
  return `${letters.slice(0, middle).join("")}\n${letters.slice(middle + 1).join("")}`;
}

function stamp(value, mark) {
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const rest = String(value % 1000).padStart(3, "0");
  return `${two(value / 3600000)}:${two((value / 60000) % 60)}:${two((value / 1000) % 60)}${mark}${rest}`;
}

function timed(transcript) {
  return cues(transcript.all)
    .map(({ start, end, text }) => ({ start: ms(start), end: Math.max(ms(end), ms(start) + 1), text: oneLine(text) }))
    .filter(({ text }) => text);
}

function txt(transcript) {
  return transcript.all.map(({ text }) => oneLine(text)).filter(Boolean).map((line) => `${line}\n`).join("");
}

function srt(transcript) {
  return timed(transcript)
    .map(({ start, end, text }, index) => {
      const body = twoLines(text.replaceAll("-->", "->"));
      return `${index + 1}\n${stamp(start, ",")} --> ${stamp(end, ",")}\n${body}\n`;
    })
    .join("\n");
}

function vtt(transcript) {
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const head = transcript.complete ? "WEBVTT\n\n" : "WEBVTT\n\nNOTE This transcript is incomplete.\n\n";
  return head + timed(transcript)
    .map(({ start, end, text }) => `${stamp(start, ".")} --> ${stamp(end, ".")}\n${escaped(twoLines(text))}\n`)
    .join("\n");
}

function json(transcript, about) {
  let first = 0;
  const segments = transcript.all.map(({ start, end, text, words }, id) => {
    const range = [first, (first += words.length)];
    return { id, start: seconds(start), end: seconds(end), text, words: range };
  });
  const words = transcript.words.map((word) => ({ ...word, start: seconds(word.start), end: seconds(word.end) }));
  const document = {
    text: transcript.text,
    language: transcript.language ?? about.language ?? null,
    duration: seconds(transcript.duration),
    complete: transcript.complete,
    source: about.source ?? "",
    model: about.model ?? "",
    recipe: about.recipe ?? "",
    segments,
    words,
    metrics: {},
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
export function render(format, transcript, about = {}) {
  return FORMATS[format][0](transcript, about);
}

/** Let the browser save the transcript. */
export function save(format, transcript, about) {
  const blob = new Blob([render(format, transcript, about)], { type: `${FORMATS[format][1]};charset=utf-8` });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  const now = new Date();
  const local = new Date(now - now.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  link.download = `transcript ${local.replace("T", " ").replace(":", ".")}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text);
  }
}

/** For pages without a secure origin, which have no clipboard. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
