"""The public interface: load a model, then transcribe a file, stream from any iterable of audio, or open a session.

    model = whispertide.load("base")
    print(model.transcribe("talk.mp3").text)
    for event in model.stream(blocks): ...
    session = model.session(); events = session.push(samples)

It wires model, recipe and session; the command line and the server use nothing below it for that.
"""

import warnings
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from whispertide.atomic import printable
from whispertide.audio.given import Audio, audio_blocks, audio_channels
from whispertide.audio.whole import Recording
from whispertide.channels import ChannelSessions, apart_options, in_order
from whispertide.checkpoint import ModelDims, Tokenizer
from whispertide.checkpoint.languages import allowed_languages
from whispertide.decoding.longform import pad_or_trim
from whispertide.decoding.rules import build_rules
from whispertide.events import Event
from whispertide.feed import afeed, feed
from whispertide.formats.document import Document, TextSegment
from whispertide.methods.short.hush import DEFAULT_S, HushWord, has_word, suffix_for
from whispertide.model.whisper import WhisperModel
from whispertide.offline import transcribe_blocks
from whispertide.options import (
    BUNDLED_MODEL,
    DEFAULT_MODEL,
    DEFAULT_RECIPE,
    DecodeOptions,
    EngineOptions,
    Precision,
    ProviderName,
)
from whispertide.recipes.allocation import allocate
from whispertide.recipes.assembly import Executors
from whispertide.recipes.calibration import Calibration, load_tuned, recall, shipped_calibration
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.recipes.short_windows import Costs, Framed, choose_framing, measure_costs
from whispertide.session import Session
from whispertide.speakers.embedding import find_embedding
from whispertide.speakers.track import SpeakerTrack
from whispertide.speakers.whole import WholeTrack, parted
from whispertide.streaming.framing import Hush, get_framing
from whispertide.types import Announce, FloatArray, OfflineSegment


class Transcriber:
    """A loaded model, with all methods to use it.

    Any number of threads may use it at once, for sessions and for whole recordings. A session is for one thread at a
    time. Each call computes with `threads` of its own, so calls at once share the machine.
    """

    def __init__(
        self,
        model: WhisperModel,
        *,
        hush: HushWord | None = None,
        measure: Callable[[WhisperModel], Costs] = measure_costs,
    ) -> None:
        """`hush` is used for `framing=hush`; None: the hush word next to the checkpoint.

        `measure` tells what rounds of the model take here, and is asked once, if at all (`framed`).
        """
        self.model = model
        self.hush = hush
        self._measure = measure
        self._executors = Executors(model, hush)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def source(self) -> str:
        """The name that loads this model again in any working directory: its own, or the path of the user's files."""
        place = self.model.checkpoint.place
        return self.name if place is None else str(place.absolute())

    @property
    def content_hash(self) -> str:
        """Equal hashes, equal networks: over the shape and the content of the weights."""
        return self.model.content_hash

    @property
    def is_bundled(self) -> bool:
        """True for the small model of the package, which was trained on synthetic speech."""
        return self.model.name == BUNDLED_MODEL

    @property
    def caution(self) -> str:
        """The warning of the model's maker for its users; "" if there is none."""
        return self.model.checkpoint.caution

    @property
    def dims(self) -> ModelDims:
        """The model's dimensions; `dims.is_multilingual` tells whether it knows more than English."""
        return self.model.dims

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's vocabulary; `tokenizer.languages` are those that it writes."""
        return self.model.tokenizer

    def can_stream(self, recipe: Recipe) -> bool:
        """True if the files that the recipe needs next to the checkpoint are there: for `framing=hush` a hush word, for
        `framing=blocks` a causal adapter, for `framing=masked` one for its mask.
        """
        framing = recipe.framing
        if not framing.can_adapt(self.model.checkpoint):
            return False
        return not isinstance(framing, Hush) or self.hush is not None or has_word(self.model, framing.hush_s)

    def framed(self, recipe: Recipe, *, live: bool = True) -> Framed:
        """The recipe as this model gets it on this machine, and the reason: see `recipes.short_windows`.

        What `whispertide tune` has found counts first. The machine is measured the first time that this matters; from
        then on the answer is the same. If audio is not `live`, the machine's speed does not matter.
        """
        costs = (lambda: self.costs) if live else None
        model, best = self.model, self.known_best
        return choose_framing(recipe, model.knows_short, costs, best, model.options, lambda: model.short_merged)

    @cached_property
    def calibration(self) -> Calibration | None:
        """The result of `whispertide tune` for this checkpoint, read once; None: there is none."""
        return recall(self.model.adapted_hash)

    @property
    def known_best(self) -> Calibration | None:
        """The calibration of this machine, or else that of the package; None: nobody has measured."""
        return self.calibration or self._shipped

    @cached_property
    def _shipped(self) -> Calibration | None:
        return shipped_calibration(self.model.checkpoint)

    def look_again(self) -> None:
        """Read the calibration anew, after tuning."""
        self.__dict__.pop("calibration", None)

    @property
    def is_known(self) -> bool:
        """True if it is known, from its maker or by measuring, how well the checkpoint handles short windows."""
        return self.model.knows_short or self.calibration is not None

    @cached_property
    def costs(self) -> Costs:
        """The costs of the parts of a round on this machine, measured once."""
        return self._measure(self.model)

    def warm_up(self) -> None:
        """Open all graphs now, so that the first words of a live stream do not wait for them."""
        self.model.decoder(self.model.encode(np.zeros((self.dims.n_mels, 2 * self.dims.n_audio_ctx), np.float32)))

    # --- whole recordings ------------------------------------------------------------------------------------------

    def transcribe(
        self,
        audio: Audio,
        *,
        options: DecodeOptions | None = None,
        progress: Callable[[int, int], None] | None = None,
        vad: bool = True,
        multichannel: bool = False,
    ) -> Document:
        """Transcribe a whole recording: a path, an open file, samples [n] at 16 kHz, or blocks of such samples.

        With `multichannel` each channel of a file, or of samples [n, channels], is transcribed by itself: its number,
        from 1, is the `speaker` of its segments and words (see `Document.of_speaker`).

        `progress(done, total)` counts samples, of one channel after the other. A voice gate finds the speech: nothing
        else gets words, and all of it is decoded; without `vad` the model is believed, as by openai/whisper. Audio that
        is cut off or damaged is transcribed as far as it goes: a `UserWarning` says what is wrong with it, and
        `complete` of the document is False. Raises `AudioError` where there is no audio that can be used, `OptionError`
        for what this model cannot write (`UnknownLanguageError` for a language), and `GraphError`.
        """
        if multichannel:
            options = apart_options(options)
        recordings = [Recording(each) for each in (audio_channels(audio) if multichannel else [audio_blocks(audio)])]
        heard = [tuple(self._segments(each, options, progress, None, vad=vad)) for each in recordings]
        recording, segments = recordings[0], in_order(heard) if multichannel else heard[0]
        if recording.broken is not None:
            warnings.warn(str(recording.broken), stacklevel=2)
        return Document(
            segments=tuple(map(TextSegment.of, segments)),
            language=self.language_of(options or DecodeOptions(), segments[0].language if segments else None),
            duration=recording.samples,
            model=printable(self.name),
            recipe="offline",
            source=printable(str(audio)) if isinstance(audio, str | Path) else "",
            complete=recording.broken is None,
        )

    def transcribe_segments(
        self,
        audio: Audio,
        *,
        options: DecodeOptions | None = None,
        progress: Callable[[int, int], None] | None = None,
        framing: str | None = None,
        vad: bool = True,
    ) -> Iterator[OfflineSegment]:
        """Transcribe segment by segment as each 30 s window is done; a caller that stops early keeps the segments so
        far. For truncated audio the `AudioError` is raised after the last segment.

        `framing` is how windows reach the encoder (`streaming.framing`), of which only the last is shorter than 30 s;
        None: padded as by openai/whisper and faster-whisper. `vad` as there.
        Raises `OptionError` for an unknown one, and what `suffix_for` raises for want of a hush word.
        """
        recording = Recording(audio_blocks(audio))
        return recording.then_fail(self._segments(recording, options, progress, framing, vad=vad))

    def _segments(
        self,
        blocks: Iterable[FloatArray],
        options: DecodeOptions | None,
        progress: Callable[[int, int], None] | None,
        framing: str | None,
        *,
        vad: bool,
    ) -> Iterator[OfflineSegment]:
        frame = pad_or_trim if framing is None else get_framing(framing)
        hush_s = DEFAULT_S if self.hush is None else self.hush.seconds
        options = self._possible(options or DecodeOptions())
        if options.speakers:
            track = WholeTrack(find_embedding(), options.speakers)
            blocks, options = track.hearing(blocks), replace(options, word_timestamps=True)
        segments = transcribe_blocks(
            self.model,
            blocks,
            options,
            progress=progress,
            frame=frame,
            suffix=suffix_for(self.model, hush_s, self.hush) if isinstance(frame, Hush) else None,
            vad=vad,
        )
        return parted(segments, track) if options.speakers else segments

    def language_of(self, options: DecodeOptions, detected: str | None) -> str | None:
        """The language of a recording, as a code: the option, the `detected` one, or the only one that this model
        knows; None: unknown.
        """
        only = None if self.dims.is_multilingual else "en"
        return allowed_languages(options.languages, options.language)[1] or detected or only

    # --- streams -----------------------------------------------------------------------------------------------------

    def session(
        self,
        recipe: str | Recipe = DEFAULT_RECIPE,
        *,
        options: DecodeOptions | None = None,
        vad: bool | None = None,
        live: bool = False,
    ) -> Session:
        """Open a session for one stream. `vad` overrides the recipe's voice gate.

        `live`: what is pushed has just been spoken, so how long rounds take counts, and a machine that is too slow for
        the recipe's steps takes longer ones. Otherwise the result does not depend on the machine's speed.

        A recipe that leaves its framing open gets the one that suits the model (`framed`); the session's recipe says
        which. What is needed besides the model is found or made now: the word-truncation detector next to the
        checkpoint (`truncate=detector`), the hush word (`framing=hush`), the network that tells voices apart
        (`options.speakers`). Raises `CheckpointNotFoundError` where one of these is missing, `GraphError` where graphs
        cannot be built, `UnknownRecipeError`, `UnknownLanguageError` for a language that this model cannot write, and
        `OptionError` where an English-only one is to translate.
        """
        recipe = get_recipe(recipe) if isinstance(recipe, str) else recipe
        if vad is not None:
            recipe = replace(recipe, schedule=replace(recipe.schedule, vad=vad))
        options = self._possible(options or DecodeOptions())
        recipe, allocation = allocate(self.model, self.framed(recipe, live=live).recipe)
        return Session(
            recipe,
            self._executors.get(recipe, allocation),
            recipe.schedule.gate(),
            options=options,
            live=live,
            possible=self._possible,
            speakers=SpeakerTrack(find_embedding(), options.speakers) if options.speakers else None,
        )

    def channel_sessions(
        self,
        channels: int,
        recipe: str | Recipe = DEFAULT_RECIPE,
        *,
        options: DecodeOptions | None = None,
        vad: bool | None = None,
        live: bool = False,
    ) -> ChannelSessions:
        """Open a session for each channel of one stream; see `session`. Raises also what `apart_options` does."""
        options = apart_options(options, channels)
        return ChannelSessions([self.session(recipe, options=options, vad=vad, live=live) for _ in range(channels)])

    def _opened(
        self, channels: int | None, recipe: str | Recipe, options: DecodeOptions | None, vad: bool | None, *, live: bool
    ) -> Session | ChannelSessions:
        if channels is None:
            return self.session(recipe, options=options, vad=vad, live=live)
        return self.channel_sessions(channels, recipe, options=options, vad=vad, live=live)

    def _possible(self, options: DecodeOptions) -> DecodeOptions:
        """Check the options, with languages as codes, or None. Raises `OptionError` for one that this model does not
        know, and for tokens that it has not.
        """
        allowed, language = allowed_languages(options.languages, options.language)
        self.tokenizer.sot_sequence(language, options.task)
        if options.suppress_tokens is not None:
            build_rules(self.model, DecodeOptions(suppress_tokens=options.suppress_tokens))
        return replace(options, language=language, languages=tuple(map(self.tokenizer.language, allowed)))

    def stream(
        self,
        blocks: Iterable[FloatArray],
        recipe: str | Recipe = DEFAULT_RECIPE,
        *,
        options: DecodeOptions | None = None,
        vad: bool | None = None,
        live: bool = False,
        channels: int | None = None,
    ) -> Iterator[Event]:
        """Yield the events of a stream of blocks [n] of 16 kHz samples, the last one being `End`. With `channels` they
        are [n, channels]: each channel has a session of its own, and its events have its number (`channel_sessions`).

        `live`: the blocks come from a microphone or the like, see `session`. Otherwise the text is a function of the
        blocks. A stream may go on for days: nothing is kept that no later event depends on. Whoever holds a `session`
        lets go of that by calling its `forget`.

        Where the audio breaks off (`blocks` raises `AudioError`, or a block is no audio), all words before it are
        confirmed and `End` comes; then the error is raised. It is raised at once where there was no audio before. Where
        a round fails, what was confirmed before comes, then the error.
        """
        with closing(self._opened(channels, recipe, options, vad, live=live)) as session:
            yield from feed(session, blocks, live=live)

    async def astream(
        self,
        blocks: AsyncIterable[FloatArray],
        recipe: str | Recipe = DEFAULT_RECIPE,
        *,
        options: DecodeOptions | None = None,
        vad: bool | None = None,
        live: bool = False,
        channels: int | None = None,
    ) -> AsyncIterator[Event]:
        """Stream in asyncio: the model computes in a worker thread and the event loop stays free."""
        with closing(self._opened(channels, recipe, options, vad, live=live)) as session:
            # Where the caller stops early, it ends before the session is closed.
            async with aclosing(afeed(session, blocks, live=live)) as events:
                async for event in events:
                    yield event


def load(
    model: str = DEFAULT_MODEL,
    *,
    precision: Precision = "int8",
    provider: ProviderName = "auto",
    threads: int = 0,
    revision: str | None = None,
    announce: Announce | None = None,
) -> Transcriber:
    """Load a model: "nano.en" (bundled), a short name like "base.en", a hub id, a folder, or an OpenAI `.pt`.

    Downloads it and builds its graphs if this is the first time; `announce` is called before. `threads` 0: as many as
    `whispertide tune` found best, or one per core, at most 4. Raises `CheckpointError`
    and its kin, `ProviderError`, `GraphError` and `OptionError`, each with what to do.
    """
    options = EngineOptions(precision=precision, provider=provider, threads=threads)
    return Transcriber(load_tuned(model, options, revision=revision, announce=announce))
