"""The commands of docs/clients.md and of a skill's page, as they are written there."""

import hashlib
import re
import textwrap
from html import unescape

import pytest

from tests.clients.registry_site import Client, content_hash, files_of
from tests.support.platform import REPOSITORY

PAGE = (REPOSITORY / "docs" / "clients.md").read_text()
BLOCKS = dict(re.findall(r"^## (.+?)\n.*?^```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
COMMANDS = {title: block for title, block in BLOCKS.items() if title != "MCP"}


@pytest.fixture(scope="module", autouse=True)
def published(site):
    site.publish("acme/tools", "pdf", files_of("pdf", "As the page says."))


@pytest.mark.parametrize("title", COMMANDS)
def test_the_commands_of_a_client_work_as_they_are_written(site, tmp_path, title):
    client = Client(tmp_path, URL=site.url, DISABLE_TELEMETRY="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
    client.run("bash", "-e", "-c", COMMANDS[title])
    places = (client.work, client.home / ".claude")
    assert [path for place in places for path in place.rglob("SKILL.md")], "nothing was installed"


TABS = re.compile(r'<label for="client-([a-z-]+)".*?<div class="client">(.*?)</div>', re.DOTALL)
COMMAND = re.compile(r'<code class="command"[^>]*>(.*?)</code>')


@pytest.fixture(scope="module")
def tabs(site):
    """The commands of the skill's page, by client, from before there was a newer version."""
    site.publish("acme/pinned", "pdf", files_of("pdf", "The first."))
    _, _, page = site.platform.request("GET", "/skills/acme/pinned/pdf")
    site.publish("acme/pinned", "pdf", files_of("pdf", "The second."))
    assert site.version("acme/pinned/pdf", "1.0.1")
    return {client: [*map(unescape, COMMAND.findall(text))] for client, text in TABS.findall(page.decode())}


@pytest.mark.parametrize("client", ["skills", "claude-code", "npm", "clawhub", "download"])
def test_the_commands_of_a_skill_page_install_the_version_that_they_name(site, tmp_path, tabs, client):
    user = Client(tmp_path, DISABLE_TELEMETRY="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
    site.push("acme/pinned", files_of("pdf", "Not scanned."))
    for command in tabs[client]:
        user.run("bash", "-e", "-c", command.replace("npx skills add", "skills add -a claude-code -y --copy"))
    if client == "claude-code":  # what is pinned stays so
        market = tabs[client][1].rpartition("@")[2]
        user.run("claude", "plugin", "marketplace", "update", market)
        user.run("env", f"npm_config_registry={site.url}/npm", "claude", "plugin", "update", f"pdf@{market}")
    recorded = site.version("acme/pinned/pdf", "1.0.0")
    if client == "download":
        digest = hashlib.sha256((user.work / "pdf.zip").read_bytes()).hexdigest()
        assert digest == recorded["artifacts"]["zip"]["sha256"]
        return
    pages = [path for place in (user.work, user.home / ".claude") for path in place.rglob("SKILL.md")]
    assert {content_hash(path.parent, (".clawhub/",)) for path in pages} == {recorded["contentHash"]}


def test_each_client_has_four_lines():
    assert {title: len(block.splitlines()) for title, block in BLOCKS.items()} == dict.fromkeys(BLOCKS, 4)
    assert list(BLOCKS) == ["skills", "Claude Code", "npm", "clawhub", "MCP"]


PROGRAM = """
import asyncio, sys
from fastmcp import Client
from fastmcp.skills.client import SkillsClientExtension

async def main(url):
{block}
    print(text[0].text)

asyncio.run(main(sys.argv[1]))
"""


def test_the_lines_for_mcp_read_a_skill(site, tmp_path):
    client = Client(tmp_path)
    program = PROGRAM.format(block=textwrap.indent(BLOCKS["MCP"], "    "))
    read = client.run(client.python, "-c", program, site.url)
    assert "description: Helps with pdf files." in read
