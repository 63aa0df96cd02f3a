"""A window heard whole: Whisper's transcription of it, with word times, in as many decodes as it takes.

What local agreement needs. Knows the model and the framing, nothing of policies, other rounds or sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whispertide.decoding.longform import Frame, Transcription
from whispertide.decoding.search import Guard
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.resources import EncodedWindow, RoundResources
from whispertide.streaming.round import RoundPlan, RoundResult, result_of
from whispertide.types import FloatArray, OfflineSegment, Span, Word


@dataclass(frozen=True, slots=True)
class HeardSegment:
    """One segment of a window: words with absolute times, and the probability that nobody speaks in it."""

    span: Span
    words: tuple[Word, ...]
    no_speech_prob: float = 0.0
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HeardSegments:
    """The segments of a whole window, and all tokens of it, timestamps included."""

    segments: tuple[HeardSegment, ...] = ()
    tokens: tuple[int, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all segments."""
        return tuple(word for segment in self.segments for word in segment.words)


@dataclass(frozen=True, slots=True)
class WholeWindow:
    """A `round.Hearing`: the window as Whisper transcribes a recording.

    reread  where the window is one segment without an end, what is after its last word is a window of its own
    """

    reread: bool = True

    def encode(
        self, resources: RoundResources, plan: RoundPlan, audio: FloatArray, state: EncoderState | None
    ) -> EncodedWindow | None:
        """The first window, and usually the only one. None: there is less than 10 ms."""
        return resources.open_whole(audio, state)

    def decode(
        self,
        resources: RoundResources,
        plan: RoundPlan,
        opened: EncodedWindow,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> RoundResult[HeardSegments]:
        """All of it, window after window."""
        model = resources.model
        detected = resources.language(opened.encoded, options)
        if plan.waits(detected):
            return result_of(resources, plan, None, detected, (opened.cost,), 0)
        language = plan.language(detected)
        transcription = Transcription(
            model,
            opened.features,
            replace(options, word_timestamps=True),  # policies confirm words, whatever is asked for
            language.language,
            seek=0,
            end=opened.features.frames,
            frame=_opened(opened, resources.frame),
            context=_context(model, plan, options),
            reread=self.reread,
            guards=guards,
            reference=plan.reference and plan.reference.since(plan.window.start),
        )
        segments: list[OfflineSegment] = []
        while not transcription.done:
            segments += transcription.next_window()
        tokens = tuple(token for segment in segments for token in segment.tokens)
        # The first of the transcription's costs is for handing out the window that was encoded before (`_opened`).
        costs = (opened.cost, *transcription.costs[1:])
        heard = HeardSegments(tuple(_segment(segment, plan.window) for segment in segments), tokens)
        return result_of(resources, plan, heard, language, costs, len(tokens))


def _context(model: WhisperModel, plan: RoundPlan, options: DecodeOptions) -> list[int]:
    """The user's own prompt, then what was said before the window, as tokens."""
    previous = plan.prompt if options.condition_on_previous_text is not False else ""
    text = " ".join(part for part in (options.prompt.strip(), previous.strip()) if part)
    return model.tokenizer.encode(" " + text) if text else []


def _opened(opening: EncodedWindow, frame: Frame) -> Frame:
    """`frame`, but the first window is encoded already."""
    there = [opening.encoded]

    def encode(model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        return there.pop() if there else frame(model, mel, taps=taps)

    return encode


def _segment(segment: OfflineSegment, window: Span) -> HeardSegment:
    """A segment of the window's own time in absolute samples, kept inside the window."""

    def absolute(sample: int) -> int:
        return min(window.start + sample, window.end)

    return HeardSegment(
        span=Span(absolute(segment.span.start), absolute(segment.span.end)),
        words=tuple(
            Word(word.text, absolute(word.start), absolute(word.end), word.probability) for word in segment.words
        ),
        no_speech_prob=segment.no_speech_prob,
        tokens=segment.tokens,
    )


def segment_cut(segments: Sequence[HeardSegment], last_time: int) -> int | None:
    """The end of the last segment but one; earlier segments while that is after the confirmed words' end `last_time`.

    None if no segment but the last one heard is confirmed to its end (`OnlineASRProcessor.chunk_completed_segment`).
    """
    ends = [segment.span.end for segment in segments]
    # The last segment always stays: it may go on after the window.
    while len(ends) > 2 and ends[-2] > last_time:
        ends.pop()
    return ends[-2] if len(ends) > 1 and ends[-2] <= last_time else None
