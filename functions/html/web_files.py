"""What browsers and crawlers look for at fixed addresses: favicon, robots.txt, the sitemap, security.txt."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.db import get_kv, get_settings, now
from shared.errors import Unavailable
from shared.marketplace.skill_store import read_skills
from shared.storage.documents import stamp
from shared.storage.kv import page_of_ids
from shared.web import assets

ICON = Path(assets.__file__).parent / "assets" / "favicon.ico"
A_DAY, AN_HOUR = "public, max-age=86400", "public, max-age=3600"
PER_MAP = 500  # skills; their records decide whether they are listed
MAX_MAPS = 100  # so many pages of the index are read for one sitemap, each after the other
SITEMAP = "skills of a sitemap"
PAGES = ("/", "/skills", "/queue", "/submit", "/guide", "/rules", "/policies", "/docs")
CLOSED = ("/admin", "/owner$", "/owner/", "/api/", "/theme", "/submit/")
XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
PROMISED = timedelta(days=180)


async def favicon(request: Request) -> Answer:
    return _file(ICON.read_bytes(), "image/x-icon", A_DAY)


async def robots(request: Request) -> Answer:
    rules = "".join(f"Disallow: {path}\n" for path in CLOSED)
    return _text(f"User-agent: *\n{rules}Sitemap: {request.site}/sitemap.xml\n", A_DAY)


async def security(request: Request) -> Answer:
    site = request.site
    address = get_settings().security_contact or f"{site}/policies#report"
    contact = f"Contact: {address}\nExpires: {stamp(now() + PROMISED)}\nPreferred-Languages: en\n"
    return _text(f"{contact}Canonical: {site}/.well-known/security.txt\n", A_DAY)


async def sitemap_index(request: Request) -> Answer:
    """Which sitemaps there are. Only names are read here, in pages of the index."""
    request.allow_query()
    maps = [f"{request.site}/sitemaps/pages", *[_map_url(request, cursor) async for cursor in _cursors()]]
    found = "".join(f"<sitemap><loc>{escape(url)}</loc></sitemap>" for url in maps)
    return _xml(f"<sitemapindex {XMLNS}>{found}</sitemapindex>")


async def sitemap_of_pages(request: Request) -> Answer:
    request.allow_query()
    return _urls([(request.site + path, None) for path in PAGES])


async def sitemap_of_skills(request: Request) -> Answer:
    request.allow_query("cursor")
    after = await read_cursor(request.query.get("cursor"), SITEMAP)
    names, _ = await page_of_ids(get_kv(), "skill:", after, PER_MAP)
    read = await read_skills(names)
    if read.failed:  # a crawler would take them for deleted
        raise Unavailable("Not every skill of this sitemap could be read.")
    listed = [read.skills[name] for name in names if name in read.skills and read.skills[name].is_listed]
    return _urls([(f"{request.site}/skills/{quote(skill.name)}", stamp(skill.updated_at)) for skill in listed])


ROUTES = {
    "GET /favicon.ico": favicon,
    "GET /robots.txt": robots,
    "GET /.well-known/security.txt": security,
    "GET /sitemap.xml": sitemap_index,
    "GET /sitemaps/pages": sitemap_of_pages,
    "GET /sitemaps/skills": sitemap_of_skills,
}


async def _cursors() -> AsyncIterator[str | None]:
    """Where each sitemap of skills begins; the first one at the start."""
    position = None
    for _ in range(MAX_MAPS):
        yield await make_cursor(position, SITEMAP)
        _, position = await page_of_ids(get_kv(), "skill:", position, PER_MAP)
        if position is None:
            return


def _map_url(request: Request, cursor: str | None) -> str:
    return f"{request.site}/sitemaps/skills" + (f"?{urlencode({'cursor': cursor})}" if cursor else "")


def _urls(found: list[tuple[str, str | None]]) -> Answer:
    changed = [(escape(url), f"<lastmod>{at}</lastmod>" if at else "") for url, at in found]
    listed = "".join(f"<url><loc>{url}</loc>{at}</url>" for url, at in changed)
    return _xml(f"<urlset {XMLNS}>{listed}</urlset>")


def _xml(body: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'
    return _file(text.encode(), "application/xml; charset=utf-8", AN_HOUR)


def _text(text: str, caching: str) -> Answer:
    return _file(text.encode(), "text/plain; charset=utf-8", caching)


def _file(content: bytes, media_type: str, caching: str) -> Answer:
    return Answer(content, headers={"content-type": media_type, "cache-control": caching})
