import pytest

from whispertide.errors import OptionError
from whispertide_lab.evaluation.grid import grid

PEERS = ("whisper-streaming", "whisperlivekit-simulstreaming", "faster-whisper")


@pytest.mark.parametrize("setting", ["vad=off", "schedule.vad = false"])
def test_the_voice_gate_is_off_for_recipes_and_programs_alike(setting: str) -> None:
    found = grid(("tide",), ("nano.en",), ("talks",), (), (setting,), PEERS)
    gates = {request.recogniser: request.settings.get("vad") for request in found}
    assert gates == {
        "tide": None,
        "peer:whisper-streaming": False,
        "peer:whisperlivekit-simulstreaming": False,
        "peer:faster-whisper": None,  # it has no such gate
    }
    assert [request.recipe.schedule.vad for request in found if request.recipe is not None] == [False]


def test_programs_are_as_they_come_where_nobody_speaks_of_the_gate() -> None:
    found = grid(("tide",), ("nano.en",), ("talks",), (), ("policy.margin_s=0.3",), PEERS)
    assert all("vad" not in request.settings for request in found)
    with pytest.raises(OptionError, match="vad to be true or false"):
        grid(("tide",), ("nano.en",), ("talks",), (), ("vad=perhaps",), PEERS)
