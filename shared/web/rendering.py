"""Templates to HTML. All output is escaped; an undefined variable is an error, not a blank."""

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from shared.records.submissions import CATEGORY_OF, State
from shared.web import icons, labels
from shared.web.assets import asset_url
from shared.web.form_words import FORM_SENTENCES
from shared.web.source_files import page_of_line

_FOLDER = Path(__file__).parent / "templates"


def render(template: str, **context: Any) -> bytes:
    return _templates().get_template(template).render(**context).encode()


def coded(text: str) -> Markup:
    """Text between backticks becomes <code>. Everything is escaped, whatever its origin."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick is a plain character
        return escape(text)
    return Markup("").join(Markup("<code>%s</code>") % part if n % 2 else escape(part) for n, part in enumerate(parts))


def line_url(files: str, path: str, line: int) -> str:
    """`files` is the address of files of a skill: a folder, here or on another host, or one that ends with `file=`."""
    page = page_of_line(line)
    mark = "&" if "?" in files else "?"
    part = f"{mark}page={page}" if page > 1 and files.startswith("/") else ""
    return f"{files}{quote(path)}{part}" + (f"#L{line}" if line else "")


def listing(text: str) -> Markup:
    """For the inside of <pre>: a quote is harmless there, and `&#34;` makes JSON a third longer."""
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))  # noqa: S704 - escaped here


@cache
def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.globals.update(
        asset=asset_url,
        icon=icons.icon,
        labels=labels,
        form_sentences=FORM_SENTENCES,
        look=labels.look_of,
        category_of=CATEGORY_OF.__getitem__,
        State=State,
        line_url=line_url,
    )
    templates.filters.update(number=labels.number, duration=labels.duration, exact=labels.exact, clock=labels.clock)
    templates.filters.update(actor=labels.actor_name, coded=coded, listing=listing)
    return templates
