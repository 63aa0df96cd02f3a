// In the audio thread: the device's samples -> 16 kHz mono 16-bit, in messages of a tenth of a second.

import { Resampler } from "./resampler.js";
import { mono, RATE, toInt16 } from "./sound.js";

const PORTION = RATE / 10;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate, RATE);
    this.portion = new Int16Array(PORTION);
    this.filled = 0;
    this.running = true;
    this.port.onmessage = () => this.finish();
  }

  process([channels]) {
    if (channels.length && this.running) this.take(this.resampler.push(mono(channels)));
    return this.running;
  }

  take(samples) {
    for (const sample of samples) {
      this.portion[this.filled++] = toInt16(sample);
      if (this.filled === PORTION) this.send();
    }
  }

  send() {
    const samples = this.portion.slice(0, this.filled);
    this.filled = 0;
    this.port.postMessage(samples, [samples.buffer]);
  }

  /** The page wants no more: the rest, then an empty portion as the last. */
  finish() {
    if (!this.running) return;
    this.take(this.resampler.flush());
    if (this.filled) this.send();
    this.send();
    this.running = false;
  }
}

registerProcessor("capture", Capture);
