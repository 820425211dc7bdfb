"""The model's skills: texts with a known verdict, repositories that change, a judge whose verdict is set."""

from functools import cache
from pathlib import Path
from typing import Any

from botocore.exceptions import EndpointConnectionError

from shared.errors import NotFound, Refused
from shared.github.archive import Folder
from shared.github.client import FoundSkill, GitHubRepo, Pinned, RepoSkills
from shared.scanner import ScanReport, scan_skill
from shared.scanner.scan_runner import unfinished_report
from shared.storage.content import content_hash_of
from tests.support.stub_bedrock import _answer

SAMPLES = Path(__file__).parents[2] / "samples" / "bad"
Files = dict[str, bytes]


def _good(words: str) -> Files:
    return {"SKILL.md": f"---\nname: greeter\ndescription: Greets people.\n---\n\nSay {words}.\n".encode()}


def _sample(name: str) -> Files:
    folder = SAMPLES / name
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


CONTENTS: dict[str, Files] = {
    "good": _good("hello"),
    "better": _good("hello, how are you"),
    "doubtful": _sample("project-scaffold-concerns"),
    "blocked": _sample("workspace-memory"),
    "certain": _sample("system-tuner"),
    "unusable": {"SKILL.md": b"# No front matter here\n"},
    "found later": _good("what a later rule set finds"),
    "heavy": _good("so much that no scan of it may finish"),
}
HEAVY = content_hash_of(CONTENTS["heavy"])
FOUND_LATER = "what a later rule set finds"
REPOS = ("tools", "kit")


@cache
def _report(files: frozenset[tuple[str, bytes]]) -> ScanReport:
    return scan_skill(dict(files))


def scan(files: Files, findings: Any = (), strict: bool = False) -> ScanReport:
    """The real scan, remembered: the same few texts are scanned thousands of times."""
    assert not findings
    if strict and FOUND_LATER.encode() in files.get("SKILL.md", b""):
        return _report(frozenset(CONTENTS["blocked"].items()))
    return _report(frozenset(files.items()))


class Contents:
    """The bucket."""

    def __init__(self) -> None:
        self.files: dict[str, Files] = {}
        self.bodies: dict[str, bytes] = {}

    def put(self, files: Files) -> str:
        content_hash = content_hash_of(files)
        self.files[content_hash] = dict(files)
        return content_hash

    def get(self, content_hash: str) -> Files:
        if content_hash not in self.files:
            raise NotFound("This content is not stored.")
        return dict(self.files[content_hash])


class Sources:
    """Repositories with one skill each, at `skills/greeter`, as GitHub answers for them today."""

    def __init__(self) -> None:
        self.heads = dict.fromkeys(REPOS, "good")
        self.ids = {name: n for n, name in enumerate(REPOS, 1)}
        self.github_is_down = False
        self.judge_is_down = False
        self.judge_mode = "pass"
        self.stops_heavy_scans = True  # as its limits would
        self.has_read_heavy = False

    def scan(self, files: Files, findings: Any, strict: bool) -> ScanReport:
        if files == CONTENTS["heavy"]:
            if self.stops_heavy_scans:
                return unfinished_report(files, findings, "the scan was stopped")
            self.has_read_heavy = True
        return scan(files, findings, strict)

    def get_repo(self, owner: str, name: str) -> GitHubRepo:
        if name not in self.heads:
            raise Refused("There is no such repository.", "repo_not_found")
        return GitHubRepo(self.ids[name], 9, "me", name, "main", None, 0)

    def resolve_ref(self, repo: GitHubRepo, tree: str | None = None) -> Pinned:
        return Pinned(content_hash_of(CONTENTS[self.heads[repo.name]])[:40], None, "")

    def discover(self, repo: GitHubRepo, commit: str) -> RepoSkills:
        return RepoSkills([FoundSkill("greeter", "skills/greeter", "blob")], False)

    def fetch_skill(self, repo: GitHubRepo, commit: str, path: str) -> Folder:
        files = next(files for files in CONTENTS.values() if content_hash_of(files)[:40] == commit)
        return Folder(dict(files), ())

    def judge(self, operation: str, question: dict[str, Any]) -> dict[str, Any]:
        if self.judge_is_down:
            raise EndpointConnectionError(endpoint_url="the judge")
        return _answer(self.judge_mode, question)
