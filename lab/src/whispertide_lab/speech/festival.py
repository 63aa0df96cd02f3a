"""Festival, as a program that is kept running: a sentence as sound with the exact place of each word.

Festival decides the length of every sound before it makes any and keeps the plan with the utterance, in relations from
tokens to words to segments (its manual, "Utterances"). `festival.scm` prints from them where each token's words begin
and end. Several of Festival's words may come from one token, and its punctuation is a word without length.

Knows nothing of voices' names outside of Festival.
"""

import shutil
import subprocess
import tempfile
import weakref
from contextlib import suppress
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from whispertide.errors import CorpusError
from whispertide.types import to_samples
from whispertide_lab.speech.voices import Span, Spoken, at_16k

PACKAGES = {"kdl": "festvox-kdlpc16k", "slt": "festvox-us-slt-hts"}


class FestivalSpeaker:
    """One of Festival's voices, `kdl` or `slt`; `rate` 1.2 is faster than its own, `pitch` 1.2 higher (kdl alone).

    Raises `CorpusError` where Festival or the voice is not installed.
    """

    def __init__(self, voice: str, *, rate: float, pitch: float = 1.0) -> None:
        try:
            self._program = subprocess.Popen(
                ["festival", "--pipe"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
        except FileNotFoundError as error:
            raise CorpusError(
                "expected the speech synthesizer festival; it is not installed "
                f"(on Debian and Ubuntu: apt-get install festival {' '.join(PACKAGES.values())})"
            ) from error
        folder = tempfile.mkdtemp(prefix="whispertide-")
        self._sound = Path(folder) / "sound.raw"
        self._end = weakref.finalize(self, _end, self._program, folder)
        with as_file(files(__package__) / "festival.scm") as script:
            self._ask(f"(load {_quoted(str(script))})")
            call = f"kdl {rate} {pitch}" if voice == "kdl" else f"slt {rate}"
            self._ask(f"(whispertide_voice '(whispertide_{call}))")
            if self._answers("ready", voice) is None:
                self.close()
                raise CorpusError(
                    f"expected festival's voice {voice}; it is not installed "
                    f"(on Debian and Ubuntu: apt-get install {PACKAGES[voice]})"
                )

    def speak(self, text: str) -> Spoken | None:
        """The sentence, or None where its words are not told apart. Raises `CorpusError` if festival ends."""
        self._ask(f"(whispertide_say {_quoted(str(self._sound))} {_quoted(text)})")
        lines = self._answers("said", text)
        if lines is None:
            return None
        sound, rate = np.fromfile(self._sound, np.int16), self._rate
        samples = at_16k(sound, rate)
        words = [span for line in lines if (span := _span(line)) is not None]
        told_apart = len(words) == len(text.split()) and all(0 <= start < end <= len(samples) for start, end in words)
        return Spoken(samples, tuple(words)) if told_apart else None

    def close(self) -> None:
        """End the program."""
        self._end()

    def _ask(self, command: str) -> None:
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(command + "\n")
        except BrokenPipeError as error:
            raise CorpusError("festival ended early") from error

    def _answers(self, last: str, about: str) -> list[str] | None:
        """The lines up to one that begins with `last`; None where it failed."""
        assert self._program.stdout is not None
        lines: list[str] = []
        for line in self._program.stdout:
            kind, *rest = line.split()
            if kind == last:
                self._rate = int(rest[0]) if rest else 0
                return lines
            if kind == "failed":
                return None
            lines.append(line)
        self.close()
        packages = " ".join(("festival", *PACKAGES.values()))
        raise CorpusError(f"festival ended on {about!r}: is everything installed? (apt-get install {packages})")


def _span(line: str) -> Span | None:
    """Where a token's words are; None where none of them has a length."""
    edges = [float(edge) for edge in line.split()[1:]]
    spans = [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]
    return (to_samples(spans[0][0]), to_samples(spans[-1][1])) if spans else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _end(program: "subprocess.Popen[str]", folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    program.kill()
    program.wait()
    for stream in (program.stdin, program.stdout):
        if stream is not None:
            with suppress(OSError):  # what it has not read it never will
                stream.close()
