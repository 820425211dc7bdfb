"""The API for operators, behind a bearer token: submissions and the queue, skills and the blocklist, maintenance."""

from functions.api import admin_maintenance, admin_reviews, admin_skills, admin_submissions, appeals
from functions.http.operations import Operation
from functions.http.routes import http_handler

ROUTES: dict[str, Operation] = {
    **admin_submissions.ROUTES,
    **admin_reviews.ROUTES,
    **admin_skills.ROUTES,
    **admin_maintenance.ROUTES,
    **appeals.OF_REVIEWERS,
}
handler = http_handler(ROUTES)
