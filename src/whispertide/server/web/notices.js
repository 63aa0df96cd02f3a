// The two notices: a problem with a button that may solve it, and what a model's maker warns of.

import { describe, Problem } from "./problems.js";

export class ProblemNotice {
  #again = null; // what "Try again" does

  /** `askForKey` is what the button does where an API key is needed. */
  constructor({ box, title, text, action, close }, askForKey) {
    Object.assign(this, { box, title, text, action, askForKey });
    action.addEventListener("click", () => this.#again?.());
    close.addEventListener("click", () => this.show(null));
  }

  /** `unread` are the names of files, where it is about these. */
  show(problem, retry = null, unread = []) {
    this.box.hidden = !problem;
    if (!problem) return;
    if (!(problem instanceof Problem)) console.error(problem);
    const { title, text, action } = describe(problem);
    this.title.textContent = unread.length ? `Not transcribed: ${unread.join(", ")}` : title;
    this.text.textContent = unread.length ? `${title}. ${text}` : text;
    this.action.textContent = action === "key" ? "Enter the key" : "Try again";
    this.action.hidden = !action || (action === "retry" && !retry);
    this.#again = action === "key" ? this.askForKey : retry;
  }
}

export class Caution {
  constructor({ box, model, text, other, command, close }) {
    Object.assign(this, { box, model, text, other, command });
    close.addEventListener("click", () => (box.hidden = true));
  }

  /** Of the chosen model, and which one to take in its place: one of the server's, or another server. */
  show({ name, caution }, models) {
    const other = models.find((model) => !model.caution);
    this.box.hidden = !caution;
    this.model.textContent = `${name}:`;
    this.text.textContent = caution;
    this.other.textContent = other ? `choose ${other.name} in the settings.` : "";
    this.command.hidden = Boolean(other);
  }
}
