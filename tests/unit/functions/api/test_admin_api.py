"""The verbs of the admin API over memory: which decision is open to whom and to what, and what each answers."""

import pytest

from functions.admin_api import handler
from shared.access.audit import get_audit
from shared.records.submissions import State
from shared.submissions.dead_letter_store import store_dead_letter
from shared.submissions.submission_store import get_history
from tests.support import admin_subjects as subjects
from tests.support.admin_subjects import SCENES, WHY, on_loop
from tests.support.gateway_events import call, error_of
from tests.support.memory import ADMIN_TOKEN

ADMIN = "/api/v1/admin"
NOBODY = {"id": "nobody", "owner": "no", "repo": "such", "skill": "skill"}


@pytest.fixture(autouse=True)
def request_env(env, monkeypatch):
    """What a process would have built from its settings, in memory."""
    monkeypatch.setattr("shared.db.request_env", lambda: env)
    return env


def ask(route, who="admin", **event):
    return call(handler, route, headers={"authorization": f"Bearer {ADMIN_TOKEN}-{who}"}, **event)


def decide(verb, submission, who="admin", **body):
    path = {"id": submission.id}
    return ask(f"POST {ADMIN}/submissions/{{id}}/{verb}", who, path=path, body={"reason": WHY} | body)


def audit():
    return on_loop(get_audit)


@pytest.mark.parametrize("route", sorted(SCENES))
def test_every_action_twice_each_time_with_one_audit_entry_that_says_who_and_why(route):
    rounds = 1 if route.endswith("/revoke") else 2  # there is one token to revoke
    for n in range(rounds):
        scene = SCENES[route]()
        before = len(audit())
        why = f"{WHY}, time {n}"
        answer = ask(route, path=scene.path, body={scene.why_field: f"  {why}\n"} | scene.body)
        assert answer.status == 200, answer.body
        [entry] = audit()[: len(audit()) - before]
        assert (entry.by, entry.role, entry.why) == ("admin", "admin", why)
        assert entry.action
        assert entry.subject


@pytest.mark.parametrize("route", sorted(SCENES))
@pytest.mark.parametrize("reason", [None, "", " \n", "x" * 501, 7])
def test_without_a_usable_reason_nothing_happens(route, reason):
    sent = {} if reason is None else {"reason": reason}
    extra = {"repair": True} if route.endswith("/recount") else {}
    status, code = error_of(ask(route, path=NOBODY, body=sent | extra))
    assert (status, code) in ((400, "invalid_body"), (400, "reason_required"))
    assert audit() == []


@pytest.mark.requirement("S18")
@pytest.mark.parametrize("route", sorted(SCENES))
def test_an_unknown_field_is_refused(route):
    for field in ("state", "fence", "certTier"):
        if field == "state" and route.endswith("submissions/retry-all"):
            continue
        body = SCENES[route]().body | {"reason": WHY, field: "PUBLISHED"}
        assert error_of(ask(route, path=NOBODY, body=body)) == (400, "invalid_body")


# --- submissions ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S16")
@pytest.mark.parametrize(
    ("make", "verbs"),
    [
        (subjects.held, {"approve", "reject", "retry"}),
        (lambda: subjects.parked(State.BLOCKED, "rule"), {"approve", "reject", "retry"}),
        (lambda: subjects.parked(State.BLOCKED, "blocklist"), set()),
        (lambda: subjects.parked(State.BLOCKED, "person"), set()),
        (subjects.rejected, set()),
        (subjects.waiting, set()),
        (subjects.published, set()),
    ],
)
def test_a_reviewer_decides_what_waits_for_a_decision_and_nothing_else(make, verbs):
    for verb in ("approve", "reject", "retry", "block", "unblock", "dequeue"):
        answer = decide(verb, make(), "reviewer")
        if verb in verbs:
            assert answer.status == 200, (verb, answer.body)
        else:
            assert error_of(answer) == (403, "forbidden"), verb


@pytest.mark.parametrize(
    ("verb", "make", "state"),
    [
        ("approve", subjects.held, "PUBLISHED"),
        ("reject", subjects.held, "REJECTED"),
        ("retry", subjects.held, "RECEIVED"),
        ("retry", subjects.rejected, "RECEIVED"),
        ("block", subjects.held, "BLOCKED"),
        ("block", subjects.published, "BLOCKED"),
        ("block", subjects.waiting, "BLOCKED"),
        ("dequeue", subjects.held, "DEQUEUED"),
        ("dequeue", subjects.waiting, "DEQUEUED"),
        ("reject", subjects.waiting, "REJECTED"),
    ],
)
def test_a_decision_moves_the_submission_and_answers_with_its_row(verb, make, state):
    submission = make()
    row = decide(verb, submission, seen=submission.version).body
    assert row["id"] == submission.id
    assert row["state"] == state
    assert set(row) == {
        "id", "skillName", "repoUrl", "state", "reason", "score", "createdAt", "updatedAt", "version",
    }  # fmt: skip
    assert subjects.reread(submission).state == state
    actors = [entry.actor for entry in on_loop(lambda: get_history(submission.id))]
    assert "admin:admin" in actors


@pytest.mark.parametrize(
    ("verb", "make", "code"),
    [
        ("approve", subjects.published, "illegal_move"),
        ("reject", subjects.published, "illegal_move"),
        ("reject", subjects.rejected, "illegal_move"),
        ("dequeue", subjects.published, "illegal_move"),
        ("block", subjects.rejected, "illegal_move"),
        ("retry", subjects.waiting, "illegal_move"),
        ("unblock", subjects.held, "not_blocked"),
        ("approve", subjects.waiting, "conflict"),
    ],
)
def test_what_is_not_open_to_a_submission_is_a_conflict_and_changes_nothing(verb, make, code):
    submission = make()
    for _ in range(2):
        assert error_of(decide(verb, submission)) == (409, code)
    assert subjects.reread(submission) == submission
    assert audit() == []


def test_a_repeated_decision_is_refused_or_changes_nothing_more():
    submission = subjects.held()
    assert decide("reject", submission).status == 200
    assert error_of(decide("reject", submission)) == (409, "illegal_move")
    assert [entry.action for entry in audit()] == ["reject"]


def test_a_decision_about_what_changed_since_it_was_viewed_is_refused():
    submission = subjects.held()
    for verb in ("approve", "reject", "retry", "block", "dequeue"):
        assert error_of(decide(verb, submission, seen=submission.version + 1)) == (409, "changed_meanwhile")
    blocked = subjects.parked(State.BLOCKED, "person")
    assert error_of(decide("unblock", blocked, seen=1)) == (409, "changed_meanwhile")
    assert audit() == []


def test_a_decision_about_what_does_not_exist_is_refused():
    for verb in ("approve", "reject", "retry", "block", "unblock", "dequeue"):
        path = {"id": "sub_00000000000000000000000000"}
        answer = ask(f"POST {ADMIN}/submissions/{{id}}/{verb}", path=path, body={"reason": WHY})
        assert error_of(answer) == (404, "not_found")
    for verb in ("block", "unblock", "rescan", "delete"):
        assert error_of(ask(f"POST {SKILL}/{verb}", path=NOBODY, body={"reason": WHY})) == (404, "skill_not_found")


def test_what_the_blocklist_names_is_approved_when_its_entry_is_gone():
    submission = subjects.held()
    scope = {"skillName": submission.skill_name, "reason": WHY}
    assert ask(f"POST {ADMIN}/blocklist", body=scope).status == 200
    assert error_of(decide("approve", submission, "reviewer")) == (409, "blocklisted")
    assert ask(f"POST {ADMIN}/blocklist/remove", body=scope).status == 200
    assert decide("approve", submission, "reviewer").body["state"] == "PUBLISHED"


def test_everything_that_an_outage_parked_is_retried_in_portions_that_report_what_is_left(monkeypatch):
    monkeypatch.setattr("shared.moderation.submission_decisions.requeue_all.__defaults__", (None, 2))
    mine = [subjects.held() for _ in range(3)]
    other = subjects.parked(State.BLOCKED, "rule")
    body = {"state": "ON_HOLD", "reasonPrefix": mine[0].reason[:30], "reason": WHY}
    first = ask(f"POST {ADMIN}/submissions/retry-all", body=body).body
    cursor = first.pop("cursor")
    assert first == {"retried": [mine[0].id, mine[1].id], "failed": [], "left": 1, "more": False}
    other_prefix = {**body, "reasonPrefix": "another", "cursor": cursor}
    assert error_of(ask(f"POST {ADMIN}/submissions/retry-all", body=other_prefix)) == (400, "invalid_cursor")
    second = ask(f"POST {ADMIN}/submissions/retry-all", body={**body, "cursor": cursor}).body
    assert second == {"retried": [mine[2].id], "failed": [], "left": 0, "more": False, "cursor": None}
    assert {subjects.reread(submission).state for submission in mine} == {State.RECEIVED}
    assert subjects.reread(other) == other
    active = {"state": "RECEIVED", "reasonPrefix": "x", "reason": WHY}
    assert error_of(ask(f"POST {ADMIN}/submissions/retry-all", body=active)) == (400, "invalid_state")


# --- dead letters and the queue -------------------------------------------------------------------------------------


def test_dead_letters_are_listed_page_by_page_newest_first_and_settled_once():
    ids = [subjects.dead_letter() for _ in range(3)]
    on_loop(lambda: store_dead_letter("poison", "x" * 5000, "The message names no submission."))
    seen, cursor = [], ""
    for _ in range(4):
        page = ask(f"GET {ADMIN}/dead-letters", "reviewer", query=f"limit=1{cursor}").body
        assert page["unreadable"] == []
        [letter] = page["deadLetters"]
        assert set(letter) == {"id", "reason", "submissionId", "body", "receivedAt"}
        seen.append(letter)
        cursor = f"&cursor={page['cursor']}"
    assert page["cursor"] is None
    assert [letter["id"] for letter in seen] == ["poison", *reversed(ids)]
    assert len(seen[0]["body"]) == 1000
    retry, discard = (f"POST {ADMIN}/dead-letters/{{id}}/{verb}" for verb in ("retry", "discard"))
    assert error_of(ask(retry, path={"id": "poison"}, body={"reason": WHY})) == (409, "conflict")
    assert ask(discard, path={"id": "poison"}, body={"reason": WHY}).body == {"id": "poison", "discarded": True}
    assert error_of(ask(discard, path={"id": "poison"}, body={"reason": WHY})) == (404, "not_found")
    assert ask(retry, "reviewer", path={"id": ids[0]}, body={"reason": WHY}).body["state"] == "RECEIVED"
    assert error_of(ask(retry, path={"id": ids[0]}, body={"reason": WHY})) == (404, "not_found")


@pytest.mark.requirement("S09")
def test_a_cursor_of_another_list_is_refused():
    subjects.dead_letter()
    subjects.dead_letter()
    cursor = ask(f"GET {ADMIN}/dead-letters", query="limit=1").body["cursor"]
    assert error_of(ask(f"GET {ADMIN}/audit", query=f"cursor={cursor}")) == (400, "invalid_cursor")


def test_a_reviewer_cannot_retry_the_dead_letter_of_what_is_decided():
    submission = subjects.rejected()
    on_loop(lambda: store_dead_letter("late", "{}", "failed", submission.id))
    path = {"id": "late"}
    route = f"POST {ADMIN}/dead-letters/{{id}}/retry"
    assert error_of(ask(route, "reviewer", path=path, body={"reason": WHY})) == (403, "forbidden")
    assert ask(route, "admin", path=path, body={"reason": WHY}).body["state"] == "RECEIVED"


def test_the_queue_reports_its_health_and_a_pause_shows_and_ends():
    subjects.waiting()
    subjects.dead_letter()
    for _ in range(2):
        status = ask(f"GET {ADMIN}/queue", "reviewer").body
        assert (status["paused"], status["active"], status["maxActive"]) == (None, 1, 10000)
        assert (status["deadLetters"], status["degraded"]) == (1, False)
        assert set(status["depth"]) == {"waiting", "inFlight", "delayed"}
        assert status["depth"]["waiting"] == 2
        assert [oldest["state"] for oldest in status["oldest"]] == ["RECEIVED"]
        assert status["oldest"][0]["ageMs"] >= 0
    paused = ask(f"POST {ADMIN}/queue/pause", body={"reason": WHY, "minutes": 90}).body["paused"]
    assert (paused["by"], paused["reason"]) == ("admin", WHY)
    assert ask(f"GET {ADMIN}/queue").body["paused"] == paused
    assert ask(f"POST {ADMIN}/queue/resume", body={"reason": WHY}).body == {"paused": None}
    assert ask(f"GET {ADMIN}/queue").body["paused"] is None
    for minutes in (0, 24 * 60 + 1, 1.5, "60"):
        answer = ask(f"POST {ADMIN}/queue/pause", body={"reason": WHY, "minutes": minutes})
        assert error_of(answer) == (400, "invalid_body")


# --- audit ----


def test_the_audit_list_is_read_by_month_page_by_page():
    for n in range(3):
        ask(f"POST {ADMIN}/queue/pause", body={"reason": f"reason {n}"})
    month = audit()[0].at.strftime("%Y-%m")
    first = ask(f"GET {ADMIN}/audit", "reviewer", query={"month": month, "limit": 2}).body
    assert [entry["why"] for entry in first["entries"]] == ["reason 2", "reason 1"]
    assert set(first["entries"][0]) == {"at", "by", "role", "action", "subject", "why"}
    rest = ask(f"GET {ADMIN}/audit", query={"month": month, "limit": 2, "cursor": first["cursor"]}).body
    assert ([entry["why"] for entry in rest["entries"]], rest["cursor"]) == (["reason 0"], None)
    assert ask(f"GET {ADMIN}/audit").body["month"] == month
    assert ask(f"GET {ADMIN}/audit", query="month=2001-01").body == {"month": "2001-01", "entries": [], "cursor": None}
    other = ask(f"GET {ADMIN}/audit", query={"month": "2001-01", "cursor": first["cursor"]})
    assert error_of(other) == (400, "invalid_cursor")
    for wrong in ("2026-13", "2026-00", "26-0001", "2026-1", "2026/01"):
        assert error_of(ask(f"GET {ADMIN}/audit", query={"month": wrong})) == (400, "invalid_month")


# --- the blocklist and the marketplace ------------------------------------------------------------------------------

SKILL = f"{ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}"


def about(verb, submission, **body):
    path = subjects.path_of(submission.skill_name)
    return ask(f"POST {SKILL}/{verb}", path=path, body={"reason": WHY} | body)


def test_an_entry_is_added_with_its_evidence_and_removed_as_it_was_named():
    submission = subjects.published()
    entry = {
        "skillName": submission.skill_name,
        "severity": "critical",
        "threatType": "credential-stealer",
        "evidenceUrls": ["https://example.net/report"],
        "reason": WHY,
    }
    added = ask(f"POST {ADMIN}/blocklist", body=entry).body
    assert (added["takenOut"], added["failed"]) == ([submission.skill_name], [])
    assert added["entry"] == {
        "skillName": submission.skill_name,
        "sourceUrl": "uploads/anonymous",
        "threatType": "credential-stealer",
        "severity": "critical",
        "reason": WHY,
        "evidenceUrls": ["https://example.net/report"],
        "discoveredAt": added["entry"]["discoveredAt"],
    }
    scope = {"skillName": submission.skill_name, "reason": WHY}
    removed = ask(f"POST {ADMIN}/blocklist/remove", body=scope).body
    assert (removed["entry"], removed["stillBlocked"]) == (added["entry"], [submission.skill_name])
    assert error_of(ask(f"POST {ADMIN}/blocklist/remove", body=scope)) == (404, "entry_not_found")
    assert about("unblock", submission).body["isBlocked"] is False


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"skillName": "google"}, "scope_required"),
        ({"skillName": "google", "global": True, "sourceUrl": "https://github.com/a/b"}, "invalid_scope"),
        ({"skillName": "google", "sourceUrl": "ftp://a"}, "invalid_repo_url"),
        ({"skillName": "google", "contentHash": "abc"}, "invalid_body"),
        ({"skillName": "a b", "global": True}, "invalid_body"),
        ({"skillName": "x", "global": True, "severity": "bad"}, "invalid_body"),
        ({"skillName": "x", "global": True, "evidenceUrls": ["javascript:alert(1)"]}, "invalid_body"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(body, code):
    assert error_of(ask(f"POST {ADMIN}/blocklist", body=body | {"reason": WHY})) == (400, code)
    assert audit() == []


def test_a_skill_is_blocked_lifted_yanked_rescanned_and_deleted():
    submission = subjects.published()
    blocked = about("block", submission).body
    assert set(blocked) == {
        "name", "currentVersion", "submissionId", "isBlocked", "blockReason", "isYanked", "isDeleted", "updatedAt",
    }  # fmt: skip
    assert (blocked["isBlocked"], blocked["blockReason"]) == (True, WHY)
    assert subjects.reread(submission).state is State.BLOCKED
    assert error_of(about("rescan", submission)) == (409, "blocked")
    assert about("unblock", submission).body["isBlocked"] is False
    assert subjects.reread(submission).state is State.PUBLISHED
    assert error_of(about("unblock", submission)) == (409, "not_blocked")
    assert about("yank", submission, version="1.0.0").body["isYanked"] is True
    assert error_of(about("yank", submission, version="1.0.0")) == (409, "nothing_to_change")
    assert error_of(about("yank", submission, version="9.9.9")) == (404, "version_not_found")
    assert error_of(about("yank", submission, version="latest")) == (400, "invalid_body")
    assert about("unyank", submission, version="1.0.0").body["isYanked"] is False
    rescanned = about("rescan", submission).body
    assert set(rescanned) == {"name", "verdict", "score", "ruleSet", "blocked"}
    assert (rescanned["verdict"], rescanned["blocked"]) == ("PASS", False)
    assert about("delete", submission).body["isDeleted"] is True
    assert error_of(about("delete", submission)) == (404, "skill_deleted")
    actions = [entry.action for entry in reversed(audit())]
    assert actions == ["block skill", "unblock skill", "yank", "unyank", "rescan", "delete skill"]


def test_everything_under_older_rules_is_rescanned():
    report = ask(f"POST {ADMIN}/skills/rescan", body={"reason": WHY}).body
    assert report == {"rescanned": 0, "blocked": [], "failed": [], "more": False}


def test_reports_are_read_page_by_page_and_settled_once():
    first, second = subjects.report(), subjects.report()
    page = ask(f"GET {ADMIN}/reports", "reviewer", query="limit=1").body
    assert [report["id"] for report in page["reports"]] == [second]
    assert set(page["reports"][0]) == {
        "id", "skillName", "type", "description", "createdAt", "isOpen",
        "confirmedBy", "settledBy", "settledAt", "outcome",
    }  # fmt: skip
    rest = ask(f"GET {ADMIN}/reports", "reviewer", query={"limit": 1, "cursor": page["cursor"]}).body
    assert ([report["id"] for report in rest["reports"]], rest["cursor"]) == ([first], None)
    route = f"POST {ADMIN}/reports/{{id}}/settle"
    settled = ask(route, path={"id": first}, body={"reason": WHY}).body
    assert (settled["isOpen"], settled["settledBy"], settled["outcome"]) == (False, "admin", WHY)
    assert error_of(ask(route, path={"id": first}, body={"reason": WHY})) == (409, "already_settled")
    assert error_of(ask(route, path={"id": "nobody"}, body={"reason": WHY})) == (404, "not_found")
    open_ = ask(f"GET {ADMIN}/reports").body["reports"]
    everything = ask(f"GET {ADMIN}/reports", query="state=all").body["reports"]
    assert ([report["id"] for report in open_], len(everything)) == ([second], 2)
    assert error_of(ask(f"GET {ADMIN}/reports", query={"state": "all", "cursor": page["cursor"]})) == (
        400,
        "invalid_cursor",
    )


def test_indexes_are_rebuilt_page_by_page_and_the_whole_run_is_one_audit_entry():
    subjects.published()
    first = ask(f"POST {ADMIN}/rebuild-index", body={"reason": WHY}).body
    assert (first["checked"], first["missing"], first["failed"]) == (1, {}, [])
    second = ask(f"POST {ADMIN}/rebuild-index", body={"reason": WHY, "cursor": first["cursor"]}).body
    assert (second["checked"], second["cursor"]) == (1, None)
    assert [entry.action for entry in audit()] == ["rebuild index"]
    forged = ask(f"POST {ADMIN}/rebuild-index", body={"reason": WHY, "cursor": "sub:"})
    assert error_of(forged) == (400, "invalid_cursor")


def test_artifacts_are_built_page_by_page_and_the_whole_run_is_one_audit_entry():
    subjects.published()
    done = ask(f"POST {ADMIN}/build-artifacts", body={"reason": WHY}).body
    assert done == {"checked": 1, "built": 0, "failed": [], "cursor": None}
    assert [entry.action for entry in audit()] == ["build artifacts"]
    forged = ask(f"POST {ADMIN}/build-artifacts", body={"reason": WHY, "cursor": "skill:"})
    assert error_of(forged) == (400, "invalid_cursor")


def test_old_names_are_migrated_and_listed():
    assert ask(f"POST {ADMIN}/migrate-skill-slugs", body={"reason": WHY}).body == {"renamed": [], "count": 0}
