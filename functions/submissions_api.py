"""The API of submissions: submit, list, track, count; and the health of the platform."""

from functions.api.submissions import ROUTES
from functions.http.routes import http_handler

handler = http_handler(ROUTES)
