"""Before a run: what cannot be measured is said before audio is made or computed, then everything is made ready.

The order is that of the price: names and tools, the folder of results, models and what recipes need next to them,
corpora that are read, and last those that are made.
"""

from collections.abc import Iterable, Sequence

from whispertide_lab.evaluation.corpora import MADE, check_corpus
from whispertide_lab.evaluation.grid import PEER, CellRequest
from whispertide_lab.evaluation.peer_cells import PeerMissing
from whispertide_lab.evaluation.runner import Runner


def prepare(runner: Runner, requests: Sequence[CellRequest]) -> list[CellRequest]:
    """The requests that can be measured; their models work, and their corpora are there. Peers that cannot run say why.

    Raises `OutputError`, `OptionError`, `CorpusError`, `CheckpointError`, `GraphError` and `AudioFileError` for what
    cannot be had.
    """
    for name in dict.fromkeys(request.corpus for request in requests):
        check_corpus(name)
    able = _without_missing_peers(runner, requests)
    if able:
        runner.results.check_writable()
    for request in reversed(able):  # so that the first model, which comes first, is the one that stays loaded
        transcriber = runner.transcriber(request.model)
        if request.recipe is not None:
            transcriber.session(request.recipe).close()
    for request in sorted(able, key=lambda request: request.corpus in MADE):
        runner.open_corpus(request.corpus, request.model)
    return [request for request in able if _has_jobs(runner, request)]


def _without_missing_peers(runner: Runner, requests: Iterable[CellRequest]) -> list[CellRequest]:
    from whispertide_lab.evaluation.peers import get_peer, why_not

    able = []
    for request in requests:
        reason = request.recogniser.startswith(PEER) and why_not(get_peer(request.recogniser.removeprefix(PEER)))
        if reason:
            runner.watch.say(f"{request.recogniser} cannot run: {reason}")
        else:
            able.append(request)
    return able


def _has_jobs(runner: Runner, request: CellRequest) -> bool:
    """Whether it can be measured on this corpus, which only peers cannot."""
    try:
        return bool(runner.jobs(request))
    except PeerMissing as missing:
        runner.watch.say(f"{request.recogniser} cannot run: {missing}")
        return False
