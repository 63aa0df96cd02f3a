// The big captions fill the window. What speaks to the person (state, problems, the live region) comes along: behind an
// open dialog nobody sees or hears it. While nothing moves there are only words, for a room or a capture of the window.

const STILL_MS = 3000;

export class BigCaptions {
  #places = new Map(); // what came along -> where it was
  #timer = null;

  constructor(dialog, top, along) {
    Object.assign(this, { dialog, top, along });
    dialog.addEventListener("close", () => this.#putBack());
    for (const moved of ["pointermove", "pointerdown", "keydown"]) dialog.addEventListener(moved, () => this.#wake());
  }

  toggle() {
    if (this.dialog.open) return this.dialog.close();
    for (const element of this.along) {
      const place = document.createComment("");
      element.replaceWith(place);
      this.#places.set(element, place);
    }
    this.top.prepend(...this.along);
    this.dialog.showModal();
    this.dialog.focus(); // else its first button has the focus, and the space bar presses it
    this.#wake();
  }

  #wake() {
    this.dialog.classList.remove("still");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.dialog.classList.add("still"), STILL_MS);
  }

  #putBack() {
    for (const [element, place] of this.#places) place.replaceWith(element);
    this.#places.clear();
  }
}
