"""Markdown pages: the shell blocks of one page are one sequence, as a reader runs them from top to bottom."""

import re

from shared.scanner.context import MarkdownLayout, Place
from shared.scanner.flow.anchors import SearchedCode, sends
from shared.scanner.flow.shell import Shell
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import UNKNOWN, Value
from shared.scanner.syntax import Span

# In no shell a command begins like this: it is the prompt that a transcript shows.
_PROMPT = re.compile(r"^(\s{0,20}(?:>\s?)?)(?:\$|%|❯|➜|\w{1,20}@[\w-]{1,30}[:~\w/]{0,40}[$#])[ \t]+", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]{8,600})`(?!`)")
_FOLLOWED = ("python", "script", "powershell")
MAX_INLINE = 100


def follow_page(script: Script, tracker: Tracker) -> Value:
    is_skill_page = script.path.lower().endswith("skill.md")
    layout = tracker.layouts.get(script.path) or MarkdownLayout(script.text, script.text, is_skill_page)
    lines, blocks = layout.lines, layout.blocks
    shell = Shell(script.path, tracker)
    ends = [block.first - 1 for block in blocks[1:]] + [len(lines)]
    inline = _Inline(shell, layout)
    for block, end in zip(blocks, ends, strict=True):
        if not block.fence:
            inline.follow(block.first, end)
        elif is_skill_page or not block.documented:
            _follow_block(block.language, block.kinds, "\n".join(lines[block.first : end]), block.first + 1, shell)
    return UNKNOWN


def _follow_block(language: str, kinds: frozenset[str], text: str, first_line: int, shell: Shell) -> None:
    text = re.sub(r"\n[ \t>]*(?:`{3,}|~{3,})[ \t]*\Z", "", text)
    if language in _FOLLOWED:
        code = SearchedCode(text)  # a block of another language is a program of its own: it has both, or nothing flows
        if not (code.may_send and code.names_source):
            return
        script = Script(path=shell.path, text=_dedented(text), first_line=first_line, language=language)
        shell.tracker.interpret(script)
    elif "command" in kinds and (language in ("shell", "batch") or (not language and _names_anything(text))):
        shell.run_text(_PROMPT.sub(r"\1", text), first_line)


def _names_anything(text: str) -> bool:
    """A block without a language may be a tree of files, a diff or a prompt."""
    code = SearchedCode(text)
    return code.may_send or code.names_source


def _dedented(text: str) -> str:
    indents = [len(line) - len(line.lstrip()) for line in text.split("\n") if line.strip()]
    cut = min(indents, default=0)
    return "\n".join(line[cut:] for line in text.split("\n")) if cut else text


class _Inline:
    """Commands between backticks in a sentence that does not warn of them."""

    def __init__(self, shell: Shell, layout: MarkdownLayout) -> None:
        self._shell = shell
        self._layout = layout
        self._left = MAX_INLINE

    def follow(self, first: int, end: int) -> None:
        if not sends("\n".join(self._layout.lines[first - 1 : end])):
            return
        for number in range(first, end + 1):
            line = self._layout.lines[number - 1]
            if "`" not in line or not sends(line):
                continue
            for match in _INLINE.finditer(line):
                if self._left > 0 and sends(match.group(1)) and not self._place(number, match).documented:
                    self._left -= 1
                    self._shell.run_text(match.group(1), number)

    def _place(self, number: int, match: re.Match[str]) -> Place:
        return self._layout.at(Span(number, match.start(1) + 1, number, match.end(1) + 1))
