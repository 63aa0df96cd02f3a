import json
import signal
import threading
import time
import warnings
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from chat_server import chat_server
from command_line import Run
from fake_transcriber import FakeTranscriber
from read_transcripts import parse_json
from whispertide import api
from whispertide.audio import mic
from whispertide.audio.pcm import to_int16
from whispertide.errors import AudioDeviceError
from whispertide.formats.document import Document
from whispertide.formats.files import FORMATS, render_srt
from whispertide.methods.short.hush import HushWord
from whispertide.streaming.executors import Serial
from whispertide.streaming.framing import Hush
from whispertide.types import SAMPLE_RATE, FloatArray

Blocks = Iterator[FloatArray]
WORDS = "word0 word1 word2 word3"


def two_seconds() -> Blocks:
    audio = 0.1 * np.sin(np.arange(2 * SAMPLE_RATE) * 0.1)
    yield from np.split(audio.astype(np.float32), 20)


class Microphone:
    """Gives two seconds of audio, then somebody presses Ctrl-C, or it is unplugged."""

    def __init__(self) -> None:
        self.opened: list[object] = []
        self.apart = 0
        self.unplugged = False
        self.closed = threading.Event()

    @contextmanager
    def __call__(self, device: object = None, *, apart: int = 0) -> Iterator[Blocks]:
        self.opened.append(device)
        self.apart = apart
        self.closed.clear()
        yield self._record()
        self.closed.set()

    def _record(self) -> Blocks:
        warnings.warn("audio from the microphone was lost: 0.1 s", stacklevel=1)
        for block in two_seconds():
            yield np.stack([(1 - 2 * number) * block for number in range(self.apart)], axis=1) if self.apart else block
        if self.unplugged:
            raise AudioDeviceError("the microphone 'USB' stopped")
        while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            time.sleep(0.01)  # nobody presses it before there is something to end
        signal.raise_signal(signal.SIGINT)
        self.closed.wait(10)


@pytest.fixture
def microphone(monkeypatch: pytest.MonkeyPatch) -> Microphone:
    microphone = Microphone()
    monkeypatch.setattr(mic, "microphone_blocks", microphone)
    return microphone


def test_ctrl_c_ends_it_with_the_last_words(run: Run, microphone: Microphone) -> None:
    result = run("listen", "--device", "USB")
    assert (result.exit_code, result.stdout) == (0, WORDS + "\n")
    assert microphone.opened == ["USB", "USB"]
    assert microphone.closed.is_set()
    assert "warning: audio from the microphone was lost" in result.stderr


def test_the_model_is_warm_before_the_microphone_opens(
    run: Run, microphone: Microphone, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    monkeypatch.setattr(transcriber, "warm_up", lambda: opened.append(len(microphone.opened)))
    assert run("listen").exit_code == 0
    assert opened == [1]  # the first time only shows that there is one


def test_the_transcript_is_saved(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    result = run("listen", "--output", f"{tmp_path}/", "--format", "json")
    assert (result.exit_code, result.stdout) == (0, "")
    document = parse_json((tmp_path / "microphone.json").read_text())
    assert (document.text, document.complete, document.source) == (WORDS, True, "microphone")
    assert document.metrics["latency_clock"] == "wall"


@pytest.mark.parametrize("output", ["notes.txt", "folder/"])
def test_a_transcript_that_cannot_be_made_again_is_not_replaced_unasked(
    run: Run, microphone: Microphone, tmp_path: Path, output: str
) -> None:
    assert run("listen", "-o", f"{tmp_path}/{output}").exit_code == 0
    (saved,) = tmp_path.rglob("*.txt")
    before = len(microphone.opened)
    saved.write_text("earlier")
    again = run("listen", "-o", f"{tmp_path}/{output}")
    assert (again.exit_code, saved.read_text(), len(microphone.opened)) == (5, "earlier", before)
    assert f"the output {saved} exists; choose another name, or replace it with --overwrite" in again.stderr
    assert run("listen", "-o", f"{tmp_path}/{output}", "--overwrite").exit_code == 0
    assert saved.read_text() == WORDS + "\n"


def test_a_partial_transcript_of_an_earlier_run_is_not_replaced_unasked(
    run: Run, microphone: Microphone, tmp_path: Path
) -> None:
    partial = tmp_path / "notes.partial.txt"
    partial.write_text("earlier")
    refused = run("listen", "-o", tmp_path / "notes.txt")
    assert (refused.exit_code, partial.read_text(), microphone.opened) == (5, "earlier", [])
    assert f"the output {partial} exists" in refused.stderr
    assert run("listen", "-o", tmp_path / "notes.txt", "--overwrite").exit_code == 0


def test_a_talk_may_be_saved_in_several_formats(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    assert run("listen", "-o", f"{tmp_path}/", "-f", "txt,srt", "--lines", "1").exit_code == 0
    assert (tmp_path / "microphone.txt").read_text() == WORDS + "\n"
    assert WORDS in (tmp_path / "microphone.srt").read_text()


def test_the_audio_is_kept(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    audio = tmp_path / "talk.wav"
    assert run("listen", "--save-audio", audio).exit_code == 0
    with wave.open(str(audio)) as file:
        shape = file.getnchannels(), file.getsampwidth(), file.getframerate()
        heard = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert shape == (1, 2, SAMPLE_RATE)
    assert np.array_equal(heard, to_int16(np.concatenate(list(two_seconds()))))
    audio.write_bytes(b"earlier")
    assert (run("listen", "--save-audio", audio).exit_code, audio.read_bytes()) == (5, b"earlier")
    assert run("listen", "--save-audio", audio, "--overwrite").exit_code == 0
    assert len(audio.read_bytes()) > 2 * 2 * SAMPLE_RATE


def test_the_audio_is_kept_as_far_as_a_microphone_went(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    microphone.unplugged = True
    assert run("listen", "--save-audio", tmp_path / "talk.wav").exit_code == 3
    with wave.open(str(tmp_path / "talk.wav")) as file:
        assert file.getnframes() == 2 * SAMPLE_RATE


def test_audio_is_kept_as_wav_alone(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    result = run("listen", "--save-audio", tmp_path / "talk.mp3")
    assert (result.exit_code, microphone.opened) == (2, [])
    assert "a name that ends with .wav for --save-audio" in result.stderr
    assert run("listen", "--save-audio", tmp_path / "no" / "talk.wav").exit_code == 5


def test_audio_and_transcript_are_two_files(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    both = tmp_path / "talk.wav"
    result = run("listen", "--save-audio", both, "-o", both, "-f", "txt")
    assert (result.exit_code, microphone.opened, both.exists()) == (2, [], False)
    assert "another name for --save-audio than for --output" in result.stderr


def test_ctrl_c_while_the_transcript_is_saved_does_not_lose_it(
    run: Run, microphone: Microphone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(document: Document) -> str:
        signal.raise_signal(signal.SIGINT)
        return render_srt(document)

    monkeypatch.setitem(FORMATS, "srt", pressed)
    assert run("listen", "--output", tmp_path / "notes.srt").exit_code == 130
    assert WORDS in (tmp_path / "notes.srt").read_text()


def test_each_channel_is_a_speaker(run: Run, microphone: Microphone, transcriber: FakeTranscriber) -> None:
    result = run("listen", "--multichannel")
    assert (result.exit_code, microphone.apart) == (0, 2)
    assert sorted(result.stdout.splitlines()) == [f"Speaker {number}: {WORDS}" for number in (1, 2)]
    assert "to channels 1 to 2, each a speaker" in result.stderr
    assert len(transcriber.sessions) == 2


def test_channels_are_saved_apart(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    kept = ("-o", f"{tmp_path}/", "-f", "json,jsonl", "--save-audio", tmp_path / "talk.wav")
    assert run("listen", "--multichannel", "--channels", 3, *kept).exit_code == 0
    document = json.loads((tmp_path / "microphone.json").read_text())
    assert [segment["speaker"] for segment in document["segments"]] == [1, 2, 3]
    events = [json.loads(line) for line in (tmp_path / "microphone.jsonl").read_text().splitlines()]
    assert {event["channel"] for event in events} == {1, 2, 3}
    assert {event["channel"] for event in events if event["type"] == "end"} == {1, 2, 3}
    with wave.open(str(tmp_path / "talk.wav")) as file:
        heard = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 3)
    assert np.array_equal(heard[:, 0], to_int16(np.concatenate(list(two_seconds()))))
    assert np.array_equal(heard[:, 1], -heard[:, 0])


def test_each_channel_has_translations(run: Run, microphone: Microphone) -> None:
    with chat_server() as chat:
        asked = ("--translate-to", "fr", "--translator", chat.url, "--translator-model", "llm")
        result = run("listen", "--multichannel", *asked)
    assert result.exit_code == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [
        *(f"Speaker {number}: {WORDS}" for number in (1, 2)),
        *(f"[fr] Speaker {number}: French: {WORDS.upper()}" for number in (1, 2)),
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--channels", "2"), "expected --multichannel next to --channels"),
        (("--multichannel", "--channels", "9"), "9 is not in the range 2<=x<=8"),
    ],
)
def test_what_does_not_go_with_channels(
    run: Run, microphone: Microphone, loads: list[object], options: tuple[str, ...], told: str
) -> None:
    result = run("listen", *options)
    assert (result.exit_code, microphone.opened, loads) == (2, [], [])
    assert told in " ".join(result.stderr.replace("│", "").split())


def test_a_microphone_that_is_unplugged_leaves_the_transcript(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    microphone.unplugged = True
    result = run("listen", "--output", tmp_path / "notes.txt")
    assert (result.exit_code, (tmp_path / "notes.txt").read_text()) == (3, WORDS + "\n")
    assert "the microphone 'USB' stopped" in result.stderr


def test_a_hush_word_of_a_file_is_used(
    run: Run,
    microphone: Microphone,
    transcriber: FakeTranscriber,
    loads: list[object],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    given: list[float] = []

    def with_hush(model: object, *, hush: HushWord) -> FakeTranscriber:
        given.append(hush.seconds)
        return transcriber

    monkeypatch.setattr(api, "Transcriber", with_hush)
    monkeypatch.setattr(transcriber, "model", object(), raising=False)
    HushWord(np.linspace(0, 0.01, 12_000, dtype=np.float32)).save(tmp_path / "word.npz")
    assert run("listen", "--hush", tmp_path / "word.npz", "--executor", "serial").exit_code == 0
    assert given == [0.75]
    recipe = transcriber.recipes[-1]
    assert (recipe.framing, recipe.executor) == (Hush(hush_s=0.75), Serial())
    missing = run("listen", "--hush", tmp_path / "nowhere.npz")
    assert missing.exit_code == 4
    assert len(loads) == 1


def test_the_bundled_model_says_what_it_is(run: Run, microphone: Microphone, transcriber: FakeTranscriber) -> None:
    transcriber.is_bundled = True
    assert "synthetic speech" in run("listen").stderr


def test_one_sentence_says_that_it_listens(run: Run, microphone: Microphone) -> None:
    """How windows are heard, and why, is for `doctor` to say."""
    assert run("listen").stderr.splitlines()[0] == "listening with fake.en; press Ctrl-C to end"


def test_without_a_microphone_no_model_is_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, loads: list[object]
) -> None:
    def none(device: object = None, *, apart: int = 0) -> object:
        raise AudioDeviceError("expected a microphone; this machine shows none")

    monkeypatch.setattr(mic, "microphone_blocks", none)
    result = run("listen")
    assert (result.exit_code, result.stdout, loads) == (3, "", [])
    assert result.stderr == "error: expected a microphone; this machine shows none\n"


def test_an_output_that_cannot_be_is_told_before_listening(run: Run, microphone: Microphone, tmp_path: Path) -> None:
    assert run("listen", "-o", tmp_path / "no" / "notes.txt").exit_code == 5
    assert microphone.opened == []


def test_devices_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [mic.InputDevice(0, "Built-in", 2, 44_100, False), mic.InputDevice(3, "USB", 1, 48_000, True)]
    monkeypatch.setattr(mic, "list_devices", lambda: devices)
    result = run("listen", "--list-devices")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "    0  Built-in  (2 channels, 44100 Hz)",
        "*   3  USB  (1 channel, 48000 Hz)",
    ]


def test_no_devices_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mic, "list_devices", list)
    result = run("listen", "--list-devices")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no microphone" in result.stderr


def test_a_missing_portaudio_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise AudioDeviceError("expected PortAudio, the library that reads microphones")

    monkeypatch.setattr(mic, "list_devices", missing)
    result = run("listen", "--list-devices")
    assert (result.exit_code, "PortAudio" in result.stderr) == (3, True)
