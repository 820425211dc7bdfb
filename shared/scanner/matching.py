"""Matches rules against one text file: yara-x finds matches, the context decides which of them count."""

import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec
import yara_x

from shared.scanner import decoding, hidden_text
from shared.scanner.context import DECODED, Excuse, MarkdownLayout, Place, TextLayout, text_layout_for
from shared.scanner.file_text import unusual
from shared.scanner.pack import (
    Rule,
    load_about_objects,
    load_exclusions,
    load_listened,
    load_matcher,
    load_objects,
    load_orders,
    load_pack,
    rule_id_of,
)
from shared.scanner.report import ACTION_ORDER, DECISIVE, Action
from shared.scanner.syntax import Span
from shared.scanner.text_lines import TextLines, joined_lines, lines_around, lowered, near_addresses, unwrapped
from shared.scanner.trust import is_trusted_command

MAX_MATCHES_PER_PATTERN = 2000
_scanners = threading.local()
EXCERPT_LENGTH = 160
CONTINUED = re.compile(r"(?:\\|(?<!`)`|\^)\n(?=[ \t]*\S)")
MAX_MATCHED = 4000
PRINTED_FOR_USERS = "remote code"  # the kind of command that a program has its user run by printing it


class TooManyMatches(Exception):
    """A pattern matched so often, or so much is encoded, that the rest was not read. With the hits before that."""

    def __init__(self, hits: Sequence["Hit"] = ()) -> None:
        super().__init__()
        self.hits = hits


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
        """Excused by its place, and not an instruction."""
        return not (self.live or self.is_instructed or self._is_open or self._is_order_in_comment)

    @property
    def _is_order_in_comment(self) -> bool:
        """No interpreter runs a comment, but an agent reads it."""
        is_read = self.place.excuse is Excuse.COMMENT and not self.place.quoted
        return is_read and self.rule.is_sentence and self.rule.action is Action.BLOCK

    @property
    def _is_open(self) -> bool:
        return self.place.excuse is Excuse.HEADING and not self.rule.is_sentence and self.rule.action in DECISIVE

    @property
    def is_instructed(self) -> bool:
        """The text has the reader run it. A sentence is not run: "use" before a quotation of it says nothing."""
        return self.place.is_instructed and not self.rule.is_sentence

    @property
    def action(self) -> Action:
        """What its place leaves of the rule's action. Only syntax turns a block into a note; words leave a question."""
        if self.live:
            return self.rule.action
        if self._is_open or self._is_order_in_comment:
            return Action.REVIEW
        is_printed = (
            self.place.excuse is Excuse.DATA and self.place.is_instructed and self.rule.category == PRINTED_FOR_USERS
        )
        if self.rule.action is Action.REVIEW and (self.place.excuse is Excuse.LESSON or is_printed):
            return Action.REVIEW
        if self.rule.action is not Action.BLOCK or (self.place.excuse is Excuse.COMMENT and not self.is_instructed):
            return Action.NOTE
        is_question = self.is_instructed or self.rule.certain or self.place.excuse in (Excuse.DATA, Excuse.LESSON)
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


class _Reading(msgspec.Struct, frozen=True):
    """One way to read a file: as it is written, with its paragraphs as one line, or rewritten."""

    file: TextFile
    lines: TextLines
    commands: TextLines
    load: Callable[[], yara_x.Rules]
    plain: str | None = None  # rewritten: its columns are not those of the file

    def place(self, match: _Match, line: int, column: int) -> Place:
        layout = self.file.layout
        if self.plain is not None:
            return layout.whole_line(line)
        return layout.at(Span(line, column, *self.lines.locate(match.end)))

    def texts(self) -> list[list[str]]:
        """The lines whose addresses must be trusted for a match not to count."""
        original = self.file.layout.original_lines
        return [original] if self.plain is None else [original, self.plain.split("\n")]


def find_hits(file: TextFile, deadline: Deadline) -> list[Hit]:
    """All hits in a file: as written, deobfuscated, and inside decoded blobs."""
    lines = TextLines(lowered(file.text))
    hits = _hits_in(_Reading(file, lines, joined_lines(lines), load_matcher), deadline)
    seen = {(hit.rule.id, hit.line) for hit in hits}
    for reading in _other_readings(file, lines):
        hits += [hit for hit in _hits_in(reading, deadline) if (hit.rule.id, hit.line) not in seen]
    blobs = decoding.decoded_blobs(file.original)
    for blob in blobs:
        deadline.check()
        hits += _hits_in_blob(file, blob, deadline)
    if decoding.are_cut(blobs):
        raise TooManyMatches(hits)
    return hits


def _other_readings(file: TextFile, lines: TextLines) -> Iterator[_Reading]:
    """Sentences that go on over the end of a line, and what was written so that a reader misses it."""
    if isinstance(file.layout, MarkdownLayout) and (sentences := unwrapped(lines.data)) != lines.data:
        yield _Reading(file, lines, TextLines(sentences), load_orders)
    if (plain := decoding.deobfuscate(file.text)) is not None:
        rewritten = TextLines(lowered(plain))
        yield _Reading(file, rewritten, joined_lines(rewritten), load_matcher, plain)


def _hits_in(reading: _Reading, deadline: Deadline) -> list[Hit]:
    rules, lines, commands = load_pack().rules, reading.lines, reading.commands
    trusted = _TrustedLines(reading.texts, lines, commands)
    hits: dict[tuple[str, int], Hit] = {}
    for match in _matches(commands, near_addresses(lines, commands.data), deadline, reading.load):
        rule = rules[match.rule]
        line, column = lines.locate(match.start)
        known = hits.get((rule.id, line))
        if (known is not None and known.live) or trusted.excuse(rule, match):
            continue
        place = reading.place(match, line, column)
        if _counts(rule, place):
            hit = _hit(reading, rule, match, line, column, place)
            if known is None or _more_serious(hit, known):
                hits[rule.id, line] = hit
    return list(hits.values())


def _hit(reading: _Reading, rule: Rule, match: _Match, line: int, column: int, place: Place) -> Hit:
    return Hit(
        rule=rule,
        path=reading.file.path,
        line=line,
        column=column,
        command=reading.commands.line_of(match.start),
        text=_matched_text(reading.lines.data, match),
        excerpt=excerpt_of(reading.file.layout.lines[line - 1], column),
        place=place,
    )


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


def find_disguised(hits: list[Hit], texts: list[TextFile]) -> list[Hit]:
    """Decisive matches that are none in the text as it was written, because its letters are not the plain ones."""
    odd = {file.path: file for file in texts if hidden_text.DISGUISED.search(unusual(file.original))}
    candidates = [hit for hit in hits if hit.path in odd and hit.live and hit.rule.action in DECISIVE]
    return [hit for hit in candidates if _is_disguised(hit, odd[hit.path])]


def _is_disguised(hit: Hit, file: TextFile) -> bool:
    last = hit.line + hit.text.count("\n")
    written = "\n".join(file.layout.original_lines[hit.line - 1 : last]).lower()
    return hit.text not in written and len(hidden_text.DISGUISED.findall(written)) >= hidden_text.MIN_DISGUISED


def _more_serious(hit: Hit, known: Hit) -> bool:
    return hit.live or ACTION_ORDER.index(hit.action) < ACTION_ORDER.index(known.action)


def _matched_text(data: bytes, match: _Match) -> str:
    return data[match.start : min(match.end, match.start + MAX_MATCHED)].decode("utf-8", "replace")


def _hits_in_blob(file: TextFile, blob: decoding.Decoded, deadline: Deadline) -> list[Hit]:
    """Encoded text was meant not to be read, so it counts as hidden wherever the blob is."""
    text = hidden_text.plain(blob.text)
    lines = TextLines(lowered(text))
    commands = joined_lines(lines)
    trusted = _TrustedLines(lambda: [blob.text.split("\n")], lines, commands)
    rules = load_pack().rules
    around = file.layout.whole_line(blob.line)
    return [
        Hit(
            rule=rules[match.rule],
            path=file.path,
            line=blob.line,
            column=1,
            command=blob.line,
            text=_matched_text(lines.data, match),
            excerpt=f"{blob.encoding} of: {excerpt_of(' '.join(text[:1000].split()), 1)}",
            place=Place(DECODED, around.excuse),
        )
        for match in _matches(commands, commands.data, deadline)
        if not trusted.excuse(rules[match.rule], match)
    ]


class _TrustedLines:
    """Answers once per command and list whether its addresses are trusted, in each reading of the text."""

    def __init__(self, readings: Callable[[], list[list[str]]], lines: TextLines, commands: TextLines) -> None:
        self._read = readings
        self._lines = lines
        self._commands = commands
        self._known: dict[tuple[str, int, int], bool] = {}

    @cached_property
    def _readings(self) -> list[list[str]]:
        return self._read()

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


def _matches(
    commands: TextLines, near: bytes, deadline: Deadline, load: Callable[[], yara_x.Rules] = load_matcher
) -> list[_Match]:
    # The added newline ends the last command of a file without one.
    matches = list(_yara_matches(load, commands.data + b"\n", deadline))
    matches += _listened_matches(near + b"\n", deadline) if near else ()
    exclusions = _exclusions(matches, commands, deadline)
    counted = [m for m in matches if m.rule not in exclusions or not exclusions[m.rule].touch(m)]
    return sorted(counted, key=lambda m: (m.start, m.rule))


def _listened_matches(near: bytes, deadline: Deadline) -> Iterator[_Match]:
    """What counts only with an address near it. The words of some rules are so common that they are looked for only in
    the lines that have what the rule requires."""
    yield from _yara_matches(load_listened, near, deadline)
    try:
        objects = sorted((match.start, match.end) for match in _yara_matches(load_objects, near, deadline))
    except TooManyMatches:
        objects = [(0, len(near))]
    if objects:
        yield from _yara_matches(load_about_objects, lines_around(objects, near), deadline)


def _exclusions(matches: list[_Match], commands: TextLines, deadline: Deadline) -> dict[str, "_Spans"]:
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
    return bool(place.kinds.intersection(rule.where)) or ("hidden" in place.kinds and rule.where != ("decoded",))


def excerpt_of(line: str, column: int) -> str:
    start = max(0, min(column - 1, len(line)) - 40) if len(line) > EXCERPT_LENGTH else 0
    shown = " ".join(line[start : start + EXCERPT_LENGTH].split())
    return ("… " if start else "") + shown + (" …" if start + EXCERPT_LENGTH < len(line) else "")
