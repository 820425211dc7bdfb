"""The pages for operators, behind a signed session: review, the queue, skills, the blocklist, tokens, the audit log."""

from functions.html.admin_sections import ROUTES
from functions.html.responses import error_page
from functions.http.routes import http_handler

handler = http_handler(ROUTES, error_page)
