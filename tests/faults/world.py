"""The whole platform in memory, one step at a time: stores, queues, clock and actors.

The code that runs is the real one (intake, consumer, dead letters, scan, admin, rescan) on the real DynamoKV and
SqsQueue; only what lies behind their wires is in memory. Each step runs one actor until it is done, dead or held.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import shared.records.submissions
import shared.scanner.pack
from functions import dead_letters
from functions.http.partial_batch import settle
from local.queue_events import messages_done
from shared import telemetry
from shared.errors import PlatformError
from shared.moderation import submission_decisions
from shared.records.submissions import ACTIVE_STATES, State, Submission
from shared.settings import Limit
from shared.storage.queue import body_of
from shared.storage.secret_store import AdminToken
from shared.submissions import intake
from shared.timing import SCAN_LIMIT
from shared.verification.recovery import RecoveryReport, recover_stuck
from shared.verification.rescan import rescan_published
from shared.worker_context import run_with_worker_env
from tests.faults.actors import SMOOTH, Actor, Plan
from tests.faults.skill_sources import CONTENTS, HEAVY, Contents, Sources
from tests.faults.virtual_loop import VirtualLoop
from tests.support.builders import consume
from tests.support.invariants import Watcher, submissions_of
from tests.support.memory import Clock, FixedSecrets, memory_env
from tests.support.memory_dynamo import MemoryDynamo
from tests.support.memory_sqs import MemorySqs, Sent

ANNA = AdminToken("anna", "admin", "")
WHY = "looked at it"
PUBLIC_STATES = (State.AUTO_APPROVED, State.PUBLISHED, State.VENDOR_APPROVED)
BATCH_TIME = timedelta(seconds=105)
NO_SKEW = timedelta()
SMALL_SHARE = {"max_active": 200, "address_share": 1}  # two of them
RULES = shared.scanner.rule_set_version()
SETTLED = 50  # turns of the loop after which the siblings of a held task are held too


class World:
    def __init__(self, judge: bool = False, scanners: tuple[str, ...] = ()) -> None:
        self._patches = ExitStack()
        self._patches.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        self.loop = VirtualLoop()
        self.clock = Clock()
        self.watcher = Watcher()
        self.violations = self.watcher.violations
        self.dynamo = MemoryDynamo()
        self.dynamo.on_write = self.watcher.wrote
        self.content = Contents()
        self.sources = Sources()
        self.secrets = FixedSecrets()
        self.dead = MemorySqs(self.clock)
        self.sqs = MemorySqs(self.clock, self.dead)
        chosen = {"judge": "bedrock", "judge_model_id": "m"} if judge else {}
        limits = {"skills": Limit(10**5, timedelta(hours=1))}
        self.settings = memory_env(external_scanners=scanners, limits=limits, **chosen, **SMALL_SHARE).settings
        self.actors: list[Actor] = []
        self.injected: Counter[str] = Counter()
        self.upload_tokens: dict[str, str] = {}
        self.answers: dict[tuple[str, str], str] = {}  # (Idempotency-Key, body) -> id
        self._names = 0
        # The same steps make the same ids, so that a failing run can be run again.
        dice = Random(1)
        self._patches.enter_context(patch.object(shared.records.submissions.secrets, "randbits", dice.getrandbits))
        self._use_rules(RULES, strict=False)

    def close(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for actor in self.actors:
            actor.is_dead = True
        while tasks:  # the dead hang wherever they try to clean up
            for task in tasks:
                task.cancel()
            _, tasks = self.loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        self.loop.close()
        self._patches.close()
        telemetry._metrics.clear_metrics()

    # What people and schedules do

    def submit(
        self, name: str, content: str, key: str | None = None, plan: Plan = SMOOTH, ip: str | None = None
    ) -> Any:
        """Uploads a skill, with the token of its name if it was uploaded before."""
        files = [(path, data.decode()) for path, data in CONTENTS[content].items()]
        idempotency = intake.Idempotency(key, content) if key else None

        def send() -> Awaitable[intake.Accepted]:
            return intake.submit_bundle(name, files, self.upload_tokens.get(name), None, idempotency, ip)

        accepted = self._client(send, plan, key and (key, content))
        if accepted and accepted.upload_token:
            self.upload_tokens.setdefault(name, accepted.upload_token)
        return accepted

    def submit_repo(self, repo: str, by_name: bool = False, plan: Plan = SMOOTH, ip: str | None = None) -> Any:
        name, path = ("greeter", None) if by_name else (None, "skills/greeter")
        return self._client(
            lambda: intake.submit_repo(f"https://github.com/me/{repo}", name, path, None, None, ip), plan, None
        )

    def deliver(
        self, picks: Sequence[int] = (0, 0, 0), plan: Plan = SMOOTH, skew: timedelta = NO_SKEW
    ) -> dict[str, Any] | None:
        """A worker gets a batch, in whatever order. None: it did not live to answer, or it is held."""
        records = self.sqs.receive(self._picked(picks))
        if not records:
            return None
        batch = [_record(message) for message in records]
        actor = self._actor("worker", plan, skew)

        async def work() -> None:
            answer = await consume(batch, actor.env, actor.name, BATCH_TIME)
            self._acknowledge(batch, answer)
            return answer

        return self._run(actor, work())

    def bury(self, plan: Plan = SMOOTH) -> None:
        """The consumer of the dead-letter queue takes what is there."""
        batch = [_record(message) for message in self.dead.receive()]
        if not batch:
            return
        for record in batch:
            self.watcher.died(record["messageId"])
        actor = self._actor("dead letters", plan)

        async def work() -> None:
            answer = await settle(batch, actor.env, dead_letters.store)
            self._bury_done(batch, answer)

        self._run(actor, work())

    def scan(
        self, plan: Plan = SMOOTH, skew: timedelta = NO_SKEW, limit: int = SCAN_LIMIT
    ) -> RecoveryReport | PlatformError | None:
        return self._act("scan", lambda: recover_stuck(limit), plan, skew)

    def rescan(self, plan: Plan = SMOOTH) -> Any:
        return self._act("rescan", rescan_published, plan)

    def decide(self, verb: str, submission_id: str, plan: Plan = SMOOTH) -> Any:
        return self._act("admin", lambda: getattr(submission_decisions, verb)(submission_id, ANNA, WHY), plan)

    def retry_letters(self, plan: Plan = SMOOTH) -> Any:
        return self._act(
            "admin", lambda: submission_decisions.retry_dead_letters("failed 5 deliveries", ANNA, WHY), plan
        )

    def pause(self, hours: float = 1) -> Any:
        return self._act("admin", lambda: submission_decisions.pause(ANNA, WHY, timedelta(hours=hours)))

    def lift_pause(self, plan: Plan = SMOOTH) -> Any:
        return self._act("admin", lambda: submission_decisions.resume(ANNA, WHY), plan)

    def ask(self, question: Callable[[], Awaitable[Any]]) -> Any:
        return self._act("client", question)

    def new_rules(self) -> None:
        """A release with other rules: what they find later, they find from now on."""
        self._use_rules(f"{shared.scanner.rule_set_version()}+", strict=True)

    # What the world does by itself

    def tick(self, **duration: float) -> None:
        self.clock.forward(**duration)

    def poison(self, body: str) -> None:
        self.watcher.died(self.sqs.send(body).id)

    def stranger(self) -> None:
        """A message whose record is not there."""
        self.sqs.send(body_of("sub_" + "0" * 26))

    def duplicate(self, n: int) -> None:
        if self.sqs.messages:
            self.injected["duplicate"] += 1
            self.sqs.duplicate(self.sqs.messages[n % len(self.sqs.messages)])

    def held(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.is_held]

    def go_on(self, actor: Actor) -> Any:
        actor.plan = SMOOTH
        actor.go_on()
        return self._until_still(actor)

    def kill(self, actor: Actor) -> None:
        self.injected["crash"] += 1
        actor.is_dead = True

    def restart(self) -> None:
        for actor in self.held():
            self.kill(actor)

    def scan_files(self, files: Any, findings: Any) -> Any:
        return self.sources.scan(files, findings, self._strict)

    def check(self, quiescent: bool = False) -> None:
        self.watcher.check(self.dynamo, quiescent)
        held = Counter(record.held_by for record in self.records().values() if record.held_by)
        assert max(held.values(), default=0) <= 2, "S37: one address holds its share of the queue at most"
        served = [record for record in self.records().values() if record.state in PUBLIC_STATES]
        assert self.sources.has_read_heavy or HEAVY not in {record.content_hash for record in served}, (
            "R37: what no scan has finished is not published"
        )

    def records(self) -> dict[str, Submission]:
        return submissions_of(self.dynamo.items)

    def come_to_rest(self, rounds: int = 150) -> None:
        """No more faults: deliver, bury, scan and wait until nothing is left to do."""
        for actor in self.held():
            self.go_on(actor)
        self.sources.github_is_down = self.sources.judge_is_down = False
        self.dynamo.frozen = None
        self.lift_pause()
        for _ in range(rounds):
            while self.sqs.visible():
                self.deliver()
            while self.dead.visible():
                self.bury()
            if not self.sqs.messages and not self.dead.messages and not self._is_active():
                break
            self.tick(minutes=5)
            self.scan()
        self.tick(minutes=30)

    def check_rest(self) -> None:
        self.check(quiescent=True)
        assert not self.sqs.messages, "I13: at rest the queue is empty"
        assert not self.dead.messages, "I13: at rest no dead letter waits to be buried"
        before = dict(self.dynamo.items)
        for _ in range(2):
            report = self.scan()
            assert (report.found, report.failed) == (0, []), "I13: the scan finds nothing"
        assert self.dynamo.items == before, "I13: a scan at rest changes nothing"

    # How

    def _is_active(self) -> bool:
        """Something is on its way, or published and not yet found by its words."""
        unindexed = [key for key, item in self.dynamo.items.items() if "duePk" in item.attrs and key.pk[:6] == "skill:"]
        return bool(unindexed) or any(record.state in ACTIVE_STATES for record in self.records().values())

    def _picked(self, picks: Sequence[int]) -> list[Sent]:
        visible = self.sqs.visible()
        return [visible.pop(pick % len(visible)) for pick in picks if visible]

    def _client(self, send: Callable[[], Awaitable[Any]], plan: Plan, request: tuple[str, str] | None) -> Any:
        accepted = self._act("client", send, plan)
        if not isinstance(accepted, intake.Accepted):
            return None
        self.watcher.accepted.add(accepted.submission.id)
        if request:
            first = self.answers.setdefault(request, accepted.submission.id)
            assert first == accepted.submission.id, "R31: one key, one answer"
        return accepted

    def _act(self, kind: str, fn: Callable[[], Awaitable[Any]], plan: Plan = SMOOTH, skew: timedelta = NO_SKEW) -> Any:
        """What it returned, the error it is allowed to raise, or None when it was killed or held."""
        actor = self._actor(kind, plan, skew)

        async def act() -> Any:
            try:
                return await run_with_worker_env(actor.env, fn)
            except PlatformError as error:
                return error

        return self._run(actor, act())

    def _actor(self, kind: str, plan: Plan, skew: timedelta = NO_SKEW) -> Actor:
        self._names += 1
        self.watcher.slack = max(self.watcher.slack, abs(skew))
        return Actor(f"{kind} {self._names}", kind, self, plan, skew)

    def _run(self, actor: Actor, work: Any) -> Any:
        actor.task = self.loop.create_task(work)
        if actor.plan.kind in ("crash", "pause"):
            self.actors.append(actor)
        return self._until_still(actor)

    def _until_still(self, actor: Actor) -> Any:
        async def watch() -> None:
            stopped = asyncio.ensure_future(actor.stopped.wait())
            await asyncio.wait([actor.task, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not actor.task.done():
                for _ in range(SETTLED):
                    await asyncio.sleep(0)

        self.loop.run_until_complete(watch())
        return actor.task.result() if actor.task.done() else None

    def _acknowledge(self, batch: list[dict[str, Any]], answer: Any) -> None:
        """What Lambda's mapping does with the answer. The receipts decide: a late worker may hold old ones."""
        ids = [record["messageId"] for record in batch]
        done = messages_done(ids, json.dumps(answer).encode(), reports_failures=True)
        for record in batch:
            if record["messageId"] in done and (message := self.sqs.delete(record["receiptHandle"])):
                left = [other.body for other in (*self.sqs.messages, *self.dead.messages)]
                self._noting(self.watcher.deleted, self.dynamo, message, left, self.clock())
        self._noting(self.watcher.answered, ids, answer)

    def _bury_done(self, batch: list[dict[str, Any]], answer: Any) -> None:
        done = messages_done([r["messageId"] for r in batch], json.dumps(answer).encode(), reports_failures=True)
        for record in batch:
            if record["messageId"] in done and self.dead.delete(record["receiptHandle"]):
                self._noting(self.watcher.buried, self.dynamo, record["messageId"])

    def _noting(self, check: Callable[..., None], *args: Any) -> None:
        """A worker's own error handling must not swallow what a check has to say."""
        try:
            check(*args)
        except AssertionError as violation:
            self.violations.append(str(violation))

    def _use_rules(self, version: str, strict: bool) -> None:
        self._strict = strict
        self._patches.enter_context(patch.object(shared.scanner.pack, "rule_set_version", lambda: version))


def _record(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "eventSource": "aws:sqs",
    }
