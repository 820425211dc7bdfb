"""The table of hosts as data: read from YAML when the pack is compiled, loaded with it."""

from typing import Any

import msgspec


class HostTable(msgspec.Struct, frozen=True, kw_only=True):
    counts: dict[str, int]  # hosts, domains and `forge/owner`: by how many collections of ordinary skills it is named
    known: frozenset[str]
    tenants: frozenset[str]
    tenant_paths: frozenset[str]
    catchers: frozenset[str]
    forges: frozenset[str]
    known_owners: frozenset[str]
    placeholder_owners: frozenset[str]
    forge_apis: dict[str, tuple[str, ...]]
    placeholders: frozenset[str]
    uploads: frozenset[str]
    villains: frozenset[str]
    descriptive: frozenset[str]
    services: dict[str, tuple[str, ...]]  # a word in the name of a secret: the domains it belongs to


# AWS serves its own API beside its tenants, so its tenants are recognised by the parts of the name.
_MIXED = frozenset({"amazonaws.com", "gateway.ai.cloudflare.com"})


def host_table(hosts: dict[str, Any], counted: dict[str, Any], publishers: dict[str, str]) -> HostTable:
    """From hosts.yaml, known_hosts.yaml and the publishers of trusted.yaml."""
    words = {key: frozenset(value.split()) for key, value in hosts.items() if isinstance(value, str)}
    return HostTable(
        counts=dict(counted["hosts"]),
        known=words["known"],
        tenants=(words["tenants"] | frozenset(publishers["by_name"].split())) - _MIXED,
        tenant_paths=words["tenant_paths"],
        catchers=words["catchers"],
        forges=words["forges"],
        known_owners=words["known_owners"],
        placeholder_owners=words["placeholder_owners"],
        forge_apis={host: tuple(segments) for host, segments in hosts["forge_apis"].items()},
        placeholders=words["placeholders"],
        uploads=words["uploads"],
        villains=words["villains"],
        descriptive=words["descriptive"],
        services={
            word: tuple(domains.split()) for names, domains in hosts["services"].items() for word in names.split()
        },
    )
