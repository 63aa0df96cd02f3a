// The transcript on the screen: paragraphs of confirmed words, the guess behind them, and the big captions.
//
// Screen readers hear confirmed phrases from a live region of their own, each once; the visible words can be read at
// leisure, and the guess, which changes all the time, is hidden from them.

const NEAR_END = 120; // pixels from the end within which the view follows the words
const HEARD = 3; // phrases that stay in the live region
const PARAGRAPH_S = 40; // then the next sentence begins a paragraph
const BIG_WORDS = 60;
const RATE = 16000;

export function clock(samples, digits = 0) {
  const seconds = samples / RATE;
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds - 60 * minutes).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  const hours = Math.floor(minutes / 60);
  return hours ? `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

const spaced = (text) => (/^\s/u.test(text) ? " " : "");

export class Captions {
  #paragraph = null; // { text, start, closed }
  #guess = element("span", "guess");
  #bigGuess = element("span", "guess");
  #following = true;

  constructor({ scroller, list, log, big, jump }) {
    Object.assign(this, { scroller, list, log, big, jump });
    this.#guess.setAttribute("aria-hidden", "true");
    this.big.append(this.#bigGuess);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    jump.addEventListener("click", () => this.#follow());
    new ResizeObserver(() => this.#following && this.#toEnd()).observe(list);
  }

  /** Words that will not change. */
  add(words) {
    for (const word of words) this.#addWord(word);
    this.#announce(words.map((word) => word.text).join("").trim());
    this.#trimBig();
  }

  /** The words that may still change. */
  showGuess(words) {
    const text = words.map((word) => word.text).join("");
    if (text && !this.#paragraph) this.#newParagraph(words[0].start);
    this.#guess.textContent = text;
    this.#bigGuess.textContent = text;
  }

  endTurn() {
    this.showGuess([]);
    if (this.#paragraph) this.#paragraph.pause = true;
  }

  /** A recording begins. */
  begin() {
    this.endTurn();
    this.#close();
    this.#follow();
  }

  clear() {
    this.list.replaceChildren();
    this.log.replaceChildren();
    this.big.replaceChildren(this.#bigGuess);
    this.#paragraph = null;
    this.showGuess([]);
  }

  #addWord(word) {
    const { text } = word;
    const open = this.#paragraph;
    const sentenceOver = open && /[.?!…。？！]["'”’»)\]]*$/u.test(open.last ?? "");
    const long = open && word.start - open.start > PARAGRAPH_S * RATE;
    if (open?.last && ((long && (sentenceOver || open.pause)) || word.start - open.end > 2.5 * RATE)) this.#close();
    if (!this.#paragraph) this.#newParagraph(word.start);
    const paragraph = this.#paragraph;
    const span = element("span", "word", text.trim());
    const sure = typeof word.probability === "number" ? ` · ${Math.round(100 * word.probability)} %` : "";
    span.dataset.time = `${clock(word.start, 1)} – ${clock(word.end, 1)}${sure}`;
    if (typeof word.probability === "number" && word.probability < 0.2) span.classList.add("unsure");
    if (paragraph.last || !spaced(text)) this.#guess.before(spaced(text));
    this.#guess.before(span);
    Object.assign(paragraph, { last: text.trim(), end: word.end, pause: false });
    this.#bigGuess.before(element("span", "said", text));
  }

  #newParagraph(start) {
    const row = element("li", "paragraph");
    const time = element("time", "", clock(start));
    const text = element("p");
    text.append(this.#guess);
    row.append(time, text);
    this.list.append(row);
    this.#paragraph = { start, end: start, last: "", pause: false, row };
  }

  #close() {
    if (this.#paragraph && !this.#paragraph.last) this.#paragraph.row.remove();
    this.#paragraph = null;
  }

  #announce(text) {
    if (!text) return;
    this.log.append(element("p", "", text));
    while (this.log.children.length > HEARD) this.log.firstChild.remove();
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

export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}
