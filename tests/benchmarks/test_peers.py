"""The whole published run in a second: recognisers, corpora and checkpoints are stand-ins, everything else is real."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmark_scripts import benchmark
from evaluation_cells import make_cell, make_trace, results_in
from whispertide.errors import CorpusError
from whispertide.recipes.recipe import Recipe
from whispertide.recipes.short_windows import Costs, Framed, choose_framing
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation import charts, corpora, peers, runner, workbench
from whispertide_lab.evaluation.peers import PEERS, Peer
from whispertide_lab.evaluation.replay import Recogniser
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.store import machine
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance

ROOT = Path(__file__).parents[2]
MARKS = ("<!-- peers -->", "<!-- /peers -->")  # in the README


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("peers") as module:
        yield module


def silence() -> FloatArray:
    return np.zeros(10 * SAMPLE_RATE, np.float32)


def voices(spec: str, **_: object) -> Recordings:
    words = tuple(RefWord(f"word{n}", (n - 1) * SAMPLE_RATE, n * SAMPLE_RATE) for n in range(1, 10))
    three = (Utterance(f"{spec}/{n}", words, 10.0, silence, True, f"{spec} voice {n}") for n in range(3))
    return Recordings(spec.replace("/", "-"), f"{spec:>12}"[-12:].replace("/", "-"), tuple(three))


@dataclass
class Study:
    """What was asked of whom, and the options of the run. A second of audio costs `cost` CPU seconds."""

    options: Namespace
    asked: list[tuple[str, str]] = field(default_factory=list)
    cost: float = 0.5

    def hear(self, name: str, utterance: Utterance, late_s: float) -> Trace:
        self.asked.append((name, utterance.id))
        trace = make_trace(utterance.id, late_s=late_s, seconds=utterance.seconds)
        return replace(trace, cpu_s=self.cost * utterance.seconds)

    @property
    def page(self) -> str:
        return Path(self.options.output).read_text()


@pytest.fixture
def study(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    options = Namespace(
        page=False,
        minutes=30.0,
        models=["nano.en"],
        parts=["readings", "accents"],
        choosing=40.0,
        heard=30.0,
        speech="",
        aligner="nano.en",
        threads=1,
        machine=machine(),
        only=[],
        anew=[],
        folder=str(tmp_path / "results"),
        output=str(tmp_path / "docs" / "peers.md"),
        readme=str(tmp_path / "README.md"),
    )
    record = Study(options)
    monkeypatch.setattr(script, "DELAYS", (2.0,))  # one more cell of each corpus is as good as four
    monkeypatch.setattr(script, "SHORT", ("framing=bare",))

    def streaming(transcriber: object, recipe: Any, *, clock: str) -> Recogniser:
        name = f"{recipe.name} {recipe.schedule.step_s:g} {clock} {recipe.schedule.vad}"
        return lambda utterance: record.hear(name, utterance, recipe.schedule.step_s)

    def over(name: str, folder: Path, batch: list[Utterance], settings: dict[str, Any]) -> list[Trace]:
        step = settings.get("step_s", 1.0)
        label = f"peer:{name} {step:g} {settings.get('fallback', '-')} {settings.get('vad', '-')}"
        heard = [record.hear(label, utterance, 0.5 + step) for utterance in batch]
        return [replace(trace, cpu_s=4 * (trace.cpu_s or 0.0)) for trace in heard]  # dearer than ours

    def transcriber(self: Runner, model: str) -> Any:
        weights = SimpleNamespace(checkpoint=None, content_hash="feed" * 16 if model == "nano.en" else "beef" * 16)
        dims = SimpleNamespace(is_multilingual=False)
        tokenizer = SimpleNamespace(languages=("en",))
        about = {"dims": dims, "tokenizer": tokenizer, "warm_up": lambda: None, "framed": framed}
        return SimpleNamespace(model=weights, calibration=None, **about)

    def framed(recipe: Recipe) -> Framed:
        return choose_framing(recipe, True, lambda: Costs(0.0))

    def offline(transcriber: object, **_: object) -> Recogniser:
        return lambda utterance: record.hear("offline", utterance, 5.0)

    def why_not(peer: Peer) -> str:
        return peer.reason or ("it is not installed" if peer.name == "openai-whisper" else "")

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "streaming", streaming)
    monkeypatch.setattr(runner, "offline", offline)
    monkeypatch.setattr(corpora, "open_corpus", voices)
    monkeypatch.setattr(Runner, "transcriber", transcriber)
    monkeypatch.setattr(workbench, "digest_attachments", lambda model: "nothing")
    monkeypatch.setattr(peers, "run_peer_over", over)
    monkeypatch.setattr(peers, "why_not", why_not)
    monkeypatch.setattr("peers_page.why_not", why_not)
    return record


def test_a_difference_of_delays_is_marked_where_words_are_left_out(script: ModuleType, tmp_path: Path) -> None:
    """As the delays themselves are in the table above it."""
    results = results_in(tmp_path)
    ours = make_cell(results, recogniser="tide")
    theirs = make_cell(results, recogniser="peer:simulstreaming", late_s=3.0, score={"matched_as_offline": False})
    page = sys.modules["peers_page"]
    part = page.differences(page.Measured("tiny.en", [ours, theirs], {}))
    (row,) = [line for line in part.text.splitlines() if line.startswith("| peer:simulstreaming")]
    _, _, errors, *delays, _ = (cell.strip() for cell in row.split("|"))
    assert [delay.endswith("!") for delay in delays] == [True, True]
    assert not errors.endswith("!")


def headings(page: str) -> list[str]:
    return [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]


@pytest.mark.slow
def test_the_page_has_all_that_was_asked_for(script: ModuleType, study: Study) -> None:
    Path(study.options.readme).write_text(f"before {MARKS[0]} old {MARKS[1]} after", encoding="utf-8")
    script.run(study.options)
    assert headings(study.page) == [
        "At a glance",
        "nano.en",
        "nano.en, against tide",
        "nano.en, one knob",
        "How this was made",
        "What is not here",
    ]
    assert "| **whispertide**, `tide` | 0.00 | 0.40 |" in study.page
    for row in (
        "| tide | ",
        "| whisper-streaming | 0.5 s |",
        "| peer:whisper-streaming fallback=false | 0.5 s |",
        "| peer:simulstreaming | 0.1 s |",
        "| peer:moonshine | ",
        "| peer:faster-whisper fallback=false |",
        "| offline |",
        "- whisper-streaming: 0.5 s on `choose`, 0.5 s on `report`",
        "| tide delay_s=2 | ",
        "| whisper-streaming framing=bare | 0.5 s |",
        "| whisperkit framing=bare | ",
        "| peer:whisper-streaming fallback=false | tide | +0.00 [+0.00, +0.00] | 0.40 | 0.25 |",
    ):
        assert row in study.page, row
    assert "216 words in 12 pieces." in study.page, "both halves of both parts are pooled"
    assert "peer:openai-whisper fallback=false nano.en: it is not installed" in study.page
    assert f"vosk: {PEERS['vosk'].reason}" in study.page
    readme = Path(study.options.readme).read_text(encoding="utf-8")
    assert readme.startswith(f"before {MARKS[0]}\n")
    assert readme.endswith(f"\n{MARKS[1]} after")
    assert "| **whispertide**, `tide` | 0.00 | 0.40 |" in readme


@pytest.mark.slow
def test_the_gate_is_on_for_all(script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)
    script.run(study.options)
    stepped = ("tide", "whisper-streaming", "simulstreaming", "peer:whisper-streaming", "peer:simulstreaming")
    gates = {name.split()[-1] for name, _ in study.asked if name.split()[0] in stepped}
    assert gates == {"True"}


@pytest.mark.slow
def test_a_step_is_reported_on_the_half_that_it_was_not_chosen_on(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one half a short step is right, on the other a long one: each is heard, whole, on the other half alone."""
    draw_nothing(monkeypatch)
    monkeypatch.setattr(script, "best", lambda study, model, name, half: {"choose": 1.0, "report": 2.0}[half])
    script.run(study.options)
    heard = {(name.split()[1], utterance.split("/")[1]) for name, utterance in study.asked if "whisper-st" in name}
    assert heard == {("1", "report"), ("2", "choose")}


@pytest.mark.slow
def test_a_second_run_measures_nothing(script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)
    script.run(study.options)
    page = study.page
    study.asked.clear()
    script.run(Namespace(**{**vars(study.options), "page": True}))
    assert study.asked == []
    assert study.page == page
    script.run(Namespace(**{**vars(study.options), "page": True, "machine": "another one"}))
    assert study.asked == []
    assert "| tide | 0.4 s | default |" not in study.page


def measure_ours(script: ModuleType, study: Study) -> None:
    """Measure `tide` and all audio at once, and go on where nothing is stored but what is kept next to the page."""
    study.options.only = ["tide", "offline"]
    script.run(study.options)
    assert {name.split()[0] for name, _ in study.asked} == {"tide", "offline"}
    study.options.folder += "-of-another-machine"
    study.asked.clear()


@pytest.mark.slow
def test_what_is_kept_stands_next_to_the_page_until_it_is_measured_anew(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    measure_ours(script, study)
    assert "- peer:moonshine nano.en: it was not asked for" in study.page
    monkeypatch.setattr("whispertide_lab.evaluation.store.code_version", lambda *_: "another code")
    script.run(study.options)
    assert study.asked == []
    assert "| tide | " in study.page
    study.options.anew = ["tide"]
    script.run(study.options)
    assert {name.split()[0] for name, _ in study.asked} == {"tide", "offline"}, "it is judged against what is offline"
    assert "another code" in study.page


@pytest.mark.slow
def test_a_faster_machine_of_the_same_name_measures_for_itself(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    measure_ours(script, study)
    monkeypatch.setattr(script, "core_gflops", lambda: 1e6)
    script.run(Namespace(**{**vars(study.options), "page": True}))
    assert study.asked == []
    script.run(study.options)
    assert {name.split()[0] for name, _ in study.asked} == {"tide", "offline"}


@pytest.mark.slow
def test_other_weights_of_the_same_name_are_measured(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    measure_ours(script, study)
    monkeypatch.setattr(Runner, "model_hash", lambda self, model: "other weights")
    script.run(study.options)
    assert {name.split()[0] for name, _ in study.asked} == {"tide", "offline"}


@pytest.mark.slow
def test_without_any_voices_no_page_is_written(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(spec: str, **_: object) -> Recordings:
        raise CorpusError("there is no manifest")

    monkeypatch.setattr(corpora, "open_corpus", none)
    with pytest.raises(CorpusError, match=r"expected people's voices in \.\./shared/speech; found none"):
        script.run(study.options)
    assert not Path(study.options.output).exists()


@pytest.mark.slow
def test_what_did_not_fit_into_the_time_is_named_and_comes_next_time(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(script, "time", SimpleNamespace(monotonic=lambda: clock.now))
    hear = study.hear

    def slow(name: str, utterance: Utterance, late_s: float) -> Trace:
        clock.now += 100.0
        return hear(name, utterance, late_s)

    monkeypatch.setattr(study, "hear", slow)
    script.run(study.options)
    assert len(study.asked) == 19, "half an hour is over in the nineteenth"
    assert "the time was up" in study.page
    monkeypatch.setattr(study, "hear", hear)
    script.run(study.options)
    assert "the time was up" not in study.page
    in_two_runs = len(study.asked)
    study.options.folder += "-again"
    study.options.output = str(Path(study.options.output).parent / "again" / "peers.md")
    study.asked.clear()
    script.run(study.options)
    assert len(study.asked) == in_two_runs, "what was heard before the time was up is not heard again"


def test_words_are_placed_also_where_nothing_is_measured_any_more(
    script: ModuleType, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    open_corpus = Runner.open_corpus

    def placing(runner: Runner, name: str, model: str | None = None) -> Any:
        if model is None:  # else they are placed already
            runner.watch.begin(f"aligning {name}", 1.0)
        return open_corpus(runner, name, model)

    monkeypatch.setattr(Runner, "open_corpus", placing)
    script.run(Namespace(**{**vars(study.options), "page": True}))
    assert study.asked == []
    assert "- tide nano.en: the time was up" in study.page


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("trade_off_plot", "latency_plot"):
        monkeypatch.setattr(charts, name, lambda *_: SimpleNamespace(save=lambda stem: None))
