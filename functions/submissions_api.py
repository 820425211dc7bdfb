"""The API of submissions: submit, list, follow, count; and whether the platform is up."""

from functions.api.submissions import ROUTES
from functions.http.routes import http_handler

handler = http_handler(ROUTES)
