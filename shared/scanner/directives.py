"""Directives: sentences that order a deed, rather than describe, forbid or quote it.

A pattern of a rule finds a deed and its object. Here the sentence around it says whether it is an order (`is_order`),
and the addresses in it, or right below it, who is at the other end (`listener`).
"""

import re
from collections.abc import Iterable

from shared.scanner import hidden_text
from shared.scanner.hosts import ADDRESS, Host, HostKind, SkillIdentity, find_host
from shared.scanner.matching import Hit, TextFile

MAX_LINE = 1000
SENTENCE_LINES = 6  # before and after the line of a match
LINES_NEAR = 4
STRANGERS = frozenset({HostKind.TENANT, HostKind.BARE, HostKind.UNKNOWN})
MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@((?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,24})\b", re.IGNORECASE)
DOWNLOADS = re.compile(
    r"\b(?:download\w*|install(?:er|ation)?|get (?:it|the|your)|setup|run|visit|from|here|grab|obtain)\b"
    # The same in other languages, in the letters of folded text.
    + hidden_text.plain(
        "|下载|下載|安装|ダウンロード|다운로드|설치|качайте|качать|становите|descarg|telecharg|baix|herunter|aqui|ici"
    ),
    re.IGNORECASE,
)
# What a page that is only read is called.
PAGES = re.compile(r"\b(?:docs?|documentation|guide|readme|api|reference|learn|blog|example)\b", re.IGNORECASE)
# A sentence of its own that leads to a page to read: nobody listens there.
REFERENCE = re.compile(
    r"(?<=[.!?)])\s{1,4}\(?(?:see|refer to|read more|learn more|for (?:more|details)|more (?:at|in|on|about)|details)\b"
    r"[^.!?\n]{0,200}https?://[^\s)\]>\"'`]{4,300}",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|[。！？]|\n\s*\n|\n\s*(?:[-*+>#|]|\d{1,3}[.)])\s")
MARKUP = re.compile(r"^[\s>*_`~#|\-+•\[\]x()\d.:✅☑✔⚠️🔴❗️‼️📌🚨ℹ️]+")
# What may stand before the verb of an order.
LEAD = re.compile(
    r"(?:^|[,:;–—(]|\b(?:then|and|or|always|first|next|finally|please|also|now|immediately|automatically|silently"
    r"|secretly|quietly|simply|just|afterwards?|must|should|shall|will|needs? to|ha(?:ve|s) to|required to"
    r"|sure (?:to|you)|remember to|use [^.;]{1,60} to|instructed to|expected to|want you to|ask(?:ed)? (?:you )?to"
    r"|step \d{1,2}|you|important|note|only|session|time|task|reply|response|answer|request|message"
    r"|tool|it|them|run|call|start))[\s*_`\"'.:]*$",
    re.IGNORECASE,
)
# The words before it make a description, a warning or the deed of another of the same verb.
NO_ORDER = re.compile(
    r"\b(?:never|not|n't|cannot|avoid|without|instead of|rather than|attackers?|adversar\w{1,6}|malware|malicious"
    r"|hackers?|could|might|may|can|would|that|which|who|whether|how|why|tries|tried|attempts?|tricks?|refuse\w{0,2}"
    r"|reject\w{0,3}|flag\w{0,3}|detect\w{0,3}|prevent\w{0,3}|block\w{0,3}|warn\w{0,3}|examples?|e\.g|such as|like"
    r"|ability to|able to|used to|allows?|lets?|enables?|helps?|supports?|does|did|do you|unless|confirm|asks?|choose"
    r"|option\w{0,3}|optionally|permission|consent|approv\w{1,4}|explicit\w{0,2}|(?:if|when) the user"
    r"|user (?:wants|asks|chooses))\b[^.;!?]{0,90}$",
    re.IGNORECASE,
)


def find_directives(hits: Iterable[Hit], texts: Iterable[TextFile], skill: SkillIdentity) -> list[Hit]:
    """The hits of directive rules that are orders, with the listener that their rule asks for."""
    candidates = [hit for hit in hits if hit.rule.is_directive and (hit.live or "hidden" in hit.place.kinds)]
    if not candidates:
        return []
    paths = {hit.path for hit in candidates}
    lines = {file.path: file.layout.lines for file in texts if file.path in paths}
    return [hit for hit in candidates if hit.path in lines and _is_directive(hit, lines[hit.path], skill)]


def _is_directive(hit: Hit, lines: list[str], skill: SkillIdentity) -> bool:
    rule = hit.rule
    if rule.is_order and not is_order(before_in_sentence(lines, hit.line, hit.column)):
        return False
    if rule.listener == "stranger":
        return any(is_stranger(host) for host in _listeners(hit, lines, skill))
    return rule.listener != "download" or _names_a_strange_download(hit, lines, skill)


def is_order(before: str) -> bool:
    """Whether the words before a verb, in its sentence, leave it an order."""
    before = MARKUP.sub("", before)
    return not before.strip("*_`\"' ") or (bool(LEAD.search(before)) and not NO_ORDER.search(before))


def before_in_sentence(lines: list[str], line: int, column: int) -> str:
    """The part of a sentence before a place, which may begin on the lines above."""
    above = [text[:MAX_LINE] for text in lines[max(0, line - 1 - SENTENCE_LINES) : line - 1]]
    start = max(0, column - 1 - MAX_LINE)
    text = "\n".join([*above, lines[line - 1][start : column - 1]])
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    return " ".join(text[ends[-1] :].split()) if ends else " ".join(text.split())


def is_stranger(host: Host) -> bool:
    return host.catcher or host.kind in STRANGERS


def _listeners(hit: Hit, lines: list[str], skill: SkillIdentity) -> list[Host]:
    """The hosts of the addresses in the sentence, and below it when it announces one."""
    text = REFERENCE.sub("", _sentence_from(lines, hit.line, hit.column))
    hosts = [find_host(match.group(), skill) for match in ADDRESS.finditer(text)]
    hosts += [find_host(match.group(1), skill) for match in MAIL.finditer(text)]
    return [host for host in hosts if host is not None]


def _sentence_from(lines: list[str], line: int, column: int) -> str:
    """The rest of a sentence. One that ends with a colon goes on in the lines below it."""
    first = lines[line - 1][max(0, column - 1 - MAX_LINE) : column - 1 + MAX_LINE]
    below = [text[:MAX_LINE] for text in lines[line : line + SENTENCE_LINES]]
    text = first
    for following in below:
        if not following.strip() and not text.rstrip(" *_`").endswith(":"):
            break
        text = f"{text}\n{following}" if following.strip() else text
    return text


def _names_a_strange_download(hit: Hit, lines: list[str], skill: SkillIdentity) -> bool:
    """An address to get a program from, near the demand, whose host is not vouched for."""
    first = max(0, hit.line - 1 - LINES_NEAR)
    for number in range(first, min(len(lines), hit.line + LINES_NEAR)):
        text = lines[number][:MAX_LINE]
        for match in ADDRESS.finditer(text):
            lead = text[: match.start()] or " ".join(lines[max(0, number - 2) : number])[-200:]
            host = find_host(match.group(), skill)
            if host and is_stranger(host) and DOWNLOADS.search(lead[-200:]) and not PAGES.search(lead[-60:]):
                return True
    return False
