"""What those who use skills send: installations, questions about updates, reports. Every route twice, warm."""

import json

import pytest

from functions.admin_api import handler as admin_api
from shared import runtime
from shared.marketplace.community import list_reports
from shared.marketplace.skill_admin import block_skill
from tests.support.gateway_events import call, error_of
from tests.support.memory import ADMIN_TOKEN
from tests.support.published_skills import list_, post, put, read, run
from tests.support.stored_skills import a_skill

CLIENT = {"source": "cli", "platform": "linux", "cliVersion": "1.0.21"}

pytestmark = pytest.mark.usefixtures("function_env")


@pytest.fixture
def limits(monkeypatch):
    def set_(text):
        monkeypatch.setenv("RATE_LIMITS", text)
        runtime.close()

    return set_


def installs_of(*names):
    """As the list has them: it is ordered by what is counted."""
    counted = {skill["name"]: skill["vskillInstalls"] for skill in list_("sort=installs").body["skills"]}
    return [counted[name] for name in names]


# --- installs -------------------------------------------------------------------------------------------------------


def test_every_installation_answered_with_yes_is_counted_once():
    put(a_skill("acme/tools/pdf"))
    body = {"repoUrl": "https://github.com/acme/tools", "version": "1.0.0", **CLIENT}
    answers = [post("acme/tools/pdf/installs", body), post("pdf/installs", body), post("pdf/installs", {})]
    assert [(answer.status, answer.body) for answer in answers] == [(200, {"ok": True})] * 3
    refused = [post("acme/tools/none/installs", body), post("pdf/installs", {"count": 5}), post("pdf/installs")]
    assert [error_of(answer) for answer in refused] == [
        (404, "skill_not_found"),
        (400, "invalid_body"),
        (415, "unsupported_media_type"),
    ]
    assert installs_of("acme/tools/pdf") == [3]
    assert read("search", "q=pdf").body["results"][0]["vskillInstalls"] == 3


def test_several_installations_are_counted_in_one_request():
    put(a_skill("acme/tools/pdf"), a_skill("acme/tools/csv"), a_skill("beta/kit/sql"))
    skills = [
        {"skillName": "acme/tools/pdf", "repoUrl": "acme/tools", "version": "1.0.0"},
        {"skillName": "csv", "repoUrl": "https://github.com/acme/tools"},
    ]
    for _ in range(2):
        answer = post("installs", {"skills": skills, **CLIENT})
        assert (answer.status, answer.body) == (200, {"ok": True})
    assert installs_of("acme/tools/pdf", "acme/tools/csv", "beta/kit/sql") == [2, 2, 0]


def test_a_request_counts_a_skill_once_however_often_it_names_it():
    put(a_skill("acme/tools/pdf"))
    skills = [{"skillName": "pdf"}, {"skillName": "acme/tools/pdf"}, {"skillName": "ACME/tools/PDF"}]
    assert post("installs", {"skills": skills}).body == {"ok": True}
    assert installs_of("acme/tools/pdf") == [1]


def test_unknown_names_are_skipped_and_reported():
    put(a_skill("acme/tools/pdf"), a_skill("a/b/same"), a_skill("c/d/same"), a_skill("acme/tools/bad"))
    run(lambda: block_skill("acme/tools/bad", "It phones home.", "admin:anna"))
    names = ["acme/tools/pdf", "none", "same", "acme/tools/bad", "a/b", "\U0001f600" * 400]
    answer = post("installs", {"skills": [{"skillName": name} for name in names]})
    assert answer.body == {"ok": True, "skipped": names[1:]}
    assert installs_of("acme/tools/pdf") == [1]
    assert post("installs", {"skills": [{"skillName": "none"}]}).body == {"ok": True, "skipped": ["none"]}


def test_the_repository_distinguishes_skills_of_one_name():
    put(a_skill("a/b/same"), a_skill("c/d/same"))
    hints = ["a/b", "https://github.com/A/b", "https://github.com/a/b.git", "github.com/a/b"]
    for repo_url in hints:
        assert (repo_url, post("same/installs", {"repoUrl": repo_url}).body) == (repo_url, {"ok": True})
    assert installs_of("a/b/same", "c/d/same") == [len(hints), 0]
    for repo_url in (None, "", "\n"):
        refused = error_of(post("same/installs", {"repoUrl": repo_url}))
        assert (repo_url, *refused) == (repo_url, 409, "ambiguous_name")


def test_an_install_from_another_source_is_not_counted_for_the_skill_of_that_name_here():
    put(a_skill("acme/tools/pdf"), a_skill("beta/kit/pdf"), a_skill("uploads/anonymous/csv", repo_url=None))
    for name in ("pdf", "acme/tools/pdf", "csv"):
        for repo_url in ("x", "x/y", "https://github.com/acme/other", "https://elsewhere.example/acme/tools"):
            refused = error_of(post(f"{name}/installs", {"repoUrl": repo_url}))
            assert (name, repo_url, *refused) == (name, repo_url, 404, "skill_not_found")
            answer = post("installs", {"skills": [{"skillName": name, "repoUrl": repo_url}]})
            assert answer.body == {"ok": True, "skipped": [name]}
    both = [{"skillName": "pdf", "repoUrl": repo} for repo in ("acme/tools", "beta/kit", "x/y")]
    from_upload = {"skillName": "csv", "repoUrl": "uploads/anonymous"}
    answer = post("installs", {"skills": [*both, from_upload]})
    assert answer.body == {"ok": True, "skipped": ["pdf"]}
    assert installs_of("acme/tools/pdf", "beta/kit/pdf", "uploads/anonymous/csv") == [1, 1, 1]


def test_a_blocked_skill_is_not_counted():
    put(a_skill("acme/tools/bad"))
    run(lambda: block_skill("acme/tools/bad", "It phones home.", "admin:anna"))
    assert error_of(post("acme/tools/bad/installs", {})) == (403, "skill_blocked")


OTHER_BODIES = [
    {"skills": []},
    {"skills": [{"skillName": "x"}] * 101},
    {"skills": [{"skillName": ""}]},
    {"skills": [{"name": "x"}]},
    {"skills": "x"},
    {},
    [],
    {"skills": [{"skillName": "x"}], "fence": 1},
]


@pytest.mark.requirement("S18")
def test_other_bodies_are_refused():
    for body in OTHER_BODIES:
        assert (body, *error_of(post("installs", body))) == (body, 400, "invalid_body")


# --- check-updates --------------------------------------------------------------------------------------------------


def check(*skills, **more):
    return post("check-updates", {"skills": list(skills), **more})


def test_updates_are_reported_under_the_names_as_they_were_sent():
    put(a_skill("acme/tools/pdf", current_version="1.2.0", cert_tier="VERIFIED"))
    for _ in range(2):
        answer = check(
            {"name": "acme/tools/pdf", "currentVersion": "1.0.0", "sha": "abc"},
            {"name": "pdf", "currentVersion": "1.2.0"},
            {"name": "ACME/Tools/pdf", "currentVersion": "0.9.0"},
            {"name": "nobody", "currentVersion": "1.0.0"},
            platform="linux",
            cliVersion="1.0.21",
        )
    assert answer.status == 200
    assert answer.body == {
        "results": [
            {
                "name": "acme/tools/pdf",
                "installed": "1.0.0",
                "latest": "1.2.0",
                "updateAvailable": True,
                "versionBump": "minor",
                "certTier": "VERIFIED",
            },
            {
                "name": "pdf",
                "installed": "1.2.0",
                "latest": "1.2.0",
                "updateAvailable": False,
                "versionBump": None,
                "certTier": "VERIFIED",
            },
            {
                "name": "ACME/Tools/pdf",
                "installed": "0.9.0",
                "latest": "1.2.0",
                "updateAvailable": True,
                "versionBump": "major",
                "certTier": "VERIFIED",
            },
            {
                "name": "nobody",
                "installed": "1.0.0",
                "latest": None,
                "updateAvailable": False,
                "versionBump": None,
                "certTier": None,
            },
        ]
    }


def test_what_is_not_to_be_installed_is_no_update():
    put(a_skill("a/b/bad"), a_skill("a/b/same"), a_skill("c/d/same"), a_skill("a/b/old", is_yanked=True))
    run(lambda: block_skill("a/b/bad", "It phones home.", "admin:anna"))
    names = ["a/b/bad", "same", "a/b/old", "a/b", "\U0001f600" * 400]
    answer = check(*({"name": name, "currentVersion": "0.1.0"} for name in names))
    assert [(r["name"], r["latest"], r["updateAvailable"]) for r in answer.body["results"]] == [
        (name, None, False) for name in names
    ]


def test_the_same_commit_is_up_to_date_whatever_its_version_is_called():
    put(a_skill("a/b/pdf", current_version="2.0.0", commit="c0ffee"))
    (result,) = check({"name": "a/b/pdf", "currentVersion": "0.0.0", "sha": "c0ffee"}).body["results"]
    assert (result["latest"], result["updateAvailable"], result["versionBump"]) == ("2.0.0", False, None)


def test_a_hundred_names_and_none_are_answered_and_more_refused():
    assert check().body == {"results": []}
    hundred = [{"name": f"s{n}", "currentVersion": "1.0.0"} for n in range(100)]
    assert [result["name"] for result in check(*hundred).body["results"]] == [one["name"] for one in hundred]
    assert error_of(check(*hundred, hundred[0])) == (400, "invalid_body")


# --- reports --------------------------------------------------------------------------------------------------------


def test_a_report_reaches_reviewers_and_costs_trust_once_one_of_them_confirms_it():
    put(a_skill("acme/tools/pdf"))
    before = list_().body["skills"][0]["trustScore"]
    answers = [
        post("pdf/reports", {"type": "malicious", "description": "It phones home."}),
        post("acme/tools/pdf/reports", {"type": "other", "description": "x" * 2000}),
    ]
    assert [answer.status for answer in answers] == [201, 201]
    assert [set(answer.body) for answer in answers] == [{"ok", "id"}] * 2
    stored = run(list_reports).reports
    assert {report.id: report.skill_name for report in stored} == {
        answer.body["id"]: "acme/tools/pdf" for answer in answers
    }
    assert list_().body["skills"][0]["trustScore"] == before
    confirmed = call(
        admin_api,
        "POST /api/v1/admin/reports/{id}/confirm",
        path={"id": answers[0].body["id"]},
        body={"reason": "It does."},
        headers={"authorization": f"Bearer {ADMIN_TOKEN}-reviewer"},
    )
    assert confirmed.status == 200
    assert list_().body["skills"][0]["trustScore"] == before - 5


NO_REPORTS = [
    {},
    {"type": "malicious"},
    {"type": "malicious", "description": ""},
    {"type": "malicious", "description": "x" * 2001},
    {"type": "rude", "description": "x"},
    {"type": "other", "description": "x", "state": "BLOCKED"},
]


@pytest.mark.requirement("S18")
def test_a_report_says_what_is_wrong_and_nothing_else():
    put(a_skill("acme/tools/pdf"))
    for body in NO_REPORTS:
        assert (body, *error_of(post("pdf/reports", body))) == (body, 400, "invalid_body")


def test_a_report_of_white_space_is_refused():
    put(a_skill("acme/tools/pdf"))
    assert error_of(post("pdf/reports", {"type": "other", "description": " \n "})) == (400, "invalid_description")


def test_a_skill_that_does_not_exist_cannot_be_reported():
    assert error_of(post("none/reports", {"type": "other", "description": "x"})) == (404, "skill_not_found")


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S21")
@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("pdf/installs", {}, "installs"),
        ("installs", {"skills": [{"skillName": "pdf"}]}, "installs"),
        ("check-updates", {"skills": []}, "check-updates"),
        ("pdf/reports", {"type": "other", "description": "x"}, "reports"),
    ],
)
def test_one_address_may_ask_so_often(limits, path, body, kind):
    put(a_skill("acme/tools/pdf"))
    limits(f"{kind}=2/3600")
    first, _, third = (post(path, body) for _ in range(3))
    assert first.status in (200, 201)
    assert int(first.headers["ratelimit-remaining"]) < int(first.headers["ratelimit-limit"]) == 2
    assert (third.status, third.body["error"]["code"]) == (429, "rate_limited")
    assert int(third.headers["retry-after"]) > 0
    assert post(path, raw=json.dumps(body) + "}").status == 429  # before anything else is looked at
    assert list_().status == 200
