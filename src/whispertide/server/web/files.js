// Recordings: decoded by the browser where it can, else by the server.

import { codeOf } from "./lists.js";
import { Problem } from "./problems.js";
import { mono, RATE, toInt16 } from "./sound.js";

// Decoding holds all of a file in memory, and all of its sound: a small file can hold many hours.
const DECODABLE = 80 * 2 ** 20; // bytes
const DECODABLE_S = 3600;

/** A file of so many seconds (null: nobody knows) -> Int16Array at 16 kHz mono, or null if this browser cannot or should
 * not decode it. */
export async function decode(file, seconds) {
  if (file.size > DECODABLE || seconds > DECODABLE_S || !globalThis.OfflineAudioContext) return null;
  try {
    const context = new OfflineAudioContext(1, 1, RATE); // decodeAudioData resamples to the context's rate
    const buffer = await context.decodeAudioData(await file.arrayBuffer());
    const channels = Array.from({ length: buffer.numberOfChannels }, (_, index) => buffer.getChannelData(index));
    return Int16Array.from(mono(channels), toInt16);
  } catch {
    return null;
  }
}

/** Files that are dropped anywhere go to `take`, all at once; `veil` shows that they may be, while `free` says so. */
export function acceptDrops(veil, free, take) {
  const hasFile = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    veil.hidden = !free();
  });
  addEventListener("dragleave", (event) => event.relatedTarget || (veil.hidden = true));
  addEventListener("drop", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    veil.hidden = true;
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
}

/** `take` the files that are chosen in a field for them; the same may be chosen again. */
export function acceptChoices(chooser, take) {
  chooser.addEventListener("change", () => {
    const files = [...chooser.files];
    chooser.value = "";
    if (files.length) take(files);
  });
}

/** Let the server transcribe a file; gives events like those of a session. `codes` are of the languages that the model
 * knows. Throws `Problem`. */
export async function upload(file, server, codes, { model, language, task, languages, keyterms, prompt, signal, ...more }) {
  const form = new FormData();
  form.set("file", file);
  form.set("response_format", "verbose_json");
  form.append("timestamp_granularities[]", "word");
  if (model) form.set("model", model);
  if (language) form.set("language", language);
  if (languages.length) form.set("languages", languages.join(","));
  if (keyterms.length) form.set("keyterms", keyterms.join(","));
  if (prompt) form.set("prompt", prompt);
  for (const name of ["speakers", "translate_to", "correct"]) if (more[name]) form.set(name, more[name]);
  let answer;
  try {
    answer = await server.fetch(`v1/audio/${task === "translate" ? "translations" : "transcriptions"}`, { method: "POST", body: form, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem((await canBeRead(file)) ? "unreachable" : "file-unreadable"); // `fetch` does not say which
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(kindOf(answer.status, body.error?.code), body.error?.message ?? "");
  const at = body.duration;
  const words = spaced(body.words ?? [], body.text ?? "");
  const others = [...(body.translations ?? []), ...(body.corrections ?? [])].map((other) => ({
    type: other.language ? "translation" : "correction", at, ...other,
  }));
  const code = task === "translate" ? null : codeOf(body.language ?? "", codes);
  const heard = code ? [{ type: "language", at, language: code }] : [];
  return [...heard, { type: "confirmed", at, words }, { type: "turn_end", at, end: at }, ...others];
}

const canBeRead = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

/** The answer's words have lost their spaces; the running text still has them. */
function spaced(words, text) {
  let at = 0;
  return words.map(({ word, start, end, speaker }) => {
    const found = text.indexOf(word, at);
    const space = found > at && /\s/u.test(text[found - 1]) ? " " : "";
    at = found < 0 ? at : found + word.length;
    return { text: space + word, start, end, probability: null, speaker };
  });
}

/** Of what the server refuses it says whether it is the sound. */
const kindOf = (status, code) => (code === "audio" ? "file" : KINDS[status] ?? "internal");

const KINDS = { 400: "refused", 401: "key", 413: "file-large", 429: "overloaded", 503: "overloaded" };
