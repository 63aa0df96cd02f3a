"""Understanding commands while they are being spoken: what is wanted, and the words, utterance by utterance.

The layers that stream run as audio arrives. From 1.5 s on a pilot decodes what there is so far, each going by the one
before, and says what it thinks. At the end of speech the whole is decoded, going by the last pilot. (Pilot inference,
sections 4 and 5; ALGORITHMS G.) A pause may be that end: so a pilot searches as at the end (ours), while the voice gate
waits for somebody to go on, and if nobody does, that is what was said. All of it is counted in samples, so the portions
in which audio comes change nothing but when it is said. What it is not sure of a server can hear (`sending`).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from whispertide.audio.buffer import AudioBuffer, checked
from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import Gate, GateEvent, SpeechGate, SpeechStarted
from whispertide.checkpoint.intent_words import plain
from whispertide.decoding.ctc_prefix import Sums
from whispertide.decoding.hybrid import Found, HybridOptions, hybrid_search
from whispertide.errors import OptionError
from whispertide.model.latecontext import Contextualised, Ingested, LateModel, TextState
from whispertide.streaming.sending import Sending
from whispertide.types import FloatArray, IntArray, Span, to_samples

_SHORTEST_S = 0.04  # between two pilots: one frame of the network
LONGEST_S = 30.0  # of an utterance; one that goes on is another, since every guess costs more than the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilots:
    """When pilots run, and how they search.

    first_s   of an utterance before the first
    every_s   seconds from one to the next; 0: there are none at all
    pause_s   seconds of silence that another one follows, which is the last word if nobody goes on; 0: none
    beam      hypotheses; at a pause as many as at the end
    tokens    that one adds to what the one before found, at most
    """

    first_s: float = 1.5
    every_s: float = 1.0
    pause_s: float = 0.2
    beam: int = 3
    tokens: int = 15

    def __post_init__(self) -> None:
        frequent = self.every_s == 0 or _SHORTEST_S <= self.every_s < math.inf
        times = 0 < self.first_s < math.inf and 0 <= self.pause_s < math.inf and frequent  # not for nan
        if not times or min(self.beam, self.tokens) < 1:
            raise OptionError(
                f"expected first_s above 0, pause_s from 0, every_s 0 or from {_SHORTEST_S:g}, beam and tokens from 1 "
                "for pilots, and no time without end; got "
                f"{self.first_s:g}, {self.pause_s:g}, {self.every_s:g}, {self.beam} and {self.tokens}"
            )


@dataclass(frozen=True, slots=True)
class Understood:
    """An utterance, or a guess at it while it goes on (not `final`).

    intent      what is wanted; None where the model names nothing
    start, end  samples of the stream; `end` is as far as was heard
    perplexity  of the decoder: 1 is sure
    chance      how likely the intent is, 0 to 1; None where the network does not tell
    sent        the words are a server's
    wait_s      seconds since the audio with its end was pushed; of a guess, seconds that it took
    """

    intent: str | None
    text: str
    start: int
    end: int
    perplexity: float
    final: bool
    chance: float | None = None
    sent: bool = False
    wait_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class _Scorer:
    """The decoder over one context."""

    model: LateModel
    context: Contextualised

    def start(self) -> TextState:
        return self.model.start()

    def score(self, state: TextState, tokens: IntArray) -> tuple[FloatArray, TextState]:
        return self.model.score(self.context, state, tokens)

    def read(self, tokens: IntArray) -> tuple[FloatArray, TextState]:
        return self.model.read(self.context, tokens)


@dataclass(slots=True)
class _Utterance:
    """One that goes on. `rests` in a pause, whose pilot found the `answer`; `spoken` where somebody spoke in it, which
    is not certain of what a cut leaves.
    """

    start: int
    heard: Ingested
    next_pilot: int
    found: Found | None = None
    rests: bool = False
    answer: Understood | None = None
    spoken: bool = True


class Understanding:
    """One stream. `push` audio as it comes, `finish` at its end; both give what was understood, in order.

    Positions count from the first sample that is pushed.
    """

    def __init__(
        self,
        model: LateModel,
        *,
        gate: Gate | None = None,
        pilots: Pilots | None = None,
        search: HybridOptions | None = None,
        sending: Sending | None = None,
    ) -> None:
        self.model, self.gate, self.sending = model, gate or SpeechGate(), sending
        self.pilots, self.search = pilots or Pilots(), search or HybridOptions()
        self._buffer = AudioBuffer()
        self._open: _Utterance | None = None

    def push(self, samples: FloatArray) -> list[Understood]:
        """16 kHz mono [n]. Raises `AudioError` for what is no audio."""
        began = time.perf_counter()
        audio, _ = checked(samples)
        at = self._buffer.end
        self._buffer.append(audio)
        said: list[Understood] = []
        for block in np.split(audio, range(BLOCK - at % BLOCK, len(audio), BLOCK)):  # as the gate judges them
            at += len(block)
            # Only up to the last whole block: the gate has not judged the rest yet.
            said += self._after(self.gate.feed(block), at - at % BLOCK, began)
        self._let_go()
        return said

    def finish(self) -> list[Understood]:
        """An utterance that goes on ends here. More audio may follow."""
        said = self._after(self.gate.finish(), self._buffer.end, time.perf_counter())
        self._let_go()
        return said

    def clear(self) -> None:
        """Forget an utterance that goes on. More audio may follow."""
        # For its effect alone: the gate must not go on with the utterance.
        self.gate.finish()
        self._open = None
        self._buffer.drop_before(self._buffer.end)

    def _after(self, events: Sequence[GateEvent], until: int, began: float) -> list[Understood]:
        """What is said of the audio before the sample `until` by what the gate tells of it."""
        said: list[Understood] = []
        for event in events:
            if isinstance(event, SpeechStarted):
                start = max(event.start, self._buffer.start)  # the gate knows of no clear
                self._open = _Utterance(start, self.model.nothing(), self._first(start))
            elif self._open is not None:
                said += self._cut(event.decided_at, began)
                if self._open.spoken:
                    said.append(self._final(self._open, event.decided_at, began))  # no pilot is worth a wait now
                self._open = None
        if self._open is not None:
            said += self._cut(until, began)
            self._open.spoken = self._open.spoken or until - self.gate.quiet > self._open.start
            said += self._guesses(self._open, until)
            said += self._at_a_pause(self._open, until)
        return said

    def _let_go(self) -> None:
        """Hear what came of an utterance that goes on, and let go of the audio that nobody needs."""
        if self._open is not None:
            # In whole blocks: a pilot or an end before the next one must not have heard what is after it.
            self._ingest(self._open, self._buffer.end - self._buffer.end % BLOCK)
        needed = self.gate.needed_from if self._open is None else self._open.start
        self._buffer.drop_before(min(needed, self._buffer.end))

    def _cut(self, until: int, began: float) -> list[Understood]:
        """Utterances that are as long as one may be before the sample `until`: the rest of their speech is the next."""
        said: list[Understood] = []
        while self._open is not None and until - self._open.start > to_samples(LONGEST_S):
            end = self._open.start + to_samples(LONGEST_S)
            said += [*self._guesses(self._open, end), self._final(self._open, end, began)]
            self._open = _Utterance(end, self.model.nothing(), self._first(end), spoken=False)
        return said

    def _first(self, start: int) -> int:
        return start + to_samples(self.pilots.first_s)

    def _ingest(self, utterance: _Utterance, until: int, *, ended: bool = False) -> None:
        audio = self._buffer.read(utterance.start, until)
        utterance.heard = self.model.ingest(utterance.heard, audio, ended=ended)

    def _guesses(self, utterance: _Utterance, until: int) -> list[Understood]:
        """The pilots that are due in audio before the sample `until`. One that would hear silence alone is left out."""
        said: list[Understood] = []
        while self.pilots.every_s and utterance.next_pilot < until:
            at = utterance.next_pilot
            utterance.next_pilot += to_samples(self.pilots.every_s)
            if not utterance.rests:
                said += self._pilot(utterance, at, self._shorter(utterance))
        return said

    def _at_a_pause(self, utterance: _Utterance, until: int) -> list[Understood]:
        """The pilot of a pause that is as long as that now. It searches as at the end, and without what was guessed
        before: nobody waits for it, and what it finds is the answer if nobody speaks on.
        """
        rests = 0 < to_samples(self.pilots.pause_s) <= self.gate.quiet
        begins, utterance.rests = rests and not utterance.rests, rests
        if not rests:
            utterance.answer = None
        if not begins or not utterance.spoken or not self.pilots.every_s:
            return []
        utterance.found = None
        guesses = self._pilot(utterance, until, self.search)
        utterance.answer = guesses[0] if guesses else None
        return guesses

    def _shorter(self, utterance: _Utterance) -> HybridOptions:
        """How a pilot searches that is not at a pause."""
        known = len(utterance.found.best.tokens) if utterance.found else 0
        longest = min(known + self.pilots.tokens, self.search.longest)
        return replace(self.search, beam=self.pilots.beam, longest=longest)

    def _pilot(self, utterance: _Utterance, until: int, options: HybridOptions) -> list[Understood]:
        """One guess; none where there is no whole frame yet."""
        began = time.perf_counter()
        self._ingest(utterance, until)
        if not len(utterance.heard.frames):
            return []
        return [self._decoded(utterance, until, options, began, final=False)]

    def _final(self, utterance: _Utterance, until: int, began: float) -> Understood:
        if utterance.answer is not None:  # all that came after it is silence
            here = replace(utterance.answer, end=until, final=True)
        else:
            self._ingest(utterance, until, ended=True)
            here = self._decoded(utterance, until, self.search, began, final=True)
        told = here if self.sending is None else self._sent(here, self.sending, utterance)
        return replace(told, wait_s=time.perf_counter() - began)

    def _sent(self, here: Understood, sending: Sending, utterance: _Utterance) -> Understood:
        """As the server hears it, if it is asked and its answer can be used; else as it was heard here."""
        if not sending.wants(here.chance):
            return here
        text = sending.text(self._buffer.read(here.start, here.end), Span(here.start, here.end))
        first = None if utterance.found is None else utterance.found.first
        meant = None if text is None else self.model.checkpoint.meaning(plain(text), first)
        if meant is None:
            return here
        return replace(here, intent=meant.intent, text=meant.text, chance=meant.chance, sent=True)

    def _decoded(
        self, utterance: _Utterance, until: int, options: HybridOptions, began: float, *, final: bool
    ) -> Understood:
        context = self.model.contextualise(utterance.heard)
        # The sums of the search add up many small probabilities, in double precision.
        scores: Sums = context.ctc.astype("float64")
        found = hybrid_search(scores, _Scorer(self.model, context), options, utterance.found)
        utterance.found, best = found, found.best
        meant = self.model.checkpoint.understood(best.tokens, found.first)
        span, waited = (utterance.start, until), time.perf_counter() - began
        return Understood(meant.intent, meant.text, *span, best.perplexity, final, meant.chance, wait_s=waited)
