"""A tokenizer in miniature for the scripted decoder's vocabulary: a dozen pieces of words with their texts."""

from collections.abc import Sequence

from scripted_decoder import EOT, SIZE

PIECES = (
    *(" new", " york", " yo", "rk", "er", " nut", ",", " gnu", "new", " a", "s", " Y"),
    *("海", "の", " zo", "o", " kyo", "to", " ", " c"),
)


class FewWords:
    """What key terms ask of a tokenizer."""

    eot = EOT
    vocab_size = SIZE

    def token_bytes(self, token: int) -> bytes:
        return PIECES[token].encode()

    def encode(self, text: str) -> list[int]:
        """The longest piece first; a text must be made of pieces."""
        tokens: list[int] = []
        while text:
            piece = max((piece for piece in PIECES if text.startswith(piece)), key=len)
            tokens.append(PIECES.index(piece))
            text = text[len(piece) :]
        return tokens


def text_of(tokens: Sequence[int]) -> str:
    """The text that they are."""
    return "".join(PIECES[token] for token in tokens)
