"""Scans by external scanners: requested once per content, claimed by one scanner at a time, with their files."""

import asyncio
import base64
import dataclasses
import json
from datetime import timedelta

import msgspec
import pytest

from shared import telemetry
from shared.errors import Conflict, NotFound, Unavailable
from shared.marketplace.external_scan_dispatch import PAGE_BYTES, configured_scanners, get_claimed_files, page_of
from shared.marketplace.external_scan_store import find_external_scan, scan_requests
from shared.records.external_scans import MAX_CLAIMS, Status
from shared.timing import SCAN_LEASE, SCAN_TIMEOUT
from tests.support.builders import processed, submitted
from tests.support.external_scans import CRITICAL, NAME, claim, published, report, requested, security, status
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.metrics import metrics_in


@pytest.fixture
def env():
    return memory_env(external_scanners=("bandit", "other"))


# --- requested ------------------------------------------------------------------------------------------------------


async def test_every_scanner_with_a_secret_is_asked(env):
    assert await within(env, configured_scanners) == ["bandit", "other"]
    strange = memory_env(external_scanners=("bandit", "without-a-secret"))
    assert await within(strange, configured_scanners) == ["bandit"]
    assert await within(memory_env(), configured_scanners) == []


async def test_a_secret_that_cannot_be_read_keeps_nothing_from_being_published(env):
    class Down:
        async def get(self):
            raise Unavailable("down")

    assert await within(dataclasses.replace(env, secrets=Down()), configured_scanners) == ["bandit", "other"]


async def test_a_request_is_pending_until_a_scanner_claims_it(env):
    await requested(env)
    shown = await security(env)
    assert [(p.provider, p.status, p.verdict, p.score, p.critical_count) for p in shown.providers] == [
        ("bandit", "PENDING", None, None, None),
        ("other", "PENDING", None, None, None),
    ]
    assert shown.overall_verdict is None


async def test_asking_again_for_the_same_content_starts_nothing_over(env):
    await requested(env)
    held = await claim(env)
    await requested(env)
    assert await report(env, held)
    await requested(env)
    assert await status(env) == Status.COMPLETED
    assert await claim(env) is None


async def test_new_content_is_a_new_request_and_ends_the_claim_on_the_old(env):
    await requested(env)
    old = await claim(env)
    await requested(env, content_hash="hash-2")
    assert await status(env) == Status.PENDING
    with pytest.raises(Conflict, match="has ended"):
        await report(env, old)
    assert (await claim(env)).content_hash == "hash-2"


async def test_the_requests_can_be_part_of_the_transaction_that_publishes(env):
    puts = scan_requests(NAME, "hash-1", ["bandit"], env.clock())
    await env.kv.transact(lambda: puts)
    assert (await claim(env)).content_hash == "hash-1"
    await env.kv.transact(lambda: scan_requests(NAME, "hash-2", ["bandit"], env.clock()))
    assert await status(env) == Status.PENDING
    assert (await claim(env)).content_hash == "hash-2"


@pytest.mark.requirement("R01")
async def test_a_worker_that_dies_right_after_the_publication_has_asked_every_scanner(env):
    """Found by killing a worker there: it was published, its message settled, and no scanner ever heard of it."""

    class Killed(BaseException):
        pass

    class DiesAfterPublishing(MemoryKV):
        async def transact(self, build):
            writes = await super().transact(build)
            if any(write.key.pk.startswith("version:") for write in writes):
                raise Killed
            return writes

    env = dataclasses.replace(env, kv=DiesAfterPublishing(env.clock.seconds))
    submission = await submitted(env)
    with pytest.raises(Killed):
        await processed(env, submission)
    await processed(env, submission)  # the message comes back
    assert [provider.status for provider in (await security(env)).providers] == ["PENDING", "PENDING"]


async def test_a_claim_that_meets_new_content_does_not_bring_back_the_old(env):
    """Both records are the first of their content: only the content tells them apart."""
    await env.kv.transact(lambda: scan_requests(NAME, "hash-1", ["bandit"], env.clock()))

    class Swapping(MemoryKV):
        async def put(self, put):
            if swaps := self.swaps[:1]:
                self.swaps = []
                self._apply(swaps)
            await super().put(put)

    kv = Swapping(env.clock.seconds)
    kv.items = env.kv.items
    kv.swaps = scan_requests(NAME, "hash-2", ["bandit"], env.clock())
    assert await claim(dataclasses.replace(env, kv=kv)) is None
    assert (await within(env, lambda: find_external_scan(NAME, "bandit"))).content_hash == "hash-2"


async def test_a_store_that_is_down_fails_no_run_and_each_scan_that_was_not_requested_is_counted(env, capsys):
    class DownKV(MemoryKV):
        async def put(self, put):
            raise Unavailable("down")

    down = dataclasses.replace(env, kv=DownKV(env.clock.seconds))
    await requested(down)
    assert down.kv.items == {}
    telemetry.flush()
    assert metrics_in(capsys.readouterr().out)["ExternalScansNotRequested"] == 2


# --- claimed --------------------------------------------------------------------------------------------------------


async def test_a_claim_names_the_work_and_ends_by_itself(env):
    await requested(env)
    held = await claim(env)
    assert (held.skill_name, held.content_hash, held.provider) == (NAME, "hash-1", "bandit")
    assert timedelta() < held.lease_until - env.clock.time <= SCAN_LEASE
    assert await status(env) == Status.RUNNING
    assert await status(env, "other") == Status.PENDING


async def test_a_second_claimer_gets_other_work_and_a_third_none(env):
    await requested(env, "a/b/c")
    await requested(env, "a/b/d")
    first, second = await claim(env), await claim(env)
    assert [first.skill_name, second.skill_name] == ["a/b/c", "a/b/d"]  # the longest waiting first
    assert first.claim_id != second.claim_id
    assert await claim(env) is None


async def test_claimers_of_one_moment_each_get_work_of_their_own(env):
    for n in range(8):
        await requested(env, f"a/b/{n}")
    barrier = asyncio.Barrier(8)

    async def one():
        await barrier.wait()
        return await claim(env)

    held = await asyncio.gather(*(one() for _ in range(8)))
    assert len({scan.skill_name for scan in held}) == len({scan.claim_id for scan in held}) == 8


async def test_an_expired_lease_is_claimed_again_and_its_old_holder_is_refused(env):
    await requested(env)
    dead = await claim(env)
    env.clock.forward(minutes=14)
    assert await claim(env) is None
    env.clock.forward(minutes=2)
    held = await claim(env)
    assert held.claim_id != dead.claim_id
    with pytest.raises(Conflict) as refusal:
        await report(env, dead, CRITICAL)
    assert refusal.value.code == "claim_lost"
    await report(env, held)
    assert await status(env) == Status.COMPLETED


async def test_a_late_holder_may_report_while_no_other_scanner_holds_the_claim(env):
    await requested(env)
    held = await claim(env)
    env.clock.forward(hours=1)
    assert await status(env) == Status.TIMED_OUT
    await report(env, held)
    assert await status(env) == Status.COMPLETED


async def test_an_unclaimed_request_reads_timed_out_and_can_still_be_claimed(env):
    await requested(env)
    env.clock.forward(seconds=SCAN_TIMEOUT.total_seconds() - 1)
    assert await status(env) == Status.PENDING
    env.clock.forward(seconds=2)
    assert await status(env) == Status.TIMED_OUT
    assert await claim(env) is not None
    assert await status(env) == Status.RUNNING


async def test_a_skill_that_kills_its_scanner_is_not_handed_out_for_ever(env):
    await requested(env)
    for _ in range(MAX_CLAIMS):
        assert await claim(env) is not None
        env.clock.forward(minutes=16)
    assert await claim(env) is None
    assert await status(env) == Status.TIMED_OUT


async def test_work_that_is_done_is_in_no_index(env):
    await requested(env, scanners=["bandit"])
    await report(env, await claim(env))
    [item] = env.kv.items.values()
    assert not {"duePk", "dueSk"} & item.attrs.keys()


async def test_what_one_scanner_has_to_do_does_not_hide_behind_anothers(env):
    for n in range(40):
        await requested(env, f"a/b/{n}", scanners=["bandit"])
    await requested(env, "a/b/last", scanners=["other"])
    assert (await claim(env, "other")).skill_name == "a/b/last"


# --- files ----------------------------------------------------------------------------------------------------------


async def test_the_holder_of_a_claim_reads_the_published_files(env):
    await published(env, **{"run.py": "print('hi')\n"})
    held = await claim(env)
    page = await within(env, lambda: get_claimed_files("bandit", NAME, held.claim_id))
    assert [(file.path, file.encoding) for file in page.files] == [("SKILL.md", "utf-8"), ("run.py", "utf-8")]
    assert page.files[1].content == "print('hi')\n"
    assert page.next_after is None


@pytest.mark.parametrize(("provider", "claim_id"), [("bandit", "guessed"), ("other", None)])
async def test_only_the_holder_of_the_claim_reads_the_files(env, provider, claim_id):
    await published(env)
    held = await claim(env)
    with pytest.raises(Conflict):
        await within(env, lambda: get_claimed_files(provider, NAME, claim_id or held.claim_id))
    with pytest.raises(NotFound):
        await within(env, lambda: get_claimed_files(provider, "a/b/none", held.claim_id))


FILES = {
    "SKILL.md": b"# x",
    "a.bin": b"\xff\0" * 10,
    "b.txt": b"\x01" * 1_200_000,  # six characters each, were it written as JSON text
    "c.txt": "é".encode() * 500_000,
    "d.txt": b'"' * 1_000_000,
    "e.txt": b"\\" * 1_000_000,
    "f.txt": b'"' * (4 * 1024 * 1024),  # as much as a bundle may hold
    "g.txt": b"end",
}


def all_pages(files):
    pages, after = [], ""
    while after is not None:
        pages.append(page_of(files, after))
        after = pages[-1].next_after
    return pages


def test_files_of_any_size_arrive_whole_in_pages_that_lambda_can_answer():
    pages = all_pages(FILES)
    got = {
        f.path: base64.b64decode(f.content) if f.encoding == "base64" else f.content.encode()
        for p in pages
        for f in p.files
    }
    assert got == FILES
    assert len(pages) > 3
    for page in pages:
        body = msgspec.json.encode(page.files).decode()
        assert len(json.dumps(body)) < 6_200_000  # as a runtime sends it that writes JSON in ASCII


def test_small_files_share_a_page():
    [page] = all_pages({f"{n}.md": b"x" * (PAGE_BYTES // 10) for n in range(10)})
    assert len(page.files) == 10
