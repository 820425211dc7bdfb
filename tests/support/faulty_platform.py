"""The whole platform behind a fault proxy, with a stub GitHub and a stub judge; and its store, seen past the proxy.

with faulty_platform(tmp_path, TIME_SCALE="0.05") as faulty:
    hold = faulty.proxy.hold("TransactWriteItems", having=["TIER1_SCANNING"], after=True)
    one = faulty.upload("greeter")
    faulty.kill_holder(hold)
    faulty.ended(one["id"], "PUBLISHED")
"""

import http.client
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from shared.storage.kv import SHARDS, Key
from shared.storage.queue import body_of
from tests.support.aws_resources import client
from tests.support.fault_proxy import FaultProxy, Hold, pid_of
from tests.support.memory import MemoryKV, Stored
from tests.support.platform import Platform, eventually, kill
from tests.support.store import store
from tests.support.stub_bedrock import StubBedrock
from tests.support.stub_github import StubGitHub

# The consumer has 6 s instead of 120, the stuck threshold is 15 s: recovery happens while a test watches.
QUICK = "0.05"
PATIENCE = 90.0
TRY_AGAIN = (429, 500, 502, 503, 504)


class FaultyPlatform:
    def __init__(
        self, platform: Platform, proxy: FaultProxy, github: StubGitHub, judge: StubBedrock, endpoint: str
    ) -> None:
        self.platform, self.proxy, self.github, self.judge = platform, proxy, github, judge
        self._endpoint = endpoint
        self.table = platform.info["table"]

    # --- as a client: who gets no answer, or a 503, asks again with the same key ---

    def upload(self, name: str, text: str = "Say hello.", token: str | None = None) -> dict[str, Any]:
        body = bundle(name, text)
        return self.submit(body | ({"uploadToken": token} if token else {}))

    def submit_repo(self, full_name: str, path: str = ".") -> dict[str, Any]:
        return self.submit({"repoUrl": f"https://github.com/{full_name}", "skillPath": path})

    def submit(self, body: dict[str, Any], seconds: float = PATIENCE) -> dict[str, Any]:
        key = {"idempotency-key": uuid.uuid4().hex}
        status, answer = self.insist("POST", "/api/v1/submissions", body, key, seconds)
        assert status in (200, 201), answer
        return answer

    def insist(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, seconds: float = PATIENCE
    ) -> tuple[int, Any]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                status, answer = self.platform.json(method, path, body, headers)
            except (OSError, http.client.HTTPException, ValueError) as error:
                status, answer = 503, repr(error)
            if status not in TRY_AGAIN or time.monotonic() > deadline:
                return status, answer
            time.sleep(0.1)

    def submission(self, submission_id: str) -> dict[str, Any]:
        status, answer = self.insist("GET", f"/api/v1/submissions/{submission_id}")
        assert status == 200, answer
        return answer

    def ended(self, submission_id: str, *states: str, seconds: float = PATIENCE) -> dict[str, Any]:
        eventually(lambda: self.record(submission_id)["state"] in states, seconds)
        return self.submission(submission_id)

    def scan(self) -> dict[str, Any]:
        """The stuck scan, on demand."""
        return self.admin("POST", "stuck/requeue", {"reason": "looking"})

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        token = {"authorization": f"Bearer {self.platform.admin_token}"}
        status, answer = self.insist(method, f"/api/v1/admin/{path}", body, token)
        assert status == 200, answer
        return answer

    # --- past the proxy ---

    @cached_property
    def dynamodb(self) -> Any:
        return client("dynamodb", self._endpoint)

    @cached_property
    def sqs(self) -> Any:
        return client("sqs", self._endpoint)

    def send(self, submission_id: str, copies: int = 1) -> None:
        """Messages of our own, in one request: up to ten."""
        entries = [{"Id": str(n), "MessageBody": body_of(submission_id)} for n in range(copies)]
        self.sqs.send_message_batch(QueueUrl=self.queue_url, Entries=entries)

    @property
    def queue_url(self) -> str:
        return str(self.platform.info["queueUrl"])

    def messages(self, queue: str = "queueUrl") -> int:
        """In the queue: waiting, delayed and in flight."""
        names = ["", "NotVisible", "Delayed"]
        attributes = [f"ApproximateNumberOfMessages{name}" for name in names]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.platform.info[queue], AttributeNames=attributes)
        return sum(int(value) for value in answer["Attributes"].values())

    def unindexed(self) -> int:
        """Published skills whose words are not written yet: the stuck scan completes them."""
        partitions = [{"S": f"due:unindexed#{shard}"} for shard in range(SHARDS)]
        asked = {"TableName": self.table, "IndexName": "due", "KeyConditionExpression": "duePk = :pk"}
        answers = [self.dynamodb.query(**asked, ExpressionAttributeValues={":pk": pk}) for pk in partitions]
        return sum(answer["Count"] for answer in answers)

    def record(self, submission_id: str) -> dict[str, Any]:
        key = {"pk": {"S": f"sub:{submission_id}"}, "sk": {"S": "."}}
        item = self.dynamodb.get_item(TableName=self.table, Key=key, ConsistentRead=True)["Item"]
        return json.loads(item["doc"]["S"])

    def stored(self) -> MemoryKV:
        """Everything in the table, as the in-memory store would hold it: what checks the one checks the other."""
        kv = MemoryKV(time.time)
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.table, ConsistentRead=True)
        for item in (item for page in pages for item in page["Items"]):
            attrs = {name: _value(value) for name, value in item.items() if name not in ("pk", "sk", "doc")}
            kv.items[Key(item["pk"]["S"], item["sk"]["S"])] = Stored(item.get("doc", {}).get("S", ""), attrs)
        return kv

    # --- processes ---

    def workers(self, function: str = "Consumer") -> list[int]:
        pids: list[int] = self.platform.info["workers"].get(function, [])
        return pids

    def kill_holder(self, hold: Hold, function: str = "Consumer") -> int:
        """SIGKILL of the very process whose request is held."""
        hold.wait()
        pid = eventually(lambda: pid_of(hold.ports[-1], self.workers(function)))
        kill(pid)
        return pid


@contextmanager
def faulty_platform(directory: Path, seed: int = 0, **environment: str) -> Iterator[FaultyPlatform]:
    with ExitStack() as parts:
        (directory / "store").mkdir()
        endpoint = parts.enter_context(store(directory / "store"))
        proxy = parts.enter_context(FaultProxy(endpoint, seed))
        github, judge = parts.enter_context(StubGitHub()), parts.enter_context(StubBedrock())
        settings = {
            "TIME_SCALE": QUICK,
            "AWS_ENDPOINT_URL": proxy.url,
            "GITHUB_API_URL": github.url,
            "JUDGE": "bedrock",
            "JUDGE_MODEL_ID": "stub",
            "JUDGE_DAILY_BUDGET": "1000000",
            "BEDROCK_ENDPOINT_URL": judge.url,
            "EXTERNAL_SCANNERS": "bandit",
        }
        platform = Platform.start(directory, **{**settings, **environment})
        parts.callback(platform.kill)
        parts.callback(proxy.clear)
        yield FaultyPlatform(platform, proxy, github, judge, endpoint)


def bundle(name: str, text: str = "Say hello.") -> dict[str, Any]:
    return {"bundle": {"name": name, "files": [{"path": "SKILL.md", "content": skill_md(name, text)}]}}


def skill_md(name: str, text: str = "Say hello.") -> str:
    return f"---\nname: {name}\ndescription: Helps with {name}.\n---\n\n# {name}\n\n{text}\n"


def _value(value: dict[str, str]) -> str | int:
    return int(value["N"]) if "N" in value else value["S"]
