"""What is asked of a causal Whisper: a toy alignment by hand, and the moments that are drawn."""

import numpy as np
import pytest

from small_training import nano
from whispertide_lab.training.augment import SpokenWord
from whispertide_lab.training.causal_labels import Spoken, sample_points
from whispertide_lab.training.windows import Segment, Window, answer

RATE = 16_000
TOKENIZER = nano().tokenizer
EOT = TOKENIZER.eot


def said(*words: tuple[str, float, float], timed: bool = True, prompt: str = "") -> Spoken:
    """The answer to a window of 4 s with these words."""
    heard = [SpokenWord(text, round(start * RATE), round(end * RATE)) for text, start, end in words]
    segments = [Segment(heard, timed)] if words else []
    asked = TOKENIZER.encode(prompt) if prompt else []
    tokens, targets, places = answer(TOKENIZER, segments, asked, stamped=False)
    return Spoken.of(Window(np.zeros(4 * RATE, np.float32), tokens, targets, places, ""), TOKENIZER, 4.0)


@pytest.fixture(scope="module")
def toy() -> Spoken:
    """ "The" until 0.5 s, a name of several tokens from 0.6 to 1.2 s, "ran." until 2 s."""
    return said(("The", 0.2, 0.5), ("Quibblesworth", 0.6, 1.2), ("ran.", 1.4, 2.0))


def test_the_table_of_a_toy_alignment(toy: Spoken) -> None:
    the, name, ran = (TOKENIZER.encode(text) for text in (" The", " Quibblesworth", " ran."))
    assert (len(the), len(ran)) == (1, 2)
    text = [*the, *name, *ran]
    assert toy.tokens.tolist() == [TOKENIZER.sot, TOKENIZER.no_timestamps, *text]
    assert toy.targets.tolist() == [-1, *text, EOT], "the start of the transcript is given"
    shared = [0.6 + 0.6 * part / len(name) for part in range(1, len(name) + 1)]
    np.testing.assert_allclose(toy.ends, [0, 0.5, *shared, 1.7, 2.0, np.inf], atol=1e-4)
    assert toy.last_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("second", "count"), [(0.0, 0), (0.48, 0), (0.5, 1), (0.6, 1), (1.72, -2), (2.0, -1), (9.0, -1)]
)
def test_what_has_ended_is_said_then_the_end_then_nothing_counts(toy: Spoken, second: float, count: int) -> None:
    """`count` tokens, from the end of the text where it is negative."""
    text = toy.targets[1:-1].tolist()
    kept = text[:count] if count >= 0 else text[: len(text) + 1 + count]
    rest = len(text) - len(kept)
    assert toy.by(second, EOT).tolist() == [-1, *kept, EOT, *[-1] * rest]


def test_half_a_word_of_several_tokens(toy: Spoken) -> None:
    name = TOKENIZER.encode(" Quibblesworth")
    second = 0.6 + 0.6 * 2 / len(name) + 0.01
    assert [token for token in toy.by(second, EOT) if token >= 0] == [*TOKENIZER.encode(" The"), *name[:2], EOT]


def test_silence_is_answered_with_the_end_at_any_time() -> None:
    silence = said()
    for second in (0.6, 4.0):
        assert silence.by(second, EOT).tolist() == [-1, EOT]


def test_a_prompt_does_not_count() -> None:
    spoken = said(("Yes.", 0.5, 1.0), prompt=" Where was it?")
    assert (spoken.targets >= 0).sum() == len(TOKENIZER.encode(" Yes.")) + 1
    assert spoken.by(0.6, EOT)[spoken.targets >= 0].tolist()[0] == EOT


BLOCKS = (*range(30, 200, 5), 200)


def test_moments_are_block_ends_until_a_second_after_the_last_word(toy: Spoken) -> None:
    drawn = [sample_points(toy, BLOCKS, 5, np.random.RandomState(seed)) for seed in range(300)]
    assert {point for points in drawn for point in points} == {end for end in BLOCKS if end <= 150}
    assert {len(points) for points in drawn} == {int(25 * 0.05) + 1}
    assert any(points != sorted(points) for points in drawn), "in an order by the dice"
    assert len(sample_points(toy, BLOCKS, 15, np.random.RandomState(0))) == int(25 * 0.25) + 1


def test_without_word_times_the_end_is_the_only_moment() -> None:
    unknown = said(("Who", 0, 0), ("knows?", 0, 0), timed=False)
    assert not unknown.exact
    assert sample_points(unknown, BLOCKS, 5, np.random.RandomState(0)) == [200]
    assert unknown.by(4.0, EOT).tolist() == unknown.targets.tolist()


def test_silence_is_asked_anywhere_but_at_the_cut() -> None:
    drawn = {point for seed in range(200) for point in sample_points(said(), BLOCKS, 5, np.random.RandomState(seed))}
    assert drawn == set(BLOCKS[:-1])


def test_a_window_within_the_first_block_is_asked_at_its_end() -> None:
    assert sample_points(said(("Yes.", 0.1, 0.3)), (25,), 5, np.random.RandomState(0)) == [25]
