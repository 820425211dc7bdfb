"""The API for external scanners: claim work, read its files, report findings. Every request is signed."""

from functions.api.external_scans import ROUTES
from functions.http.routes import http_handler

handler = http_handler(ROUTES)
