// The line that says what the page is doing, in words and as a colour.

const FLASH_MS = 1500;

export class Status {
  #shown = []; // state and text, whatever flashes over them
  #flashing = null;

  constructor(box, text) {
    Object.assign(this, { box, text });
  }

  /** Set only where it changes: every change is said to screen readers. */
  show(state, text) {
    this.#shown = [state, text];
    if (this.box.dataset.state !== state) this.box.dataset.state = state;
    if (this.text.textContent !== text) this.text.textContent = text;
  }

  ready(model) {
    this.show("ready", `Ready · ${model ?? ""}`);
  }

  reading({ batch: { files } }, who = "Transcribing", share = "") {
    this.show("live", `${who} the file${share}${files.length ? `, then ${files.length} more` : ""}`);
  }

  away({ isFile, stopping }) {
    this.show("away", `Reconnecting: ${isFile || stopping ? "" : "still recording, "}nothing is lost`);
  }

  /** For a moment. */
  flash(text) {
    this.text.textContent = text;
    clearTimeout(this.#flashing);
    this.#flashing = setTimeout(() => this.show(...this.#shown), FLASH_MS);
  }
}
