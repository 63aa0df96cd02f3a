"""A checkpoint teaches itself short windows: lessons, losses, what is kept, and who is refused. All of toy size."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from small_training import changed_by, nano, quiet, resumed, small_dims
from whispertide.audio.buffer import to_float
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.low_rank import adapted_names, merge_adapter
from whispertide.checkpoint.short import GROUPS, ShortAdapter
from whispertide.cli.main import app
from whispertide.decoding.search import Hypothesized, SearchResult
from whispertide.errors import CorpusError, OptionError
from whispertide.features import log_mel, padded
from whispertide_lab.cli.train_short import table
from whispertide_lab.training import short, short_lessons, short_texts
from whispertide_lab.training.network import Whisper, load_network, new_network
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.short import REPORT, ShortOptions, ShortTrainer, model_of, open_trainer, parts_of
from whispertide_lab.training.short_batches import ShortBatches, collated, in_order
from whispertide_lab.training.short_framing import encode_short
from whispertide_lab.training.short_lessons import Lesson, Teacher, bare_mel, teach
from whispertide_lab.training.short_texts import compare
from whispertide_lab.training.short_windows import ShortWindowOptions, Stretch

pytestmark = pytest.mark.slow

WINDOWS = ShortWindowOptions(lengths=3, longest_s=1.5, silent=0.2)
OPTIONS = ShortOptions(
    rank=2, steps=4, epoch=2, rate=0.01, best=2, held_out=6, lessons=12, batch=3, again=0.5, windows=WINDOWS
)
TEXT = tuple(nano().tokenizer.encode(" Yes, a bird."))


def said(*tokens: int, stop: Any = "end_of_text", total: float = -1.0, no_speech: float = 0.0) -> Callable[..., Any]:
    """A search that finds this."""
    return lambda *_: SearchResult(Hypothesized(tokens, (0.0,) * len(tokens), total, stop), no_speech)


@pytest.fixture(autouse=True)
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights never end a text; their states are theirs."""
    monkeypatch.setattr(short_lessons, "search", said(*TEXT))
    monkeypatch.setattr(short_lessons, "CHUNK", 5)


def teacher(checkpoint: Checkpoint, **changes: Any) -> Teacher:
    network = load_network(checkpoint).eval()
    return Teacher(model_of(checkpoint, network), replace(WINDOWS, **changes), None)


def trainer(
    checkpoint: Checkpoint, shards: Shards, folder: Path, start: ShortAdapter | None = None, **changes: Any
) -> ShortTrainer:
    options = replace(OPTIONS, content_hash=checkpoint.tensors_hash, **changes)
    made = open_trainer(checkpoint, shards, options, folder, start=start)
    assert made is not None
    return made


def answer(of: Teacher, *, spoken: bool = True, before: tuple[int, ...] = (), count: int = 16_000) -> Lesson | None:
    sound = np.random.default_rng(0).standard_normal(count, np.float32) * np.float32(0.1)
    spans = ((0, count),) if spoken else ()
    return of.answer(Stretch(sound, spans), 0, count, before, np.random.RandomState(0))


# --- lessons ----------------------------------------------------------------------------------------------------------


def test_a_lesson_is_the_teachers_text_its_end_and_its_states(checkpoint: Checkpoint) -> None:
    lesson = answer(teacher(checkpoint, timestamps=0.0), before=(11, 12))
    assert lesson is not None
    tokenizer = nano().tokenizer
    start = [tokenizer.sot_prev, 11, 12, tokenizer.sot, tokenizer.no_timestamps]
    assert lesson.tokens.tolist() == [*start, *TEXT]
    assert lesson.targets.tolist() == [-1] * 4 + [*TEXT, tokenizer.eot]
    assert lesson.heard.tolist() == [False] * 3 + [True] * (2 + len(TEXT)), "from the start of the transcript on"
    network = load_network(checkpoint).eval()
    mel = padded(log_mel(to_float(lesson.samples)), 3000)
    with torch.no_grad():
        hidden, _ = network.decoder(
            torch.from_numpy(lesson.tokens)[None].long(), network.encoder(torch.from_numpy(mel)[None])
        )
    np.testing.assert_allclose(lesson.hidden, hidden[0, lesson.heard], atol=5e-3)


def test_where_nothing_is_said_the_text_ends_at_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = nano().tokenizer
    silent = answer(teacher(checkpoint, timestamps=0.0), spoken=False)
    # The teacher hears no speech, and is not sure of its text.
    monkeypatch.setattr(short_lessons, "search", said(*TEXT, total=-50.0, no_speech=0.9))
    unheard = answer(teacher(checkpoint, timestamps=0.0))
    for lesson in (silent, unheard):
        assert lesson is not None
        assert lesson.tokens.tolist() == [tokenizer.sot, tokenizer.no_timestamps, TEXT[0]]
        assert lesson.targets.tolist() == [-1, tokenizer.eot, tokenizer.eot]
        assert lesson.heard.tolist() == [True, False, False], "how likely speech is stays the teacher's"


@pytest.mark.parametrize("found", [said(*TEXT, stop="length"), said(*TEXT, total=-50.0)])
def test_what_the_teacher_is_not_sure_of_is_no_lesson(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, found: Any
) -> None:
    monkeypatch.setattr(short_lessons, "search", found)
    assert answer(teacher(checkpoint)) is None


def test_a_second_window_has_the_text_of_the_first_before_it(checkpoint: Checkpoint, shards: Shards) -> None:
    of = teacher(checkpoint, follows=1.0, silent=0.0, timestamps=0.0)
    rows = [list(of.lessons(lambda dice: shards[int(dice.randint(60))], np.random.RandomState(n))) for n in range(10)]
    pairs = [row for row in rows if len(row) == 2 and len(row[0].tokens) > 5]
    assert pairs
    for _, second in pairs:
        assert second.tokens[: 1 + len(TEXT)].tolist() == [nano().tokenizer.sot_prev, *TEXT]


def test_music_is_told_from_speech(checkpoint: Checkpoint, shards: Shards, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(short_lessons, "search", said(*TEXT, total=-50.0, no_speech=0.9))
    with pytest.raises(CorpusError, match=r"who speak; in \d+ of \d+ windows nano.en finds no text that it is certain"):
        teach(teacher(checkpoint), shards, 100, 0, tmp_path / "lessons", lambda *_: None, lambda: False)


def test_teaching_goes_on_where_it_was_stopped(checkpoint: Checkpoint, shards: Shards, tmp_path: Path) -> None:
    def taught(folder: Path, stop: Callable[[], bool]) -> list[Lesson] | None:
        return teach(teacher(checkpoint), shards, 12, 0, folder, lambda *_: None, stop)

    stops = iter([False] * 6 + [True])
    whole = taught(tmp_path / "whole", lambda: False)
    assert taught(tmp_path / "stopped", lambda: next(stops)) is None
    assert sorted(path.name for path in (tmp_path / "stopped").iterdir()) == ["00000.npz"]
    again = taught(tmp_path / "stopped", lambda: False)
    assert whole is not None
    assert again is not None
    assert len(whole) == len(again) == 12
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        np.testing.assert_array_equal(one.tokens, other.tokens)
    (tmp_path / "whole" / "00001.npz").write_bytes(b"half")
    with pytest.raises(CorpusError, match=r"00001.npz; it is damaged .*: remove it to teach them again"):
        taught(tmp_path / "whole", lambda: False)


# --- the loss ---------------------------------------------------------------------------------------------------------


def lessons_of(checkpoint: Checkpoint, shards: Shards, folder: Path, count: int = 12) -> list[Lesson]:
    made = teach(teacher(checkpoint), shards, count, 0, folder, lambda *_: None, lambda: False)
    assert made is not None
    return made


def test_the_teacher_itself_has_nothing_to_learn_of_padded_windows(
    checkpoint: Checkpoint, shards: Shards, tmp_path: Path
) -> None:
    network = load_network(checkpoint).eval()
    batch = ShortBatches(lessons_of(checkpoint, shards, tmp_path), 3, 1.0, 80, nano().tokenizer.eot, 0)[0]
    assert len(batch.padded) == len(batch.bare) > 1
    with torch.no_grad():
        others = new_network(small_dims(), 1).eval()
        parts, other = (parts_of(each, batch, each.encoder(batch.bare)) for each in (network, others))
    assert abs(float(parts.changed)) < 1e-5 < float(parts.distance) / 5  # rounding, by the processor
    assert float(other.changed) > 1e-5


def test_batches_are_windows_of_one_length_and_a_function_of_their_number(
    checkpoint: Checkpoint, shards: Shards, tmp_path: Path
) -> None:
    lessons = lessons_of(checkpoint, shards, tmp_path)
    batches = ShortBatches(lessons, 3, 0.5, 80, nano().tokenizer.eot, 0)
    assert torch.equal(batches[3].bare, batches[3].bare)
    twice = {(len(batches[number].bare), len(batches[number].padded)) for number in range(30)}
    assert {padded for bare, padded in twice if bare == 3} == {1, 2}, "half of three, on average"
    all_of_them = [collated(*part, 80, nano().tokenizer.eot) for part in in_order(lessons, 3)]
    assert sum(len(batch.bare) for batch in all_of_them) == len(lessons)
    for batch in all_of_them:
        assert len(batch.hidden) == int(batch.heard.sum())
        assert batch.count >= len(batch.hidden)
        assert batch.bare.shape[2] % 2 == 0


# --- training ---------------------------------------------------------------------------------------------------------


def test_the_loss_falls_and_only_adapters_change(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    run = trainer(checkpoint, shards, tmp_path / "run", steps=100)
    changed = changed_by(run, 4)
    assert changed
    assert all("lora_" in name for name in changed)
    assert not any(".encoder_attn.q_proj" in name or "decoder.layers.0.fc" in name for name in changed)


def test_a_resumed_run_is_the_run_that_was_not_interrupted(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint
) -> None:
    whole = trainer(checkpoint, shards, tmp_path / "whole")
    assert whole.run(quiet)
    expected = whole.result()
    result = resumed(trainer, checkpoint, shards, tmp_path / "stopped", at=3).result()
    assert result.report == expected.report
    for name, (a, b) in expected.matrices.items():
        np.testing.assert_array_equal(result.matrices[name][0], a)
        np.testing.assert_array_equal(result.matrices[name][1], b)
    assert set(result.matrices) == set(adapted_names(checkpoint.dims, GROUPS))
    report = json.loads((tmp_path / "whole" / REPORT).read_text())
    assert report == json.loads(json.dumps(expected.report))
    assert {"held_out", "held_out_without", "texts", "texts_without", "kept"} <= report.keys()
    assert report["texts"]["windows"] == 6
    assert report["data"]["held_out_speakers"] == 6
    assert report["held_out"] == min(expected.report["held_out"], round(whole.best[0].loss, 4))


def test_with_merged_padding_one_batch_in_three_is_bare(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(checkpoint, shards, tmp_path / "run", steps=6, epoch=6, merged=4)
    heard: list[tuple[int, bool]] = []

    def encode(network: Whisper, bare: torch.Tensor, merged: int) -> torch.Tensor:
        heard.append((merged, torch.is_grad_enabled()))
        return encode_short(network, bare, merged)

    monkeypatch.setattr(short, "encode_short", encode)
    assert run.run(quiet)
    assert [merged for merged, learning in heard if learning] == [0, 4, 4, 0, 4, 4]
    assert {merged for merged, learning in heard if not learning} == {4}
    assert run.result().merged == 4


def test_what_was_learned_is_what_runs(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    run = trainer(checkpoint, shards, tmp_path / "run")
    run.run(quiet)
    run.result().save(tmp_path / "short.npz")
    plain = load_network(merge_adapter(checkpoint, ShortAdapter.load(tmp_path / "short.npz", checkpoint))).eval()
    mel = torch.from_numpy(bare_mel(np.zeros(16_000, np.int16), 80))[None]
    with torch.no_grad():
        assert torch.allclose(plain.encoder(mel), run.network.encoder(mel), atol=2e-3)


def test_a_run_with_other_options_or_speech_is_refused(tmp_path: Path, shards: Shards, checkpoint: Checkpoint) -> None:
    trainer(checkpoint, shards, tmp_path / "run")
    with pytest.raises(OptionError, match="got others for rank"):
        trainer(checkpoint, shards, tmp_path / "run", rank=3)
    with pytest.raises(OptionError, match="expected lessons and batch from 1"):
        replace(OPTIONS, batch=0)


def test_training_goes_on_from_an_adapter_of_the_same_shape(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint
) -> None:
    first = trainer(checkpoint, shards, tmp_path / "first")
    first.run(quiet)
    replace(first.result(), content_hash="of another checkpoint").save(tmp_path / "short.npz")
    start = ShortAdapter.load(tmp_path / "short.npz", checkpoint, of_shape=True)
    more = trainer(checkpoint, shards, tmp_path / "more", start=start)
    assert more.held_out_loss() == pytest.approx(start.report["held_out"], rel=1e-2)  # float16 in the file
    with pytest.raises(OptionError, match="an adapter of rank 3 to go on from; got one of rank"):
        trainer(checkpoint, shards, tmp_path / "other", start=start, rank=3)


def test_a_run_that_began_from_another_adapter_is_refused(
    tmp_path: Path, shards: Shards, checkpoint: Checkpoint
) -> None:
    """Also one that began from none."""
    made = trainer(checkpoint, shards, tmp_path / "made")
    made.run(quiet)
    one = made.result()
    other = replace(one, matrices={name: (a, 2 * b) for name, (a, b) in one.matrices.items()})
    trainer(checkpoint, shards, tmp_path / "run", start=one)
    trainer(checkpoint, shards, tmp_path / "run", start=one)
    for start in (other, None):
        with pytest.raises(OptionError, match="got others for from: choose another --run"):
            trainer(checkpoint, shards, tmp_path / "run", start=start)
    with pytest.raises(OptionError, match="got others for from"):
        trainer(checkpoint, shards, tmp_path / "made", start=one)


# --- texts ------------------------------------------------------------------------------------------------------------


def test_texts_are_compared_by_words_and_ends(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    lessons = [lesson for lesson in (answer(teacher(checkpoint, timestamps=0.0)),) if lesson is not None]
    model = model_of(checkpoint, load_network(checkpoint).eval())
    tokens = nano().tokenizer.encode(" yes a bird flew")
    for found, expected in (
        (said(*TEXT), {"endless": 0, "words": 3, "changed": 0, "added": 0}),
        (said(*tokens), {"endless": 0, "words": 3, "changed": 0, "added": 1}),
        (said(*tokens[:1]), {"endless": 0, "words": 3, "changed": 2, "added": 0}),
        (said(*tokens, stop="length"), {"endless": 1, "words": 0, "changed": 0, "added": 0}),
    ):
        monkeypatch.setattr(short_texts, "search", found)
        assert compare(model, lessons) == {"windows": 1, **expected}


def test_a_table_says_what_came_of_it() -> None:
    texts = {"windows": 80, "endless": 40, "words": 200, "changed": 30, "added": 9, "distance": 2.5}
    report = {
        "texts_without": {**texts, "distance_padded": 0.0},
        "texts": {**texts, "endless": 0, "distance_padded": 0.02},
        "held_out": 0.5,
        "held_out_without": 4.25,
    }
    rows = [line.split() for line in table(report).splitlines()]
    assert rows[1][-6:] == ["40", "of", "80", "0", "of", "80"]
    assert rows[-1] == ["loss", "per", "token", "4.25", "0.5"]


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_trains_and_tide_finds_it(
    small_folder: Path, more_speech: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(short_texts, "search", said(*TEXT))
    given = ["--windows", "10", "--steps", "2", "--rank", "2", "--batch", "2", "--device", "cpu", "-j", "0"]
    command = ["train", "short", str(small_folder), str(more_speech), "--run", str(tmp_path / "run"), *given]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    path = Path(result.stdout.strip().splitlines()[-1])
    checkpoint = load_checkpoint(small_folder)
    assert path.is_relative_to(tmp_path / "cache" / "attachments")
    assert ShortAdapter.of_checkpoint(checkpoint).rank == 2
    assert "texts that do not end" in result.output
