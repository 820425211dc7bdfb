"""GitHub as a source of skills: repositories, the commit of a reference, and the files of one folder."""

import hashlib
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable
from contextlib import asynccontextmanager
from copy import copy
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from shared.errors import Refused
from shared.github.archive import Anomaly, AnomalyKind, ArchiveReader, BrokenOff, Folder, SkillMdReader
from shared.github.http import GetJson, GitHubHttp, Missing, RequestCache, api_path
from shared.github.pins import SharedPins, replayed, unless_refused
from shared.github.quotas import Quota, Quotas
from shared.github.repo_cache import RepoCache
from shared.github.repos import GitHubRepo as GitHubRepo
from shared.github.repos import RepoAnswer, is_repo_name, no_repo, repo_of_answer
from shared.github.snapshots import Snapshot, Tree, TreeEntry
from shared.storage.kv import Key
from shared.storage.secret_store import Secrets

if TYPE_CHECKING:
    from shared.github.device_flow import DeviceFlow

MAX_DISCOVERED = 1000
_SHA = re.compile(r"[0-9a-f]{40}")
_PART = re.compile(r"(?!\.\.?$)[^\x00-\x1f\x7f\\]+")  # of a reference or a path


class Pinned(NamedTuple):
    commit: str
    ref: str | None  # None: the head of the default branch; only that becomes a version of the plain name
    path: str  # what follows the reference in the address; may be empty


class PinnedRepo(NamedTuple):
    """The repository by its current name on GitHub, and the commit to verify."""

    repo: GitHubRepo
    pinned: Pinned


class FoundSkill(NamedTuple):
    name: str
    path: str

    @property
    def skill_md(self) -> str:
        return "SKILL.md" if self.path == "." else f"{self.path}/SKILL.md"


class RepoSkills(NamedTuple):
    skills: list[FoundSkill]
    truncated: bool


async def _each_time(question: Hashable, ask: Callable[[], Awaitable[Any]]) -> Any:
    return await ask()


class GitHub:
    """With a cache, what one worker learns of a repository serves the others for minutes."""

    def __init__(
        self, api_url: str, secrets: Secrets, clock: Callable[[], datetime], cache: RepoCache | None = None
    ) -> None:
        self._http = GitHubHttp(api_url, secrets, clock, Quotas(cache.kv, clock) if cache else None)
        self._get_json: GetJson = self._http.get_json
        self._cache = cache
        self._pins = SharedPins(cache, clock) if cache else None
        self._once: Callable[[Hashable, Callable[[], Awaitable[Any]]], Awaitable[Any]] = _each_time
        self._is_for_client = False

    @asynccontextmanager
    async def with_request_cache(self) -> AsyncIterator["GitHub"]:
        """For one request of a client, about any number of skills of a repository: each question is asked once. A
        client that has just pushed is never answered from the cache, and leaves there what it caused to be asked."""
        cached = copy(self)
        cache = RequestCache(self._get_json)
        cached._get_json, cached._once, cached._is_for_client = cache.get_json, cache.once, True
        try:
            yield cached
        finally:
            await cache.cancel()

    async def close(self) -> None:
        await self._http.close()

    def yield_quota_to_workers(self) -> None:
        """For interactive requests: raises Deferred if the remaining quota is reserved for workers."""
        self._http.yield_quota_to_workers()

    async def get_repo(self, owner: str, name: str) -> GitHubRepo:
        if not is_repo_name(owner, name):
            raise no_repo()
        return repo_of_answer(await self._get_json(api_path("repos", owner, name), RepoAnswer, missing=no_repo()))

    async def find_changed_repo(self, owner: str, name: str, etag: str | None) -> tuple[GitHubRepo | None, str | None]:
        """With the ETag for the next time. None: nothing has changed since the ETag was given."""
        if not is_repo_name(owner, name):
            raise no_repo()
        answer, new_etag = await self._http.get_changed(api_path("repos", owner, name), RepoAnswer, no_repo(), etag)
        return (None if answer is None else repo_of_answer(answer)), new_etag

    async def get_head(self, owner: str, name: str, branch: str) -> str:
        path = api_path("repos", owner, name, "git", "ref", "heads", *branch.split("/"))
        empty = Refused("This repository has no files yet.", "repo_empty")
        return (await self._get_json(path, _Ref, missing=empty)).object.sha

    @property
    def device_flow(self) -> "DeviceFlow":
        from shared.github.device_flow import DeviceFlow  # here: only owners sign in

        return DeviceFlow(self._http)

    @property
    def quota(self) -> Quota | None:
        return self._http.quota

    async def resolve_ref(self, repo: GitHubRepo, tree: str | None = None) -> Pinned:
        """`tree` is what follows /tree/ in an address: a reference and an optional path. Only a branch or tag of this
        repository is accepted, or a commit of its default branch: GitHub also serves the commits of all forks."""
        if tree is None:
            return Pinned(await self._head(repo), None, "")
        if (rest := _rest(tree, repo.default_branch)) is not None:  # git allows no branch name below another one
            return Pinned(await self._head(repo), None, rest)
        if not all(_PART.fullmatch(part) for part in tree.split("/")):
            raise _no_ref(tree)
        for kind in ("heads", "tags"):
            if (ref := await self._find_ref(repo, kind, tree)) is not None:
                name = ref.ref.removeprefix(f"refs/{kind}/")
                return Pinned(await self._commit_of(repo, ref, name), name, _rest(tree, name) or "")
        sha, _, path = tree.partition("/")
        if not _SHA.fullmatch(sha):
            raise _no_ref(tree)
        await self._check_ancestor(repo, sha)
        return Pinned(sha, sha, path)

    async def pin(self, owner: str, name: str, tree: str | None = None, since: datetime | None = None) -> PinnedRepo:
        """A repository and the commit of a reference, asked for together: an answer about one owner's repository is
        never combined with the head of another's. A shared answer serves if GitHub gave it after `since`."""
        pin = partial(self._pin_by, owner, name, tree)
        if self._pins is None:
            return await pin(self._get_json)
        key = Key(f"github:pin:{owner}/{name}".lower(), "." if tree is None else f"tree:{tree.partition('/')[0]}")
        if not self._is_for_client:
            return await self._pins.pin(key, self._get_json, pin, since)
        answers = await self._once(key, partial(self._pins.ask_afresh, key, self._get_json, pin))
        answered = await replayed(answers, pin)
        return await pin(self._get_json) if answered is None else unless_refused(answered)

    async def _pin_by(self, owner: str, name: str, tree: str | None, get_json: GetJson) -> PinnedRepo:
        asking = copy(self)
        asking._get_json = get_json
        repo = await asking.get_repo(owner, name)
        return PinnedRepo(repo, await asking.resolve_ref(repo, tree))

    async def fetch_skill(self, repo: GitHubRepo, commit: str, path: str) -> Folder:
        """One download, compared with the commit's tree: git attributes can exclude from an archive, or rewrite in it,
        files that a checkout has."""

        def check(tree: Tree) -> None:
            if not tree.truncated and not any(map(_is_skill_md_of(path), tree.tree)):
                raise _no_skill(path)  # without the download

        tree, folder = await self._snapshot(repo, commit).read(check, lambda: ArchiveReader(path, commit))
        if "SKILL.md" not in folder.files:
            raise _no_skill(path, folder.anomalies)
        whole = folder._replace(anomalies=folder.anomalies + _differences(folder, tree, path))
        return whole._replace(unscanned=_fingerprint(whole, tree, path, commit))

    async def find_file_at_head(self, repo: GitHubRepo, path: str) -> bytes | None:
        """Of the head of the default branch, which only those with write access can move. Never of a commit that a
        caller names: GitHub also serves the commits of forks and pull requests."""
        at_head = _in(repo, "contents", *path.split("/")) + f"?ref={await self._head(repo)}"
        try:
            answer = await self._get_json(at_head, _FileAnswer | list, missing=Missing("no such file"))  # type: ignore[arg-type]
        except Missing:
            return None
        if not isinstance(answer, _FileAnswer) or answer.encoding != "base64":
            return None  # a folder, a submodule, or too large to be returned
        return b64decode(answer.content)

    async def discover(self, repo: GitHubRepo, commit: str) -> RepoSkills:
        """Every folder with a SKILL.md."""
        tree: Tree = await self._once((repo.id, commit), self._snapshot(repo, commit).tree)
        found = [_found(repo, entry) for entry in tree.tree if _is_skill_md(entry)]
        skills = sorted(found, key=lambda skill: skill.path)
        return RepoSkills(skills[:MAX_DISCOVERED], tree.truncated or len(skills) > MAX_DISCOVERED)

    async def require_skill(self, repo: GitHubRepo, commit: str, path: str) -> None:
        """Refuses a folder without a SKILL.md, where GitHub can list all files."""
        tree: Tree = await self._once((repo.id, commit), self._snapshot(repo, commit).tree)
        if not tree.truncated and not any(map(_is_skill_md_of(path), tree.tree)):
            raise _no_skill(path)

    async def read_skill_mds(self, repo: GitHubRepo, commit: str, paths: Collection[str]) -> dict[str, bytes]:
        """These files of a commit, to find a skill by the name in its front matter. From the archive, which its worker
        needs anyway: a request for each file would cost more."""
        snapshot = self._snapshot(repo, commit)
        read = partial(snapshot.read, lambda _: None, lambda: SkillMdReader(paths, commit))
        _, folder = await self._once((repo.id, commit, frozenset(paths)), read)
        files: dict[str, bytes] = folder.files
        return files

    def _snapshot(self, repo: GitHubRepo, commit: str) -> Snapshot:
        ask_tree, download = partial(self._tree, repo, commit), partial(self._download, repo, commit)
        return Snapshot(repo.id, commit, self._cache, ask_tree, download)

    async def _download(
        self, repo: GitHubRepo, commit: str, reader: ArchiveReader, keep: Callable[[bytes], Awaitable[None]]
    ) -> Folder:
        async def feed(chunk: bytes) -> None:
            reader.feed(chunk)
            await keep(chunk)

        try:
            await self._http.download(_in(repo, "tarball", commit), feed, missing=no_repo())
            return reader.finish()
        except BrokenOff as error:
            raise self._http.down("the download was interrupted") from error

    async def _head(self, repo: GitHubRepo) -> str:
        return await self.get_head(repo.owner, repo.name, repo.default_branch)

    async def _find_ref(self, repo: GitHubRepo, kind: str, tree: str) -> "_Ref | None":
        """Branch names may contain slashes, so only the list of branches shows where the name ends."""
        path = _in(repo, "git", "matching-refs", kind, tree.partition("/")[0])
        refs = await self._get_json(path, list[_Ref], missing=_no_ref(tree))
        names = (ref for ref in refs if _rest(tree, ref.ref.removeprefix(f"refs/{kind}/")) is not None)
        return max(names, key=lambda ref: len(ref.ref), default=None)

    async def _commit_of(self, repo: GitHubRepo, ref: "_Ref", name: str) -> str:
        if ref.object.type == "commit":
            return ref.object.sha
        path = _in(repo, "commits", "tags", *name.split("/"))  # an annotated tag is an object of its own
        return (await self._get_json(path, _Commit, missing=_no_ref(name))).sha

    async def _check_ancestor(self, repo: GitHubRepo, sha: str) -> None:
        path = _in(repo, "compare", f"{repo.default_branch}...{sha}") + "?per_page=1"
        answer = await self._get_json(path, _Comparison, missing=_no_ref(sha))
        if answer.status not in ("behind", "identical"):
            raise Refused(
                f"The commit {sha[:12]} is not part of this repository's default branch. It may be a fork's."
                " Submit a branch or a tag of the repository itself.",
                "foreign_commit",
            )

    async def _tree(self, repo: GitHubRepo, commit: str) -> Tree:
        path = _in(repo, "git", "trees", commit) + "?recursive=1"
        return await self._get_json(path, Tree, missing=no_repo())


class _Object(msgspec.Struct):
    sha: str
    type: str


class _Ref(msgspec.Struct):
    ref: str
    object: _Object


class _Commit(msgspec.Struct):
    sha: str


class _Comparison(msgspec.Struct):
    status: str


class _FileAnswer(msgspec.Struct):
    content: str = ""
    encoding: str = ""


_FILES = ("100644", "100755", "100664")
_SUBMODULE = "160000"
_FOLDER = "040000"


def _in(repo: GitHubRepo, *parts: str) -> str:
    return api_path("repos", repo.owner, repo.name, *parts)


def _rest(tree: str, ref: str) -> str | None:
    """What follows the reference in the address, None if the address does not start with it."""
    if tree == ref:
        return ""
    return tree.removeprefix(f"{ref}/") if tree.startswith(f"{ref}/") else None


def _found(repo: GitHubRepo, entry: TreeEntry) -> FoundSkill:
    folder = entry.path.rpartition("/")[0]
    return FoundSkill(folder.rpartition("/")[2] or repo.name, folder or ".")


def _is_skill_md(entry: TreeEntry) -> bool:
    return entry.mode in _FILES and entry.path.rpartition("/")[2] == "SKILL.md" and entry.path.isprintable()


def _is_skill_md_of(path: str) -> Callable[[TreeEntry], bool]:
    skill_md = "SKILL.md" if path == "." else f"{path}/SKILL.md"
    return lambda entry: entry.path == skill_md and _is_skill_md(entry)


def _differences(folder: Folder, tree: Tree, path: str) -> tuple[Anomaly, ...]:
    if tree.truncated:
        return (Anomaly(AnomalyKind.UNVERIFIED, path, "GitHub cannot list all files of a repository this large."),)
    prefix = "" if path == "." else f"{path}/"
    ours = {e.path.removeprefix(prefix): e for e in tree.tree if e.path.startswith(prefix)}
    known = {anomaly.path for anomaly in folder.anomalies if anomaly.hides_content}
    is_capped = any(anomaly.kind in (AnomalyKind.TOO_MANY, AnomalyKind.OVER_SIZE) for anomaly in folder.anomalies)
    different = []
    for name, entry in ours.items():
        if entry.mode == _SUBMODULE:
            different.append(Anomaly(AnomalyKind.SUBMODULE, name, "This is another repository; it was not checked."))
        elif name in folder.files:
            if not _is_blob(folder.files[name], entry.sha):
                different.append(Anomaly(AnomalyKind.CHANGED, name, "The archive has different bytes than the commit."))
        elif entry.mode in _FILES and name not in known and not is_capped:
            different.append(Anomaly(AnomalyKind.LEFT_OUT, name, "A checkout has this file, the archive does not."))
    return tuple(different[:MAX_DISCOVERED])


def _fingerprint(folder: Folder, tree: Tree, path: str, commit: str) -> str:
    """Two folders with the same files may differ in what no scan reads, such as the target of a link: findings and
    approvals of one do not apply to the other."""
    hidden = sorted(f"{anomaly.kind} {anomaly.path}" for anomaly in folder.anomalies if anomaly.hides_content)
    if not hidden:
        return ""
    prefix = "" if path == "." else f"{path}/"
    below = [entry for entry in tree.tree if entry.path.startswith(prefix) and entry.mode != _FOLDER]
    unread = [entry for entry in below if not _is_in_files(entry, entry.path.removeprefix(prefix), folder.files)]
    lines = [*hidden, *(f"{entry.mode} {entry.sha} {entry.path}" for entry in unread)]
    if tree.truncated:
        lines.append(commit)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _is_in_files(entry: TreeEntry, name: str, files: dict[str, bytes]) -> bool:
    return name in files and _is_blob(files[name], entry.sha)


def _is_blob(data: bytes, sha: str) -> bool:
    """Ignoring line endings: `eol=crlf` is a common attribute."""
    return sha in (_blob_sha(data), _blob_sha(data.replace(b"\r\n", b"\n")))


def _blob_sha(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def _no_ref(tree: str) -> Refused:
    return Refused(f"This repository has no branch or tag {tree[:100]!r}.", "ref_not_found")


def _no_skill(path: str, anomalies: Iterable[Anomaly] = ()) -> Refused:
    if any(anomaly.path == "SKILL.md" and anomaly.kind is AnomalyKind.TOO_LARGE for anomaly in anomalies):
        return Refused("SKILL.md is larger than 1 MB, the most we check.", "skill_too_large")
    where = "at the top of this repository" if path == "." else f"in the folder {path[:200]!r} of this repository"
    return Refused(
        f"There is no SKILL.md {where}. A skill is a folder with a SKILL.md at the top level.", "no_skill_md"
    )
