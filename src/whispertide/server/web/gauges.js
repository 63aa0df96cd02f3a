// The small displays: how loud it is, how long it runs, how far the words are behind.

import { clock } from "./captions.js";
import { RATE } from "./sound.js";

const BARS = 24;
const FLOOR_DB = -60;
const REMEMBERED = 20; // words that the delay is the median of

export class Gauges {
  #levels = new Array(BARS).fill(0);
  #delays = [];

  constructor({ canvas, time, delay, button }) {
    Object.assign(this, { canvas, time, delay, button });
  }

  reset() {
    this.#levels.fill(0);
    this.#delays = [];
    this.delay.textContent = "";
    this.button.style.setProperty("--level", 0);
    this.draw();
  }

  /** The newest samples, and where in the transcript they end. */
  heard(samples, position) {
    let sum = 0;
    for (const sample of samples) sum += sample * sample;
    const db = 10 * Math.log10(sum / samples.length / 32768 ** 2 + 1e-12);
    const level = Math.max(0, Math.min(1, 1 - db / FLOOR_DB));
    this.#levels.push(level);
    this.#levels.shift();
    this.button.style.setProperty("--level", level.toFixed(3));
    this.time.textContent = clock(position);
    this.draw();
  }

  /** Words were confirmed when `total` samples had been heard; `ends` is where each ends, in samples. */
  confirmed(ends, total) {
    this.#delays.push(...ends.map((end) => Math.max(0, total - end) / RATE));
    this.#delays.splice(0, this.#delays.length - REMEMBERED);
    const sorted = [...this.#delays].sort((a, b) => a - b);
    if (sorted.length) this.delay.textContent = `${sorted[sorted.length >> 1].toFixed(1)} s`;
  }

  draw() {
    const { canvas } = this;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
    if (!width) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    context.fillStyle = getComputedStyle(canvas).color;
    const step = width / BARS;
    this.#levels.forEach((level, index) => {
      const tall = Math.max(3 * scale, level * height);
      context.globalAlpha = 0.35 + 0.65 * (index / BARS);
      context.beginPath();
      context.roundRect(index * step + step * 0.2, (height - tall) / 2, step * 0.6, tall, step * 0.3);
      context.fill();
    });
  }
}
