"""What a file does when it is opened: scripts of a picture or page, formulas of a table that ask for an address.

No agent runs them and no rule for commands knows them. A browser or a spreadsheet does, with what the user has there.
"""

import re
from collections.abc import Iterator

from shared.scanner.documents import ACTIVE
from shared.scanner.hosts import SkillIdentity, find_host
from shared.scanner.matching import Hit, TextFile, hit_at

PAGES = (".html", ".htm", ".xhtml", ".svg", ".vue", ".svelte")
TABLES = (".csv", ".tsv", ".tab", ".slk")
SHEET = re.compile(r"\.(?:xls[xm]|ods)!")
MOST = 200_000  # characters of a file that are looked at for scripts; more is a library or data
HELD = re.compile(
    r"document\.cookie|(?:local|session)Storage|type\s{0,9}=\s{0,9}[\"']?password|indexedDB|clipboard\.read|\.value\b",
    re.IGNORECASE,
)
SENT = re.compile(
    r"(?:sendBeacon\(|fetch\(|WebSocket\(|EventSource\(|\.open\(\s{0,9}[\"']\w{3,7}[\"']\s{0,9},"
    r"|\.(?:src|href|action)\s{0,9}=|location\s{0,9}=|\baction\s{0,9}=)\s{0,9}[\"'`]?((?:https?:|wss?:)?//[^\s\"'`<>]{3,300})",
    re.IGNORECASE,
)
FORMULA = re.compile(
    r"\b(?:webservice|import(?:xml|data|html|feed)|hyperlink|image)\(\s{0,9}(?:concat\w{0,9}\(\s{0,9})?(?:[\"']{1,2}|&quot;)"
    r"(https?://[^\s\"'&]{3,200})[^\n)]{0,100}(?:[\"']|&quot;)\s{0,9}(?:&|,\s{0,9}\$?[a-z]{1,2}\$?\d)",
    re.IGNORECASE,
)
PROGRAM = re.compile(
    r"(?m)(?:^|[\t,;\"'>])[=+@-](?:cmd|powershell|msexcel|mshta|regsvr32|rundll32)\s{0,9}\|", re.IGNORECASE
)


def find_opened(texts: list[TextFile], identity: SkillIdentity) -> Iterator[Hit]:
    for file in texts:
        path = file.path.lower()
        if path.endswith(PAGES) and len(file.text) <= MOST:
            yield from _in_page(file, path, identity)
        elif path.endswith(TABLES) or SHEET.search(path):
            yield from _in_table(file, identity)


def _in_page(file: TextFile, path: str, identity: SkillIdentity) -> Iterator[Hit]:
    if path.endswith(".svg") and (active := ACTIVE.search(file.text)):
        yield _hit(file, "FILE-ACTIVE-PICTURE", active)
    if HELD.search(file.text):
        sent = [match for match in SENT.finditer(file.text) if _is_strangers(match.group(1), identity)]
        yield from (_hit(file, "EX-PAGE-SENDS", match) for match in sent[:1])


def _in_table(file: TextFile, identity: SkillIdentity) -> Iterator[Hit]:
    asks = [match for match in FORMULA.finditer(file.text) if _is_strangers(match.group(1), identity)]
    found = asks[0] if asks else PROGRAM.search(file.text)
    if found:
        yield _hit(file, "EX-FORMULA", found)


def _is_strangers(address: str, identity: SkillIdentity) -> bool:
    host = find_host(f"https:{address}" if address.startswith("//") else address, identity)
    return host is not None and not host.vouched


def _hit(file: TextFile, rule: str, match: re.Match[str]) -> Hit:
    line = file.text.count("\n", 0, match.start()) + 1
    return hit_at(file, rule, line, line, match.start() - file.text.rfind("\n", 0, match.start()))
