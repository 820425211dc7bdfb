"""The lines of a text that is matched, as bytes, and the copies of it that leave lines out or join them."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, count
from operator import add

# A backslash (a tick, a caret) at the end of a line continues the command. Two spaces replace the two bytes, so that
# offsets stay valid.
CONTINUATIONS = {
    b"\\\n": re.compile(rb"\\\n(?=[ \t]*\S)"),
    b"`\n": re.compile(rb"`\n(?=[ \t]*\S)(?<!``\n)"),
    b"^\n": re.compile(rb"\^\n(?=[ \t]*\S)"),
}
FENCE_MARK = re.compile(rb"```|~~~")
BEFORE_FENCE = re.compile(rb"[ \t>]{0,12}(?:[-*+] |\d{1,3}[.)] )?")
# The end of a line inside a paragraph: the next one begins with a word, and the sentence has not ended.
WRAP = re.compile(rb"\n(?<=[^\s.!?|]\n)[ \t]{0,12}(?=[^\s\-*+#>|`~\d=])")
# What has a listener is looked for only near an address: directives.py looks six lines ahead and four back for one.
ADDRESS_MARK = re.compile(rb"://|@[^\s@](?<=[^\s@]@[^\s@])")  # begins with a literal, which is fast to search for
LINES_BEFORE_ADDRESS, LINES_AFTER_ADDRESS = 8, 20
CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class TextLines:
    """Lines and columns of UTF-8 text. Characters are counted from the start of a block, never of a long line."""

    BLOCK = 4096

    def __init__(self, data: bytes) -> None:
        self.data = data

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

    @cached_property
    def near_addresses(self) -> list[tuple[int, int]]:
        """Where the lines are to which an address may belong."""
        spans: list[tuple[int, int]] = []
        at = searched = 0
        while mark := ADDRESS_MARK.search(self.data, searched):
            line = self.line_of(mark.start())
            searched = self.start_of(line + 1)
            start, end = self.start_of(line - LINES_BEFORE_ADDRESS), self.start_of(line + LINES_AFTER_ADDRESS)
            if end > at:
                spans.append((max(start, at), end))
                at = end
        return spans

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *map(add, accumulate(map(len, self.data.split(b"\n"))), count(1))][:-1]

    @cached_property
    def _is_ascii(self) -> bool:
        return self.data.isascii()

    def _characters(self, offset: int) -> int:
        if self._is_ascii:
            return offset
        block = offset // self.BLOCK
        return self._before_block[block] + _count_characters(self.data[block * self.BLOCK : offset])

    @cached_property
    def _before_block(self) -> list[int]:
        blocks = range(0, len(self.data) + 1, self.BLOCK)
        return list(accumulate((_count_characters(self.data[at : at + self.BLOCK]) for at in blocks), initial=0))


def lowered(text: str) -> bytes:
    """As patterns read it: they are written in lower case."""
    return text.encode("utf-8", "surrogatepass").lower()


def joined_lines(lines: TextLines) -> TextLines:
    """With the lines of a command that goes on over several as one."""
    joined = lines.data
    for mark, pattern in CONTINUATIONS.items():
        joined = pattern.sub(b"  ", joined) if mark in joined else joined
    return lines if joined == lines.data else TextLines(joined)


def unwrapped(data: bytes) -> bytes:
    """A page whose paragraphs have no line breaks, with all else where it was. Blocks of code stay as they are."""
    parts, start, in_fence = [], 0, False
    for first, end in _fence_lines(data):
        part = data[start:first]
        parts += [part if in_fence else WRAP.sub(_spaces, part), data[first:end]]
        start, in_fence = end, not in_fence
    return b"".join([*parts, data[start:] if in_fence else WRAP.sub(_spaces, data[start:])])


def _fence_lines(data: bytes) -> Iterator[tuple[int, int]]:
    end = 0
    while mark := FENCE_MARK.search(data, end):
        start, end = data.rfind(b"\n", end, mark.start()) + 1, data.find(b"\n", mark.end())
        end = len(data) if end < 0 else end
        if BEFORE_FENCE.fullmatch(data, start, mark.start()):
            yield start, end


def near_addresses(lines: TextLines, commands: bytes) -> bytes:
    """The lines to which an address may belong, where they were, with nothing between them; empty without any."""
    return only(lines.near_addresses, commands)


def lines_around(spans: list[tuple[int, int]], data: bytes) -> bytes:
    """The lines of these spans, the one before and as many behind as behind an address, with nothing between them."""
    around: list[tuple[int, int]] = []
    at = 0
    for start, end in spans:
        if start >= at:
            first, at = _line_before(data, at, start), end
            for _ in range(LINES_AFTER_ADDRESS):
                at = data.find(b"\n", at) + 1 or len(data)
            around.append((first, at))
    return only(around, data)


def only(spans: list[tuple[int, int]], data: bytes) -> bytes:
    """Spans in order, where they were, with nothing between them."""
    parts, at = [], 0
    for start, end in spans:
        parts += [b"\0" * (start - at), data[start:end]]
        at = end
    return b"".join(parts)


def _line_before(data: bytes, at: int, offset: int) -> int:
    """Where the line before the one of `offset` begins, not counting empty ones, and not before `at`."""
    before = at + len(data[at : max(at, data.rfind(b"\n", at, offset))].rstrip())
    return max(at, data.rfind(b"\n", at, before) + 1)


def _spaces(match: re.Match[bytes]) -> bytes:
    return b" " * len(match.group())


def _count_characters(data: bytes) -> int:
    return len(data.translate(None, CONTINUATION_BYTES))
