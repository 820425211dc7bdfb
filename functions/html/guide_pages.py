"""What authors and readers should know: the guide, the rules of the scanner, the policies."""

from datetime import timedelta

from functions.html.responses import page
from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.sessions import SESSION_TTL
from shared.db import get_settings, now
from shared.errors import NotFound
from shared.marketplace.downloads import MARKER_TTL
from shared.timing import IDEMPOTENCY_TTL, RECEIVED_AGE
from shared.web import labels

EXAMPLE_NAME = "release-notes"
EXAMPLE = f"""\
---
name: {EXAMPLE_NAME}
description: Writes release notes from the commits since the last tag. Use it when the user asks for a changelog.
license: MIT
metadata:
  version: 1.0.0
  category: writing
---

# Release notes

1. Ask which tag to start from if the user did not name one.
2. List the commits since that tag with `git log --oneline`.
3. Group them into Added, Changed and Fixed; leave out merges.
4. Show the draft and wait for the user's corrections before writing `CHANGELOG.md`.
"""
GITHUB_KEPT = timedelta(days=1)  # these two by template.yaml
LOGS_KEPT = timedelta(days=30)


async def guide(request: Request) -> Answer:
    request.allow_query()
    return page(request, "guide.html", now(), example=EXAMPLE, example_name=EXAMPLE_NAME)


async def policies(request: Request) -> Answer:
    from shared.access.owners import OWNER_TOKEN_TTL  # here: no other public page knows owners

    request.allow_query()
    kept = {
        "received": labels.counted(RECEIVED_AGE.days, "day"),
        "github": labels.age(GITHUB_KEPT),
        "idempotency": labels.age(IDEMPOTENCY_TTL),
        "installs": labels.age(MARKER_TTL),
        "logs": labels.counted(LOGS_KEPT.days, "day"),
        "owner_tokens": labels.counted(OWNER_TOKEN_TTL.days, "day"),
        "session": labels.age(SESSION_TTL),
    }
    return page(request, "policies.html", now(), kept=kept, contact=get_settings().security_contact)


async def rules(request: Request) -> Answer:
    from shared.web import rule_views  # here: no other page reads the rule files

    request.allow_query()
    shown, rule_set = rule_views.rules_by_category(), rule_views.current_rule_set()
    return page(request, "rules.html", now(), rules=shown, rule_set=rule_set)


async def rule(request: Request) -> Answer:
    from shared.web import rule_views  # here, for the same reason

    request.allow_query()
    shown = rule_views.find_rule(request.path["id"])
    if shown is None:
        raise NotFound("The current rule set has no such rule. An older scan may still name it; /rules lists them all.")
    return page(request, "rule.html", now(), shown=shown)


ROUTES = {
    "GET /guide": guide,
    "GET /policies": policies,
    "GET /rules": rules,
    "GET /rules/{id}": rule,
}
