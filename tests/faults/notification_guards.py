"""The guards of what owners are told, and of what changes behind our back."""

from datetime import timedelta

import aiohttp
import msgspec

from tests.faults.guards import Guard
from tests.faults.switches import always, value

DELIVERY = "shared.notifications.delivery"


def _by_name(original):
    """Whoever has the name now is told everything."""

    async def find_targets(events):
        return await original([msgspec.structs.replace(event, repo_id=None) for event in events])

    return find_targets


def _given_up(original):
    return lambda stored, at: msgspec.structs.replace(stored, due_at=None, failed_at=at)


def _resolving_again(original):
    return lambda addresses: aiohttp.ThreadedResolver()


def _unmarked(original):
    return lambda source, due, has_published: original(source, due)


NOTIFICATION_GUARDS = [
    Guard("an event is part of the decision", {"shared.submissions.submission_store:event_puts": always([])}),
    Guard("a lost notification is sent again", {f"{DELIVERY}:REDISPATCH_PERIOD": value(timedelta(days=400))}),
    Guard("a failed delivery is tried again", {f"{DELIVERY}:_failed": _given_up}),
    Guard("a delivery ends after a day", {f"{DELIVERY}:GIVE_UP_TELLING": value(timedelta(days=400))}),
    Guard("one receiver has a share of a tick", {f"{DELIVERY}:MOST_OF_ONE": value(1000)}),
    Guard("what was delivered is not sent again", {f"{DELIVERY}:_is_due": always(True)}),
    Guard("another numeric id is another owner", {"shared.marketplace.repo_sweep:compared": lambda _: _unchanged}),
    Guard(
        "what changed hands is not installed",
        {
            "functions.clients.clawhub:refuse_held": always(None),
            "shared.marketplace.installable:refuse_held": always(None),
            "functions.api.skill_files:refuse_held": always(None),
        },
    ),
    Guard("events go by the numeric id", {f"{DELIVERY}:find_targets": _by_name}),
    Guard(
        "webhooks go to public addresses",
        {
            "shared.storage.webhook_client:is_public": always(True),
            "shared.storage.public_address:_is_public_v4": always(True),
        },
    ),
    Guard("what is not 2xx is a failure", {"shared.storage.webhook_client:_refuse_status": always(None)}),
    Guard("a webhook is https", {"shared.storage.webhook_client:_problem_of": always(None)}),
    Guard("a transfer keeps its numeric id", {"shared.marketplace.publication_obstacles:_is_target": always(True)}),
    Guard("a publication is looked at again", {"shared.marketplace.publishing:watch_put": _unmarked}),
    Guard("a webhook's name is resolved once", {"shared.storage.webhook_client:_pinned": _resolving_again}),
]


def _unchanged(skill, health):
    return skill
