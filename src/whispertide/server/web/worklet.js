// In the audio thread: the device's samples -> 16 kHz 16-bit, in messages of a tenth of a second: the mean of all
// channels, or some of them apart.

import { Resampler } from "./resampler.js";
import { mono, RATE, toInt16 } from "./sound.js";

const PORTION = RATE / 10;

class Capture extends AudioWorkletProcessor {
  /** `apart`: how many channels; 1 is the mean of all. */
  constructor({ processorOptions: { apart } }) {
    super();
    const each = (make) => Array.from({ length: apart }, make);
    this.resamplers = each(() => new Resampler(sampleRate, RATE));
    this.portions = each(() => new Int16Array(PORTION));
    this.filled = 0;
    this.running = true;
    this.port.onmessage = () => this.finish();
  }

  process([channels]) {
    if (channels.length && this.running) {
      const kept = this.resamplers.length > 1 ? channels : [mono(channels)];
      this.take(this.resamplers.map((resampler, index) => resampler.push(kept[index])));
    }
    return this.running;
  }

  /** As many samples of each channel. */
  take(channels) {
    for (let at = 0; at < channels[0].length; at++) {
      for (let index = 0; index < channels.length; index++) this.portions[index][this.filled] = toInt16(channels[index][at]);
      if (++this.filled === PORTION) this.send();
    }
  }

  send() {
    const samples = this.portions.map((portion) => portion.slice(0, this.filled));
    this.filled = 0;
    this.port.postMessage(samples, samples.map(({ buffer }) => buffer));
  }

  /** The page wants no more: the rest, then an empty portion as the last. */
  finish() {
    if (!this.running) return;
    this.take(this.resamplers.map((resampler) => resampler.flush()));
    if (this.filled) this.send();
    this.send();
    this.running = false;
  }
}

registerProcessor("capture", Capture);
