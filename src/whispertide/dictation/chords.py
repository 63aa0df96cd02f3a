"""Keys that are pressed together, as users write them: `ctrl+alt+space`, `f9`, `shift+enter`."""

from dataclasses import dataclass

from whispertide.errors import OptionError

MODIFIERS = ("ctrl", "alt", "shift", "super")  # `super` is the key with a logo: Windows, Command
_NAMED_KEYS = (
    *("space", "enter", "tab", "esc", "backspace", "delete", "insert", "menu", "pause", "print", "scroll_lock"),
    *("home", "end", "page_up", "page_down", "left", "right", "up", "down"),
    *(f"f{number}" for number in range(1, 25)),
    *("right_ctrl", "right_alt", "right_shift"),  # single keys to hold while one speaks
)
_SAME = {
    "control": "ctrl",
    "option": "alt",
    "cmd": "super",
    "command": "super",
    "win": "super",
    "windows": "super",
    "meta": "super",
    "return": "enter",
    "escape": "esc",
    "del": "delete",
    "pageup": "page_up",
    "pagedown": "page_down",
    "plus": "+",
}


@dataclass(frozen=True, slots=True)
class Chord:
    """One key, by its name or the character it types without modifiers, and the modifiers held with it."""

    key: str
    modifiers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((*self.modifiers, "plus" if self.key == "+" else self.key))


def parse_chord(text: str) -> Chord:
    """Read keys that are pressed together. Case does not matter. Raises `OptionError`."""
    names = [_SAME.get(name, name) for name in text.strip().lower().split("+")]
    *modifiers, key = names
    known = len(key) == 1 and key.isprintable() and not key.isspace()
    if (
        not (known or key in _NAMED_KEYS)
        or not set(modifiers) <= set(MODIFIERS)
        or len(set(modifiers)) < len(modifiers)
    ):
        raise OptionError(
            f"expected keys such as ctrl+alt+space: any of {', '.join(MODIFIERS)}, then one character or one of "
            f"{', '.join(_NAMED_KEYS[:19])}, f1 to f24, {', '.join(_NAMED_KEYS[-3:])}; got {text!r}"
        )
    return Chord(key, tuple(name for name in MODIFIERS if name in modifiers))
