import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sounds import frequency, tone
from whispertide.audio import mic
from whispertide.audio.mic import InputDevice, list_devices, microphone_blocks
from whispertide.errors import AudioDeviceError
from whispertide.types import SAMPLE_RATE, FloatArray


class PortAudioError(Exception):
    pass


class Status:
    """PortAudio's flags for one callback."""

    def __init__(self, input_overflow: bool = False) -> None:
        self.input_overflow = input_overflow

    def __bool__(self) -> bool:
        return self.input_overflow


class FakeStream:
    """Delivers a 440 Hz tone, all blocks at once, when it is started."""

    def __init__(self, module: "FakeSoundDevice", **settings: Any) -> None:
        if settings["channels"] in module.refused_channels:
            raise PortAudioError("Invalid number of channels [PaErrorCode -9998]")
        self.module, self.settings, self.active = module, settings, False

    def __enter__(self) -> "FakeStream":
        if self.module.cannot_start:
            raise PortAudioError("Error starting stream: Unanticipated host error [PaErrorCode -9999]")
        self.active = True
        rate, size, channels = (self.settings[key] for key in ("samplerate", "blocksize", "channels"))
        sound = tone(self.module.seconds, rate)
        hardware = np.zeros((size, channels), np.float32)  # one buffer for all calls, as PortAudio has it
        for at in range(0, len(sound) - size + 1, size):
            hardware[:] = sound[at : at + size, None] / (1 + np.arange(channels))  # each channel quieter than the last
            status = Status(input_overflow=at // size in self.module.overflows)
            self.settings["callback"](hardware, size, None, status)
        self.active = not self.module.unplugged
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.active = False
        self.module.closed += 1


class FakeSoundDevice:
    PortAudioError = PortAudioError

    def __init__(self, devices: list[dict[str, Any]]) -> None:
        self.devices = devices
        self.default = SimpleNamespace(device=[2, -1])
        self.seconds = 1.0
        self.refused_channels: set[int] = set()
        self.overflows: set[int] = set()
        self.unplugged = False
        self.cannot_start = False
        self.closed = 0
        self.opened: list[dict[str, Any]] = []

    def query_devices(self) -> list[dict[str, Any]]:
        return self.devices

    def InputStream(self, **settings: Any) -> FakeStream:  # noqa: N802 (the name in sounddevice)
        self.opened.append(settings)
        return FakeStream(self, **settings)


def device(name: str, channels: int, rate: float) -> dict[str, Any]:
    return {"name": name, "max_input_channels": channels, "default_samplerate": rate}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSoundDevice:
    module = FakeSoundDevice(
        [device("Speakers", 0, 48_000.0), device("Webcam Mic", 2, 44_100.0), device("Headset", 1, 48_000.0)]
    )
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    monkeypatch.setattr(mic, "STALL_S", 0.05)
    return module


def take(blocks: Iterator[FloatArray], count: int) -> FloatArray:
    return np.concatenate([next(blocks) for _ in range(count)])


def test_lists_only_what_can_record(fake: FakeSoundDevice) -> None:
    assert list_devices() == [
        InputDevice(1, "Webcam Mic", 2, 44_100, is_default=False),
        InputDevice(2, "Headset", 1, 48_000, is_default=True),
    ]


def test_records_from_the_default_device_at_sixteen_kilohertz(fake: FakeSoundDevice) -> None:
    with microphone_blocks() as blocks:
        sound = take(blocks, 10)
    assert fake.opened[0]["device"] == 2
    assert fake.opened[0]["blocksize"] == 4800
    assert len(sound) == pytest.approx(SAMPLE_RATE, abs=600)  # the resampler holds back a little
    assert frequency(sound) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("default", [-1, 1])
@pytest.mark.parametrize("rate", [24_000, 48_000])
def test_the_microphone_of_a_mac(fake: FakeSoundDevice, default: int, rate: int) -> None:
    """Core Audio lists speakers and microphones apart, and each runs at a rate of its own; it names no default (-1)
    before somebody has allowed the terminal to record.
    """
    fake.devices = [device("MacBook Pro Speakers", 0, 44_100.0), device("MacBook Pro Microphone", 1, rate)]
    fake.default.device = [default, 0]
    assert [found.is_default for found in list_devices()] == [default == 1]
    with microphone_blocks() as blocks:
        sound = take(blocks, 8)
    assert (fake.opened[0]["device"], fake.opened[0]["samplerate"]) == (1, rate)
    assert frequency(sound) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("wanted", [1, "1", "webcam"])
def test_a_device_is_chosen_by_number_or_part_of_its_name(fake: FakeSoundDevice, wanted: int | str) -> None:
    with microphone_blocks(wanted) as blocks:
        assert len(next(blocks)) > 0
    assert (fake.opened[0]["device"], fake.opened[0]["samplerate"]) == (1, 44_100)


def test_a_device_that_refuses_mono_is_opened_with_all_channels(fake: FakeSoundDevice) -> None:
    fake.refused_channels = {1}
    with microphone_blocks(1) as blocks:
        assert frequency(take(blocks, 10)) == pytest.approx(440, abs=2)
    assert [settings["channels"] for settings in fake.opened] == [1, 2]


@pytest.mark.parametrize("refused", [(), (2,)])
def test_channels_that_are_kept_apart_are_not_mixed(fake: FakeSoundDevice, refused: tuple[int, ...]) -> None:
    fake.devices[1]["max_input_channels"] = 4
    fake.refused_channels = set(refused)
    with microphone_blocks("Webcam", apart=2) as blocks:
        sound = take(blocks, 10)
    assert fake.opened[-1]["channels"] == (4 if refused else 2)
    assert sound.shape == (pytest.approx(SAMPLE_RATE, abs=600), 2)
    assert frequency(sound[:, 1]) == pytest.approx(440, abs=2)
    assert sound[:, 1] == pytest.approx(sound[:, 0] / 2, abs=1e-4)


def test_a_device_with_one_channel_has_none_to_keep_apart(fake: FakeSoundDevice) -> None:
    with (
        pytest.raises(AudioDeviceError, match=r"expected a device with 2 channels.*'Headset' has 1"),
        microphone_blocks(apart=2),
    ):
        pass
    assert not fake.opened


def test_a_reader_in_another_thread_gets_everything_and_ends(fake: FakeSoundDevice) -> None:
    received: list[FloatArray] = []
    with microphone_blocks() as blocks:
        reader = threading.Thread(target=lambda: received.extend(blocks))
    reader.start()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert sum(map(len, received)) == SAMPLE_RATE


@pytest.mark.parametrize("wanted", [0, 7, "guitar"])
def test_an_unknown_device_is_an_error_that_lists_the_known(fake: FakeSoundDevice, wanted: int | str) -> None:
    with pytest.raises(AudioDeviceError, match=r"1: Webcam Mic; 2: Headset\); got"), microphone_blocks(wanted):
        pass


def test_no_microphone_is_a_clear_error(fake: FakeSoundDevice) -> None:
    fake.devices = fake.devices[:1]
    assert list_devices() == []
    with pytest.raises(AudioDeviceError, match="expected a microphone; this machine shows none"), microphone_blocks():
        pass


def test_a_busy_device_is_a_clear_error(fake: FakeSoundDevice) -> None:
    fake.refused_channels = {1, 2}
    with pytest.raises(AudioDeviceError, match="'Headset' cannot be opened: Invalid number"), microphone_blocks():
        pass


def test_a_device_that_does_not_start_is_a_clear_error_and_is_closed(fake: FakeSoundDevice) -> None:
    fake.cannot_start = True
    with pytest.raises(AudioDeviceError, match="'Headset' cannot be opened: Error starting"), microphone_blocks():
        pass
    assert fake.closed == 1


@pytest.mark.parametrize(("unplugged", "message"), [(True, "stopped"), (False, "delivers nothing")])
def test_a_device_that_falls_silent_is_an_error_after_what_it_gave(
    fake: FakeSoundDevice, unplugged: bool, message: str
) -> None:
    fake.unplugged = unplugged
    with microphone_blocks() as blocks:
        assert len(take(blocks, 10)) > 15_000
        with pytest.raises(AudioDeviceError, match=message):
            next(blocks)


def test_what_nobody_fetches_in_time_is_reported(fake: FakeSoundDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mic, "QUEUE_S", 0.5)
    with microphone_blocks() as blocks, pytest.warns(UserWarning, match=r"0\.5 s so far"):
        next(blocks)


def test_what_the_driver_loses_is_reported_once(fake: FakeSoundDevice) -> None:
    fake.overflows = {3, 4}
    with microphone_blocks() as blocks:
        with pytest.warns(UserWarning, match="2 times by the sound driver"):
            next(blocks)
        next(blocks)  # a second warning would be an error here


def test_missing_portaudio_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(AudioDeviceError, match="apt install libportaudio2"):
        list_devices()


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(AudioDeviceError, match="pip install sounddevice"):
        list_devices()


def test_a_broken_sound_system_is_a_clear_error(fake: FakeSoundDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise PortAudioError("Error querying device -1")

    monkeypatch.setattr(fake, "query_devices", fail)
    with pytest.raises(AudioDeviceError, match="cannot list the audio devices"):
        list_devices()
