"""A running platform with skills from a stub GitHub, and the clients that install from it, each in its own home."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.records.skills import sort_key
from shared.storage.content import content_hash_of
from tests.support.platform import Platform, eventually
from tests.support.stub_github import StubGitHub

STOPPED = ("TIER1_FAILED", "REJECTED", "BLOCKED", "ON_HOLD")
SECONDS = 120  # of one command, on a busy machine


def skill_md(name: str, text: str = "Read the file, then sum it up.") -> str:
    return f"---\nname: {name}\ndescription: Helps with {name} files.\nlicense: MIT\n---\n\n# {name}\n\n{text}\n"


def files_of(name: str, text: str = "Read the file, then sum it up.") -> dict[str, str]:
    return {f"skills/{name}/SKILL.md": skill_md(name, text), f"skills/{name}/references/notes.md": f"# {text}\n"}


class RegistrySite:
    def __init__(self, platform: Platform, github: StubGitHub) -> None:
        self.platform, self.github = platform, github
        self.repos: dict[str, dict[str, str | bytes]] = {}

    @property
    def url(self) -> str:
        return self.platform.url

    def push(self, full_name: str, files: Mapping[str, str | bytes]) -> None:
        """A new commit at the head of the repository, which has not been submitted."""
        self.repos.setdefault(full_name, {}).update(files)
        known = self.github.repos.get(full_name)
        (known.commit if known else self._new(full_name))(dict(self.repos[full_name]))

    def _new(self, full_name: str):
        return self.github.repo(full_name).commit

    def publish(self, full_name: str, skill: str, files: Mapping[str, str | bytes], approves: bool = False) -> None:
        """`approves`: a person does, whatever the scan found."""
        self.push(full_name, files)
        body = {"repoUrl": f"https://github.com/{full_name}", "skillName": skill}
        status, answer = self.platform.json("POST", "/api/v1/submissions", body)
        assert status in (200, 201), answer
        if approves:
            eventually(lambda: self._state(answer["id"]) in STOPPED, 60)
            self._decide(f"submissions/{answer['id']}/approve", "It is a test of ours.")
        eventually(lambda: self._is_published(answer["id"]), 60)

    def _state(self, submission: str) -> str:
        _, answer = self.platform.json("GET", f"/api/v1/submissions/{submission}")
        state: str = answer.get("state") or answer["submission"]["state"]
        return state

    def _is_published(self, submission: str) -> bool:
        state = self._state(submission)
        assert state not in STOPPED, state
        return state in ("PUBLISHED", "VENDOR_APPROVED")

    def block(self, name: str) -> None:
        self._decide(f"skills/{name}/block", "It reads what it should not.")

    def _decide(self, path: str, reason: str) -> None:
        headers = {"authorization": f"Bearer {self.platform.admin_token}"}
        status, answer = self.platform.json("POST", f"/api/v1/admin/{path}", {"reason": reason}, headers)
        assert status == 200, answer

    def version(self, name: str, version: str) -> dict[str, Any]:
        """Its record, straight from the table."""
        key = {"pk": {"S": f"version:{name}"}, "sk": {"S": sort_key(version)}}
        table = self.platform.info["table"]
        item = self.platform.client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
        record: dict[str, Any] = json.loads(item["doc"]["S"])
        return record


class Client:
    """A program with a home, a working folder and settings of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.home, self.work = folder / "home", folder / "work"
        for each in (self.home / "tmp", self.work):
            each.mkdir(parents=True)
        clients = Path(os.environ["CLIENTS_DIR"])
        [node] = clients.glob("node_modules/node-linux-*/bin")
        self._bin = clients / "node_modules" / ".bin"
        self.python = str(clients / "python" / "bin" / "python")
        self._environment = {
            "PATH": f"{clients / 'bin'}:{node}:{self._bin}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "CI": "1",
            "DO_NOT_TRACK": "1",
            "NO_COLOR": "1",
            "npm_config_update_notifier": "false",
            **environment,
        }

    def run(self, *command: str, fails: bool = False) -> str:
        ran = subprocess.run(
            command,
            cwd=self.work,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
            check=False,
        )
        assert (ran.returncode != 0) == fails, f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}"
        return ran.stdout


def installed_files(folder: Path, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    return {name: content for name, content in files.items() if not name.startswith(without)}


def content_hash(folder: Path, without: tuple[str, ...] = ()) -> str:
    return content_hash_of(installed_files(folder, without))
