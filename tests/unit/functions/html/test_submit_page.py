"""The forms of /submit without a script: the check, a zip file for a folder, a repository with several skills."""

import io
import re
import zipfile

import pytest

from shared.errors import Unprocessable
from shared.submissions import intake
from shared.submissions.counters import get_stats
from shared.submissions.submission_store import get_submission
from tests.support.builders import REVERSE_SHELL, a_bundle, a_harmful_bundle, an_unusable_bundle
from tests.support.memory import memory_env, within
from tests.support.route_calls import call, multipart


def zipped(files: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", kind) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return written.getvalue()


def page_of(name: str) -> bytes:
    return a_bundle(name)["files"][0][1].encode()


async def sent(env, fields: dict[str, str], files: dict[str, bytes]):
    body, headers = multipart(fields, files)
    return await call(env, "POST /submit", body=body, headers=headers)


async def checked(env, bundle: dict):
    files = {path: text.encode() for path, text in bundle["files"]}
    return await sent(env, {"name": bundle["name"], "action": "check"}, files)


async def test_a_check_shows_verdict_and_findings_and_queues_nothing(env):
    good, bad, useless = [await checked(env, make()) for make in (a_bundle, a_harmful_bundle, an_unusable_bundle)]
    assert "Check: passed" in good.text
    assert "Check: rejected" in bad.text
    assert 'href="/rules/RS-ONE-LINER"' in bad.text
    assert "it would be refused" in useless.text
    assert 'value="nameless"' in bad.text  # what was typed is kept
    assert (await within(env, get_stats)).total == 0


async def test_where_uploads_are_off_the_check_is_too():
    env = memory_env(allow_uploads=False)
    refused = await checked(env, a_bundle())
    assert (refused.status, "data-check" in refused.text) == (403, False)


async def test_what_cannot_be_used_is_refused_at_once_beside_the_files(env):
    refused = await sent(env, {"name": "x"}, {"SKILL.md": b"# No front matter\n"})
    assert refused.status == 422
    assert re.search(r'id="files-problem"[^>]*>SKILL.md cannot be used', refused.text)


async def test_broken_yaml_is_reported_next_to_the_token(env):
    page = await sent(env, {"name": "odd"}, {"SKILL.md": b"---\nname: odd\ndescription: Use this: [it\n---\nHello.\n"})
    assert page.status == 200
    assert re.search(r"data-warning>.*not valid YAML", page.text)


async def test_a_zip_file_stands_for_the_folder_in_it(env):
    files = {"my-skill/SKILL.md": page_of("zipped"), "my-skill/a/run.sh": b"echo hello\n", "__MACOSX/x": b"x"}
    page = await sent(env, {"name": "zipped"}, {"my-skill.zip": zipped(files)})
    submission_id = re.search(r'href="/submissions/(\w+)"', page.text)[1]
    stored = await within(env, lambda: get_submission(submission_id))
    assert sorted(await env.content.get_files(stored.content_hash)) == ["SKILL.md", "a/run.sh"]


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (b"no archive", 400, "cannot be read"),
        (zipped({"SKILL.md": page_of("x")})[:-30], 400, "cannot be read"),
        (zipped({"SKILL.md": page_of("x")}, zipfile.ZIP_LZMA), 400, "cannot be read"),
        (zipped({"SKILL.md": page_of("x"), "big": b"\0" * 5_000_000}), 413, "at most 4 MB"),
        (zipped({f"{n}.txt": b"" for n in range(501)}), 400, "1 to 500 files"),
        (zipped({"SKILL.md": page_of("x"), "../up.txt": b"x"}), 400, "not a path inside"),
    ],
)
async def test_a_zip_file_that_is_no_skill_is_refused(env, content, status, text):
    refused = await sent(env, {"name": "x"}, {"x.zip": content})
    assert (refused.status, text in refused.text) == (status, True)


async def test_several_skills_are_a_list_to_choose_from(env, monkeypatch):
    async def several(*_):
        raise Unprocessable("Say `skillPath`.", "several_skills", {"skills": ["a", "b"], "paths": ["skills/a", "."]})

    monkeypatch.setattr(intake, "submit_repo", several)
    url = "https://github.com/o/r"
    page = await call(env, "POST /submit", form={"repoUrl": url})
    assert page.status == 422
    assert re.findall(r'name="(skill-\d)" value="([^"]+)"', page.text) == [("skill-1", "skills/a"), ("skill-2", ".")]
    assert "skillPath`" not in page.text
    one = await call(env, "POST /submit", form={"repoUrl": url, "skill-1": "skills/a"})
    assert one.status == 303
    both = await call(env, "POST /submit", form={"repoUrl": url, "skill-1": "skills/a", "skill-2": "../x"})
    assert re.findall(r'<a href="/submissions/\w+\?sent=duplicate">o/r/a</a>', both.text)
    assert "Enter the folder with the SKILL.md" in both.text


async def test_a_repository_with_more_skills_than_a_form_lists_says_so(env, monkeypatch):
    async def several(*_):
        raise Unprocessable(
            "Say which.", "several_skills", {"skills": [], "paths": [f"skills/s{n}" for n in range(53)]}
        )

    monkeypatch.setattr(intake, "submit_repo", several)
    page = await call(env, "POST /submit", form={"repoUrl": "https://github.com/acme/many"})
    assert page.text.count('type="checkbox"') == 50
    assert "3 more skills not listed here" in page.text


async def test_a_reverse_shell_of_a_zip_file_is_found_by_its_check(env):
    content = zipped({"SKILL.md": page_of("x"), "run.sh": REVERSE_SHELL.encode()})
    page = await sent(env, {"name": "x", "action": "check"}, {"x.zip": content})
    assert "run.sh:1" in page.text
