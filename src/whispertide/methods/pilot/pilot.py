"""A window heard in one beam search that may have an earlier one to go by: a pilot, or the round after the last word.

What a pilot found in the beginning of the audio is checked as one block. As long as the search finds the same, one
hypothesis is enough (beam collapse); where it finds something else it becomes a full beam, for good. It ends early
where the text is as long as the pilot's lets expect (`length_cap`). Knows the model and the framing, nothing
of policies, other rounds or sessions. Source: pilot inference (arXiv 2311.17065), 4.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whispertide.checkpoint.languages import written_language
from whispertide.decoding.accept import GREEDY, Beam
from whispertide.decoding.guards import with_loop_guard
from whispertide.decoding.prompt import build_prompt
from whispertide.decoding.search import Cost, Guard, StopReason, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.decoding.token_words import Sampled, TokenWord, read_words
from whispertide.methods.pilot.first_entropy import FirstEntropy
from whispertide.methods.pilot.length_cap import Capped
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.resources import EncodedWindow, RoundResources
from whispertide.streaming.round import RoundPlan, RoundResult, result_of
from whispertide.types import FRAME_SAMPLES, FloatArray

LONGEST = 224  # tokens


@dataclass(frozen=True, slots=True)
class Scores:
    """The confidence of a decode in its text.

    logprobs  of its tokens, without the end of text
    entropy   of what the first token could have been, in nats
    """

    logprobs: tuple[float, ...] = ()
    entropy: float = 0.0

    @property
    def perplexity(self) -> float:
        """The reciprocal of the geometric mean of the tokens' probabilities; 1 of a text without tokens."""
        return math.exp(-sum(self.logprobs) / len(self.logprobs)) if self.logprobs else 1.0


@dataclass(frozen=True, slots=True)
class HeardUtterance:
    """The text of a window after its forced prefix.

    words   with their times
    tokens  as they were found: those of the words, and perhaps the beginning of a character
    scores  how sure that is
    stop    what ended the text
    """

    words: tuple[TokenWord, ...] = ()
    tokens: tuple[int, ...] = ()
    scores: Scores = Scores()
    stop: StopReason = "end_of_text"


@dataclass(frozen=True, slots=True)
class Pilot:
    """A `round.Hearing`: one search.

    beam        hypotheses at most; None: as many as the options say
    most        tokens that are decoded at most
    cap         tokens after which the first hypothesis that ends is enough; None: there is no such number
    no_speech   a window whose no-speech probability is higher is taken for silence
    loop_guard  end a decode that repeats itself
    before      how sure the newest pilot was; an executor may decide by it who hears the last round
    """

    beam: int | None = None
    most: int = LONGEST
    cap: int | None = None
    no_speech: float = 1.0
    loop_guard: bool = True
    before: Scores | None = None

    def encode(
        self, resources: RoundResources, plan: RoundPlan, audio: FloatArray, state: EncoderState | None
    ) -> EncodedWindow | None:
        """The window. None: there is less than 10 ms."""
        return resources.open_whole(audio, state)

    def decode(
        self,
        resources: RoundResources,
        plan: RoundPlan,
        opened: EncodedWindow,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> RoundResult[HeardUtterance]:
        """The search, and the times of its words."""
        model, encoded = resources.model, opened.encoded
        language = plan.language(resources.language(encoded, options))
        began = time.perf_counter()
        search = self._search(resources, plan, options, language.language, guards)
        found = run_search(search, model.decoder(encoded, heads=model.alignment_heads))
        costs = [opened.cost, Cost("decode", time.perf_counter() - began, steps=found.steps)]
        best, heard = found.best, HeardUtterance(stop=found.best.stop)
        # Written with `not`: nan is not more, so what nobody knows counts as speech.
        if not found.no_speech_prob > self.no_speech:
            began = time.perf_counter()
            frames = min(-(-len(plan.window) // FRAME_SAMPLES), encoded.valid_frames)
            sampled = Sampled.of(best, model.tokenizer, frames, len(search.prompt.tokens), plan.prefix)
            written = written_language(language.language, options.task)
            words = read_words(sampled, model.tokenizer, plan.window, language=written)
            logprobs = best.logprobs[: len(best.tokens)]
            scores = Scores(logprobs, search.entropy)
            heard = replace(heard, words=words, tokens=best.tokens, scores=scores)
            costs.append(Cost("align", time.perf_counter() - began))
        return result_of(resources, plan, heard, language, costs, len(best.tokens))

    def _search(
        self,
        resources: RoundResources,
        plan: RoundPlan,
        options: DecodeOptions,
        language: str | None,
        guards: Sequence[Guard],
    ) -> FirstEntropy:
        model = resources.model
        # Times come from the attention, so none are decoded.
        options = replace(options, timestamps=False)
        previous = model.tokenizer.encode(" " + options.prompt.strip()) if options.prompt.strip() else ()
        prompt = build_prompt(
            model.tokenizer, model.dims.n_text_ctx, options, language=language, previous=previous, prefix=plan.prefix
        )
        prompt = replace(prompt, limit=min(prompt.limit, self.most))
        rules = resources.rules(options, must_speak=False)
        beam = options.beam if self.beam is None else min(self.beam, options.beam)
        watch = with_loop_guard(guards, model.tokenizer.eot, wanted=self.loop_guard)
        search = TokenSearch(
            prompt,
            rules,
            # A pilot's beam is narrower than the one that the patience is meant for.
            Beam(beam, max(options.patience, 1 / beam)) if beam > 1 else GREEDY,
            draft=None if plan.reference is None else plan.reference.draft(model.tokenizer, rules),
            end=None if self.cap is None else Capped(self.cap),
            length_penalty=options.length_penalty,
            guards=watch,
        )
        return FirstEntropy(search, prompt)
