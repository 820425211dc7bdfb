"""HTML answers: the headers every page carries, the visitor's theme, pages that tell of a problem, form fields."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from functions.http.answer import Answer, Problem
from functions.http.request import Request
from shared.errors import Forbidden
from shared.web.rendering import render

# Nothing inline, nothing from elsewhere: what a submitted text smuggles in has nowhere to run from.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
THEMES = ("light", "dark")
TITLES = {
    400: "That does not work",
    401: "Sign in first",
    403: "Not allowed",
    404: "Nothing here",
    405: "That does not work",
    409: "Changed meanwhile",
    413: "Too large",
    429: "Too many at once",
    502: "Somebody else does not answer",
    503: "Not reachable just now",
}


def page(request: Request, template: str, now: datetime, status: int = 200, **context: Any) -> Answer:
    back = f"{request.url_path}?{urlencode(request.query)}" if request.query else request.url_path
    visitor = {"theme": theme_of(request.cookies), "path": request.url_path, "back": back, "now": now}
    return Answer(render(template, **visitor, **context), status, PAGE_HEADERS)


def explain(problem: Problem, cookies: Mapping[str, str]) -> Answer:
    title = TITLES.get(problem.status, "Something went wrong")
    visitor = {"theme": theme_of(cookies), "path": "", "back": "/"}
    return Answer(render("error.html", problem=problem, title=title, **visitor), problem.status, PAGE_HEADERS)


def theme_of(cookies: Mapping[str, str]) -> str | None:
    theme = cookies.get("theme")
    return theme if theme in THEMES else None


def refuse_foreign_form(request: Request) -> None:
    """A form that anybody may send needs no secret word, but it must not be sent in a visitor's name by a page of
    somebody else: browsers say where a request comes from."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("This form was sent from another site. Open it here and send it again.", code="foreign_form")


def url_with(request: Request, **changed: str | None) -> str:
    """This page with other parameters; None and blank ones are left out."""
    query = {name: value for name, value in {**request.query, **changed}.items() if value}
    return f"{request.url_path}?{urlencode(query)}" if query else request.url_path


def see_other(location: str, *cookies: str) -> Answer:
    return Answer(b"", 303, {"location": location, "content-type": "text/plain; charset=utf-8"}, cookies)


def cookie(request: Request, name: str, value: str, seconds: int, path: str = "/", hidden: bool = True) -> str:
    """`hidden`: no script may read it and no link from elsewhere brings it along. A taste needs neither: with Strict,
    whoever follows a link here would see the wrong theme. Only https carries it where there is https."""
    flags = "SameSite=Strict; HttpOnly" if hidden else "SameSite=Lax"
    secure = "; Secure" * request.is_https
    return f"{name}={value}; Path={path}; Max-Age={seconds}; {flags}{secure}"
