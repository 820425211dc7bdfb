"""tests/support/screenshots.py lists the pages that the browser tests and the screenshots go through."""

from urllib.parse import urlsplit

from functions import admin_pages, owner_pages, pages
from functions.http.routes import is_at
from tests.support.screenshots import pages as table

IDS = dict.fromkeys(("published", "held", "failed", "rejected", "waiting"), "sub_1")
NO_PAGES = ("/assets/", "/feeds/", "/favicon.ico", "/robots.txt", "/.well-known/", "/sitemap", "/api/", "/submit/{id}")


def test_every_page_is_in_the_table_of_pages():
    shown = [urlsplit(path).path for path in table(IDS).values()]
    routes = [route for module in (pages, admin_pages, owner_pages) for route in module.ROUTES]
    wanted = [route[4:] for route in routes if route.startswith("GET ") and not route[4:].startswith(NO_PAGES)]
    assert len(wanted) > 15
    assert [path for path in wanted if not any(is_at(path, each) for each in shown)] == []
