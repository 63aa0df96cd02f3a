"""The party that an address counts for: the address itself, or in IPv6 its whole network."""

import ipaddress

_NETWORK = 64  # bits of an IPv6 network, of which anybody who has one address has all (RFC 6177)


def party_of(address: str) -> str:
    """One name for all addresses that one party may have: an IPv4 address, or the /64 of an IPv6 address.

    What is no address is its own name.
    """
    try:
        # Without the zone of a link-local address ("fe80::1%eth0").
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    # A socket of both families names an IPv4 peer "::ffff:127.0.0.1".
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _NETWORK), strict=False))
