"""A round in one decode that its attention watches, and in a second one where the first went wrong.

What AlignAtt, `tide`, NPUsper and their kin need: `SinglePass` is how they hear a window. The forced prefix carries
what is confirmed, so only what is new is decoded: without timestamps, without a fallback to higher temperatures. Its
own attention times the words. Knows the model and the framing, nothing of what is confirmed, of other rounds or of
sessions.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.languages import UNSPACED_LANGUAGES, written_language
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.draft import Reference
from whispertide.decoding.end import End, SecondBest
from whispertide.decoding.guards import Halt, SameToken, Scene, WatchingGuard, with_loop_guard
from whispertide.decoding.prompt import MARGIN_TOKENS, Prompt
from whispertide.decoding.rules import NON_SPEECH, Rules
from whispertide.decoding.search import Cost, Guard, Hypothesized, SearchResult, joined, run_search, truncation
from whispertide.decoding.token_search import TokenSearch, build_search
from whispertide.decoding.token_words import Sampled, TokenWord, part_marks, read_words, tokens_of, whole_words
from whispertide.features import Columns, Features
from whispertide.methods.attention.listening import DecodeSettings, HeardWords, RoundJob
from whispertide.model.engine import LAST_LAYER, Encoded, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30
from whispertide.streaming.resources import EncodedWindow, RoundResources, WordEndDetector
from whispertide.streaming.round import RoundPlan, RoundResult, result_of
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, N_SAMPLES, SAMPLE_RATE, FloatArray, Span

_LOG_MEL = "log_mel"  # in the state of an encoder that hears every window by itself: the `Columns` that are known
UNHEARD = SAMPLE_RATE  # so much audio after the last word may be the pause that ended the utterance
_LONGEST_TOKEN = 128  # characters, in any of OpenAI's vocabularies
RETRY_TOKENS_PER_S = 1.5  # speech is denser; until then a retried decode may not end (NPUsper)


class AttendedDecode:
    """One search over one encoded window, and the reading of its outcome. `found` is set by `run`."""

    def __init__(
        self,
        job: RoundJob,
        listen: DecodeSettings,
        encoded: Encoded,
        frames: int,
        language: str | None,
        prefix: tuple[int, ...],
    ) -> None:
        self.job = job
        self.listen = listen
        self.model = job.resources.model
        self.tokenizer = job.resources.model.tokenizer
        self.encoded = encoded
        self.frames = frames
        self.language = language
        self.written = written_language(language, job.options.task)
        self.prefix = prefix
        self.kind_of = job.resources.kinds(self.written)
        self.is_retry = job.listen.retry is not None and listen.retry is None
        heads = {*self.model.alignment_heads}
        for watch in listen.watch:
            heads.update(watch.heads(self.model))
        # Sorted, because a head's place here is its row in the attention.
        self.heads: tuple[Head, ...] = tuple(sorted(heads))
        self.found: SearchResult

    def run(self, detector: WordEndDetector | None) -> HeardWords:
        """Decode; `detector` is asked whether the last word was spoken to its end."""
        began, prompt = time.perf_counter(), self._prompt()
        watchers = self._search(prompt)
        self.job.costs.append(Cost("decode", time.perf_counter() - began, steps=self.found.steps))
        best = self.found.best
        # Several may stop at one token, since all of them are asked; then the policy's order decides.
        halt = next((watcher.halt for watcher in watchers if watcher.halt is not None), None)
        last_frame = next((watcher.last_frame for watcher in watchers if watcher.last_frame is not None), None)
        heard = HeardWords(
            frames=self.frames,
            stop=best.stop,
            avg_logprob=best.avg_logprob,
            no_speech_prob=self.found.no_speech_prob,
            attention=joined(best.attention) if self.listen.keep_attention else None,
        )
        # Not where it is unknown: nan is larger than nothing.
        if self.found.no_speech_prob > self.listen.no_speech:
            return heard
        began, words = time.perf_counter(), self._words(best, prompt)
        self.job.costs.append(Cost("align", time.perf_counter() - began))
        # Only the frontier lets a decode go on after it, with a guess; every other halt has cut the text already.
        firm_tokens = halt.index if halt is not None and halt.reason == "frontier" else len(best.tokens)
        firm = whole_words(words, firm_tokens)
        ended = self._word_ended(halt, firm == len(words), detector)
        said = best.logprobs[: len(tokens_of(words))]  # without what is left out at the end
        ending = part_marks(words[-1], said[-len(words[-1].tokens) :], self.kind_of) if words else None
        return replace(heard, words=words, firm=firm, halt=halt, last_frame=last_frame, word_ended=ended, ending=ending)

    # --- the decode ---------------------------------------------------------------------------------------------------

    def _prompt(self) -> Prompt:
        """Context, start sequence and forced prefix, fitted into the text context."""
        tokenizer, plan, room = self.tokenizer, self.job.plan, self.model.dims.n_text_ctx - MARGIN_TOKENS
        start = self.job.resources.start(self.language, self.job.options.task)
        # The end of a prefix that is too long: the text goes on right after it.
        prefix = self.prefix[-(room - len(start) - 1) :] if self.prefix else ()
        # Guards and word times must count from what is really fed, not from what was asked for.
        self.prefix = prefix
        # One position less, for the token that stands in front of the context.
        left = min(self.listen.context_tokens, room - len(start) - len(prefix) - 1)
        previous = plan.prompt if self.job.options.condition_on_previous_text is not False else ""
        context = fit_context(
            tokenizer.encode,
            self.job.options.prompt,
            previous,
            left,
            static=self.listen.static_prompt,
            spaced=self.written not in UNSPACED_LANGUAGES,
        )
        head = (tokenizer.sot_prev, *context) if context else ()
        tokens = (*head, *start, *prefix)
        limit = min(self.listen.max_tokens, self.job.options.max_tokens or self.listen.max_tokens)
        # One more than there are positions left: the last token is predicted and never fed.
        limit = min(limit, self.model.dims.n_text_ctx + 1 - len(tokens))
        return Prompt(tokens, sot_index=len(head), limit=limit)

    def _search(self, prompt: Prompt) -> list[WatchingGuard]:
        """Decode; the guards that watched are returned. With `rescue` the better of two decodes counts."""
        watchers = self._attempt(prompt, self.job.options)
        found = self.found
        if self.listen.rescue is None or found.best.avg_logprob >= self.listen.rescue or self.job.options.beam > 1:
            return watchers
        # The patience is meant for another beam; one hypothesis has to end in any case.
        patience = max(self.job.options.patience, 1 / self.listen.rescue_beam)
        wider = replace(self.job.options, beam=self.listen.rescue_beam, patience=patience)
        again = self._attempt(prompt, wider)
        steps = found.steps + self.found.steps
        # A rewind voids the whole round, so that a better score would not make up for it.
        has_lost_its_place = any(watcher.halt is not None and watcher.halt.reason == "rewind" for watcher in again)
        if self.found.best.avg_logprob > found.best.avg_logprob and not has_lost_its_place:
            found, watchers = self.found, again
        # Both searches were paid for, whichever is kept.
        self.found = replace(found, steps=steps)
        return watchers

    def _attempt(self, prompt: Prompt, options: DecodeOptions) -> list[WatchingGuard]:
        """One search; the guards that watched are returned."""
        watchers, guards = self._guards(prompt)
        self.found = self._searched(prompt, options, guards, self.job.plan.reference)
        return watchers if options.beam == 1 else self._watched_anew(prompt, watchers)

    def _watched_anew(self, prompt: Prompt, watchers: list[WatchingGuard]) -> list[WatchingGuard]:
        """Run the guards over the text that a beam search found; during it they saw whichever text led."""
        every = (self.found.best, *self.found.others)
        halted = any(watcher.halt is not None for watcher in watchers)
        # A text that a guard has cut keeps the attention of what was dropped: it has more pieces of that than tokens.
        dropped = (text for text in every if text.stop == "guard" and len(text.attention) > len(text.tokens))
        if halted and (cut := next(dropped, None)) is not None:  # the others have not been looked at so far
            self.found = replace(self.found, best=cut)
            return watchers
        best = self.found.best
        again, _ = self._guards(prompt)
        for count in range(1, len(best.tokens) + 1):
            keep = truncation(again, best.tokens[:count], best.attention[:count], best.logprobs[:count])
            if keep is not None:
                self.found = replace(self.found, best=best.cut(keep))
                break
        return again

    def _guards(self, prompt: Prompt) -> tuple[list[WatchingGuard], list[Guard]]:
        """Fresh guards: those that watch the attention, and all together."""
        opening, silence = len(prompt.tokens), self.job.silence
        scene = Scene(self.kind_of, self.heads, opening, self.prefix, self.frames, silence)
        watchers = [watch.guard(scene, self.model) for watch in self.listen.watch]
        guards = with_loop_guard([*watchers, *self.job.guards], self.tokenizer.eot, wanted=self.listen.loop_guard)
        if self.listen.same_token:
            guards.append(SameToken(self.listen.same_token))
        return watchers, guards

    def _searched(
        self, prompt: Prompt, options: DecodeOptions, guards: Sequence[Guard], reference: Reference | None
    ) -> SearchResult:
        """The result of a search; `reference` is the transcript of an earlier round: checked as one block."""
        rules, end = self._rules(options), self._end()
        if end is not None:  # whatever the options say: the second-best token is greedy search's
            search = TokenSearch(prompt, rules, GREEDY, end=end, guards=guards)
        elif options.beam == 1:
            known = None if reference is None else reference.draft(self.tokenizer, rules)
            search = build_search(prompt, rules, options, draft=known, guards=guards)
        else:
            search = build_search(prompt, rules, options, guards=guards)
        return run_search(search, self.model.decoder(self.encoded, heads=self.heads))

    def _rules(self, options: DecodeOptions) -> Rules:
        if self.is_retry:
            options = replace(options, suppress_tokens=(NON_SPEECH,))
        return self.job.resources.rules(options, self.listen.must_speak)

    def _end(self) -> End | None:
        """When end of text does not end the text; None: it always does."""
        least = 0
        if self.is_retry:
            least = int(RETRY_TOKENS_PER_S * self.frames * FRAME_SAMPLES / SAMPLE_RATE)
        elif self.listen.real_end:
            return None
        return SecondBest(lambda token: self.kind_of(token).speaks, self.tokenizer.eot, least, self.listen.real_end)

    # --- what it says -------------------------------------------------------------------------------------------------

    def _words(self, best: Hypothesized, prompt: Prompt) -> tuple[TokenWord, ...]:
        """All words of the decode; a character that is not whole yet is held back.

        What is heard in the hush word was not said and is left out.
        """
        rows = [self.heads.index(head) for head in self.model.alignment_heads]
        window = self.job.plan.window
        # With a hush word its frames stay in, so that what was heard there is timed there and can be left out below.
        frames = self.encoded.valid_frames if self.job.hushed else self.frames
        sampled = Sampled.of(best, self.tokenizer, frames, len(prompt.tokens), self.prefix, rows)
        words = read_words(
            sampled,
            self.tokenizer,
            window,
            language=self.written,
            times=self.listen.times,
            heads_first=self.listen.heads_first,
        )
        # No word goes beyond the window, so what begins at its end was heard in the hush word.
        return tuple(word for word in words if word.start < window.end) if self.job.hushed else words

    def _word_ended(self, halt: Halt | None, at_the_end: bool, detector: WordEndDetector | None) -> bool | None:
        """True if the last firm word is whole, as far as the token that was dropped or the detector can tell."""
        dropped = halt is not None and halt.reason in ("frontier", "backward-shift")
        if halt is not None and dropped and at_the_end and self.kind_of(halt.token).continues:
            return False
        if detector is None or LAST_LAYER not in self.encoded.taps or not at_the_end:
            return None
        return detector.fires(self.encoded.taps[LAST_LAYER][: self.frames])


@dataclass(frozen=True, slots=True)
class SinglePass(DecodeSettings):
    """A `round.Hearing`: one decode."""

    decodes: ClassVar[type[AttendedDecode]] = AttendedDecode

    def encode(
        self, resources: RoundResources, plan: RoundPlan, audio: FloatArray, state: EncoderState | None
    ) -> EncodedWindow | None:
        """The window, with what follows it. None: it is too short."""
        if len(audio) < HOP_LENGTH or (len(audio) < self.least and not plan.is_last):
            return None
        silence = self.silence if plan.is_last else 0
        if 0 < silence <= N_SAMPLES - len(audio):  # so that the text may end; where a window has room for that
            audio = np.pad(audio, (0, silence))
        began = time.perf_counter()
        features = _features(resources, plan.window, audio, state)
        taps = (LAST_LAYER,) if resources.detector is not None and self.detect_end else ()
        frame = PAD30 if self._is_short(plan) else None
        opened = resources.open(features, features.frames, state, taps, frame, began=began)
        if resources.suffix is not None or opened.encoded.state is not None:
            return opened  # what is known would not be asked for, or the framing keeps something itself
        known = Columns.of_window(features.raw[:, :], plan.window.start // HOP_LENGTH, len(plan.window))
        return replace(opened, encoded=replace(opened.encoded, state=EncoderState({_LOG_MEL: known}, 0)))

    def decode(
        self,
        resources: RoundResources,
        plan: RoundPlan,
        opened: EncodedWindow,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> RoundResult[HeardWords]:
        """The decode, and another where that one shifted backward or stopped short."""
        job = RoundJob(resources, plan, self, options, guards, hushed=opened.hushed, costs=[opened.cost])
        features, encoded = opened.features, opened.encoded
        # From the plan's window and not from the features, which may have silence and a hush word at their end.
        frames = -(-(len(plan.window) // HOP_LENGTH) // 2)
        # What was appended so that the text may end. It is heard, but what attends to it was not said.
        job.silence = -(-features.frames // 2) - frames
        detector = resources.detector if self.detect_end else None
        detected = resources.language(encoded, options)
        if plan.waits(detected):
            return result_of(resources, plan, None, detected, job.costs, 0)
        if plan.guesses(detected) and resources.frame != PAD30 and not self._is_short(plan):
            detected = resources.padded_language(features.window(0, features.frames), options, job.costs)
        language = plan.language(detected)
        decode = self.decodes(job, self, encoded, min(frames, encoded.valid_frames), language.language, plan.prefix)
        heard = decode.run(detector)
        if (again := self._again(heard.halt)) is not None:
            decode = self._once_more(job, again, features.window(0, features.frames), frames, language.language)
            detector = None  # the window was encoded again without the layer that it looks at
            heard = replace(decode.run(None), retried=True)
        if self._stopped_short(heard, plan):
            again = replace(decode.listen, watch=self.unbounded)
            decode = self.decodes(job, again, decode.encoded, decode.frames, language.language, decode.prefix)
            heard = replace(decode.run(detector), retried=heard.retried)
        return result_of(resources, plan, heard, language, job.costs, len(decode.found.best.tokens))

    def _is_short(self, plan: RoundPlan) -> bool:
        """True if the whole utterance is about a single word, which checkpoints transcribe worst without padding."""
        return plan.is_last and len(plan.window) <= self.short

    def _again(self, halt: Halt | None) -> DecodeSettings | None:
        """The settings with which the window is decoded once more; None: it is not."""
        if halt is None:
            return None
        # The very same halt as in the round before: reason, place and token.
        if halt == self.retry:  # the 30 s fallback of NPUsper: no guards of attention, the real end of text
            return replace(self, watch=(), real_end=True, must_speak=True, retry=None, detect_end=False)
        shifted = _turned_back(halt) if self.believes_jumps else halt.reason == "backward-shift"
        if shifted and self.again is not None:
            return replace(self, watch=self.again, again=None, detect_end=False)
        return None

    def _stopped_short(self, heard: HeardWords, plan: RoundPlan) -> bool:
        """True if a guard left audio without text that no later round will transcribe.

        Attention is one sign among others. A first token that attends to the silence after the window, say, ends
        the decode before it began, and a whole sentence would be lost. What turned back would only do so again.
        """
        if self.unheard_from is None or heard.halt is None or (self.believes_jumps and _turned_back(heard.halt)):
            return False
        heard_to = heard.words[-1].spoken_by if heard.words else self.unheard_from
        return plan.window.end - heard_to > UNHEARD

    def _once_more(
        self, job: RoundJob, again: DecodeSettings, mel: FloatArray, frames: int, language: str
    ) -> AttendedDecode:
        """In the other framing, because in the same one it would say the same; NPUsper's fallback is always padded."""
        usual = job.resources.frame
        other = BARE if usual == PAD30 else usual if self._is_short(job.plan) else PAD30
        is_fallback = self.retry is not None
        frame = PAD30 if is_fallback else other
        # `Features.window`, unlike `followed`, leaves the hush word out.
        job.hushed = False
        began = time.perf_counter()
        # On the model that decodes: the one that encodes may be busy with the next round.
        encoded = frame(job.resources.model, mel)
        job.costs.append(Cost("encode", time.perf_counter() - began, encoded.computed))
        return self.decodes(job, again, encoded, frames, language, () if is_fallback else job.plan.prefix)


def _features(resources: RoundResources, window: Span, audio: FloatArray, state: EncoderState | None) -> Features:
    """Those of a window's audio and the silence after it; what the round before left is not computed again."""
    n_mels = resources.encodes.dims.n_mels
    if resources.suffix is not None:
        return Features.of([audio], n_mels, resources.suffix)
    known = None if state is None else state.tensors.get(_LOG_MEL)
    raw = (known or Columns.none(n_mels)).window(audio, window.start // HOP_LENGTH, len(window))
    return Features.of_raw(raw, len(audio))


def fit_context(
    encode: Callable[[str], list[int]], prompt: str, said: str, most: int, *, static: bool, spaced: bool = True
) -> tuple[int, ...]:
    """Tokens of the user's prompt and of what was said, at most `most`: whole words are left out from the front.

    With `static` the prompt stays as far as it fits by itself, and what was said gets the room that it leaves. Without
    `spaced`, in a language written without spaces, characters are left out in place of words.
    """
    prompt, said = prompt.strip(), said.strip()
    if not static:
        return _end_of(encode, " ".join(part for part in (prompt, said) if part), most, spaced=spaced)
    kept = _end_of(encode, prompt, most, spaced=spaced)
    return (*kept, *_end_of(encode, said, most - len(kept), spaced=spaced))


def _end_of(encode: Callable[[str], list[int]], text: str, most: int, *, spaced: bool) -> tuple[int, ...]:
    """Tokens of as many of the last words as fit."""
    if most <= 0:
        return ()
    words, space = (text.split(), " ") if spaced else (list(text), "")
    # More cannot fit, and a prompt may be a book: a word is a token at least.
    if len(words) > (longest := most if spaced else most * _LONGEST_TOKEN):
        words = words[-longest:]
        text = space.join(words).lstrip()
    tokens = encode(" " + text) if text else []
    while words and len(tokens) > most:
        # A token is at most a few words or characters: drop several at once where there are many.
        words = words[max(1, (len(tokens) - most) // 8) :]
        tokens = encode(" " + space.join(words).lstrip()) if words else []
    return tuple(tokens)


def _turned_back(halt: Halt) -> bool:
    """True if the decode was about to repeat its text, or had lost its place."""
    return halt.reason in ("backward-shift", "rewind")
