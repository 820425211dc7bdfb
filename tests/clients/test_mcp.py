"""An MCP client with the Skills extension: list, get, read, search."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from shared.storage.content import content_hash_of
from tests.clients.registry_site import Client, files_of, skill_md

PROGRAM = str(Path(__file__).with_name("mcp_client.py"))
NAME = "acme/mind/yaml"
ROOT = f"skill://{NAME}/"


@pytest.fixture(scope="module")
def client(tmp_path_factory, site):
    site.publish("acme/mind", "yaml", files_of("yaml"))
    return Client(tmp_path_factory.mktemp("mcp"))


def ask(client: Client, site) -> dict:
    return json.loads(client.run(client.python, PROGRAM, f"{site.url}/mcp", f"{ROOT}SKILL.md").splitlines()[-1])


def test_list_get_and_read_give_the_scanned_files(site, client):
    loose = skill_md("loose").replace("license: MIT", "metadata: {tags: [a, b]}")
    site.publish("acme/loose", "loose", {"skills/loose/SKILL.md": loose})
    site.push("acme/mind", files_of("yaml", "Not scanned."))
    seen = ask(client, site)
    assert seen["listed"][f"{ROOT}SKILL.md"] == {
        "name": "yaml",
        "description": "Helps with yaml files.",
        "license": "MIT",
    }
    assert "skill://acme/loose/loose/SKILL.md" not in seen["listed"]  # one such entry would fail the whole list
    files = {uri.removeprefix(ROOT): base64.b64decode(content) for uri, content in seen["files"].items()}
    assert content_hash_of(files) == site.version(NAME, "1.0.0")["contentHash"]
    digests = {uri.removeprefix(ROOT): digest for uri, digest in seen["digests"].items()}
    assert digests == {path: f"sha256:{hashlib.sha256(content).hexdigest()}" for path, content in files.items()}
    assert [each["name"] for each in seen["found"]] == [NAME]


def test_a_blocked_skill_is_refused(site, client):
    site.block(NAME)
    seen = ask(client, site)
    assert "blocked" in seen["refused"]
    assert f"{ROOT}SKILL.md" not in seen["listed"]
    assert seen["found"] == []
