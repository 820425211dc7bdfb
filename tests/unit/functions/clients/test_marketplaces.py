"""Marketplaces of Claude Code: what each lists, and the one that has a single version for good."""

import pytest

from tests.support.client_skills import change, put_installable, some_files
from tests.support.route_calls import call

VERSION = "GET /marketplace/version/{owner}/{repo}/{skill}/{file}"


async def of_version(env, version: str = "1.0.0"):
    return await call(env, VERSION, "/x", owner="acme", repo="tools", skill="pdf", file=f"{version}.json")


async def test_the_marketplace_of_a_version_keeps_it(env):
    skill = await put_installable(env)
    first = await of_version(env)
    [plugin] = first.json["plugins"]
    assert (plugin["name"], plugin["version"], plugin["source"]["version"]) == ("pdf", "1.0.0", "1.0.0")
    await put_installable(env, files=some_files("pdf", "Other."), version="1.0.1")
    assert (await of_version(env)).json == first.json
    newer = (await of_version(env, "1.0.1")).json
    assert newer["name"] != first.json["name"]  # else one would replace the other
    assert newer["plugins"][0]["version"] == "1.0.1"
    assert (await of_version(env, "9.9.9")).status == 404
    await change(env, skill, is_blocked=True)
    assert (await of_version(env)).status == 403


@pytest.mark.parametrize("name", ["acme/tools/Odd_Name", "acme/tools/pdf@dev"])
async def test_what_claude_code_cannot_list_has_no_such_marketplace(env, name):
    await put_installable(env, name, ref=name.partition("@")[2] or None)
    skill = name.rpartition("/")[2]
    answer = await call(env, VERSION, "/x", owner="acme", repo="tools", skill=skill, file="1.0.0.json")
    assert answer.status == 404
