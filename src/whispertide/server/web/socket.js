// One stay at the server, over as many connections as it takes (docs/reference/server.md: the native protocol).
//
// Audio is kept until the server has it, and longer: until the words in it are confirmed. So nothing is lost when the
// connection goes (the session is resumed: audio from where the server says, events after the last one seen), when the
// session itself is gone (a new one gets the audio from the last confirmed word on), or when it got too long.

import { Backlog } from "./backlog.js";
import { Problem } from "./problems.js";
import { CONNECT_MS } from "./server.js";
import { RATE } from "./sound.js";

const PORTION = RATE / 2; // samples in one message
const IN_FLIGHT = 2 * PORTION * 4; // bytes handed to the socket that it has not sent
const KEPT = 600 * RATE; // received but unconfirmed audio, at most
const PAUSES_MS = [250, 500, 1000, 2000, 4000];
const SILENT_MS = 20000; // audio goes out and nothing comes back: the connection is dead
const ACK_MS = 1000;
const TICK_MS = 100;

/** Says "state" (connecting, live, away, finishing, ended, failed), "hello" (what the server offers, which may be another),
 *  "event" (one event), "forget" (the guess is void) and "unshared" (viewers can no longer read the captions). */
export class LiveSession extends EventTarget {
  state = "connecting";
  backlog = new Backlog();
  details = null; // what the server said about the session

  #server;
  #settings;
  #socket = null;
  #id = null;
  #lastSeq = -1;
  #origin = 0; // position in the backlog of the server session's first sample
  #sent = 0;
  #received = 0;
  #settled = 0; // words before this are confirmed
  #attempts = 0;
  #greeted = false; // some connection stood
  #finishing = false;
  #finishSent = false;
  #acknowledged = -1;
  #retold = 0; // words before this come again, and stand here already
  #heardAt = 0;
  #timers = [];
  #retry = null;
  #deadline = null; // until when a connection is to have the session

  /** `server` is where to connect to; `settings` gives the fields of the start message, after a "hello". */
  constructor(server, settings) {
    super();
    this.#server = server;
    this.#settings = settings;
    this.#timers.push(setInterval(() => this.#pump(), TICK_MS), setInterval(() => this.#acknowledge(), ACK_MS));
    this.online = () => this.#reconnectNow();
    this.offline = () => this.#hangUp();
    addEventListener("online", this.online);
    addEventListener("offline", this.offline);
    this.#connect();
  }

  /** Int16Array, 16 kHz mono. */
  push(samples) {
    if (this.#finishing || this.isOver) return;
    this.backlog.push(samples);
    this.#pump();
  }

  /** No audio follows; the state is "ended" once the last word is there. */
  finish() {
    if (this.#finishing || this.isOver) return;
    this.#finishing = true;
    if (this.state === "live") this.#become("finishing");
    this.#pump();
  }

  /** Leave without the rest. */
  abandon() {
    this.#say({ type: "abandon" });
    this.#end("ended");
  }

  get isOver() {
    return this.state === "ended" || this.state === "failed";
  }

  // --- connection ---------------------------------------------------------------------------------------------------

  #connect() {
    this.#retry = null;
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#hangUp(), CONNECT_MS);
    const socket = this.#server.connect(this.#id ? { session: this.#id, last_seq: this.#lastSeq } : {});
    socket.binaryType = "arraybuffer";
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.#greeted = true;
      this.#heardAt = performance.now();
    };
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(data));
    socket.onclose = () => socket === this.#socket && this.#lost(opened);
    this.#socket = socket;
  }

  async #lost(opened) {
    this.#socket = null;
    clearTimeout(this.#deadline);
    if (this.isOver) return;
    if (!opened) {
      const problem = await this.#server.whyRefused();
      if (this.isOver) return;
      if (!this.#greeted || problem.kind === "key") return this.#fail(problem);
    }
    this.#become("away");
    const pause = PAUSES_MS[Math.min(this.#attempts++, PAUSES_MS.length - 1)];
    this.#retry ??= setTimeout(() => this.#connect(), pause * (0.8 + 0.4 * Math.random()));
  }

  #reconnectNow() {
    if (this.#retry === null && this.#socket?.readyState !== WebSocket.CONNECTING) return;
    clearTimeout(this.#retry);
    this.#socket?.close(); // it waits for a network that is gone
    this.#connect();
  }

  /** The server's session is over or gone, ours is not: the next one hears everything from `position` on. */
  #startAnew(position) {
    this.#id = null;
    this.#retold = 0;
    this.#lastSeq = this.#acknowledged = -1;
    this.#origin = this.#sent = this.#received = Math.max(position, this.backlog.start);
    this.#finishSent = false;
    this.dispatchEvent(new Event("forget"));
  }

  /** The session is there, and not as we have it: words that we have and it lacks are heard again, and stay as they are. */
  #goOnAfter(lastSeq) {
    this.#lastSeq = this.#acknowledged = lastSeq;
    this.#retold = this.#settled;
    this.dispatchEvent(new Event("forget"));
  }

  // --- incoming -----------------------------------------------------------------------------------------------------

  #receive(message) {
    this.#heardAt = performance.now();
    if ("seq" in message && "at" in message) return this.#event(message);
    switch (message.type) {
      case "hello":
        return this.#meet(message);
      case "session":
        return this.#stand(message);
      case "received":
        this.#keepFrom(this.#origin + message.received);
        return this.#pump(); // the ticks of a hidden tab come once a minute
      case "problem":
        return this.#problem(message);
    }
  }

  #meet(hello) {
    this.dispatchEvent(new CustomEvent("hello", { detail: hello }));
    if (!this.#id) this.#say({ type: "start", rate: RATE, channels: 1, format: "s16le", ...this.#settings() });
  }

  #stand(message) {
    this.details = message;
    this.#id = message.session;
    clearTimeout(this.#deadline);
    this.#attempts = 0;
    this.#sent = this.#origin + message.received;
    this.#finishSent = false;
    this.#keepFrom(this.#sent);
    this.#become(this.#finishing ? "finishing" : "live");
    this.#pump();
  }

  #event(event) {
    if (event.seq <= this.#lastSeq) return;
    this.#lastSeq = event.seq;
    const shifted = shift(event, this.#origin / RATE);
    if (event.words) shifted.words = shifted.words.filter(({ start }) => start * RATE >= this.#retold);
    if (event.type === "confirmed" && shifted.words.length) this.#settle(shifted.words.at(-1).end);
    if (event.type === "turn_end") this.#settle(shifted.end);
    if (event.type === "end") return this.#over(event);
    this.dispatchEvent(new CustomEvent("event", { detail: shifted }));
    if (event.type === "error" && event.fatal) this.#fail(new Problem("internal", event.message));
  }

  /** The server's session has said everything. It may have been too long, or the server stops: then another follows. */
  #over(event) {
    const position = this.#origin + Math.round(event.duration * RATE);
    if (this.#finishing && position >= this.backlog.end) {
      this.#acknowledge();
      return this.#end("ended");
    }
    this.#startAnew(position);
  }

  #problem({ kind, message, fatal, last_seq: lastSeq }) {
    if (kind === "unknown_session") return this.#startAnew(this.#settled);
    if (kind === "ahead" || kind === "behind") return this.#goOnAfter(lastSeq);
    if (kind === "bad_setting") return this.#fail(new Problem(kind, message));
    if (kind === "overloaded" && !this.details) return this.#fail(new Problem(kind, message));
    if (kind === "not_shared") return this.dispatchEvent(new Event("unshared"));
    if (!fatal && kind !== "too_long") console.warn(kind, message);
  }

  #settle(seconds) {
    this.#settled = Math.max(this.#settled, Math.round(seconds * RATE));
  }

  #keepFrom(position) {
    this.#received = Math.max(this.#received, position);
    this.backlog.drop(Math.max(Math.min(this.#received, this.#settled), this.#received - KEPT));
  }

  // --- outgoing -----------------------------------------------------------------------------------------------------

  get #stands() {
    return this.#id !== null && this.#socket?.readyState === WebSocket.OPEN && /^(live|finishing)$/.test(this.state);
  }

  #pump() {
    if (!this.#stands) return;
    if (this.#sent === this.#received) this.#heardAt = performance.now(); // nothing was to be answered
    while (this.#sent < this.backlog.end && this.#socket.bufferedAmount < IN_FLIGHT) {
      const samples = this.backlog.read(this.#sent, PORTION);
      this.#socket.send(samples);
      this.#sent += samples.length;
    }
    if (this.#finishing && !this.#finishSent && this.#sent === this.backlog.end) {
      this.#say({ type: "finish" });
      this.#finishSent = true;
    }
    if (performance.now() - this.#heardAt > SILENT_MS) this.#hangUp();
  }

  #hangUp() {
    if (!this.#socket) return;
    const opened = this.#socket.readyState !== WebSocket.CONNECTING;
    this.#socket.close();
    this.#lost(opened);
  }

  #acknowledge() {
    if (!this.#stands || this.#lastSeq <= this.#acknowledged) return;
    this.#acknowledged = this.#lastSeq;
    this.#say({ type: "ack", seq: this.#lastSeq });
  }

  #say(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  // --- state --------------------------------------------------------------------------------------------------------

  #become(state, problem = null) {
    if (state === this.state || this.isOver) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, problem } }));
  }

  #fail(problem) {
    this.#end("failed", problem);
  }

  #end(state, problem = null) {
    this.#become(state, problem);
    this.#timers.forEach(clearInterval);
    clearTimeout(this.#retry);
    removeEventListener("online", this.online);
    removeEventListener("offline", this.offline);
    this.#socket?.close(1000);
  }
}

/** The event with its times moved to the page's clock, which began with the first session. */
function shift(event, by) {
  const moved = (item) => {
    const copy = { ...item };
    for (const name of ["at", "start", "end"]) if (typeof copy[name] === "number") copy[name] += by;
    return copy;
  };
  return event.words ? { ...moved(event), words: event.words.map(moved) } : moved(event);
}
