"""Understanding commands while they are being spoken: what is wanted, and the words, utterance by utterance.

The layers that stream run as audio arrives. From 1.5 s on a pilot decodes what there is so far, each going by the one
before, and says what it thinks. At the end of speech the whole is decoded, going by the last pilot. (Pilot inference,
sections 4 and 5; ALGORITHMS G.) A pause may be that end: so a pilot searches as at the end (ours), while the voice gate
waits for somebody to go on, and if nobody does, that is what was said. All of it is counted in samples, so the portions
in which audio comes change nothing but when it is said. What it is not sure of a server can hear (`sending`), which is
asked in the pause already.

A `live` stream is pushed as it is spoken, so nothing may hold it up. There pilots run on a thread of their own. One
that is under way when speech ends is given up, and the last search goes by the last that was done. One that is due
before the one before it is done, or in a portion that holds the end, is left out. So guesses depend on the machine.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from whispertide.audio.buffer import AudioBuffer, check_samples
from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import Gate, GateEvent, SpeechCertain, SpeechGate, SpeechStarted, SpeechStopped
from whispertide.errors import OptionError
from whispertide.methods.pilot.flying import CancellableTask, Check
from whispertide.methods.pilot.sending import Question, Sending
from whispertide.types import SAMPLE_RATE, FloatArray, IntArray, Span, to_samples
from whispertide.understand.ctc_attention import CtcAttentionOptions, Found, ctc_attention_search
from whispertide.understand.ctc_prefix import Sums
from whispertide.understand.intent_words import plain
from whispertide.understand.model import Contextualised, Ingested, LateModel, TextState

_SHORTEST_S = 0.04  # between two pilots: one frame of the network
LONGEST = (
    30 * SAMPLE_RATE
)  # of an utterance; one that goes on is another, since every guess costs more than the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotTimes:
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

    first: int = field(init=False, repr=False, compare=False)  # these times in samples
    every: int = field(init=False, repr=False, compare=False)
    pause: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        frequent = self.every_s == 0 or _SHORTEST_S <= self.every_s < math.inf
        times = 0 < self.first_s < math.inf and 0 <= self.pause_s < math.inf and frequent  # not for nan
        if not times or min(self.beam, self.tokens) < 1:
            raise OptionError(
                f"expected first_s above 0, pause_s from 0, every_s 0 or from {_SHORTEST_S:g}, beam and tokens from 1 "
                "for pilots, and no time without end; got "
                f"{self.first_s:g}, {self.pause_s:g}, {self.every_s:g}, {self.beam} and {self.tokens}"
            )
        for name in ("first", "every", "pause"):
            object.__setattr__(self, name, to_samples(getattr(self, f"{name}_s")))


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


@dataclass(frozen=True, slots=True)
class _Search:
    """A search over what was `heard` of an utterance, the samples of `span`; an earlier one found what is `known`."""

    model: LateModel
    heard: Ingested
    span: Span
    options: CtcAttentionOptions
    known: Found | None
    final: bool
    began: float

    def run(self, check: Check = lambda: None) -> tuple[Understood, Found]:
        context = self.model.contextualise(self.heard)
        # The sums of the search add up many small probabilities, in double precision.
        scores: Sums = context.ctc.astype("float64")
        found = ctc_attention_search(scores, _Scorer(self.model, context), self.options, self.known, check=check)
        meant = self.model.checkpoint.understood(found.best.tokens, found.first)
        understood = Understood(
            *(meant.intent, meant.text, self.span.start, self.span.end, found.best.perplexity, self.final),
            chance=meant.chance,
            wait_s=time.perf_counter() - self.began,
        )
        return understood, found


@dataclass(slots=True)
class _Utterance:
    """One that goes on. `rests` in a pause, whose pilot found the `answer`, and a server may be asked the `question`;
    `spoken` where somebody spoke in it, which is not certain of what a cut leaves; `certain` where that was no click,
    of which nothing is understood. Of a live one a pilot may be `due` or under way (`flying`).
    """

    start: int
    heard: Ingested
    next_pilot: int
    found: Found | None = None
    rests: bool = False
    answer: Understood | None = None
    question: Question | None = None
    spoken: bool = True
    certain: bool = True
    due: bool = False
    flying: CancellableTask[tuple[Understood, Found]] | None = None

    @property
    def says(self) -> bool:
        """True if there is something to understand."""
        return self.spoken and self.certain

    def give_up(self) -> None:
        """The pilot that is due or under way."""
        if self.flying is not None:
            self.flying.give_up()
        self.due, self.flying = False, None


class Understanding:
    """One stream. `push` audio as it comes, `finish` at its end; both give what was understood, in order.

    Positions count from the first sample that is pushed.
    """

    def __init__(
        self,
        model: LateModel,
        *,
        gate: Gate | None = None,
        pilots: PilotTimes | None = None,
        search: CtcAttentionOptions | None = None,
        sending: Sending | None = None,
        live: bool = False,
    ) -> None:
        self.model, self.gate, self.sending, self.live = model, gate or SpeechGate(), sending, live
        self.pilots, self.search = pilots or PilotTimes(), search or CtcAttentionOptions()
        self._buffer = AudioBuffer()
        self._fed = 0  # how many samples the gate was given
        self._open: _Utterance | None = None

    def push(self, samples: FloatArray) -> list[Understood]:
        """16 kHz mono [n]. Raises `AudioError` for what is no audio, and what a search raises: the next call then goes
        on in the same audio.
        """
        began = time.perf_counter()
        audio, _ = check_samples(samples)
        self._buffer.append(audio)
        findings = self._landed()
        findings += self._feed(began)
        self._let_go()
        self._take_off()
        return findings

    def finish(self) -> list[Understood]:
        """An utterance that goes on ends here. More audio may follow."""
        began = time.perf_counter()
        findings = self._landed()
        findings += self._feed(began)
        findings += self._after(self.gate.finish(), self._buffer.end, began)
        self._let_go()
        return findings

    def clear(self) -> None:
        """Forget an utterance that goes on. More audio may follow."""
        # For their effect alone: the gate counts all samples, and must not go on with the utterance.
        self.gate.feed(self._buffer.read(self._fed, self._buffer.end))
        self._fed = self._buffer.end
        self.gate.finish()
        if self._open is not None:
            self._open.give_up()
            self._take_back(self._open)
        self._open = None
        self._buffer.drop_before(self._buffer.end)

    def _feed(self, began: float) -> list[Understood]:
        """Process the audio that the gate was not given yet; returns the findings."""
        findings: list[Understood] = []
        while self._fed < self._buffer.end:
            end = min(self._fed - self._fed % BLOCK + BLOCK, self._buffer.end)  # in blocks, as the gate judges them
            events = self.gate.feed(self._buffer.read(self._fed, end))
            self._fed = end
            # Only up to the last whole block: the gate has not judged the rest yet.
            findings += self._after(events, end - end % BLOCK, began)
        return findings

    def _after(self, events: Sequence[GateEvent], until: int, began: float) -> list[Understood]:
        """The findings about the audio before the sample `until`, by what the gate reports of it."""
        findings: list[Understood] = []
        for event in events:
            if isinstance(event, SpeechStarted):
                start = max(event.start, self._buffer.start)  # the gate knows of no clear
                self._open = _Utterance(
                    start, self.model.nothing(), start + self.pilots.first, certain=event.is_certain
                )
            elif isinstance(event, SpeechCertain) and self._open is not None:
                self._open.certain = True
            elif isinstance(event, SpeechStopped) and self._open is not None:
                try:
                    findings += self._cut(event.decided_at, began)
                    if self._open.says:
                        findings.append(
                            self._final(self._open, event.decided_at, began)
                        )  # no pilot is worth a wait now
                finally:  # it is over, whatever a search raises
                    self._open.give_up()
                    self._open = None
        if self._open is not None:
            findings += self._cut(until, began)
            self._open.spoken = self._open.spoken or until - self.gate.quiet > self._open.start
            findings += self._guesses(self._open, until)
            findings += self._at_a_pause(self._open, until)
        return findings

    def _let_go(self) -> None:
        """Hear what came of an utterance that goes on, and let go of the audio that nobody needs."""
        if self._open is not None:
            # In whole blocks: a pilot or an end before the next one must not have heard what is after it.
            self._ingest(self._open, self._buffer.end - self._buffer.end % BLOCK)
        needed = self.gate.needed_from if self._open is None else self._open.start
        self._buffer.drop_before(min(needed, self._buffer.end))

    def _cut(self, until: int, began: float) -> list[Understood]:
        """Utterances that are as long as one may be before the sample `until`: the rest of their speech is the next."""
        findings: list[Understood] = []
        while self._open is not None and until - self._open.start > LONGEST:
            one, end = self._open, self._open.start + LONGEST
            findings += self._guesses(one, end)
            try:
                if one.certain:
                    findings.append(self._final(one, end, began))
            finally:
                first = end + self.pilots.first
                self._open = _Utterance(end, self.model.nothing(), first, spoken=False, certain=one.certain)
        return findings

    def _landed(self) -> list[Understood]:
        """The findings of the pilot on its thread, if it is done. Raises what it raised."""
        if self._open is None or self._open.flying is None or not self._open.flying.done:
            return []
        flying, self._open.flying = self._open.flying, None
        guess, self._open.found = flying.result()
        return [guess]

    def _take_off(self) -> None:
        """Begin the pilot that is due, if none is under way. It hears all there is."""
        one = self._open
        if one is None or not one.due:
            return
        one.due = False
        if one.flying is None and not one.rests and len(one.heard.frames):
            until = self._buffer.end - self._buffer.end % BLOCK
            one.flying = CancellableTask(self._search_of(one, until, self._shorter(one), time.perf_counter()).run)

    def _ingest(self, utterance: _Utterance, until: int, *, ended: bool = False) -> None:
        audio = self._buffer.read(utterance.start, until)
        utterance.heard = self.model.ingest(utterance.heard, audio, ended=ended)

    def _guesses(self, utterance: _Utterance, until: int) -> list[Understood]:
        """The pilots that are due in audio before the sample `until`; live they only become so. One that would hear
        silence alone, or what may be a click, is left out.
        """
        findings: list[Understood] = []
        while self.pilots.every and utterance.next_pilot < until:
            at = utterance.next_pilot
            utterance.next_pilot += self.pilots.every
            if not utterance.certain:
                continue
            if self.live:
                utterance.due = True
            elif not utterance.rests:
                findings += self._pilot(utterance, at, self._shorter(utterance))
        return findings

    def _at_a_pause(self, utterance: _Utterance, until: int) -> list[Understood]:
        """The pilot of a pause that is as long as that now. It searches as at the end, and without what was guessed
        before: nobody waits for it, and what it finds is the answer if nobody speaks on.
        """
        rests = 0 < self.pilots.pause <= self.gate.quiet
        begins, utterance.rests = rests and not utterance.rests, rests
        if not rests:
            self._take_back(utterance)
        if not begins or not utterance.says or not self.pilots.every:
            return []
        utterance.give_up()
        utterance.found = None
        guesses = self._pilot(utterance, until, self.search)
        utterance.answer = guesses[0] if guesses else None
        if utterance.answer is not None:
            utterance.question = self._asked(utterance.answer)
        return guesses

    def _take_back(self, utterance: _Utterance) -> None:
        """Take back a pause's finding: it is not the end."""
        if utterance.question is not None and self.sending is not None:
            self.sending.withdraw(utterance.question)
        utterance.answer = utterance.question = None

    def _shorter(self, utterance: _Utterance) -> CtcAttentionOptions:
        """The search options of a pilot that is not at a pause."""
        known = len(utterance.found.best.tokens) if utterance.found else 0
        longest = min(known + self.pilots.tokens, self.search.longest)
        return replace(self.search, beam=self.pilots.beam, longest=longest, pilot=True)

    def _pilot(self, utterance: _Utterance, until: int, options: CtcAttentionOptions) -> list[Understood]:
        """One guess; none where there is no whole frame yet."""
        began = time.perf_counter()
        self._ingest(utterance, until)
        if not len(utterance.heard.frames):
            return []
        guess, utterance.found = self._search_of(utterance, until, options, began).run()
        return [guess]

    def _final(self, utterance: _Utterance, until: int, began: float) -> Understood:
        utterance.give_up()
        ended = time.perf_counter()  # and not `began`: of what is pushed at once much may come before the end
        if utterance.answer is not None:  # all that came after it is silence
            here = replace(utterance.answer, end=until, final=True)
        else:
            self._ingest(utterance, until, ended=True)
            here, utterance.found = self._search_of(utterance, until, self.search, began, final=True).run()
            utterance.question = self._asked(here)
        return replace(self._sent(here, utterance, ended), wait_s=time.perf_counter() - began)

    def _asked(self, here: Understood) -> Question | None:
        """Ask a server, where it is not certain what was wanted."""
        if self.sending is None:
            return None
        return self.sending.ask(self._buffer.read(here.start, here.end), Span(here.start, here.end), here.chance)

    def _sent(self, here: Understood, utterance: _Utterance, ended: float) -> Understood:
        """As the server hears it, if it was asked and its answer can be used; else as it was heard here."""
        if self.sending is None or utterance.question is None:
            return here
        text = self.sending.text(utterance.question, ended)
        first = None if utterance.found is None else utterance.found.first
        meant = None if text is None else self.model.checkpoint.meaning(plain(text), first)
        if meant is None:
            return here
        return replace(here, intent=meant.intent, text=meant.text, chance=meant.chance, sent=True)

    def _search_of(
        self, utterance: _Utterance, until: int, options: CtcAttentionOptions, began: float, *, final: bool = False
    ) -> _Search:
        span = Span(utterance.start, until)
        return _Search(self.model, utterance.heard, span, options, utterance.found, final, began)
