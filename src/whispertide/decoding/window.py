"""One window's decode, whole: prompt, search, fallback to higher temperatures, and the cut into segments.

`decode_window` is what the offline transcription and the streaming rounds share. It knows the model and the rules, but
not where the window lies in the audio. Source: `DecodingTask.run` in openai/whisper, decoding.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.decoding.alignment import locate_words
from whispertide.decoding.draft import Draft, Reference
from whispertide.decoding.fallback import compression_ratio, decode_with_fallback
from whispertide.decoding.prompt import build_prompt
from whispertide.decoding.rules import build_rules
from whispertide.decoding.search import Guard, Steps, StopReason, run_search
from whispertide.decoding.segments import Segmentation, TimedSegment, split_segments
from whispertide.decoding.token_search import build_search
from whispertide.decoding.token_words import whole_characters
from whispertide.decoding.word_repairs import SpokenSegment, in_order, place_words, within
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions, Task
from whispertide.types import FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The transcript of one window, and its cost.

    tokens    as sampled, timestamps included, without end of text
    text      stripped
    segmentation   the segments, in samples from the window's start
    steps    over all attempts
    """

    tokens: tuple[int, ...]
    text: str
    segmentation: Segmentation
    avg_logprob: float
    no_speech_prob: float
    compression_ratio: float
    temperature: float
    stop: StopReason
    steps: Steps

    @property
    def segments(self) -> tuple[TimedSegment, ...]:
        """The segments, in samples from the window's start."""
        return self.segmentation.segments


def decode_window(
    model: WhisperModel,
    encoded: Encoded,
    options: DecodeOptions,
    *,
    prompt_tokens: Sequence[int] = (),
    reference: Reference | None = None,
    guards: Sequence[Guard] = (),
    language: str | None = None,
    duration: int | None = None,
) -> WindowResult:
    """Decode one encoded window, at higher temperatures if need be.

    prompt_tokens  previous text; its last 223 tokens are used
    reference      what an earlier round heard here, and how to use it; every attempt starts with it, but what is to be
                   checked in blocks is of no use above temperature 0, where nothing can be verified
    language       a code, after detection; None is English
    duration       samples of real audio in the window (None = all valid frames)

    Raises `UnknownLanguageError` for a language without a token.
    """
    tokenizer = model.tokenizer
    rules = build_rules(model, options)
    prompt = build_prompt(tokenizer, model.dims.n_text_ctx, options, language=language, previous=prompt_tokens)
    samples = encoded.valid_frames * FRAME_SAMPLES if duration is None else duration
    steps = Steps()

    def attempt(temperature: float) -> WindowResult:
        nonlocal steps
        is_followed = reference is not None and not (reference.block and temperature > 0)
        draft: Draft | None = reference.draft(tokenizer, rules) if reference is not None and is_followed else None
        search = build_search(prompt, rules, options, temperature=temperature, draft=draft, guards=guards)
        found = run_search(search, model.decoder(encoded))
        steps += found.steps
        tokens = found.best.tokens
        # A text that was cut may end inside a character.
        if found.best.stop != "end_of_text" and tokens and tokens[-1] < tokenizer.eot:
            tokens = tokens[: whole_characters(tokenizer, tokens)]
        text = tokenizer.decode(tokens).strip()
        return WindowResult(
            tokens=tokens,
            text=text,
            segmentation=split_segments(tokens, tokenizer.timestamp_begin, samples),
            avg_logprob=found.best.avg_logprob,
            no_speech_prob=found.no_speech_prob,
            compression_ratio=compression_ratio(text),
            temperature=temperature,
            stop=found.best.stop,
            steps=steps,
        )

    return decode_with_fallback(attempt, options)


def align_window(
    model: WhisperModel,
    encoded: Encoded,
    segments: Sequence[TimedSegment],
    *,
    language: str | None = None,
    task: Task = "transcribe",
    duration: int | None = None,
    hushed: bool = False,
    until: int | None = None,
    offset: int = 0,
    last_speech: int = 0,
) -> list[SpokenSegment]:
    """The words of a window's `segments` with absolute times.

    `offset` is the absolute sample of the window's start, `duration` its real audio in samples (None = all valid
    frames), `last_speech` the absolute sample where the speech before it ended. `hushed`: a hush word follows the
    audio; words may be found in it, and these were not said: they are left out. So are those that begin at sample
    `until` of the window or later, which another window will hear.
    """
    eot = model.tokenizer.eot
    # All segments at once: aligned one by one, a segment could claim the audio of the next.
    text = [token for segment in segments for token in segment.tokens if token < eot]
    # With a hush word its frames count too, so that what was found there is placed there, and left out below.
    frames = None if duration is None or hushed else duration // FRAME_SAMPLES
    timings = locate_words(model, encoded, text, language=language, task=task, frames=frames)
    if hushed and duration is not None:
        timings, segments = within(timings, segments, duration, eot=eot)
    placed = place_words(timings, segments, eot=eot, offset=offset, last_speech=last_speech, until=until)
    return in_order(placed, offset + (encoded.valid_frames * FRAME_SAMPLES if duration is None else duration))
