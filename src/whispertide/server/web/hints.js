// What a reader is told about a text that is likely to be wrong as a whole: it is of another language than was taken for
// it. The rules and their bounds are those of the command line (`cli/hints.py`).

import { Problem } from "./problems.js";

const WEAK = 0.5; // probability of a language that is no more than a guess
const ENOUGH = 6; // seconds of voice, to judge by
const FEW = 0.6; // sure words a second of voice: the sum of their probabilities
const UNSURE = 0.5; // mean probability of words

/** Follows the events of one recording. `model` is the chosen one, with its languages. */
export class Hints {
  #start = null; // of the open utterance
  #voice = 0; // seconds of those before
  #words = 0;
  #sure = 0;
  #told = false;

  constructor(model) {
    this.model = model;
    this.onlyEnglish = model.languages.length === 1 && model.languages[0] === "en";
  }

  /** The event's hint, as a `Problem`; null: there is none. */
  take(event) {
    if (event.type === "language") return event.probability < WEAK ? weak(event) : null;
    if (!this.onlyEnglish || this.#told) return null;
    this.#count(event);
    this.#told = this.#isForeign(event.at);
    return this.#told ? onlyEnglish(this.model) : null;
  }

  #count({ type, start, end, words }) {
    if (type === "speech_start") this.#start = start;
    if (type === "speech_stop" && this.#start !== null) {
      this.#voice += end - this.#start;
      this.#start = null;
    }
    if (type !== "confirmed") return;
    this.#words += words.length;
    for (const { probability } of words) this.#sure += probability;
  }

  #isForeign(at) {
    const voice = this.#voice + (this.#start === null ? 0 : at - this.#start);
    return voice >= ENOUGH && (this.#sure < FEW * voice || this.#sure < UNSURE * this.#words);
  }
}

function weak({ language, probability }) {
  const name = new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  return new Problem("weak-language", `${name}, ${Math.round(100 * probability)} %. Choose it in the settings before you start.`);
}

function onlyEnglish({ name }) {
  return new Problem("only-english", `${name} finds hardly any words in this speech, and supports only English. Other languages need a multilingual model, such as base.`);
}
