"""The characters of an X11 keyboard: which key types one, and with Shift. Pure: knows nothing of the connection.

A key's symbols are numbers (*keysyms*): Latin-1 is itself, any other character of Unicode has bit 24 set, and older
symbols come in blocks that follow 8-bit character sets (X Window System Protocol, appendix A). Of a key's symbols
the first two belong to the first layout (group) without and with Shift, the next two to the second.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from whispertide.dictation.chords import MODIFIERS
from whispertide.errors import KeyboardError

_UNICODE = 0x0100_0000
_SETS = {1: "iso8859-2", 2: "iso8859-3", 3: "iso8859-4", 5: "iso8859-6", 6: "koi8-u", 0xC: "iso8859-8", 0xD: "tis-620"}
_GREEK_LETTERS = range(0x7C1, 0x7FA)  # as in ISO 8859-7, but for these
_SIGMAS = {0x7D2: "Σ", 0x7D3: "", 0x7F2: "σ", 0x7F3: "ς"}
_NAMED = {
    **{"space": 0x20, "enter": 0xFF0D, "tab": 0xFF09, "esc": 0xFF1B, "backspace": 0xFF08, "delete": 0xFFFF},
    **{"insert": 0xFF63, "menu": 0xFF67, "pause": 0xFF13, "print": 0xFF61, "scroll_lock": 0xFF14},
    **{"home": 0xFF50, "end": 0xFF57, "page_up": 0xFF55, "page_down": 0xFF56},
    **{"left": 0xFF51, "up": 0xFF52, "right": 0xFF53, "down": 0xFF54},
    **{f"f{number}": 0xFFBD + number for number in range(1, 25)},
    **{"right_ctrl": 0xFFE4, "right_alt": 0xFFEA, "right_shift": 0xFFE2},
}
_HELD = {**dict(zip(MODIFIERS, (0xFFE3, 0xFFE9, 0xFFE1, 0xFFEB), strict=True)), "num_lock": 0xFF7F}
_CONTROL_KEYS = {"\n": "enter", "\t": "tab"}


@dataclass(frozen=True, slots=True)
class Key:
    """A key by its number, with Shift or without."""

    code: int
    shift: bool = False


def keysym_of(character: str) -> int:
    """The number of a character's symbol."""
    if (name := _CONTROL_KEYS.get(character)) is not None:
        return _NAMED[name]
    code = ord(character)
    return code if 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF else _UNICODE | code


def keysym_named(name: str) -> int:
    """The number of a key's symbol, by the name or the character that a chord has for it, or a modifier's name."""
    return _NAMED.get(name) or _HELD.get(name) or keysym_of(name)


def character_of(keysym: int) -> str:
    """The character of a symbol, "" if it has none that is known."""
    if keysym & _UNICODE:
        return chr(keysym & 0xFFFFFF)
    if keysym < 0x100:
        return chr(keysym)
    if keysym in _GREEK_LETTERS:
        return _SIGMAS.get(keysym, bytes([keysym & 0xFF]).decode("iso8859-7", "ignore"))
    known = _SETS.get(keysym >> 8)
    return "" if known is None else bytes([keysym & 0xFF]).decode(known, "ignore")


@dataclass(frozen=True, slots=True)
class Layout:
    """The symbols of all keys, [keys][symbols of a key], from the key with the number `first`; `group` is the layout
    that is switched on.
    """

    first: int
    symbols: Sequence[Sequence[int]]
    group: int = 0

    def keys(self) -> Mapping[int, Key]:
        """The key of each symbol that needs none but Shift; the first of several."""
        found: dict[int, Key] = {}
        for shift in (False, True):
            for code, symbols in enumerate(self.symbols, self.first):
                group = symbols[2 * self.group : 2 * self.group + 2]
                levels = group if any(group) else symbols[:2]  # Enter and the like are the same in all layouts
                if shift < len(levels) and (symbol := levels[shift]):
                    character = character_of(symbol)
                    found.setdefault(keysym_of(character) if character else symbol, Key(code, shift))
        return found

    def spare(self) -> list[int]:
        """The keys without a symbol, the last ones first: on keyboards that are used these are rarer."""
        return [code for code, symbols in enumerate(self.symbols, self.first) if not any(symbols)][::-1]

    def has(self, code: int, keysym: int) -> bool:
        """True if a key's first symbol is this."""
        return self.first <= code < self.first + len(self.symbols) and self.symbols[code - self.first][0] == keysym


def pieces(text: str, keys: Container[int], spare: int) -> Iterator[str]:
    """Cut a text into pieces, each with no more different characters without a key than there are `spare` keys.

    Raises `KeyboardError` if there is no spare key and a character needs one.
    """
    piece, lacking = "", set[int]()
    for character in text:
        if (symbol := keysym_of(character)) not in keys and symbol not in lacking:
            if not spare:
                raise KeyboardError(
                    f"expected a key for {character!r}, or one without a symbol to lend it to; this layout uses all"
                )
            if len(lacking) == spare:
                yield piece
                piece, lacking = "", set()
            lacking.add(symbol)
        piece += character
    if piece:
        yield piece
