"""Rounds in the background, and the last one of an utterance here or on a server.

A pilot is computed on a thread while audio comes in, so it can be given up when speech ends; one round at a time. The
last round is this machine's, or a server's where an offramp says that this one's model is not sure enough. Then the
server is asked while the encoder works here: if no usable answer is there in time, what is left to do is the search,
and nothing is lost. Time for that search is kept free, as much as searches took before. What is heard of pilots is
always heard here.

An early upload begins when a pilot is so unlikely that the server is going to be asked anyway; it goes on with the
audio of each later round, and is found again by that: whoever's audio begins with it goes on with it.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from whispertide.decoding.search import Cost, Guard
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.pilot.circuit_breaker import CircuitBreaker
from whispertide.methods.pilot.offramp import Hybrid, Offramp
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot
from whispertide.methods.pilot.remote import Remote, RemoteError, Server, Upload, words_of
from whispertide.model.engine import Encoded, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.ahead import HeardAhead
from whispertide.streaming.pipelined import PipelinedExecutor, PipelinedRound
from whispertide.streaming.round import Opened, RoundPlan, RoundResult, stats_of
from whispertide.streaming.stages import Staged
from whispertide.types import FloatArray

log = logging.getLogger("whispertide.hybrid")

_REMEMBERED = 8  # searches here: the longest of so many says how long the next one may take
_MOST_UPLOADS = 32  # early ones under way; of more the oldest is abandoned, as its session may be gone


class _OneAtATime(PipelinedRound):
    """A round that keeps both workers until it is done, because they are one."""

    alone: ClassVar[bool] = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._begun = time.perf_counter()  # of a last round: when speech ended, though others may come before it

    def _encoding(self, stages: Staged) -> Opened | None:
        """The first stage, which is told since when the round waits for its turn."""
        if isinstance(stages, HybridStages):
            return stages.encode(self.plan, self._audio, self.state, self._begun)
        return super()._encoding(stages)

    def _check_between(self, stages: Staged, opened: Opened | None) -> None:
        """The same; a question that nobody waits for any more is withdrawn."""
        try:
            super()._check_between(stages, opened)
        except CancelledError:
            if isinstance(stages, HybridStages):
                stages.withdraw(opened)
            raise

    def _between(self) -> None:
        """The first worker is not left to the next round."""


class HybridExecutor(PipelinedExecutor):
    """Runs one round after the other in the background: a pilot, and the last round that may overtake it."""

    rounds: ClassVar[type[PipelinedRound]] = _OneAtATime


@dataclass(frozen=True, slots=True)
class Asked:
    """The first stage's result: the audio encoded here, and a server's answer that may come. Satisfies `Opened`."""

    here: Opened
    answer: "Future[Mapping[str, Any]]"
    since: float  # the end of speech

    @property
    def encoded(self) -> Encoded:
        """The audio."""
        return self.here.encoded


@dataclass(slots=True)
class HybridStages:
    """The stages of `local`, but of the last round of an utterance a server may do the second. Satisfies `Staged`.

    within_s  so long after the end of speech the text is there, a server's or ours
    early     whether uploads begin while somebody speaks
    counts    how many last rounds were heard "here" and "there", and how many "failed" there and were heard here
    breaker   leaves a server that fails again and again alone
    """

    local: Staged
    remote: Remote
    offramp: Offramp
    within_s: float = 2.0
    early: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    _uploads: list[Upload] = field(default_factory=list)
    _took: tuple[float, ...] = ()  # seconds, the newest searches here
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def encode(
        self, plan: RoundPlan, audio: FloatArray, state: EncoderState | None, since: float | None = None
    ) -> Opened | None:
        """The first stage here; meanwhile the audio goes to the server, if that is going to hear it.

        `since` is when the round began to wait for its turn (`time.perf_counter`), or None where it did not.
        """
        pilot = _asked(plan)
        # A server knows nothing of a prefix: it would write the confirmed words that begin the window once more.
        sends = pilot is not None and not plan.prefix and self.offramp.sends(pilot.before, plan.window)
        began = time.perf_counter() if since is None else since
        upload = self._upload(audio)
        if not plan.ends_turn:
            self._go_on(upload, audio, sends and self.early and not self.breaker.is_open)
            return self.local.encode(plan, audio, state)
        answer, left_s = None, self._left_s(began)
        if sends and left_s > 0 and self.breaker.asks():
            if upload is not None:
                upload.add(audio)
            answer = self.remote.send(audio, left_s) if upload is None else upload.finish(left_s)
        elif upload is not None:
            upload.abandon()
        opened = None
        try:
            opened = self.local.encode(plan, audio, state)
        finally:
            if opened is None and answer is not None:  # nobody is going to wait for it
                answer.cancel()
                self.breaker.withdrawn()
        if answer is None or opened is None:
            self._count("here")
            return opened
        return Asked(opened, answer, began)

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The server's answer, if there is a usable one in time; else the second stage here."""
        if not isinstance(opened, Asked):
            return self._here(plan, opened, options, guards)
        if options.task == "translate":  # it was asked to transcribe
            self.withdraw(opened)
            self._count("here")
            return self._here(plan, opened.here, options, guards)
        try:
            # Waiting for a turn and encoding here have used some of the time.
            # With nothing left an answer that is there already is still taken.
            words = words_of(opened.answer.result(max(self._left_s(opened.since), 0.0)), plan.window)
            pilot = _asked(plan)
            # Where a pilot has heard words here, an answer without any is a failure.
            if not words and pilot is not None and pilot.before is not None and pilot.before.logprobs:
                raise RemoteError("the server found no words where there were some")
        except (RemoteError, TimeoutError, CancelledError) as error:
            log.warning("an utterance is decoded here: %s", str(error) or type(error).__name__)
            opened.answer.cancel()
            self._count("failed")
            self.breaker.failed()
            return self._here(plan, opened.here, options, guards)
        self._count("there")
        self.breaker.answered()
        # A server's words have no tokens of this model.
        heard = HeardUtterance(tuple(TokenWord(word, ()) for word in words))
        costs = (Cost("decode", time.perf_counter() - opened.since),)
        return RoundResult(plan, heard, costs=costs, stats=stats_of(costs, 0), state=opened.encoded.state)

    def withdraw(self, opened: Opened | None) -> None:
        """Nobody waits for the server's answer any more, if there is one to wait for."""
        if isinstance(opened, Asked):
            opened.answer.cancel()
            self.breaker.withdrawn()

    def _here(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard]
    ) -> RoundResult[Any]:
        """The second stage here, and how long it took."""
        began = time.perf_counter()
        found = self.local.decode(plan, opened, options, guards)
        with self._lock:
            self._took = (*self._took, time.perf_counter() - began)[-_REMEMBERED:]
        return found

    def _left_s(self, since: float) -> float:
        """The seconds to wait for an answer, if the text from here is to be found in time after that."""
        return since + self.within_s - max(self._took, default=0.0) - time.perf_counter()

    def _count(self, where: str) -> None:
        with self._lock:  # rounds of several sessions
            self.counts[where] += 1

    def _go_on(self, upload: Upload | None, audio: FloatArray, sends: bool) -> None:
        """An early upload gets what is new, begins, or ends."""
        if upload is not None and not sends:
            upload.abandon()
            return
        if upload is None and not sends:
            return
        if upload is None:
            upload = self.remote.open(audio)
        else:
            upload.add(audio)
        with self._lock:
            # At the end, also one that goes on: the first in the list are abandoned first.
            self._uploads.append(upload)
            surplus, self._uploads = self._uploads[:-_MOST_UPLOADS], self._uploads[-_MOST_UPLOADS:]
        for old in surplus:
            old.abandon()

    def _upload(self, audio: FloatArray) -> Upload | None:
        """The early upload of this audio, which is then the caller's."""
        with self._lock:
            for place, upload in enumerate(self._uploads):
                # By its audio, since an executor knows no sessions.
                if len(upload.sent) <= len(audio) and np.array_equal(upload.sent, audio[: len(upload.sent)]):
                    return self._uploads.pop(place)
        return None


def _asked(plan: RoundPlan) -> Pilot | None:
    """The pilot that the round is to be transcribed with, also where it may have been transcribed ahead."""
    hearing = plan.hearing.asked if isinstance(plan.hearing, HeardAhead) else plan.hearing
    return hearing if isinstance(hearing, Pilot) else None


def hybrid_executor(local: Staged, where: Hybrid) -> HybridExecutor:
    """The executor that a recipe asks for, with the server that the environment names. Raises `OptionError`."""
    server = server_here(where.tries)
    if server is None:
        return HybridExecutor(local)
    return HybridExecutor(HybridStages(local, _remote(server), where.decides(), where.remote_s, where.early))


@cache
def _remote(server: Server) -> Remote:
    """The one connection to a server, for all executors: it has a thread, which outlives them."""
    return Remote(server)


def server_here(tries: int = 2) -> Server | None:
    """The server that the environment names, or None. Raises `OptionError` for an address that is none."""
    url, model, key = (os.environ.get(f"WHISPERTIDE_REMOTE{name}", "") for name in ("", "_MODEL", "_KEY"))
    return Server(url, model, key, tries) if url else None
