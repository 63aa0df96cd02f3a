// Plays the recordings that were opened as files, from where a word of the transcript was said. It has the files as long
// as the page is open; microphone and tab are not kept.

import { RATE } from "./sound.js";

const PATIENCE_MS = 5000;

/** How many seconds a file has, or null if this browser cannot play it. */
export function lengthOf(file) {
  const url = URL.createObjectURL(file);
  return new Promise((resolve) => {
    const audio = new Audio();
    audio.onloadedmetadata = () => resolve(audio.duration);
    audio.onerror = () => resolve(null);
    setTimeout(resolve, PATIENCE_MS, null);
    audio.src = url;
  }).finally(() => URL.revokeObjectURL(url));
}

export class Player {
  #clips = []; // { at, url, name }: from sample `at` of the transcript on, it is of this file
  #clip = null;

  /** `onPosition` is given the sample of the transcript that is heard, or null at the end. */
  constructor({ box, audio, name, onPosition }) {
    Object.assign(this, { box, audio, name, onPosition });
    audio.addEventListener("play", () => this.#follow());
    audio.addEventListener("seeked", () => this.onPosition(this.#position));
    audio.addEventListener("ended", () => this.onPosition(null));
  }

  /** From sample `at` of the transcript on, it is of this file. */
  add(file, at) {
    this.#clips.push({ at, url: URL.createObjectURL(file), name: file.name });
    this.#load(this.#clips.at(-1));
    this.box.hidden = false;
  }

  /** Play from a sample of the transcript on. */
  playFrom(sample) {
    const clip = this.#clips.findLast(({ at }) => at <= sample);
    if (!clip) return;
    if (clip !== this.#clip) this.#load(clip);
    this.audio.currentTime = (sample - clip.at) / RATE;
    this.audio.play().catch(({ name }) => name === "AbortError" || this.onPosition(null)); // another click came first
  }

  pause() {
    this.audio.pause();
    this.onPosition(null);
  }

  clear() {
    this.audio.removeAttribute("src");
    this.audio.load();
    for (const { url } of this.#clips) URL.revokeObjectURL(url);
    this.#clips = [];
    this.#clip = null;
    this.box.hidden = true;
  }

  get #position() {
    return this.#clip && this.#clip.at + Math.round(this.audio.currentTime * RATE);
  }

  #load(clip) {
    this.#clip = clip;
    this.audio.src = clip.url;
    this.name.textContent = clip.name;
  }

  #follow() {
    cancelAnimationFrame(this.frame);
    if (this.audio.paused) return;
    this.onPosition(this.#position);
    this.frame = requestAnimationFrame(() => this.#follow());
  }
}
