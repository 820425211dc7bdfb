"""The API for owners of skills: they prove a repository, and act on what belongs to it."""

from functions.api import appeals, owner_actions, owner_notifications, owners
from functions.http.operations import Operation
from functions.http.routes import http_handler

ROUTES: dict[str, Operation] = {
    **owners.ROUTES,
    **owner_actions.ROUTES,
    **appeals.OF_OWNERS,
    **owner_notifications.ROUTES,
}
handler = http_handler(ROUTES)
