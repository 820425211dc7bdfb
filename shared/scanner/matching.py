"""Matches rules against one text file: yara-x finds matches, the context decides which of them count."""

import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate, count
from operator import add

import msgspec
import yara_x

from shared.scanner import decoding, hidden_text
from shared.scanner.context import HIDDEN, Excuse, MarkdownLayout, Place, TextLayout, text_layout_for
from shared.scanner.pack import Rule, load_exclusions, load_listened, load_matcher, load_orders, load_pack, rule_id_of
from shared.scanner.report import ACTION_ORDER, Action
from shared.scanner.syntax import Span
from shared.scanner.trust import is_trusted_command

MAX_MATCHES_PER_PATTERN = 2000
_scanners = threading.local()
EXCERPT_LENGTH = 160
# A backslash (a tick, a caret) at the end of a line continues the command. Two spaces replace the two bytes, so that
# offsets stay valid.
CONTINUATIONS = {
    b"\\\n": re.compile(rb"\\\n(?=[ \t]*\S)"),
    b"`\n": re.compile(rb"`\n(?=[ \t]*\S)(?<!``\n)"),
    b"^\n": re.compile(rb"\^\n(?=[ \t]*\S)"),
}
CONTINUED = re.compile(r"(?:\\|(?<!`)`|\^)\n(?=[ \t]*\S)")
FENCE_LINE = re.compile(rb"^[ \t>]{0,12}(?:[-*+] |\d{1,3}[.)] )?(?:```|~~~)[^\n]*", re.MULTILINE)
# The end of a line inside a paragraph: the next one begins with a word, and the sentence has not ended.
WRAP = re.compile(rb"(?<=[^\s.!?|])\n[ \t]{0,12}(?=[^\s\-*+#>|`~\d=])")
# What has a listener is looked for only near an address: directives.py looks six lines ahead and four back for one.
ADDRESS_MARK = re.compile(rb"://|@")
LINES_BEFORE_ADDRESS, LINES_AFTER_ADDRESS = 8, 20
CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
MAX_MATCHED = 4000
PRINTED_FOR_USERS = "remote code"  # the kind of command that a program has its user run by printing it


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
        """False for a mere description: a comment, a warning or, for a sentence, a quotation."""
        if not self.rule.documentable:
            return True
        if self.rule.action is Action.NONE and self.place.excuse in (Excuse.DATA, Excuse.LESSON):
            return True  # a path or an address in a string or a block of code is what a program works with
        return not (self.place.documented or (self.place.quoted and self.rule.is_sentence))

    @property
    def is_described(self) -> bool:
        """Excused by its place, and nobody is told to do it."""
        return not self.live and not self.place.told

    @property
    def action(self) -> Action:
        """What its place leaves of the rule's action. Only syntax turns a block into a note; words leave a question."""
        if self.live:
            return self.rule.action
        is_printed = self.place.excuse is Excuse.DATA and self.place.told and self.rule.category == PRINTED_FOR_USERS
        if self.rule.action is Action.REVIEW and (self.place.excuse is Excuse.LESSON or is_printed):
            return Action.REVIEW
        if self.rule.action is not Action.BLOCK or (self.place.excuse is Excuse.COMMENT and not self.place.told):
            return Action.NOTE
        is_question = self.place.told or self.rule.certain or self.place.excuse in (Excuse.DATA, Excuse.LESSON)
        return Action.REVIEW if is_question else Action.NOTE


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


class TextFile(msgspec.Struct, frozen=True, dict=True):
    """`text` is matched: what an agent reads. `original` is quoted and decoded."""

    path: str
    text: str
    original: str
    starts_programs: bool = True  # a file of the skill does, so its strings may be commands
    run_as_commands: bool = False  # by a program of another language than its name says

    @cached_property
    def layout(self) -> TextLayout:
        return text_layout_for(self.path, self.text, self.original, self.starts_programs, self.run_as_commands)


def find_hits(file: TextFile, deadline: Deadline) -> list[Hit]:
    """All hits in a file: as written, deobfuscated, and inside decoded blobs."""
    layout = file.layout
    original = layout.original_lines
    hits = _hits_in(file.path, layout, file.text, [original], deadline)
    seen = {(hit.rule.id, hit.line) for hit in hits}
    if isinstance(layout, MarkdownLayout):
        found = _hits_in(file.path, layout, file.text, [original], deadline, sentences=True)
        hits += [hit for hit in found if (hit.rule.id, hit.line) not in seen]
    if (plain := decoding.deobfuscate(file.text)) is not None:
        found = _hits_in(file.path, layout, plain, [original, plain.split("\n")], deadline, rewritten=True)
        hits += [hit for hit in found if (hit.rule.id, hit.line) not in seen]
    for blob in decoding.decoded_blobs(file.original):
        deadline.check()
        hits += _hits_in_blob(file.path, layout, blob, deadline)
    return hits


def _hits_in(
    path: str,
    layout: TextLayout,
    text: str,
    readings: list[list[str]],
    deadline: Deadline,
    rewritten: bool = False,
    sentences: bool = False,
) -> list[Hit]:
    """`readings` are the lines whose addresses must be trusted for a match not to count. `sentences`: only those that
    go on over the end of a line."""
    data = text.encode("utf-8", "surrogatepass").lower()
    rules = load_pack().rules
    lines = _Lines(data)
    commands = _Lines(unwrapped(data)) if sentences else _joined_lines(lines)
    if sentences and commands.data == data:
        return []
    trusted = _TrustedLines(readings, lines, commands)
    hits: dict[tuple[str, int], Hit] = {}
    near = _near_addresses(lines, commands.data)
    for match in _matches(commands, near, deadline, load_orders if sentences else load_matcher):
        rule = rules[match.rule]
        line, column = lines.locate(match.start)
        known = hits.get((rule.id, line))
        if (known is not None and known.live) or trusted.excuse(rule, match):
            continue
        place = layout.whole_line(line) if rewritten else layout.at(Span(line, column, *lines.locate(match.end)))
        if not _counts(rule, place):
            continue
        hit = Hit(
            rule=rule,
            path=path,
            line=line,
            column=column,
            command=commands.line_of(match.start),
            text=_matched_text(data, match),
            excerpt=excerpt_of(layout.lines[line - 1], column),
            place=place,
        )
        if known is None or _more_serious(hit, known):
            hits[rule.id, line] = hit
    return list(hits.values())


def hit_at(file: TextFile, rule_id: str, line: int, last: int, column: int) -> Hit:
    """A hit that code found instead of a pattern: whole lines (column 0), or what begins in a column of one."""
    layout = file.layout
    text = layout.lines[line - 1]
    start = column or len(text) - len(text.lstrip()) + 1
    return Hit(
        rule=load_pack().rules[rule_id],
        path=file.path,
        line=line,
        column=start,
        command=line,
        text="\n".join(layout.lines[line - 1 : last])[:MAX_MATCHED].lower(),
        excerpt=excerpt_of(text, start),
        place=layout.at(Span(line, column, line, column + 1)) if column else layout.whole_line(line),
    )


def _joined_lines(lines: "_Lines") -> "_Lines":
    joined = lines.data
    for mark, pattern in CONTINUATIONS.items():
        joined = pattern.sub(b"  ", joined) if mark in joined else joined
    return lines if joined == lines.data else _Lines(joined)


def _more_serious(hit: Hit, known: Hit) -> bool:
    return hit.live or ACTION_ORDER.index(hit.action) < ACTION_ORDER.index(known.action)


def _matched_text(data: bytes, match: _Match) -> str:
    return data[match.start : min(match.end, match.start + MAX_MATCHED)].decode("utf-8", "replace")


def _hits_in_blob(path: str, layout: TextLayout, blob: decoding.Decoded, deadline: Deadline) -> list[Hit]:
    """Encoded text was meant not to be read, so it counts as hidden wherever the blob is."""
    text = hidden_text.plain(blob.text)
    data = text.encode("utf-8", "surrogatepass").lower()
    lines = _Lines(data)
    commands = _joined_lines(lines)
    trusted = _TrustedLines([blob.text.split("\n")], lines, commands)
    rules = load_pack().rules
    around = layout.whole_line(blob.line)
    return [
        Hit(
            rule=rules[match.rule],
            path=path,
            line=blob.line,
            column=1,
            command=blob.line,
            text=_matched_text(data, match),
            excerpt=f"{blob.encoding} of: {excerpt_of(' '.join(text[:1000].split()), 1)}",
            place=Place(HIDDEN, around.excuse),
        )
        for match in _matches(commands, commands.data, deadline)
        if not trusted.excuse(rules[match.rule], match)
    ]


class _TrustedLines:
    """Answers once per command and list whether its addresses are trusted, in each reading of the text."""

    def __init__(self, readings: list[list[str]], lines: "_Lines", commands: "_Lines") -> None:
        self._readings = readings
        self._lines = lines
        self._commands = commands
        self._known: dict[tuple[str, int, int], bool] = {}

    def excuse(self, rule: Rule, match: _Match) -> bool:
        if not rule.trusted:
            return False
        start, end = self._commands.whole_lines(match.start, match.end)
        first, last = self._lines.line_of(start), self._lines.line_of(end)
        key = (rule.trusted, first, last)
        if key not in self._known:
            entries = load_pack().trusted[rule.trusted]
            self._known[key] = all(
                is_trusted_command(_joined_command(lines[first - 1 : last]), entries) for lines in self._readings
            )
        return self._known[key]


def _joined_command(lines: list[str]) -> str:
    return CONTINUED.sub("  ", "\n".join(lines))


def unwrapped(data: bytes) -> bytes:
    """A page whose paragraphs have no line breaks, with all else where it was. Blocks of code stay as they are."""
    parts, start, in_fence = [], 0, False
    for fence in FENCE_LINE.finditer(data):
        part = data[start : fence.start()]
        parts += [part if in_fence else WRAP.sub(_spaces, part), fence.group()]
        start, in_fence = fence.end(), not in_fence
    return b"".join([*parts, data[start:] if in_fence else WRAP.sub(_spaces, data[start:])])


def _spaces(match: re.Match[bytes]) -> bytes:
    return b" " * len(match.group())


def _matches(
    commands: "_Lines", near_addresses: bytes, deadline: Deadline, load: Callable[[], yara_x.Rules] = load_matcher
) -> list[_Match]:
    # The added newline ends the last command of a file without one.
    matches = list(_yara_matches(load, commands.data + b"\n", deadline))
    matches += _yara_matches(load_listened, near_addresses + b"\n", deadline) if near_addresses else ()
    exclusions = _exclusions(matches, commands, deadline)
    counted = [m for m in matches if m.rule not in exclusions or not exclusions[m.rule].touch(m)]
    return sorted(counted, key=lambda m: (m.start, m.rule))


def _near_addresses(lines: "_Lines", commands: bytes) -> bytes:
    """The lines to which an address may belong, where they were, with nothing between them; empty without any."""
    parts, at = [], 0
    for mark in ADDRESS_MARK.finditer(lines.data):
        line = lines.line_of(mark.start())
        start, end = lines.start_of(line - LINES_BEFORE_ADDRESS), lines.start_of(line + LINES_AFTER_ADDRESS)
        if end > at:
            parts += [b"\0" * (start - at), commands[max(start, at) : end]]
            at = end
    return b"".join(parts)


def _exclusions(matches: list[_Match], commands: "_Lines", deadline: Deadline) -> dict[str, "_Spans"]:
    """Matches of the `unless` patterns by rule, on the lines of the matches whose rules have any."""
    rules = load_pack().rules
    spans = sorted({commands.whole_lines(m.start, m.end) for m in matches if rules[m.rule].unless})
    if not spans:
        return {}
    starts = list(accumulate((end - start + 1 for start, end in spans[:-1]), initial=0))
    window = b"\n".join(commands.data[start:end] for start, end in spans)
    found: dict[str, list[tuple[int, int]]] = {}
    for match in _yara_matches(load_exclusions, window, deadline):
        index = bisect_right(starts, match.start) - 1
        shift = spans[index][0] - starts[index]
        found.setdefault(match.rule, []).append((match.start + shift, match.end + shift))
    return {rule: _Spans(excluded) for rule, excluded in found.items()}


class _Spans:
    """Answers whether a match overlaps any of many spans, without looking at each."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        spans = sorted(spans)
        self._starts = [start for start, _ in spans]
        self._furthest = list(accumulate((end for _, end in spans), max))

    def touch(self, match: _Match) -> bool:
        before = bisect_left(self._starts, match.end)
        return before > 0 and self._furthest[before - 1] > match.start


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


def _counts(rule: Rule, place: Place) -> bool:
    return place.kinds == HIDDEN or bool(place.kinds.intersection(rule.where))


def excerpt_of(line: str, column: int) -> str:
    start = max(0, min(column - 1, len(line)) - 40) if len(line) > EXCERPT_LENGTH else 0
    shown = " ".join(line[start : start + EXCERPT_LENGTH].split())
    return ("… " if start else "") + shown + (" …" if start + EXCERPT_LENGTH < len(line) else "")


class _Lines:
    """Lines and columns of UTF-8 text. Characters are counted from the start of a block, never of a long line."""

    BLOCK = 4096

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._starts = [0, *map(add, accumulate(map(len, data.split(b"\n"))), count(1))][:-1]
        self._is_ascii = data.isascii()

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def start_of(self, line: int) -> int:
        """Of the first line for any before it, and the end of the text for any behind the last."""
        return self._starts[max(1, line) - 1] if line <= len(self._starts) else len(self.data)

    def locate(self, offset: int) -> tuple[int, int]:
        line = self.line_of(offset)
        return line, self._characters(offset) - self._characters(self._starts[line - 1]) + 1

    def whole_lines(self, start: int, end: int) -> tuple[int, int]:
        last = self.line_of(end)
        finish = self._starts[last] - 1 if last < len(self._starts) else len(self.data)
        return self._starts[self.line_of(start) - 1], finish

    def _characters(self, offset: int) -> int:
        if self._is_ascii:
            return offset
        block = offset // self.BLOCK
        return self._before_block[block] + _count_characters(self.data[block * self.BLOCK : offset])

    @cached_property
    def _before_block(self) -> list[int]:
        blocks = range(0, len(self.data) + 1, self.BLOCK)
        return list(accumulate((_count_characters(self.data[at : at + self.BLOCK]) for at in blocks), initial=0))


def _count_characters(data: bytes) -> int:
    return len(data.translate(None, CONTINUATION_BYTES))
