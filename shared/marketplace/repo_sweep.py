"""Changes outside the platform: repositories of published skills are checked again, each once for all its skills.
A tick is bounded by its limit, by its time, and by a fifth of GitHub's quota; what is left is due at the next one."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from shared.db import get_github, get_kv, get_secrets, now
from shared.errors import ConditionFailed, Deferred, Unavailable
from shared.marketplace.repo_health_store import RepoHealth, RepoStatus, store_swept, sweep_repo
from shared.marketplace.skill_store import get_page_of_names, read_skills, skill_writes
from shared.notifications.events import EventType, event_puts, skill_event
from shared.records.skills import Skill
from shared.storage.kv import Write
from shared.submissions.repo_watch import (
    SweepState,
    Watch,
    allowed_requests,
    count_overdue,
    find_watch,
    get_due_repos,
    get_sweep_lag,
    get_sweep_state,
    put_sweep_state,
    watch_put,
)
from shared.submissions.submission_store import get_ids_by_path, get_submissions_fresh
from shared.telemetry import Watched, count, logger, measure_seconds
from shared.timing import REPO_SWEEP_AGE, SWEEP_LATE, seconds_left

SWEEP_LIMIT = 300  # repositories in a tick: four times what 20,000 in a day take
AT_ONCE = 8
ENROLLED_AT_ONCE = 200
PAGES_ENROLLED = 25  # in a tick: 100,000 skills in 20 ticks
TRIES = 3
TIME_FOR_ONE = timedelta(seconds=20)  # kept back: a tick that is cut off leaves what it began to the next one
SWEEP_BUDGET = timedelta(seconds=110)
TAKEN_OVER = "The name of its repository leads to another repository now than the one that was scanned."
LED_BACK = "The name of its repository leads to the one that was scanned again."


class SweepReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    checked: int
    held: list[str]  # skills whose repository changed hands
    restored: list[str]
    failed: list[str]  # repositories that could not be looked at; they stay due
    enrolled: int  # repositories of skills that an older release published
    requests: int  # that GitHub charged
    stopped_by_quota: bool
    more: bool


async def sweep() -> SweepReport:
    state, enrolled = await _enrol(await get_sweep_state())
    due = await get_due_repos(now(), SWEEP_LIMIT + 1)
    tick = _Tick(state, bool((await get_secrets().get()).all_github_tokens))
    await tick.look_at_all(due[:SWEEP_LIMIT])
    at = now()
    await put_sweep_state(tick.state_after(at, await count_overdue(at)))
    report = SweepReport(
        checked=tick.checked,
        held=tick.held,
        restored=tick.restored,
        failed=tick.failed,
        enrolled=enrolled,
        requests=tick.requests,
        stopped_by_quota=tick.is_stopped,
        more=len(due) > tick.checked,
    )
    logger.info("sweep finished", extra={"report": msgspec.to_builtins(report)})
    count("ChangedHands", len(tick.held))
    measure_seconds(Watched.SWEEP_LAG, (await get_sweep_lag()).total_seconds())
    return report


class _Tick:
    def __init__(self, state: SweepState, has_token: bool) -> None:
        self._state, self._has_token = state, has_token
        self.checked, self.requests = 0, 0
        self.is_stopped = state.stopped_until is not None and now() < state.stopped_until
        self._stopped_until = state.stopped_until if self.is_stopped else None
        self.held: list[str] = []
        self.restored: list[str] = []
        self.failed: list[str] = []
        self._left_at_first: int | None = None

    async def look_at_all(self, sources: Sequence[str]) -> None:
        """The first one alone: its response says how much of the quota is left. None in a window whose share is used
        up: without a token even the first ones of an hour's ticks would be more than that."""
        left, size = list(sources), 0 if self.is_stopped else 1
        while left and size:
            await asyncio.gather(*map(self._look_at, left[:size]))
            left, size = left[size:], self._next_size()

    def _next_size(self) -> int:
        """How many may be looked at next. Of the quota that was left when the tick began, and of that of an hour, at
        most a fifth is used; a look may take two requests."""
        if self.is_stopped or seconds_left(SWEEP_BUDGET) < TIME_FOR_ONE.total_seconds():
            return 0
        quota = get_github().quota
        if quota is None or quota.resets_at <= now():
            return AT_ONCE
        if self._left_at_first is None:
            self._left_at_first = quota.remaining + self.requests
        in_window = self.requests + (self._state.used if self._is_same_window(quota.resets_at) else 0)
        most = min(allowed_requests(quota.limit) - in_window, self._left_at_first // 5 - self.requests)
        if most < 2:
            self.is_stopped, self._stopped_until = True, quota.resets_at
        return max(0, min(AT_ONCE, most // 2))

    def _is_same_window(self, resets_at: datetime) -> bool:
        ends = self._state.window_ends
        return ends is not None and abs(ends - resets_at) < timedelta(minutes=1)

    async def _look_at(self, source: str) -> None:
        try:
            watch = await find_watch(source)
            swept = await sweep_repo(source, self._has_token, not (self._has_token and _is_late(watch)))
            self.requests += swept.requests
            if swept.is_new or (watch and watch.has_published):
                await self._tell_skills(source, swept.health)
            await store_swept(swept)
            await _plan_next_look(source, watch)
            self.checked += 1
        except Deferred:
            self.is_stopped = True  # GitHub is down, or the quota is used up: all of them stay due
        except Exception as error:  # noqa: BLE001 - one repository must not stop the others
            logger.error("repository not swept", exc_info=error, extra={"source": source})
            self.failed.append(source)

    async def _tell_skills(self, source: str, health: RepoHealth) -> None:
        for name in await _names_of(source):
            before, after = await _tell(name, source, health)
            if before and after and before.changed_hands != after.changed_hands:
                (self.held if after.changed_hands else self.restored).append(after.name)

    def state_after(self, at: datetime, overdue: int) -> SweepState:
        quota = get_github().quota
        seen = {"ticked_at": at, "overdue": overdue, "stopped_until": self._stopped_until}
        if quota is None:
            return msgspec.structs.replace(self._state, **seen)
        used = self._state.used if self._is_same_window(quota.resets_at) else 0
        window = {"window_ends": quota.resets_at, "used": used + self.requests, "limit": quota.limit}
        return msgspec.structs.replace(self._state, **seen, **window)


def _is_late(watch: Watch | None) -> bool:
    """Then it must be looked at before heads are read. Without a token that would save little: each look is charged."""
    return watch is not None and watch.due is not None and now() - watch.due > SWEEP_LATE


async def _plan_next_look(source: str, watch: Watch | None) -> None:
    try:
        await get_kv().put(watch_put(source, now() + REPO_SWEEP_AGE, instead_of=watch))
    except ConditionFailed:  # a skill was published at this moment: it is due for that one
        logger.info("repository stays due", extra={"source": source})


async def _names_of(source: str) -> list[str]:
    """Of all skills that were published from this repository, under its name of that time or today's."""
    ids, _ = await get_ids_by_path(source)
    fresh = await get_submissions_fresh(set(ids.values()))
    if fresh.failed:
        raise Unavailable("Not every submission of this repository could be read.")
    return sorted({submission.skill_name for submission in fresh.submissions})


async def _tell(name: str, source: str, health: RepoHealth) -> tuple[Skill | None, Skill | None]:
    """What the record says and what it says from now on, in one write with the event for its owner."""
    for _ in range(TRIES):
        read = await read_skills([name], with_counts=False)
        if read.failed:
            raise Unavailable("This skill could not be read.")
        before = read.skills.get(name.lower())
        after = before and compared(before, health)
        if before is None or after is None or after == before:
            return before, after
        try:
            await get_kv().transact(partial(_writes, before, after, source))
        except ConditionFailed:
            continue  # it changed at this moment: read it again
        return before, after
    raise Unavailable("This skill changed at each attempt.")


def compared(skill: Skill, health: RepoHealth) -> Skill:
    """With what is known of its repository. A skill whose repository was never known stays as it is."""
    is_gone = health.status is RepoStatus.OFFLINE
    if skill.repo_id is None or skill.is_deleted or (health.repo_id is None and not is_gone):
        return skill
    # A repository that is gone has no new owner: what was found before holds until a repository is there again.
    changed_hands = skill.changed_hands if is_gone else skill.repo_id != health.repo_id
    if (changed_hands, is_gone) == (skill.changed_hands, skill.is_source_gone):
        return skill
    version = skill.record_version + 1
    return msgspec.structs.replace(skill, changed_hands=changed_hands, is_source_gone=is_gone, record_version=version)


def _writes(before: Skill, after: Skill, source: str) -> list[Write]:
    writes = skill_writes(before, after)
    if before.changed_hands == after.changed_hands:
        return writes
    type_, reason = (EventType.CHANGED_HANDS, TAKEN_OVER) if after.changed_hands else (EventType.RESTORED, LED_BACK)
    return [*writes, *event_puts(skill_event(after, type_, now(), reason, source))]


async def _enrol(state: SweepState) -> tuple[SweepState, int]:
    """The repositories of skills that an older release published are not watched yet: some pages of them in a
    tick, in the first half of its time."""
    enrolled = 0
    for _ in range(PAGES_ENROLLED):
        if state.is_enrolled or seconds_left(SWEEP_BUDGET) < SWEEP_BUDGET.total_seconds() / 2:
            break
        before = state.enrolled_until
        state, new = await _enrol_page(state)
        enrolled += new
        if not state.is_enrolled and state.enrolled_until == before:
            break  # not everything of it could be read: again at the next tick
    return state, enrolled


async def _enrol_page(state: SweepState) -> tuple[SweepState, int]:
    names, position = await get_page_of_names(state.enrolled_until, ENROLLED_AT_ONCE)
    read = await read_skills(names, with_counts=False)
    sources = {skill.repo_url.lower() for skill in read.skills.values() if skill.repo_url}
    at = now()
    puts = [watch_put(source, at) for source in sorted(sources)]
    known = await get_kv().get_many(put.key for put in puts)
    new = [put for put in puts if put.key in set(known.missing)]
    await asyncio.gather(*map(get_kv().put, new))
    if read.failed or known.failed:
        return state, len(new)
    return msgspec.structs.replace(state, enrolled_until=position, is_enrolled=position is None), len(new)
