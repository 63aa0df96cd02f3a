"""Cells of other programs: whether one can be measured here on a corpus, with which settings, and how it hears it.

The programs themselves are `peers`; keeping results is the runner's and the store's affair.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whispertide_lab.evaluation import store
from whispertide_lab.evaluation.grid import CellRequest, Setup
from whispertide_lab.evaluation.replay import Recogniser
from whispertide_lab.evaluation.store import CellSpec, Results
from whispertide_lab.evaluation.trace import FREE, PROCESSOR, Trace
from whispertide_lab.speech.utterance import Corpus, Utterance

if TYPE_CHECKING:
    from whispertide_lab.evaluation.peers import Peer

LONGEST_LIVE_S = 900.0  # what runs in real time is not let loose on more audio than this
_BATCH_S = 300.0  # audio that a peer hears in one go, because it loads its model anew each time
_FOR_OTHERS = ("whispertide.streaming.repetition",)  # by what runs them, from outside of the folder of measurements
Settings = Mapping[str, str | int | float | bool]


class PeerMissing(Exception):  # noqa: N818  it is no error of the run: the others go on
    """A peer cannot run here; the message says why."""


def peer_code() -> str:
    """The version of the code that runs and scores other programs (`store.code_version`)."""
    return store.code_version("lab/evaluation", *_FOR_OTHERS)


def unfit(peer: "Peer", corpus: Corpus, clock: str) -> str:
    """Why a peer cannot be measured on this corpus by this clock; empty if it can."""
    if len(languages := spoken(corpus)) > 1:
        return f"it is told one language, and {corpus.name} has {', '.join(languages)}"
    if peer.clock != "live":
        return ""
    if clock in (FREE, PROCESSOR):
        return "it runs in real time, so its computing cannot be left out or counted by itself"
    length = sum(utterance.seconds for utterance in corpus.utterances())
    if length > LONGEST_LIVE_S:
        return f"it runs in real time, and {corpus.name} is {length / 60:.0f} minutes long: use --excerpt 600"
    return ""


def settings_of(
    peer: "Peer", request: CellRequest, corpus: Corpus, setup: Setup, clock: str
) -> dict[str, str | int | float | bool]:
    """All settings of a peer for this request. Raises `OptionError` for one that it does not have."""
    from whispertide.model.providers import thread_count

    wanted = {**request.settings, "threads": thread_count(setup.engine)}
    for language in spoken(corpus):
        wanted["language"] = language
    if request.step_s is not None:
        wanted["step_s"] = request.step_s
    if clock in (FREE, PROCESSOR):
        wanted["clock"] = clock
    return peer.settings({name: value for name, value in wanted.items() if name in peer.defaults})


def hearing(
    peer: "Peer", model: str, spec: CellSpec, corpus: Corpus, results: Results, settings: Settings
) -> Recogniser:
    """A peer that hears several utterances in one go; those that it hears ahead are kept in the store.

    The recogniser raises `PeerMissing` where the program fails.
    """
    from whispertide.checkpoint import hub
    from whispertide_lab.evaluation.peers import PeerUnavailable, run_peer_over

    folder = hub.path(model)
    waiting = [item for item in corpus.utterances() if results.trace(spec, item.id) is None]

    def recognise(utterance: Utterance) -> Trace:
        while waiting and waiting[0].id != utterance.id:
            waiting.pop(0)
        batch = [waiting.pop(0)]
        while waiting and sum(item.seconds for item in (*batch, waiting[0])) <= _BATCH_S:
            batch.append(waiting.pop(0))
        try:
            traces = run_peer_over(peer.name, folder, batch, settings)
        except PeerUnavailable as unavailable:
            raise PeerMissing(str(unavailable)) from unavailable
        for trace in traces:
            results.save_trace(spec, trace)
        return traces[0]

    return recognise


def spoken(corpus: Corpus) -> list[str]:
    """The languages of a corpus; recordings in which nobody speaks are in none."""
    return sorted({utterance.language for utterance in corpus.utterances() if utterance.words})
