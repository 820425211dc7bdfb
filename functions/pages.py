"""The public pages, the OpenAPI document, and the response to unknown addresses."""

from functions.api import contract
from functions.html import feeds, guide_pages, owner_profile, queue_pages, run_page, skill_pages, submit_page, web_files
from functions.html.responses import error_page
from functions.http.answer import Answer
from functions.http.request import Request
from functions.http.routes import Route, http_handler, methods_at, no_such_address, wrong_method


async def docs(request: Request) -> Answer:
    from functions.html.docs_page import show  # here: it loads every route of the API

    return await show(request)


async def admin_docs(request: Request) -> Answer:
    from functions.html.docs_page import show_admin  # here, for the same reason

    return await show_admin(request)


async def no_such_route(request: Request) -> Answer:
    allowed = methods_at(request.url_path, every_route())
    if allowed:
        raise wrong_method(request.method, allowed)
    raise no_such_address()


ROUTES: dict[str, Route] = {
    "GET /": queue_pages.home,
    "GET /queue": queue_pages.queue,
    "GET /submit": submit_page.show,
    "POST /submit": submit_page.submit,
    "GET /submit/{id}": submit_page.track,
    "GET /submissions/{id}": queue_pages.submission,
    "POST /submissions/{id}/cancel": queue_pages.cancel,
    "GET /submissions/{id}/runs/{run}": run_page.show,
    "GET /skills": skill_pages.search,
    "GET /skills/{proxy+}": skill_pages.show,
    "POST /skills/{proxy+}": skill_pages.report,
    "GET /owners/{owner}": owner_profile.show,
    "POST /theme": queue_pages.set_theme,
    "GET /assets/{name}": queue_pages.asset,
    "GET /docs": docs,
    "GET /docs/admin": admin_docs,
    **guide_pages.ROUTES,
    **feeds.ROUTES,
    **web_files.ROUTES,
    **contract.ROUTES,
    "$default": no_such_route,
}
handler = http_handler(ROUTES, error_page)


def every_route() -> list[str]:
    """Of the whole platform. The API's operations spell out what the gateway routes as /skills/{proxy+}."""
    from functions.clients import artifacts, clawhub, marketplace, mcp, npm, skills_cli  # here: only errors need them
    from functions.html import admin_sections, owner_pages

    operations = [f"{method} {path}" for method, path, _ in contract.operations()]
    clients = (artifacts, clawhub, marketplace, mcp, npm, skills_cli)
    pages = (ROUTES, admin_sections.ROUTES, owner_pages.ROUTES, *(client.ROUTES for client in clients))
    return [*operations, *(route for routes in pages for route in routes)]
