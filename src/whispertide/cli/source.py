"""Audio sources: a path, the recordings in a folder, or standard input with raw PCM or a file.

Knows nothing of what is done with it.
"""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whispertide.atomic import printable
from whispertide.audio.extensions import AUDIO
from whispertide.cli.output import STDIN
from whispertide.errors import AudioError, AudioFileError, OptionError

if TYPE_CHECKING:
    from whispertide.types import FloatArray


_RAW = (".pcm", ".raw")
_STDIN_LABEL = "standard input"


@dataclass(frozen=True, slots=True)
class PcmFormat:
    """The format of raw audio on standard input."""

    rate: int
    channels: int = 1
    sample_format: str = "s16le"


@dataclass(frozen=True, slots=True)
class Source:
    """One input; `pcm` only for standard input without a container. `track` is one of several, from 1."""

    name: str
    pcm: PcmFormat | None = None
    track: int | None = None

    @property
    def label(self) -> str:
        """The name for messages and bars."""
        if self.name == STDIN:
            return _STDIN_LABEL
        return printable(Path(self.name).name)

    @property
    def is_pipe(self) -> bool:
        """True if the audio can be read only once, as it is written by another program."""
        name = self.name
        return name == STDIN or (os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name))

    def probe(self) -> float | None:
        """Seconds of audio by the file's header, or None; a pipe is left alone.

        Raises `AudioFileError` where there is nothing to decode.
        """
        if self.is_pipe:
            return None
        from whispertide.audio.file import duration_of

        if "://" in self.name and not os.path.exists(self.name):
            raise AudioFileError(
                f"{self.name}: expected a file; `transcribe` does not open addresses: download it first, or use "
                f"`whispertide batch {self.name} -o FOLDER`"
            )
        if os.path.isdir(self.name):
            raise AudioFileError(
                f"{self.name}: expected recordings in this folder; there are none (folders inside it are left out)"
            )
        try:
            return duration_of(self.name)
        except AudioFileError as error:
            if Path(self.name).suffix.lower() not in _RAW:
                raise
            raise AudioFileError(
                f"{error}; use standard input for raw PCM: whispertide transcribe - --rate 16000 < {self.name}"
            ) from error

    def which_track(self) -> str:
        """The warning for a file with several audio tracks if none was chosen; "" otherwise.

        Raises `AudioFileError` where there is nothing to decode.
        """
        if self.is_pipe or self.track is not None:
            return ""
        from whispertide.audio.file import audio_tracks

        tracks = audio_tracks(self.name)
        if len(tracks.names) == 1:
            return ""
        return f"{self.label}: {tracks}; transcribing track {tracks.preferred}. For another one: --track N"

    def check_apart(self, *, streamed: bool) -> None:
        """Raise `OptionError` for what can be read only once, but for raw PCM that is streamed."""
        if not self.is_pipe:
            return
        if self.pcm is None or not streamed:
            remedy = "" if self.pcm is None else ", or stream it with --pace live"
            raise OptionError(
                f"expected a file with --multichannel; {self.label} can be read once: save it first{remedy}"
            )
        if self.pcm.channels == 1:
            raise OptionError("expected --channels N, two or more, with --multichannel; got one channel")

    def channels(self) -> "Sequence[Iterable[FloatArray]]":
        """The audio of each channel, each to be decoded by itself.

        Raises `OptionError` for what can be read only once, and `AudioFileError` where there are no two channels.
        """
        self.check_apart(streamed=False)
        from whispertide.audio.apart import file_channels

        return file_channels(self.name, track=self.track)

    def blocks_apart(self) -> "tuple[int, Iterator[FloatArray]]":
        """The number of channels, and blocks [n, channels] at 16 kHz for a stream. Raises the errors of `channels`."""
        import numpy as np

        if self.name == STDIN and self.pcm is not None:
            self.check_apart(streamed=True)
            return self.pcm.channels, self._pcm_blocks(self.pcm, apart=True)

        each = self.channels()
        return len(each), (np.stack(parts, axis=1) for parts in zip(*each, strict=True))

    def blocks(self) -> "Iterator[FloatArray]":
        """Decode to 16 kHz mono blocks. Raises the errors of `audio.file` while it is read."""
        from whispertide.audio.file import decode_blocks

        if self.name != STDIN:
            return decode_blocks(self.name, track=self.track)
        if self.pcm is None:
            return _file_on_stdin(self.track)
        return self._pcm_blocks(self.pcm)

    def _pcm_blocks(self, pcm: PcmFormat, *, apart: bool = False) -> "Iterator[FloatArray]":
        from whispertide.audio.file import pcm_blocks

        format_ = pcm.sample_format
        return pcm_blocks(_stdin_bytes(), pcm.rate, channels=pcm.channels, sample_format=format_, apart=apart)


def _file_on_stdin(track: int | None) -> "Iterator[FloatArray]":
    from whispertide.audio.file import decode_blocks

    try:
        yield from decode_blocks(_stdin_bytes(), track=track)
    except AudioFileError as error:
        raise AudioFileError(
            f"{error}; if it is raw PCM, that needs its rate: whispertide transcribe - --rate 16000"
        ) from error


def _stdin_bytes() -> BinaryIO:
    """Standard input as bytes. Raises `AudioError` if the caller has closed it."""
    if sys.stdin is None:
        raise AudioError("expected audio on standard input; it is closed: pipe audio into it, or name a file")
    try:
        number = sys.stdin.fileno()
    except io.UnsupportedOperation:
        return sys.stdin.buffer
    # Python closes `sys.stdin` when it ends, and dies where another thread still waits in it for input. The name is for
    # the messages of whoever reads it.
    return open(_STDIN_LABEL, "rb", buffering=0, opener=lambda *_: os.dup(number))


def with_folders_opened(names: Iterable[str]) -> list[str]:
    """Replace each folder in `names` by the audio and video files in it, by name; folders inside it are left out.

    A folder without any stays what it is, so that its reader can complain. Raises `AudioFileError` for one that
    cannot be listed.
    """
    found: list[str] = []
    for name in names:
        # By `os.path`, because `Path` raises for what cannot be looked at; whoever opens it tells of that.
        found += (os.path.isdir(name) and _recordings(Path(name))) or [name]
    return found


def _recordings(folder: Path) -> list[str]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise AudioFileError(
            f"{folder}: the folder cannot be read ({error.strerror}); check its permissions"
        ) from error
    return [
        str(path)
        for path in paths
        if path.suffix.lstrip(".").lower() in AUDIO and not path.name.startswith(".") and os.path.isfile(path)
    ]
