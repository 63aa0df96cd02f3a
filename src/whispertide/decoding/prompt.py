"""The prompt of the decoder: previous text, start sequence, forced prefix.

Layout: `[sot_prev, previous text ...,] sot[, language, task][, no_timestamps][, prefix ...]`. This module does not run
anything. Source: `DecodingTask._get_initial_tokens` in openai/whisper, decoding.py; unlike there, a forced prefix is
never cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions

MARGIN_TOKENS = 20  # of the text context that prompt and prefix leave to what is decoded, at least


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens fed first, where the start-of-transcript token is among them, and how many may be sampled."""

    tokens: tuple[int, ...]
    sot_index: int
    limit: int


def shown_text(lasting: Sequence[int], context: Sequence[int], n_text_ctx: int) -> tuple[int, ...]:
    """The text before a window of which nothing is cut: what is to last, and of the `context` the newest tokens that
    there is room for after it.
    """
    room = _most_previous(n_text_ctx)
    first = tuple(lasting)[:room]
    return (*first, *context[max(0, len(context) - room + len(first)) :])


def _most_previous(n_text_ctx: int) -> int:
    # Whisper's own bound: half of the text context is for what was said before, one place of that for `sot_prev`.
    return n_text_ctx // 2 - 1


def build_prompt(
    tokenizer: Tokenizer,
    n_text_ctx: int,
    options: DecodeOptions,
    *,
    language: str | None,
    previous: Sequence[int] = (),
    prefix: Sequence[int] = (),
) -> Prompt:
    """Lay out the prompt of one window.

    Of the `previous` text only the last `n_text_ctx // 2 - 1` tokens are kept. Raises `OptionError` when the forced
    `prefix` leaves no room in the text context.
    """
    kept = tuple(previous)[-_most_previous(n_text_ctx) :]
    head = (tokenizer.sot_prev, *kept) if kept else ()
    tokens = (*head, *tokenizer.sot_sequence(language, options.task, options.timestamps), *prefix)
    room = n_text_ctx + 1 - len(tokens)  # the last sampled token is never fed
    if room < 1:
        raise OptionError(
            f"expected prompt and forced prefix to fit into {n_text_ctx} tokens; got {len(tokens)}: shorten the prefix"
        )
    # Half of the text context, Whisper's own `sample_len`.
    return Prompt(tokens, sot_index=len(head), limit=min(options.max_tokens or n_text_ctx // 2, room))
