// The transcript over a reload: kept in the tab, gone when the tab closes. Never on the server, never in another tab.

const KEY = "whispertide.transcript";
const EVERY_MS = 3000;

export class TabStorage {
  #timer = null;
  #full = false;

  /** `data` gives what is to be kept, or null where there is nothing; `onFull` hears when there is no room for it. */
  constructor(data, onFull) {
    Object.assign(this, { data, onFull });
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
      this.#full = false;
    } catch ({ name }) {
      // Where it is forbidden a reload forgets the transcript; where it is full the newest part, which is told once.
      if (name !== "QuotaExceededError" || this.#full) return;
      this.#full = true;
      this.onFull();
    }
  }
}
