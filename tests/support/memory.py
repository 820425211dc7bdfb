"""The store, the bucket, the queue and the clock in memory. The KV passes the same contract suite as the real ones;
`load` is called once per key read, so a test can count, hold or break single reads."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from shared.errors import ConditionFailed, Deferred, NotFound, TakesLong, Unavailable
from shared.github.client import GitHub
from shared.github.repo_cache import RepoCache
from shared.scanner import scan_skill
from shared.scanner.scan_process import read_texts
from shared.scanner.scan_runner import is_large
from shared.settings import Settings
from shared.storage.content import content_hash_of
from shared.storage.kv import ABSENT, Add, Delete, Key, Page, Put, Query, Read, Row, Write, ids_of, is_usable
from shared.storage.queue import Depth
from shared.storage.secret_store import AdminToken, SecretValues
from shared.worker_context import Env

ADMIN_TOKEN = "a-token-for-tests"
GITHUB_TOKEN = "ghp_canary-token-of-tests"
LARGEST_ITEM = 400 * 1024
LARGEST_TRANSACTION = 4 * 1024 * 1024
WEBHOOK_SECRETS = {"bandit": "canary-secret-of-bandit-" + "b" * 32, "other": "canary-secret-of-other-" + "o" * 32}


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(microseconds=1)  # no two moments are the same
        return self.time

    def seconds(self) -> float:
        return self.time.timestamp()

    def forward(self, **duration: float) -> datetime:
        self.time += timedelta(**duration)
        return self.time


@dataclass
class Stored:
    doc: str
    attrs: dict[str, str | int]


class MemoryKV:
    def __init__(self, now: Callable[[], float]) -> None:
        self.items: dict[Key, Stored] = {}
        self._now = now

    async def load(self, key: Key) -> Stored | None:
        """Every read of a single key. Tests override it."""
        await asyncio.sleep(0)
        return self._alive(key)

    async def get(self, key: Key) -> str | None:
        if not is_usable(key):
            return None
        item = await self.load(key)
        return item and item.doc

    async def get_many(self, keys: Iterable[Key]) -> Read[str]:
        return await self._read(keys, lambda item: item.doc)

    async def get_counts(self, keys: Iterable[Key]) -> Read[dict[str, int]]:
        return await self._read(
            keys, lambda item: {k: v for k, v in item.attrs.items() if isinstance(v, int) and k != "expiresAt"}
        )

    async def query(self, query: Query) -> Page:
        await asyncio.sleep(0)
        rows = sorted(self._rows(query), key=lambda row: row.sort, reverse=query.descending)
        limit = query.limit or len(rows)
        return Page(rows[:limit], more=len(rows) > limit)

    async def ids(self, prefix: str) -> list[str]:
        return await ids_of(self, prefix)

    async def put(self, put: Put) -> None:
        await asyncio.sleep(0)
        self._apply([put])

    async def put_all(self, puts: Iterable[Put]) -> None:
        await asyncio.sleep(0)
        for put in puts:
            self._apply([put])

    async def take(self, key: Key, most: int, expires_at: int, amount: int = 1) -> int | None:
        await asyncio.sleep(0)
        taken = self.items.get(key, Stored("", {})).attrs.get("taken", 0) + amount
        if taken > most:
            return None
        attrs = self.items.setdefault(key, Stored("", {})).attrs
        attrs |= {"taken": taken, "expiresAt": expires_at}
        return attrs["taken"]

    async def transact(self, build: Callable[[], Sequence[Write]]) -> Sequence[Write]:
        await asyncio.sleep(0)
        writes = build()
        self._apply(writes)
        return writes

    async def _read(self, keys, parse):
        unique = list(dict.fromkeys(keys))
        usable = [key for key in unique if is_usable(key)]
        outcomes = await asyncio.gather(*map(self.load, usable), return_exceptions=True)
        found, missing = {}, []
        failed = [key for key in unique if not is_usable(key)]
        for key, outcome in zip(usable, outcomes, strict=True):
            if isinstance(outcome, Unavailable):
                failed.append(key)
            elif isinstance(outcome, BaseException):
                raise outcome
            elif outcome is None:
                missing.append(key)
            else:
                found[key] = parse(outcome)
        return Read(found, missing, failed)

    def _rows(self, query: Query) -> Iterable[Row]:
        for key, item in self.items.items():
            if self._alive(key) is None:
                continue
            if query.index:
                pk, sk = item.attrs.get(f"{query.index}Pk"), item.attrs.get(f"{query.index}Sk")
                text = "" if query.index == "due" else item.attrs.get("row", "")
            else:
                pk, sk, text = key.pk, key.sk, item.doc
            if pk == query.pk and _in_range(sk, query):
                yield Row(key, sk, text)

    def _apply(self, writes: Sequence[Write]) -> None:
        keys = [write.key for write in writes]
        assert len(set(keys)) == len(keys), "DynamoDB refuses two writes to one item in a transaction"
        assert len(keys) <= 100, "DynamoDB refuses more than 100 writes in a transaction"
        sizes = [len(write.doc.encode()) for write in writes if isinstance(write, Put)]
        assert max(sizes, default=0) < LARGEST_ITEM, "DynamoDB refuses an item of more than 400 KB"
        assert sum(sizes) < LARGEST_TRANSACTION, "DynamoDB refuses more than 4 MB in a transaction"
        failed = [i for i, write in enumerate(writes) if not self._holds(write)]
        if failed:
            raise ConditionFailed(failed)
        for write in writes:
            if isinstance(write, Put):
                self.items[write.key] = Stored(write.doc, dict(write.attrs))
            elif isinstance(write, Add):
                counts = self.items.setdefault(write.key, Stored("", {})).attrs
                for name, n in write.counts.items():
                    counts[name] = counts.get(name, 0) + n
                for name in write.remove:
                    counts.pop(name, None)
                if write.expires_at is not None:
                    counts["expiresAt"] = write.expires_at
            elif isinstance(write, Delete):
                self.items.pop(write.key, None)

    def _holds(self, write: Write) -> bool:
        if isinstance(write, Add):
            if write.most is None:
                return True
            [name, *_] = write.counts
            counted = self.items[write.key].attrs.get(name, 0) if write.key in self.items else 0
            return counted < write.most
        if write.expect is None:
            return True
        if write.expect == ABSENT:
            return self._alive(write.key) is None
        item = self.items.get(write.key)
        attrs = {} if item is None else {**item.attrs, "pk": write.key.pk, "sk": write.key.sk}
        return all(attrs.get(name) == value for name, value in write.expect.items())

    def _alive(self, key: Key) -> Stored | None:
        item = self.items.get(key)
        if item is None or ("expiresAt" in item.attrs and item.attrs["expiresAt"] <= self._now()):
            return None
        return item


class Interrupted(MemoryKV):
    """Another writer is faster, or the store is down, at the moment of a decision."""

    meanwhile = None

    async def transact(self, build):
        if self.meanwhile and any(write.key.pk.startswith("audit:") for write in build()):
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return await super().transact(build)


class FillsUp(MemoryKV):
    """Takes so many transactions."""

    left = 1000

    async def transact(self, build):
        self.left -= 1
        if self.left < 0:
            raise Unavailable("down")
        return await super().transact(build)


def _in_range(sk: str, query: Query) -> bool:
    return (
        (query.after is None or sk > query.after)
        and (query.before is None or sk < query.before)
        and (query.prefix is None or sk.startswith(query.prefix))
    )


class MemoryContent:
    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.kept: set[str] = set()
        self.bodies: dict[str, bytes] = {}

    async def put_files(self, files) -> str:
        content_hash = content_hash_of(files)
        self.files[content_hash] = dict(files)
        return content_hash

    async def keep_files(self, files) -> None:
        self.kept.add(await MemoryContent.put_files(self, files))

    def expire(self) -> None:
        """As if everything had been stored more than RECEIVED_AGE ago."""
        self.files = {content_hash: files for content_hash, files in self.files.items() if content_hash in self.kept}

    async def get_files(self, content_hash: str) -> dict[str, bytes]:
        await asyncio.sleep(0)
        if content_hash not in self.files:
            raise NotFound("This content is not stored.")
        return dict(self.files[content_hash])

    async def put_body(self, key: str, body: bytes) -> None:
        self.bodies[key] = body

    async def get_body(self, key: str) -> bytes:
        await asyncio.sleep(0)
        if key not in self.bodies:
            raise NotFound("This content is not stored.")
        return self.bodies[key]

    async def sign_url(self, key: str, media_type: str, disposition: str) -> str:
        return f"https://bucket.example/{key}?expires=60"

    async def check(self) -> None:
        pass


@dataclass
class MemoryQueue:
    sent: list[tuple[str, timedelta]] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)  # of what was sent
    came_back: list[tuple[str, timedelta]] = field(default_factory=list)
    is_down: bool = False

    async def send(self, submission_id: str, delay: timedelta = timedelta(), generation: int = 0) -> None:
        await asyncio.sleep(0)
        if self.is_down:
            raise Unavailable("The queue does not answer.")
        self.sent.append((submission_id, delay))
        self.generations.append(generation)

    async def retry_in(self, receipt: str, delay: timedelta) -> None:
        await self.check()
        self.came_back.append((receipt, delay))

    async def depth(self) -> Depth:
        await self.check()
        return Depth(len(self.sent), 0, 0)

    async def check(self) -> None:
        if self.is_down:
            raise Unavailable("The queue does not answer.")


class MemoryBodies:
    """A queue whose messages are up to its users."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.is_down = False

    async def send_body(self, body: str) -> None:
        await asyncio.sleep(0)
        if self.is_down:
            raise Unavailable("The queue does not answer.")
        self.bodies.append(body)


class MemoryWebhooks:
    """Receivers of webhooks: `answer` may raise DeliveryFailed, or wait."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes, dict[str, str]]] = []

    async def answer(self, url: str) -> None:
        await asyncio.sleep(0)

    async def post(self, url: str, body: bytes, headers) -> None:
        await self.answer(url)
        self.received.append((url, body, dict(headers)))


class FixedSecrets:
    receipt_key: str | None = None  # set by tests of signed receipts

    async def find_receipt_key(self) -> str | None:
        return self.receipt_key

    async def get_session_key(self) -> str:
        return "s" * 64

    async def get_owner_session_key(self) -> str:
        return "o" * 64

    async def get(self) -> SecretValues:
        tokens = [
            AdminToken(role, role, hashlib.sha256(f"{ADMIN_TOKEN}-{role}".encode()).hexdigest())
            for role in ("reviewer", "admin")
        ]
        return SecretValues(
            signing_key="k" * 64, admin_tokens=tokens, github_token=GITHUB_TOKEN, webhook_secrets=WEBHOOK_SECRETS
        )


class SilentGitHub:
    """Unit tests open no sockets: this one never answers."""

    def __init__(self, clock) -> None:
        self._clock = clock

    def yield_quota_to_workers(self) -> None:
        pass

    @asynccontextmanager
    async def with_request_cache(self):
        yield self

    async def pin(self, owner: str, name: str, tree: str | None = None, since: datetime | None = None):
        return await self.get_repo(owner, name)

    async def get_repo(self, owner: str, name: str):
        until = self._clock() + timedelta(minutes=2)
        raise Deferred("We could not reach GitHub.", "GitHub", until, "github_down")

    async def close(self) -> None:
        pass


async def no_judge(operation: str, params) -> dict:
    raise AssertionError("this test has no judge to ask")


class ScansInThreads:
    """Scans in this process: fast, and without the limits of the real ones. Passes the same contract suite."""

    async def scan(self, files, source_findings=(), is_patient=True):
        if is_large(files) and not is_patient:
            raise TakesLong
        return await asyncio.to_thread(scan_skill, files, source_findings)

    async def texts(self, files, most):
        texts = await asyncio.to_thread(read_texts, files, most)
        return None if texts is None else {path.decode(): text for path, text in texts}

    def close(self) -> None:
        pass


def memory_env(kv_type: type[MemoryKV] = MemoryKV, bedrock=no_judge, **settings) -> Env:
    """`github_api_url` and `bedrock` lead to stubs; a GitHub that was asked must be closed: `env.github.close()`."""
    clock = Clock()
    secrets = FixedSecrets()
    defaults = Settings(
        stage="local",
        table_name="t",
        bucket_name="b",
        queue_url="q",
        secret_id="s",
        allow_uploads=True,
        max_active=10_000,
        region="us-east-1",
        endpoint_url=None,
        secrets_file=None,
    )
    chosen = defaults if not settings else Settings(**{**_asdict(defaults), **settings})
    kv, content = kv_type(clock.seconds), MemoryContent()
    cache = RepoCache(kv, content, clock)
    is_stubbed = "github_api_url" in settings
    return Env(
        kv=kv,
        content=content,
        queue=MemoryQueue(),
        secrets=secrets,
        github=GitHub(chosen.github_api_url, secrets, clock, cache) if is_stubbed else SilentGitHub(clock),
        bedrock=bedrock,
        scans=ScansInThreads(),
        settings=chosen,
        clock=clock,
        webhooks=MemoryWebhooks(),
        notifications=MemoryBodies(),
    )


def _asdict(settings: Settings) -> dict:
    return {name: getattr(settings, name) for name in settings.__slots__}


async def within(env: Env, fn: Callable[[], Awaitable]):
    """Runs one call in an env, as a batch would."""
    from shared.worker_context import run_with_worker_env

    return await run_with_worker_env(env, fn)
