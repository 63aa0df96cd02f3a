"""faster-whisper's arguments as the options of this program. What cannot be served is refused, with what to do."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from whispertide.checkpoint import Tokenizer
from whispertide.compat.values import TranscriptionOptions, VadOptions
from whispertide.decoding.token_words import APPENDED, PREPENDED
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions, Task, check_text, check_value

_REPEATED = "leave it out: repeated text is decoded again at a higher temperature"

# Argument -> the values that it may have, and what to do in place of another.
_SERVED: Mapping[str, tuple[tuple[object, ...], str]] = MappingProxyType(
    {
        "length_penalty": ((1, 0), "leave it out; openai-whisper's penalty is DecodeOptions(length_penalty=...)"),
        "repetition_penalty": ((1,), _REPEATED),
        "no_repeat_ngram_size": ((0,), _REPEATED),
        "prompt_reset_on_temperature": ((0.5,), "leave it out"),
        "prefix": ((None, ""), "give the text as initial_prompt"),
        "prepend_punctuations": ((PREPENDED,), "leave it out"),
        "append_punctuations": ((APPENDED,), "leave it out"),
        "chunk_length": ((None, 30), "leave it out: a window has 30 s"),
        "clip_timestamps": (("0", "", [], [0]), "cut the samples: audio[start * 16000 : end * 16000]"),
        "hallucination_silence_threshold": ((None,), "leave it out: vad_filter=True keeps words out of silence"),
    }
)


def check_served(asked: TranscriptionOptions, *, chunk_length: int | None, vad_filter: bool) -> None:
    """Raise `OptionError` for an argument that has a value which cannot be served."""
    values = {**asdict(asked), "chunk_length": chunk_length}
    for name, (served, advice) in _SERVED.items():
        value = list(values[name]) if isinstance(values[name], tuple) else values[name]
        if value not in served:
            expected = " or ".join(map(repr, served))
            raise OptionError(f"expected {name} to be {expected}; got {value!r}: {advice}")
    if asked.multilingual and not vad_filter:
        raise OptionError("expected vad_filter=True with multilingual=True: the language is detected after each pause")


def decode_options(
    asked: TranscriptionOptions, tokenizer: Tokenizer, *, language: str | None, task: Task
) -> DecodeOptions:
    """The options that `asked` means; `language` None: listen for it in every window."""
    tokens = asked.suppress_tokens
    return DecodeOptions(
        language=language,
        task=task,
        prompt=as_text(asked.initial_prompt, tokenizer),
        beam=asked.beam_size,
        patience=asked.patience,
        length_penalty=0.0 if asked.length_penalty == 0 else None,
        temperatures=tuple(asked.temperatures),
        best_of=asked.best_of,
        compression_ratio_threshold=asked.compression_ratio_threshold,
        logprob_threshold=asked.log_prob_threshold,
        no_speech_threshold=asked.no_speech_threshold,
        timestamps=not asked.without_timestamps,
        max_initial_timestamp=asked.max_initial_timestamp,
        suppress_blank=asked.suppress_blank,
        suppress_tokens=tuple(tokens or ()),
        max_tokens=asked.max_new_tokens,
        condition_on_previous_text=asked.condition_on_previous_text,
        # Without timestamps only word times tell what a text that closed early has left out.
        word_timestamps=asked.word_timestamps or asked.without_timestamps,
    )


def lasting_prompt(hotwords: str | None) -> str:
    """What prompts every window: the words to be recognized. Raises `OptionError` for what is no text."""
    text = hotwords or ""
    check_value("hotwords", str, text)
    check_text("hotwords", text)
    return text


def as_text(prompt: str | Sequence[int] | None, tokenizer: Tokenizer) -> str:
    """A prompt as a text, which may be given as tokens."""
    return (prompt if isinstance(prompt, str) else tokenizer.decode(prompt or ())).strip()


def vad_options(given: Mapping[str, Any] | VadOptions | None, *, used: bool) -> VadOptions | None:
    """The settings of the voice filter as faster-whisper reports them: those given, with a warning that they have no
    effect, else the usual ones if the filter is `used`.
    """
    if given is None:
        return VadOptions() if used else None
    warnings.warn(
        "vad_parameters have no effect: the voice gate adapts to the recording, and leaves out pauses of more than 2 s",
        stacklevel=3,
    )
    return VadOptions(**given) if isinstance(given, Mapping) else given
