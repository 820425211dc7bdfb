"""Whose host is it: a condition on what is sent there or fetched from there, never a finding by itself.

Names of hosts come from hosts.yaml (written by hand) and known_hosts.yaml (counted by `python -m bench.hosts`). This is
not the trust of trust.py, which excuses an installer only for exact addresses.
"""

import ipaddress
import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from shared.scanner.host_table import HostTable
from shared.scanner.pack import load_pack

KNOWN_AT = 3  # sources: with the skill's own source among them, two others remain
MIN_WORD = 4
MAX_HOST = 253
ADDRESS = re.compile(
    r"(?<![a-z0-9+.-])(?:https?|wss?|ftps?|git|ssh|tcp|udp)://[^\s\"'`<>|)\]},;*\\]{1,2000}", re.IGNORECASE
)
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,62})?\.)*[a-z0-9_-]{1,63}\Z")
# A part that a program fills in: `$REGION`, `${tenant}`, `{id}`, `<your-id>`, `%s`.
_VARIABLE = re.compile(r"\$\{[^{}]{0,80}\}|\$\([^()]{0,80}\)|\$\w{1,60}|\{\{?[^{}]{0,80}\}?\}|<[^<>]{0,80}>|%[sd]")
_NUMBER = re.compile(r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}\Z")
_WORD = re.compile(r"[a-z0-9]+")
_PROPER_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][A-Za-z0-9]{3,30}\b")
_DOMAIN_IN_TEXT = re.compile(r"(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,24}(?![\w-])", re.IGNORECASE)
# Second-level names that countries hand out: the registered domain has one part more.
_SECOND_LEVEL = frozenset({"co", "com", "org", "net", "gov", "ac", "edu", "go", "or", "ne"})
_AFFIXES = (
    "get",
    "use",
    "try",
    "go",
    "the",
    "my",
    "app",
    "api",
    "hq",
    "labs",
    "dev",
    "ai",
    "io",
    "cloud",
    "docs",
    "cli",
)
_LOCAL_DOMAINS = frozenset({"localhost", "local", "internal", "lan", "home", "arpa", "localdomain"})
_TEST_DOMAINS = frozenset({"test", "invalid", "example"})
# evil.example.com is an example too, but of an attack: what sends something there is not excused.
_VILLAIN = re.compile(
    r"evil|attack|malicious|malware|exfil|steal|hacker|phish|collector|c2\b|drop|covert|shadow|sniff|keylog|hostile|harvest|beacon"
)
# The host of an attacker, in the words of its author: it receives what others send.
_ATTACKER = re.compile(
    r"(?:^|[.-])(?:evil|attackers?|malicious|malware|exfil(?:trat\w{1,5})?|hackers?|phish(?:ing)?|keylog\w{0,4}|c2|stealer)\d{0,3}"
    r"(?=[.-]|$)"
)
_AWS_TENANTS = re.compile(
    r"(?:^|\.)(?:s3[a-z0-9-]*|execute-api|elb|compute(?:-1)?|elasticbeanstalk|lambda-url)(?:\.|$)"
)


class HostKind(StrEnum):
    KNOWN = "known"  # a well-known domain, or one that several unrelated collections of ordinary skills name
    OWN = "own"  # carries the skill's name, or is its homepage or repository
    TENANT = "tenant"  # belongs to a customer of a platform that serves anybody
    FORGE = "forge"  # what an owner publishes on a code host
    BARE = "bare"  # a public number without a name
    RESERVED = "reserved"  # documentation, the machine itself, a private network
    UNKNOWN = "unknown"


class Host(msgspec.Struct, frozen=True):
    name: str
    kind: HostKind
    owner: str = ""  # the tenant of a platform, or the owner on a code host
    sources: int = 0  # independent collections of ordinary skills that name it
    catcher: bool = False  # exists to receive what others send: request bins, paste and drop sites, tunnels
    local: bool = False  # reserved because it does not leave the machine or its network

    @property
    def vouched(self) -> bool:
        """There is an answer to whose host it is, and the answer is not a stranger."""
        return self.kind in (HostKind.KNOWN, HostKind.OWN, HostKind.RESERVED)


class SkillIdentity(msgspec.Struct, frozen=True):
    """What a skill calls itself: the words and the domains that make a host its own."""

    words: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()  # on code hosts, in lower case


NOBODY = SkillIdentity()


def identity_of(name: str, description: str = "", addresses: Iterable[str] = ()) -> SkillIdentity:
    """`addresses`: homepage and repository of its front matter."""
    words = {*_name_words(name), *(word.lower() for word in _PROPER_NAME.findall(description))}
    hosts = [host for address in addresses if (host := find_host(address)) is not None]
    domains = {registered_domain(host.name) for host in hosts if host.kind is HostKind.UNKNOWN}
    domains |= {registered_domain(found.lower()) for found in _DOMAIN_IN_TEXT.findall(description)}
    return SkillIdentity(
        words=frozenset(word for word in words if len(word) >= MIN_WORD and word not in load_pack().hosts.descriptive),
        domains=frozenset(domain for domain in domains if "." in domain and domain not in _shared_domains()),
        owners=frozenset(host.owner for host in hosts if host.kind is HostKind.FORGE and host.owner),
    )


def _name_words(name: str) -> set[str]:
    """`acme-mail-helper`: acme, mail, acmemail and acmemailhelper, but not what only describes."""
    parts = _WORD.findall(name.lower())[:12]
    joined = {"".join(parts[start:end]) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)}
    descriptive = {
        "".join(parts[start:end])
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
        if all(part in load_pack().hosts.descriptive or len(part) < MIN_WORD for part in parts[start:end])
    }
    return joined - descriptive


def find_host(address: str, skill: SkillIdentity = NOBODY) -> Host | None:
    """The host of an address, with or without a scheme. None when the address does not say which host it is."""
    authority, path = _split(address)
    name = _host_name(authority)
    return None if name is None else _classified(name, path, skill)


def hosts_in(text: str, skill: SkillIdentity = NOBODY) -> list[Host]:
    """The hosts of the addresses in a text, in order."""
    return [host for match in ADDRESS.finditer(text) if (host := find_host(match.group(), skill)) is not None]


def forget_classified() -> None:
    """After the table was exchanged, to measure without a part of it."""
    _classified.cache_clear()


def registered_domain(name: str) -> str:
    """`api.acme.co.uk`: acme.co.uk. Close enough for names; it grants nothing by itself."""
    parts = name.split(".")
    is_country = len(parts) > 2 and len(parts[-1]) == 2 and parts[-2] in _SECOND_LEVEL
    return ".".join(parts[-3 if is_country else -2 :])


def secret_belongs_to(secret: str, host: Host) -> bool:
    """Whether a secret is named after the service that receives it: GITHUB_TOKEN to api.github.com."""
    if host.catcher or host.kind in (HostKind.TENANT, HostKind.BARE):
        return _is_platform_of(secret, host)
    words = _secret_words(secret)
    services = load_pack().hosts.services
    listed = [services[word] for word in words if word in services]
    if any(_is_under(host.name, domain) for domains in listed for domain in domains):
        return True
    label = registered_domain(host.name).split(".")[0].replace("-", "")
    if label in load_pack().hosts.descriptive or len(label) < MIN_WORD:
        return False
    return label in {word for word in words if word not in services} or label in _joined_words(secret)


def _is_platform_of(secret: str, host: Host) -> bool:
    """A database or a function of the user's own: SUPABASE_KEY to abc.supabase.co. Not a request catcher."""
    services = load_pack().hosts.services
    domains = [domain for word in _secret_words(secret) for domain in services.get(word, ())]
    if host.name == "api.telegram.org" or "/api/webhooks" in host.owner:
        return any(_is_under(host.name, domain) for domain in domains)
    return not host.catcher and any(_is_under(host.name, domain) for domain in domains)


def _secret_words(secret: str) -> list[str]:
    return _WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1_\2", secret).lower())[:12]


def _joined_words(secret: str) -> set[str]:
    """OPEN_WEATHER_API_KEY may belong to openweather.com; a service that is listed has its own domains."""
    words = _secret_words(secret)
    services = load_pack().hosts.services
    return {"".join(words[:end]) for end in range(2, min(len(words), 4) + 1)} - services.keys()


def _split(address: str) -> tuple[str, str]:
    """Authority and path. User names and ports are not part of a host."""
    scheme, separator, after = address.strip().partition("://")
    rest = after if separator else scheme.removeprefix("//")
    cut = re.search(r"[/?#\\]", _VARIABLE.sub(lambda m: "x" * len(m.group()), rest))
    authority, path = (rest[: cut.start()], rest[cut.start() + 1 :]) if cut else (rest, "")
    if "://" not in address and "@" in authority and ":" in authority.rpartition("@")[2]:
        authority, _, path = authority.rpartition("@")[2].partition(":")  # git@host:owner/name
    return authority.rpartition("@")[2], path


def _host_name(authority: str) -> str | None:
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower() or None
    filled = _VARIABLE.sub("variable", authority.partition(":")[0] if not _VARIABLE.match(authority) else authority)
    name = filled.partition(":")[0].lower().rstrip(".").removeprefix("www.")
    if not name or len(name) > MAX_HOST or not _HOST.match(name):
        return None
    # Only what a program does not fill in says whose host it is.
    return None if "variable" in ".".join(name.split(".")[-2:]) else name


@lru_cache(maxsize=4096)
def _classified(name: str, path: str, skill: SkillIdentity) -> Host:
    table = load_pack().hosts
    sources = table.counts.get(name, 0)
    if (number := _number(name)) is not None:
        return _numbered(name, number)
    if _is_reserved(name, table):
        return Host(name, HostKind.RESERVED, local=_is_local(name), sources=sources)
    catcher = _listed(name, path, table.catchers) or _ATTACKER.search(name) is not None
    if (owner := _forge_owner(name, path, table)) is not None:
        return _forge(name, owner, skill, table)
    if (tenant := _tenant(name, path, table)) is not None:
        return Host(name, HostKind.TENANT, tenant, sources, catcher=catcher)
    domain = registered_domain(name)
    counted = max(sources, table.counts.get(domain, 0))
    if domain not in table.villains and (_under_any(name, table.known) or counted >= KNOWN_AT):
        return Host(name, HostKind.KNOWN, sources=counted)
    return Host(name, HostKind.OWN if _is_own(domain, skill) else HostKind.UNKNOWN, sources=counted, catcher=catcher)


def _forge(name: str, owner: str, skill: SkillIdentity, table: HostTable) -> Host:
    sources = max(table.counts.get(f"{name}/{owner}", 0), table.counts.get(f"github.com/{owner}", 0))
    if sources >= KNOWN_AT or not owner or owner in table.known_owners:
        return Host(name, HostKind.KNOWN, owner, sources)
    return Host(name, HostKind.OWN if owner in skill.owners else HostKind.FORGE, owner, sources)


def _forge_owner(name: str, path: str, table: HostTable) -> str | None:
    """The owner that a path names; empty for the code host itself; None for any other host."""
    segments = [segment for segment in re.split(r"[/?#]", path.lower()) if segment]
    if name in table.forge_apis:
        if segments[:1] and segments[0] in table.forge_apis[name]:
            return _named_owner(segments[1], table) if len(segments) > 1 else ""
        if name not in table.forges:
            return ""
    if name not in table.forges:
        return None
    return _named_owner(segments[0], table) if segments else ""


def _named_owner(segment: str, table: HostTable) -> str:
    is_name = _WORD.match(segment) and not _VARIABLE.search(segment) and segment not in table.placeholder_owners
    return segment if is_name else ""


def _tenant(name: str, path: str, table: HostTable) -> str | None:
    if _listed(name, path, table.tenant_paths):
        return path.lower().split("?")[0][:60]
    if _is_under(name, "amazonaws.com"):
        return name if _AWS_TENANTS.search(name.removesuffix("amazonaws.com")) else None
    for parent in _parents(name):
        if parent in table.tenants and parent != name:
            return name.removesuffix(f".{parent}")
    return None


def _listed(name: str, path: str, entries: frozenset[str]) -> bool:
    """`host` or a name under it; `host/path` only with that path."""
    if any(parent in entries for parent in _parents(name)):
        return True
    segments = path.lower().split("/")
    return any(f"{name}/{'/'.join(segments[:count])}" in entries for count in (1, 2, 3))


def _is_own(domain: str, skill: SkillIdentity) -> bool:
    if domain in skill.domains:
        return True
    label = domain.split(".")[0].replace("-", "")
    stripped = {label.removeprefix(affix) for affix in _AFFIXES} | {label.removesuffix(affix) for affix in _AFFIXES}
    return not skill.words.isdisjoint(stripped)


def _number(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return _odd_number(name)


def _odd_number(name: str) -> ipaddress.IPv4Address | None:
    """`0x7f000001` and `2130706433` are numbers to a program."""
    if not _NUMBER.match(name) or len(name) > 40:
        return None
    parts = [int(part, 16) if part.startswith("0x") else int(part) for part in name.split(".")]
    value = sum(part << 8 * (3 - index) for index, part in enumerate(parts[:-1])) + parts[-1]
    return ipaddress.IPv4Address(value) if value < 2**32 else None


def _numbered(name: str, number: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Host:
    # The address of a cloud's metadata is link-local: reserved, and a source of secrets rather than a sink.
    local = number.is_loopback or number.is_unspecified or number.is_private or number.is_link_local
    if local and not _is_documentation(number):
        return Host(name, HostKind.RESERVED, local=True)
    return Host(name, HostKind.BARE)


def _is_documentation(number: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Ranges for examples (RFC 5737) stand for a public number: a skill that contains one means a server."""
    return str(number).startswith(("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:"))


def _is_local(name: str) -> bool:
    return "." not in name or name.rpartition(".")[2] in _LOCAL_DOMAINS


def _is_reserved(name: str, table: HostTable) -> bool:
    if _is_local(name):
        return True
    is_placeholder = registered_domain(name) in table.placeholders or name.rpartition(".")[2] in _TEST_DOMAINS
    is_shallow = name.count(".") <= registered_domain(name).count(".") + 1  # a.b.example.com is more than a placeholder
    return ((is_placeholder and is_shallow) or name.startswith(("your-", "your."))) and not _VILLAIN.search(name)


def _under_any(name: str, domains: frozenset[str]) -> bool:
    return any(parent in domains for parent in _parents(name))


def _is_under(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")


def _parents(name: str) -> list[str]:
    """The name and each domain above it, without the last part alone."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(max(1, len(parts) - 1))]


def _shared_domains() -> frozenset[str]:
    table = load_pack().hosts
    return table.tenants | table.forges | table.tenant_paths
