"""The versions of a skill and what changed between them, every route twice on a warm process."""

import re
from datetime import datetime
from types import NoneType

import pytest

from shared.evidence.blocklist import add_block, entry_for
from shared.marketplace.skill_admin import yank_version
from tests.support.gateway_events import error_of
from tests.support.published_skills import publish, read, run

VERSION = {
    "version": str,
    "certTier": str,
    "certScore": int,
    "createdAt": str,
    "contentHash": str,
    "diffSummary": str,
    "newPermissions": list,
    "runUrl": str,
    "artifacts": dict,
}

pytestmark = pytest.mark.usefixtures("function_env")


@pytest.fixture
def greeter():
    """Three versions: a file changed, then one came and one went. The id of their submission: each is a run of it."""
    first = publish("greeter", **{"notes.md": "one\ntwo\nthree\n"})
    publish("greeter", token=first["uploadToken"], **{"notes.md": "one\n2\nthree\n"})
    publish("greeter", token=first["uploadToken"], **{"more.md": "new"})
    return first["id"]


def types_of(body):
    return {name: type(value) for name, value in body.items()}


def twice(path, query=""):
    first, second = read(path, query), read(path, query)
    assert (first.status, first.body) == (second.status, second.body)
    return second


def test_versions_are_listed_newest_first_with_exactly_these_fields(greeter):
    for name in ("greeter", "uploads/anonymous/greeter"):
        answer = twice(f"{name}/versions")
        assert answer.status == 200
        assert set(answer.body) == {"versions"}
        assert [types_of(version) for version in answer.body["versions"]] == [VERSION] * 3
        assert [version["version"] for version in answer.body["versions"]] == ["1.0.2", "1.0.1", "1.0.0"]
        assert [version["runUrl"] for version in answer.body["versions"]] == [
            f"/submissions/{greeter}/runs/{run}" for run in (3, 2, 1)
        ]
    newest = answer.body["versions"][0]
    assert re.fullmatch(r"[0-9a-f]{64}", newest["contentHash"])
    datetime.fromisoformat(newest["createdAt"])
    assert answer.headers["etag"]


def test_one_version_has_its_own_text_and_files(greeter):
    answer = twice("greeter/versions/1.0.0")
    assert answer.status == 200
    more = {"name": str, "sha": type(None), "content": str, "files": list, "capabilities": list}
    assert types_of(answer.body) == VERSION | more
    assert (answer.body["version"], answer.body["runUrl"]) == ("1.0.0", f"/submissions/{greeter}/runs/1")
    assert "Say hello" in answer.body["content"]
    assert [file["path"] for file in answer.body["files"]] == ["SKILL.md", "notes.md"]
    assert answer.body["files"][1]["size"] == 14


def test_a_diff_is_a_summary_and_one_unified_text(greeter):
    answer = twice("greeter/versions/diff", "from=1.0.0&to=1.0.1")
    assert answer.status == 200
    assert answer.body == {
        "from": "1.0.0",
        "to": "1.0.1",
        "diffSummary": "1 file changed, +1 −1 lines",
        "contentDiff": "--- a/notes.md\n+++ b/notes.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
    }


def test_a_diff_of_a_version_with_itself_is_empty_and_there(greeter):
    answer = read("greeter/versions/diff", "from=1.0.1&to=1.0.1")
    assert answer.body["contentDiff"] == ""
    assert answer.body["diffSummary"] == "no file changed"
    assert read("greeter/versions/compare", "from=1.0.1&to=1.0.1").body["files"] == []


def test_a_comparison_lists_each_file_with_its_patch(greeter):
    answer = twice("greeter/versions/compare", "from=1.0.1&to=1.0.2")
    assert answer.status == 200
    assert answer.body["files"] == [
        {
            "filename": "more.md",
            "status": "added",
            "additions": 1,
            "deletions": 0,
            "patch": "@@ -0,0 +1 @@\n+new\n\\ No newline at end of file",
        },
        {
            "filename": "notes.md",
            "status": "removed",
            "additions": 0,
            "deletions": 3,
            "patch": "@@ -1,3 +0,0 @@\n-one\n-2\n-three",
        },
    ]


def test_versions_can_be_compared_backwards(greeter):
    answer = read("greeter/versions/compare", "from=1.0.1&to=1.0.0")
    assert answer.body["files"][0]["patch"] == "@@ -1,3 +1,3 @@\n one\n-2\n+two\n three"


def test_a_yanked_version_is_there_and_marked(greeter):
    run(lambda: yank_version("uploads/anonymous/greeter", "1.0.1", "It was a draft."))
    versions = {version["version"]: version for version in twice("greeter/versions").body["versions"]}
    assert types_of(versions["1.0.1"]) == VERSION | {"isYanked": bool, "yankReason": str}
    assert (versions["1.0.1"]["isYanked"], versions["1.0.1"]["yankReason"]) == (True, "It was a draft.")
    assert "isYanked" not in versions["1.0.0"]
    one = read("greeter/versions/1.0.1").body
    assert one["isYanked"]
    assert one["content"]


def test_the_content_of_a_banned_version_is_nowhere_given_out_and_its_evidence_stays(greeter):
    hashes = {one["version"]: one["contentHash"] for one in read("greeter/versions").body["versions"]}
    run(lambda: add_block(entry_for("greeter", "It steals keys.", None, "high", hashes["1.0.0"])))
    versions = {version["version"]: version for version in twice("greeter/versions").body["versions"]}
    assert types_of(versions["1.0.0"]) == VERSION | {"isBlocked": bool, "blockReason": str, "certScore": NoneType}
    assert (versions["1.0.0"]["isBlocked"], versions["1.0.0"]["blockReason"]) == (True, "It steals keys.")
    assert "isBlocked" not in versions["1.0.1"]
    one = twice("greeter/versions/1.0.0")
    assert (one.status, one.body["content"], one.body["files"]) == (200, None, [])
    assert one.body["contentHash"] == hashes["1.0.0"]
    for what in ("diff", "compare"):
        for query in ("from=1.0.0&to=1.0.1", "from=1.0.1&to=1.0.0", "from=1.0.0&to=1.0.0"):
            assert error_of(read(f"greeter/versions/{what}", query)) == (403, "version_blocked")
        assert read(f"greeter/versions/{what}", "from=1.0.1&to=1.0.2").status == 200
    assert read("greeter").body["skill"]["content"]  # the current one is another
    run(lambda: add_block(entry_for("greeter", "It steals keys.", None, "high", hashes["1.0.2"])))
    assert read("greeter").body["skill"]["content"] is None  # not even before the skill itself is taken out


REFUSED = [
    ("greeter/versions/9.9.9", "", (404, "version_not_found")),
    ("greeter/versions/01.0.0", "", (404, "version_not_found")),
    ("uploads/anonymous/greeter/versions/latest", "", (404, "version_not_found")),
    ("uploads/anonymous/greeter/versions/" + "9" * 400, "", (404, "version_not_found")),
    ("greeter/versions/diff", "from=1.0.0&to=9.9.9", (404, "version_not_found")),
    ("greeter/versions/diff", "from=x&to=1.0.0", (404, "version_not_found")),
    ("greeter/versions/diff", "from=1.0.0", (400, "missing_parameter")),
    ("greeter/versions/compare", "", (400, "missing_parameter")),
    ("greeter/versions/compare", "from=&to=1.0.0", (400, "invalid_from")),
    ("greeter/versions/compare", "from=1.0.0&to=1.0.0&base=1", (400, "unknown_parameter")),
    ("greeter/versions", "limit=1", (400, "unknown_parameter")),
    ("nobody/versions", "", (404, "skill_not_found")),
    ("nobody/versions/1.0.0", "", (404, "skill_not_found")),
    ("a/b/c/versions/diff", "from=1.0.0&to=1.0.1", (404, "skill_not_found")),
]


def test_what_is_not_there_is_refused_with_the_reason():
    publish("greeter")
    for path, query, refused in REFUSED:
        assert (path, query, error_of(read(path, query))) == (path, query, refused)
        assert error_of(read(path, query)) == refused
