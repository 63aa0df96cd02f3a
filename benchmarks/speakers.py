"""Who spoke when, and whose each word is: made conversations of two to four voices, and a real call.

`python benchmarks/speakers.py so`: of the voices whose names begin so (`../shared/speech/manifest.jsonl`) conversations
are made at run time: turns of one whole clip each, with pauses, and one turn in four begins before the last one is
over. Each is heard as a whole recording and as a stream. Printed is the diarization error rate (missed, false and
confused speech by the speech there is, no collar, voices matched in the best way; of two at once one is always missed),
and how often the label of a moment is right so many seconds after it, which is what a word gets that is confirmed then.

`-m MODEL` also counts words. "A wrong voice": the label is of nobody who speaks in the word's middle; "at a change":
that lies within a second of where somebody begins to speak. "Confirmed after" counts from a word's end, in audio. Word
errors are with attribution, by concatenation (cpWER): what was written under a label, in its order, against all that a
voice says, labels and voices matched so that the errors are fewest; what is left over of either counts as inserted or
deleted. Next to it stand the errors where each word is given to whoever speaks in its middle: the rest is the labels'
fault.

`--call TALK.wav TALK.rttm` is a recording with its truth, `--speech FOLDER` has other voices and their manifest.
`--peer PYTHON` hears the same with moonshine-voice, by an interpreter that has it. Needs `whispertide models pull
speakers`; `-m` needs the laboratory.
"""

import argparse
import json
import subprocess
import time
import wave
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from whispertide import load
from whispertide.audio.file import load_audio
from whispertide.audio.pcm import to_int16
from whispertide.audio.silero import BLOCK, SileroState, load_silero
from whispertide.events import Confirmed
from whispertide.options import DecodeOptions
from whispertide.speakers.embedding import find_embedding
from whispertide.speakers.track import SpeakerTrack
from whispertide.speakers.whole import WholeTrack
from whispertide.types import SAMPLE_RATE, FloatArray, IntArray, Word, seconds, to_samples

SPEECH = Path("../shared/speech")
NEAR_S = 1.0  # a change of the voice
FRAME = SAMPLE_RATE // 100
AFTER_S = (0.3, 0.6, 1.0, 2.0)
MOST_S = 9  # of a clip
MOST = 8  # voices that are looked for


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: audio [n], and for each voice in which frames of 10 ms it speaks [voices, frames], and its words,
    where they are known.
    """

    name: str
    audio: FloatArray
    truth: IntArray
    said: tuple[tuple[str, ...], ...] = ()

    @property
    def frames(self) -> int:
        return int(self.truth.shape[1])


Clip = tuple[Path, str]  # and what is said in it


def voices_of(prefix: str, folder: Path = SPEECH) -> dict[str, list[Clip]]:
    """The clips of each voice whose name begins so, of 2 to 9 s."""
    found: dict[str, list[Clip]] = defaultdict(list)
    for line in (folder / "manifest.jsonl").read_text().splitlines():
        row = json.loads(line)
        if str(row["speaker"]).startswith(prefix) and 2 <= row["seconds"] <= MOST_S:
            found[row["speaker"]].append((folder / row["file"], row["transcript"] or ""))
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


def make(voices: dict[str, list[Clip]], count: int, seed: int, turns: int) -> Talk:
    """Make a conversation of so many voices and turns."""
    dice = np.random.default_rng(seed)
    chosen = list(dice.choice(sorted(voices), count, replace=False))
    clips = {name: [(load_audio(path), text) for path, text in voices[name]] for name in chosen}
    at, last, placed = to_samples(0.5), -1, []
    said: list[list[str]] = [[] for _ in range(count)]
    for number in range(turns):
        who = int(dice.integers(count)) if number >= count else number
        who = (who + 1) % count if who == last else who
        own = clips[chosen[who]]
        clip, text = own[int(dice.integers(len(own)))]
        clip = clip * np.float32(0.08 / max(float(np.sqrt(np.mean(clip**2))), 1e-4))
        overlaps = number and dice.random() < 0.25
        at = max(0, at - to_samples(float(dice.uniform(0.3, 1.0)))) if overlaps else at
        placed.append((who, at, clip))
        said[who] += text.split()
        at, last = at + len(clip) + to_samples(float(dice.uniform(0.1, 0.8))), who
    audio = np.zeros(max(start + len(clip) for _, start, clip in placed) + SAMPLE_RATE, np.float32)
    truth = np.zeros((count, len(audio) // FRAME), np.int64)
    for who, start, clip in placed:
        audio[start : start + len(clip)] += clip
        speech = is_speech(clip)
        row = truth[who, start // FRAME :][: len(speech)]
        np.maximum(row, speech[: len(row)], out=row)
    noise = dice.standard_normal(len(audio)).astype(np.float32) * np.float32(0.0005)
    return Talk(f"{count} voices, {seed}", np.clip(audio + noise, -1, 1), truth, tuple(map(tuple, said)))


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


def hear_stream(talk: Talk) -> tuple[SpeakerTrack, list[float]]:
    """Hear the conversation as a stream. Returns the track, and for each delay the share of moments, every 0.1 s where
    one voice speaks alone, whose label is right so long after them.
    """
    track, step = SpeakerTrack(find_embedding(), MOST, kept=None), SAMPLE_RATE // 10
    found: list[list[tuple[int, int]]] = [[] for _ in AFTER_S]
    for end in range(step, len(talk.audio) + step, step):
        track.feed(talk.audio[end - step : end])
        for after_s, moments in zip(AFTER_S, found, strict=True):
            at = end - to_samples(after_s)
            if at >= 0 and at // FRAME < talk.frames and talk.truth[:, at // FRAME].sum() == 1:
                moments.append((at // FRAME, track.speaker(at, at) or 0))
    return track, [share_right(talk, moments) for moments in found]


def share_right(talk: Talk, moments: Sequence[tuple[int, int]]) -> float:
    """The share of moments (frame, label) whose label is that of whoever speaks."""
    labels = np.zeros(talk.frames, np.int64)
    for frame, number in moments:
        labels[frame] = number
    match = best_match(talk, labels)
    right = sum(bool(number) and match[number] >= 0 and talk.truth[match[number], frame] for frame, number in moments)
    return float(right) / max(len(moments), 1)


def wrong_words(talk: Talk, words: Sequence[Word]) -> tuple[int, int, int]:
    """How many words are of nobody who speaks in their middle, how many of these lie near a change, and how many words
    there are where somebody speaks.
    """
    labels = np.zeros(talk.frames, np.int64)
    for word in words:
        labels[word.start // FRAME : word.end // FRAME + 1] = word.speaker or 0
    match, wrong, near, total = best_match(talk, labels), 0, 0, 0
    begins = np.flatnonzero((np.diff(talk.truth, axis=1) > 0).any(axis=0))
    for word in words:
        middle = min((word.start + word.end) // 2 // FRAME, talk.frames - 1)
        if not talk.truth[:, middle].any():
            continue
        total += 1
        who = match.get(word.speaker or 0, -1)
        if who < 0 or not talk.truth[who, middle]:
            wrong += 1
            near += bool(np.abs(begins - middle).min(initial=talk.frames) * FRAME <= to_samples(NEAR_S))
    return wrong, near, total


def errors_with_voices(said: Sequence[Sequence[str]], written: Mapping[int, Sequence[str]]) -> tuple[int, int]:
    """Word errors of what was `written` under each label against what each voice `said`, and how many words these are:
    the fewest errors of all ways to match labels with voices, one with one.
    """
    from whispertide_lab.evaluation.wer import align

    texts = [*written.values(), *[()] * len(said)]
    voices = [*said, *[()] * len(written)]
    counts = [[align(voice, text).words for text in texts] for voice in voices]
    errors = np.array([[count.errors for count in row] for row in counts])
    ways = permutations(range(len(texts)), len(said))
    alone = errors[-1] if len(written) else np.zeros(len(texts), int)  # of texts that nobody says
    fewest = min(
        int(sum(errors[voice, text] for voice, text in enumerate(way)) + alone.sum() - alone[list(way)].sum())
        for way in ways
    )
    return fewest, sum(row[0].reference for row in counts[: len(said)])


def labelled(words: Sequence[Word]) -> dict[int, list[str]]:
    """The words under each label, in their order; those without one are under 0."""
    found: dict[int, list[str]] = defaultdict(list)
    for word in sorted(words, key=lambda one: one.start):
        found[word.speaker or 0].append(word.text.strip())
    return found


def truly_labelled(talk: Talk, words: Sequence[Word]) -> list[Word]:
    """The words with the number of whoever speaks in their middle; of two that is who has spoken for longer around it,
    and of nobody the nearest.
    """
    kernel = np.ones(100)
    near = np.array([np.convolve(row, kernel, "same") for row in talk.truth])
    found = []
    for word in words:
        middle = min((word.start + word.end) // 2 // FRAME, talk.frames - 1)
        weights = near[:, middle] * (talk.truth[:, middle] if talk.truth[:, middle].any() else 1)
        found.append(replace(word, speaker=1 + int(weights.argmax())))
    return found


# --- the run ---------------------------------------------------------------------------------------------------------


def talks(args: argparse.Namespace) -> Iterator[Talk]:
    for prefix in args.voices:
        voices = voices_of(prefix, args.speech)
        for count in (2, 3, 4):
            for seed in range(args.first, args.first + args.each):
                yield make(voices, count, seed, args.turns)
    for wav, rttm in args.call:
        yield read_call(Path(wav), Path(rttm))


def measure(talk: Talk) -> None:
    speech, cost = is_speech(talk.audio), time.process_time()
    whole = WholeTrack(find_embedding(), MOST)
    for _ in whole.hearing(np.array_split(talk.audio, max(1, len(talk.audio) // SAMPLE_RATE))):
        pass
    cost = (time.process_time() - cost) / (len(talk.audio) / SAMPLE_RATE)
    stream, after = hear_stream(talk)
    for name, speaker in (("recording", whole.speaker), ("stream", stream.speaker)):
        show_errors(talk, name, labels_of(talk, speaker, speech))
    shares = ", ".join(f"{after_s} s {100 * share:.0f} %" for after_s, share in zip(AFTER_S, after, strict=True))
    print(f"{talk.name:16} label right after: {shares};  {1000 * cost:.0f} ms of computing per second", flush=True)


def show_errors(talk: Talk, name: str, labels: IntArray) -> None:
    parts = error_rate(talk, labels)
    found = len([number for number in np.unique(labels) if number])
    listed = " + ".join(f"{100 * part:.1f}" for part in parts)
    print(f"{talk.name:16} {name:9}  DER {100 * sum(parts):5.1f} % ({listed})  {found} voices", flush=True)


def measure_words(talk: Talk, model: str) -> None:
    transcriber, options = load(model, threads=1), DecodeOptions(speakers=MOST)
    document = transcriber.transcribe(talk.audio, options=options)
    blocks = np.array_split(talk.audio, max(1, len(talk.audio) // (SAMPLE_RATE // 2)))
    confirmed = [event for event in transcriber.stream(blocks, options=options) if isinstance(event, Confirmed)]
    streamed = [word for event in confirmed for word in event.words]
    after = [seconds(event.at - word.end) for event in confirmed for word in event.words]
    show_words(talk, "recording", document.words)
    show_words(talk, "stream", streamed)
    print(f"{talk.name:16} stream     confirmed after {np.median(after):.2f} s, {np.mean(after):.2f} s on average")


def show_words(talk: Talk, name: str, words: Sequence[Word]) -> None:
    wrong, near, total = wrong_words(talk, words)
    share = 100 * wrong / max(total, 1)
    line = f"{talk.name:16} {name:9}  {wrong} of {total} words have a wrong voice ({share:.1f} %), {near} at a change"
    if talk.said:
        errors, spoken = errors_with_voices(talk.said, labelled(words))
        least, _ = errors_with_voices(talk.said, labelled(truly_labelled(talk, words)))
        line += (
            f"; {errors} errors with voices in {spoken} words ({100 * errors / spoken:.1f} %), {least} by true labels"
        )
    print(line, flush=True)


def measure_peer(talk: Talk, python: str) -> None:
    """Hear it with moonshine-voice. Its words have no times: they are spread evenly over their line."""
    script = Path(__file__).with_name("moonshine_speakers.py")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "talk.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
            file.writeframes(to_int16(talk.audio).tobytes())
        heard = json.loads(subprocess.check_output([python, str(script), str(path)]).splitlines()[-1])
    for way in ("recording", "stream"):
        lines, cost = heard[way]["lines"], heard[way]["seconds"] / (len(talk.audio) / SAMPLE_RATE)
        labels = np.zeros(talk.frames, np.int64)
        for start, end, number in (span for line in lines for span in line["spans"]):
            labels[round(100 * start) : round(100 * end)] = number
        show_errors(talk, f"moonshine-voice {heard['version']}, {way}", labels)
        show_words(talk, f"{way}, {1000 * cost:.0f} ms per second", [word for one in lines for word in spread(one)])


def spread(line: Mapping[str, Any]) -> list[Word]:
    """The words of a peer's line, evenly, each with the number of the span that it lies in or nearest to."""
    texts = line["text"].split()
    step = (line["end"] - line["start"]) / max(len(texts), 1)
    words = []
    for at, text in enumerate(texts):
        start = line["start"] + at * step
        middle = start + step / 2
        nearest = min(line["spans"], key=lambda span: max(span[0] - middle, middle - span[1], 0), default=(0, 0, None))
        words.append(Word(f" {text}", to_samples(start), to_samples(start + step), speaker=nearest[2]))
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voices", nargs="*", help="beginnings of the names of voices")
    parser.add_argument("--each", type=int, default=2, help="conversations of each number of voices")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--speech", type=Path, default=SPEECH, metavar="FOLDER")
    parser.add_argument("--call", nargs=2, action="append", default=[], metavar=("WAV", "RTTM"))
    parser.add_argument("-m", "--model")
    parser.add_argument("--peer", metavar="PYTHON")
    args = parser.parse_args()
    for talk in talks(args):
        measure(talk)
        if args.model:
            measure_words(talk, args.model)
        if args.peer:
            measure_peer(talk, args.peer)


if __name__ == "__main__":
    main()
