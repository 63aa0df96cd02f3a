import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import Run
from evaluation_cells import make_cell, make_trace
from fake_recognisers import Heard, talks, untimed
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.errors import CorpusError
from whispertide_lab.evaluation import corpora, peers, preparation, report, store
from whispertide_lab.evaluation.corpora import check_corpus, parts
from whispertide_lab.evaluation.corpora.listed import ListedCorpus
from whispertide_lab.evaluation.grid import Setup
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.store import Results
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance

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


ONE = ("bench", "run", "--recipes", "whisper-streaming")


def lines(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


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


def test_other_code_is_another_cell(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*ONE)
    count = len(heard.asked)
    monkeypatch.setattr(store, "code_version", lambda: "another")
    run(*ONE)
    assert len(heard.asked) == 2 * count


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


@pytest.fixture
def peer_asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], dict[str, object]]]:
    """Peers that are all installed, and what they were asked."""
    asked: list[tuple[str, tuple[str, ...], dict[str, object]]] = []

    def over(name: str, folder: Path, batch: list[Utterance], settings: dict[str, object]) -> list[Trace]:
        asked.append((name, tuple(item.id for item in batch), dict(settings)))
        return [make_trace(item.id, late_s=3.0, seconds=item.seconds) for item in batch]

    monkeypatch.setattr(peers, "why_not", lambda peer: peer.reason)
    monkeypatch.setattr(peers, "run_peer_over", over)
    return asked


@pytest.mark.slow
def test_peers_are_compared_with_recipes(
    run: Run, heard: Heard, peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]]
) -> None:
    command = (*ONE, "--peers", "simulstreaming,faster-whisper", "--steps", "0.5,1", "--threads", "1")
    result = run(*command)
    cells = [(cell["recipe"], cell["step_s"], cell["confirmed_mean_s"]) for cell in lines(result.stdout)]
    assert cells[2:] == [
        ("peer:simulstreaming", 0.5, 3.0),
        ("peer:simulstreaming", 1.0, 3.0),
        ("peer:faster-whisper", None, 3.0),
        ("peer:faster-whisper fallback=false", None, 3.0),
        ("peer:faster-whisper fallback=false compute_type=int8", None, 3.0),
    ]
    assert [name for name, _, _ in peer_asked] == 2 * ["simulstreaming"] + 3 * ["faster-whisper"]
    assert {batch for _, batch, _ in peer_asked} == {("talk/0", "talk/1")}
    assert [settings.get("step_s") for _, _, settings in peer_asked] == [0.5, 1.0, None, None, None]
    assert [settings.get("fallback") for _, _, settings in peer_asked] == [None, None, True, False, False]
    assert {settings["threads"] for _, _, settings in peer_asked} == {1}
    run(*command)
    assert len(peer_asked) == 5


@pytest.mark.parametrize(("conversion", "compared"), [("ct2", 1.0), ("", None)])
def test_a_peer_is_compared_with_the_same_weights_offline_unless_it_has_its_own(
    run: Run,
    heard: Heard,
    peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]],
    monkeypatch: pytest.MonkeyPatch,
    conversion: str,
    compared: float | None,
) -> None:
    peer = replace(peers.get_peer("whisper-streaming"), conversion=conversion, variants=())
    monkeypatch.setattr(peers, "get_peer", lambda name: peer)
    result = run("bench", "run", "--recipes", "", "--peers", "whisper-streaming")
    (cell,) = lines(result.stdout)
    assert (cell["matched_offline"], cell["wer_offline"] is None) == (compared, compared is None)
    assert ("not compared" in result.stdout) == (compared is None)


def test_a_peer_with_fallback_has_a_row_without_it(
    run: Run, heard: Heard, peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]]
) -> None:
    result = run("bench", "run", "--recipes", "", "--peers", "whisper-streaming", "--steps", "0.5,1")
    assert [(cell["recipe"], cell["step_s"]) for cell in lines(result.stdout)] == [
        ("peer:whisper-streaming", 0.5),
        ("peer:whisper-streaming", 1.0),
        ("peer:whisper-streaming fallback=false", 0.5),
        ("peer:whisper-streaming fallback=false", 1.0),
    ]
    assert [settings["fallback"] for _, _, settings in peer_asked] == [True, True, False, False]


def test_a_program_that_runs_live_is_not_let_loose_on_hours(
    run: Run, heard: Heard, peer_asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: talks(count=90))
    live = ("bench", "run", "--recipes", "", "--peers", "whisperlivekit-localagreement")
    result = run(*live, "--excerpt", "all")
    assert "--excerpt 600" in result.stderr
    assert peer_asked == []
    result = run(*live, "--excerpt", "100")
    assert [cell["audio_s"] for cell in lines(result.stdout)] == [100.0, 100.0]
    result = run(*live, "--excerpt", "100", "--clock", "free")
    assert "real time" in result.stderr


def polyglot() -> Recordings:
    """Three recordings in English and one each in German and in a mixture."""
    five, languages = talks(count=5), ("en", "de", "en", "en+de", "en")
    items = (replace(item, language=name) for item, name in zip(five.items, languages, strict=True))
    return replace(five, items=tuple(items))


def test_recordings_in_languages_that_the_model_does_not_write_are_left_out_and_named(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: polyglot())
    result = run(*ONE)
    assert result.exit_code == 0
    assert "2 recordings of talks-seed0 in de, en+de are left out: nano.en does not write that" in result.stderr
    (cell,) = lines(result.stdout)
    assert cell["utterances"] == 3
    assert cell["corpus_hash"] != polyglot().hash
    assert {utterance for _, utterance in heard.asked} == {"talk/0", "talk/2", "talk/4"}


def test_a_peer_is_told_the_language_and_takes_no_corpus_of_several(
    run: Run,
    heard: Heard,
    peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Runner, "_languages", lambda self, model: frozenset({"en", "de", "en+de"}))
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: polyglot())
    result = run(*ONE, "--peers", "simulstreaming")
    assert "told one language, and talks-seed0 has de, en, en+de" in result.stderr
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: parts.in_languages(polyglot(), {"de"}))
    assert run(*ONE, "--peers", "simulstreaming").exit_code == 0
    assert [settings["language"] for _, _, settings in peer_asked] == ["de"]


def test_a_model_in_a_folder_is_called_by_the_folders_name(run: Run, heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "deep" / "own-model").mkdir(parents=True)
    (cell,) = lines(run(*ONE, "--models", tmp_path / "deep" / "own-model").stdout)
    assert cell["model"] == "own-model"


def test_an_excerpt_in_which_nothing_fits_is_refused(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = polyglot()
    corpus = replace(corpus, items=tuple(replace(item, words=(RefWord("word"),)) for item in corpus.items))
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: corpus)
    result = run(*ONE, "--excerpt", "30")
    assert "use a longer excerpt" in result.stderr
    assert result.exit_code != 0
    assert heard.asked == []


def test_a_quick_run_is_a_minute_of_audio_unless_told_otherwise() -> None:
    assert Setup(quick=True).length_s == 60.0
    assert (Setup().length_s, Setup(usual_s=120).length_s, Setup(excerpt_s=9, usual_s=120).length_s) == (None, 120, 9)
    assert Setup(quick=True, excerpt_s=5.0).length_s == 5.0
    assert Setup().length_s is None


def test_two_cells_are_compared(run: Run, tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    slow, quick = make_cell(results, late_s=2.0), make_cell(results, late_s=0.5, step_s=0.2)
    result = run("bench", "compare", slow.key[:8], quick.key, "--output", results.folder)
    assert result.exit_code == 0
    assert "confirmed latency lower by 1.500 s" in result.stdout
    assert result.stdout.startswith("A: whisper-streaming 1 s\nB: whisper-streaming 0.2 s\n")
    assert run("bench", "compare", slow.folder, quick.folder).stdout == result.stdout


def test_cells_are_compared_by_the_names_that_the_table_shows(run: Run, tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    make_cell(results, late_s=2.0)
    make_cell(results, recogniser="tide", late_s=0.5, step_s=0.3)
    make_cell(results, recogniser="tide", late_s=0.7, step_s=0.3, changes=("framing=pad30",))
    place = ("--output", results.folder)
    result = run("bench", "compare", "whisper-streaming", "tide", *place)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("A: whisper-streaming 1 s\nB: tide 0.3 s\n")
    assert "confirmed latency lower by 1.500 s" in result.stdout
    changed = run("bench", "compare", "whisper-streaming", "tide framing=pad30", *place)
    assert "confirmed latency lower by 1.300 s" in changed.stdout
    for recogniser, step_s in (("whisper-streaming", 1.0), ("tide", 0.3)):
        make_cell(results, recogniser=recogniser, step_s=step_s, corpus="noisy", corpus_hash="ba9876543210")
    both = run("bench", "compare", "whisper-streaming", "tide", *place).stdout
    assert re.findall(r"nano\.en on (\w+), simulated clock\nA: whisper", both) == ["talks", "noisy"]


@pytest.mark.parametrize("names", [(), ("tide",), ("tide", "tyde")])
def test_without_names_or_with_an_unknown_one_what_there_is_is_listed(
    run: Run, tmp_path: Path, names: tuple[str, ...]
) -> None:
    results = Results(tmp_path / "results")
    cells = [make_cell(results), make_cell(results, recogniser="tide", step_s=0.3)]
    result = run("bench", "compare", *names, "--output", results.folder)
    listed = result.stderr if names else result.stdout
    assert (result.exit_code, bool(result.stdout)) == ((2, False) if names else (0, True))
    assert [part for cell in cells for part in (cell.key, cell.spec.recogniser) if part not in listed] == []
    assert len(names) < 2 or "'tyde'" in listed
    nothing = run("bench", "compare", *names, "--output", tmp_path / "nothing")
    assert (nothing.exit_code, "bench run" in nothing.stderr) == (2, True)


def test_a_report_is_written_whole_or_not_at_all(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "charts", lambda cells: [])  # drawing takes most of the time
    results = Results(tmp_path / "results")
    make_cell(results, utterances=3)
    page = tmp_path / "new" / "report.html"
    assert run("bench", "report", results.folder, "-o", page).exit_code == 0
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
    (tmp_path / "file").write_text("")
    failed = run("bench", "report", results.folder, "-o", tmp_path / "file" / "report.html")
    assert (failed.exit_code, "Traceback" in failed.stderr) == (5, False)
    assert run("bench", "report", tmp_path / "nothing", "-o", page).exit_code == 2


@pytest.mark.slow
def test_explain_says_where_the_wait_comes_from(run: Run, heard: Heard) -> None:
    """The recogniser shows each word a step after its end, with one round in between that is computed at once."""
    result = run(*ONE, "--steps", "0.5", "--explain")
    assert result.exit_code == 0, result.stderr
    table = result.stdout.split("Where the wait comes from\n")[1].splitlines()
    assert table[0].split("  ")[0] == "part of the wait (ms)"
    parts = {line.rsplit(maxsplit=1)[0].strip(): line.rsplit(maxsplit=1)[1] for line in table[1:] if line.strip()}
    assert parts["together"] == "500"
    assert Path("bench-results/waits.png").read_bytes().startswith(b"\x89PNG")


def test_explain_without_word_times_says_so(run: Run, heard: Heard) -> None:
    result = run("bench", "run", "--recipes", "offline", "--explain")
    assert result.exit_code == 0, result.stderr
    assert "no live recogniser found words with known times" in result.stderr
