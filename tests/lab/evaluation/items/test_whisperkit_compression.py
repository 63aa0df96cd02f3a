"""WhisperKit's table 2 has the paper's forms: what each stores, how large it is, and what it hears."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from counting_watch import CountingWatch
from evaluation_traces import reference
from whispertide_lab.evaluation.items import whisperkit_compression as items
from whispertide_lab.evaluation.items.whisperkit_compression import Row, eight_bits, four_bits
from whispertide_lab.evaluation.wer import Counts

WEIGHT = np.random.default_rng(1).standard_normal((6, 64)).astype(np.float32)


def test_eight_bits_are_a_byte_a_weight_and_a_scale_a_row() -> None:
    values, nbytes = eight_bits(WEIGHT)
    assert nbytes == WEIGHT.size + 2 * len(WEIGHT)
    step = np.abs(WEIGHT).max(axis=1, keepdims=True) / 127
    assert (np.abs(values - WEIGHT) <= 0.51 * step + 1e-3).all()
    assert not np.array_equal(values, WEIGHT)


def test_four_bits_are_half_a_byte_a_weight_and_a_scale_a_block() -> None:
    values, nbytes = four_bits(WEIGHT)
    assert nbytes == WEIGHT.size // 2 + 2 * len(WEIGHT) * 2
    first = np.abs(WEIGHT[:, :32]).max(axis=1, keepdims=True) / 7
    assert (np.abs(values - WEIGHT)[:, :32] <= 0.51 * first).all()
    assert all(len(np.unique(row)) <= 15 for row in values.reshape(-1, 32))


def test_a_row_that_no_block_divides_keeps_its_length() -> None:
    values, nbytes = four_bits(WEIGHT[:, :40])
    assert values.shape == (6, 40)
    assert nbytes == 6 * (32 + 2 * 2)


def test_the_forms_are_the_paper_s_and_plain_ones_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Palettes at 0.4 of fp16, and as small as the blocks of 4 bits."""
    asked: list[float] = []

    class Choosing:
        checkpoint = SimpleNamespace(tensors=SimpleNamespace(get=lambda name: WEIGHT))
        sensitivities = staticmethod(lambda options: None)
        tensors = staticmethod(lambda chosen: {"w": SimpleNamespace(nbytes=200)})

        @staticmethod
        def choose(measured: None, options: Any) -> None:
            asked.append(options.size)

    monkeypatch.setattr(items, "half_size", lambda checkpoint: 1000)
    monkeypatch.setattr(items, "compressible", lambda checkpoint: ["w"])
    choosing: Any = Choosing()
    found = {variant.form.split(",")[0]: variant for variant in items.variants(choosing)}
    assert list(found) == ["fp16", "plain int8", "plain 4 bits", "palettes"]
    assert found["fp16"].nbytes == 1000
    assert not found["fp16"].tensors
    assert found["plain int8"].nbytes == 1000 - 2 * WEIGHT.size + eight_bits(WEIGHT)[1]
    assert asked == [0.4, pytest.approx(found["plain 4 bits"].nbytes / 1000)]


def test_the_progress_bar_moves_with_the_recordings() -> None:
    watch = CountingWatch()
    transcriber: Any = SimpleNamespace(transcribe=lambda samples, options: SimpleNamespace(text="It"))
    counts = items.word_errors(transcriber, 2 * [reference(("It", 0.0, 0.5), seconds=3)], "offline", (), watch)
    assert (counts.errors, watch.done) == (0, 6.0)


def test_the_table_has_sizes_and_errors_of_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = {"whisperkit": Counts(47, insertions=3), "tide": Counts(49, substitutions=1), "offline": Counts(48)}
    original = Row("original", "fp16", 2_500_000, 1.0, 0.0, heard)
    masked = Row("d750", "fp16", 2_500_000, 1.0, 0.0, {"whisperkit": Counts(48, deletions=2)})
    monkeypatch.setattr(items, "compression_table", lambda model, said, watch, **_: [original, masked])
    runner: Any = SimpleNamespace(
        models=("one", "two"),
        corpus=SimpleNamespace(name="talks", utterances=lambda: iter([reference(("It", 0.0, 0.5))])),
        setup=SimpleNamespace(engine=SimpleNamespace(threads=1)),
        watch=CountingWatch(),
        kept=lambda name, kind, make, *_, **__: make(),
    )
    outcome = items.compression_item(runner)
    assert [table.title for table in outcome.tables] == ["one", "two"]
    assert outcome.tables[0].columns[-3:] == ("whisperkit WER %", "tide WER %", "offline WER %")
    assert outcome.tables[0].rows == (
        ("original", "fp16", "2.50", "1.000", "0.0e+00", "6.38", "2.00", "0.00"),
        ("d750", "fp16", "2.50", "1.000", "0.0e+00", "4.00", "–", "–"),
    )
    assert "12.35 % on Earnings-22" in outcome.note
