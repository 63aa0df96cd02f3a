"""Window after window through conversations: no sentence is lost and none made up."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from scripted_model import ScriptedModel, Story, story, time
from whispertide.decoding.longform import Transcription
from whispertide.decoding.voice import Voice
from whispertide.features import Features
from whispertide.model.engine import Encoded
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, Span

NUMBERS = (" one", " two", " three", " four", " five", " six", " seven", " eight", " nine", " ten")
STEP = 2.5e-4  # each mel frame of a conversation is so much louder than the one before: so a window tells where it is


@dataclass(frozen=True)
class Conversation:
    """Sentences of three words, each a number said thrice, from mel frame to mel frame; silence between and after."""

    sentences: tuple[tuple[int, int], ...]
    frames: int

    @property
    def voice(self) -> Voice:
        return Voice(tuple(Span(start * HOP_LENGTH, end * HOP_LENGTH) for start, end in self.sentences))

    @property
    def features(self) -> Features:
        raw = np.tile((np.arange(self.frames) * STEP).astype(np.float32), (80, 1))
        return Features.of_raw(raw, self.frames * HOP_LENGTH)

    @property
    def text(self) -> str:
        return "".join(3 * NUMBERS[number] for number in range(len(self.sentences)))


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    at, sentences = draw(st.integers(0, 900)), []
    for length in draw(st.lists(st.integers(200, 400), min_size=1, max_size=6)):
        sentences.append((at, at + length))
        at += length + draw(st.integers(60, 150) | st.integers(300, 4_000))
    return Conversation(tuple(sentences), at)


Fault = Callable[[list[int]], list[int]]  # the sentences in a window -> those that are written
FAULTS: dict[str, Fault] = {
    "none": lambda inside: inside,
    "closes after the first": lambda inside: inside[:1],
    "closes after the second": lambda inside: inside[:2],
    "passes over the second": lambda inside: inside[:1] + inside[2:],
    "passes over the first": lambda inside: inside[1:] or inside,
}


class Listener(ScriptedModel):
    """Hears the sentences that lie whole in a window, but for its fault; in silence it writes "you"."""

    def __init__(self, conversation: Conversation, fault: Fault) -> None:
        super().__init__(lambda encoded: self._story(conversation, fault, encoded))

    def _story(self, conversation: Conversation, fault: Fault, encoded: Encoded) -> Story:
        marks = self.mels[next(at for at, window in enumerate(self.windows) if window is encoded)][0]
        rises = np.flatnonzero(np.diff(marks) < STEP / 8)
        count = int(rises[0]) + 1 if len(rises) else len(marks)
        start = round((float(marks[0]) * 4 - 4) / STEP)
        end = start + count
        inside = [
            number
            for number, (begin, stop) in enumerate(conversation.sentences)
            if start <= begin + 30 and stop <= end + 30
        ]
        told: list[tuple[int, int]] = []
        for number in fault(inside):
            begin, stop = ((frame - start) // 2 for frame in conversation.sentences[number])
            begin, stop = max(begin, 0), min(stop, 1_490)
            words = [(NUMBERS[number], frame) for frame in (begin, (begin + stop) // 2, stop - 10)]
            told += [time(begin), *story(*words), time(stop)]
        return told or [time(0), *story((" you", 10)), time(40)]


@pytest.mark.slow
@quick(8)
@given(conversations(), st.sampled_from(sorted(FAULTS)))
def test_no_sentence_is_lost_and_none_made_up(conversation: Conversation, fault: str) -> None:
    model: Any = Listener(conversation, FAULTS[fault])
    options = DecodeOptions(temperatures=(0.0,), compression_ratio_threshold=None)
    run = Transcription(
        model, conversation.features, options, "en", seek=0, end=conversation.frames, voice=conversation.voice
    )
    text = ""
    while not run.done:
        text += "".join(segment.text for segment in run.next_window())
    assert text == conversation.text
