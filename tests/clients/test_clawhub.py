"""The `clawhub` command: search, explore, install, inspect, verify, update."""

import hashlib
import json

import pytest

from tests.clients.registry_site import Client, content_hash, files_of

NAME = "acme/claws/log"
SLUG = "@acme/claws--log"
OWN_FILES = (".clawhub/",)  # what the client adds


@pytest.fixture(scope="module")
def client(tmp_path_factory, site):
    site.publish("acme/claws", "log", files_of("log"))
    return clawhub(tmp_path_factory.mktemp("clawhub"), site)


def clawhub(folder, site) -> Client:
    return Client(folder, CLAWHUB_SITE=site.url, CLAWHUB_DISABLE_TELEMETRY="1")


def test_search_explore_and_inspect(site, client):
    assert "claws--log v1.0.0  @acme" in client.run("clawhub", "search", "log")
    assert "claws--log  v1.0.0" in client.run("clawhub", "explore")
    inspected = client.run("clawhub", "inspect", SLUG, "--files")
    digest = hashlib.sha256(files_of("log")["skills/log/SKILL.md"].encode()).hexdigest()
    assert digest in inspected
    assert "Read the file, then sum it up." in client.run("clawhub", "inspect", "claws--log", "--file", "SKILL.md")


def test_install_gets_the_recorded_artifact_and_not_the_head(site, client):
    site.push("acme/claws", files_of("log", "Not scanned."))
    client.run("clawhub", "install", SLUG)
    recorded = site.version(NAME, "1.0.0")
    assert content_hash(client.work / "skills" / SLUG, OWN_FILES) == recorded["contentHash"]
    verified = json.loads(client.run("clawhub", "skill", "verify", SLUG))
    assert verified["ok"]
    assert verified["artifact"]["sha256"] == recorded["artifacts"]["zip"]["sha256"]


def test_update_installs_the_next_version(site, client):
    assert "up to date v1.0.0" in client.run("clawhub", "update", "--all")
    site.publish("acme/claws", "log", files_of("log", "Read it twice."))
    client.run("clawhub", "update", "--all")
    assert content_hash(client.work / "skills" / SLUG, OWN_FILES) == site.version(NAME, "1.0.1")["contentHash"]


def test_a_blocked_skill_is_refused_as_malware(site, client, tmp_path):
    site.block(NAME)
    other = clawhub(tmp_path, site)
    assert "flagged as malware" in other.run("clawhub", "install", SLUG, "--force", fails=True)
    assert "flagged as malware" in client.run("clawhub", "update", "--all")
    assert not list(other.work.rglob("SKILL.md"))
    assert not json.loads(client.run("clawhub", "skill", "verify", SLUG, fails=True))["ok"]
    assert "claws--log" not in client.run("clawhub", "search", "log")
