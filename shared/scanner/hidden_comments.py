"""Comments of Markdown and HTML on a page: people do not see them, agents read them."""

import re
from collections.abc import Iterator

HIDDEN_START = re.compile(r"<!--|^\[[^\]\n]{1,40}\]: *(?:#|<>) *[(\"']", re.MULTILINE)
WINDOW = 1000  # characters of a line that are looked at


def hidden_lines(text: str) -> list[tuple[int, int]]:
    """First and last line of every HTML comment and Markdown comment, in order."""
    spans = []
    line, counted = 1, 0
    for start, end in _hidden_spans(text):
        line += text.count("\n", counted, start)
        last = line + text.count("\n", start, end)
        spans.append((line, last))
        line, counted = last, end
    return spans


def _hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    end = line_start = ticks = counted = 0
    last_close = text.rfind("-->")
    while match := HIDDEN_START.search(text, end):
        start = match.start()
        if (new_line := text.rfind("\n", counted, start)) >= 0:
            line_start, ticks, counted = new_line + 1, 0, new_line + 1
        ticks += text.count("`", counted, start)
        counted = start
        closer = "-->" if match.group().startswith("<!--") else "\n"
        found = -1 if closer == "-->" and last_close < match.end() else text.find(closer, match.end())
        if ticks % 2 == 1 or (found == -1 and text[line_start : min(start, line_start + WINDOW)].strip()):
            end = match.end()  # inline code, or an unclosed mark inside a paragraph: not a comment
            continue
        end = len(text) if found == -1 else found
        yield start, end
