"""Styles, scripts and the favicon, under content-hashed names: cached for a year, never stale.

There is no build step: the parts of a page's script are concatenated once per process.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "assets"
_PARTS = {
    "app.css": ("tokens.css", "layout.css", "parts.css", "pages.css"),
    "site.js": ("page.js",),
    "home.js": ("page.js", "live.js", "home.js"),
    "queue.js": ("page.js", "live.js", "queue.js"),
    "submission.js": ("page.js", "live.js", "submission.js"),
    "review.js": ("page.js", "live.js", "review.js"),
    "submit.js": ("page.js", "submit.js"),
    "skills.js": ("page.js", "skills.js"),
    "docs.js": ("page.js", "docs.js"),
    "icon.svg": ("icon.svg",),
}
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(NamedTuple):
    name: str  # with the hash in it
    content: bytes
    media_type: str


def asset_url(name: str) -> str:
    return f"/assets/{_assets()[name].name}"


def find_asset(hashed_name: str) -> tuple[Asset, bool] | None:
    """The asset, and whether the hash is current. A page of an older release still gets its styles."""
    stem, _, rest = hashed_name.partition(".")
    asset = _assets().get(f"{stem}.{rest.rpartition('.')[2]}")
    return None if asset is None else (asset, asset.name == hashed_name)


@cache
def _assets() -> dict[str, Asset]:
    return {name: _asset(name, parts) for name, parts in _PARTS.items()}


def _asset(name: str, parts: tuple[str, ...]) -> Asset:
    text = "\n".join((_FOLDER / part).read_text(encoding="utf-8") for part in parts)
    stem, _, kind = name.partition(".")
    if kind == "js":
        text = f'(() => {{\n"use strict";\n{text}\n}})();\n'
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Asset(f"{stem}.{digest}.{kind}", text.encode(), _TYPES[kind])
