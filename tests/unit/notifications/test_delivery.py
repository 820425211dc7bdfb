"""Being told: an event in the transaction of the decision, delivered at least once, and a dead end after a day."""

import asyncio
import hashlib
import hmac
import json
from itertools import pairwise

import pytest

from shared.errors import LostLease, Unavailable
from shared.notifications.delivery import MOST_OF_ONE, deliver, dispatch_due
from shared.notifications.events import get_events_of_repo
from shared.notifications.targets import remove_target, set_target
from shared.records.owners import Owner
from shared.records.submissions import State, Submission, new_id
from shared.storage.webhook_client import DeliveryFailed
from shared.submissions.submission_store import create, get_submission, move_submission
from tests.support.memory import FillsUp, memory_env, within
from tests.support.owners import stored_owner_token
from tests.support.route_calls import call

OWNER = Owner("acme/skills", 1000)
URL = "https://hooks.example.org/vskill"


async def waiting(env, skill: str = "pdf", repo: str = "acme/skills", repo_id: int | None = 1000) -> Submission:
    at = env.clock()
    draft = Submission(
        id=new_id(at),
        source=f"https://github.com/{repo}",
        skill_path=skill,
        skill_name=f"{repo}/{skill}",
        state=State.RECEIVED,
        created_at=at,
        updated_at=at,
        repo_url=f"https://github.com/{repo}",
        repo_id=repo_id,
    )
    return await within(env, lambda: create(draft))


async def rejected(env, reason: str = "It cannot be used.", **more) -> Submission:
    submission = await waiting(env, **more)
    return await within(env, lambda: move_submission(submission, State.REJECTED, "worker", reason))


async def webhook(env, owner: Owner = OWNER, url: str = URL) -> str:
    return (await within(env, lambda: set_target(owner, url)))[1]


async def tick(env) -> None:
    """The schedule, then the queue."""
    env.clock.forward(seconds=1)
    await within(env, dispatch_due)
    bodies, env.notifications.bodies = env.notifications.bodies, []
    await asyncio.gather(*(within(env, lambda b=body: deliver(b)) for body in bodies))


async def stored(env, repo: str = "acme/skills"):
    return await within(env, lambda: get_events_of_repo(repo, 100))


async def fails(url):
    raise DeliveryFailed("the receiver answered 500")


async def test_a_decision_reaches_its_owner_signed_over_body_and_time(env):
    secret = await webhook(env)
    submission = await rejected(env)
    await tick(env)
    [(url, body, headers)] = env.webhooks.received
    event = json.loads(body)
    assert url == URL
    assert (event["type"], event["submissionId"], event["reason"]) == (
        "submission.rejected",
        submission.id,
        "It cannot be used.",
    )
    signed = headers["x-vskill-timestamp"].encode() + b"." + body
    assert headers["x-vskill-signature"] == "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert (await stored(env))[0].delivered_at
    await tick(env)
    assert len(env.webhooks.received) == 1


async def test_moves_within_a_run_and_uploads_are_no_events(env):
    submission = await waiting(env)
    await within(env, lambda: move_submission(submission, State.TIER1_SCANNING, "worker"))
    assert await stored(env) == []


@pytest.mark.requirement("R40")
async def test_a_decision_that_is_not_stored_is_not_notified():
    env = memory_env(FillsUp)
    await webhook(env)
    submission = await waiting(env)
    env.kv.left = 0
    with pytest.raises(Unavailable):
        await within(env, lambda: move_submission(submission, State.REJECTED, "worker", "no"))
    env.kv.left = 1000
    await tick(env)
    assert env.webhooks.received == []
    stale = submission
    await within(env, lambda: move_submission(submission, State.REJECTED, "worker", "no"))
    with pytest.raises(LostLease):
        await within(env, lambda: move_submission(stale, State.BLOCKED, "worker", "no"))
    await tick(env)
    assert [json.loads(body)["state"] for _, body, _ in env.webhooks.received] == ["REJECTED"]


@pytest.mark.requirement("R40")
async def test_a_crash_right_after_the_decision_or_right_after_the_tick_still_notifies_the_owner(env):
    await webhook(env)
    await rejected(env)  # the worker dies here: nothing else was done for the notification
    env.clock.forward(seconds=1)
    await within(env, dispatch_due)
    env.notifications.bodies.clear()  # the message is lost with the machine that had it
    await tick(env)
    assert env.webhooks.received == []
    env.clock.forward(minutes=11)
    await tick(env)
    assert len(env.webhooks.received) == 1


@pytest.mark.requirement("R40")
async def test_a_queue_that_is_down_loses_nothing(env):
    await webhook(env)
    await rejected(env)
    env.notifications.is_down = True
    env.clock.forward(seconds=1)
    with pytest.raises(Unavailable):
        await within(env, dispatch_due)
    env.notifications.is_down = False
    env.clock.forward(minutes=11)
    await tick(env)
    assert len(env.webhooks.received) == 1


@pytest.mark.requirement("R43")
async def test_a_receiver_that_fails_is_tried_again_with_growing_pauses_until_it_answers(env):
    await webhook(env)
    await rejected(env)
    answer, env.webhooks.answer = env.webhooks.answer, fails
    pauses = []
    for attempt in range(1, 6):
        await tick(env)
        [event] = await stored(env)
        assert (event.attempts, event.error) == (attempt, "the receiver answered 500")
        pauses.append((event.due_at - env.clock()).total_seconds())
        env.clock.time = event.due_at
    assert all(later > 1.5 * earlier for earlier, later in pairwise(pauses))
    env.webhooks.answer = answer
    await tick(env)
    assert (await stored(env))[0].delivered_at
    assert len(env.webhooks.received) == 1


@pytest.mark.requirement("R43")
async def test_after_a_day_a_delivery_is_a_dead_end_that_its_owner_sees(env):
    await webhook(env)
    await rejected(env)
    env.webhooks.answer = fails
    attempts = 0
    while (event := (await stored(env))[0]).due_at:
        env.clock.time = max(env.clock.time, event.due_at)
        await tick(env)
        attempts += 1
        assert attempts < 30
    assert (event.failed_at - event.event.at).total_seconds() <= 24 * 3600
    token = await stored_owner_token(env, *OWNER)
    shown = await call(env, "GET /api/v1/owner/notifications", headers={"authorization": f"Bearer {token}"})
    [delivery] = shown.json["deliveries"]
    assert (delivery["status"], delivery["error"]) == ("failed", "the receiver answered 500")
    env.clock.forward(days=2)
    env.webhooks.answer = None  # would fail loudly
    await tick(env)


@pytest.mark.requirement("R43")
async def test_a_delivery_that_kills_its_worker_is_a_dead_end_after_a_day_too(env):
    await webhook(env)
    await rejected(env)
    env.clock.forward(days=2)  # nothing ran: it is tried all the same
    await within(env, dispatch_due)
    assert len(env.notifications.bodies) == 1
    env.notifications.bodies.clear()  # the worker died with it
    env.clock.forward(minutes=11)
    await tick(env)
    [event] = await stored(env)
    assert (event.failed_at is not None, event.attempts, event.error) == (True, 0, "no attempt came to an end")
    assert (await stored(env))[0].due_at is None


@pytest.mark.requirement("R43")
async def test_an_answer_after_the_timeout_counts_as_failed_and_the_repeat_has_the_same_delivery_id(env):
    """The receiver took it, and said so too late: it drops the repeat by `x-vskill-delivery`."""
    await webhook(env)
    await rejected(env)
    taken: list[str] = []

    async def post(url, body, headers):
        taken.append(headers["x-vskill-delivery"])
        if len(taken) == 1:
            raise DeliveryFailed("the receiver did not answer within 10 seconds")

    env.webhooks.post = post
    await tick(env)
    [event] = await stored(env)
    assert (event.attempts, event.delivered_at) == (1, None)
    env.clock.time = event.due_at
    await tick(env)
    assert (await stored(env))[0].delivered_at
    assert (len(taken), len(set(taken))) == (2, 1)


@pytest.mark.requirement("R44")
async def test_a_receiver_that_hangs_delays_no_other_and_gets_a_share_of_a_tick(env):
    other = Owner("other/tools", 2000)
    await webhook(env, OWNER, "https://hangs.example.org/")
    await webhook(env, other, "https://fine.example.org/")
    for n in range(MOST_OF_ONE + 5):
        await rejected(env, skill=f"s{n}")
    await rejected(env, repo=other.repo, repo_id=other.repo_id)
    released, answered = asyncio.Event(), asyncio.Event()

    async def answer(url):
        if "hangs" in url:
            await released.wait()
            raise DeliveryFailed("the receiver did not answer within 10 seconds")
        answered.set()

    env.webhooks.answer = answer
    env.clock.forward(seconds=1)
    report = await within(env, dispatch_due)
    assert (report.sent, report.postponed) == (MOST_OF_ONE + 1, 5)
    jobs = [asyncio.ensure_future(within(env, lambda b=body: deliver(b))) for body in env.notifications.bodies]
    await asyncio.wait_for(answered.wait(), 10)  # while the others hang
    released.set()
    await asyncio.gather(*jobs)
    assert [url for url, _, _ in env.webhooks.received] == ["https://fine.example.org/"]


@pytest.mark.requirement("R45")
async def test_a_message_that_comes_twice_or_late_delivers_once(env):
    await webhook(env)
    await rejected(env)
    env.clock.forward(seconds=1)
    await within(env, dispatch_due)
    [body] = env.notifications.bodies
    await within(env, lambda: deliver(body))
    env.clock.forward(hours=3)
    await within(env, lambda: deliver(body))
    assert len(env.webhooks.received) == 1


@pytest.mark.requirement("S50")
async def test_a_new_owner_of_a_name_gets_no_notifications_of_the_repository_before(env):
    await webhook(env, Owner("acme/skills", 6666), "https://taker.example.org/")
    await rejected(env, repo_id=1000)
    await tick(env)
    assert env.webhooks.received == []
    token = await stored_owner_token(env, "acme/skills", 6666)
    shown = await call(env, "GET /api/v1/owner/notifications", headers={"authorization": f"Bearer {token}"})
    assert shown.json["deliveries"] == []


async def test_what_was_decided_before_the_repository_was_asked_goes_by_its_name(env):
    await webhook(env)
    await rejected(env, repo_id=None)
    await tick(env)
    assert len(env.webhooks.received) == 1


async def test_without_a_webhook_an_event_is_settled_and_still_in_the_feed(env):
    await rejected(env)
    await tick(env)
    [event] = await stored(env)
    assert (event.due_at, event.delivered_at) == (None, None)
    await webhook(env)
    await tick(env)
    assert env.webhooks.received == []


async def test_a_removed_webhook_gets_nothing_that_still_waited(env):
    await webhook(env)
    await rejected(env)
    await within(env, lambda: remove_target(OWNER))
    await tick(env)
    assert env.webhooks.received == []


async def test_the_secret_is_shown_once_and_another_address_has_another_one(env):
    token = await stored_owner_token(env, *OWNER)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    secrets = []
    for url in (URL, f"{URL}/two"):
        body = json.dumps({"url": url}).encode()
        made = await call(env, "POST /api/v1/owner/webhook", body=body, headers=headers)
        assert made.status == 201
        secrets.append(made.json["secret"])
    assert len(set(secrets)) == 2
    shown = await call(env, "GET /api/v1/owner/notifications", headers=headers)
    assert shown.json["webhook"]["url"] == f"{URL}/two"
    assert not any(secret in shown.text for secret in secrets)
    assert not any(secret in stored.doc for secret in secrets for stored in env.kv.items.values())
    removed = await call(env, "POST /api/v1/owner/webhook/remove", body=b"", headers=headers)
    assert removed.status == 200
    assert (await call(env, "POST /api/v1/owner/webhook/remove", body=b"", headers=headers)).status == 409


async def test_a_decision_costs_one_item_and_no_request_more(env):
    submission = await rejected(env)
    after = await within(env, lambda: get_submission(submission.id))
    assert [key.pk for key in env.kv.items if key.pk.startswith("event:")] == ["event:acme/skills"]
    assert after.state is State.REJECTED
