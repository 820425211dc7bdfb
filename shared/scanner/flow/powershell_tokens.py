"""PowerShell text as a tree of tokens: strings, variables, words and what brackets hold."""

import re

import msgspec

MAX_DEPTH = 30
_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|`\r?\n)"
    r"|(?P<comment><#[\s\S]*?(?:#>|\Z)|#[^\n]*)"
    r"|(?P<here>@\"[ \t\r]*\n[\s\S]*?(?:\n\"@|\Z)|@'[ \t\r]*\n[\s\S]*?(?:\n'@|\Z))"
    r"|(?P<double>\"(?:[^\"`]|`[\s\S]|\"\")*(?:\"|\Z))"
    r"|(?P<single>'(?:[^']|'')*(?:'|\Z))"
    r"|(?P<variable>\$\{[^}\n]{0,80}\}|\$[A-Za-z_][\w:]*)"
    r"|(?P<type>\[[\w.+]{1,80}(?:\[\])?\])"
    r"|(?P<open>@\(|@\{|\$\(|[({\[])"
    r"|(?P<close>[)}\]])"
    r"|(?P<mark>::|\|\||&&|[|;,\n&]|\+=|=|\+(?!\w))"
    r"|(?P<parameter>-[A-Za-z]\w*:?)"
    r"|(?P<member>\.[A-Za-z]\w*)"
    r"|(?P<word>[^\s\"'(){}\[\];,|&=]+)"
    r"|(?P<other>[\s\S])",
    re.IGNORECASE,
)
_CLOSES = {"(": ")", "@(": ")", "$(": ")", "{": "}", "@{": "}", "[": "]"}


class PsToken(msgspec.Struct, frozen=True):
    kind: str
    text: str
    line: int
    glued: bool  # nothing stands between it and the token before it


class PsGroup(msgspec.Struct, frozen=True):
    opener: str
    items: "list[PsToken | PsGroup]"
    line: int
    glued: bool


PsItem = PsToken | PsGroup


def read_powershell(text: str, first_line: int = 1) -> list[PsItem]:
    """One pass; brackets that are nested too deeply, or closed without being opened, are ignored."""
    root: list[PsItem] = []
    stack: list[tuple[str, list[PsItem]]] = [("", root)]
    line, glued = first_line, False
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup or "other", match.group()
        if kind == "open" and len(stack) < MAX_DEPTH:
            group = PsGroup(found, [], line, glued)
            stack[-1][1].append(group)
            stack.append((_CLOSES[found], group.items))
        elif kind == "close":
            if found == stack[-1][0]:
                stack.pop()
        elif kind not in ("space", "comment", "open"):
            stack[-1][1].append(PsToken(kind, found, line, glued))
        line += found.count("\n")
        glued = kind not in ("space", "comment", "open") and found != "\n"
    return root


def statements(items: list[PsItem]) -> list[list[PsItem]]:
    return _split(items, (";", "\n", "&&", "||"), continued=True)


def pieces(items: list[PsItem], mark: str) -> list[list[PsItem]]:
    return _split(items, (mark,))


def _split(items: list[PsItem], marks: tuple[str, ...], continued: bool = False) -> list[list[PsItem]]:
    found: list[list[PsItem]] = [[]]
    for item in items:
        if not isinstance(item, PsToken) or item.kind != "mark" or item.text not in marks:
            found[-1].append(item)
        elif not (continued and item.text == "\n" and _goes_on(found[-1])):
            found.append([])
    return [piece for piece in found if piece]


def _goes_on(items: list[PsItem]) -> bool:
    """A line that ends with a pipe, a comma or an operator is continued by the next."""
    last = items[-1] if items else None
    return isinstance(last, PsToken) and last.kind == "mark" and last.text in ("|", ",", "+", "=", "+=")
