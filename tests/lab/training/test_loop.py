"""The training loop: what an update does, and that stopping a run, in whatever way, changes nothing."""

import json
import math
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from small_training import quiet, small_batches, small_trainer
from whispertide.errors import CheckpointError
from whispertide_lab.training import loop
from whispertide_lab.training.batches import Batch
from whispertide_lab.training.loop import LOG, STATE, read_log, read_state
from whispertide_lab.training.losses import departure

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    return train(speech, tmp_path_factory.mktemp("run"))


def train(speech: Path, run: Path, **options: Any) -> Path:
    trainer, batches = small_trainer(speech, run, **options)
    assert trainer.run(batches, quiet)
    return run


def same_state(first: Path, second: Path) -> bool:
    """Weights, averages and optimiser equal to the bit, and the same losses in the log."""
    assert [comparable(line) for line in read_log(first / LOG)] == [comparable(line) for line in read_log(second / LOG)]
    return equal(read_state(first), read_state(second))


def equal(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[name], second[name]) for name in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else bool(first == second)


def comparable(line: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in line.items() if name in ("step", "next", "ctc", "guide", "norm", "rate")}


# --- stopping and going on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(1, 12, 3))
def test_stopped_at_any_update_and_resumed(speech: Path, whole: Path, tmp_path: Path, at: int) -> None:
    trainer, batches = small_trainer(speech, tmp_path)
    assert not trainer.run(batches, quiet, stop=lambda: bool(trainer.step >= at))
    assert read_state(tmp_path)["step"] >= at
    assert same_state(train(speech, tmp_path), whole)


def test_another_seed_is_another_run(speech: Path, whole: Path, tmp_path: Path) -> None:
    """The comparison above can fail."""
    trainer, _ = small_trainer(speech, tmp_path)
    trainer.run(small_batches(speech, seed=1).after(0, 1000, 0), quiet)
    assert not equal(read_state(tmp_path)["network"], read_state(whole)["network"])


def in_a_process(body: Callable[[], None]) -> int:
    """Exit code of `body` in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=body)
    process.start()
    process.join(60)
    return process.exitcode or 0


def test_killed_between_saves_and_resumed(speech: Path, whole: Path, tmp_path: Path) -> None:
    """The log is ahead of the state then; what it says of updates that are done again is not told twice."""

    def killed_at_10(step: int, figures: dict[str, float]) -> None:
        if step == 10:  # saved at 8
            os.kill(os.getpid(), signal.SIGKILL)

    def body() -> None:
        trainer, batches = small_trainer(speech, tmp_path)
        trainer.run(batches, killed_at_10)

    assert in_a_process(body) == -signal.SIGKILL
    assert read_state(tmp_path)["step"] == 8
    assert read_log(tmp_path / LOG)[-1]["step"] == 10
    assert same_state(train(speech, tmp_path), whole)


def test_killed_while_saving_and_resumed(speech: Path, whole: Path, tmp_path: Path) -> None:
    def body() -> None:
        trainer, batches = small_trainer(speech, tmp_path)
        write = torch.save  # replaced in this process alone

        def write_half(content: Any, file: Any) -> None:
            write(content, file)
            if content["step"] == 8:
                file.truncate(1000)
                os.kill(os.getpid(), signal.SIGKILL)

        torch.save = write_half
        trainer.run(batches, quiet)

    assert in_a_process(body) == -signal.SIGKILL
    assert [left.stat().st_size for left in tmp_path.glob("*.part")] == [1000]
    assert read_state(tmp_path)["step"] == 4
    assert same_state(train(speech, tmp_path), whole)


def test_what_is_raised_in_mid_update_leaves_the_last_save(speech: Path, whole: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path)

    def fail(*_: Any) -> None:
        if trainer.step == 6:
            raise KeyboardInterrupt

    trainer.optimiser.register_step_post_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(batches, quiet)
    assert read_state(tmp_path)["step"] == 4
    assert same_state(train(speech, tmp_path), whole)


def test_a_log_that_was_cut_off(speech: Path, tmp_path: Path) -> None:
    (tmp_path / LOG).write_text('{"step": 2, "next": 1.0}\n{"step": 4, "ne')
    assert read_log(tmp_path / LOG) == [{"step": 2, "next": 1.0}]
    assert read_log(tmp_path / "none") == []


def test_a_log_that_cannot_be_cut_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"step": step, "next": 1.0} for step in (1, 2, 3)]
    (tmp_path / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def fail(self: Path, target: Path) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="no space left"):
            loop.cut_log(tmp_path / LOG, 2)
    assert read_log(tmp_path / LOG) == lines
    loop.cut_log(tmp_path / LOG, 2)
    assert read_log(tmp_path / LOG) == lines[:2]
    assert [path.name for path in tmp_path.iterdir()] == [LOG]


def test_no_state_damaged_state_foreign_state(speech: Path, whole: Path, tmp_path: Path) -> None:
    trainer, _ = small_trainer(speech, tmp_path)
    with pytest.raises(CheckpointError, match=r"no state\.pt yet"):
        trainer.load()
    (tmp_path / STATE).write_bytes((whole / STATE).read_bytes()[:5000])
    with pytest.raises(CheckpointError, match="damaged"):
        trainer.load()
    content = read_state(whole)
    content["network"]["encoder.conv1.bias"] = torch.zeros(17)
    torch.save(content, tmp_path / STATE)
    with pytest.raises(CheckpointError, match="this very network"):
        trainer.load()


# --- one update -------------------------------------------------------------------------------------------------------


def joined(batches: list[Batch]) -> Batch:
    """Batches of windows of one length as one."""
    longest = max(batch.tokens.shape[1] for batch in batches)

    def wide(values: Any, filler: float) -> Any:
        shape = (values.shape[0], longest - values.shape[1], *values.shape[2:])
        return torch.cat([values, torch.full(shape, filler, dtype=values.dtype)], 1)

    return Batch(
        torch.cat([batch.mel for batch in batches]),
        torch.cat([wide(batch.tokens, 50256) for batch in batches]),
        torch.cat([wide(batch.targets, -1) for batch in batches]),
        torch.cat([wide(batch.places, -1) for batch in batches]),
        [text for batch in batches for text in batch.texts],
    )


def test_accumulated_batches_are_one(speech: Path, tmp_path: Path) -> None:
    """Although they hold different numbers of tokens, letters and places."""
    every = [small_batches(speech)[number] for number in range(12)]
    chosen = [batch for batch in every if batch.mel.shape[2] == 100][:3]
    assert len({int((batch.targets >= 0).sum()) for batch in chosen}) == 3
    results = []
    for name, batches in (("three", chosen), ("one", [joined(chosen)]), ("two", chosen[:2])):
        trainer, _ = small_trainer(speech, tmp_path / name)
        figures = [trainer.update(batches) for _ in range(2)]
        weights = torch.cat([p.detach().flatten() for p in trainer.network.parameters()])
        results.append((weights, [comparable(line) for line in figures]))
    (accumulated, losses), (together, expected), (fewer, _) = results
    for line, other in zip(losses, expected, strict=True):
        assert line == pytest.approx(other, rel=1e-4)
        assert line.keys() >= {"next", "ctc", "guide", "norm"}
    assert (accumulated - together).abs().max() < 1e-6
    assert (accumulated - fewer).abs().max() > 1e-5


def test_rate_warms_up_and_falls_as_a_cosine(speech: Path, tmp_path: Path) -> None:
    trainer, _ = small_trainer(speech, tmp_path, steps=103, warm_up=3, rate=3.0, final_rate=1.0)
    rates = []
    for trainer.step in (0, 1, 2, 3, 53, 78, 103):
        rates.append(trainer.rate())
    assert rates == pytest.approx([1, 2, 3, 3, 2, 2 - math.sqrt(0.5), 1])


def test_it_learns(speech: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path, steps=40, rate=5e-3, save_every=40, report_every=10)
    trainer.run(batches, quiet)
    log = read_log(tmp_path / LOG)
    assert log[-1]["next"] < 0.85 * log[0]["next"]
    assert log[-1]["ctc"] < log[0]["ctc"]
    assert log[-1]["windows_per_s"] > 0
    assert 0 <= log[-1]["waiting"] <= 1


# --- keeping what was known -------------------------------------------------------------------------------------------


def spoken(trainer: Any, batch: Batch) -> Any:
    """Logits of every place of the windows in which somebody speaks."""
    rows = [row for row, text in enumerate(batch.texts) if text]
    with torch.no_grad():
        hidden, _ = trainer.network.decoder(trainer._rows[batch.tokens[rows]], trainer.network.encoder(batch.mel[rows]))
        return trainer.vocabulary.logits(hidden.flatten(0, 1), trainer.network.decoder.embed_tokens.weight)


def test_what_was_known_is_kept(speech: Path, tmp_path: Path) -> None:
    moved = {}
    for keep in (0.0, 3000.0):  # a network that knows nothing spreads thin, so distances are small
        trainer, batches = small_trainer(
            speech, tmp_path / f"{keep}", steps=30, rate=2e-3, ctc=0.0, guide=0.0, smoothing=0.0, keep=keep
        )
        known = spoken(trainer, tried := small_batches(speech, seed=9)[0])
        trainer.run(batches, quiet)
        moved[keep] = float(departure(spoken(trainer, tried), known))
    assert moved[3000.0] < 0.3 * moved[0.0]


def test_departure_is_none_at_the_beginning_and_of_speech_alone(speech: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path, keep=1.0)
    batch = next(batches)
    assert trainer.update([batch])["keep"] == pytest.approx(0, abs=1e-6)  # nothing was learned yet
    with torch.no_grad():
        counts = loop.count_together([batch])
        assert float(trainer._losses(batch, counts)["keep"]) > 0
        silent = replace(batch, texts=tuple("" for _ in batch.texts))
        assert float(trainer._losses(silent, counts)["keep"]) == 0


def test_what_was_known_outlives_a_stop(speech: Path, tmp_path: Path) -> None:
    train(speech, tmp_path / "whole", keep=2.0)
    trainer, batches = small_trainer(speech, tmp_path / "stopped", keep=2.0)
    assert not trainer.run(batches, quiet, stop=lambda: trainer.step == 6)
    train(speech, tmp_path / "stopped", keep=2.0)
    assert same_state(tmp_path / "whole", tmp_path / "stopped")


def test_mixed_precision_comes_close(speech: Path, tmp_path: Path) -> None:
    losses = []
    for precision in ("fp32", "bf16"):
        trainer, batches = small_trainer(speech, tmp_path / precision, precision=precision)
        losses.append(trainer.update([next(batches)])["next"])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_a_gradient_that_is_no_number_changes_nothing(speech: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path, steps=2, report_every=2)
    before = [p.detach().clone() for p in trainer.network.parameters()]
    bad = next(batches)
    bad.mel[0, 0, 0] = float("nan")
    trainer.run(iter([bad, bad]), quiet)
    assert all(map(torch.equal, before, trainer.network.parameters()))
    line = json.loads((tmp_path / LOG).read_text())
    assert line["skipped"] == 2


def test_the_average_follows(speech: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path, steps=3, average=0.25)
    name = "encoder.conv1.bias"
    expected = dict(trainer.network.named_parameters())[name].detach().clone()
    for done in range(1, 4):
        trainer.update([next(batches)])
        decay = min(0.25, (1 + done) / (10 + done))
        expected = decay * expected + (1 - decay) * dict(trainer.network.named_parameters())[name].detach()
    assert torch.allclose(trainer.averages[name], expected, atol=1e-7)
    assert not torch.equal(trainer.averages[name], trainer.network.state_dict()[name])


def test_held_out_loss_is_of_the_average_and_changes_nothing(speech: Path, whole: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path)
    trainer._held_out = [small_batches(speech, seed=9)[0]]
    trainer.run(batches, quiet)
    told = [line["held_out"] for line in read_log(tmp_path / LOG) if "held_out" in line]
    assert len(told) == 3
    assert equal(read_state(tmp_path)["network"], read_state(whole)["network"])
    trainer.network.load_state_dict(trainer.averages, strict=False)
    with torch.no_grad():
        counts = loop.count_together(trainer._held_out)
        assert told[-1] == pytest.approx(float(trainer._losses(trainer._held_out[0], counts)["next"]), rel=1e-6)


def test_frozen_parameters_stay(speech: Path, tmp_path: Path) -> None:
    trainer, batches = small_trainer(speech, tmp_path, steps=1)
    before = trainer.network.encoder.embed_positions.weight.clone()
    trainer.update([next(batches)])
    assert torch.equal(before, trainer.network.encoder.embed_positions.weight)
    assert "encoder.embed_positions.weight" not in trainer.averages
