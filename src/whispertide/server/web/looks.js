// What the page to watch looks like, by its address: ?background=transparent&lines=2&size=1.5&text=ffe000

const COLOURS = ["text", "guess", "plate", "background"];
const STRIP = { lines: "3", plate: "rgb(0 0 0 / 72%)" }; // what differs without a background: only captions are seen
const CHOICES = { position: ["bottom", "middle", "top"], align: ["left", "center"] };
const NUMBERS = { size: [0.3, 5], lines: [1, 20], hide: [1, 3600] };

/** OBS's own browser shows what lies below; others show the background. */
const inObs = () => "obsstudio" in window;

export class Looks {
  problems = []; // what the address asks for and cannot have, in words
  #values = {};

  constructor(query, isOverlay = inObs()) {
    for (const [name, value] of new URLSearchParams(query)) this.#take(name, value);
    const { background } = this.#values;
    this.isOverlay = background === undefined ? isOverlay : background === "transparent";
    this.#values = { ...(this.isOverlay ? { ...STRIP, background: "transparent" } : { lines: "all" }), ...this.#values };
  }

  /** Whether there are some lines, and not a page of text. */
  get isStrip() {
    return this.#values.lines !== "all";
  }

  get showsGuess() {
    return this.#values.guess !== "none";
  }

  get size() {
    return Number(this.#values.size ?? 1);
  }

  /** How long captions stay that nothing follows, in seconds. */
  get hideAfter() {
    return Number(this.#values.hide ?? Infinity);
  }

  applyTo(root) {
    for (const name of [...COLOURS, "size", "lines"]) {
      const value = this.#values[name];
      if (value && value !== "all") root.style.setProperty(`--${name}`, value === "none" ? "transparent" : value);
    }
    root.classList.add(this.isStrip ? "strip" : "page");
    root.classList.toggle("overlay", this.isOverlay);
    root.classList.toggle("bare", this.isOverlay && ["none", "transparent"].includes(this.#values.plate));
    for (const name of Object.keys(CHOICES)) if (this.#values[name]) root.dataset[name] = this.#values[name];
  }

  #take(name, text) {
    const value = COLOURS.includes(name) ? colour(text) : text.trim();
    const expected = expectedFor(name, value);
    if (expected) this.problems.push(`expected ${expected}; got ${name}=${text}`);
    else this.#values[name] = value;
  }
}

/** A # would end the address, so hexadecimal colours come without. */
function colour(text) {
  const value = text.trim().toLowerCase();
  return /^([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/.test(value) ? `#${value}` : value;
}

/** What is expected in place of a value; nothing where it is good. */
function expectedFor(name, value) {
  if (COLOURS.includes(name)) {
    const good = (value === "none" && name !== "text") || CSS.supports("color", value);
    return good ? "" : `${name} to be a colour such as ffe000 or white`;
  }
  if (name in CHOICES) return CHOICES[name].includes(value) ? "" : `${name} among ${CHOICES[name].join(", ")}`;
  if (name === "lines" && value === "all") return "";
  if (!(name in NUMBERS)) return `options among ${[...COLOURS, ...Object.keys(CHOICES), ...Object.keys(NUMBERS)].join(", ")}`;
  const [least, most] = NUMBERS[name];
  const good = value !== "" && Number(value) >= least && Number(value) <= most && (name !== "lines" || /^\d+$/.test(value));
  return good ? "" : `${name} from ${least} to ${most}`;
}
