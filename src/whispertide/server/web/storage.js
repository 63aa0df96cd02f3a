// The transcript over a reload: kept in the tab, gone when the tab closes. Never on the server, never in another tab.

const KEY = "whispertide.transcript";
const EVERY_MS = 3000;

export class TabStorage {
  #timer = null;

  /** `data` gives what is to be kept, or null where there is nothing. */
  constructor(data) {
    this.data = data;
    addEventListener("pagehide", () => this.#write());
  }

  /** Something changed. It is kept soon, for the case of a crash, and at once when the page goes. */
  changed() {
    this.#timer ??= setTimeout(() => this.#write(), EVERY_MS);
  }

  /** What was kept, or null. */
  read() {
    try {
      return JSON.parse(sessionStorage.getItem(KEY));
    } catch {
      return null;
    }
  }

  #write() {
    clearTimeout(this.#timer);
    this.#timer = null;
    const data = this.data();
    try {
      if (data) sessionStorage.setItem(KEY, JSON.stringify(data));
      else sessionStorage.removeItem(KEY);
    } catch {
      // full, or forbidden: then a reload forgets the transcript, as before
    }
  }
}
