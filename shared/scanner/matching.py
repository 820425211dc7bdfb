"""Matches rules against one text file: yara-x finds matches, the context decides which of them count."""

import re
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator

import msgspec
import yara_x

from shared.scanner import decoding, hidden_text
from shared.scanner.context import HIDDEN, Place, TextLayout, text_layout_for
from shared.scanner.pack import Pack, Rule, load_exclusions, load_matcher, load_pack, rule_id_of

MAX_MATCHES_PER_PATTERN = 2000
_scanners = threading.local()
EXCERPT_LENGTH = 160
# A backslash (a tick, a caret) at the end of a line continues the command. Two spaces replace the two bytes, so that
# offsets stay valid.
CONTINUATION = re.compile(rb"(?:\\|(?<!`)`|\^)\n(?=[ \t]*\S)")
URL = re.compile(r"\b(?:https?|ftp)://([^\s\"'`<>|)\\]+)")


class TooManyMatches(Exception):
    """A pattern matched so often that its later matches were not read."""


class OutOfTime(Exception):
    """The time for this skill is used up."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A rule's pattern found in a file. Signals are hits too; only some hits become findings."""

    rule: Rule
    path: str
    line: int
    column: int
    command: int  # the line on which its command begins, when lines are continued
    text: str
    excerpt: str
    place: Place

    @property
    def live(self) -> bool:
        """False for a mere description: a warning, a bad example or, for a sentence, a quotation."""
        if not self.rule.documentable:
            return True
        return not (self.place.documented or (self.place.quoted and self.rule.is_sentence))


class Deadline(msgspec.Struct, frozen=True):
    """In CPU time of the thread: what others do at the same time never decides a verdict."""

    ends: float

    def seconds_left(self) -> float:
        return self.ends - time.thread_time()

    def check(self) -> None:
        if self.seconds_left() <= 0:
            raise OutOfTime


class _Match(msgspec.Struct, frozen=True):
    rule: str
    start: int
    end: int


class TextFile(msgspec.Struct, frozen=True):
    """`text` is matched: what an agent reads. `original` is quoted and decoded."""

    path: str
    text: str
    original: str
    about_attacks: bool = False  # the skill says that it teaches or tests attacks


def find_hits(file: TextFile, deadline: Deadline) -> list[Hit]:
    """All hits in a file: as written, deobfuscated, and inside decoded blobs."""
    pack = load_pack()
    layout = text_layout_for(file.path, file.text, file.about_attacks)
    hits = _hits_in(pack, file.path, layout, file.text, deadline)
    seen = {(hit.rule.id, hit.line) for hit in hits}
    if (plain := decoding.deobfuscate(file.text)) is not None:
        hits += [h for h in _hits_in(pack, file.path, layout, plain, deadline) if (h.rule.id, h.line) not in seen]
    for blob in decoding.decoded_blobs(file.original):
        deadline.check()
        hits += _hits_in_blob(pack, file.path, layout, blob, deadline)
    return hits


def _hits_in(pack: Pack, path: str, layout: TextLayout, text: str, deadline: Deadline) -> list[Hit]:
    data = text.encode("utf-8", "surrogatepass").lower()
    lines, commands = _Lines(data), _Lines(CONTINUATION.sub(b"  ", data))
    hits: dict[tuple[str, int], Hit] = {}
    for match in _matches(data, deadline):
        line, column = lines.locate(match.start)
        place = layout.at(line, column)
        rule = pack.rules[match.rule]
        found = data[match.start : match.end].decode("utf-8", "replace")
        known = hits.get((rule.id, line))
        if (known is not None and known.live) or not _counts(rule, place) or _is_trusted(pack, rule, data, match):
            continue
        excerpt = excerpt_of(layout.lines[line - 1], column)
        command = commands.locate(match.start)[0]
        hits[rule.id, line] = Hit(
            rule=rule,
            path=path,
            line=line,
            column=column,
            command=command,
            text=found,
            excerpt=excerpt,
            place=place,
        )
    return list(hits.values())


def _hits_in_blob(pack: Pack, path: str, layout: TextLayout, blob: decoding.Decoded, deadline: Deadline) -> list[Hit]:
    """Encoded text was meant not to be read, so it counts as hidden wherever the blob is."""
    text = hidden_text.plain(blob.text)
    data = text.encode("utf-8", "surrogatepass").lower()
    documented = layout.at(blob.line, 1).documented
    hits = []
    for match in _matches(data, deadline):
        rule = pack.rules[match.rule]
        if _is_trusted(pack, rule, data, match):
            continue
        found = data[match.start : match.end].decode("utf-8", "replace")
        excerpt = f"{blob.encoding} of: {excerpt_of(' '.join(text.split()), 1)}"
        place = Place(HIDDEN, documented)
        hits.append(
            Hit(
                rule=rule,
                path=path,
                line=blob.line,
                column=1,
                command=blob.line,
                text=found,
                excerpt=excerpt,
                place=place,
            )
        )
    return hits


def _matches(data: bytes, deadline: Deadline) -> list[_Match]:
    # The added newline ends the last command of a file without one.
    data = CONTINUATION.sub(b"  ", data) + b"\n"
    matches = list(_yara_matches(load_matcher, data, deadline))
    exclusions = _exclusions(matches, data, deadline)
    counted = [m for m in matches if not any(_overlap(m, exclusion) for exclusion in exclusions.get(m.rule, ()))]
    return sorted(counted, key=lambda m: (m.start, m.rule))


def _exclusions(matches: list[_Match], data: bytes, deadline: Deadline) -> dict[str, list[_Match]]:
    """Matches of the `unless` patterns by rule, on the lines of the matches whose rules have any."""
    rules = load_pack().rules
    spans = sorted({_whole_lines(data, match) for match in matches if rules[match.rule].unless})
    found: dict[str, list[_Match]] = {}
    if not spans:
        return found
    starts, position = [], 0
    for start, end in spans:
        starts.append(position)
        position += end - start + 1
    window = b"\n".join(data[start:end] for start, end in spans)
    for match in _yara_matches(load_exclusions, window, deadline):
        index = bisect_right(starts, match.start) - 1
        shift = spans[index][0] - starts[index]
        found.setdefault(match.rule, []).append(_Match(match.rule, match.start + shift, match.end + shift))
    return found


def _whole_lines(data: bytes, match: _Match) -> tuple[int, int]:
    end = data.find(b"\n", match.end)
    return data.rfind(b"\n", 0, match.start) + 1, len(data) if end == -1 else end


def _yara_matches(load: Callable[[], yara_x.Rules], data: bytes, deadline: Deadline) -> Iterator[_Match]:
    for rule in _scan(load, data, deadline).matching_rules:
        rule_id = rule_id_of(rule.identifier)
        for pattern in rule.patterns:
            if len(pattern.matches) >= MAX_MATCHES_PER_PATTERN:
                raise TooManyMatches
            yield from (_Match(rule_id, match.offset, match.offset + match.length) for match in pattern.matches)


def _scan(load: Callable[[], yara_x.Rules], data: bytes, deadline: Deadline) -> yara_x.ScanResults:
    deadline.check()
    return _scanner_of_this_thread(load).scan(data)  # its own timeout would be wall time


def _scanner_of_this_thread(load: Callable[[], yara_x.Rules]) -> yara_x.Scanner:
    """A scanner can be reused, but not by two threads; creating one costs as much as scanning a page."""
    scanner = getattr(_scanners, load.__name__, None)
    if scanner is None:
        scanner = yara_x.Scanner(load())
        scanner.max_matches_per_pattern(MAX_MATCHES_PER_PATTERN)
        setattr(_scanners, load.__name__, scanner)
    return scanner


def _overlap(match: _Match, exclusion: _Match) -> bool:
    return match.start < exclusion.end and exclusion.start < match.end


def _counts(rule: Rule, place: Place) -> bool:
    return place.kinds == HIDDEN or bool(place.kinds.intersection(rule.where))


def _is_trusted(pack: Pack, rule: Rule, data: bytes, match: _Match) -> bool:
    """True if every address in the command is on the trusted list of the rule."""
    if not rule.trusted:
        return False
    start, end = _whole_lines(data, match)
    command = data[start : min(end, start + 4000)].decode("utf-8", "replace")
    addresses = URL.findall(command)
    return bool(addresses) and all(is_listed(address, pack.trusted[rule.trusted]) for address in addresses)


def is_listed(address: str, hosts: tuple[str, ...]) -> bool:
    """`example.org` lists the host and what is under it; `example.org/team/` only that path."""
    host, _, path = address.partition("/")
    if "@" in host:
        return False
    host = host.partition(":")[0].removeprefix("www.")
    return any(_lists(entry, host, path) for entry in hosts)


def _lists(entry: str, host: str, path: str) -> bool:
    name, slash, prefix = entry.partition("/")
    if slash:
        return host == name and path.startswith(prefix)
    return host == name or host.endswith("." + name)


def excerpt_of(line: str, column: int) -> str:
    start = max(0, min(column - 1, len(line)) - 40) if len(line) > EXCERPT_LENGTH else 0
    shown = " ".join(line[start : start + EXCERPT_LENGTH].split())
    return ("… " if start else "") + shown + (" …" if start + EXCERPT_LENGTH < len(line) else "")


class _Lines:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._starts = [0, *(m.end() for m in re.finditer(rb"\n", data))]

    def locate(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        return line, len(self._data[start:offset].decode("utf-8", "replace")) + 1
