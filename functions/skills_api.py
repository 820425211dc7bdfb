"""The API of the marketplace: what is published, what it rests on, and what is blocked."""

from functions.api import blocklist, skills
from functions.http.routes import Route, http_handler

ROUTES: dict[str, Route] = {**skills.ROUTES, **blocklist.ROUTES}
handler = http_handler(ROUTES)
