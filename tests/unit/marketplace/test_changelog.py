"""What each version changed, from its manifest, on the page of the skill."""

import re

from shared.submissions import intake
from tests.support.builders import a_bundle, processed
from tests.support.memory import within
from tests.support.route_calls import call

SKILL_MD = a_bundle("greeter")["files"]


async def published(env, files, token=None):
    accepted = await within(env, lambda: intake.submit_bundle("greeter", [*SKILL_MD, *files], token, None, None))
    await processed(env, accepted.submission)
    return accepted


async def lines(env, name):
    """Of each version, by its paragraphs."""
    page = (await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)).text
    versions = re.findall(r"<li><b>(\d+\.\d+\.\d+)</b>(.*?)</li>", page, re.DOTALL)
    return {
        version: [
            " ".join(re.sub("<[^>]+>", "", line).split()) for line in re.findall(r'<p(?: class="\w+")?>(.*?)</p>', text)
        ]
        for version, text in versions
    }


async def test_a_version_says_which_files_it_added_changed_and_removed(env):
    first = await published(env, [("a.md", "A."), ("b.md", "B.")])
    await published(env, [("b.md", "Changed."), ("c.md", "C.")], first.upload_token)
    found = await lines(env, first.submission.skill_name)
    assert found["1.0.1"][:4] == ["Added: c.md", "Changed: b.md", "Removed: a.md", "Changes since 1.0.0"]
    assert not any(line.startswith(("Added", "Changes since")) for line in found["1.0.0"])


async def test_many_files_are_named_in_part(env):
    first = await published(env, [])
    await published(env, [(f"{n}.md", "x") for n in range(9)], first.upload_token)
    assert "Added: 0.md 1.md 2.md 3.md 4.md 5.md and 3 more" in (await lines(env, first.submission.skill_name))["1.0.1"]


async def test_a_removed_permission_is_named(env):
    first = await published(env, [("run.sh", "curl https://api.example.org/v1/data -o data.json\n")])
    await published(env, [("run.sh", "echo hello\n")], first.upload_token)
    found = await lines(env, first.submission.skill_name)
    assert any(line.startswith("Permissions removed:") and "api.example.org" in line for line in found["1.0.1"])


async def test_without_a_manifest_the_summary_of_its_publication_is_shown(env):
    first = await published(env, [])
    await published(env, [("a.md", "A.")], first.upload_token)
    for key in [key for key in env.kv.items if key.pk.startswith("manifest:")]:
        del env.kv.items[key]
    assert "1 file added since 1.0.0" in (await lines(env, first.submission.skill_name))["1.0.1"]
