"""What text is shown to a decode of what was said before its window. Knows words and tokens, nothing of rounds."""

from collections.abc import Callable


def fit_context(
    encode: Callable[[str], list[int]], prompt: str, said: str, most: int, *, static: bool, spaced: bool = True
) -> tuple[int, ...]:
    """Tokens of the user's prompt and of what was said, at most `most`: whole words are left out from the front.

    With `static` the prompt stays as long as it fits by itself, and only what was said is shortened. Without `spaced`,
    in a language written without spaces, characters are left out in place of words.
    """
    prompt, said = prompt.strip(), said.strip()
    if most < 1:
        return ()
    kept = encode(" " + prompt) if static and prompt else []
    if len(kept) > most:
        kept = []
    text = said if static else " ".join(part for part in (prompt, said) if part)
    words, space = (text.split(), " ") if spaced else (list(text), "")
    tokens = encode(" " + text) if text else []
    while words and len(kept) + len(tokens) > most:
        # a token is at most a few words or characters: drop several at once where there are many
        surplus = len(kept) + len(tokens) - most
        words = words[max(1, surplus // 8) :]
        tokens = encode(" " + space.join(words).lstrip()) if words else []
    return (*kept, *tokens)
