"""How much speech the voice gate loses, and how much noise it lets through.

    python benchmarks/vad.py FOLDER [--levels 0,-10,-20,-30] [--set pre_roll=0.5]

FOLDER holds a manifest.jsonl with one object per line: `file`, `transcript` (null or absent: not speech if the file
lies in a folder `nonspeech`, else ignored) and, where known, `words` with `start` and `end` in seconds. Without FOLDER,
or besides it, speech is made with espeak-ng (the laboratory brings it).

Recordings of one folder are joined to streams with pauses of 0.3 to 8 s between them (their own noise floor), so that
the gate has to open and close all the time. A word is deleted if more than half of its sound lies outside of the gate.
Word times are the manifest's, else the words are spread over the sounding frames of their recording by length. Sounding
= within 30 dB of the recording's loud frames. The frame figure is stricter: the share of sounding frames outside, be
they speech, breath or noise.

Prints a table, then one JSON line.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from whispertide.audio.file import load_audio
from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import GateOptions, SpeechGate, SpeechStarted, SpeechStopped
from whispertide.errors import CorpusError
from whispertide.types import SAMPLE_RATE, FloatArray, seconds
from whispertide_lab.speech.espeak import EspeakSpeaker, espeak_version

FRAME = 160  # 10 ms, the resolution of the figures
PAUSES = (0.3, 0.8, 2.0, 8.0)  # s
NOISE_S = 60
NOISE_LEVELS = (-60, -40, -20)  # dBFS
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please call the office before nine, and ask for the report.",
    "She said that it would rain, but nobody listened to her.",
    "Twenty seven ships left the harbour that morning.",
    "Yes.",
    "I am not sure whether this is what you wanted to hear.",
    "Stop the engine and wait.",
    "A small kettle was boiling on the stove in the kitchen.",
)
VOICES = ("en-us", "en", "en-us+f3", "en+m7", "en-us+whisper")


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording, its sounding frames, and its words as sets of frames."""

    audio: FloatArray
    sounding: np.ndarray  # [frames] bool
    words: tuple[np.ndarray, ...]  # frame indices


@dataclass(slots=True)
class Loss:
    """Counts of one group at one level."""

    words: int = 0
    deleted: int = 0
    frames: int = 0
    outside: int = 0
    inside: int = 0  # frames inside of the gate, of `length` in all, pauses included
    length: int = 0

    def row(self) -> str:
        """The right half of a line of the table."""
        return (
            f"{self.words:6d} {self.deleted:8d} {percent(self.deleted, self.words):8.3f} "
            f"{percent(self.outside, self.frames):9.3f} {percent(self.inside, self.length):6.1f}"
        )


def percent(part: float, whole: float) -> float:
    """100 * part / whole; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


def make_clip(audio: FloatArray, transcript: str, timed: list[dict[str, float]] | None = None) -> Clip:
    """Find the sounding frames and the words, by their times where known."""
    frames = audio[: len(audio) - len(audio) % FRAME].reshape(-1, FRAME)
    level = frames.std(axis=1)
    sounding = level > np.percentile(level, 95) * 10 ** (-30 / 20)
    if timed:
        words = [np.arange(int(w["start"] * 100), max(int(w["end"] * 100), int(w["start"] * 100) + 1)) for w in timed]
    else:
        words = spread(transcript.split(), np.flatnonzero(sounding))
    return Clip(audio, sounding, tuple(w[w < len(frames)] for w in words))


def spread(texts: list[str], frames: np.ndarray) -> list[np.ndarray]:
    """Frames shared out among words by their length in characters."""
    ends = np.cumsum([len(text) + 1 for text in texts])
    cuts = np.round(ends / ends[-1] * len(frames)).astype(int) if len(texts) else []
    return [part for part in np.split(frames, cuts)[: len(texts)] if len(part)]


def manifest_clips(folder: Path) -> dict[str, list[Clip]]:
    """Clips by group: the first folder in the file's path. What is not speech is in the group "nonspeech"."""
    groups: dict[str, list[Clip]] = {}
    for line in (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        group = entry["file"].split("/")[0]
        if entry.get("transcript") or group == "nonspeech":
            clip = make_clip(load_audio(folder / entry["file"]), entry.get("transcript") or "", entry.get("words"))
            singing = "singing with lyrics" in entry.get("tags", ())
            groups.setdefault("singing" if singing else group, []).append(clip)
    return groups


def espeak_clips(seed: int) -> Iterator[Clip]:
    """Sentences by espeak-ng with pauses of up to 4 s between the words of some."""
    rng = np.random.default_rng(seed)
    for voice in VOICES:
        for number, sentence in enumerate(SENTENCES):
            speaker = EspeakSpeaker(voice, rate=int(rng.integers(110, 200)), pitch=50, shared=True)
            words = sentence.split()
            size = 3 if number % 2 else len(words)  # every second speaker stops to think
            parts: list[FloatArray] = []
            timed: list[dict[str, float]] = []
            for at in range(0, len(words), size):
                spoken = speaker.speak(" ".join(words[at : at + size]))
                assert spoken is not None, f"{voice} cannot say {sentence!r}"
                pause = np.zeros(int(rng.integers(500, 4000)) * SAMPLE_RATE // 1000 if at else 0, np.float32)
                begin = seconds(sum(map(len, parts)) + len(pause))
                timed += [{"start": begin + seconds(start), "end": begin + seconds(end)} for start, end in spoken.words]
                parts += [pause, spoken.samples.astype(np.float32) / np.float32(32768)]
            yield make_clip(np.concatenate(parts), sentence, timed)


def noise_clips(seed: int) -> dict[str, FloatArray]:
    """A minute each of silence, white, pink and brown noise and mains hum, at RMS 1."""
    rng = np.random.default_rng(seed)
    size = NOISE_S * SAMPLE_RATE
    spectrum = np.fft.rfft(rng.standard_normal(size))
    bins = np.maximum(np.arange(len(spectrum)), 1)
    t = np.arange(size) / SAMPLE_RATE
    made = {
        "white": np.fft.irfft(spectrum, size),
        "pink": np.fft.irfft(spectrum / np.sqrt(bins), size),
        "brown": np.fft.irfft(spectrum / bins, size),
        "hum": np.sum([np.sin(2 * np.pi * 50 * k * t) / k for k in (1, 2, 3, 5, 7)], axis=0),
    }
    return {"silence": np.zeros(size, np.float32)} | {k: (v / v.std()).astype(np.float32) for k, v in made.items()}


def join(clips: list[Clip], seed: int) -> tuple[FloatArray, np.ndarray, list[np.ndarray]]:
    """One stream: audio, sounding frames, and every word's frames."""
    rng = np.random.default_rng(seed)
    parts: list[FloatArray] = []
    sounding: list[np.ndarray] = []
    words: list[np.ndarray] = []
    at = 0
    for clip in clips:
        whole = clip.audio[: len(clip.sounding) * FRAME]
        floor = np.percentile(whole.reshape(-1, FRAME).std(axis=1), 5)
        pause = round(rng.choice(PAUSES) * 100)
        parts += [(rng.standard_normal(pause * FRAME) * floor).astype(np.float32), whole]
        sounding += [np.zeros(pause, bool), clip.sounding]
        words += [word + at + pause for word in clip.words]
        at += pause + len(clip.sounding)
    return np.concatenate(parts), np.concatenate(sounding), words


def gate_frames(audio: FloatArray, options: GateOptions) -> np.ndarray:
    """[frames] bool: which frames lie wholly inside of the gate."""
    gate = SpeechGate(options)
    inside = np.zeros(len(audio) // FRAME, bool)
    start = 0
    for event in gate.feed(audio) + gate.finish():
        if isinstance(event, SpeechStarted):
            start = event.start
        elif isinstance(event, SpeechStopped):
            inside[-(-start // FRAME) : event.end // FRAME] = True
    return inside


def measure_loss(clips: list[Clip], level: float, options: GateOptions, seed: int) -> Loss:
    """What the gate loses of `clips`, joined to a stream and raised by `level` dB."""
    audio, sounding, words = join(clips, seed)
    inside = gate_frames(audio * np.float32(10 ** (level / 20)), options)
    words = [word for word in words if len(word)]  # others ended before the recording did
    deleted = sum(1 for word in words if np.mean(inside[word]) < 0.5)
    outside = int(np.count_nonzero(sounding & ~inside))
    return Loss(len(words), deleted, int(np.count_nonzero(sounding)), outside, int(inside.sum()), len(inside))


def open_seconds_per_minute(streams: list[FloatArray], options: GateOptions) -> float:
    """How long the gate is open in streams that hold no speech."""
    opened = [gate_frames(audio, options) for audio in streams]
    return 60 * sum(int(frames.sum()) for frames in opened) / max(1, sum(len(frames) for frames in opened))


def microseconds_per_block(options: GateOptions) -> float:
    """Processor time for 32 ms of audio, gate and all."""
    audio = np.random.default_rng(0).standard_normal(60 * SAMPLE_RATE).astype(np.float32) * np.float32(0.01)
    gate = SpeechGate(options)
    began = time.process_time()
    gate.feed(audio)
    return 1e6 * (time.process_time() - began) / (len(audio) // BLOCK)


def speech_table(groups: dict[str, list[Clip]], levels: list[float], measure: Callable[..., Loss]) -> dict[str, Loss]:
    """Print a row per level and group; the sums by level."""
    print(f"{'level':>6} {'group':16} {'words':>6} {'deleted':>8} {'% words':>8} {'% frames':>9} {'% open':>6}")
    sums: dict[str, Loss] = {}
    for level in levels:
        losses = {name: measure(clips, level) for name, clips in sorted(groups.items())}
        for name, loss in losses.items():
            print(f"{level:6.0f} {name:16} {loss.row()}")
        total = Loss(*map(sum, zip(*map(astuple, losses.values()), strict=True)))
        print(f"{level:6.0f} {'all':16} {total.row()}")
        sums[f"{level:g}"] = total
    return sums


def noise_table(groups: dict[str, list[Clip]], options: GateOptions, seed: int) -> dict[str, float]:
    """Print and return seconds per minute that the gate is open where nobody speaks."""
    figures: dict[str, float] = {
        name: open_seconds_per_minute([clip.audio for clip in groups[name]], options)
        for name in ("nonspeech", "singing")
        if name in groups
    }
    for name, audio in noise_clips(seed).items():
        streams = [audio * np.float32(10 ** (level / 20)) for level in NOISE_LEVELS]
        figures[name] = open_seconds_per_minute(streams, options)
    print(f"\n{'no speech':16} open s/min")
    for name, figure in figures.items():
        print(f"{name:16} {figure:10.2f}")
    return figures


def parse_args(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--levels", default="0,-10,-20,-30", help="dB, relative to the recordings")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a field of GateOptions")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Measure and print."""
    args = parse_args(argv)
    options = replace(GateOptions(), **{k: float(v) for k, v in (item.split("=") for item in args.set)})
    groups = manifest_clips(args.folder) if args.folder else {}
    with suppress(CorpusError):  # where there is no synthesizer, there is the folder
        espeak_version()
        groups["espeak-ng"] = list(espeak_clips(args.seed))
    speech = {name: clips for name, clips in groups.items() if name not in ("nonspeech", "singing")}
    if not speech:
        print("nothing to measure: name a folder with manifest.jsonl, or install the laboratory", file=sys.stderr)
        return 2
    levels = [float(level) for level in args.levels.split(",")]
    sums = speech_table(speech, levels, lambda clips, level: measure_loss(clips, level, options, args.seed))
    figures = noise_table(groups, options, args.seed)
    result = {
        "deleted_percent": {level: round(percent(loss.deleted, loss.words), 4) for level, loss in sums.items()},
        "frames_outside_percent": {level: round(percent(loss.outside, loss.frames), 4) for level, loss in sums.items()},
        "words": next(iter(sums.values())).words,
        "false_open_seconds_per_minute": {name: round(figure, 3) for name, figure in figures.items()},
        "us_per_block": round(microseconds_per_block(options), 1),
        "seconds_of_sound": round(sum(len(clip.audio) for clips in speech.values() for clip in clips) / SAMPLE_RATE),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
