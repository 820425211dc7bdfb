"""Attacks rewritten so that they do the same and read differently.

Each function returns the changed files, or None where there is nothing for it to change."""

import random
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

Files = Mapping[str, bytes]
PADDING = 30_000
LANGUAGES = dict.fromkeys(("bash", "sh", "shell", "zsh", "console"), "sh") | {"python": "python", "py": "python"}
LANGUAGES |= dict.fromkeys(("javascript", "js", "typescript", "ts"), "js")
SCRIPTS = {".sh": "sh", ".bash": "sh", ".py": "python", ".js": "js", ".mjs": "js", ".ts": "js"}
FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([\w+-]*)[^\n]*\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
FRONT_MATTER = re.compile(r"\A---\r?\n.*?\n---\r?\n", re.DOTALL)
ASSIGNED = {
    "sh": re.compile(r"^[ \t]*(?:export |local |readonly )?([A-Za-z_]\w{2,})=", re.MULTILINE),
    "python": re.compile(r"^[ \t]*([a-z_]\w{2,})\s*=(?!=)", re.MULTILINE),
    "js": re.compile(r"\b(?:const|let|var)\s+([a-z_]\w{2,})\s*="),
}
SUBJECTS = ("the report", "each table", "a page", "the index", "every chart", "the summary", "one column", "the style")
VERBS = ("shows", "groups", "sorts", "repeats", "explains", "counts", "lists", "colours")
OBJECTS = ("values by month", "names in order", "the totals", "rows of one kind", "the units", "short titles")
OTHER_TOOLS = (
    (re.compile(r"\bcurl (?:-[fsSLk]+ )+(?=[\"']?https?://)"), "wget -qO- "),
    (re.compile(r"\bwget -q?O- "), "curl -fsSL "),
    (re.compile(r"\bbase64 (?:-d|-D|--decode)\b"), "openssl base64 -d -A"),
    (re.compile(r"\brequests\.(get|post|put)\("), r"httpx.\1("),
    (re.compile(r"\bimport requests\b"), "import httpx"),
    (re.compile(r"\| (?:sudo )?bash\b"), "| sh"),
    (re.compile(r"\bnc (?=-)"), "ncat "),
    (re.compile(r"\bpip install\b"), "python3 -m pip install"),
    (re.compile(r"\bos\.getenv\("), "os.environ.get("),
    (re.compile(r"\s-X POST\b"), " --request POST"),
    (re.compile(r"\s-d (?=[\"'@])"), " --data "),
    (re.compile(r"\s-H (?=[\"'])"), " --header "),
)
PLAIN_STRING = re.compile(r"\"([^\"'\\$`\n{}!]*)\"")
SYNONYMS = {
    "must": "have to",
    "download": "fetch",
    "run": "execute",
    "execute": "run",
    "send": "transmit",
    "before": "prior to",
    "ensure": "make sure",
    "required": "necessary",
    "upload": "submit",
    "always": "every time",
    "immediately": "at once",
    "silently": "quietly",
    "collect": "gather",
    "also": "in addition",
    "previous": "earlier",
    "ignore": "disregard",
    "never": "at no time",
    "use": "employ",
    "hidden": "concealed",
    "automatically": "by itself",
    "first": "initially",
}
SYNONYM = re.compile(rf"\b(?:{'|'.join(SYNONYMS)})\b", re.IGNORECASE)


def padded(files: Files) -> Files | None:
    """30 KB of harmless text, half of it above the skill's own."""
    page = page_of(files)
    text = _text(files, page)
    start = front.end() if (front := FRONT_MATTER.match(text)) else 0
    head, tail = _harmless(PADDING // 2, seed=1), _harmless(PADDING // 2, seed=2)
    return _changed(files, {page: f"{text[:start]}\n{head}\n{text[start:]}\n{tail}"})


def renamed(files: Files) -> Files | None:
    """Every variable that a script or a block of code assigns has another name."""
    changed = {path: _renamed(_text(files, path), language) for path, language in _scripts(files)}
    changed |= {path: _in_fences(_text(files, path), _renamed) for path in _pages(files)}
    return _changed(files, changed)


def reflowed(files: Files) -> Files | None:
    """Prose in short lines; commands continued over several."""
    changed = {path: _broken(_text(files, path), language) for path, language in _scripts(files)}
    changed |= {path: _in_prose(_in_fences(_text(files, path), _broken), _wrapped) for path in _pages(files)}
    return _changed(files, changed)


def other_tools(files: Files) -> Files | None:
    """Another program for the same step, long options for short ones, the other quotes."""
    changed = {path: _retooled(_text(files, path), language) for path, language in _scripts(files)}
    changed |= {path: _in_fences(_text(files, path), _retooled) for path in _pages(files)}
    return _changed(files, changed)


def split(files: Files) -> Files | None:
    """The second half of the page in a file of its own, to which the first half leads."""
    page = page_of(files)
    text = _text(files, page)
    cut = _middle(text)
    if cut is None:
        return None
    second = str(PurePosixPath(page).parent / "references" / "continued.md")
    first = f"{text[:cut]}\nContinue with [the next part](references/continued.md).\n"
    return {**files, page: first.encode(), second: text[cut:].encode()}


def paraphrased(files: Files) -> Files | None:
    """Other words in prose; code stays as it is."""
    return _changed(files, {path: _in_prose(_text(files, path), _reworded) for path in _pages(files)})


PERTURBATIONS: dict[str, Callable[[Files], Files | None]] = {
    "30 KB of harmless text": padded,
    "renamed variables": renamed,
    "reflowed lines": reflowed,
    "other tools and quoting": other_tools,
    "split over two files": split,
    "prose paraphrased": paraphrased,
}


def page_of(files: Files) -> str:
    return min(files, key=lambda path: (not path.lower().endswith("skill.md"), path.count("/"), path))


def _text(files: Files, path: str) -> str:
    return files[path].decode("utf-8", "surrogateescape")


def _changed(files: Files, texts: Mapping[str, str]) -> Files | None:
    changed = {path: text.encode("utf-8", "surrogateescape") for path, text in texts.items()}
    return {**files, **changed} if any(files[path] != content for path, content in changed.items()) else None


def _scripts(files: Files) -> Iterator[tuple[str, str]]:
    for path in files:
        if language := SCRIPTS.get(PurePosixPath(path).suffix.lower()):
            yield path, language


def _pages(files: Files) -> list[str]:
    return [path for path in files if path.lower().endswith(".md")]


def _in_fences(text: str, change: Callable[[str, str], str]) -> str:
    def inside(match: re.Match[str]) -> str:
        tag = match.group(3).lower()
        language = LANGUAGES.get(tag, "")
        body = match.group(4)
        return match.group().replace(body, change(body, language)) if language and tag and body else match.group()

    return FENCE.sub(inside, text)


def _in_prose(text: str, change: Callable[[str], str]) -> str:
    front = FRONT_MATTER.match(text)
    pieces, at = [text[: front.end()] if front else ""], front.end() if front else 0
    for fence in FENCE.finditer(text, at):
        pieces += [change(text[at : fence.start()]), fence.group()]
        at = fence.end()
    return "".join([*pieces, change(text[at:])])


def _renamed(code: str, language: str) -> str:
    names = dict.fromkeys(ASSIGNED[language].findall(code))
    new = {name: f"{'V' if name.isupper() else 'v'}{number}_item" for number, name in enumerate(names)}
    if not new:
        return code
    any_name = f"(?:{'|'.join(map(re.escape, new))})"
    whole = re.compile(rf"(?:(?<=\$)|(?<=\$\{{)){any_name}\b|(?<![\w.\"'/-]){any_name}(?![\w\"'(]|\s*:)")
    return whole.sub(lambda match: new[match.group()], code)


def _broken(code: str, language: str) -> str:
    return re.sub(r" (\||&&) ", r" \\\n  \1 ", code) if language == "sh" else code


def _wrapped(prose: str) -> str:
    paragraphs = re.split(r"(\n\s*\n)", prose)
    return "".join(
        textwrap.fill(" ".join(part.split()), 44, break_long_words=False, break_on_hyphens=False)
        if part.strip() and not re.search(r"^\s*(?:[#|>*+-]|\d+\.|\[|<)", part, re.MULTILINE) and "`" not in part
        else part
        for part in paragraphs
    )


def _retooled(code: str, language: str) -> str:
    for pattern, other in OTHER_TOOLS:
        new = pattern.sub(other, code)
        if new != code and pattern is OTHER_TOOLS[0][0]:
            return PLAIN_STRING.sub(r"'\1'", new)  # the next entry would undo it
        code = new
    return PLAIN_STRING.sub(r"'\1'", code)


def _middle(text: str) -> int | None:
    """The paragraph break nearest to the middle of the body, outside of fences."""
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    fences = [match.span() for match in FENCE.finditer(text)]
    breaks = [
        match.end()
        for match in re.finditer(r"\n\s*\n", text)
        if match.start() > start + 20 and not any(first < match.start() < last for first, last in fences)
    ]
    return min(breaks, key=lambda at: abs(at - (start + len(text)) // 2), default=None)


def _reworded(prose: str) -> str:
    return SYNONYM.sub(lambda match: _like(match.group(), SYNONYMS[match.group().lower()]), prose)


def _like(model: str, word: str) -> str:
    if model.isupper():
        return word.upper()
    return word.capitalize() if model[0].isupper() else word


def _harmless(size: int, seed: int) -> str:
    choose = random.Random(seed)
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        sentence = f"{choose.choice(SUBJECTS)} {choose.choice(VERBS)} {choose.choice(OBJECTS)}."
        lines.append(sentence.capitalize() + ("\n" if choose.random() < 0.2 else ""))
    return "\n## Notes on layout\n\n" + "\n".join(lines) + "\n"
