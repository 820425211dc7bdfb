"""Repositories as the stub GitHub knows them: commits, branches, tags, and commits that only a fork has."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from tests.support.tarballs import git_archive


@dataclass
class Commit:
    files: dict[str, bytes]
    parent: str | None = None
    links: dict[str, str] = field(default_factory=dict)
    submodules: tuple[str, ...] = ()
    archive: bytes | None = None  # instead of what git would write


@dataclass
class StubRepo:
    id: int
    owner_id: int
    full_name: str
    default_branch: str = "main"
    private: bool = False
    stars: int = 7
    archived: bool = False
    pushed_at: str = "2026-01-01T00:00:00Z"
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    annotated: dict[str, str] = field(default_factory=dict)  # sha of the tag object -> commit

    def commit(self, files: dict[str, str | bytes], branch: str | None = None, **more: Any) -> str:
        """A new commit on a branch, the default one unless named. The default branch is where a new branch starts."""
        branch = branch or self.default_branch
        parent = self.branches.get(branch) or self.branches.get(self.default_branch)
        self.branches[branch] = sha = self._add(files, parent, **more)
        return sha

    def fork_commit(self, files: dict[str, str | bytes]) -> str:
        """A commit of a fork: GitHub answers for it here too, though no branch or tag of this repository has it."""
        return self._add(files, self.branches.get(self.default_branch))

    def tag(self, name: str, sha: str | None = None, annotated: bool = False) -> str:
        sha = sha or self.branches[self.default_branch]
        if annotated:
            tag_object = sha_of(f"tag {name} {sha}")
            self.annotated[tag_object] = sha
            sha = tag_object
        self.tags[name] = sha
        return sha

    def archive(self, sha: str) -> bytes:
        commit = self.commits[sha]
        if commit.archive is not None:
            return commit.archive
        return git_archive(self.root(sha), sha, commit.files, commit.links)

    def root(self, sha: str) -> str:
        return f"{self.full_name.replace('/', '-')}-{sha[:7]}"

    def status(self, sha: str) -> str:
        """What comparing the default branch with a commit says."""
        head: str | None = self.branches[self.default_branch]
        if sha == head:
            return "identical"
        while head:
            if head == sha:
                return "behind"
            head = self.commits[head].parent
        return "ahead" if self.commits[sha].parent == self.branches[self.default_branch] else "diverged"

    def _add(self, files: dict[str, str | bytes], parent: str | None, **more: Any) -> str:
        content = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
        sha = sha_of(
            f"{self.full_name} {len(self.commits)} {sorted((path, blob_of(data)) for path, data in content.items())}"
        )
        self.commits[sha] = Commit(content, parent, **more)
        return sha


def sha_of(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def blob_of(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
