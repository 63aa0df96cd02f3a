"""The models and corpora of a run: opened, or made, when something asks for them, and kept for what asks next."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from whispertide.model.providers import thread_count
from whispertide.options import EngineOptions
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.framing import AutoFraming
from whispertide.understand.checkpoint import is_late, load_late, place_of
from whispertide_lab.evaluation.aligned import AlignedCorpus, align_corpus, lacks_times
from whispertide_lab.evaluation.attachment_digest import digest_attachments, digest_folder
from whispertide_lab.evaluation.corpora.listed import ListedCorpus, Recording
from whispertide_lab.evaluation.corpora.parts import part_label, part_of
from whispertide_lab.evaluation.grid import Setup
from whispertide_lab.evaluation.watch import Watch, showing
from whispertide_lab.speech.utterance import Corpus

if TYPE_CHECKING:
    from whispertide.api import Transcriber

T = TypeVar("T")


class Workbench:
    """What a run measures with and on. Models and corpora stay open between cells."""

    def __init__(self, setup: Setup, watch: Watch) -> None:
        self.watch = watch
        self.setup = setup
        self.corpus_name = ""  # of the chosen corpus, as it was asked for
        self._corpora: dict[tuple[str, frozenset[str], float | None], Corpus] = {}
        self._loaded: tuple[str, Transcriber] | None = None
        self._once: dict[str, Any] = {}

    @property
    def quick(self) -> bool:
        """Whether only a small part of each corpus is measured."""
        return self.setup.quick

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the run."""
        return self.setup.models

    @property
    def engine(self) -> EngineOptions:
        """The engine's options with the threads that they mean, whatever `whispertide tune` found best here."""
        return replace(self.setup.engine, threads=thread_count(self.setup.engine))

    # --- corpora -----------------------------------------------------------------------------------------------------

    def use_corpus(self, name: str) -> None:
        """The corpus of the cells that `cell` measures."""
        self.corpus_name = name

    @contextmanager
    def on_corpus(self, name: str, usual_s: float | None = None) -> Iterator[None]:
        """Cells are measured on that corpus meanwhile, and where nobody asked how much of it, on `usual_s` of it."""
        usual = self.corpus_name, self.setup
        self.corpus_name = name
        self.setup = replace(self.setup, usual_s=usual_s or self.setup.usual_s)
        try:
            yield
        finally:
            self.corpus_name, self.setup = usual

    @property
    def corpus(self) -> Corpus:
        """The corpus chosen with `use_corpus`."""
        return self.open_corpus(self.corpus_name)

    def open_corpus(self, name: str, model: str | None = None) -> Corpus:
        """Open, or make, the part of a corpus that the run is about, in the languages that the model writes.

        Raises `CorpusError` and `OptionError`.
        """
        return self.open_part(name, model or self.models[0], self.setup.length_s)

    def open_part(self, name: str, model: str, length_s: float | None) -> Corpus:
        """The same of so many seconds; None: all of it."""
        languages = self._languages(model)
        if (name, languages, length_s) not in self._corpora:
            from whispertide_lab.evaluation.corpora import open_corpus

            pieces = self.setup.pieces
            corpus: Corpus = open_corpus(name, quick=self.quick, seed=self.setup.seed, length_s=length_s, pieces=pieces)
            part, left_out = part_of(corpus, languages, length_s, pieces, writer=Path(model).name)
            for line in left_out:  # once, also where nothing is left and it is asked for again
                self.once(line, partial(self.watch.say, line))
            labelled = corpus.hand_labelled if isinstance(corpus, ListedCorpus) else ()
            self._corpora[name, languages, length_s] = self._aligned(part, labelled) if self.setup.align else part
        return self._corpora[name, languages, length_s]

    def _aligned(self, corpus: Corpus, labelled: Sequence[Recording]) -> Corpus:
        """With a time for every word, if the aligner can give it; as it is where all times are known.

        On `labelled` recordings, whose times are exact, it is found out how well the aligner does.
        """
        waiting = [utterance for utterance in corpus.utterances() if lacks_times(utterance)]
        if not waiting:
            return corpus
        model = self.setup.aligner or self.models[0]
        total = sum(utterance.seconds for utterance in waiting)
        with showing(self.watch, f"aligning {corpus.name} with {model}", total):
            return align_corpus(
                corpus,
                self.transcriber(model),
                Path(model).name,
                self._languages(model),
                self.watch.advance,
                [recording.utterance() for recording in labelled],
            )

    def label_of(self, corpus: Corpus) -> str:
        """A short name: as it was asked for, of a folder only the last part, and how much of it."""
        asked = next(name for (name, *_), known in self._corpora.items() if known is corpus)
        kind, colon, path = asked.partition(":")
        part = f"{part_label(corpus.of)} aligned" if isinstance(corpus, AlignedCorpus) else part_label(corpus)
        return kind + colon + Path(path).name + part

    # --- models ------------------------------------------------------------------------------------------------------

    def transcriber(self, model: str) -> "Transcriber":
        """A model, loaded with the engine's options, and the first hush word; the one before is let go."""
        if self._loaded is None or self._loaded[0] != model:
            from whispertide import api

            self._loaded = None
            loaded = api.load(model, **asdict(self.engine), announce=self.watch.say)
            word = next(iter(self.setup.hush), None)
            self._loaded = (model, loaded if word is None else api.Transcriber(loaded.model, hush=word))
        return self._loaded[1]

    def once(self, name: str, make: Callable[[], T]) -> T:
        """`make()`, which is called only the first time it is asked for under that name."""
        if name not in self._once:
            self._once[name] = make()
        found: T = self._once[name]
        return found

    def framed(self, model: str, recipe: Recipe) -> Recipe:
        """The recipe as the model gets it, which is said the first time."""
        if not isinstance(recipe.framing, AutoFraming):
            return recipe

        def find() -> Recipe:
            framed = self.transcriber(model).framed(recipe)
            self.watch.say(f"{recipe.name} on {Path(model).name}: {framed.why}")
            return framed.recipe

        return self.once(f"framing of {recipe} for {model}", find)

    def model_hash(self, model: str) -> str:
        """A hash over the model's weights."""

        def find() -> str:
            whole = load_late(Path(model)) if is_late(Path(model)) else self.transcriber(model).model
            return whole.content_hash[:12]

        return self.once(f"hash of {model}", find)

    def tuned(self, model: str) -> str:
        """A digest of what `whispertide tune` has found for the model, by which recipes are framed; "" of nothing."""

        def find() -> str:
            found = None if is_late(Path(model)) else self.transcriber(model).calibration
            return "" if found is None else hashlib.sha256(repr(found).encode()).hexdigest()[:12]

        return self.once(f"tuning of {model}", find)

    def attachments_hash(self, model: str) -> str:
        """A hash over what lies next to the weights and counts, too."""

        def find() -> str:
            if is_late(Path(model)):
                return digest_folder(place_of(Path(model)))
            return digest_attachments(self.transcriber(model).model.checkpoint, *self.setup.hush)

        return self.once(f"attachments {model}", find)

    def _languages(self, model: str) -> frozenset[str]:
        """The languages that a model writes; networks for commands, which do not say it, are of English."""

        def find() -> frozenset[str]:
            if is_late(Path(model)):
                return frozenset(("en",))
            return frozenset(self.transcriber(model).tokenizer.languages)

        return self.once(f"languages of {model}", find)
