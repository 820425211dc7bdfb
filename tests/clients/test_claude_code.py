"""Claude Code and npm: marketplaces whose plugins are packages of our registry."""

import hashlib
import json

import pytest

from tests.clients.registry_site import Client, content_hash, files_of

NAME = "acme/charts/csv"
PLUGIN = "csv@vskill-acme-charts"


@pytest.fixture(scope="module")
def client(tmp_path_factory, site):
    site.publish("acme/charts", "csv", files_of("csv"))
    return claude(tmp_path_factory.mktemp("claude"), site)


def claude(folder, site) -> Client:
    client = Client(folder, DISABLE_TELEMETRY="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
    # Without https it installs from npm's default registry only.
    (client.home / ".npmrc").write_text(f"registry={site.url}/npm\n")
    return client


def installed(client: Client, version: str):
    return client.home / ".claude" / "plugins" / "cache" / "vskill-acme-charts" / "csv" / version / "skills" / "csv"


def test_a_plugin_is_the_recorded_version_and_not_the_head(site, client):
    site.push("acme/charts", files_of("csv", "Not scanned."))
    client.run("claude", "plugin", "marketplace", "add", f"{site.url}/marketplace/repository/acme/charts.json")
    client.run("claude", "plugin", "install", PLUGIN)
    assert content_hash(installed(client, "1.0.0")) == site.version(NAME, "1.0.0")["contentHash"]
    details = client.run("claude", "plugin", "details", PLUGIN)
    assert "csv 1.0.0" in details
    assert "Skills (1)" in details


def test_update_installs_the_next_version(site, client):
    site.publish("acme/charts", "csv", files_of("csv", "Read it twice."))
    client.run("claude", "plugin", "marketplace", "update", "vskill-acme-charts")
    client.run("claude", "plugin", "update", PLUGIN)
    assert content_hash(installed(client, "1.0.1")) == site.version(NAME, "1.0.1")["contentHash"]


def test_npm_installs_the_recorded_package(site, tmp_path):
    client = Client(tmp_path)
    client.run("npm", "install", "--no-audit", "--no-fund", "@acme/charts--csv@1.0.0", "--registry", f"{site.url}/npm")
    recorded = site.version(NAME, "1.0.0")
    folder = client.work / "node_modules" / "@acme" / "charts--csv"
    assert content_hash(folder / "skills" / "csv") == recorded["contentHash"]
    lock = json.loads((client.work / "package-lock.json").read_text())["packages"]["node_modules/@acme/charts--csv"]
    assert lock["integrity"] == recorded["artifacts"]["npm"]["integrity"]
    _, _, body = site.platform.request("GET", lock["resolved"].removeprefix(site.url))
    assert hashlib.sha256(body).hexdigest() == recorded["artifacts"]["npm"]["sha256"]


def test_the_marketplaces_that_span_owners_list_it_too(site, client):
    for path in ("/marketplace.json", "/marketplace/owner/acme.json", "/marketplace/tier/scanned.json"):
        _, market = site.platform.json("GET", path)
        assert "@acme/charts--csv" in [plugin["source"]["package"] for plugin in market["plugins"]]
    client.run("claude", "plugin", "marketplace", "add", f"{site.url}/marketplace.json")
    client.run("claude", "plugin", "install", "acme--charts--csv@vskill")


def test_a_blocked_skill_is_refused(site, tmp_path):
    site.publish("acme/blocked", "xml", files_of("xml"))
    client = claude(tmp_path / "claude", site)
    client.run("claude", "plugin", "marketplace", "add", f"{site.url}/marketplace/repository/acme/blocked.json")
    site.block("acme/blocked/xml")
    client.run("claude", "plugin", "install", "xml@vskill-acme-blocked", fails=True)
    assert not list(client.home.rglob("skills/xml/SKILL.md"))
    other = Client(tmp_path / "npm")
    refused = other.run("npm", "install", "@acme/blocked--xml", "--registry", f"{site.url}/npm", fails=True)
    assert "403" in refused
