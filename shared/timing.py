"""Every duration of the platform, each derived from the one it depends on.

tests/integration/test_template.py compares template.yaml with these numbers. TIME_SCALE multiplies them all, so that
recovery can be watched in seconds; it is allowed in stage `local` only.
"""

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from shared.errors import InvalidSettings


def time_scale(env: Mapping[str, str]) -> float:
    text = env.get("TIME_SCALE") or "1"
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", text) or float(text) == 0:
        raise InvalidSettings("TIME_SCALE must be a number above 0, like 0.01.")
    if float(text) != 1 and env.get("STAGE") != "local":
        raise InvalidSettings("TIME_SCALE is for stage local only: unset it, or set STAGE=local.")
    return float(text)


TIME_SCALE = time_scale(os.environ)


def scaled(**duration: float) -> timedelta:
    return timedelta(**duration) * TIME_SCALE


CONSUMER_TIMEOUT = scaled(seconds=120)
VISIBILITY_TIMEOUT = 6 * CONSUMER_TIMEOUT  # AWS: at least six timeouts, else a slow batch is delivered twice
LEASE_MARGIN = scaled(seconds=15)  # a lease outlives its Lambda, so a live worker is never taken over
LONGEST_LEASE = CONSUMER_TIMEOUT + LEASE_MARGIN
STUCK_THRESHOLD = scaled(minutes=5)  # longer than any lease
SCAN_PERIOD = scaled(minutes=5)
RESEND_PERIOD = scaled(minutes=15)
RETRY_BASE = scaled(seconds=10)
RECOVERY_DELAYS = (scaled(), scaled(minutes=3))  # by attempts used so far, the last one repeats
LONGEST_DELAY = scaled(minutes=15)  # the most that SQS allows
DEFER_LIMIT = scaled(hours=24)
DEFAULT_PAUSE = scaled(hours=1)
LONGEST_PAUSE = scaled(hours=24)
FEED_WINDOW = scaled(minutes=2)  # how far an index may lag before a list could miss something
FEED_TTL = timedelta(hours=1)
HOLDER_TTL = timedelta(days=30)  # longer than any submission is active
HEALTH_AGE = scaled(seconds=5)  # how old the queue's health may be that a process answers with
IDEMPOTENCY_TTL = timedelta(hours=24)

API_TIMEOUT = scaled(seconds=10)
STORE_BUDGET = timedelta(seconds=6)  # one store call with all its retries; leaves an API handler time to respond
SECRET_TTL = timedelta(minutes=5)

GITHUB_BUDGET = timedelta(seconds=15)  # one GitHub API request
RESOLVE_BUDGET = timedelta(seconds=5)  # how long the submission of a repository waits for GitHub
ARCHIVE_BUDGET = timedelta(seconds=60)  # one archive, from the request to its last byte
PIN_AGE = scaled(minutes=10)  # how old a worker's answer about a repository and its head may be
QUOTA_AGE = timedelta(minutes=1)  # how old a process's knowledge of what others used of GitHub's quota may be
SNAPSHOT_AGE = scaled(minutes=15)  # how long the files of a commit are kept for the next skill of the same one
FETCH_LEASE = scaled(seconds=75)  # longer than one archive takes; then another worker asks GitHub
FETCH_WAIT = timedelta(seconds=10)  # for a worker that asks GitHub the same
BUSY_PAUSE = scaled(seconds=10)  # until the next look, when that took longer
STUCK_SCAN_BUDGET = timedelta(minutes=2)  # the timeout of the function
RESCAN_PERIOD = scaled(hours=24)  # from the end of a round over what is published to the next
RESCAN_BUDGET = timedelta(minutes=15)  # one run over what is published; the most that Lambda allows
# The three scans of a batch share the 0.58 of a CPU that a consumer has; the rest of its time is for everything else.
SCAN_CPU_LIMIT = timedelta(seconds=10)  # of one scan, enforced by the kernel: CPU time, so that no sibling decides it
SCAN_CPU_DEADLINE = SCAN_CPU_LIMIT * 0.8  # where a scan stops by itself and still reports what it found
TEXTS_CPU_LIMIT = timedelta(seconds=3)  # to read the files again for the judge: unpacking, without matching
CHECK_BUDGET = timedelta(seconds=8)  # of a check before a submission: its caller waits, and API_TIMEOUT is longer
SCAN_WALL_LIMIT = timedelta(seconds=80)  # for a machine that is too busy: an attempt fails, and is no verdict
JUDGE_BUDGET = timedelta(seconds=75)  # one judgement with all its retries
SETTLE_TIME = scaled(seconds=5)  # reserved by calls to external services, to store that a record was deferred
OVERRUN_TIME = SETTLE_TIME * 0.4  # reserved for every record, to store that it ran out of time
OUTAGE_PAUSE = scaled(minutes=2)  # until the next try, unless the service says when
LONGEST_QUOTA_WAIT = timedelta(hours=2)  # GitHub's quota resets every hour; a later time is not trusted

REVIEW_CLAIM_TIME = scaled(minutes=15)  # how long a reviewer who claimed a submission has to decide
SCAN_LEASE = scaled(minutes=15)  # how long an external scanner has for one skill
SCAN_TIMEOUT = scaled(minutes=20)  # longer than a lease: an unfinished scan is then TIMED_OUT
RECEIVED_AGE = timedelta(days=180)  # of files that no version has; template.yaml has the bucket expire them
SIGNED_URL_AGE = timedelta(seconds=60)  # of an address of the bucket: a block reaches every client within it
SIGNATURE_AGE = timedelta(minutes=5)  # of a signed request; also how far ahead its clock may be
REPO_HEALTH_AGE = scaled(hours=24)
REPO_STALE_AFTER = timedelta(days=365)
DISPATCH_PERIOD = scaled(minutes=1)  # how often due notifications are sent to their queue
REDISPATCH_PERIOD = scaled(minutes=10)  # when a message was lost; longer than its queue's visibility
WEBHOOK_TIMEOUT = timedelta(seconds=10)  # one attempt, from the name of the host to the status
FIRST_REDELIVERY = scaled(minutes=1)  # doubles with each attempt
LONGEST_REDELIVERY = scaled(hours=4)
GIVE_UP_TELLING = scaled(hours=24)
SWEEP_PERIOD = scaled(minutes=5)
PUSH_MARGIN = scaled(minutes=2)  # between a push and a run that read it for certain: GitHub's clock is another one
REPO_SWEEP_AGE = scaled(hours=22)  # with what a tick is late, every repository is looked at once a day
SWEEP_LATE = scaled(hours=1)  # how late the sweep may be before heads that no one has read wait for the next look

MAX_ATTEMPTS = 3
MAX_RECEIVES = 5
SCAN_LIMIT = 500


_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


@contextmanager
def time_limit(limit: timedelta) -> Iterator[None]:
    """Code inside has at most this long; store calls stop retrying in time."""
    token = _ends_at.set(asyncio.get_running_loop().time() + limit.total_seconds())
    try:
        yield
    finally:
        _ends_at.reset(token)


def seconds_left(budget: timedelta) -> float:
    ends_at = _ends_at.get()
    if ends_at is None:
        return budget.total_seconds()
    return max(0.0, min(budget.total_seconds(), ends_at - asyncio.get_running_loop().time()))


def seconds_to_wait(budget: timedelta) -> float:
    """For calls to external services: ends early enough for the caller to store the outcome."""
    return max(0.0, seconds_left(budget + SETTLE_TIME) - SETTLE_TIME.total_seconds())


async def attempts_within(budget: timedelta, first_pause: float = 0.02) -> AsyncIterator[int]:
    """0, 1, 2 … with growing, jittered pauses between them, until the budget or the time limit is used up."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds_left(budget)
    attempt = 0
    while True:
        yield attempt
        pause = min(1.0, first_pause * 2**attempt) * random.uniform(0.5, 1)  # noqa: S311 - spreads load, hides nothing
        if loop.time() + pause >= ends_at:
            return
        await asyncio.sleep(pause)
        attempt += 1
