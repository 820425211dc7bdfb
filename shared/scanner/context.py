"""The context of a match. In code only a comment excuses, by the language's own syntax; in prose a warning, a table or
a statement makes a match a description. Text hidden from people is read by agents, so it always counts."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from pathlib import PurePosixPath

import msgspec

from shared.scanner.cues import (
    BAD_EXAMPLE,
    MARKS,
    NO_WARNING,
    ROWS_BELOW,
    TEACHING_HEADING,
    TO_DO,
    UNSHOWN_QUOTE,
    WARNING,
    WEAK_HEADING,
    instructs_to_run,
    is_searched_for,
    states_something,
    table_is_ordered,
)
from shared.scanner.hidden_comments import hidden_lines
from shared.scanner.syntax import SourceSyntax, Span, language_of_fence, language_of_file

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
PIP_OPTIONS = re.compile(r"(?:^|/)[\w.-]{0,40}(?:requirements|constraints)[\w.-]{0,40}\.(?:txt|in)\Z")

COMMAND = frozenset({"command"})
CODE = frozenset({"code"})
CONFIG = frozenset({"config"})
PROSE = frozenset({"prose"})
PLAIN = frozenset({"command", "prose"})
HIDDEN = frozenset({"hidden"})
DECODED = frozenset({"hidden", "decoded"})  # an encoded text, whatever it turns out to be
ANY = COMMAND | CODE | CONFIG | PROSE

FENCE = re.compile(r"^ {0,12}(?:[-*+]\s+|\d+[.)]\s+)?(?:>\s*)?(`{3,}|~{3,})\s*\{?\.?([\w+-]*)")
_PRE = re.compile(r"[ \t>*-]{0,12}(?:<\w{1,12}[^<>\n]{0,200}>[ \t]{0,8}){0,3}<pre\b", re.IGNORECASE)
_PRE_END = "</pre>"
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*)")
CLAUSE_END = re.compile(r"[.;!?]\s")  # "Do not skip this. Run x" warns about skipping, not about x
BAD_MARK = re.compile(rf"[\s\-*+>\d.)]*{MARKS}")
LIST_ITEM = re.compile(r"\s*(?:[-*+>]|\d+[.)])\s")  # or a line of a quotation
QUOTES = tuple("\"'“”‘’«»")
BULLET = re.compile(r"\s*(?:[-*+•]|\[[ x]\])\s")
TICK = re.compile("`")
LOOK_BACK = 3
WINDOW = 1000  # characters before a match that say how it is meant: enough for a sentence, whatever the line is


class Excuse(StrEnum):
    """Why a match may be harmless. Only what the language itself never runs is a full excuse."""

    NONE = ""
    COMMENT = "comment"
    DATA = "data"  # a string literal of a skill that starts no program
    HEADING = "heading"  # inline code in SKILL.md under such a heading or in a table; its own sentence says nothing
    WORDS = "words"  # Markdown prose that warns about it, lists it in a table or quotes it
    LESSON = "lesson"  # a block of code on a page beside SKILL.md whose heading or lead-in calls it bad


class Place(msgspec.Struct, frozen=True):
    kinds: frozenset[str]
    excuse: Excuse = Excuse.NONE
    quoted: bool = False  # a quotation; means nothing for commands, which are full of quotes
    is_instructed: bool = False  # the sentence, or the comment, instructs the reader to run it

    @property
    def documented(self) -> bool:
        return self.excuse is not Excuse.NONE

    @property
    def label(self) -> str:
        return "/".join(sorted(self.kinds)) + (", described" if self.documented else "")


class Block(msgspec.Struct, frozen=True):
    """Consecutive lines of a Markdown page, up to the `first` line of the next block."""

    first: int
    kinds: frozenset[str]
    fence: bool
    documented: bool
    language: str = ""
    is_open: bool = False  # only headings call it bad that may as well lead in an order


def text_layout_for(
    path: str, text: str, original: str, starts_programs: bool = True, run_as_commands: bool = False
) -> "TextLayout":
    """`text` is what is matched. `original` is what an interpreter would read, so its comments are the ones that count:
    a look-alike of a # begins none."""
    if run_as_commands:
        return CommandsLayout(text, original)
    lowered = path.lower()
    if PIP_OPTIONS.search(lowered):
        return ScriptLayout(text, original, lowered, starts_programs)
    if lowered.endswith(MARKDOWN) or lowered.endswith((".txt", ".rst", ".adoc")):
        return MarkdownLayout(text, original, PurePosixPath(lowered).name == "skill.md")
    return ScriptLayout(text, original, lowered, starts_programs)


class TextLayout:
    """The structure of one text file: maps a match to a place."""

    def __init__(self, text: str, original: str) -> None:
        self.text = text
        self._original = original

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def at(self, span: Span) -> Place:
        raise NotImplementedError

    def whole_line(self, line: int) -> Place:
        """Where a whole line is: for what was found in a rewritten copy of the text, whose columns differ."""
        text = self.lines[line - 1]
        first = len(text) - len(text.lstrip()) + 1
        return self.at(Span(line, min(first, len(text) + 1), line, len(text.rstrip()) + 1))

    def lines_before(self, line: int, count: int) -> list[str]:
        return self.lines[max(0, line - 1 - count) : line - 1]

    @cached_property
    def original_lines(self) -> list[str]:
        return self.lines if self._original == self.text else self._original.split("\n")


class CommandsLayout(TextLayout):
    """A file that is run as something else than its name says: all of it counts, as whatever it may be."""

    def at(self, span: Span) -> Place:
        return Place(ANY)


class ScriptLayout(TextLayout):
    def __init__(self, text: str, original: str, path: str, starts_programs: bool) -> None:
        super().__init__(text, original)
        self.kinds = _kinds_of_file(path, text)
        self._language = language_of_file(path, original)
        self._is_document = "!word/" in path or "!ppt/" in path  # prose, in an Office file
        self._strings_are_data = not starts_programs and self.kinds == CODE

    @cached_property
    def _syntax(self) -> SourceSyntax:
        return SourceSyntax(self.original_lines, self._language)

    def at(self, span: Span) -> Place:
        if self._syntax.is_comment(span, self.lines):
            if self._language == "html":  # a browser hides them, and an agent reads them like the rest
                return Place(self.kinds)
            return Place(self.kinds, Excuse.COMMENT, quoted=_is_quoted(self._before(span)))
        if self._language == "shell" and self._syntax.is_string(span, self.lines):
            searched = span.line == span.end_line and is_searched_for(self.lines[span.line - 1], span.column - 1)
            return Place(self.kinds, Excuse.COMMENT if searched else Excuse.NONE)
        if self._is_document:
            return Place(self.kinds, quoted=_is_quoted(self._before(span)))
        if self._strings_are_data and self._syntax.is_string(span, self.lines):
            return Place(self.kinds, Excuse.DATA, is_instructed=instructs_to_run(self._before(span)))
        return Place(self.kinds)

    def _before(self, span: Span) -> str:
        return self.lines[span.line - 1][max(0, span.column - 1 - WINDOW) : span.column - 1]


class MarkdownLayout(TextLayout):
    def __init__(self, text: str, original: str, is_skill_page: bool) -> None:
        super().__init__(text, original)
        self._is_skill_page = is_skill_page
        self._fences: dict[int, SourceSyntax] = {}
        self._ticks: dict[int, list[int]] = {}

    @cached_property
    def blocks(self) -> list[Block]:
        return read_blocks(self.lines, title_counts=not self._is_skill_page)

    @cached_property
    def _starts(self) -> list[int]:
        return [block.first for block in self.blocks]

    @cached_property
    def _hidden(self) -> list[tuple[int, int]]:
        return [span for span in hidden_lines(self.text) if not self.blocks[self._block_index(span[0])].fence]

    def _block_index(self, line: int) -> int:
        return bisect_right(self._starts, line) - 1

    def at(self, span: Span) -> Place:
        index = self._block_index(span.line)
        block = self.blocks[index]
        if block.fence:
            return self._in_fence(index, block, span)
        if self._is_hidden(span.line):
            return Place(HIDDEN)
        return self._in_prose(block, self.lines[span.line - 1], span.line, span.column)

    def code_blocks(self) -> Iterator[tuple[int, int, Block]]:
        """First and last line of the text in each block of code."""
        ends = [*(start - 1 for start in self._starts[1:]), len(self.lines)]
        for block, end in zip(self.blocks, ends, strict=True):
            if block.fence:
                yield block.first + 1, end, block

    def _is_hidden(self, line: int) -> bool:
        index = bisect_right(self._hidden, (line, len(self.lines) + 1)) - 1
        return index >= 0 and self._hidden[index][1] >= line

    def _in_fence(self, index: int, block: Block, span: Span) -> Place:
        """Only a comment excuses a command. On a page beside SKILL.md words leave a question, in SKILL.md nothing."""
        text = self.lines[span.line - 1]
        before = text[max(0, span.column - 1 - WINDOW) : span.column - 1]
        syntax = self._fence_syntax(index, block)
        warned = block.documented and not self._is_skill_page
        if syntax.is_comment(span, self.lines):
            return Place(block.kinds, Excuse.COMMENT, warned or _is_quoted(before), instructs_to_run(before))
        is_argument = block.language == "shell" and span.line == span.end_line and syntax.is_string(span, self.lines)
        if is_argument and is_searched_for(text, span.column - 1):
            return Place(block.kinds, Excuse.COMMENT)
        if block.kinds == PLAIN and BULLET.match(text[:200]):
            return self._in_prose(block, text, span.line, span.column)  # no shell runs a line that begins like this
        return Place(
            block.kinds, Excuse.LESSON if warned else Excuse.NONE, quoted=block.documented and "prose" in block.kinds
        )

    def _fence_syntax(self, index: int, block: Block) -> SourceSyntax:
        if index not in self._fences:
            end = self._starts[index + 1] - 1 if index + 1 < len(self._starts) else len(self.lines)
            lines = self.original_lines[block.first : end]
            language = "" if _is_left_early(self.lines[block.first - 1], lines) else block.language
            self._fences[index] = SourceSyntax(lines, language, block.first + 1)
        return self._fences[index]

    def _in_prose(self, block: Block, text: str, line: int, column: int) -> Place:
        before = text[max(0, column - 1 - WINDOW) : max(0, column - 1)]
        if UNSHOWN_QUOTE.search(before):
            return Place(HIDDEN)
        in_code = self._ticks_before(line, column) % 2 == 1
        clause = CLAUSE_END.split(before)[-1]
        in_table = _is_table_row(text[:WINDOW])
        leads_in_orders = TO_DO.search(self._head_of_table(line)) if in_table else block.is_open
        around = block.documented or in_table
        itself = (
            bool(BAD_MARK.match(text[:200]))
            or bool(WARNING.search(NO_WARNING.sub("", text[:WINDOW] if in_table else clause[-200:])))
            or self._led_in_by_warning(text[:400], line)
        )
        is_open = bool(leads_in_orders) and (in_code or block.fence) and self._is_skill_page and not itself
        is_open = is_open or (in_table and table_is_ordered(self.lines[line : line + ROWS_BELOW]))
        excuse = Excuse.HEADING if is_open else Excuse.WORDS
        is_mentioned = in_code and not in_table and self._is_mentioned(clause, line)
        return Place(
            (COMMAND if in_code else PROSE) | PROSE,
            excuse if around or itself or is_mentioned else Excuse.NONE,
            quoted=in_code or _is_quoted(before),
            is_instructed=instructs_to_run(clause),
        )

    def _is_mentioned(self, clause: str, line: int) -> bool:
        """Inline code in a statement about something, whose beginning is on this line."""
        if not states_something(clause):
            return False
        text, above = self.lines[line - 1][:WINDOW], self.lines[line - 2].rstrip() if line > 1 else ""
        begins_here = not text.startswith(clause) or bool(LIST_ITEM.match(text))
        return begins_here or not above or above.endswith((".", "!", "?", ":", "---", "```")) or above.startswith("#")

    def _head_of_table(self, line: int) -> str:
        first = next((at for at in range(line, max(1, line - 40), -1) if not _is_table_row(self.lines[at - 2])), line)
        return self.lines[first - 1][:WINDOW]

    def _ticks_before(self, line: int, column: int) -> int:
        if line not in self._ticks:
            self._ticks[line] = [match.start() for match in TICK.finditer(self.lines[line - 1])]
        return bisect_left(self._ticks[line], column - 1)

    def _led_in_by_warning(self, text: str, line: int) -> bool:
        """A list item belongs to the sentence above its list; a wrapped line to the line above it."""
        for above in reversed([above[:400] for above in self.lines_before(line, 12)]):
            if not above.strip():
                if not LIST_ITEM.match(text):
                    return False
                continue
            if LIST_ITEM.match(above):
                if not LIST_ITEM.match(text):
                    return bool(BAD_EXAMPLE.search(above))
                continue
            return bool(BAD_EXAMPLE.search(above))
        return False


def read_blocks(lines: list[str], title_counts: bool = False) -> list[Block]:
    """Fences and the prose between them, each marked if a heading or the text above calls it a bad example."""
    blocks = [Block(1, PROSE, False, False)]
    is_open = False
    headings: dict[int, str] = {}  # those that call what follows bad, by level
    fence = ""
    for number, text in enumerate(lines, start=1):
        opened = FENCE.match(text) if ("```" in text or "~~~" in text) else None
        if fence == _PRE_END:
            if _PRE_END in text.lower():
                fence = ""
                blocks.append(Block(number + 1, PROSE, False, any(headings.values()), is_open=is_open))
            continue
        if fence:
            if opened and opened.group(1).startswith(fence) and not opened.group(2):
                fence = ""
                blocks.append(Block(number + 1, PROSE, False, any(headings.values()), is_open=is_open))
            continue
        if "<" in text and _PRE.match(text):
            fence = _PRE_END if _PRE_END not in text.lower() else ""
            blocks.append(Block(number, PLAIN, True, any(headings.values()) or _lead_in_warns(lines, number)))
            blocks += [] if fence else [Block(number + 1, PROSE, False, any(headings.values()), is_open=is_open)]
        elif opened:
            fence = opened.group(1)
            documented = any(headings.values()) or _lead_in_warns(lines, number)
            tag = opened.group(2).lower()
            blocks.append(Block(number, _kinds_of_fence(tag), True, documented, language_of_fence(tag), is_open))
        elif text.startswith("#") and (heading := HEADING.match(text)):
            level = len(heading.group(1))
            headings = {depth: title for depth, title in headings.items() if depth < level}
            # The title of SKILL.md names the skill's subject and excuses nothing; a reference page is about its title.
            title = heading.group(2)[:200]
            is_bad = (level > 1 or title_counts) and TEACHING_HEADING.search(title)
            headings[level] = title if is_bad else ""
            is_open = not any(TEACHING_HEADING.search(WEAK_HEADING.sub("", title)) for title in headings.values())
            blocks.append(Block(number, PROSE, False, any(headings.values()), is_open=is_open))
    return blocks


def _is_left_early(opened: str, lines: list[str]) -> bool:
    """Readers of Markdown disagree about where this block of code ends, so it may have no comments: it holds another
    fence, its first line may be none, or it began in a quotation that ends before it does."""
    fence = FENCE.match(opened)
    if fence is None or "`" in opened[fence.end(1) :] or any(FENCE.match(line) for line in lines[:-1]):
        return True
    in_quotation = ">" in opened[: fence.start(1)]
    return in_quotation and not all(line.lstrip().startswith(">") for line in lines if line.strip())


def _lead_in_warns(lines: list[str], fence_line: int) -> bool:
    above = [text for text in lines[max(0, fence_line - 1 - LOOK_BACK) : fence_line - 1] if text.strip()]
    return any(BAD_EXAMPLE.search(text[:400]) for text in above[-2:])


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
    if path.endswith(SHELL_FILES) or PIP_OPTIONS.search(path):
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
