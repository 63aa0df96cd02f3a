"""What a training run does, as a file: written, read, changed by NAME=VALUE. Knows nothing of what is done with it."""

import json
import types
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from whispertide.atomic import write_text
from whispertide.checkpoint.json_file import read_json
from whispertide.errors import CheckpointError, OptionError
from whispertide_lab.from_json import built
from whispertide_lab.training.batches import BatchOptions, Phase
from whispertide_lab.training.loop import LoopOptions

OPTIONS = "options.json"
# Settings of the loop that the phases' lengths were computed from: to change one of them alone would contradict these.
ASKED_ELSEWHERE = {"steps": "--steps", "accumulate": "--accumulate"}


@dataclass(frozen=True, slots=True)
class Speech:
    """A folder of shards, how likely an utterance is drawn from it, and what of it could be used as the run began.

    `licences` are those that its manifest named, each with its utterances. `digest` is a hash over what could be used
    (`Shards.digest`); runs of earlier versions have none.
    """

    folder: str
    share: float = 1.0
    utterances: int = 0
    seconds: float = 0.0
    licences: tuple[tuple[str, int], ...] = ()
    digest: str = ""

    @property
    def described(self) -> str:
        """The folder's name, and the licences of what is in it."""
        under = "; ".join(f"{licence}, {count} utterances" for licence, count in self.licences)
        return Path(self.folder).name + (f" ({under})" if under else "")


@dataclass(frozen=True, slots=True)
class Moved:
    """Where some of a run's speech is now; `share` None: as likely drawn as before."""

    folder: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """All that a run is made of, apart from its state. `lora` is the rank of adapters, 0 to train every weight."""

    speech: tuple[Speech, ...]
    loop: LoopOptions
    phases: tuple[Phase, ...]
    began_with: str  # for the reader; the weights are in the state
    lora: int = 0
    vocabulary: Literal["used", "all"] = "all"
    held_out: tuple[str, ...] = ()


def read_options(folder: Path) -> RunOptions:
    """What a run does. Raises `CheckpointError` for a folder that is no run."""
    if not (folder / OPTIONS).is_file():
        raise CheckpointError(f"expected the folder of a run, with {OPTIONS}; {folder} has none")
    try:
        options: RunOptions = built(RunOptions, read_json(folder / OPTIONS))
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointError(
            f"expected {folder / OPTIONS} as this version writes it; got another ({error}): begin the run again"
        ) from error
    return options


def write_options(folder: Path, options: RunOptions) -> None:
    """Whole or not at all. Raises OSError."""
    write_text(folder / OPTIONS, json.dumps(asdict(options), indent=2) + "\n")


def relocated(options: RunOptions, speech: Sequence[Moved], held_out: Sequence[str]) -> RunOptions:
    """The same with its speech where it is now; nothing given: where it was. Sizes stay those it began with.

    Folders become absolute, so that the run can be resumed from anywhere. Raises `OptionError` unless there are as many
    folders as the run has.
    """
    if speech:
        _check_all_named("speech", [said.folder for said in options.speech], [now.folder for now in speech])
        pairs = zip(options.speech, speech, strict=True)
        options = replace(options, speech=tuple(_moved(said, now) for said, now in pairs))
    if held_out:
        _check_all_named("held-out", options.held_out, held_out)
        options = replace(options, held_out=tuple(map(absolute, held_out)))
    return options


def _moved(said: Speech, now: Moved) -> Speech:
    return replace(said, folder=absolute(now.folder), share=said.share if now.share is None else now.share)


def _check_all_named(name: str, before: Sequence[str], now: Sequence[str]) -> None:
    if len(now) != len(before):
        folders = ", ".join(before) or "none"
        raise OptionError(
            f"expected --{name} for each of the run's folders, {len(before)} of them, in their order: {folders}; "
            f"got {len(now)}: {', '.join(now)}"
        )


def absolute(folder: str | Path) -> str:
    """The folder's path, valid from any other folder."""
    return str(Path(folder).resolve())


def with_settings(options: RunOptions, settings: Sequence[str]) -> RunOptions:
    """Fields changed by NAME=VALUE, VALUE as in JSON: those of the loop, `batch.`, `windows.` and `augmentation.`.

    Raises `OptionError` for a name that there is not, one that has an option of its own, or a value of another kind.
    """
    for setting in settings:
        name, _, text = setting.partition("=")
        group, _, field = name.rpartition(".")
        if name in ASKED_ELSEWHERE:
            raise OptionError(f"expected {ASKED_ELSEWHERE[name]}, which the length of a run follows; got {setting!r}")
        if group == "":
            options = replace(options, loop=_changed(options.loop, field, text, setting))
        else:
            phases = tuple(
                replace(phase, options=_changed_in(phase.options, group, field, text, setting))
                for phase in options.phases
            )
            options = replace(options, phases=phases)
    for batch in (phase.options for phase in options.phases):
        if len(batch.lengths_s) != len(batch.shares):
            raise OptionError(
                f"expected as many batch.shares as batch.lengths_s; got {batch.shares!r} for {batch.lengths_s!r}"
            )
    return options


def _changed_in(batch: BatchOptions, group: str, field: str, text: str, setting: str) -> BatchOptions:
    if group == "batch":
        return _changed(batch, field, text, setting)  # type: ignore[no-any-return]
    if group == "windows":
        return replace(batch, windows=_changed(batch.windows, field, text, setting))
    if group == "augmentation":
        augmentation = _changed(batch.windows.augmentation, field, text, setting)
        return replace(batch, windows=replace(batch.windows, augmentation=augmentation))
    raise OptionError(f"expected batch., windows. or augmentation. in front of a setting; got {setting!r}")


def _changed(options: Any, field: str, text: str, setting: str) -> Any:
    hints = get_type_hints(type(options))
    known = [item.name for item in fields(options)]
    if field not in known:
        raise OptionError(f"expected one of the settings {', '.join(known)}; got {setting!r}")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    new = built(hints[field], value) if isinstance(value, list) else value
    kinds = _kinds(hints[field])
    if not isinstance(new, kinds) or isinstance(new, bool):
        raise OptionError(f"expected a value like {getattr(options, field)!r} for {field}; got {setting!r}")
    return replace(options, **{field: new})


def _kinds(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, types.UnionType):
        return tuple(kind for part in get_args(hint) for kind in _kinds(part))
    if hint is float:
        return (int, float)
    return (get_origin(hint) or hint,)
