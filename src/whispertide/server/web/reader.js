// Reads a session's captions from the server, over as many connections as it takes (docs/reference/server.md: watching).

const PAUSES_MS = [500, 1000, 2000, 4000, 8000];
const SILENT_MS = 40000; // the server says something every 15 seconds: the connection is dead
const REVOKED = 4003;
const TICK_MS = 1000;

/** Says "text" (one message) and "state" (connecting, reading, away, absent, over). */
export class Reader extends EventTarget {
  state = "connecting";
  #url;
  #run = "";
  #position = -1;
  #socket = null;
  #attempts = 0;
  #heardAt = 0;
  #retry = null;

  /** `address` is that of the page. */
  constructor(address) {
    super();
    this.#url = new URL(address);
    this.#url.protocol = this.#url.protocol.replace("http", "ws");
    this.#url.search = this.#url.hash = "";
    setInterval(() => this.#check(), TICK_MS);
    addEventListener("online", () => this.#connectNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.#check());
    this.#connect();
  }

  #connect() {
    this.#retry = null;
    const url = new URL(this.#url);
    if (this.#run) {
      url.searchParams.set("run", this.#run);
      url.searchParams.set("position", this.#position);
    }
    const socket = (this.#socket = new WebSocket(url));
    let opened = false;
    this.#heardAt = performance.now();
    socket.onopen = () => (opened = true);
    socket.onmessage = ({ data }) => socket === this.#socket && this.#take(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#lost(opened, code);
  }

  #take(message) {
    this.#heardAt = performance.now();
    this.#attempts = 0;
    if (message.type !== "text") return; // of a later server
    this.#become("reading");
    const { run, start, end } = message;
    const follows = run === this.#run && start === this.#position;
    Object.assign(message, { follows, isNewRun: run !== this.#run });
    [this.#run, this.#position] = [run, end];
    this.dispatchEvent(new CustomEvent("text", { detail: message }));
  }

  #lost(opened, code) {
    this.#socket = null;
    if (code === REVOKED) return this.#become("over");
    this.#become(opened || this.state === "away" ? "away" : "absent");
    const pause = PAUSES_MS[Math.min(this.#attempts++, PAUSES_MS.length - 1)];
    this.#retry = setTimeout(() => this.#connect(), pause * (0.6 + 0.8 * Math.random())); // not all at once
  }

  #connectNow() {
    if (this.#retry === null) return;
    clearTimeout(this.#retry);
    this.#connect();
  }

  #check() {
    const socket = this.#socket;
    if (!socket || performance.now() - this.#heardAt < SILENT_MS) return;
    this.#lost(socket.readyState === WebSocket.OPEN, 0);
    socket.close();
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}
