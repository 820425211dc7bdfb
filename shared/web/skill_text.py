"""An untrusted SKILL.md as safe HTML. HTML is escaped, images become links, links are http(s) or mailto."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from shared.scanner.file_text import text_of

LONGEST = 256 * 1024
MAX_CELLS = 50_000  # a row of a table may be one character, and gets as many cells as the head of the table has
_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def render_skill_md(content: bytes, resolve: Callable[[str], str | None] = lambda _: None) -> Markup:
    """`resolve` maps a relative link to a page of this site, or to None, which removes it."""
    text = _HEAD.sub("", text_of(content)[:LONGEST], count=1)
    html = nh3.clean(
        (_MARKDOWN if _most_cells(text) <= MAX_CELLS else _WITHOUT_TABLES).render(text),
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        attribute_filter=partial(_safe_attribute, resolve),
        url_schemes={"http", "https", "mailto"},
        link_rel="nofollow noopener noreferrer ugc",
    )
    # Scrolls sideways on its own, so it must be reachable by keyboard.
    html = html.replace("<pre>", '<pre tabindex="0">')
    return Markup(html)  # noqa: S704 - cleaned one line above


def _most_cells(text: str) -> int:
    lines = text.splitlines()
    return len(lines) * max((line.count("|") for line in lines), default=0)


def _safe_attribute(resolve: Callable[[str], str | None], tag: str, attribute: str, value: str) -> str | None:
    """Unresolved, a relative link would lead to a page of this site that has nothing to do with the skill."""
    return value if attribute != "href" or _LINK.match(value) else resolve(value)


def _image_as_link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A remote image would tell its server who reads this page."""
    token = tokens[index]
    source, label = str(token.attrs.get("src", "")), token.content or "image"
    escape = nh3.clean_text
    return f'<a href="{escape(source)}">{escape(f"[image: {label}]")}</a>'


def _lower_headings(tokens: Sequence[Token]) -> None:
    """The page has a first and a second heading of its own."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.core.ruler.push("lower_headings", lambda state: _lower_headings(state.tokens))
    parser.add_render_rule("image", _image_as_link)
    return parser


_MARKDOWN = _parser()
_WITHOUT_TABLES = _parser().disable("table")
