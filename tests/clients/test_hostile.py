"""Hostile and large contents through the real clients: every file arrives as it was scanned, and nothing of it runs."""

import base64
import json
import random
from pathlib import Path
from urllib.parse import unquote

import pytest

from functions.api.skill_files import LARGEST_ANSWER
from shared.storage.content import content_hash_of
from tests.clients.registry_site import Client, content_hash, skill_md
from tests.support.media_files import png

NAME = "acme/hostile/trap"
CANARY = "a-canary-ran"
RUN = f"touch {CANARY} && touch $HOME/{CANARY}"
PROGRAM = str(Path(__file__).with_name("mcp_client.py"))
FILES = {
    "SKILL.md": skill_md("another-name"),
    "package.json": json.dumps(
        {"name": "x", "version": "9.9.9", "scripts": dict.fromkeys(("preinstall", "postinstall"), RUN)}
    ),
    "hooks/hooks.json": json.dumps(
        {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": RUN}]}]}, "description": "x"}
    ),
    "commands/run.md": f"!`{RUN}`\n",
    "a b.md": "A space.\n",
    "ä.md": "A letter that is not ASCII.\n",
    f"$(touch {CANARY}).md": "A command substitution.\n",
    f";touch {CANARY};.md": "A separator.\n",
    "&quot;<script>.md": "Markup.\n",
    "%2e%2e%2fup.md": "An encoded path.\n",
    "node_modules/x/index.js": "// a folder that npm fills\n",
    "empty.txt": "",
}


@pytest.fixture(scope="module", autouse=True)
def published(site):
    for slug, page in (("trap", FILES["SKILL.md"]), ("lure", skill_md("lure"))):
        files = {f"skills/{slug}/{path}": text for path, text in (FILES | {"SKILL.md": page}).items()}
        site.publish("acme/hostile", slug, files, approves=True)


def client_of(folder: Path, site) -> Client:
    client = Client(folder, CLAWHUB_SITE=site.url, DISABLE_TELEMETRY="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
    (client.home / ".npmrc").write_text(f"registry={site.url}/npm\n")
    return client


COMMANDS = {
    "skills": ["skills add {url}/acme/hostile/trap -a claude-code -y --copy"],
    "claude": [
        "claude plugin marketplace add {url}/marketplace/repository/acme/hostile.json",
        "claude plugin install trap@vskill-acme-hostile",
    ],
    "npm": ["npm install --foreground-scripts @acme/hostile--trap"],
    "clawhub": ["clawhub install @acme/hostile--trap"],
}


@pytest.mark.parametrize("program", COMMANDS)
def test_every_file_arrives_as_it_was_scanned_and_none_runs(site, tmp_path, program):
    client = client_of(tmp_path, site)
    for command in COMMANDS[program]:
        client.run(*command.format(url=site.url).split())
    pages = [path for place in (client.work, client.home / ".claude") for path in place.rglob("SKILL.md")]
    hashes = {content_hash(page.parent, (".clawhub/",)) for page in pages}
    assert hashes == {site.version(NAME, "1.0.0")["contentHash"]}
    assert not list(tmp_path.rglob(CANARY))


def test_mcp_reads_every_file_as_it_was_scanned(site, tmp_path):
    root = "skill://acme/hostile/lure/"
    client = client_of(tmp_path, site)
    seen = json.loads(client.run(client.python, PROGRAM, f"{site.url}/mcp", f"{root}SKILL.md").splitlines()[-1])
    files = {unquote(uri.removeprefix(root)): base64.b64decode(content) for uri, content in seen["files"].items()}
    assert content_hash_of(files) == site.version("acme/hostile/lure", "1.0.0")["contentHash"]
    assert f"skill://{NAME}/SKILL.md" not in seen["listed"]  # its name is not that of its folder


@pytest.mark.parametrize(
    ("slug", "files", "command"),
    [
        ("ignored", {".gitignore": "*.pyc\n"}, "npm install @acme/changed--ignored"),
        ("marked", {"SKILL.md": "\ufeff" + skill_md("marked")}, "skills add {url}/acme/changed/marked -y"),
        (
            "hidden",
            {"SKILL.md": skill_md("hidden").replace("license: MIT", "metadata: {internal: true}")},
            "skills add {url}/acme/changed/hidden -y",
        ),
    ],
)
def test_a_client_that_would_change_or_hide_a_skill_does_not_get_it(site, tmp_path, slug, files, command):
    whole = {"SKILL.md": skill_md(slug)} | files
    site.publish("acme/changed", slug, {f"skills/{slug}/{path}": text for path, text in whole.items()})
    client = client_of(tmp_path, site)
    client.run(*command.format(url=site.url).split(), fails=True)
    assert not list(tmp_path.rglob("SKILL.md"))
    client.run("clawhub", "install", f"@acme/changed--{slug}")  # it takes all of them as they are
    [page] = client.work.rglob("SKILL.md")
    assert content_hash(page.parent, (".clawhub/",)) == site.version(f"acme/changed/{slug}", "1.0.0")["contentHash"]


def test_a_large_skill_reaches_every_client_through_the_bucket(site, tmp_path):
    pictures = {f"{n}.png": png((b"IDAT", random.Random(n).randbytes(900_000))) for n in range(6)}
    files = {f"skills/photo/{path}": body for path, body in ({"SKILL.md": skill_md("photo")} | pictures).items()}
    site.publish("acme/large", "photo", files)
    recorded = site.version("acme/large/photo", "1.0.0")
    assert all(artifact["size"] > LARGEST_ANSWER for artifact in recorded["artifacts"].values())
    client = client_of(tmp_path, site)
    client.run("skills", "add", f"{site.url}/acme/large/photo", "-a", "claude-code", "-y", "--copy")
    client.run("npm", "install", "--no-audit", "@acme/large--photo")
    client.run("clawhub", "install", "@acme/large--photo")
    hashes = [content_hash(page.parent, (".clawhub/",)) for page in client.work.rglob("SKILL.md")]
    assert hashes == [recorded["contentHash"]] * 3
