"""Where a file holds commands: a script, a block of code on a page, inline code, a string in a program or a setting."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shared.scanner.context import CODE, COMMAND, CONFIG, MarkdownLayout, ScriptLayout, TextLayout

MAX_LINE = 4000
_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.){6,4000})\"|'((?:[^'\\\n]|\\.){6,4000})'|`([^`\n]{6,4000})`")
_INLINE = re.compile(
    r"(?<!`)(`{1,2})(?!`)([^`\n]{4,2000})\1(?!`)|<(?:code|kbd|tt|samp)\b[^<>\n]{0,80}>([^<\n]{4,2000})</"
)


class Region(NamedTuple):
    line: int
    column: int  # 0: it has whole lines
    text: str


NEXT_LINES = 5  # a list of steps: what one downloads, the next ones start


def command_regions(layout: TextLayout, lines: Iterable[int]) -> Iterator[Region]:
    """Text that may be commands. Of strings and inline code only those in `lines`."""
    if isinstance(layout, MarkdownLayout):
        for first, last, block in layout.code_blocks():
            if block.kinds & COMMAND:
                yield Region(first, 0, "\n".join(layout.lines[first - 1 : last]))
        pattern = _INLINE
    elif isinstance(layout, ScriptLayout) and layout.kinds in (CODE, CONFIG):
        pattern = _STRING
    else:
        yield Region(1, 0, "\n".join(layout.lines))
        return
    for line in _with_next(lines, len(layout.lines)):
        for match in pattern.finditer(layout.lines[line - 1][:MAX_LINE]):
            group = match.lastindex or 0
            yield Region(line, match.start(group) + 1, match.group(group))


def _with_next(lines: Iterable[int], last: int) -> list[int]:
    return sorted({number for line in lines for number in range(line, min(line + NEXT_LINES, last) + 1)})
