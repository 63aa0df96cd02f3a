// A button that opens a menu, for pointer and keyboard. Knows nothing of what is chosen.

export class Menu {
  /** `choose` is given the item that was pressed. */
  constructor(button, list, choose) {
    Object.assign(this, { button, list, choose });
    button.addEventListener("click", () => this.#open(list.hidden));
    list.addEventListener("keydown", (event) => this.#move(event));
    list.addEventListener("click", ({ target }) => this.#chosen(target.closest("[role=menuitem]")));
    addEventListener("click", ({ target }) => button.contains(target) || list.contains(target) || this.#open(false));
  }

  #open(open) {
    this.list.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) this.list.firstElementChild.focus();
  }

  #chosen(item) {
    if (item) this.choose(item);
    this.#leave();
  }

  #leave() {
    this.#open(false);
    this.button.focus();
  }

  #move(event) {
    const items = [...this.list.children];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) {
      items.at(to % items.length).focus();
      event.preventDefault();
    } else if (event.key === "Escape" || event.key === "Tab") this.#leave();
  }
}
