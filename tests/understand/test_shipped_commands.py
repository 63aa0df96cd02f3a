"""The network for commands that is shipped understands spoken commands in a voice that it was never trained on."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("espeakng_loader")

from whispertide.errors import CheckpointNotFoundError
from whispertide.understand.checkpoint import COMMANDS, load_late
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import Understanding
from whispertide_lab.speech.talks import open_speaker
from whispertide_lab.speech.voices import HELD_OUT

WANTED = {
    "what is the weather like today": "weather_query",
    "play some music for me": "play_music",
    "set an alarm for seven in the morning": "alarm_set",
    "turn off the lights in the kitchen": "iot_hue_lightoff",
    "do i have any new email": "email_query",
    "what time is it in london": "datetime_query",
}


@pytest.mark.slow
def test_it_understands_most_of_what_an_unknown_voice_wants() -> None:
    model = LateModel.open()
    voice = open_speaker(next(voice for voice in HELD_OUT if voice.synthesizer == "espeak-ng"), 0.5)
    understood = {}
    for text in WANTED:
        spoken = voice.speak(text)
        assert spoken is not None
        stream = Understanding(model)
        told = stream.push(np.pad(spoken.samples.astype(np.float32) / 32768, (4800, 16_000)))
        told += stream.finish()
        understood[text] = next((one.intent for one in told if one.final), None)
    assert sum(understood[text] == intent for text, intent in WANTED.items()) >= 4, understood


def test_it_is_in_the_package_and_small() -> None:
    assert COMMANDS.is_relative_to(Path(str(files("whispertide"))))
    assert 1e6 < sum(file.stat().st_size for file in COMMANDS.iterdir()) < 15e6


def test_its_name_finds_it_unless_a_folder_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_late(Path("commands")).vocabulary.intents == load_late(COMMANDS).vocabulary.intents
    (tmp_path / "commands").mkdir()
    with pytest.raises(CheckpointNotFoundError, match=r"has no config\.json"):
        load_late(Path("commands"))
