"""The API of the marketplace: published skills, their evidence, and the blocklist."""

from functions.api import blocklist, receipt_keys, skills
from functions.http.routes import Route, http_handler

ROUTES: dict[str, Route] = {**skills.ROUTES, **blocklist.ROUTES, **receipt_keys.ROUTES}
handler = http_handler(ROUTES)
