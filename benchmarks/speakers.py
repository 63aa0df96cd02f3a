"""Who spoke when, and whose each word is: made conversations of two to four voices, and a real call.

`python benchmarks/speakers.py so`: of the voices whose names begin so (`../shared/speech/manifest.jsonl`) conversations
are made at run time: turns of one clip each, with pauses, and one turn in four begins before the last one is over. Each
is heard as a whole recording and as a stream. Printed is the diarization error rate (missed, false and confused speech
by the speech there is, no collar, voices matched in the best way; of two at once one is always missed), and how often
the label of a moment is right so many seconds after it, which is what a word gets that is confirmed then.

`-m MODEL` also counts the words whose label is of nobody who speaks in their middle. `--call TALK.wav TALK.rttm` is a
recording with its truth. Needs `whispertide models pull speakers`.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np

from whispertide import load
from whispertide.audio.file import load_audio
from whispertide.audio.silero import BLOCK, SileroState, load_silero
from whispertide.events import Confirmed
from whispertide.options import DecodeOptions
from whispertide.speakers.embedding import load_embedding
from whispertide.speakers.track import SpeakerTrack
from whispertide.speakers.whole import WholeTrack
from whispertide.types import SAMPLE_RATE, FloatArray, IntArray, Word, to_samples

SPEECH = Path("../shared/speech")
FRAME = SAMPLE_RATE // 100
AFTER_S = (0.3, 0.6, 1.0, 2.0)
MOST = 8  # voices that are looked for


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: audio [n], and for each voice in which frames of 10 ms it speaks [voices, frames]."""

    name: str
    audio: FloatArray
    truth: IntArray

    @property
    def frames(self) -> int:
        return int(self.truth.shape[1])


def voices_of(prefix: str) -> dict[str, list[Path]]:
    """The clips of each voice whose name begins so, of 2 s or more."""
    found: dict[str, list[Path]] = defaultdict(list)
    for line in (SPEECH / "manifest.jsonl").read_text().splitlines():
        row = json.loads(line)
        if str(row["speaker"]).startswith(prefix) and row["seconds"] >= 2:
            found[row["speaker"]].append(SPEECH / row["file"])
    return {name: clips for name, clips in sorted(found.items()) if len(clips) > 1}


def is_speech(audio: FloatArray) -> IntArray:
    """Whether there is speech in each frame of 10 ms, by the voice detector; gaps below 0.2 s count as speech."""
    detector, state, found = load_silero(), None, []
    for start in range(0, len(audio) - BLOCK + 1, BLOCK):
        probability, state = _step(detector, audio[start : start + BLOCK], state)
        found.append(probability >= 0.5)
    frames = np.zeros(len(audio) // FRAME, np.int64)
    for number, speech in enumerate(found):
        frames[number * BLOCK // FRAME : (number + 1) * BLOCK // FRAME] = speech
    at = np.flatnonzero(frames)
    for first, last in pairwise(at):
        if 1 < last - first <= 20:
            frames[first:last] = 1
    return frames


def _step(detector: object, block: FloatArray, state: SileroState | None) -> tuple[float, SileroState]:
    return detector.step(block, state)  # type: ignore[attr-defined,no-any-return]


def make(voices: dict[str, list[Path]], count: int, seed: int, turns: int) -> Talk:
    """Make a conversation of so many voices and turns; each clip is cut to at most 6 s."""
    dice = np.random.default_rng(seed)
    chosen = list(dice.choice(sorted(voices), count, replace=False))
    clips = {name: [load_audio(path) for path in voices[name]] for name in chosen}
    at, last, placed = to_samples(0.5), -1, []
    for number in range(turns):
        who = int(dice.integers(count)) if number >= count else number
        who = (who + 1) % count if who == last else who
        own = clips[chosen[who]]
        clip = own[int(dice.integers(len(own)))][: to_samples(float(dice.uniform(1.5, 6)))]
        clip = clip * np.float32(0.08 / max(float(np.sqrt(np.mean(clip**2))), 1e-4))
        overlaps = number and dice.random() < 0.25
        at = max(0, at - to_samples(float(dice.uniform(0.3, 1.0)))) if overlaps else at
        placed.append((who, at, clip))
        at, last = at + len(clip) + to_samples(float(dice.uniform(0.1, 0.8))), who
    audio = np.zeros(max(start + len(clip) for _, start, clip in placed) + SAMPLE_RATE, np.float32)
    truth = np.zeros((count, len(audio) // FRAME), np.int64)
    for who, start, clip in placed:
        audio[start : start + len(clip)] += clip
        speech = is_speech(clip)
        row = truth[who, start // FRAME :][: len(speech)]
        np.maximum(row, speech[: len(row)], out=row)
    noise = dice.standard_normal(len(audio)).astype(np.float32) * np.float32(0.0005)
    return Talk(f"{count} voices, {seed}", np.clip(audio + noise, -1, 1), truth)


def read_call(path: Path, labels: Path) -> Talk:
    """A recording with a truth in RTTM."""
    audio = load_audio(path)
    rows = [line.split() for line in labels.read_text().splitlines() if line.startswith("SPEAKER")]
    names = sorted({row[7] for row in rows})
    truth = np.zeros((len(names), len(audio) // FRAME), np.int64)
    for row in rows:
        start, length = float(row[3]), float(row[4])
        truth[names.index(row[7]), round(100 * start) : round(100 * (start + length))] = 1
    return Talk(path.stem, audio, truth)


# --- scores ----------------------------------------------------------------------------------------------------------

Labelled = Callable[[int, int], int | None]  # from sample to sample -> the number of a voice


def labels_of(talk: Talk, speaker: Labelled, speech: IntArray) -> IntArray:
    """The number of the voice in each frame, 0 where nobody speaks."""
    middles = (frame * FRAME for frame in range(talk.frames))
    return np.array([(speaker(at, at + FRAME) or 0) if speech[n] else 0 for n, at in enumerate(middles)], np.int64)


def best_match(talk: Talk, labels: IntArray) -> dict[int, int]:
    """Which voice each number is, so that most frames are right."""
    numbers = [int(number) for number in np.unique(labels) if number]
    shared = np.array([[int((row * (labels == number)).sum()) for row in talk.truth] for number in numbers])
    options = [*range(len(talk.truth)), *[-1] * len(numbers)]
    ways = set(permutations(options[: max(len(talk.truth), len(numbers))], len(numbers)))
    if not numbers:
        return {}
    best = max(ways, key=lambda way: sum(shared[at, who] for at, who in enumerate(way) if who >= 0))
    return dict(zip(numbers, best, strict=True))


def error_rate(talk: Talk, labels: IntArray) -> tuple[float, float, float]:
    """Missed, false and confused speech, each by all that there is."""
    match = best_match(talk, labels)
    spoken, heard = talk.truth.sum(axis=0), (labels > 0).astype(int)
    right = np.array(
        [label > 0 and (who := match[int(label)]) >= 0 and talk.truth[who, at] for at, label in enumerate(labels)]
    )
    total = max(int(spoken.sum()), 1)
    missed, false = np.maximum(spoken - heard, 0).sum(), np.maximum(heard - spoken, 0).sum()
    confused = (np.minimum(spoken, heard) - right).sum()
    return float(missed) / total, float(false) / total, float(confused) / total


def right_after(talk: Talk, after_s: float) -> float:
    """The share of moments, every 0.1 s where one voice speaks alone, whose label is right so long after them."""
    track, step = SpeakerTrack(load_embedding(), MOST), SAMPLE_RATE // 10
    found: list[tuple[int, int]] = []
    for end in range(step, len(talk.audio), step):
        track.feed(talk.audio[end - step : end])
        at = end - to_samples(after_s)
        if at >= 0 and at // FRAME < talk.frames and talk.truth[:, at // FRAME].sum() == 1:
            found.append((at // FRAME, track.speaker(at, at) or 0))
    labels = np.zeros(talk.frames, np.int64)
    for frame, number in found:
        labels[frame] = number
    match = best_match(talk, labels)
    right = sum(bool(number) and match[number] >= 0 and talk.truth[match[number], frame] for frame, number in found)
    return float(right) / max(len(found), 1)


def wrong_words(talk: Talk, words: Sequence[Word]) -> tuple[int, int]:
    """How many words are of nobody who speaks in their middle, and how many there are where somebody does."""
    labels = np.zeros(talk.frames, np.int64)
    for word in words:
        labels[word.start // FRAME : word.end // FRAME + 1] = word.speaker or 0
    match, wrong, total = best_match(talk, labels), 0, 0
    for word in words:
        middle = min((word.start + word.end) // 2 // FRAME, talk.frames - 1)
        if not talk.truth[:, middle].any():
            continue
        total += 1
        who = match.get(word.speaker or 0, -1)
        wrong += who < 0 or not talk.truth[who, middle]
    return wrong, total


# --- the run ---------------------------------------------------------------------------------------------------------


def talks(args: argparse.Namespace) -> Iterator[Talk]:
    for prefix in args.voices:
        voices = voices_of(prefix)
        for count in (2, 3, 4):
            for seed in range(args.first, args.first + args.each):
                yield make(voices, count, seed, args.turns)
    for wav, rttm in args.call:
        yield read_call(Path(wav), Path(rttm))


def measure(talk: Talk) -> None:
    speech, cost = is_speech(talk.audio), time.process_time()
    whole = WholeTrack(load_embedding(), MOST)
    for _ in whole.hearing(np.array_split(talk.audio, max(1, len(talk.audio) // SAMPLE_RATE))):
        pass
    cost = (time.process_time() - cost) / (len(talk.audio) / SAMPLE_RATE)
    stream = SpeakerTrack(load_embedding(), MOST, kept=None)
    stream.feed(talk.audio)
    for name, speaker in (("recording", whole.speaker), ("stream", stream.speaker)):
        labels = labels_of(talk, speaker, speech)
        parts = error_rate(talk, labels)
        found = len([number for number in np.unique(labels) if number])
        listed = " + ".join(f"{100 * part:.1f}" for part in parts)
        print(f"{talk.name:16} {name:9}  DER {100 * sum(parts):5.1f} % ({listed})  {found} voices", flush=True)
    if talk.frames < 12_000:
        shares = ", ".join(f"{after_s} s {100 * right_after(talk, after_s):.0f} %" for after_s in AFTER_S)
        print(f"{talk.name:16} label right after: {shares};  {1000 * cost:.0f} ms of computing per second", flush=True)


def measure_words(talk: Talk, model: str) -> None:
    transcriber, options = load(model), DecodeOptions(speakers=MOST)
    document = transcriber.transcribe(talk.audio, options=options)
    blocks = np.array_split(talk.audio, max(1, len(talk.audio) // (SAMPLE_RATE // 2)))
    events = transcriber.stream(blocks, options=options)
    streamed = [word for event in events if isinstance(event, Confirmed) for word in event.words]
    for name, words in (("recording", document.words), ("stream", streamed)):
        wrong, total = wrong_words(talk, words)
        share = 100 * wrong / max(total, 1)
        print(f"{talk.name:16} {name:9}  {wrong} of {total} words have a wrong voice ({share:.1f} %)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voices", nargs="*", help="beginnings of the names of voices")
    parser.add_argument("--each", type=int, default=2, help="conversations of each number of voices")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--call", nargs=2, action="append", default=[], metavar=("WAV", "RTTM"))
    parser.add_argument("-m", "--model")
    args = parser.parse_args()
    for talk in talks(args):
        measure(talk)
        if args.model:
            measure_words(talk, args.model)


if __name__ == "__main__":
    main()
