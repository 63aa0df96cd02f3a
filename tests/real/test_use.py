"""tiny.en in use: every recipe, subtitles and the server, with limits that hold on any machine."""

import io
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import jiwer
import numpy as np
import pytest
from typer.testing import CliRunner

from published_models import usual
from read_transcripts import parse_srt
from served import in_thread
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.checkpoint import attachments
from whispertide.cli.demo import plain
from whispertide.cli.main import app
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.server.hub import Hub
from whispertide.server.options import ServerOptions, Work
from whispertide.server.serving import run_server
from whispertide.types import SAMPLE_RATE, FloatArray, join_words

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

CLIPS = Path(__file__).parents[1] / "clips"
MOST_ERRORS = 0.35


def audio(*stems: str) -> FloatArray:
    """Clips, one after the other with pauses, 16 kHz [n]."""
    pause = np.zeros(SAMPLE_RATE, np.float32)
    return np.concatenate([part for stem in stems for part in (load_audio(CLIPS / f"{stem}.flac"), pause)])


def errors(text: str, *stems: str) -> float:
    truth = " ".join((CLIPS / f"{stem}.txt").read_text(encoding="utf-8") for stem in stems)
    return float(jiwer.wer(plain(truth), plain(text)))


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_recipe_hears_what_was_said(tiny: Transcriber, recipe: str) -> None:
    """No sentence of a conversation is lost: its second voice is 18 dB quieter, its pauses are of several lengths.

    At a step of two seconds, so that all recipes take less than half a minute.
    """
    chosen = get_recipe(recipe)
    if chosen.has("step_s"):
        chosen = chosen.replace(step_s=2.0)
    session = tiny.session(chosen)
    quieter = audio("winter") * np.float32(10 ** (-18 / 20))
    samples = np.concatenate(
        [audio("river")[: -SAMPLE_RATE // 2], quieter, np.zeros(SAMPLE_RATE, np.float32), audio("river")]
    )
    for at in range(0, len(samples), 1600):
        session.push(samples[at : at + 1600])
    session.finish()
    text = join_words(session.transcript.words)
    assert errors(text, "river", "winter", "river") <= MOST_ERRORS, text


@pytest.mark.parametrize(
    "path", sorted(attachments.BUNDLED.rglob("*.npz")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_an_attachment_of_the_package_belongs_to_its_checkpoint(path: Path) -> None:
    """By its tensors, so that it is found for any file that they come in."""
    checkpoint = usual(path.parent.name).model.checkpoint
    assert path in attachments.iter_elsewhere(checkpoint)


def test_subtitles(tmp_path: Path) -> None:
    target = tmp_path / "river.srt"
    result = CliRunner().invoke(
        app, ["transcribe", str(CLIPS / "river.flac"), "-m", "tiny.en", "--threads", "1", "-o", str(target)]
    )
    assert result.exit_code == 0, result.stderr
    cues = parse_srt(target.read_text(encoding="utf-8")).segments
    assert errors(" ".join(cue.text for cue in cues), "river") <= MOST_ERRORS
    assert 0 <= cues[0].start < cues[-1].end <= len(load_audio(CLIPS / "river.flac"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[int]:
        hub = Hub(
            {"tiny.en": usual("tiny.en")}, get_recipe("tide"), ServerOptions(work=Work(workers=1)), version="test"
        )
        async with run_server(hub) as server:
            yield server.port

    with in_thread(opened()) as found:
        yield found


def wav(stem: str) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SAMPLE_RATE)
        out.writeframes((load_audio(CLIPS / f"{stem}.flac") * 32_767).astype("<i2").tobytes())
    return file.getvalue()


def test_rest(port: int) -> None:
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/audio/transcriptions",
        data={"model": "tiny.en"},
        files={"file": ("winter.wav", wav("winter"))},
        timeout=120,
    )
    assert answer.status_code == 200, answer.text
    assert errors(answer.json()["text"], "winter") <= MOST_ERRORS
