// What was said so far, as data: confirmed words that never change, the guess after them, segments.
//
// The rules for segments are those of the package's `document` module, so that a download here and a file written by
// the command line are cut alike. Time is in samples at 16 kHz.

import { RATE } from "./sound.js";

const PAUSE = RATE; // a second without speech ends a line
const SENTENCE_ENDS = /[.?!…。？！؟۔।]$/u;
// Their full stop ends no sentence.
const ABBREVIATIONS =
  "Mr Mrs Ms Messrs Dr Prof Rev Hon St Mt Gen Col Lt Sgt Capt Maj Gov Sen vs e.g i.e approx Hr Dipl " +
  "Nr bzw ca vgl z.B d.h M MM Mlle cf Sr Sra Srta Dra Dña Sig Dott Avv dhr mevr bijv";
export const ABBREVIATED = new RegExp(
  `(?<![\\p{L}\\p{N}_.])(?:${ABBREVIATIONS.replaceAll(".", "\\.").replaceAll(" ", "|")})\\.$`, "u");
const FULL_WIDTH_ENDS = /[。？！]$/u;
const CLAUSE_ENDS = /[,;:—、，；：،؛]$/u;
export const CLOSING = /["'”’»)\]」』）】]+$/u;
const CLOSED = /["'”’»)\]」』）】 ]+$/u;
const ONLY_MARKS = /^[.?!…。？！؟۔।,;:—、，；：،؛]+["'”’»)\]」』）】]*$/u;
const ONLY_CLOSING = /^["'”’»)\]」』）】]+$/u;
const JOINED_TO_NEXT = /[เแโใไເແໂໃໄ\u1039\u17d2\u200d]$/u;
const JOINED_TO_LAST = /^[ฯะาำๅๆຯະາຳໆ\u200d\u{1f3fb}-\u{1f3ff}\p{M}]/u;
// What French parts by a space from the text that it belongs to.
const APART = /^\s*[?!:;»]+\s*$/u;
const OPENING = /(?:^|\s)«\s*$/u;
const SINGLE_LETTER = /^\s*["“«(]?\p{L}\.$/u;
const FLAG = /[\u{1f1e6}-\u{1f1ff}]/u; // letters, two of which are a flag
// Chinese and Japanese, if next to marks that other scripts have, too.
const CHINESE = "[\\u3001-\\u312f\\u3400-\\u9fff\\uf900-\\ufaff\\uff01-\\uff9d\\u{20000}-\\u{3fffd}]";
const SHARED = "[“‘…—\"'”’»)\\]」』）】]*";
export const CHINESE_BEGIN = new RegExp(`^${SHARED}${CHINESE}`, "u");
export const CHINESE_END = new RegExp(`${CHINESE}${SHARED}$`, "u");
const SENTENCES = { chars: 400, span: 30 * RATE };

const length = (text) => [...text].length;
const joined = (words) => words.map((word) => word.text).join("");

/** Cuts a growing list of words: after a sentence, at a pause, at the end of a turn, at the limits. */
export class Segmenter {
  held = [];

  constructor(limits = SENTENCES) {
    this.limits = limits;
  }

  push(words) {
    const done = [];
    for (const word of words) {
      if (this.held.length && startsNew(this.held, word)) done.push(...this.#take(this.held.length));
      while (this.held.length && this.#tooLong(word)) done.push(...this.#take(cut(this.held, word)));
      this.held.push(word);
    }
    return done;
  }

  endTurn() {
    return this.#take(this.held.length);
  }

  #tooLong(word) {
    const chars = length(joined(this.held).trim()) + length(word.text);
    return chars > this.limits.chars || word.end - this.held[0].start > this.limits.span;
  }

  #take(count) {
    const words = this.held.splice(0, count);
    return words.length ? [segment(words)] : [];
  }
}

function segment(words) {
  const { start, speaker } = words[0];
  return { start, end: Math.max(words.at(-1).end, start), text: joined(words), words, ...voice(speaker) };
}

/** Whether a text is the rest of a written word: no space before it, in a script that has spaces. */
export const goesOn = (text) => /^[^\s\u{e00}-\u{10ffff}]/u.test(text);

/** The field of a voice; none where nobody asked, or nobody knows. */
const voice = (speaker) => (speaker == null ? {} : { speaker });

// Nobody knows where a word without length lies in the silence around it: a pause is measured from the last with one.
function startsNew(held, word) {
  const bare = ({ text }) => text.replace(CLOSED, "");
  const said = bare(held.findLast(bare) ?? { text: "" });
  if (inseparable(said, word.text)) return false;
  if (word.speaker !== held[0].speaker && !goesOn(word.text)) return true;
  const ended = endsSentence(held.at(-1).text) || endsSentence(said);
  const spacedEnd = /^\s/u.test(word.text) && ended && !isInitial(held.at(-2)?.text ?? "", held.at(-1).text, word.text);
  const spoken = held.findLast(({ start, end }) => end > start)?.end ?? word.start;
  return FULL_WIDTH_ENDS.test(said) || spacedEnd || word.start - spoken >= PAUSE;
}

/** Whether a word is a single letter whose full stop ends no sentence: "George W. Bush", "z. B.". */
function isInitial(before, text, after) {
  const name = /\p{Lu}\.$/u.test(text) && /^(\p{Lu}|$)/u.test(before.trim());
  return SINGLE_LETTER.test(text) && (name || SINGLE_LETTER.test(before) || SINGLE_LETTER.test(after));
}

export const endsSentence = (text) => SENTENCE_ENDS.test(text.replace(CLOSING, "")) && !ABBREVIATED.test(text);

/** Whether two texts belong together although a space may part them: "« Oui ? »". */
export const belongTogether = (before, after) => APART.test(after) || OPENING.test(before);

/** Whether two texts are never cut apart, although no space is needed between words of their script. */
export function inseparable(before, after) {
  if (!before || !after) return false;
  const closes = ONLY_CLOSING.test(after) && CHINESE_END.test(before);
  const flag = FLAG.test([...before].at(-1)) && FLAG.test([...after][0]);
  const joined = JOINED_TO_LAST.test(after) || JOINED_TO_NEXT.test(before) || belongTogether(before, after);
  return joined || closes || flag || ONLY_MARKS.test(after);
}

function cut(words, after) {
  const following = [...words.slice(1), after];
  const counts = words.map((_, index) => index + 1);
  const ends = counts.filter((count) => !inseparable(words[count - 1].text, following[count - 1].text));
  const half = Math.floor(words.length / 2);
  const clauses = ends.filter((count) => count > half && CLAUSE_ENDS.test(words[count - 1].text));
  return clauses.at(-1) ?? ends.at(-1) ?? words.length;
}

export class Transcript {
  segments = []; // finished
  language = null;
  duration = 0;
  complete = true;
  recordings = []; // where each begins
  names = []; // of those that are files; of others ""
  others = []; // translations and corrections: { start, end, text, language, speaker }; a correction has no language
  #lines = new Map(); // by channel, where these are apart: { segmenter, guess }, the words after the confirmed ones
  voices = {}; // the names that the user gave, by number
  #offset = 0; // where the present recording began
  #before = 0; // the voices of the sessions before: nobody knows which of them speak here as well
  #session = null; // the id of the server's session whose events come

  /** Take one event of a session; returns the confirmed words that it brought. */
  take(event) {
    const offset = this.#offset;
    const inSamples = ({ text, start, end, probability, speaker }) => ({
      text,
      start: offset + Math.round(start * RATE),
      end: offset + Math.round(end * RATE),
      probability,
      ...voice(speaker == null ? null : this.#before + speaker),
    });
    this.duration = Math.max(this.duration, offset + Math.round(event.at * RATE));
    switch (event.type) {
      case "confirmed": {
        const words = event.words.map(inSamples);
        this.segments.push(...this.#line(event.channel).segmenter.push(words));
        return words;
      }
      case "hypothesis":
        this.#line(event.channel).guess = event.words.map(inSamples);
        break;
      case "turn_end":
        if (!event.eager) this.endTurn(event.channel);
        break;
      case "language":
        this.language = event.language;
        break;
      case "translation":
      case "correction": {
        const { start, end, text, speaker } = inSamples(event);
        const language = event.type === "translation" && { language: event.language };
        this.others.push({ start, end, text, ...voice(speaker), ...language });
      }
    }
    return [];
  }

  /** Of one channel, or of all. */
  endTurn(channel) {
    const lines = channel === undefined ? [...this.#lines.values()] : [this.#line(channel)];
    for (const line of lines) {
      line.guess = [];
      this.segments.push(...line.segmenter.endTurn());
    }
  }

  #line(channel = 0) {
    if (!this.#lines.has(channel)) this.#lines.set(channel, { segmenter: new Segmenter(), guess: [] });
    return this.#lines.get(channel);
  }

  guessOf(channel) {
    return this.#line(channel).guess;
  }

  get hasGuess() {
    return [...this.#lines.values()].some(({ guess }) => guess.length);
  }

  /** A recording begins; its times start where the transcript ends. */
  begin(name = "") {
    this.endTurn();
    this.#offset = this.duration;
    this.#session = this.language = null;
    this.#tellVoicesApartAnew();
    this.recordings.push(this.#offset);
    this.names.push(name);
    this.complete = false;
  }

  /** The recording goes on in the server's session of this id, or in those of its channels: another one numbers the voices
   *  anew, and channels keep their numbers. */
  follow(session) {
    if (this.#session !== null && session !== this.#session && !Array.isArray(session)) this.#tellVoicesApartAnew();
    this.#session = session;
  }

  #tellVoicesApartAnew() {
    this.#before = this.words.reduce((most, { speaker }) => Math.max(most, speaker ?? 0), 0);
  }

  /** The recording is over, and was heard up to sample `end`. */
  finish(end) {
    this.duration = Math.max(this.duration, end);
    this.complete = true;
  }

  /** "": it is called by its number again. */
  rename(speaker, name) {
    if (name) this.voices[speaker] = name;
    else delete this.voices[speaker];
  }

  /** A voice as it is written. */
  nameOf(speaker) {
    return this.voices[speaker] || `Speaker ${speaker}`;
  }

  /** The names of the present session's voices, by their numbers in it. */
  get ownNames() {
    const own = Object.entries(this.voices).map(([speaker, name]) => [speaker - this.#before, name]);
    return Object.fromEntries(own.filter(([number]) => number > 0));
  }

  /** As plain data, without the guess; `Transcript.from` takes it back. */
  toJSON() {
    const { recordings, names, voices, others, language, duration, complete } = this;
    const short = ({ text, start, end, probability, speaker }) => [text, start, end, probability, speaker];
    const segments = this.all.map(({ words }) => words.map(short));
    return { segments, recordings, names, voices, others, language, duration, complete };
  }

  static from({ segments, ...rest }) {
    const long = ([text, start, end, probability, speaker]) => ({ text, start, end, probability, ...voice(speaker) });
    return Object.assign(new Transcript(), rest, { segments: segments.map((words) => segment(words.map(long))) });
  }

  /** Everything confirmed in the order in which it begins, the unfinished segments included. */
  get all() {
    const held = [...this.#lines.values()].map(({ segmenter }) => segmenter.held).filter(({ length }) => length);
    const unfinished = held.map((words) => segment([...words]));
    return [...this.segments, ...unfinished].sort((one, other) => one.start - other.start);
  }

  get words() {
    return this.all.flatMap(({ words }) => words);
  }

  get text() {
    return this.all.map(({ text }) => text).join("").trim();
  }
}
