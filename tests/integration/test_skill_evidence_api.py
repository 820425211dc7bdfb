"""What a skill's answers rest on and how long they may be kept: badge, external scanners, repository, ETags."""

from xml.etree import ElementTree

import pytest

from shared import runtime
from shared.marketplace.external_scan_store import a_request, scan_put
from shared.marketplace.skill_admin import block_skill
from shared.records.external_scans import ExternalOutcome, claimed, finished
from tests.support.builders import WHEN
from tests.support.published_skills import list_, publish, put, raw, read, run, twice
from tests.support.stored_skills import a_skill
from tests.support.stub_github import StubGitHub

pytestmark = pytest.mark.usefixtures("function_env")

NOT_REPORTED = ("verdict", "score", "criticalCount", "reportUrl")
HEALTH = {
    *("status", "checkedAt", "lastCommitAt", "githubStars", "repoUrl"),
    *("isArchived", "head", "changedHands"),
}
BADGES = [
    ({}, "scanned 1.0.0"),
    ({"cert_tier": "CERTIFIED", "current_version": "2.10.3"}, "certified 2.10.3"),
    ({"is_blocked": True}, "blocked"),
    ({"is_yanked": True}, "yanked"),
]


def test_a_badge_says_what_a_skill_is_certified_as():
    for n, (fields, says) in enumerate(BADGES):
        name = f"acme/tools/pdf-{n}"
        put(a_skill(name, **fields))
        for _ in range(2):
            answer = raw(f"{name}/badge")
            assert (answer["statusCode"], answer["headers"]["content-type"]) == (200, "image/svg+xml; charset=utf-8")
        svg = ElementTree.fromstring(answer["body"])
        assert svg.attrib["role"] == "img"
        assert svg.attrib["aria-label"] == svg.find("{*}title").text == f"{name}: {says}"
        assert [text.text for text in svg.findall(".//{*}text")] == ["skill", says]
        assert answer["headers"]["cache-control"] == "public, max-age=60"


@pytest.mark.requirement("S06")
def test_a_badge_shows_names_as_text():
    name = "acme/tools/x@<script>alert(1)<~script>&\"'"
    put(a_skill(name))
    body = raw(f"{name}/badge")["body"]
    assert "<script" not in body
    assert ElementTree.fromstring(body).find("{*}title").text.startswith(name)


def test_security_reports_findings_of_external_scanners_in_words_that_clients_know():
    put(a_skill("acme/tools/pdf"))
    assert read("acme/tools/pdf/security").body == {"overallVerdict": None, "reportUrl": None, "providers": []}
    _scan(
        "bandit",
        ExternalOutcome(
            status="COMPLETED", verdict="FAIL", score=10, critical_count=2, report_url="https://r.example/1"
        ),
    )
    _scan("lint", ExternalOutcome(status="COMPLETED", verdict="CONCERNS", score=60))
    _scan("odd", ExternalOutcome(status="FAILED", summary="It broke."))
    _scan("slow", None)
    answer = twice(lambda: read("acme/tools/pdf/security"))
    assert answer.body == {
        "overallVerdict": "FAIL",
        "reportUrl": "/skills/acme/tools/pdf",
        "providers": [
            _reported("bandit", "FAIL", verdict="FAIL", score=10, criticalCount=2, reportUrl="https://r.example/1"),
            _reported("lint", "PASS", verdict="CONCERNS", score=60, criticalCount=0),
            _reported("odd", "TIMED_OUT"),
            _reported("slow", "TIMED_OUT"),
        ],
    }
    run(lambda: block_skill("acme/tools/pdf", "It phones home.", "admin:anna"))
    without_scores = [{**provider, "score": None} for provider in answer.body["providers"]]
    assert read("acme/tools/pdf").body["skill"]["security"] == answer.body | {"providers": without_scores}


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (ExternalOutcome(status="COMPLETED", verdict="PASS", score=95), "PASS"),
        (ExternalOutcome(status="COMPLETED", verdict="CONCERNS", score=60), "PASS"),
        (ExternalOutcome(status="FAILED", summary="It broke."), "TIMED_OUT"),
    ],
)
def test_the_overall_verdict_is_the_worst_status_so_clients_know_it_too(outcome, word):
    put(a_skill("acme/tools/pdf"))
    _scan("bandit", outcome)
    assert read("acme/tools/pdf/security").body["overallVerdict"] == word


def _reported(provider, status, **more):
    return {"provider": provider, "status": status, **dict.fromkeys(NOT_REPORTED), **more}


def _scan(provider, outcome):
    scan = claimed(a_request("acme/tools/pdf", provider, "0" * 64, WHEN), "c1", WHEN)
    done = finished(scan, outcome, WHEN) if outcome else scan
    run(lambda: runtime.request_env().kv.put(scan_put(done)))


def test_the_health_of_a_repository_is_never_an_error_to_its_reader(monkeypatch, closed_port):
    monkeypatch.setenv("GITHUB_API_URL", closed_port)
    runtime.close()
    put(a_skill("acme/tools/pdf"))
    publish("greeter")
    unknown = dict.fromkeys(("status", "checkedAt", "lastCommitAt", "githubStars", "isArchived", "head"))
    unknown |= {"changedHands": False}
    github = twice(lambda: read("acme/tools/pdf/repo-health"))
    assert (github.status, github.body) == (200, unknown | {"repoUrl": "https://github.com/acme/tools"})
    upload = twice(lambda: read("greeter/repo-health"))
    assert (upload.status, upload.body) == (200, unknown | {"repoUrl": None})


def test_the_health_of_a_repository_is_asked_once_and_its_stars_are_in_every_list(monkeypatch):
    with StubGitHub() as github:
        github.repo("acme/tools", {"SKILL.md": "x"}, stars=42)
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        runtime.close()
        put(a_skill("acme/tools/pdf"), a_skill("acme/gone/csv"))
        health = twice(lambda: read("acme/tools/pdf/repo-health")).body
        assert set(health) == HEALTH
        assert (health["status"], health["githubStars"]) == ("ONLINE", 42)
        assert (health["isArchived"], health["head"], health["changedHands"]) == (
            False,
            None,
            False,
        )  # only the sweep asks for the head
        gone = twice(lambda: read("acme/gone/csv/repo-health")).body
        assert (gone["status"], gone["isArchived"], gone["head"]) == ("OFFLINE", None, None)
        assert {skill["name"]: skill["githubStars"] for skill in list_().body["skills"]} == {
            "acme/tools/pdf": 42,
            "acme/gone/csv": None,
        }


# --- conditional requests -------------------------------------------------------------------------------------------


def test_a_client_that_has_the_current_answer_gets_304_until_it_changes():
    publish("greeter")
    paths = ["greeter", "greeter/versions", "greeter/versions/1.0.0", "greeter/badge", "greeter/security"]
    for path in paths:
        first = raw(path)
        again = raw(path, headers={"if-none-match": first["headers"]["etag"]})
        assert (again["statusCode"], again["body"]) == (304, ""), path
    etag = raw("greeter")["headers"]["etag"]
    run(lambda: block_skill("uploads/anonymous/greeter", "It phones home.", "admin:anna"))
    assert raw("greeter", headers={"if-none-match": etag})["statusCode"] == 200
