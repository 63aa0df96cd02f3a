"""A training run as a folder: begun, opened again on any machine, exported.

    options.json   what the run does (`run_options`); written last, so that a folder with it is whole
    start/         the checkpoint it began with, without weights: configurations and tokenizer
    state.pt       weights, averages, optimiser, position (`loop`)
    log.jsonl      figures (`loop`); log.png draws them (`plot`)

Needs torch. Knows nothing of command lines.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whispertide.atomic import replacing, writing
from whispertide.checkpoint import ModelDims, Tokenizer
from whispertide.checkpoint.json_file import read_json
from whispertide.errors import CorpusError
from whispertide.plural import counted
from whispertide.types import CHUNK_SECONDS
from whispertide_lab.checkpoint_folder import write_json
from whispertide_lab.new_folder import check_new
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.batches import Batch, Batches, Phase, Source
from whispertide_lab.training.compact import CompactVocabulary, tokens_in_use, whole_vocabulary
from whispertide_lab.training.loop import Progress, Trainer, read_state
from whispertide_lab.training.lora import add_adapters, merge_adapters
from whispertide_lab.training.network import Whisper
from whispertide_lab.training.run_options import (
    Moved,
    RunOptions,
    Speech,
    absolute,
    read_options,
    relocated,
    write_options,
)
from whispertide_lab.training.shards import ShardEntry, Shards, open_shards, read_licences
from whispertide_lab.training.start import Start, write_checkpoint, write_companions

START = "start"
TRAINING = "training.json"
VALIDATION = 8  # batches
FITTING = 0.25  # the least share of the utterances that must fit into windows of a length

Announce = Callable[[str], None]


@dataclass(slots=True)
class Run:
    """A run that can go on."""

    folder: Path
    options: RunOptions
    trainer: Trainer
    batches: Batches

    def train(self, progress: Progress, *, workers: int, stop: Callable[[], bool] = lambda: False) -> bool:
        """Go on to the end, or until `stop`; returns whether the end was reached. See `Trainer.run`."""
        pinned = self.trainer.device.type == "cuda"
        made: Iterator[Batch] = self.batches.after(self.trainer.batches_done, len(self.batches), workers, pinned=pinned)
        return self.trainer.run(made, progress, stop)


# --- begin, open, export ----------------------------------------------------------------------------------------------


def begin(folder: Path, options: RunOptions, start: Start, device: str, announce: Announce) -> Run:
    """A new run in a new or empty folder.

    Raises `OutputError` where the folder is not empty or cannot be written, `CorpusError` for speech that cannot be
    used, `OptionError`, and `UnknownLanguageError` for a language that the checkpoint cannot write.
    """
    check_new(folder, "for the run (`train resume` continues one)")
    for phase in options.phases:
        start.tokenizer.sot_sequence(phase.options.windows.language, "transcribe")
    sources, held_out = _sources(options, announce), _held_out(options, announce)
    options = replace(options, speech=_counted(options.speech, sources))
    options = replace(options, phases=tuple(_suited(phase, sources, announce) for phase in options.phases))
    vocabulary = _vocabulary(options, start, (*sources, *held_out))
    vocabulary.shrink(start.network)
    if options.lora:
        add_adapters(start.network, options.lora, options.loop.seed)
    batches = Batches(sources, start.tokenizer, options.phases, options.loop.seed)
    tested = _validation(options, held_out, start.tokenizer)
    trainer = Trainer(start.network, vocabulary, options.loop, folder, device, tested)
    if start.characters is not None:
        trainer.characters.load_state_dict(start.characters)
    with writing(folder):
        (folder / START).mkdir(parents=True)
        try:
            write_companions(start, folder / START)
            trainer.save()
            write_options(folder, options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # it is no run, and would be in the way of one
            raise
    return Run(folder, options, trainer, batches)


def open_run(
    folder: Path, device: str, announce: Announce, speech: Sequence[Moved] = (), held_out: Sequence[str] = ()
) -> Run:
    """A run to go on with; `speech` and `held_out` say where these are now, if not where they were.

    The run remembers that once everything could be opened. Raises `CheckpointError` for a folder that holds no run or a
    damaged one, `CorpusError` where its speech is gone or has words that the run's vocabulary lacks, `OptionError`
    where other numbers of folders are given than it has.
    """
    before = read_options(folder)
    options = relocated(before, speech, held_out)
    _check_there(options)
    start, vocabulary = _rebuilt(folder, options)
    sources, tests = _sources(options, announce), _held_out(options, announce)
    for source, said in zip(sources, options.speech, strict=True):
        if change := _change(said, source.speech):
            announce(f"note: {said.folder} {change}: the result will differ from that of an uninterrupted run")
    _check_vocabulary(vocabulary, start.tokenizer, (*sources, *tests))
    batches = Batches(sources, start.tokenizer, options.phases, options.loop.seed)
    tested = _validation(options, tests, start.tokenizer)
    trainer = Trainer(start.network, vocabulary, options.loop, folder, device, tested)
    trainer.load()
    if options != before:
        write_options(folder, options)
    return Run(folder, options, trainer, batches)


def trained(folder: Path) -> Start:
    """The averaged weights of a run as a plain Whisper over the whole vocabulary: to export, or to start another run.

    Its alignment heads are those that were guided, if any were. It knows short windows if this run had any, whatever
    it began with: windows of 30 s alone make a checkpoint forget them. Raises `CheckpointError`.
    """
    options = read_options(folder)
    start, vocabulary = _rebuilt(folder, options)
    content = read_state(folder)
    start.network.load_state_dict(content["network"])
    start.network.load_state_dict(content["averages"], strict=False)
    if options.lora:
        merge_adapters(start.network)
    vocabulary.expand(start.network)
    generation = dict(start.generation)
    if options.loop.guide > 0 and options.loop.guided:
        generation["alignment_heads"] = [list(pair) for pair in options.loop.guided]
    generation["short_windows"] = _has_short_windows(options)
    return replace(start, generation=generation, characters=content["characters"])


def _has_short_windows(options: RunOptions) -> bool:
    return any(seconds < CHUNK_SECONDS for phase in options.phases for seconds in phase.options.lengths_s)


def export(folder: Path, output: Path, dtype: type[np.float16 | np.float32] = np.float16) -> Path:
    """Write what a run has learned so far as a checkpoint in Hugging Face layout; returns `output`, a new folder.

    Raises `CheckpointError` for a folder that holds no run, `OutputError` where `output` is not empty or cannot be
    written: then nothing is there.
    """
    check_new(output, "for the checkpoint")
    start, about = trained(folder), _about(folder)
    with writing(output), replacing(output) as unfinished:
        unfinished.mkdir(parents=True)
        write_checkpoint(start, unfinished, dtype)
        write_json(unfinished / TRAINING, about)
    return output


def _about(folder: Path) -> dict[str, object]:
    """What the model card tells of the training (evaluation/card/)."""
    options, content = read_options(folder), read_state(folder)
    return {
        "from": options.began_with,
        "hours": round(sum(said.seconds for said in options.speech) / 3600, 2),
        "utterances": sum(said.utterances for said in options.speech),
        "hours_heard": round(content["heard_s"] / 3600, 2),
        "updates": content["step"],
        "sources": [said.described for said in options.speech],
    }


def _rebuilt(folder: Path, options: RunOptions) -> tuple[Start, CompactVocabulary]:
    """The network in the shape that the run trains it in, its weights not yet loaded, and its vocabulary."""
    config = read_json(folder / START / "config.json")
    dims = ModelDims.from_hf_config(config)
    vocabulary = CompactVocabulary(read_state(folder)["used"].numpy(), dims.n_vocab)
    network = Whisper(dims)
    vocabulary.shrink(network)
    if options.lora:
        add_adapters(network, options.lora, options.loop.seed)
    tokenizer = Tokenizer.from_folder(folder / START, dims.n_vocab)
    generation = read_json(folder / START / "generation_config.json")
    return Start(network, tokenizer, folder / START, config, generation), vocabulary


# --- speech -----------------------------------------------------------------------------------------------------------


def _sources(options: RunOptions, announce: Announce) -> list[Source]:
    return [Source(_usable(Path(speech.folder), options, announce), speech.share) for speech in options.speech]


def _held_out(options: RunOptions, announce: Announce) -> list[Source]:
    return [Source(_usable(Path(folder), options, announce), 1.0) for folder in options.held_out]


def _check_there(options: RunOptions) -> None:
    """Folders move between machines; say then how to name the new place."""
    named = [("speech", said.folder) for said in options.speech]
    for name, folder in (*named, *(("held-out", folder) for folder in options.held_out)):
        if not Path(folder).is_dir():
            raise CorpusError(
                f"expected {name.replace('-', ' ')} shards in {folder}; there is no such folder: give their new "
                f"place with `train resume --{name} FOLDER`"
            )


def _usable(folder: Path, options: RunOptions, announce: Announce) -> Shards:
    """The utterances of a folder that may be trained on and that fit into the windows."""
    every = open_shards([folder])
    allowed = every.having(lambda place: not is_reserved(place.entry["text"]))
    longest = max(seconds for phase in options.phases for seconds in phase.options.lengths_s)
    fitting = allowed.having(lambda place: _fits(place, longest))
    left_out = f"{len(every) - len(allowed)} reserved for tests, {len(allowed) - len(fitting)} longer than a window"
    announce(f"{folder}: {counted(len(fitting), 'utterance')}, {fitting.seconds / 3600:.2f} h; left out: {left_out}")
    if not len(fitting):
        raise CorpusError(f"expected speech to train on in {folder}; of its {len(every)} utterances none can be used")
    return fitting


def _fits(place: ShardEntry, longest_s: float) -> bool:
    """An utterance of which the words' times are known can be cut."""
    return place.entry.get("words") is not None or place.seconds <= longest_s


def _suited(phase: Phase, sources: Sequence[Source], announce: Announce) -> Phase:
    """Without lengths of windows into which hardly any utterance fits: such windows would be silent."""
    places = [place for source in sources for place in source.speech.places]
    pairs = zip(phase.options.lengths_s, phase.options.shares, strict=True)
    kept = [(s, share) for s, share in pairs if sum(_fits(place, s) for place in places) >= FITTING * len(places)]
    if len(kept) == len(phase.options.lengths_s):
        return phase
    if not kept:
        kept = [(float(CHUNK_SECONDS), 1.0)]
    lengths, shares = zip(*kept, strict=True)
    announce(f"windows of {', '.join(f'{s:g}' for s in lengths)} s: hardly any utterance fits into shorter ones")
    return replace(phase, options=replace(phase.options, lengths_s=lengths, shares=shares))


def _counted(speech: Sequence[Speech], sources: Sequence[Source]) -> tuple[Speech, ...]:
    """With absolute folders, so that the run can be resumed from anywhere, and with their sizes and licences."""
    return tuple(
        replace(
            said,
            folder=absolute(said.folder),
            utterances=len(source.speech),
            seconds=source.speech.seconds,
            licences=read_licences(Path(said.folder)),
            digest=source.speech.digest(),
        )
        for said, source in zip(speech, sources, strict=True)
    )


def _change(said: Speech, now: Shards) -> str:
    """How speech differs from what it was when the run began; nothing where it does not, or nobody knows."""
    if said.utterances and len(now) != said.utterances:
        return f"had {said.utterances} utterances when the run began and has {len(now)} now"
    if said.digest and now.digest() != said.digest:
        return f"has other utterances than the {said.utterances} with which the run began"
    return ""


def _validation(options: RunOptions, held_out: Sequence[Source], tokenizer: Tokenizer) -> list[Batch]:
    """The same few batches every time: clean, nothing hidden, as the run's last phase has them."""
    if not held_out:
        return []
    last = options.phases[-1].options
    windows = replace(last.windows, augmentation=Augmentation.none())
    clean = Phase(VALIDATION, replace(last, windows=windows, mask_time=0, mask_mels=0))
    batches = Batches(held_out, tokenizer, [clean], seed=0)
    return [batches[number] for number in range(VALIDATION)]


# --- vocabulary -------------------------------------------------------------------------------------------------------


def _vocabulary(options: RunOptions, start: Start, sources: Sequence[Source]) -> CompactVocabulary:
    full = start.network.dims.n_vocab
    if options.vocabulary == "all":
        return whole_vocabulary(full)
    return tokens_in_use((text for source in sources for text in source.speech.texts), start.tokenizer)


def _check_vocabulary(vocabulary: CompactVocabulary, tokenizer: Tokenizer, sources: Sequence[Source]) -> None:
    known = set(vocabulary.used.tolist())
    for source in sources:
        needed = tokens_in_use(source.speech.texts, tokenizer).used.tolist()
        if missing := sorted(set(needed) - known):
            place, token = _first_use(set(missing), tokenizer, source)
            raise CorpusError(
                f"expected speech within the vocabulary that the run began with, {len(known)} tokens; "
                f"{place.file.parent} needs {len(missing)} others, first {tokenizer.decode([token])!r} in "
                f"{place.entry['text']!r:.80} ({place.file.with_suffix('.json').name}): begin another run from this one"
            )


def _first_use(tokens: Set[int], tokenizer: Tokenizer, source: Source) -> tuple[ShardEntry, int]:
    """The first utterance that needs one of the tokens, and which."""
    return next(
        (place, token)
        for place in source.speech.places
        for token in tokens_in_use([place.entry["text"]], tokenizer).used.tolist()
        if token in tokens
    )
