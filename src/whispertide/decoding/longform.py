"""Text of a stretch of audio of any length, window after window, each beginning where the last one's segments end.

The offline transcription runs this over a whole recording, a streaming round over its window (which is at most 30 s,
but one decode may leave the rest of a window for the next). How audio becomes encoder input is the `frame` function's
business. Source: the loop of `transcribe` in openai/whisper, transcribe.py, without its hallucination skipping.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np

from whispertide.checkpoint.languages import apart, written_language
from whispertide.decoding.draft import Reference
from whispertide.decoding.fallback import is_silence
from whispertide.decoding.language import APART, CERTAIN, ENOUGH, LIKELY, DetectedLanguage, detect_language
from whispertide.decoding.prompt import shown_text
from whispertide.decoding.search import NO_STEPS, Cost, Guard, Steps
from whispertide.decoding.segments import TimedSegment
from whispertide.decoding.voice import LONGEST_WORD, UNHEARD, Voice
from whispertide.decoding.window import WindowResult, align_window, decode_window
from whispertide.decoding.word_repairs import SpokenSegment, words_apart
from whispertide.features import Features, padded
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, N_FRAMES, SAMPLE_RATE, FloatArray, OfflineSegment, Span

_SHORT_STEP = SAMPLE_RATE // HOP_LENGTH  # mel frames
_MUCH = 2 * SAMPLE_RATE  # audio after the last word that is never left unheard
# Between these a text that closes before its window ends, where the recording goes on, may have left out the sentence
# that the window cuts. After longer rests Whisper is believed, unless a voice gate hears somebody there.
CUT_SENTENCE = range(SAMPLE_RATE, 10 * SAMPLE_RATE)
# A text that is closed so near to the window's end, where the recording goes on, may be the made-up end of a sentence.
EDGE = SAMPLE_RATE // 10
_HOT = 0.5  # text sampled at a higher temperature is no context for the next window


class Frame(Protocol):
    """Normalised log-mel [n_mels, frames] -> encoder output; `taps` are the layers whose output is wanted too."""

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """Encode one window."""


def pad30(model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
    """Silence after the audio, up to 30 s, as in Whisper's training; whisper.cpp pads so, too."""
    return model.encode(padded(mel, N_FRAMES), taps=taps)


def pad_or_trim(model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
    """Zeros in the log-mel after the audio, up to 30 s, as `transcribe` of openai/whisper and faster-whisper pad.

    They are a faint sound, and OpenAI's checkpoints make fewer errors with it than with silence (lab/log). Those
    that know nothing but silence get that.
    """
    if model.generation.silent_padding:
        return pad30(model, mel, taps=taps)
    return model.encode(np.pad(mel, [(0, 0), (0, N_FRAMES - mel.shape[1])]), taps=taps)


@dataclass(slots=True)
class Transcription:
    """A recording on its way to text. `seek` and `end` are mel frames of 10 ms.

    lasting       text tokens that prompt every window, before those of the context
    context       text tokens so far, the user's prompt first; those from `context_from` on prompt the next window
    last_speech   absolute sample where the last word ended
    crept         whether the last window advanced by less than a second
    reread        where a window is one segment without an end, go on after its last word, as the original does with
                  word times; else after the window, as it does without, unless much is left or the text was cut short
    reference     the words that were heard in this audio before; every window follows those in it
    voice         where somebody speaks: no other audio is heard, no word is believed elsewhere, and speech that no word
                  accounts for is heard again; without it the model is believed, as by the original
    part          where the next window has to end, which hears the beginning of the last one again
    certainty     the probability of the language, where it was detected
    is_anew       whether the next window begins with speech that the last one left out
    costs         what each stage of each window so far took
    """

    model: WhisperModel
    features: Features
    options: DecodeOptions
    language: str
    seek: int
    end: int
    frame: Frame = pad30
    guards: Sequence[Guard] = ()
    reference: Reference | None = None
    voice: Voice | None = None
    lasting: Sequence[int] = ()
    context: list[int] = field(default_factory=list)
    context_from: int = 0
    last_speech: int = 0
    segments: int = 0
    crept: bool = False
    reread: bool = True
    part: int | None = None
    is_anew: bool = False
    certainty: float = 1.0
    costs: list[Cost] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """True if all audio is dealt with."""
        return self.seek >= self.end

    def next_window(self) -> list[OfflineSegment]:
        """Decode the window at `seek`, move on, and return its segments that say something."""
        if not self._is_at_voice():
            return []
        is_part, begun = self.part is not None, self.seek * HOP_LENGTH
        count, mel, encoded = self._opened(self._window_end() - self.seek)
        self.part, self.is_anew = None, False
        began = time.perf_counter()
        result = decode_window(
            self.model,
            encoded,
            self.options,
            prompt_tokens=shown_text(self.lasting, self.context[self.context_from :], self.model.dims.n_text_ctx),
            reference=self.reference and self.reference.since(self.seek * HOP_LENGTH),
            guards=self.guards,
            language=self.language,
            duration=count * HOP_LENGTH,
        )
        self.costs.append(Cost("decode", time.perf_counter() - began, steps=result.steps))
        # Its tokens do not become context either: the model itself does not believe in them.
        if is_silence(result, self.options) or (self.voice is not None and not result.text):
            self.seek = self._after_silence(count)
            return []
        result = self._believed(result, count)
        began = time.perf_counter()
        hushed = mel.shape[1] > count
        again = self._heard_again(result, count)
        spoken = self._believable(self._spoken(encoded, result, count, hushed=hushed, until=again))
        # Words are aligned in one run of the decoder, and only in these cases.
        steps = Steps.run(1) if hushed or self.options.word_timestamps else NO_STEPS
        self.costs.append(Cost("align", time.perf_counter() - began, steps=steps))
        missed = None if is_part else self._missed(spoken)
        if missed is None:
            self.seek = self._next_seek(result, spoken, again)
            return self._written(result, spoken, begun)
        before = [segment for segment in spoken if segment.span.end <= missed.start]
        if before:
            self._go_on_at(missed, before, spoken)
        else:
            self._hear_in_parts(missed)
        return self._written(result, before, begun)

    def _believed(self, result: WindowResult, count: int) -> WindowResult:
        """The window without the segments that its end cuts: the next one begins with them. The original keeps them."""
        for index, segment in enumerate(result.segments[1:], 1):
            if self._is_cut(segment, count) and segment.start >= _SHORT_STEP * HOP_LENGTH:
                return replace(result, segmentation=result.segmentation.before(index))
        return result

    def _is_at_voice(self) -> bool:
        """Move on to where somebody speaks, or to the end; true if anything is left to transcribe."""
        if self.voice is not None:
            start = self.voice.next_start(self.seek * HOP_LENGTH)
            self.seek = self.end if start is None else max(self.seek, start // HOP_LENGTH)
        return not self.done

    def _window_end(self) -> int:
        end = min(self.seek + N_FRAMES, self.end, self.part or self.end)
        if self.voice is None:
            return end
        paused = self.voice.end_before_pause(self.seek * HOP_LENGTH, end * HOP_LENGTH)
        return max(self.seek + 1, min(end, -(-paused // HOP_LENGTH)))

    def _opened(self, count: int) -> tuple[int, FloatArray, Encoded]:
        """The next window, encoded: so many frames, their log-mel and what comes of it.

        Whisper writes a whole window in one language. Of a window that sounds like none for certain only the first
        sentences are heard, where these are in another language than the window, or than what was heard before.
        """
        mel = self.features.followed(self.seek, count)
        encoded = self._encode(mel)
        if self.voice is None or self.options.language is not None or not self.model.tokenizer.is_multilingual:
            return count, mel, encoded
        whole = detect_language(self.model, encoded, self.options.languages)
        begin, end = self.seek * HOP_LENGTH, (self.seek + count) * HOP_LENGTH
        pause = None if whole.probability >= CERTAIN else self.voice.pause_after(ENOUGH, begin, end)
        if pause is not None:
            sooner = -(-pause // HOP_LENGTH) - self.seek
            beginning = self.features.followed(self.seek, sooner)
            alone = self._encode(beginning)
            first = detect_language(self.model, alone, self.options.languages)
            if first.probability >= APART and {first.language} != {whole.language, self.language}:
                self._turn_to(first)
                return sooner, beginning, alone
        if whole.probability >= (LIKELY if self.is_anew else CERTAIN):
            self._turn_to(whole)
        return count, mel, encoded

    def _turn_to(self, found: DetectedLanguage) -> None:
        """From here on the text is in that language; what was written in another is no context."""
        if found.language != self.language:
            self.language, self.certainty = found.language, found.probability
            self.context_from = len(self.context)

    def _goes_on(self, count: int) -> bool:
        """True if the window ends for want of room, and may cut a sentence."""
        return count == N_FRAMES and self.seek + count < self.end

    def _is_cut(self, segment: TimedSegment, count: int) -> bool:
        return segment.end > count * HOP_LENGTH - EDGE and self._goes_on(count)

    def _after_silence(self, count: int) -> int:
        """The place to go on after a window of `count` frames that the model calls silent, or writes nothing for.

        The original passes over all of it, and so over the first sentence after some seconds of silence, where a
        checkpoint was not trained on such windows. Here it is decoded again from where somebody begins to speak in it.
        """
        begin, end = self.seek * HOP_LENGTH + SAMPLE_RATE, (self.seek + count) * HOP_LENGTH
        parts = self.voice.within(begin, end) if self.voice is not None else ()
        return next((part.start for part in parts if part.start > begin), end) // HOP_LENGTH

    def _believable(self, spoken: list[SpokenSegment]) -> list[SpokenSegment]:
        """The segments during which somebody speaks: all others were made up."""
        voice = self.voice
        return spoken if voice is None else [segment for segment in spoken if voice.is_spoken(_extent(segment))]

    def _missed(self, spoken: Sequence[SpokenSegment]) -> Span | None:
        """The first speech of the window that none of its words accounts for."""
        if self.voice is None:
            return None
        accounted = [span for segment in spoken for span in self._heard(segment)]
        return self.voice.unheard(accounted, self.seek * HOP_LENGTH)

    def _heard(self, segment: SpokenSegment) -> list[Span]:
        """The speech that a segment's words account for; where their times are unknown, a second for each token."""
        if segment.words:
            return [Span(word.start, min(word.end, word.start + LONGEST_WORD)) for word in segment.words]
        text_tokens = sum(token < self.model.tokenizer.eot for token in segment.tokens)
        return [Span(segment.span.start, min(segment.span.end, segment.span.start + text_tokens * SAMPLE_RATE))]

    def _go_on_at(self, missed: Span, before: Sequence[SpokenSegment], spoken: Sequence[SpokenSegment]) -> None:
        """The next window begins where speech was missed, or with the sentence in which that was."""
        self.last_speech = before[-1].span.end
        start = max(self.last_speech, min(spoken[len(before)].span.start, missed.start))
        self.seek = max(self.seek + 1, start // HOP_LENGTH)
        self.crept, self.is_anew = False, True

    def _hear_in_parts(self, missed: Span) -> None:
        """The next window hears what comes before the missed speech, or that alone, where little comes before."""
        self.part = (missed.start if missed.start - self.seek * HOP_LENGTH > _MUCH else missed.end) // HOP_LENGTH
        self.is_anew = True

    def _encode(self, mel: FloatArray) -> Encoded:
        began = time.perf_counter()
        encoded = self.frame(self.model, mel)
        self.costs.append(Cost("encode", time.perf_counter() - began, encoded.computed))
        return encoded

    def _spoken(
        self, encoded: Encoded, result: WindowResult, count: int, *, hushed: bool, until: int | None
    ) -> list[SpokenSegment]:
        """The window's segments in absolute samples, with words if the options ask for them, or if a hush word follows:
        what is found in that was not said, and only word times tell. Words that begin after `until` are left out.
        """
        offset = self.seek * HOP_LENGTH
        if not hushed and not self.options.word_timestamps:
            shifted = [segment.shifted(offset) for segment in result.segments]
            return [SpokenSegment(Span(segment.start, segment.end), (), segment.tokens) for segment in shifted]
        align = partial(
            align_window,
            self.model,
            encoded,
            result.segments,
            language=self.language,
            task=self.options.task,
            offset=offset,
            last_speech=self.last_speech,
        )
        spoken = align(duration=count * HOP_LENGTH, hushed=hushed, until=until)
        if self.voice is None or until is None or any(segment.words for segment in spoken):
            return spoken
        # All words were found in what is heard again. If somebody speaks before that, they belong there.
        return align(duration=until) if self.voice.amount(offset, offset + until) else spoken

    def _next_seek(self, result: WindowResult, spoken: Sequence[SpokenSegment], again: int | None) -> int:
        """After the last closed segment of the window, or where it is to be heard `again`; more exactly after its last
        word, where words are known.

        Unlike the original, what may be a sentence that the window cuts is heard again whole, a window without words is
        done with, and two windows in a row may not both advance by less than a second: on silence or noise a model can
        place its one word at the very start, window after window.
        """
        dealt_with = result.segmentation.consumed if again is None else again
        seek = self.seek + dealt_with // HOP_LENGTH
        words = [word for segment in spoken for word in segment.words]
        if words:
            self.last_speech = words[-1].end
            is_new = self.last_speech > self.seek * HOP_LENGTH
            is_rest = self.reread or result.stop == "length" or seek * HOP_LENGTH - self.last_speech > _MUCH
            after = -(-self.last_speech // HOP_LENGTH)
            if not result.segmentation.ends_in_speech:
                # A text may close inside a word, which would be heard, and written, twice.
                seek = max(seek, after)
                if self.voice is not None and self.voice.amount(self.last_speech, seek * HOP_LENGTH) >= UNHEARD:
                    seek, self.is_anew = after, True  # a text may be closed late, too, with speech after its last word
            elif is_new and is_rest:
                seek = after
        creeps = seek - self.seek < _SHORT_STEP
        if creeps and self.crept:
            seek = self.seek + _SHORT_STEP
        self.crept = creeps
        # Whatever the times say, the loop has to end.
        return max(seek, self.seek + 1)

    def _heard_again(self, result: WindowResult, count: int) -> int | None:
        """The sample of the window from which it is heard again, and with it the words that begin there or later.

        The original takes a single timestamp at the end to say that no speech follows. Checkpoints say it of cut
        sentences, too, and those would be lost.
        """
        segmentation = result.segmentation
        if segmentation.ends_in_speech or not segmentation.segments:
            return None
        begun, closed, end = self.seek * HOP_LENGTH, segmentation.segments[-1].end, count * HOP_LENGTH
        if end - closed in CUT_SENTENCE and self._goes_on(count):
            return closed
        spoken = list(self.voice.within(begun + closed, begun + end)) if self.voice is not None else []
        if sum(map(len, spoken)) < UNHEARD:
            return None
        self.is_anew = True
        return spoken[0].start - begun

    def _written(self, result: WindowResult, spoken: Sequence[SpokenSegment], window: int) -> list[OfflineSegment]:
        """Number the segments of a window that last and say something, and remember them as context."""
        written, language = [], written_language(self.language, self.options.task)
        for segment in spoken:
            text = apart(self.model.tokenizer.decode(segment.tokens), language)
            if not len(segment.span) or not text.strip():
                continue
            segment = self._with_voice(segment)
            self.context.extend(segment.tokens)
            # A timestamp may lie in the padding after the recording.
            limit = self.features.samples
            written.append(
                OfflineSegment(
                    id=self.segments,
                    span=Span(min(segment.span.start, limit), min(segment.span.end, limit)),
                    text=text,
                    tokens=segment.tokens,
                    words=words_apart(segment.words, language) if self.options.word_timestamps else (),
                    avg_logprob=result.avg_logprob,
                    compression_ratio=result.compression_ratio,
                    no_speech_prob=result.no_speech_prob,
                    temperature=result.temperature,
                    language=self.language,
                    language_probability=self.certainty,
                    window=window,
                )
            )
            self.segments += 1
        # What is said after this is context again (openai/whisper, `prompt_reset_since`).
        if not self._conditions or result.temperature > _HOT:
            self.context_from = len(self.context)
        return written

    def _with_voice(self, segment: SpokenSegment) -> SpokenSegment:
        """The segment, whose words after pauses begin with the voice."""
        if self.voice is None or not segment.words:
            return segment
        words, span = self.voice.begun(segment.words), segment.span
        return replace(segment, words=words, span=Span(max(span.start, min(words[0].start, span.end)), span.end))

    @property
    def _conditions(self) -> bool:
        """True if windows get the text before them as prompt: as the user chose, else the checkpoint, else yes."""
        wanted, usual = self.options.condition_on_previous_text, self.model.generation.condition_on_prev_tokens
        return (usual if wanted is None else wanted) is not False


def _extent(segment: SpokenSegment) -> Span:
    """From its first word to its last, where they are known."""
    return Span(segment.words[0].start, segment.words[-1].end) if segment.words else segment.span
