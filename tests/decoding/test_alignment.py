"""Where the words of a text lie: the decoder run that says it, scripted."""

from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.decoding.alignment import chosen_probabilities, locate_words
from whispertide.decoding.token_words import WordTiming
from whispertide.model.engine import DecodeOutput, DecodeRequest
from whispertide.types import FRAME_SAMPLES


def test_probabilities_of_the_chosen_tokens() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])) + 3.0
    assert chosen_probabilities(logits.astype(np.float32), [1, 2]).tolist() == pytest.approx([0.25, 0.8], rel=1e-5)
    assert chosen_probabilities(np.zeros((1, 2), np.float32), [0]).dtype == np.float32


class Letters:
    """A tokenizer of one letter per token; the capital ones begin words. Token 30 ends the text."""

    eot = 30
    asked: tuple[Any, ...] = ()

    def sot_sequence(self, language: str | None, task: str, timestamps: bool) -> tuple[int, ...]:
        self.asked = (language, task, timestamps)
        return (31, 32, 33)

    def split_to_word_tokens(self, tokens: list[int], language: str | None) -> tuple[list[str], list[list[int]]]:
        spoken, task, _ = self.asked
        assert language == ("en" if task == "translate" else spoken)
        words: list[list[int]] = []
        for token in tokens:
            if token < 10 or token == self.eot:
                words.append([])
            words[-1].append(token)
        return ["".join(chr(97 + token) for token in word) for word in words], words


@dataclass
class Attentive:
    """A model of two heads whose token k of the text attends to the frame `frames[k]`; `said` are their shares."""

    frames: list[int]
    width: int = 60
    n_text_ctx: int = 20
    encoded: Any = None
    heads: Any = None
    request: DecodeRequest | None = None

    def __post_init__(self) -> None:
        self.tokenizer = Letters()
        self.alignment_heads = ((1, 0), (3, 1))
        self.dims = SimpleNamespace(n_text_ctx=self.n_text_ctx, n_text_layer=4, n_text_head=2)

    def decoder(self, encoded: Any, heads: Any) -> "Attentive":
        self.encoded, self.heads = encoded, heads
        return self

    def run(self, request: DecodeRequest) -> DecodeOutput:
        self.request = request
        length = request.tokens.shape[1]
        logits = np.zeros((1, len(request.logits_at), 40), np.float32)
        for row, at in enumerate(request.logits_at):
            logits[0, row, request.tokens[0, at + 1]] = np.log(29.0)  # as likely as the rest of the text together
        logits[:, :, 30:] = 50.0  # no text: does not count
        attention = np.full((2, 1, length, self.width), 1e-3, np.float32)
        for place, (first, last) in enumerate(pairwise([*self.frames, self.width])):
            attention[:, 0, 2 + place, first:last] = 1.0
        return DecodeOutput(logits=logits, attention=attention)


def located(model: Any, text: list[int], valid: int = 60, **about: Any) -> list[WordTiming]:
    return locate_words(model, SimpleNamespace(valid_frames=valid), text, **about)  # type: ignore[arg-type]


class TestLocateWords:
    def test_each_word_lasts_from_its_first_token_to_the_next_word(self) -> None:
        model = Attentive([2, 10, 20, 34, 50])
        words = located(model, [1, 11, 2, 12])
        assert [(word.text, word.tokens) for word in words] == [("bl", (1, 11)), ("cm", (2, 12))]
        bounds = [(word.start / FRAME_SAMPLES, word.end / FRAME_SAMPLES) for word in words]
        assert bounds[0][0] == 0
        assert np.abs(np.array(bounds).ravel()[1:] - [20, 20, 50]).max() <= 3
        assert [word.probability for word in words] == pytest.approx([0.5, 0.5], abs=0.01)
        assert model.heads == ((1, 0), (3, 1))
        assert model.encoded.valid_frames == 60
        assert model.tokenizer.asked == (None, "transcribe", False)
        assert model.request is not None
        assert model.request.tokens.dtype == np.int64
        assert model.request.tokens.tolist() == [[31, 32, 33, 1, 11, 2, 12, 30]]
        assert model.request.logits_at == (2, 3, 4, 5)
        assert model.request.need == "logits"

    def test_language_and_task_are_asked_for(self) -> None:
        model = Attentive([0, 20])
        assert len(located(model, [1], language="de", task="translate")) == 1
        assert model.tokenizer.asked == ("de", "translate", False)

    def test_text_beyond_the_context_is_left_out(self) -> None:
        model = Attentive([0] * 5, n_text_ctx=8)
        assert [word.tokens for word in located(model, [1, 2, 3, 4, 5, 6])] == [(1,), (2,), (3,), (4,)]

    @pytest.mark.parametrize(("asked", "valid", "end"), [(None, 60, 50), (None, 30, 29), (30, 60, 29), (60, 30, 29)])
    def test_only_frames_of_real_audio_count(self, asked: int | None, valid: int, end: int) -> None:
        (word,) = located(Attentive([2, 50]), [1], valid, frames=asked)
        assert word.end / FRAME_SAMPLES <= end + 3

    def test_nothing_is_found_in_nothing(self) -> None:
        model = Attentive([0, 0])
        assert located(model, []) == []
        assert located(model, [1], frames=0) == []
        assert model.request is None
        assert len(located(model, [1], frames=1)) == 1
