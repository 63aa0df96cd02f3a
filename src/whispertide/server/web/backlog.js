// Audio that may have to be sent (again): everything from the first sample that is still needed to the newest one.

export class Backlog {
  start = 0; // position of the first sample that is kept
  end = 0;
  #portions = []; // { at, samples }

  push(samples) {
    this.#portions.push({ at: this.end, samples });
    this.end += samples.length;
  }

  /** At most `count` samples from `position` on. Throws `RangeError` for what is not kept. */
  read(position, count) {
    if (position < this.start || position > this.end) {
      throw new RangeError(`expected a position from ${this.start} to ${this.end}; got ${position}`);
    }
    const length = Math.min(count, this.end - position);
    const result = new Int16Array(length);
    let filled = 0;
    for (let index = this.#find(position); filled < length; index++) {
      const { at, samples } = this.#portions[index];
      const from = position + filled - at;
      const part = samples.subarray(from, from + length - filled);
      result.set(part, filled);
      filled += part.length;
    }
    return result;
  }

  /** What lies before `position` is not needed any more. Whole portions are dropped. */
  drop(position) {
    let count = 0;
    while (count < this.#portions.length && endOf(this.#portions[count]) <= position) count++;
    if (!count) return;
    this.start = endOf(this.#portions[count - 1]);
    this.#portions.splice(0, count);
  }

  #find(position) {
    let low = 0;
    let high = this.#portions.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (endOf(this.#portions[middle]) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const endOf = ({ at, samples }) => at + samples.length;
