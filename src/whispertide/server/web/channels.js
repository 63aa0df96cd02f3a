// Several channels of one device, each a session of its own at the server; to the page they are one. Each has a connection
// of its own, too, which is resumed by itself.

import { LiveSession } from "./socket.js";

const ORDER = ["ended", "finishing", "live", "connecting", "away", "failed"]; // all are at least as far as the last

/** Says what a `LiveSession` says; events have their `channel`, from 1, and words have it as their speaker. */
export class ChannelSessions extends EventTarget {
  state = "connecting";
  #sessions;

  constructor(server, settings, count) {
    super();
    this.#sessions = Array.from({ length: count }, () => new LiveSession(server, settings));
    this.#sessions.forEach((session, index) => this.#follow(session, index + 1));
  }

  /** Int16Arrays of equal length, one for each channel. */
  push(channels) {
    this.#sessions.forEach((session, index) => session.push(channels[index]));
  }

  finish() {
    for (const session of this.#sessions) session.finish();
  }

  abandon() {
    for (const session of this.#sessions) session.abandon();
  }

  get isOver() {
    return this.#sessions.every(({ isOver }) => isOver);
  }

  /** What the server said about the first; the others are alike, but for their ids: `session` has those of all. */
  get details() {
    return { ...this.#sessions[0].details, session: this.#sessions.map(({ details }) => details.session) };
  }

  #follow(session, channel) {
    session.addEventListener("state", ({ detail: { problem } }) => this.#become(problem));
    session.addEventListener("hello", ({ detail }) => this.#tell("hello", detail));
    session.addEventListener("event", ({ detail }) => this.#tell("event", spokenBy(detail, channel)));
    session.addEventListener("forget", () => this.#tell("forget", { channel }));
    session.addEventListener("unshared", () => this.#tell("unshared"));
  }

  #become(problem) {
    const states = this.#sessions.map(({ state }) => state);
    const state = ORDER.findLast((each) => states.includes(each));
    if (state === this.state || this.state === "failed") return;
    this.state = state;
    this.#tell("state", { state, problem });
    if (state === "failed") this.abandon();
  }

  #tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}

function spokenBy(event, channel) {
  const words = event.words?.map((word) => ({ ...word, speaker: channel }));
  return { ...event, channel, speaker: channel, ...(words && { words }) };
}
