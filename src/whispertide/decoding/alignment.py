"""When each word was said: one more decoder run, and time warping over the cross-attention of the alignment heads.

The run over `sot ... no_timestamps, text ..., eot` gives the attention; row k of it belongs to the query that
*predicts* text token k. Times are in samples. Source: openai/whisper, timing.py (`find_alignment`).
"""

from collections.abc import Sequence

import numpy as np

from whispertide.checkpoint.languages import written_language
from whispertide.decoding.token_words import WordTiming, sharpen, warp, word_timings
from whispertide.model.engine import DecodeRequest, Encoded, required
from whispertide.model.whisper import WhisperModel
from whispertide.options import Task
from whispertide.types import FloatArray


def locate_words(
    model: WhisperModel,
    encoded: Encoded,
    text_tokens: Sequence[int],
    *,
    language: str | None = None,
    task: Task = "transcribe",
    frames: int | None = None,
) -> list[WordTiming]:
    """The place of each word of `text_tokens` (no special tokens) in the window.

    `frames` is how many encoder frames hold real audio (None = all valid ones). Text beyond the text context is left
    out.
    """
    tokenizer = model.tokenizer
    start = tokenizer.sot_sequence(language, task, False)
    # One place is for the end of text.
    text = list(text_tokens)[: model.dims.n_text_ctx - len(start) - 1]
    frames = encoded.valid_frames if frames is None else min(frames, encoded.valid_frames)
    if not text or frames < 1:
        return []
    first = len(start) - 1  # the query at no_timestamps predicts the first text token
    output = model.decoder(encoded, heads=model.alignment_heads).run(
        DecodeRequest(
            tokens=np.array([[*start, *text, tokenizer.eot]], dtype=np.int64),
            logits_at=tuple(range(first, first + len(text))),
            need="logits",
        )
    )
    # Among text tokens alone, as in the original: what end of text and timestamps would get is shared out.
    probabilities = chosen_probabilities(required(output.logits, "logits")[0, :, : tokenizer.eot], text)
    sharpened = sharpen(required(output.attention, "attention")[:, 0, :, :frames], first)
    # Up to the query that predicts the end of text: where that begins the last word ends. What the end of text itself
    # predicts is about no audio.
    starts = warp(-sharpened[:-1])
    words, word_tokens = tokenizer.split_to_word_tokens([*text, tokenizer.eot], written_language(language, task))
    return word_timings(words[:-1], word_tokens[:-1], starts, probabilities)


def chosen_probabilities(logits: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Softmax of logits [n, vocab], read at one chosen id per row: [n]."""
    peak = logits.max(axis=-1)
    total = np.exp(logits - peak[:, None]).sum(axis=-1)
    return np.asarray(np.exp(logits[np.arange(len(chosen)), list(chosen)] - peak) / total, dtype=np.float32)
