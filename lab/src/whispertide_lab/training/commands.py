"""Spoken commands with what their speakers want: sentences with intents, said by synthesizers into folders of shards.

A list of commands is JSON lines with "sentence" and "intent", as SLURP's text is kept (Bastianelli et al., 2020). Each
shard is made by a process of its own (`python -m whispertide_lab.training.commands LIST FOLDER NUMBER SEED VOICES`),
because the synthesizers keep state from one sentence to the next; it is a function of these and of the voices that are
installed. Voices are those that may be trained on, or those held out for tests. Knows nothing of what is trained.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from whispertide.atomic import write_text, writing
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.speech.apart import Apart, make_all
from whispertide_lab.speech.installed import Installed, installed
from whispertide_lab.speech.manners import VOICES, draw_manner
from whispertide_lab.speech.speakers import Say, open_speaker
from whispertide_lab.speech.talks import open_speaker as open_talker
from whispertide_lab.training.shards import Utterance, write_shard

RECIPE = "recipe.json"
SHARD = 120  # commands
_TURN = 12  # that one voice says in one manner

Voices = Literal["trained", "held-out"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody says, lower case and without punctuation, and what is wanted: scenario and action in one word."""

    text: str
    intent: str


def read_commands(path: Path) -> list[Command]:
    """The commands of a list, each text once. Raises `CorpusError` where it cannot be read, or a line is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CorpusError(f"expected a list of commands, JSON lines, in {path}; it cannot be read: {error}") from error
    commands: dict[str, Command] = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            command = Command(" ".join(entry["sentence"].lower().split()), entry["intent"].strip())
            if not command.intent:
                raise ValueError("no intent")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorpusError(
                f'expected JSON with "sentence" and "intent" in line {number} of {path}; got {line[:80]!r}'
            ) from error
        if command.text:
            commands.setdefault(command.text, command)
    if not commands:
        raise CorpusError(f"expected commands in {path}; there are none")
    return list(commands.values())


def make_commands(
    path: Path, folder: Path, *, seed: int, voices: Voices, jobs: int, progress: Progress = lambda done, count: None
) -> int:
    """Say every command of the list `path` once into shards in `folder`; returns how many shards there are.

    Shards that are there stay. flite's voices take part where it is installed. Raises `CorpusError` where espeak-ng is
    missing, `OptionError` where the folder was made of another list, seed or kind of voices or by other versions of the
    synthesizers, `OutputError` where it cannot be written.
    """
    if voices not in get_args(Voices):
        raise OptionError(f"expected voices {' or '.join(get_args(Voices))}; got {voices!r}")
    commands = read_commands(path)
    count = -(-len(commands) // SHARD)
    versions = installed().versions
    digest = hashlib.sha256(repr(commands).encode()).hexdigest()[:12]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _note_recipe(folder, {"commands": digest, "seed": seed, "voices": voices, "synthesizers": versions})
    missing = [number for number in range(count) if not (folder / f"{number:05d}.json").exists()]
    makers = (
        Apart(
            __name__,
            f"shard {number} of spoken commands",
            (str(path), str(folder), str(number), str(seed), voices),
        )
        for number in missing
    )
    make_all(makers, jobs, lambda done, _: progress(count - len(missing) + done, count))
    return count


def _note_recipe(folder: Path, recipe: Mapping[str, object]) -> None:
    """Write what the folder is made of, or see that it is the same. One of an earlier version does not say, or not
    which synthesizers spoke.
    """
    path = folder / RECIPE
    if not path.exists():
        if not any(folder.glob("[0-9]*.json")):
            write_text(path, json.dumps(recipe) + "\n")
        return
    there = path.read_text(encoding="utf-8").strip()
    without = {name: value for name, value in recipe.items() if name != "synthesizers"}
    if there not in (json.dumps(recipe), json.dumps(without)):
        raise OptionError(
            f"{folder} was made of other commands, with other options or by other synthesizers ({there}; now "
            f"{json.dumps(recipe)}): give the same list, seed and voices to continue it where the same synthesizers "
            "are installed, or another folder"
        )


def speak_shard(path: Path, folder: Path, number: int, seed: int, voices: Voices) -> None:
    """Write shard `number`; once per process. A command that a synthesizer makes no sense of is left out."""
    commands = read_commands(path)
    dice = np.random.RandomState([seed % 2**32, number])
    mine = [commands[at] for at in np.random.RandomState(seed % 2**32).permutation(len(commands))]
    mine = mine[number * SHARD : (number + 1) * SHARD]
    write_shard(folder, number, list(_said(mine, voices, installed(), dice)))


def _said(
    commands: Sequence[Command], voices: Voices, there: Installed, dice: np.random.RandomState
) -> Iterator[Utterance]:
    rest = iter(commands)
    while turn := list(islice(rest, _TURN)):
        with _opened(voices, there, dice) as (name, say):
            for command in turn:
                if (spoken := say(command.text)) is not None:
                    yield Utterance(
                        spoken.samples, command.text, name, spoken.words, spoken.exact, intent=command.intent
                    )


@contextmanager
def _opened(voices: Voices, there: Installed, dice: np.random.RandomState) -> Iterator[tuple[str, Say]]:
    if voices == "held-out":
        voice = there.held_out[int(dice.randint(len(there.held_out)))]
        yield str(voice), open_talker(voice, float(dice.random_sample())).speak
        return
    manner = draw_manner(_trained(there), dice)
    with open_speaker(manner) as say:
        yield manner.voice, say


def _trained(there: Installed) -> tuple[str, ...]:
    """More voices than talks have, of the synthesizers that are there; festival is seldom installed and left out."""
    kinds = {voice.synthesizer for voice in there.trained}
    return tuple(voice for voice in VOICES if voice.partition(":")[0] in kinds)


if __name__ == "__main__":
    chosen: Voices = "held-out" if sys.argv[5] == "held-out" else "trained"
    speak_shard(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), chosen)
