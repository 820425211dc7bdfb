"""The pages of owners: prove a repository, "My submissions", one submission with its evidence and appeals."""

from functions.html.owner_pages import ROUTES
from functions.html.responses import error_page
from functions.http.routes import http_handler

handler = http_handler(ROUTES, error_page)
