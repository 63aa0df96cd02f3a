"""What hostile clients hold: as many connections as they get, and say nothing."""

from contextlib import ExitStack

from hostile.assault import Assault
from hostile.wire import Wire, connection, shake_hands

_MOST = 600  # of a key's connections
_EACH = 256  # of an address's sockets, which is what the server lets one have
_ADDRESSES = tuple(f"127.0.0.{number}" for number in (2, 3, 4))
_AGAIN_S = 0.5  # until those that the server closed are opened anew


def idle(assault: Assault, _: int) -> None:
    """One key's WebSockets, up to the limit, from three addresses; those that are closed are opened anew."""
    _hold(assault, _MOST // len(_ADDRESSES), "/ws")


def silent(assault: Assault, _: int) -> None:
    """Sockets of three addresses that never say anything."""
    _hold(assault, _EACH, "")


def _hold(assault: Assault, each: int, path: str) -> None:
    with ExitStack() as stack:
        held: dict[tuple[str, int], Wire] = {}
        for _ in assault.turns():
            for place in ((address, number) for address in _ADDRESSES for number in range(each)):
                if not assault.going:
                    return
                if place in held and _is_open(held[place]):
                    continue
                try:
                    held[place] = stack.enter_context(connection(assault, source=place[0]))
                    if path:
                        shake_hands(held[place], path)
                except OSError as error:
                    assault.met[type(error).__name__] += 1
                    held.pop(place, None)
                    break  # no place: not before the next turn
            assault.tally["most held"] = max(assault.tally["most held"], len(held))
            assault.rest(_AGAIN_S)


def _is_open(wire: Wire) -> bool:
    try:
        wire.read()
    except OSError:
        wire.close()
        return False
    return True
