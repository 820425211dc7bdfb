"""The version of stored data: what a release needs to be run is said, run, and then no longer said."""

import json

import pytest

from functions.stuck_scan import tick
from local.migrate import MORE
from shared.storage.kv import Put
from shared.submissions import data_version
from shared.submissions.data_version import JOBS, JUST_BEGUN, KEY, note_first_version
from tests.support.admin_forms import signed_in
from tests.support.builders import processed, submitted
from tests.support.memory import ADMIN_TOKEN, within
from tests.support.route_calls import call

TOLD = "build-artifacts, rebuild-index, recount. Run make migrate."


async def warnings(env):
    return str((await call(env, "GET /api/v1/health")).json["warnings"])


async def run_job(env, job):
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}-admin", "content-type": "application/json"}
    cursor, is_first = None, True
    while cursor or is_first:
        body = json.dumps({"reason": "an update", "cursor": cursor, **MORE.get(job, {})}).encode()
        answer = await call(env, f"POST /api/v1/admin/{job}", body=body, headers=headers)
        assert answer.status == 200
        cursor, is_first = answer.json["cursor"], False


async def test_a_new_platform_has_nothing_to_migrate_also_with_what_was_published_since(env):
    await processed(env, await submitted(env))
    await within(env, tick)
    env.clock.forward(seconds=2 * JUST_BEGUN.total_seconds())
    await within(env, tick)
    assert "migrate" not in await warnings(env)


async def test_a_platform_of_an_older_release_says_what_to_run_until_it_has_run(env):
    await processed(env, await submitted(env))
    env.clock.forward(seconds=2 * JUST_BEGUN.total_seconds())
    assert "migrate" not in await warnings(env)  # nobody has looked yet
    await within(env, note_first_version)
    assert TOLD in await warnings(env)
    cookie, _ = await signed_in(env)
    assert "make migrate" in (await call(env, "GET /admin", cookies=[cookie])).text
    for job in JOBS:
        assert job in await warnings(env)
        await run_job(env, job)
    assert "migrate" not in await warnings(env)


async def test_a_release_that_raises_a_number_says_so(env, monkeypatch):
    await within(env, note_first_version)
    monkeypatch.setattr(data_version, "JOBS", {**JOBS, "rebuild-index": 2})
    assert "stored data: rebuild-index." in await warnings(env)
    await run_job(env, "rebuild-index")
    assert "migrate" not in await warnings(env)


async def test_a_record_of_a_later_release_is_read(env):
    await env.kv.put(Put(KEY, json.dumps({"jobs": {**JOBS, "later": 7}, "added": {"later": 1}})))
    assert "migrate" not in await warnings(env)


@pytest.mark.parametrize(
    "route", ["GET /api/v1/submissions", "GET /api/v1/skills", "GET /queue", "GET /skills", "GET /"]
)
async def test_this_release_reads_what_a_later_one_writes(env, route):
    """After a rollback: fields that a later release added are left alone."""
    await processed(env, await submitted(env))
    _add_a_field_everywhere(env)
    answer = await call(env, route)
    assert answer.status == 200
    assert "greeter" in answer.text
    assert not answer.headers.get("x-degraded")


async def test_this_release_goes_on_with_submissions_of_a_later_one(env):
    submission = await submitted(env)
    _add_a_field_everywhere(env)
    await processed(env, submission)
    _add_a_field_everywhere(env)
    env.clock.forward(minutes=30)
    assert (await within(env, tick)).still_stuck == 0
    answer = await call(env, "GET /api/v1/submissions/{id}", f"/api/v1/submissions/{submission.id}", id=submission.id)
    assert answer.json["state"] == "PUBLISHED"


def _add_a_field_everywhere(env):
    for key, stored in env.kv.items.items():
        document = json.loads(stored.doc or "null")
        if isinstance(document, dict) and key.pk.partition(":")[0] not in ("data", "github"):
            stored.doc = json.dumps({**document, "addedLater": {"nested": [1]}})
        row = stored.attrs.get("row")
        if isinstance(row, str) and row.startswith("{"):
            stored.attrs = {**stored.attrs, "row": json.dumps({**json.loads(row), "addedLater": 1})}
