"""The commands of docs/clients.md, as they are written there."""

import re

import pytest

from tests.clients.registry_site import Client, files_of
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
    if title == "Claude Code":
        (client.home / ".npmrc").write_text(f"registry={site.url}/npm\n")
    client.run("bash", "-e", "-c", COMMANDS[title])
    places = (client.work, client.home / ".claude")
    assert [path for place in places for path in place.rglob("SKILL.md")], "nothing was installed"


def test_each_client_has_four_lines():
    assert {title: len(block.splitlines()) for title, block in BLOCKS.items()} == dict.fromkeys(BLOCKS, 4)
    assert list(BLOCKS) == ["skills", "Claude Code", "npm", "clawhub", "MCP"]


def test_the_lines_for_mcp_are_those_of_the_client_that_is_tested():
    program = (REPOSITORY / "tests" / "clients" / "mcp_client.py").read_text()
    for call in re.findall(r"client\.\w+\(", BLOCKS["MCP"]):
        assert call in program
