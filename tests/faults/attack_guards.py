"""The guards against attacks, switched off like the others: each must be missed by the tests that show its attack."""

import hmac
from types import SimpleNamespace
from urllib.parse import urlsplit

import msgspec

from tests.faults.guards import Guard
from tests.faults.switches import always, always_later, instead

GITHUB = "tests/integration/test_github.py::"
ARCHIVES = "tests/integration/test_github_archives.py::"
HTTP = "tests/integration/test_github_http.py::"
BAD_INPUT = "tests/integration/test_bad_input.py::"


def _believing(original):
    """Whatever is compared is the same."""
    return SimpleNamespace(compare_digest=lambda *_: True, new=hmac.new)


def _following(original):
    return lambda self, response: response.headers.get("location", "")


def _following_in_the_api(original):
    return lambda self, response: urlsplit(response.headers.get("location", "")).path


def _unescaped(original):
    return lambda: original().overlay(autoescape=False)


def _any_value(original):
    """Numbers without their range."""
    return lambda name, text, type_: int(text) if text.lstrip("-").isdigit() else original(name, text, type_)


def _with_internals(original):
    return lambda error, event: original(error, event)._replace(message=repr(error))


def _showing_all(original):
    def detail(submission, *more):
        return msgspec.to_builtins(original(submission, *more)) | msgspec.to_builtins(submission)

    return detail


def _open_to_more(original):
    """Fields that nobody asked for are dropped instead of refused."""
    known = {"repoUrl", "skillName", "skillPath", "source", "skills", "bundle", "uploadToken"}

    def convert(sent, type_):
        return original({k: v for k, v in sent.items() if k in known} if isinstance(sent, dict) else sent, type_)

    return convert


def _quoting(original):
    from shared.errors import Unavailable

    def parse(text):
        try:
            return original(text)
        except Unavailable as error:
            raise Unavailable(f"The secret is not of the form that docs/security.md describes: {text}") from error

    return parse


def _approving(certain, because):
    from shared.decision import Outcome
    from shared.submissions import State

    return Outcome(State.AUTO_APPROVED, "SCANNED")


ATTACK_GUARDS = [
    Guard(
        "a role is asked for",
        {"shared.auth:require_role": lambda _: lambda token, role: token},
        ["tests/integration/test_route_matrix.py"],
    ),
    Guard(
        "the queue has a cap",
        {"shared.intake:_refuse_when_full": always_later(None)},
        ["tests/unit/test_intake.py::test_s21_a_full_queue_refuses_new_work_and_says_when_to_come_back"],
    ),
    Guard(
        "archives have caps",
        {"shared.archive:MAX_MEMBERS": instead(10**9), "shared.archive:MAX_DEPTH": instead(10**9)},
        [f"{ARCHIVES}test_S01_many_members_and_deep_folders_are_refused"],
    ),
    Guard(
        "unsafe members are kept out",
        {"shared.archive:_is_safe": always(True)},
        [f"{ARCHIVES}test_S02_what_does_not_belong_in_a_skill_is_a_finding_and_kept_out"],
    ),
    Guard(
        "an archive has one reading",
        {"shared.archive:_one_name": lambda _: lambda in_header, extended: extended or in_header},
        [f"{ARCHIVES}test_S03_an_archive_that_two_programs_read_differently_is_refused"],
    ),
    Guard(
        "redirects stay with GitHub",
        {
            "shared.github_http:GitHubHttp._archive_address": _following,
            "shared.github_http:GitHubHttp._moved_to": _following_in_the_api,
        },
        [f"{HTTP}test_S04_a_redirect", f"{HTTP}test_S04_an_archive"],
    ),
    Guard(
        "a commit is the repository's own",
        {"shared.github:GitHub._check_ancestor": always_later(None)},
        [f"{GITHUB}test_S05_the_commit_of_a_fork_is_refused_although_github_answers_for_it"],
    ),
    Guard(
        "pages escape what people wrote",
        {"shared.web.rendering:_templates": _unescaped},
        ["tests/unit/test_page_safety.py::test_s06_script_in_every_submitted_field_is_text_on_every_page"],
    ),
    Guard(
        "a way back stays here",
        {"functions.pages:_local_path": lambda _: lambda back: back},
        ["tests/unit/test_pages.py::test_s07_after_choosing_a_theme_nobody_is_sent_elsewhere"],
    ),
    Guard(
        "a limit is a number in its range",
        {"functions.operations:_converted": _any_value},
        [f"{BAD_INPUT}test_S08_a_limit_out_of_range_is_refused_with_the_range"],
    ),
    Guard("cursors are signed", {"shared.cursor:hmac": _believing}, ["tests/unit/test_cursor.py::test_S09"]),
    Guard(
        "a key of JSON is there once",
        {"functions.http:_once_each": instead(dict)},
        [f"{BAD_INPUT}test_S10_what_is_not_plain_JSON_is_refused"],
    ),
    Guard(
        "look-alikes are one upload",
        {"shared.intake:look_alike": lambda _: lambda slug: slug},
        ["tests/unit/test_intake.py::test_S11_an_upload_that_looks_like_another_is_taken_for_it"],
    ),
    Guard(
        "some names are reserved",
        {"shared.skill_source:RESERVED_SLUGS": instead(frozenset())},
        ["tests/unit/test_skill_source.py::test_S11_S12_what_cannot_be_a_slug_is_refused"],
    ),
    Guard(
        "the judge clears no block rule",
        {"shared.verification:asks_judge": always(True), "shared.decision:_failed": lambda _: _approving},
        ["tests/faults/test_attacks_model.py::test_s14"],
    ),
    Guard(
        "tokens are compared", {"shared.auth:hmac": _believing}, ["tests/unit/test_auth.py::test_S15_nobody_else_does"]
    ),
    Guard(
        "a stranger sees named fields only",
        {"functions.submissions_api:detail_of": _showing_all},
        ["tests/integration/test_submissions_api.py::test_S17_a_stranger_sees_no_lease_fence_or_token"],
    ),
    Guard(
        "a body has no other fields",
        {"functions.http:fit": _open_to_more, "functions.operations:fit": _open_to_more},
        [f"{BAD_INPUT}test_S18_a_body_of_another_shape_is_refused"],
    ),
    Guard(
        "signatures are compared",
        {"shared.webhook_auth:hmac": _believing},
        ["tests/integration/test_webhooks.py::test_s19_a_signature_that_does_not_fit_is_401_before_anything_is_parsed"],
    ),
    Guard(
        "a broken secret is not quoted",
        {"shared.secret_store:_parse": _quoting},
        ["tests/unit/test_secret_store.py::test_S20_secrets_of_another_form_fail_closed_and_are_not_shown"],
    ),
    Guard(
        "a fault of ours shows no internals",
        {"functions.http:_problem_of": _with_internals},
        ["tests/unit/test_page_safety.py::test_s22_a_fault_of_ours_is_a_page_with_a_request_id_and_no_internals"],
    ),
    Guard(
        "events of another source are refused",
        {"functions.consumer:records_of": lambda _: lambda event: event.get("Records", [])},
        ["tests/integration/test_queue_functions.py::test_s23_an_event_of_another_source_is_refused"],
    ),
    Guard(
        "JSON is sent as JSON",
        {"functions.http:Request.media_type": instead(property(lambda _: "application/json"))},
        [f"{BAD_INPUT}test_S24_a_body_that_is_not_sent_as_JSON_is_refused"],
    ),
]
