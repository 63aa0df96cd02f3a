"""Other programs in the same run: on the same weights and audio, each in its own process and environment.

`make peers` makes the environments. A peer leaves the same `Trace` as our own recipes.
"""

from whispertide_lab.evaluation.peers.registry import PEERS, Peer, get_peer
from whispertide_lab.evaluation.peers.running import PeerUnavailable, run_peer_over, versions, why_not

__all__ = ["PEERS", "Peer", "PeerUnavailable", "get_peer", "run_peer_over", "versions", "why_not"]
