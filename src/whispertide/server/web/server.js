// The server that this page came from, and how the page shows it the key: in a header, or for WebSockets, on which
// browsers set none, as a subprotocol. Never in an address: those are kept in logs. All addresses are relative to the
// page's own: a proxy may have put the server below a path.

import { Problem } from "./problems.js";

const SUBPROTOCOL = "whispertide";
const ANSWER_MS = 5000; // for a question by HTTP
export const CONNECT_MS = 10000;

export class Server {
  #key;

  /** `key` gives the key, or "" where none is asked for. */
  constructor(key) {
    this.#key = key;
  }

  /** A WebSocket of the native protocol. */
  connect(query = {}) {
    const url = new URL("ws", document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const key = this.#key();
    return new WebSocket(url, key ? [SUBPROTOCOL, `${SUBPROTOCOL}.key.${base64url(key)}`] : []);
  }

  fetch(path, options = {}) {
    const key = this.#key();
    return fetch(path, { ...options, headers: key ? { Authorization: `Bearer ${key}` } : {} });
  }

  /** What the server offers (its hello). Throws `Problem`. */
  hello() {
    return new Promise((resolve, reject) => {
      const socket = this.connect();
      socket.onmessage = ({ data }) => {
        const hello = JSON.parse(data);
        if (hello.type !== "hello") return;
        socket.onclose = null;
        socket.close(1000);
        resolve(hello);
      };
      socket.onclose = async () => reject(await this.whyRefused());
      setTimeout(() => socket.close(), CONNECT_MS);
    });
  }

  /** A browser does not say why a WebSocket was refused; the same question by HTTP is answered. */
  async whyRefused() {
    const signal = AbortSignal.timeout(ANSWER_MS);
    try {
      const answer = await this.fetch("v1/models", { signal });
      if (answer.status === 401) return new Problem("key", this.#key() ? "The key was not accepted." : "");
      if (answer.status === 403) return new Problem("origin");
      if (answer.status === 429) return new Problem("too_fast");
      const ready = await fetch("readyz", { signal });
      if (ready.status === 503) return new Problem("overloaded");
      return new Problem(isOwnName(location.hostname) ? "overloaded" : "origin");
    } catch {
      return new Problem("unreachable");
    }
  }
}

const isOwnName = (host) => /^([^.]+|.*\.localhost|[\d.]+|\[.*\])$/.test(host);

/** Not every key is a subprotocol as it is. */
function base64url(text) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
