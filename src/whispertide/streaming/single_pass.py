"""A round in one decode: no timestamps, no fallback to higher temperatures, guards watch the attention as it comes.

What AlignAtt, NPUsper and their kin need. The forced prefix carries what is confirmed, so only what is new is decoded,
and the words are timed by the attention of the decode itself. A greedy decode may run in static graphs of several
steps each; text that they cannot hold is decoded step by step. Knows the model and the framing, nothing of policies,
other rounds or sessions.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from whispertide.checkpoint.languages import UNSPACED_LANGUAGES
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.alignment import alignment_heads
from whispertide.decoding.end import End, SecondBest
from whispertide.decoding.guards import RepetitionGuard, SameToken
from whispertide.decoding.language import choose_language
from whispertide.decoding.longform import Cost, Features, Frame
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.reference import Reference
from whispertide.decoding.rules import NON_SPEECH, Rules, build_rules, suppressed_tokens
from whispertide.decoding.search import NO_STEPS, Guard, Hypothesized, SearchResult, run_search
from whispertide.decoding.token_kinds import TokenKinds
from whispertide.decoding.token_search import TokenSearch, joined, truncation
from whispertide.decoding.token_words import Sampled, TokenWord, read_words, whole_characters
from whispertide.decoding.unrolled import run_unrolled
from whispertide.decoding.watch import Halt, Head, Scene, WatchingGuard
from whispertide.decoding.window import build_search
from whispertide.decoding.word_end import WordEndDetector
from whispertide.graphs.chunks import layout_for, unrolled_decoder
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import LAST_LAYER
from whispertide.model.static import StaticEngine
from whispertide.model.unrolled import start_chunks
from whispertide.options import DecodeOptions
from whispertide.streaming.context import fit_context
from whispertide.streaming.framing import BARE, PAD30
from whispertide.streaming.round import Heard, Listened, Listening, RoundPlan, RoundResult, stats_of
from whispertide.streaming.stages import Opening
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, N_SAMPLES, SAMPLE_RATE, FloatArray, Span

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel

MARGIN_TOKENS = 20  # of the text context that prompt and prefix leave to what is decoded, at least
UNHEARD = SAMPLE_RATE  # so much audio after the last word may be the pause that ended the utterance
RETRY_TOKENS_PER_S = 1.5  # speech is denser; until then a retried decode may not end (NPUsper)


class SinglePassExecutor:
    """Hears each window in one decode. `detector` tells whether the last word was spoken to its end."""

    def __init__(
        self,
        model: "WhisperModel",
        frame: Frame,
        detector: WordEndDetector | None = None,
        unrolled: StaticEngine | None = None,
        suffix: FloatArray | None = None,
        encoder: "WhisperModel | None" = None,
    ) -> None:
        """`unrolled` None: these graphs are built, or found in the cache, when a plan first asks for them.

        `suffix` are the samples of a hush word, if one goes after every window. `encoder` runs the first stage, if
        that is not to be `model`.
        """
        self.model = model
        self.encoder = encoder or model
        self.frame = frame
        self.detector = detector
        self.suffix = suffix
        self._unrolled = unrolled
        self._kinds = lru_cache(maxsize=8)(lambda language: TokenKinds(model.tokenizer, language))
        self._rules = lru_cache(maxsize=8)(self._make_rules)

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions) -> RoundResult:
        """Hear `audio` ([len(plan.window)] samples) as `plan.listen` says.

        Raises `GraphError` where the model fails.
        """
        return self.decode(plan, self.encode(plan, audio), options)

    def encode(self, plan: RoundPlan, audio: FloatArray) -> Opening | None:
        """The first stage of `run`; None: there is too little audio."""
        listen = plan.listen or Listening()
        if len(audio) < HOP_LENGTH or (len(audio) < listen.least and not plan.is_last):
            return None
        silence = listen.silence if plan.is_last else 0
        if 0 < silence <= N_SAMPLES - len(audio):  # so that the text may end; where a window has room for that
            audio = np.pad(audio, (0, silence))
        features = Features.of([audio], self.encoder.dims.n_mels, self.suffix)
        taps = (LAST_LAYER,) if self.detector is not None and listen.detect_end else ()
        return Opening.of(features, features.frames, lambda mel: self.frame(self.encoder, mel, taps=taps))

    def decode(
        self, plan: RoundPlan, opening: Opening | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult:
        """The second stage of `run`."""
        if opening is None:
            return RoundResult(plan, (), stop="aborted")
        return _Pass(self, plan, plan.listen or Listening(), options, guards).run(opening)

    def open_unrolled(self) -> StaticEngine:
        """The static graphs of the model's decoder. Raises `GraphError` where they cannot be built."""
        if self._unrolled is None:
            checkpoint = self.model.checkpoint
            manifest = GraphFiles(checkpoint, "fp32")[unrolled_decoder(layout_for(checkpoint))]
            self._unrolled = StaticEngine(manifest.parent, checkpoint, self.model.options)
        return self._unrolled

    def kinds(self, language: str | None) -> TokenKinds:
        """Tells words from punctuation in that language."""
        return self._kinds(language)

    def rules(self, options: DecodeOptions, must_speak: bool) -> Rules:
        """Text only: no timestamps, languages or other special tokens."""
        return self._rules(options.suppress_tokens, must_speak)

    def _make_rules(self, suppress: tuple[int, ...] | None, must_speak: bool) -> Rules:
        tokenizer = self.model.tokenizer
        never = suppressed_tokens(tokenizer, suppress, self.model.generation.suppress_tokens)
        special = range(tokenizer.eot + 1, self.model.dims.n_vocab)
        options = DecodeOptions(
            timestamps=False, suppress_blank=must_speak, suppress_tokens=tuple(sorted({*never, *special}))
        )
        return build_rules(self.model, options)


class _Pass:
    """One run: what it is given, and what it has cost so far.

    `silence` is how many frames of it end the window, `hushed` whether a hush word follows them.
    """

    def __init__(
        self,
        executor: SinglePassExecutor,
        plan: RoundPlan,
        listen: Listening,
        options: DecodeOptions,
        guards: Sequence[Guard],
    ) -> None:
        self.executor = executor
        self.model = executor.model
        self.plan = plan
        self.listen = listen
        self.options = options
        self.guards = guards
        self.costs: list[Cost] = []
        self.silence = 0
        self.hushed = False

    def run(self, opening: Opening) -> RoundResult:
        features, encoded = opening.features, opening.encoded
        self.costs.append(opening.cost)
        self.hushed = opening.hushed
        frames = _encoder_frames(len(self.plan.window) // HOP_LENGTH)
        self.silence = _encoder_frames(features.frames) - frames
        detector = self.executor.detector if self.listen.detect_end else None
        language = choose_language(self.model, lambda: encoded, self.options.language)
        decode = _Decode(self, encoded, min(frames, encoded.valid_frames), language.language, self.plan.prefix)
        listen, listened = self.listen, decode.run(self.listen, detector)
        if (again := self._listen_again(listened.halt)) is not None:
            decode = self._once_more(features.window(0, features.frames), frames, language.language)
            listen, detector = again, None
            listened = replace(decode.run(listen, None), retried=True)
        if self._stopped_short(listened):
            listened = replace(decode.run(replace(listen, watch=()), detector), retried=listened.retried)
        found = decode.found
        return RoundResult(
            self.plan,
            segments=_heard(listened.words, found),
            tokens=tuple(token for word in listened.words for token in word.tokens),
            stop=found.best.stop,
            listened=listened,
            attention=joined(found.best.attention) if self.listen.keep_attention else None,
            language=language.language if self.model.dims.is_multilingual else None,
            language_probability=language.probability,
            costs=tuple(self.costs),
            stats=stats_of(self.costs, len(found.best.tokens)),
        )

    def _listen_again(self, halt: Halt | None) -> Listening | None:
        """How the window is heard once more; None: it is not."""
        if halt is None:
            return None
        if halt == self.listen.retry:
            return self._unwatched()
        if halt.reason == "backward-shift" and self.listen.again is not None:
            return replace(self.listen, watch=self.listen.again, again=None, detect_end=False)
        return None

    def _stopped_short(self, listened: Listened) -> bool:
        """Whether a guard left audio unheard that no later round will hear.

        Attention is one sign among others. A first token that attends to the silence after the window, say, ends
        the decode before it began, and a whole sentence would be lost.
        """
        if self.listen.unheard_from is None or listened.halt is None:
            return False
        heard_to = listened.words[-1].spoken_by if listened.words else self.listen.unheard_from
        return self.plan.window.end - heard_to > UNHEARD

    def _once_more(self, mel: FloatArray, frames: int, language: str) -> "_Decode":
        """In the other framing, because in the same one it would say the same; NPUsper's fallback is always padded."""
        is_fallback = self.listen.retry is not None
        frame = BARE if self.executor.frame == PAD30 and not is_fallback else PAD30
        self.hushed = False
        began = time.perf_counter()
        encoded = frame(self.model, mel)
        self.costs.append(Cost("encode", time.perf_counter() - began, frames=encoded.frames))
        return _Decode(self, encoded, frames, language, () if is_fallback else self.plan.prefix)

    def _unwatched(self) -> Listening:
        """How the 30 s fallback of NPUsper listens: no guards of attention, the real end of text."""
        return replace(self.listen, watch=(), real_end=True, must_speak=True, retry=None, detect_end=False)


class _Decode:
    """One search over one encoded window, and the reading of its outcome. `found` is set by `run`."""

    def __init__(
        self, job: _Pass, encoded: "Encoded", frames: int, language: str | None, prefix: tuple[int, ...]
    ) -> None:
        self.job = job
        self.model = job.model
        self.tokenizer = job.model.tokenizer
        self.encoded = encoded
        self.frames = frames
        self.language = language
        self.prefix = prefix
        self.kinds = job.executor.kinds(language)
        self.found: SearchResult

    def run(self, listen: Listening, detector: WordEndDetector | None) -> Listened:
        began = time.perf_counter()
        prompt = self._prompt(listen)
        watchers = self._search(listen, prompt)
        self.job.costs.append(Cost("decode", time.perf_counter() - began, steps=self.found.steps))
        best = self.found.best
        halt = next((watcher.halt for watcher in watchers if watcher.halt is not None), None)
        last_frame = next((watcher.last_frame for watcher in watchers if watcher.last_frame is not None), None)
        if self.found.no_speech_prob > listen.no_speech:
            return Listened(frames=self.frames)
        began = time.perf_counter()
        words = self._words(best, prompt, listen)
        self.job.costs.append(Cost("align", time.perf_counter() - began))
        firm_tokens = halt.index if halt is not None and halt.reason == "frontier" else len(best.tokens)
        firm = _whole_words(words, firm_tokens)
        ended = self._word_ended(halt, firm == len(words), detector)
        return Listened(words, firm, halt, last_frame, self.frames, ended)

    # --- the decode ---------------------------------------------------------------------------------------------------

    def _prompt(self, listen: Listening) -> Prompt:
        """Context, start sequence and forced prefix, fitted into the text context."""
        tokenizer, plan, room = self.tokenizer, self.job.plan, self.model.dims.n_text_ctx - MARGIN_TOKENS
        start = tokenizer.sot_sequence(self.language, self.job.options.task, timestamps=False)
        prefix = self.prefix[-(room - len(start) - 1) :] if self.prefix else ()
        self.prefix = prefix
        left = min(listen.context_tokens, room - len(start) - len(prefix) - 1)
        said = plan.prompt if self.job.options.condition_on_previous_text is not False else ""
        context = fit_context(
            tokenizer.encode,
            self.job.options.prompt,
            said,
            left,
            static=listen.static_prompt,
            spaced=self.language not in UNSPACED_LANGUAGES,
        )
        head = (tokenizer.sot_prev, *context) if context else ()
        tokens = (*head, *start, *prefix)
        limit = min(listen.max_tokens, self.job.options.max_tokens or listen.max_tokens)
        limit = min(limit, self.model.dims.n_text_ctx + 1 - len(tokens))
        return Prompt(tokens, sot_index=len(head), limit=limit)

    def _search(self, listen: Listening, prompt: Prompt) -> list[WatchingGuard]:
        """Decode; the guards that watched are returned. With `rescue` the better of two decodes counts."""
        watchers = self._attempt(listen, prompt, self.job.options)
        found = self.found
        if listen.rescue is None or found.best.avg_logprob >= listen.rescue or self.job.options.beam > 1:
            return watchers
        again = self._attempt(listen, prompt, replace(self.job.options, beam=listen.rescue_beam))
        steps = found.steps + self.found.steps
        has_lost_its_place = any(watcher.halt is not None and watcher.halt.reason == "rewind" for watcher in again)
        if self.found.best.avg_logprob > found.best.avg_logprob and not has_lost_its_place:
            found, watchers = self.found, again
        self.found = replace(found, steps=steps)
        return watchers

    def _attempt(self, listen: Listening, prompt: Prompt, options: DecodeOptions) -> list[WatchingGuard]:
        """One search, in chunks where that is wanted and they hold the text; the guards that watched are returned."""
        sure: tuple[int, ...] = ()
        in_chunks = NO_STEPS
        if listen.unrolled and options.beam == 1 and self._fits_chunks(prompt):
            watchers, guards = self._guards(listen, prompt)
            self.found = self._in_chunks(listen, prompt, options, guards)
            sure, in_chunks = self.found.best.tokens, self.found.steps
            if self.found.best.stop != "length" or len(sure) >= prompt.limit:
                return watchers
        watchers, guards = self._guards(listen, prompt)
        found = self._step_by_step(listen, prompt, options, guards, sure)
        self.found = replace(found, steps=in_chunks + found.steps)
        return watchers if options.beam == 1 else self._watched_anew(listen, prompt, watchers)

    def _watched_anew(self, listen: Listening, prompt: Prompt, watchers: list[WatchingGuard]) -> list[WatchingGuard]:
        """What the guards say of the text that a beam search found; during it they saw whichever text led."""
        every = (self.found.best, *self.found.others)
        halted = any(watcher.halt is not None for watcher in watchers)
        dropped = (text for text in every if text.stop == "guard" and len(text.attention) > len(text.tokens))
        if halted and (cut := next(dropped, None)) is not None:  # the others have not been looked at so far
            self.found = replace(self.found, best=cut)
            return watchers
        best = self.found.best
        again, _ = self._guards(listen, prompt)
        for count in range(1, len(best.tokens) + 1):
            keep = truncation(again, best.tokens[:count], best.attention[:count])
            if keep is not None:
                self.found = replace(self.found, best=best.cut(keep))
                break
        return again

    def _guards(self, listen: Listening, prompt: Prompt) -> tuple[list[WatchingGuard], list[Guard]]:
        """Fresh guards: those that watch the attention, and all together."""
        opening, silence = len(prompt.tokens), self.job.silence
        scene = Scene(self.kinds, self._heads(listen), opening, self.prefix, self.frames, silence)
        watchers = [watch.guard(scene, self.model) for watch in listen.watch]
        guards: list[Guard] = [*watchers, *self.job.guards]
        if listen.loop_guard:
            guards.append(RepetitionGuard(self.tokenizer.eot))
        if listen.same_token:
            guards.append(SameToken(listen.same_token))
        return watchers, guards

    def _fits_chunks(self, prompt: Prompt) -> bool:
        """Static graphs have no place for text before the window, nor for a prefix longer than they are."""
        chunks = self.job.executor.open_unrolled().layout.plan(len(prompt.tokens))
        return prompt.sot_index == 0 and len(prompt.tokens) <= chunks[-1].end

    def _in_chunks(
        self, listen: Listening, prompt: Prompt, options: DecodeOptions, guards: Sequence[Guard]
    ) -> SearchResult:
        engine = self.job.executor.open_unrolled()
        decoder = start_chunks(engine, self.encoded, self._heads(listen))
        rules, end = self._rules(listen, options), self._end(listen)
        return run_unrolled(prompt, rules, engine.layout, decoder, end=end, guards=guards)

    def _step_by_step(
        self,
        listen: Listening,
        prompt: Prompt,
        options: DecodeOptions,
        guards: Sequence[Guard],
        sure: tuple[int, ...],
    ) -> SearchResult:
        """`sure` is what chunks have found, or else what an earlier round has: checked as one block."""
        rules, end, reference = self._rules(listen, options), self._end(listen), self.job.plan.reference
        if sure:
            reference = Reference.exactly(sure)
        if end is not None:  # whatever the options say: the second-best token is greedy search's
            search = TokenSearch(prompt, rules, GREEDY, end=end, guards=guards)
        else:
            draft = reference.draft(self.tokenizer, rules) if reference is not None and options.beam == 1 else None
            search = build_search(prompt, rules, options, draft=draft, guards=guards)
        return run_search(search, self.model.decoder(self.encoded, heads=self._heads(listen)))

    def _is_retry(self, listen: Listening) -> bool:
        return self.job.listen.retry is not None and listen.retry is None

    def _rules(self, listen: Listening, options: DecodeOptions) -> Rules:
        if self._is_retry(listen):
            options = replace(options, suppress_tokens=(NON_SPEECH,))
        return self.job.executor.rules(options, listen.must_speak)

    def _end(self, listen: Listening) -> End | None:
        """When end of text does not end the text; None: it always does."""
        least = 0
        if self._is_retry(listen):
            least = int(RETRY_TOKENS_PER_S * self.frames * FRAME_SAMPLES / SAMPLE_RATE)
        elif listen.real_end:
            return None
        return SecondBest(self.kinds.speaks, self.tokenizer.eot, least, listen.real_end)

    def _heads(self, listen: Listening) -> tuple[Head, ...]:
        wanted = {*alignment_heads(self.model)}
        for watch in listen.watch:
            wanted.update(watch.heads(self.model))
        return tuple(sorted(wanted))

    # --- what it says -------------------------------------------------------------------------------------------------

    def _words(self, best: Hypothesized, prompt: Prompt, listen: Listening) -> tuple[TokenWord, ...]:
        """All words of the decode; a character that is not whole yet is held back.

        What is heard in the hush word was not said and is left out.
        """
        attention = joined(best.attention)
        if attention is None:
            return ()
        count = whole_characters(self.tokenizer, best.tokens)
        heads = self._heads(listen)
        rows = [heads.index(head) for head in alignment_heads(self.model)]
        window = self.job.plan.window
        frames = self.encoded.valid_frames if self.job.hushed else self.frames
        sampled = Sampled(
            best.tokens[:count],
            best.logprobs[:count],
            attention[rows][..., :frames],
            len(prompt.tokens),
            self.prefix,
        )
        words = read_words(
            sampled,
            self.tokenizer,
            window,
            language=self.language,
            times=listen.times,
            heads_first=listen.heads_first,
        )
        return tuple(word for word in words if word.start < window.end) if self.job.hushed else words

    def _word_ended(self, halt: Halt | None, at_the_end: bool, detector: WordEndDetector | None) -> bool | None:
        """Whether the last firm word is whole, as far as the token that was dropped or the detector can tell."""
        dropped = halt is not None and halt.reason in ("frontier", "backward-shift")
        if halt is not None and dropped and at_the_end and self.kinds.continues(halt.token):
            return False
        if detector is None or LAST_LAYER not in self.encoded.taps or not at_the_end:
            return None
        return detector.fires(self.encoded.taps[LAST_LAYER][: self.frames])


def _encoder_frames(mel_frames: int) -> int:
    return -(-mel_frames * HOP_LENGTH // FRAME_SAMPLES)


def _whole_words(words: Sequence[TokenWord], tokens: int) -> int:
    """How many of `words` lie within the first so many tokens."""
    count = 0
    for place, word in enumerate(words):
        count += len(word.tokens)
        if count > tokens:
            return place
    return len(words)


def _heard(words: Sequence[TokenWord], found: SearchResult) -> tuple[Heard, ...]:
    """The words as one segment, for whoever reads segments."""
    if not words:
        return ()
    span = Span(words[0].start, max(words[-1].end, words[0].start))
    tokens = tuple(token for word in words for token in word.tokens)
    return (
        Heard(
            span,
            tuple(word.word for word in words),
            no_speech_prob=found.no_speech_prob,
            avg_logprob=found.best.avg_logprob,
            tokens=tokens,
        ),
    )
