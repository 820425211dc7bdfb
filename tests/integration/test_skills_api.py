"""The marketplace as the gateway calls it, every route twice on a warm process: fields, types, statuses, fallbacks."""

import gzip
from datetime import datetime

import pytest

from functions.skills_api import handler
from functions.submissions_api import handler as submissions
from shared.marketplace.skill_admin import block_skill, delete_skill, unblock_skill, yank_version
from shared.marketplace.skill_store import counts_key
from shared.storage.content import pack
from tests.support.aws_resources import client
from tests.support.gateway_events import call, error_of
from tests.support.published_skills import LIST, READ, list_, publish, put, raw, read, run, twice
from tests.support.stored_skills import a_skill

ITEM = {
    "name": str,
    "author": str,
    "description": str,
    "certTier": str,
    "trustTier": str,
    "trustScore": int,
    "certScore": int,
    "currentVersion": str,
    "repoUrl": str,
    "ownerSlug": str,
    "repoSlug": str,
    "skillSlug": str,
    "vskillInstalls": int,
    "githubStars": type(None),
    "isBlocked": bool,
    "isTainted": bool,
    "category": str,
    "tags": list,
    "license": type(None),
    "capabilities": list,
}
DETAIL = ITEM | {
    "displayName": str,
    "content": str,
    "sha": str,
    "updatedAt": str,
    "provenanceVerified": bool,
    "versions": int,
    "security": dict,
    "dailyInstalls": list,
    "permissions": list,
    "compatibility": type(None),
    "allowedTools": list,
    "copyOf": type(None),
}
UPLOAD = dict.fromkeys(("repoUrl", "sha", "ownerSlug", "repoSlug"), type(None))

pytestmark = pytest.mark.usefixtures("function_env")


def types_of(body):
    return {name: type(value) for name, value in body.items()}


def names_of(answer, key="skills"):
    return [skill["name"] for skill in answer.body[key]]


def spoil(env, url, key):
    item = {"pk": {"S": key.pk}, "sk": {"S": key.sk}, "doc": {"S": "{"}}
    client("dynamodb", url).put_item(TableName=env.table_name, Item=item)


# --- the list -------------------------------------------------------------------------------------------------------


def test_an_empty_marketplace_is_an_empty_list_that_is_not_cached():
    answer = twice(list_)
    assert (answer.status, answer.body) == (200, {"skills": [], "cursor": None, "degraded": False, "stale": []})
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers


def test_an_item_of_the_list_has_exactly_these_fields():
    put(a_skill("acme/tools/pdf", tags=("a", "b"), category="office", judge_score=90), installs={"acme/tools/pdf": 7})
    answer = twice(list_)
    assert set(answer.body) == {"skills", "cursor", "degraded", "stale"}
    (item,) = answer.body["skills"]
    assert types_of(item) == ITEM
    assert (item["name"], item["author"], item["ownerSlug"], item["repoSlug"], item["skillSlug"]) == (
        ("acme/tools/pdf", "acme", "acme", "tools", "pdf")
    )
    assert (item["vskillInstalls"], item["tags"], item["category"]) == (7, ["a", "b"], "office")


def test_published_skills_are_listed_page_by_page_newest_first():
    names = [f"skill-{n}" for n in range(5)]
    for name in names:
        publish(name)
    whole = twice(lambda: list_("limit=100"))
    assert [skill["skillSlug"] for skill in whole.body["skills"]] == names[::-1]
    assert _pages(1) == _pages(2) == names_of(whole)


FILTERS = [
    ("sort=newest", ["acme/tools/csv", "beta/kit/pdf", "acme/tools/pdf"]),
    ("sort=installs", ["beta/kit/pdf", "acme/tools/csv", "acme/tools/pdf"]),
    ("category=office", ["beta/kit/pdf", "acme/tools/pdf"]),
    ("category=Office", ["beta/kit/pdf", "acme/tools/pdf"]),
    ("author=acme", ["acme/tools/csv", "acme/tools/pdf"]),
    ("tier=VERIFIED", ["beta/kit/pdf"]),
    ("q=pdf&author=beta", ["beta/kit/pdf"]),
    ("q=pdf&sort=installs", ["beta/kit/pdf", "acme/tools/pdf"]),
    ("category=office&tier=SCANNED&author=acme&q=pdf&sort=newest", ["acme/tools/pdf"]),
    ("category=none", []),
    ("q=!!", []),
]


def test_every_filter_and_sort_is_honoured_page_by_page():
    put(
        a_skill("acme/tools/pdf", 1, category="office"),
        a_skill("beta/kit/pdf", 2, category="office", cert_tier="VERIFIED"),
        a_skill("acme/tools/csv", 3),
        installs={"beta/kit/pdf": 20, "acme/tools/csv": 3},
    )
    for query, found in FILTERS:
        assert (query, names_of(list_(query))) == (query, found)
        assert (query, _pages(1, query)) == (query, found)


@pytest.mark.requirement("S09")
def test_a_cursor_belongs_to_its_filter():
    put(*(a_skill(f"acme/tools/s{n}", n) for n in range(4)))
    cursor = list_("limit=1&author=acme").body["cursor"]
    assert cursor
    for query in ("", "author=acme&sort=installs", "author=acm", "q=acme"):
        asked = f"{query}&cursor={cursor}".lstrip("&")
        assert error_of(list_(asked)) == (400, "invalid_cursor")
    assert list_(f"limit=1&author=acme&cursor={cursor}").status == 200


@pytest.mark.requirement("S09")
def test_the_cursor_of_another_list_is_refused():
    for n in range(2):
        publish(f"skill-{n}")
    cursor = call(submissions, "GET /api/v1/submissions", query="limit=1").body["cursor"]
    assert cursor
    assert error_of(list_({"cursor": cursor})) == (400, "invalid_cursor")


def test_what_cannot_be_read_is_named_and_not_kept(function_env, moto_url):
    put(a_skill("acme/tools/pdf", 1), a_skill("acme/tools/csv", 2), a_skill("acme/tools/sql", 3))
    item = client("dynamodb", moto_url).get_item(
        TableName=function_env.table_name, Key={"pk": {"S": "skill:acme/tools/csv"}, "sk": {"S": "."}}
    )["Item"]
    client("dynamodb", moto_url).put_item(TableName=function_env.table_name, Item=item | {"doc": {"S": "{"}})
    spoil(function_env, moto_url, counts_key("acme/tools/sql"))
    answer = twice(list_)
    assert names_of(answer) == ["acme/tools/sql", "acme/tools/pdf"]
    assert (answer.body["degraded"], answer.body["stale"]) == (True, ["acme/tools/csv"])
    assert answer.body["skills"][0]["vskillInstalls"] is None
    assert answer.headers["cache-control"] == "no-store"


def test_a_skill_with_an_old_name_does_not_take_the_list_down(function_env, moto_url):
    publish("greeter")
    table = client("dynamodb", moto_url)
    key = {"pk": {"S": "skill:uploads/anonymous/greeter"}, "sk": {"S": "."}}
    item = table.get_item(TableName=function_env.table_name, Key=key)["Item"]
    old = item["doc"]["S"].replace('"uploads/anonymous/greeter"', '"greeter"')
    table.put_item(TableName=function_env.table_name, Item=item | {"pk": {"S": "skill:greeter"}, "doc": {"S": old}})
    answer = list_()
    assert answer.status == 200
    assert [skill["skillSlug"] for skill in answer.body["skills"]] == ["greeter", "greeter"]


REFUSED = [
    (LIST, "page=2", "unknown_parameter"),
    (LIST, "cursor=x", "invalid_cursor"),
    (LIST, "cursor=", "invalid_cursor"),
    (LIST, "limit=1&limit=2", "repeated_parameter"),
    (LIST, "limit=101", "invalid_limit"),
    (LIST, "limit=0", "invalid_limit"),
    (LIST, "sort=stars", "invalid_sort"),
    (LIST, "tier=GOLD", "invalid_tier"),
    (LIST, "category=", "invalid_category"),
    (LIST, "q=", "invalid_q"),
    (LIST, "q=" + "x" * 201, "invalid_q"),
    (READ, "version=1", "unknown_parameter"),
]


def test_nothing_in_a_query_is_ignored_in_silence():
    for route, query, code in REFUSED:
        path = {"proxy": "a/b/c"} if route == READ else None
        assert (query, *error_of(call(handler, route, query=query, path=path))) == (query, 400, code)


# --- search ---------------------------------------------------------------------------------------------------------


def test_a_search_gives_results_and_says_whether_there_are_more():
    put(*(a_skill(f"acme/tools/pdf-{n}", n, description="Reads documents") for n in range(3)), a_skill("b/c/pdf", 9))
    answer = twice(lambda: read("search", "q=pdf&limit=2"))
    assert set(answer.body) == {"results", "pagination"}
    assert answer.body["pagination"] == {"hasMore": True}
    assert names_of(answer, "results")[0] == "b/c/pdf"
    assert [types_of(item) for item in answer.body["results"]] == [ITEM, ITEM]
    assert read("search", "q=pdf").body["pagination"] == {"hasMore": False}
    assert answer.headers["cache-control"] == "public, no-cache"


def test_a_search_without_results_is_an_empty_list_that_is_not_cached():
    answer = twice(lambda: read("search", "q=nothing&limit=7"))
    assert (answer.status, answer.body) == (200, {"results": [], "pagination": {"hasMore": False}})
    assert answer.headers["cache-control"] == "no-store"


NO_SEARCH = [
    ("", "missing_parameter"),
    ("q=", "invalid_q"),
    ("q=a&limit=101", "invalid_limit"),
    ("q=a&page=2", "unknown_parameter"),
]


def test_a_search_needs_something_to_look_for():
    for query, code in NO_SEARCH:
        assert (query, *error_of(read("search", query))) == (query, 400, code)


# --- one skill ------------------------------------------------------------------------------------------------------


def test_a_skill_is_found_by_its_full_and_its_short_name_with_its_text():
    text = publish("greeter")["text"]
    full, short = twice(lambda: read("uploads/anonymous/greeter")), twice(lambda: read("greeter"))
    assert full.status == short.status == 200
    assert full.body == short.body
    assert set(full.body) == {"skill"}
    skill = full.body["skill"]
    assert types_of(skill) == DETAIL | UPLOAD
    assert (skill["content"], skill["versions"], skill["currentVersion"]) == (text, 1, "1.0.0")
    assert (skill["author"], skill["skillSlug"]) == ("uploads", "greeter")
    assert (skill["description"], skill["category"], skill["isBlocked"]) == ("Greets people.", "other", False)
    assert (skill["certTier"], skill["certScore"], skill["trustTier"]) == ("SCANNED", 100, "T2")
    assert skill["security"] == {"overallVerdict": None, "reportUrl": None, "providers": []}
    assert skill["provenanceVerified"] is False
    datetime.fromisoformat(skill["updatedAt"])


def test_what_was_never_published_is_not_found():
    for name in ("none", "a/b/none", "a/b", "x" * 3000, "a/b/" + "\U0001f600" * 800, "..", "\ud800"):
        assert (name, *twice_error(lambda name=name: read(name))) == (name, 404, "skill_not_found")


@pytest.mark.requirement("S24")
def test_an_address_of_nothing_is_not_found():
    for path in ("a//b", "a/b/c/", "a/b/c/d", "/"):
        assert (path, *twice_error(lambda path=path: read(path))) == (path, 404, "not_found")


@pytest.mark.requirement("S24")
def test_a_wrong_method_is_refused_with_the_right_one():
    answer = read("a/b/c/installs")
    assert error_of(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


def test_a_short_name_of_several_skills_is_a_conflict_that_names_them():
    put(a_skill("a/b/pdf"), a_skill("c/d/pdf"))
    for path in ("pdf", "pdf/versions", "pdf/badge", "pdf/security", "pdf/repo-health"):
        answer = read(path)
        assert error_of(answer) == (409, "ambiguous_name")
        assert answer.body["error"]["details"] == {"candidates": ["a/b/pdf", "c/d/pdf"]}


def test_names_of_branches_are_names():
    """A slash in a branch is written `~`."""
    put(a_skill("acme/tools/pdf@feature~x", is_blocked=True), a_skill("acme/tools/pdf", is_blocked=True))
    assert read("acme/tools/pdf@feature~x").body["skill"]["skillSlug"] == "pdf@feature~x"
    assert read("acme/tools/pdf").body["skill"]["name"] == "acme/tools/pdf"


def test_the_content_of_a_blocked_skill_is_not_given_out():
    publish("greeter")
    run(lambda: block_skill("uploads/anonymous/greeter", "It phones home.", "admin:anna"))
    answer = twice(lambda: read("greeter"))
    skill = answer.body["skill"]
    assert answer.status == 200
    untold = dict.fromkeys(("content", "trustScore", "certScore"), type(None))
    assert types_of(skill) == DETAIL | UPLOAD | untold | {"blockReason": str}
    assert (skill["isBlocked"], skill["trustTier"], skill["blockReason"]) == (True, "T0", "It phones home.")
    assert "Say hello" not in str(answer.body)
    assert names_of(list_()) == []
    assert read("search", "q=greeter").body["results"] == []
    version = read("greeter/versions/1.0.0").body
    assert (version["content"], version["files"]) == (None, [])
    for words in ("diff", "compare"):
        refused = read(f"greeter/versions/{words}", "from=1.0.0&to=1.0.0")
        assert error_of(refused) == (403, "skill_blocked")
        assert "It phones home" in refused.body["message"]


def test_a_skill_is_tainted_while_another_one_of_its_author_is_blocked():
    put(a_skill("acme/tools/good"), a_skill("Acme/other/bad"), a_skill("beta/kit/good"))
    run(lambda: block_skill("Acme/other/bad", "It phones home.", "admin:anna"))
    run(lambda: block_skill("Acme/other/bad", "Still.", "admin:anna"))  # a second time counts nothing
    assert {skill["name"]: skill["isTainted"] for skill in list_().body["skills"]} == {
        "acme/tools/good": True,
        "beta/kit/good": False,
    }
    assert read("Acme/other/bad").body["skill"]["isTainted"] is False  # it is blocked itself; no other one is
    run(lambda: unblock_skill("Acme/other/bad", "It does not.", "admin:anna"))
    assert {skill["isTainted"] for skill in list_().body["skills"]} == {False}


def test_uploads_do_not_taint_each_other():
    publish("good")
    publish("bad", "Does bad things.")
    run(lambda: block_skill("uploads/anonymous/bad", "It phones home.", "admin:anna"))
    assert [skill["isTainted"] for skill in list_().body["skills"]] == [False]


def test_a_skill_of_yanked_versions_can_be_seen_and_is_in_no_list():
    publish("greeter")
    run(lambda: yank_version("uploads/anonymous/greeter", "1.0.0", "It was a draft."))
    skill = twice(lambda: read("greeter")).body["skill"]
    assert types_of(skill) == DETAIL | UPLOAD | {"isYanked": bool}
    assert skill["isYanked"]
    assert names_of(list_()) == []


def test_a_deleted_skill_is_gone_and_says_so():
    put(a_skill("acme/tools/pdf"))
    run(lambda: delete_skill("acme/tools/pdf", "Its author asked for it.", "admin:anna"))
    for path in ("acme/tools/pdf", "pdf", "pdf/versions", "pdf/badge", "pdf/security", "pdf/repo-health"):
        assert twice_error(lambda path=path: read(path)) == (404, "skill_deleted")


def test_lost_content_is_a_fault_of_ours_and_not_a_wrong_question(function_env, moto_url):
    publish("greeter")
    bucket = client("s3", moto_url)
    for stored in bucket.list_objects_v2(Bucket=function_env.bucket_name)["Contents"]:
        bucket.delete_object(Bucket=function_env.bucket_name, Key=stored["Key"])
    for path in ("greeter", "greeter/versions/1.0.0"):
        answer = read(path)
        assert error_of(answer) == (503, "unavailable")
        assert answer.headers["cache-control"] == "no-store"
    assert read("greeter/versions").status == raw("greeter/badge")["statusCode"] == 200


def test_content_that_was_not_scanned_is_never_served(function_env, moto_url):
    publish("greeter")
    bucket = client("s3", moto_url)
    (stored,) = bucket.list_objects_v2(Bucket=function_env.bucket_name, Prefix="content/")["Contents"]
    for body in (b"garbage", gzip.compress(b"garbage"), b"", pack({"SKILL.md": b"Another skill."})):
        bucket.put_object(Bucket=function_env.bucket_name, Key=stored["Key"], Body=body)
        assert error_of(read("greeter")) == (503, "unavailable")


def test_a_bearer_token_and_a_content_type_on_a_public_route_are_no_error():
    put(a_skill("acme/tools/pdf"))
    headers = {"authorization": "Bearer x", "content-type": "application/json"}
    assert list_(headers=headers).status == 200
    for path in ("search", "acme/tools/pdf/versions", "acme/tools/pdf/badge", "acme/tools/pdf/security"):
        query = "q=pdf" if path == "search" else ""
        assert raw(path, query, headers)["statusCode"] == 200


def twice_error(ask):
    first, second = error_of(ask()), error_of(ask())
    assert first == second
    return second


def _pages(limit, query=""):
    names, cursor = [], None
    while True:
        more = f"&cursor={cursor}" if cursor else ""
        page = list_(f"limit={limit}&{query}{more}".replace("&&", "&").rstrip("&")).body
        names += [skill["name"] for skill in page["skills"]]
        cursor = page["cursor"]
        if cursor is None:
            return names
