import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench_lines import ONE, lines
from command_line import Run
from fake_recognisers import Heard, talks, untimed
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.errors import CorpusError
from whispertide_lab.evaluation import corpora, preparation, store
from whispertide_lab.evaluation.corpora import check_corpus
from whispertide_lab.evaluation.corpora.listed import ListedCorpus
from whispertide_lab.evaluation.grid import Setup
from whispertide_lab.speech.utterance import Recordings, Utterance

# DESIGN, section 5: at least these
KEYS = (
    "recipe",
    "model",
    "corpus",
    "corpus_hash",
    "step_s",
    "threads",
    "wer",
    "wer_offline",
    "wer_minus_offline",
    "confirmed_mean_s",
    "confirmed_p99_s",
    "settled_mean_s",
    "first_seen_mean_s",
    "matched",
    "ttft_s",
    "gflop_per_s",
    "cpu_s_per_s",
    "peak_mb",
    "revisions_per_100",
    "avg_beam",
    "reduce_ratio",
    "hallucinated_per_min",
    "machine",
    "core_gflops",
    "commit",
)


def test_a_run_prints_a_table_then_a_line_per_cell(run: Run, heard: Heard) -> None:
    result = run(*ONE, "--steps", "0.5,2")
    assert result.exit_code == 0, result.stderr
    table, *rest = result.stdout.split("\n{")
    assert [row.split()[:2] for row in table.splitlines()[1:]] == [
        ["whisper-streaming", "0.5"],
        ["whisper-streaming", "2"],
    ]
    cells = lines(result.stdout)
    assert len(cells) == len(rest) == 2
    assert [key for key in KEYS if key not in cells[0]] == []
    assert [(cell["step_s"], cell["confirmed_mean_s"], cell["wer"]) for cell in cells] == [
        (0.5, 0.5, 0.0),
        (2.0, 2.0, 0.0),
    ]
    assert all(Path("bench-results", str(cell["cell"]), "cell.json").is_file() for cell in cells)


def test_what_is_measured_is_not_measured_again(run: Run, heard: Heard) -> None:
    first = run(*ONE)
    asked = list(heard.asked)
    assert [name for name, _ in asked] == ["offline"] * 2 + ["whisper-streaming 1 pad30 simulated"] * 2
    assert run(*ONE).stdout == first.stdout
    assert heard.asked == asked


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [("--steps", "2"), ("--set", "framing=bare"), ("--clock", "free"), ("--seed", "1"), ("--precision", "fp32")],
)
def test_another_setting_is_another_cell(run: Run, heard: Heard, change: tuple[str, str]) -> None:
    before = lines(run(*ONE).stdout)
    heard.asked.clear()
    after = lines(run(*ONE, *change).stdout)
    assert before[0]["cell"] != after[0]["cell"]
    assert [utterance for name, utterance in heard.asked if name != "offline"] == ["talk/0", "talk/1"]


@pytest.mark.slow
def test_other_code_is_another_cell(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*ONE)
    count = len(heard.asked)
    monkeypatch.setattr(store, "code_version", lambda: "another")
    run(*ONE)
    assert len(heard.asked) == 2 * count


@pytest.mark.slow
@pytest.mark.parametrize("done", [1, 2, 3])
def test_an_interrupted_run_goes_on_where_it_was(run: Run, heard: Heard, done: int) -> None:
    heard.fail_after = done
    result = run(*ONE)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "same command continues" in result.stderr
    heard.fail_after = None
    assert run(*ONE).exit_code == 0
    assert len(heard.asked) == len(set(heard.asked)) == 4


@pytest.mark.slow
def test_every_combination_is_measured(run: Run, heard: Heard) -> None:
    names = ("--models", "nano.en,base.en", "--corpora", "talks,noisy", "--recipes", "whisper-streaming,offline")
    result = run(*ONE, *names, "--steps", "1,2")
    found = {(cell["recipe"], cell["model"], cell["corpus"], cell["step_s"]) for cell in lines(result.stdout)}
    assert found == {
        (recipe, model, corpus, step)
        for model in ("nano.en", "base.en")
        for corpus in ("talks", "noisy")
        for recipe, step in (("whisper-streaming", 1.0), ("whisper-streaming", 2.0), ("offline", None))
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--recipes", "whisper-streeming"), "whisper-streaming"),
        (("--steps", "1,fast"), "0.5,1,2"),
        (("--steps", ","), "0.5,1,2"),
        (("--steps", "99"), "step_s"),
        (("--set", "beam"), "FIELD=VALUE"),
        (("--clock", "sand"), "simulated"),
        (("--peers", "whisperfast"), "faster-whisper"),
        (("--recipes", ","), "at least one recipe"),
        (("--excerpt", "0"), "more than 0 s"),
        (("--excerpt", "some"), "'all'"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_measured(
    run: Run, heard: Heard, arguments: tuple[str, str], said: str
) -> None:
    result = run(*ONE, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert heard.asked == []


@pytest.mark.slow
def test_without_options_tide_is_compared_with_the_baseline_on_a_quarter_of_an_hour(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: talks(count=25))
    result = run("bench", "run")
    assert result.exit_code == 0, result.stderr
    assert [(cell["recipe"], cell["corpus"]) for cell in lines(result.stdout)] == [
        ("tide", "talks 900 s"),
        ("whisper-streaming", "talks 900 s"),
    ]
    for asked, audio_s in (("100", 100.0), ("all", 1000.0)):
        (cell,) = lines(run("bench", "run", "--recipes", "tide", "--excerpt", asked, "-o", f"results-{asked}").stdout)
        assert cell["audio_s"] == audio_s


def test_what_is_shorter_than_the_excerpt_is_measured_whole_and_says_so(run: Run, heard: Heard) -> None:
    (cell,) = lines(run(*ONE, "--excerpt", "900").stdout)
    assert (cell["corpus"], cell["corpus_hash"]) == ("talks", talks(hash="000000000000").hash)


def test_an_estimate_comes_before_the_first_cell(run: Run, heard: Heard) -> None:
    said = run(*ONE, "--quick").stderr.splitlines()
    assert re.fullmatch(r"about .* on this machine: 2 cells with 2 minutes of audio in all", said[0]), said
    assert said[1].startswith("offline")
    assert said[2].startswith("1/1 whisper-streaming")
    assert heard.sampled == ["offline", "whisper-streaming 1 pad30 simulated"]
    again = run(*ONE, "--quick")
    assert ("about" in again.stderr, len(heard.sampled)) == (False, 2), "what is measured takes no time"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--corpora", "talks,speech"), 2, "librispeech:PATH"),
        (("--corpora", "talks,manifest:gone.jsonl"), 3, "gone.jsonl; it does not exist"),
        (("--corpora", "manifest:gone.jsonl,talks"), 3, "gone.jsonl; it does not exist"),
        (("--recipes", "tide,whisperflow"), 4, "hush word"),
        (("--output", "file/results"), 5, "choose another with --output"),
        (("--recipes", "", "--peers", "vosk"), 2, "peer:vosk cannot run"),
    ],
)
def test_what_cannot_be_made_is_said_before_audio_is_made(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, said: str
) -> None:
    Path("file").write_text("")
    monkeypatch.setattr(preparation, "check_corpus", lambda spec: None if spec == "talks" else check_corpus(spec))
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: pytest.fail(f"{spec} is made"))
    result = run("bench", "run", *arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert said in result.stderr
    assert (heard.asked, heard.sampled) == ([], [])


def test_what_is_read_is_read_before_anything_is_made(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_corpus(spec: str, **_: object) -> Recordings:
        if spec == "talks":
            pytest.fail("made")
        raise CorpusError("line 3 cannot be scored")

    monkeypatch.setattr(corpora, "open_corpus", open_corpus)
    result = run("bench", "run", "--corpora", "talks,manifest:bad.jsonl")
    assert (result.exit_code, "line 3 cannot be scored" in result.stderr) == (3, True)


def test_without_word_times_the_table_says_so_and_shows_what_can_be_had(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: untimed())
    result = run(*ONE, "--corpora", "manifest:mine.jsonl")
    (cell,) = lines(result.stdout)
    assert (cell["word_times"], cell["confirmed_mean_s"], cell["matched"]) == (None, None, None)
    # of a recording of 40 s a word a second, shown at its end and final a second later
    assert (cell["first_text_s"], cell["last_text_s"]) == (1.0, 0.0)
    head = result.stdout.splitlines()[0]
    wanted = ("WER %", "LAAL s", "first text s", "last text s", "revisions /100")
    assert [name for name in wanted if name not in head] == []
    assert "confirmed" not in head
    assert "nobody knows exactly when each word of manifest:mine.jsonl was said" in result.stderr
    assert "--align" in result.stderr


@pytest.mark.slow
def test_aligned_word_times_are_marked(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def aligned(utterance: Utterance, transcriber: object, model: str) -> Utterance:
        timed = talks().items[0].words
        return replace(utterance, words=timed, aligned_by=model)

    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: untimed())
    monkeypatch.setattr("whispertide_lab.evaluation.aligned.aligned", aligned)
    result = run(*ONE, "--corpora", "manifest:mine.jsonl", "--align")
    (cell,) = lines(result.stdout)
    assert (cell["word_times"], cell["confirmed_mean_s"]) == ("aligned by nano.en", 1.0)
    assert cell["corpus"] == "manifest:mine.jsonl aligned"
    assert cell["corpus_hash"] != untimed().hash
    assert "1.00 ~" in result.stdout.splitlines()[1]
    assert "aligned by nano.en (forced alignment), not exact: no claim about latency" in result.stderr
    assert "aligning" not in run(*ONE, "--corpora", "talks", "--align", "--seed", "1").stdout


def test_another_model_may_place_the_words_of_all_models(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is checked on the recordings of the folder that have hand-labelled words, heard or not."""
    exact = talks().items[0]

    def aligned(utterance: Utterance, transcriber: object, model: str) -> Utterance:
        late = tuple(replace(word, end=(word.end or 0) + 1600) for word in exact.words)
        return replace(utterance, words=late, exact_times=False, aligned_by=model)

    labelled = SimpleNamespace(utterance=lambda: exact)
    listed = ListedCorpus("mine", (SimpleNamespace(utterance=lambda: untimed().items[0]),), (labelled,))  # type: ignore[arg-type]  # as recordings
    listed.__dict__["hash"] = "0123456789ab"
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: listed)
    monkeypatch.setattr("whispertide_lab.evaluation.aligned.aligned", aligned)
    place = str(Path(BUNDLED_DIR / "nano.en"))
    result = run(*ONE, "--corpora", "manifest:mine.jsonl", "--aligner", place)
    (cell,) = lines(result.stdout)
    assert cell["word_times"] == "aligned by nano.en"
    found = cell["alignment"]
    assert isinstance(found, dict)
    assert (found["recordings"], found["words"], found["placed"], found["median_s"]) == (1, 39, 39, 0.1)
    assert "in 1 hand-labelled recording of the same source the end of a word is off by 0.100 s" in result.stderr


def test_a_recogniser_that_finds_fewer_words_than_offline_is_marked(run: Run, heard: Heard) -> None:
    (cell,) = lines(run(*ONE).stdout)
    assert (cell["matched"], cell["matched_offline"], cell["matched_as_offline"]) == (1.0, 1.0, True)
    assert cell["case_punctuation_per_100"] == 0.0


def test_a_peer_that_cannot_run_says_why_and_the_others_go_on(run: Run, heard: Heard) -> None:
    result = run(*ONE, "--peers", "vosk,faster-whisper")
    assert result.exit_code == 0
    assert len(lines(result.stdout)) == 1
    assert re.search(r"peer:vosk cannot run: .*no model", result.stderr)
    assert re.search(r"peer:faster-whisper cannot run: .*make peers", result.stderr)
    alone = run("bench", "run", "--recipes", "", "--peers", "vosk")
    assert (alone.exit_code, alone.stdout) == (2, "")


def test_a_model_in_a_folder_is_called_by_the_folders_name(run: Run, heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "deep" / "own-model").mkdir(parents=True)
    (cell,) = lines(run(*ONE, "--models", tmp_path / "deep" / "own-model").stdout)
    assert cell["model"] == "own-model"


def test_a_quick_run_is_a_minute_of_audio_unless_told_otherwise() -> None:
    assert Setup(quick=True).length_s == 60.0
    assert (Setup().length_s, Setup(usual_s=120).length_s, Setup(excerpt_s=9, usual_s=120).length_s) == (None, 120, 9)
    assert Setup(quick=True, excerpt_s=5.0).length_s == 5.0
    assert Setup().length_s is None
