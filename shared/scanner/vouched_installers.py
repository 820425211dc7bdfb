"""Downloads of well-known projects that are run: benign skills have many, so they have rules of their own.

Hosts where anyone can publish do not vouch for what they serve: code hosts, package CDNs, object stores. Nor does a
host with the skill's own name, which its author chose.
"""

import re
from collections.abc import Iterable

import msgspec

from shared.scanner.hosts import ADDRESS, Host, HostKind, SkillIdentity, find_host, registered_domain
from shared.scanner.matching import Hit, TextFile
from shared.scanner.pack import PUBLISHERS, load_pack
from shared.scanner.trust import OTHER_SOURCE, is_trusted_command

PIPED, SAVED = "RC-PIPE-SHELL", "RC-DOWNLOAD-RUN-LATER"
VOUCHED = {PIPED: "RC-PIPE-SHELL-VOUCHED", SAVED: "RC-DOWNLOAD-VOUCHED"}
RELEASE = re.compile(r"https://github\.com/[\w-]{1,40}/[\w.-]{1,100}/releases/(?:latest/)?download/")
# One fetch of one address with harmless options, into one shell. Anything else may run something else.
PLAIN = re.compile(
    r"\b(?:curl|wget)(?:\s+(?:-[a-z]{1,6}-?|--(?:proto|tlsv1\.\d|silent|fail|location|show-error)(?:[ =]'?=?https'?)?"
    r"))*\s+[\"']?(https://[^\s\"'`|$<>]{4,200})[\"']?\s*\|\s*(?:sudo\s+)?"
    r"(?:(?:ba|z)?sh(?:\s+-s)?|php|python3?(?:\s+-)?)(?=\s*(?:$|[\n`'\")&;]|\|\|))"
)


# The part of a name under which projects serve their own installers. Under others they keep what users upload.
OWN_NAMES = {
    "www",
    "get",
    "install",
    "installer",
    "setup",
    "sh",
    "cli",
    "dl",
    "download",
    "downloads",
    "releases",
    "static",
}


def tell_vouched_apart(hits: Iterable[Hit], skill: SkillIdentity, texts: Iterable[TextFile]) -> list[Hit]:
    """Hits of a download that is run get another rule where the host is well known, unless the skill tells
    installers to fetch from another one."""
    hits = list(hits)
    is_concerned = any(hit.rule.id in TESTS for hit in hits)
    is_diverted = is_concerned and any(OTHER_SOURCE.search(file.original) for file in texts)
    return hits if is_diverted else [_apart(hit, skill) for hit in hits]


def _apart(hit: Hit, skill: SkillIdentity) -> Hit:
    test = TESTS.get(hit.rule.id)
    if test is None or not test(hit.text, skill):
        return hit
    return msgspec.structs.replace(hit, rule=load_pack().rules[VOUCHED[hit.rule.id]])


def _is_plain_installer(text: str, skill: SkillIdentity) -> bool:
    match = PLAIN.search(text)
    if match is None or is_trusted_command(match.group(), load_pack().trusted["installers"]):
        return False  # a trusted one would be no hit if nothing around it made it another command
    return _is_vouched(find_host(match.group(1), skill))


def _is_vouched_download(text: str, skill: SkillIdentity) -> bool:
    """All that is fetched is of well-known hosts, or a release of a well-known owner. Only the owner makes releases,
    while any other path of a code host may show the commit of a fork."""
    addresses = [match.group() for match in ADDRESS.finditer(text)]
    return bool(addresses) and all(_may_be_saved(address, find_host(address, skill)) for address in addresses)


def _may_be_saved(address: str, host: Host | None) -> bool:
    is_of_known_owner = host is not None and host.kind is HostKind.KNOWN and host.owner != ""
    return _is_vouched(host) or (is_of_known_owner and RELEASE.match(address) is not None)


def _is_vouched(host: Host | None) -> bool:
    if host is None or host.catcher or host.kind is not HostKind.KNOWN:
        return False
    return _is_of_the_project(host.name) and not _serves_anybody(host.name)


def _serves_anybody(host: str) -> bool:
    pack = load_pack()
    listed = (*pack.trusted[PUBLISHERS], *pack.hosts.uploads)
    return host.startswith(("s3.", "s3-")) or any(f".{host}".endswith(f".{name.lstrip('.')}") for name in listed)


def _is_of_the_project(host: str) -> bool:
    """The host itself is counted, or it is the domain or one of the usual names under it."""
    domain = registered_domain(host)
    below = host.removesuffix(domain).rstrip(".")
    return not below or below in OWN_NAMES or load_pack().hosts.counts.get(host, 0) > 1


TESTS = {PIPED: _is_plain_installer, SAVED: _is_vouched_download}
