"""One decode of a window, watched by its own attention: no timestamps, no fallback to higher temperatures.

The forced prefix carries what is confirmed, so only what is new is decoded. Its own attention times the words.
`single_pass` says when.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.languages import UNSPACED_LANGUAGES
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.draft import Reference
from whispertide.decoding.end import End, SecondBest
from whispertide.decoding.guards import Halt, SameToken, Scene, WatchingGuard, with_loop_guard
from whispertide.decoding.longform import Cost
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import NON_SPEECH, Rules
from whispertide.decoding.search import Guard, Hypothesized, SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch, build_search, joined, truncation
from whispertide.decoding.token_words import Sampled, TokenWord, part_marks, read_words, whole_words
from whispertide.decoding.word_end import WordEndDetector
from whispertide.methods.attention.listening import HeardWords, Job, Listening
from whispertide.model.engine import LAST_LAYER
from whispertide.options import DecodeOptions
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded

MARGIN_TOKENS = 20  # of the text context that prompt and prefix leave to what is decoded, at least
RETRY_TOKENS_PER_S = 1.5  # speech is denser; until then a retried decode may not end (NPUsper)


class AttendedDecode:
    """One search over one encoded window, and the reading of its outcome. `found` is set by `run`."""

    def __init__(
        self, job: Job, encoded: "Encoded", frames: int, language: str | None, prefix: tuple[int, ...]
    ) -> None:
        self.job = job
        self.model = job.equipment.model
        self.tokenizer = job.equipment.model.tokenizer
        self.encoded = encoded
        self.frames = frames
        self.language = language
        self.prefix = prefix
        self.kinds = job.equipment.kinds(language)
        self.found: SearchResult

    def run(self, listen: Listening, detector: WordEndDetector | None) -> HeardWords:
        """Decode as `listen` says; `detector` is asked whether the last word was spoken to its end."""
        began, prompt = time.perf_counter(), self._prompt(listen)
        watchers = self._search(listen, prompt)
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
            attention=joined(best.attention) if listen.keep_attention else None,
        )
        # Not where it is unknown: nan is larger than nothing.
        if self.found.no_speech_prob > listen.no_speech:
            return heard
        began, words = time.perf_counter(), self._words(best, prompt, listen)
        self.job.costs.append(Cost("align", time.perf_counter() - began))
        # Only the frontier lets a decode go on after it, with a guess; every other halt has cut the text already.
        firm_tokens = halt.index if halt is not None and halt.reason == "frontier" else len(best.tokens)
        firm = whole_words(words, firm_tokens)
        ended = self._word_ended(halt, firm == len(words), detector)
        ending = part_marks(words[-1], best.logprobs[-len(words[-1].tokens) :], self.kinds) if words else None
        return replace(heard, words=words, firm=firm, halt=halt, last_frame=last_frame, word_ended=ended, ending=ending)

    # --- the decode ---------------------------------------------------------------------------------------------------

    def _prompt(self, listen: Listening) -> Prompt:
        """Context, start sequence and forced prefix, fitted into the text context."""
        tokenizer, plan, room = self.tokenizer, self.job.plan, self.model.dims.n_text_ctx - MARGIN_TOKENS
        start = self.job.equipment.start(self.language, self.job.options.task)
        # The end of a prefix that is too long: the text goes on right after it.
        prefix = self.prefix[-(room - len(start) - 1) :] if self.prefix else ()
        # Guards and word times must count from what is really fed, not from what was asked for.
        self.prefix = prefix
        # One position less, for the token that stands in front of the context.
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
        # One more than there are positions left: the last token is predicted and never fed.
        limit = min(limit, self.model.dims.n_text_ctx + 1 - len(tokens))
        return Prompt(tokens, sot_index=len(head), limit=limit)

    def _search(self, listen: Listening, prompt: Prompt) -> list[WatchingGuard]:
        """Decode; the guards that watched are returned. With `rescue` the better of two decodes counts."""
        watchers = self._attempt(listen, prompt, self.job.options)
        found = self.found
        if listen.rescue is None or found.best.avg_logprob >= listen.rescue or self.job.options.beam > 1:
            return watchers
        # The patience is meant for another beam; one hypothesis has to end in any case.
        patience = max(self.job.options.patience, 1 / listen.rescue_beam)
        wider = replace(self.job.options, beam=listen.rescue_beam, patience=patience)
        again = self._attempt(listen, prompt, wider)
        steps = found.steps + self.found.steps
        # A rewind voids the whole round, so that a better score would not make up for it.
        has_lost_its_place = any(watcher.halt is not None and watcher.halt.reason == "rewind" for watcher in again)
        if self.found.best.avg_logprob > found.best.avg_logprob and not has_lost_its_place:
            found, watchers = self.found, again
        # Both searches were paid for, whichever is kept.
        self.found = replace(found, steps=steps)
        return watchers

    def _attempt(self, listen: Listening, prompt: Prompt, options: DecodeOptions) -> list[WatchingGuard]:
        """One search; the guards that watched are returned."""
        watchers, guards = self._guards(listen, prompt)
        self.found = self._searched(listen, prompt, options, guards, self.job.plan.reference)
        return watchers if options.beam == 1 else self._watched_anew(listen, prompt, watchers)

    def _watched_anew(self, listen: Listening, prompt: Prompt, watchers: list[WatchingGuard]) -> list[WatchingGuard]:
        """What the guards say of the text that a beam search found; during it they saw whichever text led."""
        every = (self.found.best, *self.found.others)
        halted = any(watcher.halt is not None for watcher in watchers)
        # A text that a guard has cut keeps the attention of what was dropped: it has more pieces of that than tokens.
        dropped = (text for text in every if text.stop == "guard" and len(text.attention) > len(text.tokens))
        if halted and (cut := next(dropped, None)) is not None:  # the others have not been looked at so far
            self.found = replace(self.found, best=cut)
            return watchers
        best = self.found.best
        again, _ = self._guards(listen, prompt)
        for count in range(1, len(best.tokens) + 1):
            keep = truncation(again, best.tokens[:count], best.attention[:count], best.logprobs[:count])
            if keep is not None:
                self.found = replace(self.found, best=best.cut(keep))
                break
        return again

    def _guards(self, listen: Listening, prompt: Prompt) -> tuple[list[WatchingGuard], list[Guard]]:
        """Fresh guards: those that watch the attention, and all together."""
        opening, silence = len(prompt.tokens), self.job.silence
        scene = Scene(self.kinds, self._heads(listen), opening, self.prefix, self.frames, silence)
        watchers = [watch.guard(scene, self.model) for watch in listen.watch]
        guards = with_loop_guard([*watchers, *self.job.guards], self.tokenizer.eot, wanted=listen.loop_guard)
        if listen.same_token:
            guards.append(SameToken(listen.same_token))
        return watchers, guards

    def _searched(
        self,
        listen: Listening,
        prompt: Prompt,
        options: DecodeOptions,
        guards: Sequence[Guard],
        reference: Reference | None,
    ) -> SearchResult:
        """What a search finds; `reference` is what an earlier round has heard: checked as one block."""
        rules, end = self._rules(listen, options), self._end(listen)
        if end is not None:  # whatever the options say: the second-best token is greedy search's
            search = TokenSearch(prompt, rules, GREEDY, end=end, guards=guards)
        elif options.beam == 1:
            known = None if reference is None else reference.draft(self.tokenizer, rules)
            search = build_search(prompt, rules, options, draft=known, guards=guards)
        else:
            search = build_search(prompt, rules, options, guards=guards)
        return run_search(search, self.model.decoder(self.encoded, heads=self._heads(listen)))

    def _is_retry(self, listen: Listening) -> bool:
        return self.job.listen.retry is not None and listen.retry is None

    def _rules(self, listen: Listening, options: DecodeOptions) -> Rules:
        if self._is_retry(listen):
            options = replace(options, suppress_tokens=(NON_SPEECH,))
        return self.job.equipment.rules(options, listen.must_speak)

    def _end(self, listen: Listening) -> End | None:
        """When end of text does not end the text; None: it always does."""
        least = 0
        if self._is_retry(listen):
            least = int(RETRY_TOKENS_PER_S * self.frames * FRAME_SAMPLES / SAMPLE_RATE)
        elif listen.real_end:
            return None
        return SecondBest(self.kinds.speaks, self.tokenizer.eot, least, listen.real_end)

    def _heads(self, listen: Listening) -> tuple[Head, ...]:
        wanted = {*self.model.alignment_heads}
        for watch in listen.watch:
            wanted.update(watch.heads(self.model))
        # Sorted, because a head's place here is its row in the attention (`_words`).
        return tuple(sorted(wanted))

    # --- what it says -------------------------------------------------------------------------------------------------

    def _words(self, best: Hypothesized, prompt: Prompt, listen: Listening) -> tuple[TokenWord, ...]:
        """All words of the decode; a character that is not whole yet is held back.

        What is heard in the hush word was not said and is left out.
        """
        heads = self._heads(listen)
        rows = [heads.index(head) for head in self.model.alignment_heads]
        window = self.job.plan.window
        # With a hush word its frames stay in, so that what was heard there is timed there and can be left out below.
        frames = self.encoded.valid_frames if self.job.hushed else self.frames
        sampled = Sampled.of(best, self.tokenizer, frames, len(prompt.tokens), self.prefix, rows)
        words = read_words(
            sampled,
            self.tokenizer,
            window,
            language=self.language,
            times=listen.times,
            heads_first=listen.heads_first,
        )
        # No word goes beyond the window, so what begins at its end was heard in the hush word.
        return tuple(word for word in words if word.start < window.end) if self.job.hushed else words

    def _word_ended(self, halt: Halt | None, at_the_end: bool, detector: WordEndDetector | None) -> bool | None:
        """Whether the last firm word is whole, as far as the token that was dropped or the detector can tell."""
        dropped = halt is not None and halt.reason in ("frontier", "backward-shift")
        if halt is not None and dropped and at_the_end and self.kinds.continues(halt.token):
            return False
        if detector is None or LAST_LAYER not in self.encoded.taps or not at_the_end:
            return None
        return detector.fires(self.encoded.taps[LAST_LAYER][: self.frames])


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
    words, space = (text.split(), " ") if spaced else (list(text), "")
    tokens = encode(" " + text) if text and most > 0 else []
    while words and len(tokens) > most:
        # A token is at most a few words or characters: drop several at once where there are many.
        words = words[max(1, (len(tokens) - most) // 8) :]
        tokens = encode(" " + space.join(words).lstrip()) if words else []
    return tuple(tokens)
