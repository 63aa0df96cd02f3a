"""Announce the Wyoming port on the local network, by multicast DNS: Home Assistant finds it (`serve --zeroconf`).

Source of the service's type: `wyoming.zeroconf` of the reference implementation. Needs the extra `discovery`.
"""

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import ifaddr
from zeroconf import Error, InterfaceChoice
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from whispertide.server.tcp import TcpListener

log = logging.getLogger("whispertide.server")

SERVICE = "_wyoming._tcp.local."
_GOODBYE_S = 2.0


@dataclass(eq=False)
class Announcement:
    """The announcement of a port that listens, under a name that people see. One that is taken gets a number."""

    listener: TcpListener
    name: str
    _network: AsyncZeroconf | None = field(default=None, init=False)

    async def start(self) -> None:
        """Announce. Where the network does not take it, the log says so, and the port is served all the same."""
        about = {"protocol": self.listener.protocol.name}
        bound = self.listener.addresses
        try:
            self._network = AsyncZeroconf(InterfaceChoice.All if any(map(_is_every, bound)) else bound)
            addresses = reachable(bound)
            service = AsyncServiceInfo(
                SERVICE, f"{self.name}.{SERVICE}", port=self.listener.port, parsed_addresses=addresses
            )
            await self._network.async_register_service(service, allow_name_change=True)
        except (OSError, Error) as error:
            log.warning("cannot be announced", extra={**about, "problem": repr(error)})
            return
        log.info("announced", extra={**about, "address": ", ".join(addresses)})

    async def stop(self) -> None:
        """Take it back."""
        if self._network is not None:
            with contextlib.suppress(OSError, Error, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    await self._network.async_close()


def reachable(bound: Sequence[str]) -> list[str]:
    """The addresses at which others find what is bound to these; of one that stands for all of this machine those that
    are neither loopback nor link-local.
    """
    if not any(map(_is_every, bound)):
        return list(bound)
    # IPv6 addresses are tuples, with their scope.
    found = [str(ip.ip if ip.is_IPv4 else ip.ip[0]) for adapter in ifaddr.get_adapters() for ip in adapter.ips]
    addresses = [(one, ipaddress.ip_address(one)) for one in found]
    return [one for one, address in addresses if not (address.is_loopback or address.is_link_local)]


def _is_every(address: str) -> bool:
    return ipaddress.ip_address(address).is_unspecified
