"""What a checkpoint itself says about windows when they are padded to 30 s: the lessons that short windows are learned
from.

A lesson is a window, what the decoder is given, what it should say, and the decoder's states there, of which the
teacher's whole distribution follows exactly. Taught once, kept in the folder of the run, heard many times. A chunk of
lessons is a function of the seed and its number, so teaching that was interrupted goes on. A forced prefix needs no
lesson of its own: the teacher's own first words are one, as the decoder is given them.

Needs torch. Knows nothing of adapters or optimisation.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.atomic import replacing, writing
from whispertide.audio.buffer import to_float
from whispertide.audio.pcm import to_int16
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.language import detect_language
from whispertide.decoding.prompt import Prompt, build_prompt
from whispertide.decoding.rules import Rules, build_rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.errors import CorpusError
from whispertide.features import log_mel, padded
from whispertide.model.engine import DecodeRequest, Encoded, required
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import N_FRAMES, FloatArray
from whispertide_lab.evaluation.clips import limit
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.shards import Int16Array, ShardEntry, Shards, Utterance
from whispertide_lab.training.short_windows import ShortWindowOptions, Stretch, compose_stretch

CHUNK = 40  # lessons that are kept in a file
SURE = -1.2  # log-probability per token of a text that can be learned
NO_SPEECH, UNSURE = 0.6, -1.0  # so sure of silence, and so unsure of the text: Whisper's own rule
SPOKEN = 0.4  # of windows of speech the teacher must hear a text in so many
_ENOUGH = 30  # windows, to tell

Ints = npt.NDArray[np.int32]
Advance = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A window and its answer.

    samples  16 kHz [n]
    tokens   [t] what the decoder is given
    targets  [t] what it should say after each; -1: does not count
    heard    bool [t] after which tokens the teacher's distribution counts
    hidden   float16 [heard, width] the decoder's states there, of the window padded to 30 s
    """

    samples: Int16Array
    tokens: Ints
    targets: Ints
    heard: npt.NDArray[np.bool_]
    hidden: npt.NDArray[np.float16]


def search(model: WhisperModel, encoded: Encoded, prompt: Prompt, rules: Rules) -> SearchResult:
    """The likeliest next tokens after the prompt, by Whisper's rules."""
    return run_search(TokenSearch(prompt, rules, GREEDY), model.decoder(encoded))


class Teacher:
    """Answers windows. `language` of all speech; None: as its manifest says, or as the checkpoint guesses.

    It encodes within `precision`: most of an answer is the encoder, over 30 s.
    """

    def __init__(
        self,
        model: WhisperModel,
        options: ShortWindowOptions,
        language: str | None,
        precision: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._model, self._options, self._language, self._precision = model, options, language, precision
        self._rules = {stamped: build_rules(model, DecodeOptions(timestamps=stamped)) for stamped in (False, True)}
        self.counts: Counter[str] = Counter()

    def lessons(self, draw: Callable[[Dice], Utterance], dice: Dice) -> Iterator[Lesson]:
        """One window, or two that follow each other; none where the teacher is not sure."""
        counts = [self._options.counts[int(dice.randint(self._options.lengths))] for _ in range(2)]
        if dice.random_sample() >= self._options.follows:
            counts = counts[:1]
        stretch = compose_stretch(draw, sum(counts), dice, self._options)
        start, before = 0, list[int]()
        for count in counts:
            lesson = self.answer(stretch, start, start + count, before, dice)
            if lesson is None:
                return
            yield lesson
            end = self._model.tokenizer.eot
            before = [token for token in lesson.targets.tolist() if 0 <= token < end][-self._options.prompt_tokens :]
            start += count

    def answer(self, stretch: Stretch, start: int, end: int, before: Sequence[int], dice: Dice) -> Lesson | None:
        """To the samples from `start` to `end`, after this text; None: it is not sure, or its text does not end."""
        model, samples = self._model, to_int16(stretch.samples[start:end])
        mel = padded(log_mel(to_float(samples), model.dims.n_mels), N_FRAMES)
        with self._precision():
            encoded = model.encode(mel)
        stamped = dice.random_sample() < self._options.timestamps
        prompt = self._prompt(stretch.language, encoded, before, len(samples), dice, stamped=stamped)
        found = search(model, encoded, prompt, self._rules[stamped])
        best, end_token = found.best, model.tokenizer.eot
        spoken = stretch.is_spoken(start, end)
        self.counts["spoken" if spoken else "silent"] += 1
        doubtful = best.stop != "end_of_text" or best.avg_logprob < SURE
        if not spoken or (found.no_speech_prob > NO_SPEECH and best.avg_logprob < UNSURE):
            # Whatever a decoder begins with where nothing is said, the end comes after it.
            said, answer = [token for token in best.tokens if token < end_token][:1], [end_token]
            tokens = [*prompt.tokens, *said]
            targets = answer * (1 + len(said))
            heard = [prompt.sot_index]
        elif doubtful:
            return None
        else:
            self.counts["heard"] += bool(spoken)
            tokens = [*prompt.tokens, *best.tokens]
            targets = [*best.tokens, end_token]
            heard = list(range(prompt.sot_index, len(tokens)))
        return self._lesson(samples, encoded, tokens, targets, heard)

    def check(self) -> None:
        """Raise `CorpusError` where hardly any window of speech has a text."""
        spoken, heard = self.counts["spoken"], self.counts["heard"]
        if spoken >= _ENOUGH and heard < SPOKEN * spoken:
            raise CorpusError(
                f"expected recordings of people who speak; in {spoken - heard} of {spoken} windows {self._model.name} "
                "finds no text that it is certain of: is this music, noise, or a language that it does not support?"
            )

    def _prompt(
        self, known: str | None, encoded: Encoded, before: Sequence[int], samples: int, dice: Dice, *, stamped: bool
    ) -> Prompt:
        model, language = self._model, self._language or known
        task, code = "transcribe", None
        if model.tokenizer.is_multilingual:
            code = model.tokenizer.language(language) if language else detect_language(model, encoded).language
            if code != "en" and dice.random_sample() < self._options.translate:
                task = "translate"
        asked: Any = {"task": task, "timestamps": stamped, "max_tokens": limit(samples)}
        return build_prompt(
            model.tokenizer, model.dims.n_text_ctx, DecodeOptions(**asked), language=code, previous=before
        )

    def _lesson(
        self, samples: Int16Array, encoded: Encoded, tokens: list[int], targets: list[int], heard: list[int]
    ) -> Lesson:
        request = DecodeRequest(np.array([tokens], np.int64), logits_at=(0,), hidden=True)
        hidden = required(self._model.decoder(encoded).run(request).hidden, "hidden")[0]
        at = np.zeros(len(tokens), np.bool_)
        at[heard] = True
        unanswered = [-1] * (len(tokens) - len(targets))
        answers = np.array([*unanswered, *targets], np.int32)
        return Lesson(samples, np.array(tokens, np.int32), answers, at, hidden[at].astype(np.float16))


# --- kept -------------------------------------------------------------------------------------------------------------


def teach(
    teacher: Teacher, speech: Shards, count: int, seed: int, folder: Path, advance: Advance, stop: Callable[[], bool]
) -> list[Lesson] | None:
    """`count` lessons, as far as they are not kept in `folder`; None: stopped before, and what is done is kept.

    Raises `CorpusError` where this is no speech, `OutputError` where the folder cannot be written.
    """
    lessons: list[Lesson] = []
    drawn = [part for part in _by_language(speech).values() if len(part)]
    for number in range(-(-count // CHUNK)):
        path = folder / f"{number:05d}.npz"
        if not path.is_file():
            dice = np.random.RandomState([seed % 2**32, number])
            made: list[Lesson] = []
            while len(made) < CHUNK:
                made += teacher.lessons(_drawing(drawn, dice), dice)
                teacher.check()
                advance("the teacher's texts", min(count, len(lessons) + len(made)), count)
                if stop():
                    return None
            with writing(folder), replacing(path) as unfinished:
                folder.mkdir(parents=True, exist_ok=True)
                _write(unfinished, made)
        lessons += _read(path)
    return lessons[:count]


def _by_language(speech: Shards) -> dict[str, Shards]:
    found: defaultdict[str, list[ShardEntry]] = defaultdict(list)
    for place in speech.places:
        found[place.entry.get("language") or ""].append(place)
    return {language: Shards(tuple(places)) for language, places in found.items()}


def _drawing(parts: Sequence[Shards], dice: Dice) -> Callable[[Dice], Utterance]:
    """Draws utterances of one language, which the dice choose now by how much there is of each."""
    sizes = np.array([len(part) for part in parts])
    speech = parts[int(dice.choice(len(parts), p=sizes / sizes.sum()))]

    def draw(again: Dice) -> Utterance:
        chosen: Utterance = speech[int(again.randint(len(speech)))]
        return chosen

    return draw


def _write(path: Path, lessons: Sequence[Lesson]) -> None:
    arrays = {
        f"{name}{number}": getattr(lesson, name)
        for number, lesson in enumerate(lessons)
        for name in ("samples", "tokens", "targets", "heard", "hidden")
    }
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _read(path: Path) -> list[Lesson]:
    """Raises `CorpusError` where the file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            count = len(kept.files) // 5
            names = ("samples", "tokens", "targets", "heard", "hidden")
            return [Lesson(*(kept[f"{name}{number}"] for name in names)) for number in range(count)]
    except (OSError, ValueError, KeyError) as error:
        raise CorpusError(
            f"expected lessons in {path}; it is damaged ({error}): remove it to teach them again"
        ) from error


def bare_mel(samples: Int16Array, n_mels: int) -> FloatArray:
    """Features of a bare window, as `Bare` gives them to the encoder."""
    mel = log_mel(to_float(samples), n_mels)
    return np.pad(mel, [(0, 0), (0, mel.shape[1] % 2)])
