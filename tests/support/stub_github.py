"""A GitHub on loopback: repositories that a test makes, and every way in which GitHub can fail.

with StubGitHub() as github:
    repo = github.repo("acme/skills", {"skills/pdf/SKILL.md": "…"})
    github.fail("tree", "500")
    GitHub(github.url, …)

In a process of its own, `python -m tests.support.stub_github` prints its URL; POST /__admin takes the same as JSON
(see `StubGitHub.apply`), GET /__admin lists the requests.
"""

import asyncio
import base64
import hashlib
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.support.loopback import LoopbackServer
from tests.support.stub_login import StubLogin
from tests.support.stub_repo import StubRepo, blob_of, sha_of
from tests.support.tarballs import Member, packed, tar

_SET = (
    ("id", "id"),
    ("owner_id", "ownerId"),
    ("private", "private"),
    ("archived", "archived"),
    ("pushed_at", "pushedAt"),
)
FAULTS = ("quota", "429", "429-after", "403", "401", "500", "slow", "hang", "reset", "truncated", "elsewhere", "junk")


@dataclass
class Asked:
    kind: str
    path: str
    headers: dict[str, str]
    at: float
    status: int = 0


class Gate:
    """Holds requests until this many have arrived."""

    def __init__(self, parties: int) -> None:
        self.parties = parties
        self.arrived = 0
        self.is_open = not parties
        self._waiting: list[asyncio.Future[None]] = []

    async def pass_through(self) -> None:
        self.arrived += 1
        if self.is_open:
            return
        passed = asyncio.get_running_loop().create_future()
        self._waiting.append(passed)
        if self.arrived >= self.parties:
            self.open()
        await passed

    def open(self) -> None:
        self.is_open = True
        for passed in self._waiting:
            if not passed.done():
                passed.set_result(None)


class StubGitHub(LoopbackServer):
    def __init__(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        super().__init__(app)
        self.repos: dict[str, StubRepo] = {}
        self.renamed: dict[str, StubRepo] = {}
        self.login = StubLogin()
        self.asked: list[Asked] = []
        self.limit, self.remaining, self.resets_at = 5000, 4999, int(time.time()) + 1800
        self.retry_after = 77
        self.latency = 0.0
        self._faults: dict[str, tuple[str, float]] = {}
        self._gates: dict[str, Gate] = {}

    def repo(self, full_name: str, files: dict[str, str | bytes] | None = None, **more: Any) -> StubRepo:
        number = 1000 + len(self.repos)
        repo = StubRepo(**{"id": number, "owner_id": number + 500, "full_name": full_name, **more})
        self.repos[full_name.lower()] = repo
        if files is not None:
            repo.commit(files)
        return repo

    def rename(self, repo: StubRepo, full_name: str) -> None:
        self.renamed[repo.full_name.lower()] = self.repos.pop(repo.full_name.lower())
        repo.full_name = full_name
        self.repos[full_name.lower()] = repo

    def fail(self, kind: str, fault: str | None, times: float = float("inf")) -> None:
        """`kind` is one of repo, ref, refs, commit, compare, tree, blob, tarball, codeload, any, or one repository's
        full name."""
        assert fault is None or fault in FAULTS, fault
        if fault is None:
            self._faults.pop(kind, None)
        else:
            self._faults[kind] = (fault, times)

    def hold_until(self, parties: int, kind: str = "repo") -> Gate:
        """Questions of a kind (about a repository: each submission's first) are held from now on until so many have
        come."""
        self._gates[kind] = Gate(parties)
        return self._gates[kind]

    def release(self, gate: Gate) -> None:
        """Releases the waiting requests, though not all have arrived."""
        self._loop.call_soon_threadsafe(gate.open)

    def count(self, kind: str) -> int:
        return sum(asked.kind == kind for asked in self.asked)

    def apply(self, orders: dict[str, Any]) -> dict[str, Any]:
        """{"repos": [{"fullName", "files": {path: text}, "links", "members": [[name, kind, text]], "padding": bytes,
        "branches": {name: {path: text}}, "tags": [name], "private", "id", "ownerId", "renamedTo"}],
        "faults": {kind: fault | null}, "gate": n, "latency": s, "remaining": n, "forget": true}"""
        if orders.get("forget"):
            self.asked.clear()
        made = {order["fullName"]: self._make(order) for order in orders.get("repos", ())}
        for kind, fault in orders.get("faults", {}).items():
            self.fail(kind, fault)
        if "gate" in orders:
            self.hold_until(orders["gate"])
        self.latency = orders.get("latency", self.latency)
        self.remaining = orders.get("remaining", self.remaining)
        return {"heads": made}

    def _make(self, order: dict[str, Any]) -> dict[str, str]:
        more = {k: order[j] for k, j in _SET if j in order}
        repo = self.repos.get(order["fullName"].lower()) or self.repo(order["fullName"], **more)
        sha = repo.commit(order.get("files", {}), links=order.get("links", {}))
        if "members" in order or "padding" in order:
            commit = repo.commits[sha]
            members = [Member(f"{repo.root(sha)}/{path}", data) for path, data in commit.files.items()]
            members += [Member(name, text.encode(), kind) for name, kind, text in order.get("members", ())]
            members += [Member(f"{repo.root(sha)}/padding", _noise(order.get("padding", 0)))]
            commit.archive = packed(tar(members, sha))
        for branch, files in order.get("branches", {}).items():
            repo.commit(files, branch)
        for tag in order.get("tags", ()):
            repo.tag(tag)
        fork = {"fork": repo.fork_commit(order["fork"])} if "fork" in order else {}
        if "renamedTo" in order:
            self.rename(repo, order["renamedTo"])
        return {**repo.branches, **fork}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/__admin":
            return await self._admin(request)
        kind, handle = self._route(request)
        asked = Asked(kind, request.raw_path, dict(request.headers), time.time())
        self.asked.append(asked)
        if kind in self._gates:
            await self._gates[kind].pass_through()
        if self.latency:
            await asyncio.sleep(self.latency)
        response = await self._fault(kind, request, handle) or _unless_known(request, await handle())
        asked.status = response.status
        return response

    async def _admin(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.json_response(self.apply(await request.json()))
        return web.json_response({"asked": [{"kind": a.kind, "path": a.path, "status": a.status} for a in self.asked]})

    def _route(self, request: web.Request):
        """GitHub's paths, taken apart by hand: a parameter may contain slashes."""
        match request.path.strip("/").split("/"):
            case ["repositories", number]:
                repo = self.login.leads_to or next(r for r in self.repos.values() if r.id == int(number))
                return "repo", lambda: self._repo(repo, **self.login.permissions(request, repo))
            case ["login", "device", "code"]:
                return "device", lambda: self.login.open(request)
            case ["login", "oauth", "access_token"]:
                return "token", lambda: self.login.poll(request)
            case ["_codeload", owner, name, sha]:
                return "codeload", lambda: self._named(f"{owner}/{name}", self._codeload, sha)
            case ["repos", owner, name, *rest]:
                kind, handle, *args = self._about(rest, request)
                return kind, lambda: self._named(f"{owner}/{name}", handle, *args)
        return "unknown", lambda: self._named("", self._repo)

    def _about(self, rest: list[str], request: web.Request) -> tuple:
        match rest:
            case []:
                return "repo", self._repo
            case ["git", "ref", kind, *ref]:
                return "ref", self._ref, kind, "/".join(ref)
            case ["git", "matching-refs", kind, *ref]:
                return "refs", self._refs, kind, "/".join(ref)
            case ["git", "trees", sha]:
                return "tree", self._tree, sha
            case ["git", "blobs", sha]:
                return "blob", self._blob, sha
            case ["commits", "tags", *tag]:
                return "commit", self._tagged, "/".join(tag)
            case ["compare", *pair]:
                return "compare", self._compare, "/".join(pair)
            case ["contents", *path]:
                return "contents", self._contents, "/".join(path), request.query.get("ref", "")
            case ["tarball", sha]:
                return "tarball", self._tarball, sha
        return "unknown", self._unknown

    async def _unknown(self, repo: StubRepo) -> web.Response:
        return self._json({"message": "Not Found"}, 404)

    async def _named(self, full_name: str, handle, *args: str) -> web.Response:
        moved = self.renamed.get(full_name.lower())
        if moved is not None:
            return self._json({"message": "Moved"}, 301, location=f"{self.url}/repositories/{moved.id}")
        repo = self.repos.get(full_name.lower())
        if repo is None:
            return self._json({"message": "Not Found"}, 404)
        return await handle(repo, *args)

    async def _repo(self, repo: StubRepo, **more: Any) -> web.Response:
        owner, name = repo.full_name.split("/")
        return self._json(
            {
                "id": repo.id,
                "name": name,
                "full_name": repo.full_name,
                "owner": {"login": owner, "id": repo.owner_id},
                "private": repo.private,
                "default_branch": repo.default_branch,
                "pushed_at": repo.pushed_at,
                "archived": repo.archived,
                "stargazers_count": repo.stars,
                **more,
            }
        )

    async def _ref(self, repo: StubRepo, kind: str, name: str) -> web.Response:
        known = repo.branches if kind == "heads" else repo.tags
        if not repo.commits:
            return self._json({"message": "Git Repository is empty."}, 409)
        if name not in known:
            return self._json({"message": "Not Found"}, 404)
        return self._json(_ref_answer(repo, kind, name, known[name]))

    async def _refs(self, repo: StubRepo, kind: str, start: str) -> web.Response:
        known = repo.branches if kind == "heads" else repo.tags
        return self._json([_ref_answer(repo, kind, n, sha) for n, sha in known.items() if n.startswith(start)])

    async def _tree(self, repo: StubRepo, sha: str) -> web.Response:
        commit = repo.commits.get(sha)
        if commit is None:
            return self._json({"message": "Not Found"}, 404)
        entries = [{"path": p, "mode": "100644", "type": "blob", "sha": blob_of(d)} for p, d in commit.files.items()]
        entries += [{"path": p, "mode": "120000", "type": "blob", "sha": sha_of(t)} for p, t in commit.links.items()]
        entries += [{"path": p, "mode": "160000", "type": "commit", "sha": sha_of(p)} for p in commit.submodules]
        return self._json({"sha": sha, "tree": entries, "truncated": False})

    async def _blob(self, repo: StubRepo, sha: str) -> web.Response:
        found = [d for commit in repo.commits.values() for d in commit.files.values() if blob_of(d) == sha]
        if not found:
            return self._json({"message": "Not Found"}, 404)
        content = base64.encodebytes(found[0]).decode()
        return self._json({"sha": sha, "size": len(found[0]), "encoding": "base64", "content": content})

    async def _contents(self, repo: StubRepo, path: str, ref: str) -> web.Response:
        """Of any commit that GitHub knows, a fork's too."""
        commit = repo.commits.get(ref)
        if commit is None or path not in commit.files:
            return self._json({"message": "Not Found"}, 404)
        content = base64.encodebytes(commit.files[path]).decode()
        return self._json({"type": "file", "encoding": "base64", "size": len(commit.files[path]), "content": content})

    async def _tagged(self, repo: StubRepo, tag: str) -> web.Response:
        if tag not in repo.tags:
            return self._json({"message": "No commit found for SHA"}, 422)
        return self._json({"sha": repo.annotated.get(repo.tags[tag], repo.tags[tag])})

    async def _compare(self, repo: StubRepo, pair: str) -> web.Response:
        _, _, sha = pair.partition("...")
        if sha not in repo.commits:
            return self._json({"message": "Not Found"}, 404)
        return self._json({"status": repo.status(sha), "commits": [], "files": []})

    async def _tarball(self, repo: StubRepo, sha: str) -> web.Response:
        location = f"{self.url}/_codeload/{repo.full_name}/{sha}"
        if ("tarball", "elsewhere") in self._active():
            location = "http://169.254.169.254/latest/meta-data/"
        return self._json({}, 302, location=location)

    async def _codeload(self, repo: StubRepo, sha: str) -> web.Response:
        return web.Response(body=repo.archive(sha), content_type="application/x-gzip")

    def _json(self, body: Any, status: int = 200, **headers: str) -> web.Response:
        return web.json_response(body, status=status, headers={**self._quota(), **headers})

    def _quota(self) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-reset": str(self.resets_at),
        }

    def _active(self) -> set[tuple[str, str]]:
        return {(kind, fault) for kind, (fault, _) in self._faults.items()}

    async def _fault(self, kind: str, request: web.Request, handle) -> web.StreamResponse | None:
        about = "/".join(request.path.strip("/").split("/")[1:3])
        key = next((key for key in (kind, about) if key in self._faults), "any")
        fault, times = self._faults.get(key, (None, 0))
        if fault is None:
            return None
        self.fail(key, fault if times > 1 else None, times - 1)
        match fault:
            case "quota":
                spent = {"x-ratelimit-limit": str(self.limit), "x-ratelimit-remaining": "0"}
                return web.json_response({}, status=403, headers={**spent, "x-ratelimit-reset": str(self.resets_at)})
            case "429":
                return web.json_response({}, status=429)
            case "429-after":
                return web.json_response({}, status=429, headers={"retry-after": str(self.retry_after)})
            case "401" | "403" | "500":
                return web.json_response({}, status=int(fault))
            case "junk":
                return web.Response(body=b"<html>not json</html>", content_type="text/html")
            case "elsewhere":
                return None if kind == "tarball" else self._json({}, 302, location="http://169.254.169.254/")
            case "hang":
                await asyncio.sleep(3600)
            case "reset":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
        return await _broken_body(request, await handle(), drips=fault == "slow")


async def _broken_body(request: web.Request, whole: web.Response, drips: bool) -> web.StreamResponse:
    """Starts as promised, then comes a byte at a time, or ends too early."""
    assert isinstance(whole.body, bytes)
    length = str(len(whole.body))
    response = web.StreamResponse(status=200, headers={"content-length": length, "content-type": whole.content_type})
    await response.prepare(request)
    for byte in whole.body[:-1]:
        await response.write(bytes([byte]))
        if drips:
            await asyncio.sleep(0.05)
    assert request.transport is not None
    request.transport.close()
    return response


def _ref_answer(repo: StubRepo, kind: str, name: str, sha: str) -> dict[str, Any]:
    object_ = {"sha": sha, "type": "tag" if sha in repo.annotated else "commit"}
    return {"ref": f"refs/{kind}/{name}", "object": object_}


def _unless_known(request: web.Request, response: web.Response) -> web.Response:
    """As GitHub does: an ETag of the body, and 304 for who has it."""
    if response.status != 200 or response.content_type != "application/json" or not isinstance(response.body, bytes):
        return response
    etag = f'W/"{hashlib.sha256(response.body).hexdigest()}"'
    response.headers["etag"] = etag
    if request.headers.get("if-none-match") != etag:
        return response
    quota = {name: value for name, value in response.headers.items() if name.lower().startswith("x-ratelimit")}
    return web.Response(status=304, headers={**quota, "etag": etag})


def _noise(size: int) -> bytes:
    """Bytes that do not pack, the same every time."""
    return b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(size // 32 + 1))[:size]


def main() -> None:
    with StubGitHub() as github, suppress(KeyboardInterrupt):
        print(github.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
