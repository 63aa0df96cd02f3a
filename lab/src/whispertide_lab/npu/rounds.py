"""Rounds that decode in static graphs of several steps each, as far as these hold the text; the rest step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import WatchingGuard
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.search import Guard
from whispertide.methods.attention.single_pass import AttendedDecode, SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.round import Opened, RoundPlan, RoundResult
from whispertide.streaming.stages import SerialExecutor
from whispertide_lab.npu.chunk_runs import start_chunks
from whispertide_lab.npu.engine import StaticEngine
from whispertide_lab.npu.search import run_unrolled


class ChunkedDecode(AttendedDecode):
    """A decode whose greedy searches run in chunks."""

    def _attempt(self, prompt: Prompt, options: DecodeOptions) -> list[WatchingGuard]:
        assert isinstance(self.listen, ChunkedPass)
        engine = self.listen.engine
        # Static graphs have no place for text before the window, nor for a prefix longer than they are.
        room = engine.layout.plan(len(prompt.tokens))[-1].end
        if options.beam > 1 or prompt.sot_index or len(prompt.tokens) > room:
            return super()._attempt(prompt, options)
        watchers, guards = self._guards(prompt)
        decoder = start_chunks(engine, self.encoded, self.heads)
        rules, end = self._rules(options), self._end()
        found = run_unrolled(prompt, rules, engine.layout, decoder, end=end, guards=guards)
        self.found = found
        sure = found.best.tokens
        if found.best.stop != "length" or len(sure) >= prompt.limit:
            return watchers
        # Chunks that end before the text does leave the rest to a decode step by step. Its guards are others: they
        # remember, and these have seen the tokens already that are fed again.
        watchers, guards = self._guards(prompt)
        known = Reference.exactly(sure) if sure else self.job.plan.reference
        rest = self._searched(prompt, options, guards, known)
        self.found = replace(rest, steps=found.steps + rest.steps)
        return watchers


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedPass(SinglePass):
    """A `SinglePass` that decodes with the chunks of `engine`."""

    decodes: ClassVar[type[AttendedDecode]] = ChunkedDecode
    engine: StaticEngine

    @classmethod
    def of(cls, hearing: SinglePass, engine: StaticEngine) -> "ChunkedPass":
        """The same, in chunks."""
        return cls(**{item.name: getattr(hearing, item.name) for item in fields(hearing)}, engine=engine)


@dataclass(frozen=True, slots=True)
class ChunkedExecutor(SerialExecutor):
    """A serial executor that decodes every `SinglePass` with the chunks of `engine`."""

    engine: StaticEngine

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The second stage of `run`."""
        assert isinstance(plan.hearing, SinglePass)
        chunked = replace(plan, hearing=ChunkedPass.of(plan.hearing, self.engine))
        return replace(SerialExecutor.decode(self, chunked, opened, options, guards), plan=plan)
