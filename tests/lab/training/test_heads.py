"""Alignment heads: on made-up attention whose right answer is known, and on the bundled model."""

import json
from pathlib import Path

import numpy as np
import pytest

from reference import NANO, nano
from whispertide.audio.file import load_audio
from whispertide.checkpoint import hub, load_checkpoint
from whispertide.errors import CheckpointError
from whispertide.types import FRAME_SAMPLES, FloatArray
from whispertide_lab.speech.sentences import open_sentences
from whispertide_lab.speech.utterance import RefWord, Utterance
from whispertide_lab.speech.voices import Voice
from whispertide_lab.training import heads as choosing
from whispertide_lab.training.heads import (
    Attended,
    TimedWindow,
    attend,
    choose_heads,
    grow,
    joined,
    own_folder,
    timed_windows,
    timing,
    write_heads,
)

WORDS, FRAMES = 6, 60
# Another version of a synthesizer says the sentences a little differently. The score is a mean of 320 words, whose
# standard error is about 5 %.
AS_GOOD = 1.05


def diagonal(late: int = 0, noise: float = 0.0, blind: range = range(0)) -> FloatArray:
    """Each word 10 frames long, attended to `late` frames late; words in `blind` are attended to everywhere alike."""
    scores = noise * np.random.default_rng(3).standard_normal((WORDS + 1, FRAMES)).astype(np.float32)
    for word in range(WORDS):
        if word not in blind:
            scores[word] -= 1
            scores[word, 10 * word + late : 10 * (word + 1) + late] += 2
    scores[WORDS] -= 1
    scores[WORDS, 10 * WORDS - 1 :] += 2
    return scores


def window(**scores: FloatArray) -> Attended:
    return Attended(
        scores={(0, at): found for at, found in enumerate(scores.values())},
        spans=tuple((10 * word * FRAME_SAMPLES, 10 * (word + 1) * FRAME_SAMPLES) for word in range(WORDS)),
        words=tuple(f" word{word}" for word in range(WORDS)),
        tokens=tuple((word,) for word in range(WORDS)),
    )


def test_a_head_that_follows_the_speech_scores_near_nothing_and_a_late_one_its_delay() -> None:
    seen = [window(exact=diagonal(), late=diagonal(late=4))]
    assert timing(seen, [(0, 0)]).score <= 5  # the last word's end is one frame off by construction
    late = timing(seen, [(0, 1)])
    assert late.median == pytest.approx(80)
    assert late.words == WORDS


def test_one_lost_sentence_counts_as_half_a_second_a_word_at_most() -> None:
    lost = np.zeros((WORDS + 1, FRAMES), np.float32)
    assert timing([window(lost=lost)], [(0, 0)]).score <= 500


def test_heads_that_complete_each_other_are_taken_together_and_others_are_not() -> None:
    seen = [
        window(
            first=diagonal(blind=range(3, 6), noise=0.1),
            second=diagonal(blind=range(3), noise=0.1),
            noise=np.random.default_rng(5).standard_normal((WORDS + 1, FRAMES)).astype(np.float32),
        )
    ]
    alone = {head: timing(seen, [head]).score for head in seen[0].scores}
    chosen = grow(seen, list(alone))
    assert chosen == ((0, 0), (0, 1))
    assert timing(seen, chosen).score < min(alone.values())


def test_company_that_does_not_help_stays_out() -> None:
    seen = [window(exact=diagonal(), copy=diagonal(), late=diagonal(late=5))]
    assert grow(seen, [(0, 2), (0, 1), (0, 0)]) in (((0, 0),), ((0, 1),))


def test_joined_sentences_keep_their_times() -> None:
    def said(*spans: tuple[int, int]) -> Utterance:
        words = tuple(RefWord("word", start, end) for start, end in spans)
        return Utterance("u", words, 1.0, lambda: np.ones(1000, np.float32), exact_times=True)

    found = joined([said((0, 400), (400, 900)), said((100, 300))])
    assert len(found.samples) == 2000
    assert [(word.start, word.end) for word in found.words] == [(0, 400), (400, 900), (1100, 1300)]


@pytest.mark.slow
def test_attention_is_what_word_times_are_made_of() -> None:
    """One row per token and one for the end; frames only where there is audio; words given back one by one."""
    clip = Path(__file__).parents[2] / "clips" / "quiet.flac"
    text = clip.with_suffix(".txt").read_text().split()
    samples = load_audio(clip)
    step = len(samples) // len(text)
    said = TimedWindow(samples, tuple(RefWord(word, step * n, step * (n + 1)) for n, word in enumerate(text)))
    found = attend(nano(), said, [(3, 0), (2, 1)])
    assert set(found.scores) == {(3, 0), (2, 1)}
    tokens = sum(map(len, found.tokens))
    assert all(scores.shape == (tokens + 1, len(samples) // FRAME_SAMPLES) for scores in found.scores.values())
    assert len(found.spans) == len(text)
    assert timing([found], [(3, 0)]).words == len(text)


@pytest.mark.slow
def test_the_bundled_model_has_heads_that_follow_the_speech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nano()
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    voices = (Voice("espeak-ng", "en-us"), Voice("espeak-ng", "en"))
    utterances = list(open_sentences("grammar", voices, 6, seed=choosing.SEED).utterances())
    windows = [joined(utterances[at : at + 2]) for at in range(0, len(utterances), 2)]
    choice = choose_heads(model, windows)
    ranked = sorted(choice.single, key=lambda head: choice.single[head].score)
    assert choice.heads
    assert set(choice.heads) <= set(ranked)
    assert choice.single[ranked[0]].score < 0.7 * choice.single[ranked[-1]].score
    assert choice.after.words == choice.before.words > 20


@pytest.mark.soak
def test_the_bundled_model_has_the_heads_that_the_score_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or others that are as good, on the sentences that `train heads` checks them with; the worst ones are not."""
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    windows = timed_windows()
    choice = choose_heads(nano(), windows)
    stored = load_checkpoint("nano.en").generation.alignment_heads
    assert choice.previous == stored
    assert choice.before.score < choice.after.score * AS_GOOD
    worst = sorted(choice.single, key=lambda head: choice.single[head].score)[-len(stored) :]
    seen = [attend(nano(), window, worst) for window in windows[len(windows) // 2 :]]
    assert timing(seen, worst).score > choice.after.score * 1.5


def test_only_the_heads_change_in_the_checkpoint(tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).symlink_to(NANO / name)
    before = json.loads((NANO / "generation_config.json").read_text())
    write_heads(own_folder(str(tmp_path)), [(1, 2), (3, 3)])
    after = json.loads((tmp_path / "generation_config.json").read_text())
    assert after == before | {"alignment_heads": [[1, 2], [3, 3]]}
    assert json.loads((NANO / "generation_config.json").read_text()) == before
    assert load_checkpoint(tmp_path).generation.alignment_heads == ((1, 2), (3, 3))
    assert not list(tmp_path.glob("*.part"))


def test_a_downloaded_checkpoint_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "hub_cache", lambda: tmp_path)
    folder = tmp_path / "models--someone--model" / "snapshots" / "1"
    folder.mkdir(parents=True)
    monkeypatch.setattr(hub, "resolve", lambda name: folder)
    with pytest.raises(CheckpointError, match="copy it first"):
        own_folder("someone/model")
