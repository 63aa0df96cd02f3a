// Sample rate conversion of a stream: any whole rate to another, by a windowed-sinc filter in phases.
//
// The same class runs in the audio worklet, so it allocates little and knows nothing of the page. Chunks do not matter:
// what comes out is the same however the input was cut.

const CROSSINGS = 24; // zero crossings of the sinc on each side, at the lower of the two rates
const ROLL_OFF = 0.94; // of the lower Nyquist frequency: the rest is the filter's transition band

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

export class Resampler {
  constructor(from, to) {
    const common = gcd(from, to);
    this.up = to / common; // phases of the filter
    this.down = from / common; // phases from one output sample to the next
    this.half = Math.ceil(CROSSINGS * Math.max(1, from / to)); // input samples on each side
    this.filters = this.up === this.down ? null : makeFilters(this.up, this.half, Math.min(1, to / from) * ROLL_OFF);
    this.held = new Float32Array(this.half); // before the first sample there was silence
    this.phase = 0; // where the next output sample lies after held[half], in 1/up input samples
  }

  /** The next input samples -> the output samples that they complete. */
  push(input) {
    if (!this.filters) return input.slice();
    const data = new Float32Array(this.held.length + input.length);
    data.set(this.held);
    data.set(input, this.held.length);
    const last = data.length - this.half; // the first place whose filter would reach beyond the data
    const count = Math.max(0, Math.ceil((last - this.half) * this.up - this.phase) / this.down);
    const output = new Float32Array(Math.ceil(count));
    let phase = this.phase;
    for (let index = 0; index < output.length; index++) {
      const whole = Math.floor(phase / this.up);
      output[index] = dot(this.filters[phase - whole * this.up], data, whole);
      phase += this.down;
    }
    const done = Math.min(Math.floor(phase / this.up), data.length);
    this.held = data.slice(done);
    this.phase = phase - done * this.up;
    return output;
  }

  /** What the filter still holds, at the end. */
  flush() {
    return this.filters ? this.push(new Float32Array(this.half)) : new Float32Array(0);
  }
}

function dot(filter, data, start) {
  let sum = 0;
  for (let tap = 0; tap < filter.length; tap++) sum += filter[tap] * data[start + tap];
  return sum;
}

/** One filter per phase: [up][2 * half] with gain 1 at 0 Hz; tap k of phase p is k - half - p / up samples away. */
function makeFilters(up, half, cutoff) {
  return Array.from({ length: up }, (_, phase) => {
    const filter = new Float32Array(2 * half);
    let sum = 0;
    for (let tap = 0; tap < filter.length; tap++) {
      const distance = tap - half - phase / up;
      filter[tap] = sinc(cutoff * distance) * window(distance / half);
      sum += filter[tap];
    }
    return filter.map((value) => value / sum);
  });
}

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

// Blackman's window, 0 beyond -1 and 1
const window = (x) => (Math.abs(x) >= 1 ? 0 : 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x));
