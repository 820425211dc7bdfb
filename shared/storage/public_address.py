"""Which addresses a webhook may be sent to: public ones. However a name is written, what counts is the address that is
connected to. Pure."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

# IPv6 addresses that lead to an IPv4 address of their own choosing: NAT64, 6to4, Teredo, IPv4-compatible.
_EMBEDDING = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10")))


def is_public(address: str) -> bool:
    """False also for what is no address at all, and for one with a zone."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        return _is_public_v6(parsed)
    return _is_public_v4(parsed)


def is_loopback_address(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _is_public_v6(address: IPv6Address) -> bool:
    if address.ipv4_mapped is not None:
        return _is_public_v4(address.ipv4_mapped)
    embeds = any(isinstance(net, IPv6Network) and address in net for net in _EMBEDDING)
    return address.is_global and not (embeds or address.is_multicast or address.scope_id)
