// The one tooltip: when a word was said, and what a figure means. There is never a second one. It lies in the top layer, so
// that neither the edge of the transcript nor a dialog hides it. Buttons say what they are and need none.

const GAP = 6; // pixels from what it belongs to, and from the edge of the window

/** Show `tip` for whatever has a `data-tip` and is under the pointer. */
export function showTips(tip) {
  let owner = null;

  function show(element) {
    owner = element;
    tip.hidePopover(); // shown anew, it lies above a dialog that was opened since
    if (!element) return;
    tip.textContent = element.dataset.tip;
    tip.showPopover();
    place(tip, element);
  }

  document.addEventListener("pointerover", ({ target }) => {
    const element = target.closest?.("[data-tip]") ?? null;
    if (element !== owner) show(element);
  });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && show(null));
  document.addEventListener("scroll", () => show(null), { capture: true, passive: true });
}

function place(tip, element) {
  const at = element.getClientRects()[0]; // of a word in two lines the first part
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(GAP, at.left + (at.width - width) / 2), innerWidth - width - GAP);
  const above = at.top - height - GAP;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < GAP ? at.bottom + GAP : above}px`;
}
