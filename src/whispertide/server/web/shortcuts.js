// Keys that act anywhere on the page, but where somebody types.

/** Key -> what it does, while `isOn()`. */
export function listenForShortcuts(actions, isOn) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !isOn()) return;
    // In a dialog that a script closed a field has the focus for a moment more, and nobody types into it.
    if (event.target.closest("input, select, textarea")?.checkVisibility() || document.querySelector("dialog[open]:not(#big)")) return;
    const action = actions[event.key.toLowerCase()];
    if (action && !event.repeat) {
      event.preventDefault();
      action();
    }
  });
}
