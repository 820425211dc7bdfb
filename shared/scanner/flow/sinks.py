"""The one place that decides whether a value that reaches a destination is stolen.

A secret that is sent to the service it is named after is none, and neither is an authorization header: that is what
secrets are for. A private key, a keychain or the whole environment has no business on any other machine.
"""

import re
from enum import StrEnum

from shared.scanner.flow.values import HOLE, Source, SourceKind, Value
from shared.scanner.hosts import NOBODY, Host, HostKind, SkillIdentity, find_host, secret_belongs_to


class Channel(StrEnum):
    """How a value leaves."""

    BODY = "body"  # of a request, or a file that is uploaded
    HEADER = "header"
    ADDRESS = "address"  # the path or the query of a request
    HOST_NAME = "host name"  # a DNS query, or the host of a request: the name itself carries the value
    SOCKET = "socket"
    PUSH = "push"  # git push, scp, rsync, object stores
    POST = "post"  # issues, gists, pastes, mail, chat: other people read it


SHOWN = {"github": "GitHub", "gh": "GitHub", "openai": "OpenAI", "aws": "AWS", "gitlab": "GitLab", "npm": "npm"}
# These belong to the machine or to a server of the user's own rather than to a company.
NO_COMPANY = ("", "ssh", "database", "kubernetes", "docker", "signing")
_STRANGERS = (HostKind.UNKNOWN, HostKind.TENANT, HostKind.BARE, HostKind.FORGE)
_HEADER_NAME = (
    r"(?:proxy-)?authorization|cookie|(?:x-)?[\w-]{0,40}(?:api-?key|token|auth|secret|access-?key)[\w-]{0,40}"
)
_AUTH_HEADER = re.compile(rf"\s{{0,9}}[\"']?(?:{_HEADER_NAME})[\"']?\s{{0,9}}[:=]", re.IGNORECASE)
_AUTHORITY = re.compile(r"\s{0,9}[\"']?(?:[a-z][a-z0-9+.-]{0,20}://)?([^/?#\s]{0,300})", re.IGNORECASE)


def host_of(address: Value, skill: SkillIdentity = NOBODY) -> Host | None:
    """`address`: a URL, a host or `user@host:path`, with holes. None if only a run would show it."""
    return find_host(address.text.strip(" \"'").replace(HOLE, "{}"), skill)


def is_in_host_name(address: Value) -> bool:
    match = _AUTHORITY.match(address.text)
    return match is not None and HOLE in match.group(1)


def is_authorization(header: Value) -> bool:
    """`Authorization: Bearer …` and the like: how a secret is meant to be used."""
    return _AUTH_HEADER.match(header.text) is not None


def theft(source: Source, to: Host | None, channel: Channel, authorizes: bool = False) -> str:
    """Why this is theft, to follow "sent to HOST"; empty if it is none. `authorizes`: as an authorization header."""
    if to is None:
        return _to_somewhere(source, channel)
    if to.kind is HostKind.RESERVED or _belongs(source, to):
        return ""
    if authorizes and not (to.catcher or to.kind is HostKind.BARE):
        return ""
    if source.kind in (SourceKind.CREDENTIAL, SourceKind.HISTORY, SourceKind.ENVIRONMENT):
        return _of_credentials(source, to, channel)
    if source.kind is SourceKind.SECRET:
        return _of_secret(source, to)
    return _of_data(source, to, channel)


def _to_somewhere(source: Source, channel: Channel) -> str:
    """The address is in a variable that is set outside: only what no honest program sends is theft."""
    if channel is Channel.HEADER or source.kind is not SourceKind.CREDENTIAL:
        return ""
    return "wherever that is" if source.service == "ssh" else ""


def _belongs(source: Source, to: Host) -> bool:
    name = source.name if source.kind is SourceKind.SECRET else source.service
    return bool(name) and secret_belongs_to(name, to)


def _of_credentials(source: Source, to: Host, channel: Channel) -> str:
    is_public = channel in (Channel.PUSH, Channel.POST) or to.catcher
    if to.kind is HostKind.KNOWN and not is_public and source.kind is SourceKind.CREDENTIAL and not source.service:
        return ""  # a token file of that service, as far as its name tells
    return _not_theirs(source)


def _of_secret(source: Source, to: Host) -> str:
    if to.catcher or to.kind is HostKind.BARE:
        return _not_theirs(source)
    return _not_theirs(source) if source.service and to.kind in _STRANGERS else ""


def _of_data(source: Source, to: Host, channel: Channel) -> str:
    is_workspace = source.kind is SourceKind.WORKSPACE
    if source.kind is SourceKind.DOWNLOAD or (is_workspace and channel is Channel.PUSH):  # that is how one deploys
        return ""
    if to.catcher or to.kind is HostKind.BARE:
        return "which records what anybody sends"
    named = channel is Channel.HOST_NAME or source.kind is SourceKind.AGENT
    owned = (HostKind.UNKNOWN,) if is_workspace else (HostKind.UNKNOWN, HostKind.TENANT)
    return "whose owner is not known" if (named or is_workspace) and to.kind in owned else ""


def _not_theirs(source: Source) -> str:
    if source.service in NO_COMPANY:
        return "where it does not belong"
    return f"which is not {SHOWN.get(source.service, source.service.capitalize())}'s"
