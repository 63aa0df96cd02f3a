"""A round over a stream that a causal encoder hears block by block (WhisperRT): what is new is encoded, and the text
goes on.

The first stage encodes the blocks that are whole and not encoded yet; the second scores the newest tokens of the text
so far again and goes on from those that hold (`stable_search`). Knows the model and the framing, nothing of policies,
other rounds or sessions.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.checkpoint.languages import written_language
from whispertide.decoding.accept import Beam
from whispertide.decoding.guards import with_loop_guard
from whispertide.decoding.prompt import MARGIN_TOKENS, Prompt
from whispertide.decoding.search import Cost, Guard, run_search
from whispertide.decoding.token_words import Sampled, TokenWord, read_words
from whispertide.errors import GraphError
from whispertide.methods.causal.blocks import Blocks
from whispertide.methods.causal.stable_search import Rule, Scored, StableSearch
from whispertide.model.engine import Encoded, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan, RoundResult, result_of
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class HeardStream:
    """The text of a stream after its forced prefix.

    words       of the best hypothesis
    hypotheses  the best first: what the next round goes on from
    """

    words: tuple[TokenWord, ...] = ()
    hypotheses: tuple[Scored, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenedStream:
    """The stream as far as it is encoded; `cost` is that of what is new."""

    encoded: Encoded
    cost: Cost


@dataclass(frozen=True, slots=True)
class StableBeam:
    """A `round.Hearing` of a window that begins where the stream does.

    first_round  so many samples the stream had in its first round: a block ends there
    earlier      what the last round found after the same prefix
    last, rule   so many of its newest tokens are scored again, by this rule
    most_tokens  the most that a round adds
    loop_guard   end a decode that repeats itself
    """

    first_round: int
    earlier: tuple[Scored, ...] = ()
    last: int = 2
    rule: Rule = "either"
    most_tokens: int = 28
    loop_guard: bool = True

    def encode(
        self, resources: RoundResources, plan: RoundPlan, audio: FloatArray, state: EncoderState | None
    ) -> OpenedStream | None:
        """The blocks that are whole and not encoded yet. None: there is no new one."""
        blocks = resources.frame
        if not isinstance(blocks, Blocks):
            raise GraphError(f"expected framing=blocks for a stream; got framing={blocks.kind}")
        began = time.perf_counter()
        encoded = blocks.advance(
            resources.encodes, audio, plan.window.start, state, first_round=self.first_round, is_last=plan.is_last
        )
        if encoded is None or encoded.state is None:
            return None
        # A state of another stream does not count, and then all of this one was encoded.
        known = state.frames if state is not None and state.tensors.get("begin") == plan.window.start else 0
        spent = time.perf_counter() - began
        return OpenedStream(encoded, Cost("encode", spent, [(encoded.state.frames - known, known)]))

    def decode(
        self,
        resources: RoundResources,
        plan: RoundPlan,
        opened: OpenedStream,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> RoundResult[HeardStream]:
        """The text goes on."""
        model, encoded = resources.model, opened.encoded
        detected = resources.language(encoded, options)
        if plan.waits(detected):
            return result_of(resources, plan, None, detected, (opened.cost,), 0)
        language = plan.language(detected)
        began = time.perf_counter()
        prompt, prefix = self._prompt(resources, plan, options, language.language)
        watch = with_loop_guard(guards, model.tokenizer.eot, wanted=self.loop_guard)
        rules = resources.rules(options, must_speak=False)
        search = StableSearch(
            prompt, rules, Beam(options.beam), self.earlier, last=self.last, rule=self.rule, guards=watch
        )
        found = run_search(search, model.decoder(encoded, heads=model.alignment_heads))
        decoded = Cost("decode", time.perf_counter() - began, steps=found.steps)
        began = time.perf_counter()
        sampled = Sampled.of(found.best, model.tokenizer, encoded.valid_frames, len(prompt.tokens), prefix)
        written = written_language(language.language, options.task)
        words = read_words(sampled, model.tokenizer, plan.window, language=written, times="attended")
        costs = (opened.cost, decoded, Cost("align", time.perf_counter() - began))
        hypotheses = tuple(Scored.of(each) for each in (found.best, *found.others)[: options.beam])
        return result_of(resources, plan, HeardStream(words, hypotheses), language, costs, len(found.best.tokens))

    def _prompt(
        self, resources: RoundResources, plan: RoundPlan, options: DecodeOptions, language: str | None
    ) -> tuple[Prompt, tuple[int, ...]]:
        """Start sequence and forced prefix; of a prefix that does not fit the end is kept."""
        model = resources.model
        start = resources.start(language, options.task)
        # Also the earlier text is fed again, so the forced prefix must leave room for that, too.
        fed = max((len(each.tokens) for each in self.earlier), default=0)
        room = model.dims.n_text_ctx - MARGIN_TOKENS - len(start) - fed
        # With no room a slice from -0 on would be all of it.
        prefix = plan.prefix[-room:] if room > 0 else ()
        tokens = (*start, *prefix)
        return Prompt(
            tokens, sot_index=0, limit=min(fed + self.most_tokens, model.dims.n_text_ctx - len(tokens))
        ), prefix
