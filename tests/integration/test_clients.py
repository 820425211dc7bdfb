"""The command-line client's requests as it sends them, in the order of its commands: submit, find, install, update. A
stub GitHub on loopback, the store in memory; every answer is held against the contract too."""

import pytest

from shared.submissions.submission_store import get_submission
from tests.support.builders import processed
from tests.support.contract_checks import ask
from tests.support.memory import memory_env, within
from tests.support.route_calls import call
from tests.support.stub_github import StubGitHub

# It sends them with every request, GET or POST, and the last two once a user has signed in.
HEADERS = {
    "content-type": "application/json",
    "user-agent": "vskill-cli",
    "authorization": "Bearer vsk_of-another-platform",
    "x-vskill-tenant": "acme",
}
SKILLS = "/api/v1/skills"
CHECK = "/api/v1/blocklist/check"


def skill_md(name: str) -> str:
    return f"---\nname: {name}\ndescription: Helps with {name} files.\n---\n\n# {name}\n"


FILES = {"skills/MySkill/SKILL.md": skill_md("my-skill"), "skills/other/SKILL.md": skill_md("other")}


@pytest.fixture
async def env():
    with StubGitHub() as github:
        github.repo("acme/tools", FILES)
        github.repo("acme/Greeter", {"SKILL.md": skill_md("greeter")})
        env = memory_env(github_api_url=github.url)
        yield env
        await env.github.close()


async def get(env, path, query="", **parts):
    route = f"GET {SKILLS}/{{proxy+}}" if path.startswith(SKILLS) else f"GET {path}"
    return await ask(env, route, query, headers=HEADERS, path=path, **parts)


async def post(env, path, body, **parts):
    route = f"POST {SKILLS}/{{proxy+}}" if path.startswith(SKILLS) else f"POST {path}"
    return await ask(env, route, body=body, headers=HEADERS, path=path, **parts)


async def published(env, repo, **named):
    body = {"repoUrl": f"https://github.com/{repo}", **named, "source": "cli-submit"}
    answer = await post(env, "/api/v1/submissions", body)
    assert answer.status == 201
    await processed(env, await within(env, lambda: get_submission(answer.json["id"])))
    return answer.json["skillName"]


@pytest.mark.parametrize(
    ("repo", "named", "name", "folder"),
    [
        ("acme/tools", {"skillName": "MySkill"}, "acme/tools/myskill", "MySkill"),
        ("acme/tools", {"skillName": "other", "skillPath": "skills/other/SKILL.md"}, "acme/tools/other", "other"),
        ("acme/Greeter", {}, "acme/Greeter/greeter", "Greeter"),
    ],
)
async def test_what_is_submitted_by_its_folder_is_found_with_the_name_that_its_repository_has_for_it(
    env, repo, named, name, folder
):
    """The client looks for `skillSlug` in the repository, and GitHub tells small letters from capitals."""
    assert await published(env, repo, **named) == name
    (item,) = (await get(env, f"{SKILLS}/search", {"q": folder, "limit": 7})).json["results"]
    assert (item["name"], item["skillSlug"]) == (name, folder)
    assert "/".join((item["ownerSlug"], item["repoSlug"])) == repo
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)
    assert f"npx vskill@latest install {repo}/{folder}<" in page.text


async def test_an_installation_and_an_update_find_all_they_ask_for(env):
    await published(env, "acme/tools", skillName="MySkill")
    safe = await get(env, CHECK, {"name": "MySkill", "repoUrl": "https://github.com/acme/tools"})
    assert safe.json == {"blocked": False, "rejected": False, "tainted": False, "taintReason": None}
    assert (await get(env, f"{SKILLS}/{{name}}/security", name="MySkill")).status == 200
    sent = {"source": "cli", "platform": "linux", "cliVersion": "1.0.21"}
    counted = await post(env, f"{SKILLS}/{{name}}/installs", {"repoUrl": "acme/tools", **sent}, name="MySkill")
    assert counted.json == {"ok": True}
    several = {"skills": [{"skillName": "MySkill", "repoUrl": "acme/tools"}], **sent}
    assert (await post(env, f"{SKILLS}/installs", several)).json == {"ok": True}
    have = {"name": "acme/tools/MySkill", "currentVersion": "0.9.0", "sha": "0" * 64}
    checked = await post(env, f"{SKILLS}/check-updates", {"skills": [have], "platform": "linux", "cliVersion": "1"})
    (update,) = checked.json["results"]
    assert (update["name"], update["latest"], update["versionBump"]) == ("acme/tools/MySkill", "1.0.0", "major")
    skill = (await get(env, f"{SKILLS}/{{owner}}/{{repo}}/{{skill}}", owner="acme", repo="tools", skill="MySkill")).json
    assert (skill["skill"]["vskillInstalls"], skill["skill"]["content"]) == (2, FILES["skills/MySkill/SKILL.md"])
