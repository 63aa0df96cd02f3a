"""The microphone, as blocks of 16 kHz mono float32, through PortAudio (the `sounddevice` package, loaded on first use).

    with microphone_blocks() as blocks:
        for block in blocks: ...

The device runs at its own rate and is resampled here. PortAudio's thread only queues; audio that nobody fetches waits,
up to a minute. What is lost, here or in the driver, is reported by a `UserWarning`: never silently. Knows nothing of
speech.
"""

import queue
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from whispertide.audio.pcm import ChannelResampler, StreamingResampler
from whispertide.errors import AudioDeviceError
from whispertide.types import FloatArray

_BLOCK_MS = 100
QUEUE_S = 60  # audio that may wait to be fetched
STALL_S = 5.0  # a device that delivers nothing for so long is gone
_NO_PORTAUDIO = (
    "expected PortAudio, the library that reads microphones, on this machine; install it: "
    'Debian and Ubuntu "apt install libportaudio2", Fedora "dnf install portaudio", macOS "brew install portaudio"'
)
_NO_MICROPHONE = (
    "expected a microphone; this machine shows none. Plug one in, allow access to it in the system's privacy settings, "
    "or pass audio as a file or through stdin"
)


@dataclass(frozen=True, slots=True)
class InputDevice:
    """One device that can record; `sample_rate` is the rate it runs at by default."""

    index: int
    name: str
    channels: int
    sample_rate: int
    is_default: bool


def list_devices() -> list[InputDevice]:
    """List the devices that can record, in PortAudio's order; empty if there is none.

    Raises `AudioDeviceError` if PortAudio is not installed or does not work.
    """
    sd = _sounddevice()
    try:
        found = list(sd.query_devices())
        default = int(sd.default.device[0])
    except sd.PortAudioError as error:
        raise AudioDeviceError(f"PortAudio cannot list the audio devices: {error}; check the sound system") from error
    return [
        InputDevice(
            index=index,
            name=str(info["name"]),
            channels=int(info["max_input_channels"]),
            sample_rate=round(info["default_samplerate"]),
            is_default=index == default,
        )
        for index, info in enumerate(found)
        if info["max_input_channels"] > 0
    ]


@contextmanager
def microphone_blocks(device: int | str | None = None, *, apart: int = 0) -> Iterator[Iterator[FloatArray]]:
    """Record while the context is open; yields an iterator of blocks [n], each about 0.1 s long. With `apart` they are
    the first so many channels of the device, [n, apart], unmixed.

    It goes on as long as the context is open, and may be read in another thread: when the context closes it still gives
    what had been recorded, and ends.

    `device` is an index of `list_devices`, its number as text, or a part of a name; None is the system's default.
    Raises `AudioDeviceError` if there is no such device, it has fewer channels, cannot be opened, or (from the
    iterator) stops delivering.
    """
    sd = _sounddevice()
    chosen = _choose(list_devices(), device)
    if chosen.channels < apart:
        raise AudioDeviceError(
            f"expected a device with {apart} channels, to keep them apart; {chosen.name!r} has {chosen.channels}: "
            "choose another, or leave its channels mixed"
        )
    capture = _Capture(chosen, apart)
    stream = _open_stream(sd, chosen, capture, apart or 1)
    with ExitStack() as recording:
        # The stream closes before the end is queued, so that no block can come after the end.
        recording.callback(capture.end)
        try:
            recording.enter_context(stream)  # which starts it
        except sd.PortAudioError as error:
            stream.close()
            raise _not_opened(chosen, error) from error
        yield capture.blocks(stream)


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError as error:
        raise AudioDeviceError('expected the package sounddevice; install it: "pip install sounddevice"') from error
    except OSError as error:  # the package is there, the library it loads is not
        raise AudioDeviceError(_NO_PORTAUDIO) from error
    return sounddevice


def _choose(devices: list[InputDevice], wanted: int | str | None) -> InputDevice:
    if not devices:
        raise AudioDeviceError(_NO_MICROPHONE)
    if wanted is None:
        # PortAudio gives -1 where it has no default.
        return next((device for device in devices if device.is_default), devices[0])
    if isinstance(wanted, int) or wanted.isdecimal():
        matches = [device for device in devices if device.index == int(wanted)]
    else:
        matches = [device for device in devices if wanted.casefold() in device.name.casefold()]
    if not matches:
        known = "; ".join(f"{device.index}: {device.name}" for device in devices)
        raise AudioDeviceError(f"expected one of the recording devices ({known}); got {wanted!r}")
    return matches[0]


def _open_stream(sd: Any, device: InputDevice, capture: "_Capture", least: int) -> Any:
    """Open an input stream with `least` channels if the device can do that, else with all of its channels."""
    problem: Exception | None = None
    for channels in sorted({least, device.channels}):
        try:
            return sd.InputStream(
                device=device.index,
                channels=channels,
                samplerate=device.sample_rate,
                blocksize=round(device.sample_rate * _BLOCK_MS / 1000),
                dtype="float32",
                callback=capture.callback,
            )
        except sd.PortAudioError as error:
            problem = error
    raise _not_opened(device, problem) from problem


def _not_opened(device: InputDevice, problem: Exception | None) -> AudioDeviceError:
    return AudioDeviceError(
        f"the microphone {device.name!r} cannot be opened: {problem}; check that no other program uses it"
    )


class _Capture:
    """The queue between PortAudio's thread and the reader, and the count of lost blocks."""

    def __init__(self, device: InputDevice, apart: int) -> None:
        self._device, self._apart = device, apart
        # Without a bound of its own: the end must always find room, whatever waits.
        self._queue: queue.Queue[FloatArray | None] = queue.Queue()  # None = the end
        self._room = max(2, QUEUE_S * 1000 // _BLOCK_MS)  # blocks
        self._lost = 0  # samples; both counts only grow, so that the two threads need no lock
        self._overflows = 0  # times that the driver lost some, it does not say how many
        self._reported = (0, 0)

    def callback(self, indata: FloatArray, frames: int, _time: Any, status: Any) -> None:
        """Called in PortAudio's thread, which must not wait: without room the block is lost."""
        if status and status.input_overflow:
            self._overflows += 1
        if self._queue.qsize() < self._room:
            # PortAudio uses its buffer again as soon as this returns.
            self._queue.put(indata.copy())
        else:
            self._lost += frames

    def end(self) -> None:
        self._queue.put(None)

    def blocks(self, stream: Any) -> Iterator[FloatArray]:
        """The recorded blocks at 16 kHz up to `end`, [n]; channels that are kept apart, [n, channels]."""
        resampler: StreamingResampler | ChannelResampler | None = None
        while (recorded := self._next(stream)) is not None:
            self._report()
            resampler = resampler or self._resampler(recorded.shape[1])
            yield resampler.push(recorded)
        if resampler is not None:
            yield resampler.flush()

    def _resampler(self, channels: int) -> StreamingResampler | ChannelResampler:
        rate = self._device.sample_rate
        return ChannelResampler(rate, self._apart) if self._apart else StreamingResampler(rate, channels)

    def _next(self, stream: Any) -> FloatArray | None:
        try:
            return self._queue.get(timeout=STALL_S)
        except queue.Empty:
            state = "delivers nothing" if stream.active else "stopped"
            raise AudioDeviceError(
                f"the microphone {self._device.name!r} {state}; check that it is still plugged in"
            ) from None

    def _report(self) -> None:
        lost, overflows = self._lost, self._overflows
        if (lost, overflows) != self._reported:
            self._reported = (lost, overflows)
            warnings.warn(
                f"audio from the microphone was lost: {lost / self._device.sample_rate:.1f} s so far because it was "
                f"not fetched in time, and {overflows} times by the sound driver",
                stacklevel=3,
            )
