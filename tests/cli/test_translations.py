"""`transcribe` and `listen` with a translator: the transcript is as without, and its translation stands beside it."""

import json
import threading
from pathlib import Path

import pytest

from chat_server import ChatServer, chat_server, fails, waits
from command_line import Run, write_wav
from fake_transcriber import FakeTranscriber
from scripted_translator import ScriptedTranslator
from whispertide.cli import translations as module
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.translations import finish_translations
from whispertide.cli.translator_choice import TranslationChoice
from whispertide.errors import OptionError
from whispertide.events import Confirmed, Error, Event, TurnEnd
from whispertide.translation.translating import Translating
from whispertide.translation.translator import TranslationOptions
from whispertide.types import Word

LINE = "word0 word1 word2 word3 word4 word5"
FRENCH = f"French: {LINE.upper()}"


def asking(chat: ChatServer, *more: str) -> list[str]:
    return ["--translate-to", "fr", "--translator", chat.url, "--translator-model", "llm", *more]


@pytest.mark.parametrize("stream", [(), ("--pace", "max")])
def test_on_standard_output_a_translation_is_a_line_of_its_own(run: Run, talk: Path, stream: tuple[str, ...]) -> None:
    with chat_server() as chat:
        result = run("transcribe", talk, *stream, *asking(chat))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"[fr] {FRENCH}"
    assert " ".join(result.stdout.splitlines()[:-1]) == LINE
    assert "is sent to" not in result.stderr, "it stays on this machine"


@pytest.mark.parametrize("stream", [(), ("--pace", "max")])
def test_files_have_a_file_of_the_translation_next_to_them(
    run: Run, talk: Path, tmp_path: Path, stream: tuple[str, ...]
) -> None:
    with chat_server() as chat:
        result = run(
            "transcribe", talk, *stream, "-f", "srt,txt,json", "-o", f"{tmp_path}/out/", *asking(chat, "--correct")
        )
        alone = run("transcribe", talk, *stream, "-f", "srt,txt", "-o", f"{tmp_path}/alone/")
    assert (result.exit_code, alone.exit_code) == (0, 0), result.stderr
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "talk.corrected.srt",
        "talk.corrected.txt",
        "talk.fr.srt",
        "talk.fr.txt",
        "talk.json",
        "talk.srt",
        "talk.txt",
    ]
    for name in ("talk.srt", "talk.txt"):
        assert (out / name).read_text() == (tmp_path / "alone" / name).read_text()
    assert (out / "talk.fr.txt").read_text() == FRENCH + "\n"
    assert (out / "talk.corrected.txt").read_text() == LINE.upper() + "\n"
    assert (out / "talk.fr.srt").read_text().startswith("1\n00:00:00,000 --> 00:00:02,900\nFrench: WORD0")
    document = json.loads((out / "talk.json").read_text())
    span = {"start": 0.0, "end": 2.9}
    assert document["translations"] == [{"language": "fr", **span, "text": FRENCH}]
    assert document["corrections"] == [{**span, "text": LINE.upper()}]
    assert document["text"] == LINE


def test_without_a_translator_json_is_as_ever(run: Run, talk: Path) -> None:
    assert not {"translations", "corrections"} & json.loads(run("transcribe", talk, "-f", "json").stdout).keys()


@pytest.mark.parametrize("stream", [(), ("--pace", "max")])
def test_events_have_it_and_the_end_comes_last(run: Run, talk: Path, stream: tuple[str, ...]) -> None:
    with chat_server() as chat:
        result = run("transcribe", talk, *stream, "-f", "jsonl", *asking(chat))
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "end"
    (translation,) = [event for event in events if event["type"] == "translation"]
    assert (translation["text"], translation["language"]) == (FRENCH, "fr")


@pytest.mark.slow
def test_a_long_recording_is_translated_whole(run: Run, tmp_path: Path) -> None:
    """Sentence by sentence, with their times, and none is lost."""
    long = write_wav(tmp_path / "long.wav", 60)
    with chat_server() as chat:
        result = run("transcribe", long, "-f", "txt,srt", "-o", f"{tmp_path}/", *asking(chat))
        requests = len(chat.requests)
    assert result.exit_code == 0, result.stderr
    translated = (tmp_path / "long.fr.txt").read_text().replace("French: ", "").split()
    assert translated == [word.upper() for word in (tmp_path / "long.txt").read_text().split()]
    assert requests == 12
    shown = {line.split()[0] for line in (tmp_path / "long.fr.srt").read_text().splitlines() if "-->" in line}
    assert {f"00:00:{5 * sentence:02},000" for sentence in range(12)} <= shown


@pytest.mark.parametrize("stream", [(), ("--pace", "max")])
def test_a_translator_that_fails_costs_nothing_else(
    run: Run, talk: Path, tmp_path: Path, stream: tuple[str, ...]
) -> None:
    with chat_server(fails(401, "who are you?")) as chat:
        result = run("transcribe", talk, *stream, "-o", tmp_path / "talk.txt", *asking(chat))
    assert result.exit_code == 0
    assert "warning: translations fail, captions continue" in result.stderr.replace("\n", " ")
    assert "who are you?" in result.stderr
    assert " ".join((tmp_path / "talk.txt").read_text().split()) == LINE
    assert (tmp_path / "talk.fr.txt").read_text() == ""


def test_speech_in_the_language_already_is_not_sent(run: Run, talk: Path) -> None:
    with chat_server() as chat:
        result = run("transcribe", talk, "--translate-to", "en", *asking(chat)[2:])
        assert chat.requests == []
    assert " ".join(result.stdout.split()) == LINE


@pytest.mark.parametrize("stream", [(), ("--pace", "max")])
def test_a_file_of_its_own_has_what_was_said_in_the_language(
    run: Run, talk: Path, tmp_path: Path, stream: tuple[str, ...]
) -> None:
    with chat_server() as chat:
        run("transcribe", talk, *stream, "-o", tmp_path / "talk.txt", "--translate-to", "en", *asking(chat)[2:])
        assert chat.requests == []
    assert " ".join((tmp_path / "talk.en.txt").read_text().split()) == LINE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--translate-to", "fr"], "expected --translator next to --translate-to and --correct"),
        (["--correct"], "expected --translator next to --translate-to and --correct"),
        (["--translator", "http://localhost/v1"], "expected --translate-to LANGUAGE or --correct"),
        (["--translate-to", "klingon", "--translator", "http://localhost/v1"], "klingon"),
        (["--translate-to", "fr", "--translator", "http://localhost/v1"], "--translator-model NAME"),
        (["--translate-to", "fr", "--translator", "nowhere"], "a folder of CTranslate2 with model.bin"),
    ],
)
def test_what_is_wrong_is_said_before_a_model_is_loaded(
    run: Run, talk: Path, loads: list[object], options: list[str], message: str
) -> None:
    result = run("transcribe", talk, *options)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
    assert not loads


@pytest.mark.parametrize("form", ["srt", "vtt", "tsv", "whisper-json"])
def test_standard_output_has_no_place_for_some(run: Run, talk: Path, form: str) -> None:
    with chat_server() as chat:
        result = run("transcribe", talk, "-f", form, *asking(chat))
    assert result.exit_code == 2
    assert f"expected --output for a translation as {form}" in result.stderr.replace("\n", " ")


def test_a_file_that_cannot_be_written_is_noticed_first(
    run: Run, talk: Path, tmp_path: Path, loads: list[object]
) -> None:
    (tmp_path / "talk.fr.txt").mkdir()
    with chat_server() as chat:
        result = run("transcribe", talk, "-o", tmp_path / "talk.txt", *asking(chat))
    assert result.exit_code != 0
    assert "talk.fr.txt is a folder" in result.stderr.replace("\n", " ")
    assert not loads


@pytest.mark.parametrize("other", ["talk.fr.wav", "Talk.FR.wav"])
def test_a_translation_takes_no_place_of_another_transcript(
    run: Run, talk: Path, tmp_path: Path, loads: list[object], other: str
) -> None:
    (tmp_path / other).write_bytes(talk.read_bytes())
    with chat_server() as chat:
        result = run("transcribe", talk, tmp_path / other, "-o", f"{tmp_path}/out/", *asking(chat))
        joined = run("transcribe", talk, tmp_path / other, "-f", "json", *asking(chat))
    assert result.exit_code == 2
    assert "would both become" in result.stderr
    assert "talk.fr.txt" in result.stderr
    assert not list((tmp_path / "out").iterdir())
    assert joined.exit_code == 0, "json holds its translation itself"
    assert len(loads) == 1


def test_text_that_leaves_the_machine_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = TranslationChoice("fr", "https://api.example.test/v1", "llm")
    with choice.opened() as chosen:
        assert chosen is not None
    said = " ".join(capsys.readouterr().err.split())
    assert said == "note: confirmed text is sent to api.example.test to be translated; audio is not"


# --- the end of a run -------------------------------------------------------------------------------------------------


def waiting(translator: ScriptedTranslator, kind: type[Translating] = Translating) -> Translating:
    translating = kind(translator, TranslationOptions("fr"))
    translating.take(Confirmed(0, 0, (Word(" One.", 0, 16_000),)))
    translating.take(TurnEnd(0, 0, 0))
    assert translator.began.wait(30)
    return translating


def test_the_end_of_live_speech_waits_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    translator = ScriptedTranslator(gate=threading.Event())
    told: list[Event] = []
    finish_translations(waiting(translator), Interrupts(), told.append, live=True)
    assert [event.message for event in told if isinstance(event, Error)] == ["1 sentence has no translation"]
    assert translator.gate is not None
    translator.gate.set()


def test_another_interrupt_ends_the_wait() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    interrupts, told = Interrupts(), list[Event]()

    class Pressed(Translating):
        def wait(self, most_s: float) -> None:
            interrupts.pressed = True

    finish_translations(waiting(translator, Pressed), interrupts, told.append, live=False)
    assert [event.message for event in told if isinstance(event, Error)] == ["1 sentence has no translation"]
    assert translator.gate is not None
    translator.gate.set()


def test_nothing_is_opened_where_nobody_asks() -> None:
    with pytest.raises(OptionError), TranslationChoice(translator="somewhere").opened():
        pass
    with TranslationChoice().opened() as chosen:
        assert chosen is None


def test_a_run_that_fails_waits_for_no_translation(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    """The run is over with what was confirmed, and the thread of the translator keeps nobody."""
    release = threading.Event()
    with chat_server(waits(release)) as chat:
        transcriber.fail_at = 2.0
        result = run("transcribe", talk, "--pace", "max", *asking(chat))
        release.set()
    assert result.exit_code not in (0, None)
    assert "decoder.onnx failed" in result.stderr
