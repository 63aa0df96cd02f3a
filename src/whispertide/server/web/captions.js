// The transcript on the screen: paragraphs of confirmed words, the guess after them, and the big captions.
//
// Screen readers hear confirmed phrases from a live region of their own, each once; the visible words can be read at
// leisure, and the guess, which changes all the time, is hidden from them.

import { RATE } from "./sound.js";
import { endsSentence, goesOn } from "./transcript.js";

const NEAR_END = 120; // pixels from the end within which the view follows the words
const HEARD = 3; // phrases that stay in the live region
const BIG_WORDS = 60;
const VOICES = 8; // colours; a ninth voice has the first one's again

export function clock(samples, digits = 0) {
  const seconds = samples / RATE;
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds - 60 * minutes).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  const hours = Math.floor(minutes / 60);
  return hours ? `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The pause in seconds that ends a paragraph `age` seconds long: in a sentence only a long one. */
function pauseFor(age, sentenceOver) {
  if (!sentenceOver) return 2.5;
  if (age < 40) return 1.5;
  return age < 80 ? 0.5 : 0; // somebody who never pauses gets paragraphs all the same
}

function isNewParagraph(word, { start, end, last, speaker }) {
  if (!last) return true; // it began with a guess, at another time
  if (word.speaker !== speaker && !goesOn(word.text)) return true;
  return word.start - end >= pauseFor((end - start) / RATE, endsSentence(last)) * RATE;
}

const spaced = (text) => (/^\s/u.test(text) ? " " : "");

export class Captions {
  #lines = new Map(); // by channel: { paragraph: { row, start, end, last, speaker } or null, guess }
  #paragraphs = []; // all of them
  #words = []; // { start, span }
  #marked = null;
  #origin = 0; // where the present recording begins: its own clock counts from there
  #playable = false; // the present recording is a file that can be played
  #source = null; // the row with the present file's name
  #bigGuess = element("span", "guess");
  #bigSpeaker = null; // whose words the newest big ones are
  #following = true;

  /**
   * `play` is given the sample where a word or paragraph begins that was clicked and can be played; `nameOf` gives the
   * name of a voice, and `rename` is given its number and the name that the user typed.
   */
  constructor({ scroller, list, log, big, bigSecond, jump, play, nameOf, rename }) {
    Object.assign(this, { scroller, list, log, big, bigSecond, jump, play, nameOf, rename });
    this.big.append(this.#bigGuess);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    jump.addEventListener("click", () => this.#follow());
    list.addEventListener("click", ({ target }) => this.#clicked(target));
    list.addEventListener("change", ({ target }) => this.#named(target));
    new ResizeObserver(() => this.#following && this.#toEnd()).observe(list);
  }

  /** The code of the language of the words, or null: so that screen readers pronounce them right. */
  setLanguage(code) {
    for (const part of [this.list, this.log, this.big]) part.lang = code ?? "";
  }

  /** Words that will not change. Where channels are apart, those of one go on in a line of their own. */
  add(words, channel) {
    this.show(words, channel);
    this.announce(words.map((word) => word.text).join("").trim());
  }

  /** The same without a word to screen readers. */
  show(words, channel) {
    for (const word of words) this.#addWord(word, this.#line(channel));
    this.#trimBig();
  }

  /** Say something to screen readers alone. */
  announce(text) {
    if (!text) return;
    this.log.append(paragraph(text));
    while (this.log.children.length > HEARD) this.log.firstChild.remove();
  }

  /** Mark the word that is heard at a sample; null: none. The view follows as long as the last one was in it. */
  mark(sample) {
    const found = sample === null ? null : this.#words.findLast(({ start }) => start <= sample);
    if (found === this.#marked) return;
    const followed = this.#marked && this.#isInView(this.#marked.span);
    this.#marked?.span.classList.remove("heard");
    found?.span.classList.add("heard");
    this.#marked = found;
    if (found && followed) found.span.scrollIntoView({ block: "nearest" });
  }

  /** The words that may still change. */
  showGuess(words, channel) {
    const line = this.#line(channel);
    const text = words.map((word) => word.text).join("");
    if (!text && !line.paragraph?.last) this.#close(line); // the guess came to nothing
    if (text && !line.paragraph) this.#newParagraph(line, words[0].start, words[0].speaker);
    line.guess.textContent = text;
    this.#bigGuess.textContent = [...this.#lines.values()].map(({ guess }) => guess.textContent).join("");
  }

  #line(channel = 0) {
    if (!this.#lines.has(channel)) {
      const guess = element("span", "guess");
      guess.setAttribute("aria-hidden", "true");
      this.#lines.set(channel, { paragraph: null, guess });
    }
    return this.#lines.get(channel);
  }

  /** All of a transcript that was kept. */
  showAll({ words, others, recordings, names }) {
    const starts = recordings.map((at, index) => ({ at, name: names[index] }));
    for (const word of words) {
      while (starts[0]?.at <= word.start) this.begin(starts.shift());
      this.show([word]);
    }
    for (const other of others) this.translate(other);
  }

  /** A translation, or a correction, of the sentence that begins at a sample: a line under its paragraph. `speaker` is
   *  that of its words, where it is known. */
  translate({ start, text, language, speaker }) {
    const possible = speaker == null ? this.#paragraphs : this.#paragraphs.filter((one) => one.speaker === speaker);
    const found = possible.findLast((one) => one.start <= start) ?? possible[0];
    if (!found) return;
    found.second ??= Object.assign(element("p", "second"), { dir: "auto" });
    if (!found.second.isConnected) found.row.append(found.second);
    const part = element("span", "", found.second.hasChildNodes() ? ` ${text}` : text);
    part.lang = this.bigSecond.lang = language ?? "";
    found.second.append(part);
    this.bigSecond.replaceChildren(...(speaker == null ? [] : [speakerName(speaker, this.nameOf(speaker))]), text);
  }

  /** Of one channel, or of all. */
  endTurn(channel) {
    for (const each of channel === undefined ? [...this.#lines.keys()] : [channel]) this.showGuess([], each);
  }

  /** A recording begins at a sample; `playable` if it is a file that can be played, which its `name` stands above. */
  begin({ at = 0, playable = false, name = "" } = {}) {
    this.endTurn();
    this.#origin = at;
    this.#playable = playable;
    for (const line of this.#lines.values()) this.#close(line);
    if (name) {
      this.#source = element("li", "source");
      this.#source.append(element("strong", "", name));
      this.list.append(this.#source);
    }
    this.#follow();
  }

  /** What there is to say of the present file, after its name. */
  remark(text) {
    this.#source.append(` · ${text}`);
  }

  clear() {
    this.#origin = 0;
    this.list.replaceChildren();
    this.log.replaceChildren();
    this.big.replaceChildren(this.#bigGuess);
    this.#marked = this.#bigSpeaker = null;
    this.#lines.clear();
    this.#words = [];
    this.#paragraphs = [];
    this.bigSecond.textContent = this.#bigGuess.textContent = "";
  }

  #addWord(word, line) {
    const { text } = word;
    if (isNewParagraph(word, line.paragraph ?? {})) this.#close(line);
    if (!line.paragraph) this.#newParagraph(line, word.start, word.speaker);
    const { paragraph, guess } = line;
    const span = element("span", "word", text.trim());
    const sure = typeof word.probability === "number" ? ` · ${Math.round(100 * word.probability)} %` : "";
    span.dataset.tip = `${clock(word.start - this.#origin, 1)} – ${clock(word.end - this.#origin, 1)}${sure}`;
    if (typeof word.probability === "number" && word.probability < 0.2) span.classList.add("unsure");
    if (paragraph.last || !spaced(text)) guess.before(spaced(text));
    guess.before(span);
    this.#words.push({ start: word.start, span });
    Object.assign(paragraph, { last: text.trim(), end: word.end });
    this.#addBig(text, paragraph.speaker); // the rest of a word is its first part's
  }

  /** In the big captions a voice's name stands before its words. */
  #addBig(text, speaker) {
    const isOther = speaker != null && speaker !== this.#bigSpeaker;
    this.#bigGuess.before(...(isOther ? [speakerName(speaker, this.nameOf(speaker))] : []), element("span", "", text));
    this.#bigSpeaker = speaker;
  }

  #newParagraph(line, start, speaker) {
    const row = element("li", this.#playable ? "paragraph playable" : "paragraph");
    const time = element("time", "", clock(start - this.#origin));
    const text = paragraph();
    text.append(line.guess);
    row.append(this.#playable ? playButton(time) : time, text);
    if (speaker != null) {
      row.dataset.voice = colourOf(speaker);
      row.insertBefore(nameField(speaker, this.nameOf(speaker)), text);
    }
    this.list.append(row);
    line.paragraph = { row, start, end: start, last: "", speaker };
    this.#paragraphs.push(line.paragraph);
  }

  /** The user gave a voice a name, wherever it stands. */
  #named({ dataset: { speaker }, value }) {
    if (!speaker) return;
    this.rename(Number(speaker), value.trim());
    for (const field of this.list.querySelectorAll(`input[data-speaker="${speaker}"]`)) {
      field.value = this.nameOf(Number(speaker));
    }
    for (const shown of [this.big, this.bigSecond]) nameAll(shown, this.nameOf);
  }

  #clicked(target) {
    const row = target.closest(".playable");
    if (!row || !getSelection().isCollapsed) return; // somebody selects text
    const chosen = target.closest(".word") ?? (target.closest("button") && row.querySelector(".word"));
    const word = this.#words.find(({ span }) => span === chosen);
    if (word) this.play(word.start);
  }

  #isInView(span) {
    const [inner, outer] = [span.getBoundingClientRect(), this.scroller.getBoundingClientRect()];
    return inner.bottom > outer.top && inner.top < outer.bottom;
  }

  #close(line) {
    const { paragraph } = line;
    if (paragraph && !paragraph.last) {
      paragraph.row.remove();
      this.#paragraphs = this.#paragraphs.filter((one) => one !== paragraph);
    }
    line.paragraph = null;
  }

  #trimBig() {
    while (this.big.children.length > BIG_WORDS) this.big.firstChild.remove();
  }

  // --- following the words ------------------------------------------------------------------------------------------

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.#following = scrollHeight - scrollTop - clientHeight < NEAR_END;
    this.jump.hidden = this.#following;
  }

  #follow() {
    this.#following = true;
    this.#toEnd();
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

/** The name of a voice, which can be typed. */
function nameField(speaker, name) {
  const field = Object.assign(element("input", "voice"), { value: name, maxLength: 40, spellcheck: false, dir: "auto" });
  field.dataset.speaker = speaker;
  field.setAttribute("aria-label", `Name of speaker ${speaker}`);
  return field;
}

const colourOf = (speaker) => 1 + ((speaker - 1) % VOICES);

/** A voice's name before its words. */
export function speakerName(speaker, name) {
  const label = element("span", "speaker", `${name}: `);
  label.dir = "auto"; // so that the words after it decide about the paragraph's direction
  Object.assign(label.dataset, { speaker, voice: colourOf(speaker) });
  return label;
}

/** Voices got other names; one that has none keeps what it has. */
export function nameAll(within, nameOf) {
  for (const label of within.querySelectorAll(".speaker[data-speaker]")) {
    const name = nameOf(Number(label.dataset.speaker));
    if (name && label.textContent !== `${name}: `) label.textContent = `${name}: `;
  }
}

/** The words are no buttons, there are too many of them: with the keyboard one plays from a paragraph on. */
function playButton(time) {
  const button = element("button", "from");
  button.setAttribute("aria-label", `Play from ${time.textContent}`);
  button.append(time);
  return button;
}

/** Written from the right where its words are. */
function paragraph(text = "") {
  return Object.assign(element("p", "", text), { dir: "auto" });
}

export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}
