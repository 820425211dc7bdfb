"""The guards against attacks, switched off like the others: each must be missed by the tests that show its attack."""

from functools import cache
from urllib.parse import urlsplit

import msgspec

from tests.faults.guards import Guard
from tests.faults.switches import always, in_result, value, within

HTTP = "tests/integration/test_github_http.py::"


def _following(original):
    return lambda self, response: response.headers.get("location", "")


def _following_in_the_api(original):
    return lambda self, response: urlsplit(response.headers.get("location", "")).path


def _unescaped(original):
    plain = cache(lambda templates: templates.overlay(autoescape=False))
    return lambda template, **context: original(plain(template.environment).get_template(template.name), **context)


def _any_value(original):
    """Numbers without their range."""
    return lambda name, text, type_: int(text) if text.lstrip("-").isdigit() else original(name, text, type_)


def _with_internals(original):
    def problem_of(error, event):
        problem = original(error, event)
        return problem if problem.status < 500 else problem._replace(message=repr(error))

    return problem_of


def _showing_all(original):
    def detail(submission, *more):
        return msgspec.to_builtins(original(submission, *more)) | msgspec.to_builtins(submission)

    return detail


def _open_to_more(original):
    """Unknown fields are dropped instead of refused."""
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
            raise Unavailable(f"The secret does not have the format that docs/security.md describes: {text}") from error

    return parse


def _for_ever(put):
    return lambda key, doc, attrs, expect: put(key, doc, {}, expect)


def _any_role(original):
    return lambda token, role: token


def _asking_about_all(original):
    return lambda verdict, *about: verdict == "FAIL" or original(verdict, *about)


def _approving(certain, because):
    from shared.records.decision import Ruling
    from shared.records.submissions import State

    return Ruling(State.AUTO_APPROVED, "SCANNED")


def _by_its_beginning(original):
    """An address is taken for listed when it begins like an entry."""
    return lambda address, entries: any(address.partition("://")[2].startswith(entry) for entry in entries)


def _noted(hit):
    from shared.scanner.report import Action

    return hit.rule.action if hit.live else Action.NOTE


def _with_backtracking(original):
    import re

    mixed = re.compile(r"[A-Za-z]*[\u0370-\u04ff][A-Za-z\u0370-\u04ff]*")
    return mixed.findall


ALWAYS_EQUAL = always(True)

ATTACK_GUARDS = [
    Guard(
        "a role is required",
        {f"shared.{module}:require_role": _any_role for module in ("access.auth", "moderation.submission_decisions")},
    ),
    Guard("the queue has a cap", {"shared.submissions.intake:_refuse_when_full": always(10**9)}),
    Guard("archives have caps", {f"shared.github.archive:MAX_{what}": value(10**9) for what in ("MEMBERS", "DEPTH")}),
    Guard(
        "uploads have caps",
        {f"shared.submissions.skill_source:MAX_{what}": value(10**9) for what in ("FILES", "BUNDLE")},
    ),
    Guard("unsafe members are kept out", {"shared.github.archive:_is_safe": always(True)}),
    Guard("a path stays in its folder", {"shared.submissions.skill_source:_is_safe_part": always(True)}),
    Guard(
        "an archive has one reading",
        {"shared.github.archive:_one_name": lambda _: lambda in_header, extended: extended or in_header},
    ),
    Guard("an upload has one reading", {"shared.submissions.skill_source:_refuse_same_places": always(None)}),
    Guard(
        "redirects stay with GitHub",
        {
            "shared.github.http:GitHubHttp._archive_address": _following,
            "shared.github.http:GitHubHttp._moved_to": _following_in_the_api,
        },
        [f"{HTTP}test_an_archive_comes_from_githubs_download_host_only"],
    ),
    Guard("addresses are of one host", {"shared.submissions.skill_source:_is_at": always(True)}),
    Guard("a commit is the repository's own", {"shared.github.client:GitHub._check_ancestor": always(None)}),
    Guard(
        "pages escape what people wrote",
        {"jinja2:Template.render": _unescaped, "functions.api.skill_badge:escape": lambda _: str},
    ),
    Guard(
        "a redirect stays on this site", {"functions.html.queue_pages:_safe_redirect_path": lambda _: lambda back: back}
    ),
    Guard("a limit is a number in its range", {"functions.http.operations:_converted": _any_value}),
    Guard("cursors are signed", {"shared.access.cursor:is_same": ALWAYS_EQUAL}),
    Guard("a JSON key occurs once", {"functions.http.request:_once_each": lambda _: dict}),
    Guard(
        "what is uploaded is text",
        {"shared.submissions.skill_source:_encode": lambda _: lambda path, text: text.encode(errors="surrogatepass")},
    ),
    Guard("look-alikes are one upload", {"shared.submissions.intake:look_alike": lambda _: lambda slug: slug}),
    Guard(
        "a look-alike of a published name is a finding",
        {"shared.verification.verification:_confused_with": always(None)},
    ),
    Guard("some names are reserved", {"shared.submissions.skill_source:RESERVED_SLUGS": value(frozenset())}),
    Guard("only a comment excuses code", {"shared.scanner.syntax:SourceSyntax.is_comment": always(True)}),
    Guard("words leave a question", {"shared.scanner.matching:Hit.action": lambda _: _noted}),
    Guard("trust is exact", {"shared.scanner.trust:is_listed": _by_its_beginning}),
    Guard("every address counts", {"shared.scanner.matching:is_trusted_command": always(True)}),
    Guard("publishers are not listed whole", {"shared.scanner.pack:_refuse_publisher": always(None)}),
    Guard(
        "words of mixed scripts are found in one pass",
        {"shared.scanner.hidden_text:mixed_script_words": _with_backtracking},
    ),
    Guard("line-by-line comparison is capped", {"shared.marketplace.diffs:MAX_CELLS": value(10**9)}),
    Guard(
        "the judge clears no block rule",
        {
            "shared.verification.verification:needs_judge": _asking_about_all,
            "shared.records.decision:_failed": lambda _: _approving,
        },
    ),
    Guard("tokens are compared", {"shared.access.auth:is_same": ALWAYS_EQUAL}),
    Guard("a revoked token is refused", {"shared.access.auth:get_kv": in_result(within(get=always(None)))}),
    Guard("the public sees named fields only", {"functions.api.submissions:detail_of": _showing_all}),
    Guard(
        "a body has no other fields",
        {f"functions.{module}:fit": _open_to_more for module in ("http.request", "http.operations")},
    ),
    Guard("signatures are compared", {"shared.access.webhook_auth:is_same": ALWAYS_EQUAL}),
    Guard("a seen signature expires", {"shared.access.webhook_auth:Put": _for_ever}),
    Guard("a broken secret is not quoted", {"shared.storage.secret_store:_parse": _quoting}),
    Guard("an internal error shows no details", {"functions.http.routes:problem_of": _with_internals}),
    Guard(
        "events of another source are refused",
        {
            "functions.consumer:records_of": lambda _: lambda event: event.get("Records", []),
            "functions.http.routes:_refuse_other_events": always(None),
        },
    ),
    Guard("JSON is sent as JSON", {"functions.http.request:Request.media_type": always("application/json")}),
    Guard("a wrong method is reported", {"functions.pages:methods_at": always([])}),
]
