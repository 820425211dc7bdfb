"""HTML responses: security headers, the theme, error pages, redirects and cookies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from functions.http.answer import Answer, Problem
from functions.http.request import Request
from shared.errors import Forbidden
from shared.web.rendering import render

# Nothing inline, nothing from other origins: injected markup has no way to run.
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
ERRORS = {  # status -> title, and what to do next
    400: ("Bad request", "Check the URL or form and try again."),
    401: ("Sign-in required", ""),
    403: ("Access denied", ""),
    404: ("Page not found", "Check the URL, or browse the published skills."),
    405: ("Method not allowed", ""),
    409: ("Conflict", "Reload the page and try again."),
    413: ("Request too large", "Reduce the size and try again."),
    415: ("Unsupported media type", ""),
    422: ("Request not processed", ""),
    429: ("Too many requests", "Wait a moment and try again."),
    502: ("Upstream service unavailable", "Try again in a few minutes."),
    503: ("Service unavailable", "Try again in a few minutes."),
}
OTHER_ERROR = ("Something went wrong", "Try again. If it keeps failing, report the request ID below.")


def page(request: Request, template: str, now: datetime, status: int = 200, **context: Any) -> Answer:
    back = f"{request.url_path}?{urlencode(request.query)}" if request.query else request.url_path
    visitor = {"theme": theme_of(request.cookies), "path": request.url_path, "back": back, "origin": request.site}
    return Answer(render(template, now=now, **visitor, **context), status, PAGE_HEADERS)


def error_page(problem: Problem, cookies: Mapping[str, str]) -> Answer:
    title, hint = ERRORS.get(problem.status, OTHER_ERROR)
    visitor = {"theme": theme_of(cookies), "path": "", "back": "/", "origin": ""}
    html = render("error.html", problem=problem, title=title, hint=hint, **visitor)
    return Answer(html, problem.status, PAGE_HEADERS)


def theme_of(cookies: Mapping[str, str]) -> str | None:
    theme = cookies.get("theme")
    return theme if theme in THEMES else None


def reject_cross_site_form(request: Request) -> None:
    """CSRF protection for public forms, which have no session: browsers send the origin of a form."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden(
            "This form was sent from another site. Open it on this site and submit it again.", code="foreign_form"
        )


def url_with(request: Request, **changed: str | None) -> str:
    """The current URL with changed parameters; None and blank ones are dropped."""
    query = {name: value for name, value in {**request.query, **changed}.items() if value}
    return f"{request.url_path}?{urlencode(query)}" if query else request.url_path


def see_other(location: str, *cookies: str) -> Answer:
    return Answer(b"", 303, {"location": location, "content-type": "text/plain; charset=utf-8"}, cookies)


def cookie(request: Request, name: str, value: str, seconds: int, path: str = "/", http_only: bool = True) -> str:
    """Session cookies are HttpOnly and Strict. The theme is neither: scripts set it, and with Strict a visitor who
    follows a link to this site would see the wrong theme."""
    flags = "SameSite=Strict; HttpOnly" if http_only else "SameSite=Lax"
    secure = "; Secure" * request.is_https
    return f"{name}={value}; Path={path}; Max-Age={seconds}; {flags}{secure}"
