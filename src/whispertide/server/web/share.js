// An address where viewers read the captions (docs/guides/watching.md). It is made when the speaker asks for it, is valid
// for every recording of this tab and ends when the speaker ends it. Knows the dialog and the server, not the session.

import { copyText } from "./downloads.js";
import { Problem } from "./problems.js";

const KEY = "whispertide.watch";
const OVERLAY = "?background=transparent";
const LOOPBACK = /^(localhost|127\..*|\[::1\]|.*\.localhost)$/;

export class Share {
  #secret = kept();
  #isLost = false; // the server closed the address; its secret opens it again
  #session = null; // its id, or those of its channels
  #names = {}; // of the session's voices, by their numbers in it
  #done = Promise.resolve(); // what was asked of the server before

  /** `onChange` hears whether viewers can read the captions, `onProblem` what went wrong. */
  constructor(dialog, server, { onChange, onProblem }) {
    Object.assign(this, { dialog, server, onChange, onProblem });
    this.#part("share-open").addEventListener("click", () => this.#make());
    this.#part("share-end").addEventListener("click", () => this.#end());
    for (const button of dialog.querySelectorAll("[data-copies]")) {
      button.addEventListener("click", () => this.#copy(button));
    }
    onChange(this.isOpen);
  }

  get isOpen() {
    return Boolean(this.#secret) && !this.#isLost;
  }

  /** Show the dialog. */
  async show() {
    this.#fill(null);
    this.dialog.showModal();
    if (this.isOpen) await this.#make();
  }

  /** A session of this tab goes on, by its id, or by those of its channels: whoever has the address reads it. `names`
   *  are those that the user gave to its voices. */
  async attach(session, names) {
    this.#session = session;
    this.#names = names;
    if (this.isOpen) await this.#make();
  }

  /** The user named voices of the session: viewers see that. */
  async name(names) {
    this.#names = names;
    if (this.isOpen) await this.#make();
  }

  /** The server has closed the address: it could not show the captions there. */
  lost() {
    this.#isLost = true;
    this.onChange(false);
    this.#fail(new Problem("unshared"));
  }

  #make() {
    return this.#inTurn(async () => {
      const asked = { secret: this.#secret ?? undefined, session: this.#session ?? undefined, names: this.#names };
      const made = await this.#ask("v1/watch", { ...asked, page: new URL(".", document.baseURI).href });
      this.#keep(made.secret);
      this.#fill(made);
    });
  }

  #end() {
    return this.#inTurn(async () => {
      await this.#ask("v1/watch/end", { secret: this.#secret });
      this.#keep(null);
      this.#fill(null);
    });
  }

  /** After what was asked before: an address that is still being made is ended once it is there. */
  #inTurn(ask) {
    this.#done = this.#done.then(ask).catch((problem) => this.#fail(problem));
    return this.#done;
  }

  /** Behind the dialog nobody would see it. */
  #fail(problem) {
    this.dialog.close();
    this.onProblem(problem);
  }

  async #ask(path, body) {
    const answer = await this.server.fetch(path, { method: "POST", body: JSON.stringify(body) }).catch(() => null);
    if (answer?.ok) return answer.json();
    if (answer?.status === 404 && body.session) {
      this.#session = null; // it is over
      return this.#ask(path, { ...body, session: undefined });
    }
    if (!answer) throw new Problem("unreachable");
    if (answer.status === 401) throw new Problem("key");
    throw new Problem("watch", (await answer.json().catch(() => ({}))).error?.message ?? "");
  }

  #fill(made) {
    this.#part("share-made").hidden = !made;
    this.#part("share-open").hidden = this.isOpen;
    this.#part("share-end").hidden = !this.isOpen;
    this.#part("share-near").hidden = !LOOPBACK.test(location.hostname);
    if (!made) return;
    this.#part("share-address").value = made.url;
    this.#part("share-overlay").value = made.url + OVERLAY;
    const code = new DOMParser().parseFromString(made.qr, "image/svg+xml").documentElement;
    code.setAttribute("aria-hidden", "true");
    this.#part("share-code").replaceChildren(document.adoptNode(code));
  }

  async #copy(button) {
    const field = this.#part(button.dataset.copies);
    field.select();
    const text = (await copyText(field.value)) ? "Copied" : "Press Ctrl+C";
    button.textContent = text;
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }

  #keep(secret) {
    this.#secret = secret;
    this.#isLost = false;
    try {
      if (secret) sessionStorage.setItem(KEY, secret);
      else sessionStorage.removeItem(KEY);
    } catch {
      // storage may be forbidden: the address holds until the page closes
    }
    this.onChange(this.isOpen);
  }

  #part(id) {
    return this.dialog.querySelector(`#${id}`);
  }
}

/** Kept over a reload, until the tab closes. */
function kept() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
