// Files that are read one after another: which are left, and which could not be read.

const OF_FILE = new Set(["file", "file-large", "file-unreadable"]);

/** Whether it is a problem of one file, and of none other. */
export function isOfFile(problem) {
  return OF_FILE.has(problem.kind);
}

export class Batch {
  #count;
  #unread = [];

  constructor(files) {
    this.files = [...files]; // that are left
    this.#count = files.length;
  }

  take() {
    return this.files.shift();
  }

  /** The names of those that could not be read, this one among them; none where there are not several. */
  unread(name, problem) {
    if (this.#count < 2 || !isOfFile(problem)) return [];
    this.#unread.push(name);
    return this.#unread;
  }
}
