"""Which addresses a webhook may be sent to: public ones. However a name is written, what counts is the address that is
connected to. Pure."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# What is given to hosts of the internet today. Everything outside is reserved, local, or leads to an IPv4 address of
# its own choosing (mapped, translated, NAT64, IPv4-compatible).
_UNICAST = IPv6Network("2000::/3")
# Within it: 6to4 and Teredo, which embed IPv4 addresses, and addresses for documentation.
_NOT_HOSTS = tuple(map(IPv6Network, ("2002::/16", "2001::/32", "3fff::/20")))
# IPv4 for protocols between neighbours, and the relays of 6to4.
_PROTOCOLS = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")))


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
    is_protocol = any(address in net for net in _PROTOCOLS)
    return address.is_global and not (is_protocol or address.is_multicast or address.is_reserved)


def _is_public_v6(address: IPv6Address) -> bool:
    if address.ipv4_mapped is not None:
        return _is_public_v4(address.ipv4_mapped)
    is_host = address in _UNICAST and not any(address in net for net in _NOT_HOSTS)
    return address.is_global and is_host and not address.scope_id
