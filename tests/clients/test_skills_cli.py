"""The `skills` command: add, list, find, use, check, update, and restore from its lock file."""

import json
import shutil

import pytest

from tests.clients.registry_site import Client, content_hash, files_of

NAME = "acme/paper/pdf"
OPTIONS = ("-a", "claude-code", "-y", "--copy")


@pytest.fixture(scope="module")
def client(tmp_path_factory, site):
    site.publish("acme/paper", "pdf", files_of("pdf"))
    return Client(tmp_path_factory.mktemp("skills"), SKILLS_API_URL=site.url)


@pytest.fixture
def folder(client):
    return client.work / ".claude" / "skills" / "pdf"


def test_list_find_and_use_install_nothing(site, client, folder):
    assert "Helps with pdf files." in client.run("skills", "add", f"{site.url}/{NAME}", "--list")
    assert f"{site.url}/{NAME}@pdf" in client.run("skills", "find", "pdf")
    assert "Read the file, then sum it up." in client.run("skills", "use", f"{site.url}/{NAME}@pdf")
    assert not folder.exists()


def test_add_installs_the_recorded_artifact_and_not_the_head(site, client, folder):
    recorded = site.version(NAME, "1.0.0")
    site.push("acme/paper", files_of("pdf", "Not scanned."))
    client.run("skills", "add", f"{site.url}/{NAME}@pdf", *OPTIONS)
    assert content_hash(folder) == recorded["contentHash"]
    lock = json.loads((client.work / "skills-lock.json").read_text())
    assert lock["skills"]["pdf"]["wellKnownDigest"] == f"sha256:{recorded['artifacts']['tgz']['sha256']}"


def test_a_whole_repository_is_added_at_once(site, tmp_path):
    site.publish("acme/sheets", "csv", files_of("csv", "One of two."))
    site.publish("acme/sheets", "xml", files_of("xml", "Two of two."))
    client = Client(tmp_path)
    client.run("skills", "add", f"{site.url}/acme/sheets", "--skill", "*", *OPTIONS)
    folders = client.work / ".claude" / "skills"
    for name in ("csv", "xml"):
        assert content_hash(folders / name) == site.version(f"acme/sheets/{name}", "1.0.0")["contentHash"]


def test_check_update_and_restore_follow_what_is_published(site, client, folder):
    assert "Updated" not in client.run("skills", "check")
    site.publish("acme/paper", "pdf", files_of("pdf", "Read it twice."))
    newest = site.version(NAME, "1.0.1")["contentHash"]
    assert "Updated pdf" in client.run("skills", "update", "-y")
    assert content_hash(folder) == newest
    for place in (".claude", ".agents"):  # the one may link to the other
        shutil.rmtree(client.work / place, ignore_errors=True)
    client.run("skills", "experimental_install")
    assert content_hash(client.work / ".agents" / "skills" / "pdf") == newest


def test_a_blocked_skill_is_refused(site, client, tmp_path):
    site.block(NAME)
    other = Client(tmp_path)
    refused = other.run("skills", "add", f"{site.url}/{NAME}", *OPTIONS, fails=True)
    assert "Read it" not in refused
    assert not list(other.work.rglob("SKILL.md"))
    assert NAME not in client.run("skills", "find", "pdf")
