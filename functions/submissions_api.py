"""The API of submissions: submit, list, track, count; and the health of the platform."""

from functions.api import runs, submissions
from functions.http.routes import http_handler

ROUTES = {**submissions.ROUTES, **runs.ROUTES}
handler = http_handler(ROUTES)
