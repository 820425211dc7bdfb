"""The context of a match. A command in a shell block is live; the same command in a table of indicators, a warning or
an example marked as bad is documentation. Text hidden from people is read by agents, so it always counts."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePosixPath

import msgspec

from shared.scanner.cues import (
    BAD_EXAMPLE,
    COMMENT,
    DETECTOR_LINE,
    DETECTOR_LIST,
    MARKS,
    PLACEHOLDER_TARGET,
    REAL_ADDRESS,
    TEACHING_HEADING,
    WARNING,
)

MARKDOWN = (".md", ".mdx", ".markdown", ".mdc")
SHELL_FILES = (".sh", ".bash", ".zsh", ".fish", ".ps1", ".psm1", ".bat", ".cmd", ".command")
CODE_FILES = (
    *(".py", ".pyw", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl", ".php", ".go", ".rs", ".java"),
    *(".kt", ".swift", ".c", ".cc", ".cpp", ".h", ".cs", ".lua", ".r", ".scala", ".vbs", ".applescript", ".scpt"),
)
CONFIG_FILES = (
    *(".json", ".jsonc", ".json5", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".xml", ".plist"),
)
SHELL_FENCES = {"bash", "sh", "shell", "zsh", "fish", "console", "terminal", "shell-session", "shellsession", "cmd"}
SHELL_FENCES |= {"powershell", "ps1", "pwsh", "ps", "bat", "batch", "dos", "command", "cli"}
CONFIG_FENCES = {"json", "jsonc", "json5", "yaml", "yml", "toml", "ini", "xml", "plist", "env", "dotenv", "properties"}
# These may hold commands or prose, so rules for both apply.
PLAIN_FENCES = {"", "text", "txt", "plaintext", "plain", "markdown", "md", "prompt", "log", "output", "diff"}

COMMAND = frozenset({"command"})
CODE = frozenset({"code"})
CONFIG = frozenset({"config"})
PROSE = frozenset({"prose"})
PLAIN = frozenset({"command", "prose"})
HIDDEN = frozenset({"hidden"})

FENCE = re.compile(r"^ {0,12}(?:[-*+]\s+|\d+[.)]\s+)?(?:>\s*)?(`{3,}|~{3,})\s*\{?\.?([\w+-]*)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*)")
CLAUSE_END = re.compile(r"[.;!?]\s")  # "Do not skip this. Run x" warns about skipping, not about x
BAD_MARK = re.compile(rf"[\s\-*+>\d.)]*{MARKS}")
LIST_ITEM = re.compile(r"\s*(?:[-*+>]|\d+[.)])\s")  # or a line of a quotation
HIDDEN_START = re.compile(r"<!--|^\[[^\]\n]{1,40}\]: *(?:#|<>) *[(\"']", re.MULTILINE)
QUOTES = tuple("\"'“”‘’«»")
LOOK_BACK = 3
LIST_LOOK_BACK = 30


class Place(msgspec.Struct, frozen=True):
    kinds: frozenset[str]
    documented: bool
    quoted: bool = False  # a quotation; means nothing for commands, which are full of quotes

    @property
    def label(self) -> str:
        return "/".join(sorted(self.kinds)) + (", described" if self.documented else "")


class Block(msgspec.Struct, frozen=True):
    """Consecutive lines of a Markdown page, up to the `first` line of the next block."""

    first: int
    kinds: frozenset[str]
    fence: bool
    documented: bool


def text_layout_for(path: str, text: str, about_attacks: bool = False) -> "TextLayout":
    lowered = path.lower()
    if lowered.endswith(MARKDOWN) or lowered.endswith((".txt", ".rst", ".adoc")):
        return MarkdownLayout(text, PurePosixPath(lowered).name != "skill.md", about_attacks)
    return ScriptLayout(text, _kinds_of_file(lowered, text))


class TextLayout:
    """The structure of one text file: maps a line and column to a place."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")

    def at(self, line: int, column: int) -> Place:
        raise NotImplementedError

    def lines_before(self, line: int, count: int) -> list[str]:
        return self.lines[max(0, line - 1 - count) : line - 1]


class ScriptLayout(TextLayout):
    def __init__(self, text: str, kinds: frozenset[str]) -> None:
        super().__init__(text)
        self.kinds = kinds

    def at(self, line: int, column: int) -> Place:
        return Place(self.kinds, self._is_description(self.lines[line - 1], line))

    def _is_description(self, text: str, line: int) -> bool:
        if self.kinds == CONFIG:
            return bool(DETECTOR_LINE.search(text[:500]))
        if COMMENT.match(text) or DETECTOR_LINE.search(text[:500]):
            return True
        return self._in_detector_list(line)

    def _in_detector_list(self, line: int) -> bool:
        """Inside the brackets of a list that is named as a list of things to detect."""
        indent = _indent(self.lines[line - 1])
        for text in reversed(self.lines_before(line, LIST_LOOK_BACK)):
            if text.strip() and _indent(text) < indent:
                return _opens_bracket(text) and bool(DETECTOR_LIST.search(text[:300]))
        return False


class MarkdownLayout(TextLayout):
    def __init__(self, text: str, title_counts: bool = False, about_attacks: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.title_counts = title_counts
        self.about_attacks = about_attacks
        self._real_targets: dict[int, bool] = {}

    @cached_property
    def _blocks(self) -> list[Block]:
        return read_blocks(self.lines, self.title_counts)

    @cached_property
    def _starts(self) -> list[int]:
        return [block.first for block in self._blocks]

    @cached_property
    def _hidden(self) -> list[tuple[int, int]]:
        return [span for span in hidden_lines(self.text) if not self._block_at(span[0]).fence]

    def _block_at(self, line: int) -> Block:
        return self._blocks[bisect_right(self._starts, line) - 1]

    def at(self, line: int, column: int) -> Place:
        block = self._block_at(line)
        text = self.lines[line - 1]
        if not block.fence and self._is_hidden(line):
            return Place(HIDDEN, documented=False)
        if block.fence:
            return Place(block.kinds, block.documented or self._marked_bad(line, column) or self._is_exercise(line))
        return self._in_prose(block, text, line, column)

    def _is_hidden(self, line: int) -> bool:
        index = bisect_right(self._hidden, (line, len(self.lines) + 1)) - 1
        return index >= 0 and self._hidden[index][1] >= line

    def _is_exercise(self, line: int) -> bool:
        """In a skill about attacks, a command without a real target is an exercise."""
        if not self.about_attacks:
            return False
        return bool(PLACEHOLDER_TARGET.search(self.lines[line - 1][:1000])) or not self._names_real_target(line)

    def _names_real_target(self, line: int) -> bool:
        """A block of commands counts as one: its first line may pack what its last line sends."""
        index = bisect_right(self._starts, line) - 1
        if not self._blocks[index].fence:
            return bool(REAL_ADDRESS.search(self.lines[line - 1][:1000]))
        if index not in self._real_targets:
            end = self._starts[index + 1] - 1 if index + 1 < len(self._starts) else len(self.lines)
            text = "\n".join(self.lines[self._starts[index] - 1 : end])
            self._real_targets[index] = bool(REAL_ADDRESS.search(text))
        return self._real_targets[index]

    def _marked_bad(self, line: int, column: int) -> bool:
        """Inside a fence, a comment on or just above the line may call it bad, or the line may be a search."""
        text = self.lines[line - 1]
        if DETECTOR_LINE.search(text[:column]) or _trailing_comment_warns(text):
            return True
        comments = [above for above in self.lines_before(line, LOOK_BACK) if COMMENT.match(above)]
        return bool(COMMENT.match(text) and WARNING.search(text)) or any(BAD_EXAMPLE.search(c[:300]) for c in comments)

    def _in_prose(self, block: Block, text: str, line: int, column: int) -> Place:
        before = text[: max(0, column - 1)]
        in_code = before.count("`") % 2 == 1
        clause = CLAUSE_END.split(before)[-1]
        kinds = COMMAND if in_code else PROSE
        documented = (
            block.documented
            or _is_table_row(text)
            or bool(BAD_MARK.match(text))
            or bool(WARNING.search(clause[-200:]))
            or self._led_in_by_warning(text, line)
            or (in_code and self._is_exercise(line))
        )
        return Place(kinds | PROSE, documented, quoted=in_code or _is_quoted(before))

    def _led_in_by_warning(self, text: str, line: int) -> bool:
        """A list item belongs to the sentence above its list; a wrapped line to the line above it."""
        for above in reversed(self.lines_before(line, 12)):
            if not above.strip():
                if not LIST_ITEM.match(text):
                    return False
                continue
            if LIST_ITEM.match(above):
                if not LIST_ITEM.match(text):
                    return bool(BAD_EXAMPLE.search(above[:400]))
                continue
            return bool(BAD_EXAMPLE.search(above[:400]))
        return False


def read_blocks(lines: list[str], title_counts: bool = False) -> list[Block]:
    """Fences and the prose between them, each marked if a heading or the text above calls it a bad example."""
    blocks = [Block(1, PROSE, False, False)]
    headings: dict[int, bool] = {}
    fence = ""
    for number, text in enumerate(lines, start=1):
        opened = FENCE.match(text) if ("```" in text or "~~~" in text) else None
        if fence:
            if opened and opened.group(1).startswith(fence) and not opened.group(2):
                fence = ""
                blocks.append(Block(number + 1, PROSE, False, any(headings.values())))
            continue
        if opened:
            fence = opened.group(1)
            documented = any(headings.values()) or _lead_in_warns(lines, number)
            blocks.append(Block(number, _kinds_of_fence(opened.group(2).lower()), True, documented))
        elif text.startswith("#") and (heading := HEADING.match(text)):
            level = len(heading.group(1))
            headings = {depth: bad for depth, bad in headings.items() if depth < level}
            # The title of SKILL.md names the skill's subject and excuses nothing; a reference page is about its title.
            headings[level] = (level > 1 or title_counts) and bool(TEACHING_HEADING.search(heading.group(2)[:200]))
            blocks.append(Block(number, PROSE, False, any(headings.values())))
    return blocks


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
    end = 0
    while match := HIDDEN_START.search(text, end):
        is_html = match.group().startswith("<!--")
        found = text.find("-->" if is_html else "\n", match.end())
        line_start = text.rfind("\n", 0, match.start()) + 1
        in_code = text.count("`", line_start, match.start()) % 2 == 1
        if in_code or (found == -1 and text[line_start : match.start()].strip()):
            end = match.end()  # inline code, or an unclosed mark inside a paragraph: not a comment
            continue
        end = len(text) if found == -1 else found
        yield match.start(), end


def _lead_in_warns(lines: list[str], fence_line: int) -> bool:
    above = [text for text in lines[max(0, fence_line - 1 - LOOK_BACK) : fence_line - 1] if text.strip()]
    return any(BAD_EXAMPLE.search(text[:400]) for text in above[-2:])


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _opens_bracket(text: str) -> bool:
    return sum(map(text.count, "([{")) > sum(map(text.count, ")]}"))


def _trailing_comment_warns(text: str) -> bool:
    _, mark, comment = text.rpartition("# ") if "# " in text else text.rpartition("// ")
    return bool(mark and BAD_EXAMPLE.search(comment[:200]))


def _is_table_row(text: str) -> bool:
    stripped = text.strip()
    return stripped.startswith("|") and stripped.count("|") >= 3


def _is_quoted(before: str) -> bool:
    """The match begins inside a quotation."""
    return before.rstrip("*_ ").endswith(QUOTES) or before.count('"') % 2 == 1 or before.count("“") > before.count("”")


def _kinds_of_fence(language: str) -> frozenset[str]:
    if language in SHELL_FENCES:
        return COMMAND
    if language in PLAIN_FENCES:
        return PLAIN
    return CONFIG if language in CONFIG_FENCES else CODE


def _kinds_of_file(path: str, text: str) -> frozenset[str]:
    if path.endswith(SHELL_FILES):
        return COMMAND
    if path.endswith(CODE_FILES):
        return CODE
    if path.endswith(CONFIG_FILES):
        return CONFIG
    return _kinds_of_shebang(text[:200].split("\n", 1)[0])


def _kinds_of_shebang(first_line: str) -> frozenset[str]:
    if not first_line.startswith("#!"):
        return PLAIN
    return COMMAND if re.search(r"\b(ba|z|da|fi)?sh\b", first_line) else CODE
