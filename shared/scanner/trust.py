"""Addresses that excuse a match: exactly those of trusted.yaml, by scheme, host and whole path segments.

The reader of a command is a program, so each address in it counts, with or without a scheme, and so does each option
that sends the request somewhere else. What is not understood is not trusted.
"""

import re

from shared.scanner.anchored import AnchoredPattern

LOCAL = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "host.docker.internal"})  # noqa: S104 - compared, never bound
ADDRESS = re.compile(r"(?<![a-z0-9+.-])(?:[a-z][a-z0-9+.-]{0,20})?://[^\s\"'`<>|)\]},;*]*", re.IGNORECASE)
# An address without a scheme: a host with a path or a port, or a number. File names have neither.
BARE_ADDRESS = re.compile(
    r"(?<![\w/.:~-])(?:[a-z0-9-]{1,63}\.)+[a-z]{2,24}(?::\d{1,5})?/"
    r"|(?<![\w/.:-])(?:[a-z0-9-]{1,63}\.)+[a-z]{2,24}:\d{2,5}\b|(?<![\w/.:=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])",
    re.IGNORECASE,
)
# These send a request to another host than its address says, or take its address from another place.
REDIRECTING = re.compile(
    r"prox(?:y|ies)|socks[45]|(?<!\S)-x\s?[^\s-]|--(?:resolve|connect-to|doh-url|unix-socket|abstract-unix-socket|config"
    r"|trusted-host|input-file|base|header-file|interface|dns-\w{1,12}|url-query|variable|expand-\w{1,20})\b"
    r"|\bhost\s*:|curlrc|wgetrc|curl_home|--next\b|-:|/etc/hosts|\balias\s|\bfunction\s",
    re.IGNORECASE,
)
# Settings that make an installer fetch from another place than its own, wherever in the file they stand.
_OTHER_SOURCE = re.compile(
    r"\b(?:RUSTUP_(?:UPDATE_ROOT|DIST_SERVER)|NVM_(?:SOURCE|NODEJS_ORG_MIRROR)|HOMEBREW_\w{1,40}|UV_\w{1,40}|BUN_\w{1,40}"
    r"|GITHUB(?:_\w{1,20})?|REMOTE|DENO_\w{1,40}|PNPM_\w{1,40}|VOLTA_\w{1,40}|FNM_\w{1,40}|PYENV_\w{1,40}|NIX_\w{1,40}|K3S_\w{1,40}"
    r"|CARGO_\w{1,40}|GO_?(?:PROXY|LANG_\w{1,20})|MIRROR(?:_\w{1,20})?)=[\"']?\w{2,10}(?:://|@)"
    r"|\binsteadOf\b|\bGIT_CONFIG_\w{1,20}=",
    re.IGNORECASE,
)
OTHER_SOURCE = AnchoredPattern("other source", _OTHER_SOURCE)
FETCHER = re.compile(
    r"(?<![\w./-])(?:curl|wget|aria2c|iwr|irm|invoke-webrequest|invoke-restmethod)(?:\.exe)?(?=\s)", re.IGNORECASE
)
COMMAND_END = re.compile(r"[|;&)`\n<>]")
# Options that change nothing about where a request goes, alone or with a value; any other makes a command unclear.
PLAIN_OPTIONS = frozenset(
    (
        *("--fail", "--silent", "--show-error", "--location", "--tlsv1.2", "--tlsv1.3", "--compressed"),
        *("--progress-bar", "--quiet", "--no-verbose", "--remote-name", "--http1.1", "--http2", "--ssl-reqd"),
        *("--fail-with-body", "--no-progress-meter", "--show-progress", "--create-dirs", "--remote-header-name"),
        *("--retry-all-errors", "--retry-connrefused", "--https-only", "-useb", "-usebasicparsing"),
    )
)
VALUE_OPTIONS = frozenset(
    (
        *("--output", "--retry", "--retry-delay", "--retry-max-time", "--connect-timeout", "--max-time"),
        *("--proto", "--proto-redir", "--tls-max", "-A", "--user-agent", "-H", "--header", "-w", "--write-out"),
        *("-P", "--directory-prefix", "--max-redirs", "--tries", "--timeout", "--cacert", "--output-dir"),
        *("--output-document", "-outfile", "-uri"),
    )
)
SHORT_OPTIONS = re.compile(r"-[fsSLqkjgvinNcJRlO#046]*(?:o|O-|o-)?\Z")
WORD = re.compile(r"(?:[^\s\"']|\"[^\"\n]*\"|'[^'\n]*')+")
AFTER_ADDRESS = re.compile(r"[\"'`]{0,2}(?:[\s)|;&,\]}>]|\Z|\.(?:\s|\Z))")
_AUTHORITY = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::(\d{1,5}))?\Z")
_NAMED_REF = re.compile(r"(?:main|master|head|stable|trunk|develop|v?\d{1,4}(?:\.\d{1,6}){1,3}(?:[.-][\w.-]{0,30})?)\Z")
_PLACEHOLDER_OWNER = re.compile(
    r"[/:](?:you|your-?(?:org|name|user|username|company|team|account)|user(?:name)?|org(?:anization)?|owner|example|<[^<>/]{1,40}>|_+)/"
)
_SHORT_FORM = re.compile(r"\A(?:github:|git@github\.com:|ssh://git@github\.com/|(?=github\.com/))(?:github\.com/)?")
_REPOSITORY = re.compile(
    r"https://(?:www\.)?(github\.com/[\w-]{1,40})/[\w.-]{1,100}?(?:\.git)?(?:/[\w./-]{0,200})?(?:[@#]([\w./-]{1,100}))?(?:#[\w=&./-]{0,100})?\Z"
)
_FORGE = re.compile(
    r"(?:https://(?:www\.)?(?:github|gitlab|bitbucket|codeberg)\.(?:com|org)/|github:|git@git(?:hub|lab)\.com:|[\w-]+/[\w.-]+\Z)"
)
_UNCLEAR_PATH = re.compile(r"[\\%$`{}*]|(?:^|/)\.{1,2}(?:/|\Z)|//")


def is_trusted_command(command: str, entries: tuple[str, ...]) -> bool:
    """True if the command names at least one address and nothing but listed ones."""
    addresses = list(ADDRESS.finditer(command))
    if not addresses or REDIRECTING.search(command):
        return False
    if not all(is_listed(m.group(), entries) and AFTER_ADDRESS.match(command, m.end()) for m in addresses):
        return False
    return not BARE_ADDRESS.search(ADDRESS.sub(" ", command)) and all(map(_is_plain_download, _downloads(command)))


def is_listed(address: str, entries: tuple[str, ...]) -> bool:
    """`example.org` lists that host and no other; `example.org/team` the paths whose first segment is `team`;
    `*.example` every host under that name."""
    scheme, _, rest = address.lower().partition("://")
    authority, path = _split(rest.rstrip("."))
    match = _AUTHORITY.match(authority)
    if match is None or "\\" in rest:
        return False
    host, port = match.groups()
    if host in LOCAL:
        return host in entries and scheme in ("http", "https")
    if scheme not in ("https", "git+https") or port not in (None, "443"):
        return False
    host = host.removeprefix("www.")
    return any(_lists(entry, host, path.split("?")[0].split("#")[0], path) for entry in entries)


def is_listed_repository(address: str, owners: tuple[str, ...]) -> bool:
    """A repository of a listed owner, at a branch or tag of its own: a commit may be of any fork. An
    address with a part to fill in belongs to no owner."""
    lowered = _SHORT_FORM.sub("https://github.com/", address.lower().removeprefix("git+"))
    match = _REPOSITORY.match(lowered)
    if match is None:
        return bool(_PLACEHOLDER_OWNER.search(lowered))
    return (match[1] in owners and (match[2] is None or _is_named([match[2]]))) or bool(
        _PLACEHOLDER_OWNER.search(lowered)
    )


def is_on_forge(address: str) -> bool:
    return _FORGE.match(address.lower().removeprefix("git+")) is not None


def _split(rest: str) -> tuple[str, str]:
    """Authority and path. Programs disagree about a query or a fragment without a path, so it is part of the host."""
    authority, _, path = rest.partition("/")
    return authority, path


def _lists(entry: str, host: str, path: str, whole: str) -> bool:
    name, _, prefix = entry.partition("/")
    if host != name and not (name.startswith("*.") and host.endswith(name[1:])):
        return False
    if not prefix:
        return True
    segments, wanted = path.split("/"), prefix.strip("/").split("/")
    return segments[: len(wanted)] == wanted and not _UNCLEAR_PATH.search(whole) and _is_of_its_owner(name, segments)


def _is_of_its_owner(host: str, segments: list[str]) -> bool:
    """A code host serves the commits of every fork, and what anybody attaches, under the owner's name."""
    if host == "raw.githubusercontent.com":
        return _is_named(segments[2:])
    if host != "github.com":
        return True
    kind = segments[2:3]
    return kind == ["releases"] or (kind in (["raw"], ["archive"]) and _is_named(segments[3:]))


def _is_named(ref: list[str]) -> bool:
    """A branch or a tag: only the owner sets these. A commit may be anybody's."""
    if ref[:2] in (["refs", "heads"], ["refs", "tags"]):
        ref = ref[2:]
    return bool(ref) and _NAMED_REF.match(ref[0].removesuffix(".tar.gz").removesuffix(".zip")) is not None


def _downloads(command: str) -> list[list[str]]:
    """The words after each program that downloads, up to the end of its part of the command."""
    found = []
    for match in FETCHER.finditer(command):
        end = COMMAND_END.search(command, match.end())
        found.append(WORD.findall(command[match.end() : end.start() if end else len(command)]))
    return found


def _is_plain_download(words: list[str]) -> bool:
    """Every word is a known option, the value of one, or an address with its scheme."""
    remaining = iter(words)
    for quoted in remaining:
        word = quoted.strip("\"'`")
        if word.startswith("#"):
            return True
        if word in VALUE_OPTIONS or word.lower() in VALUE_OPTIONS or (SHORT_OPTIONS.match(word) and word[-1] == "o"):
            value = next(remaining, "")
            if word.lower() == "-uri" and "://" not in value:
                return False
        elif "://" not in word and not _is_plain_option(word):
            return False
    return True


def _is_plain_option(word: str) -> bool:
    return word in ("", "\\") or word.lower() in PLAIN_OPTIONS or bool(SHORT_OPTIONS.match(word) and word != "-")
