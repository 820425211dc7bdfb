"""The guards against attacks, switched off like the others: each must be missed by the tests that show its attack."""

import re
import secrets
from functools import cache
from urllib.parse import urlsplit

import msgspec

from shared.submissions.admission import Room
from tests.faults.guards import Guard
from tests.faults.notification_guards import NOTIFICATION_GUARDS
from tests.faults.owner_guards import OWNER_GUARDS
from tests.faults.switches import always, in_result, no_effect, value, within

SHARED = "tests/integration/test_shared_repositories.py::"
INTAKE = "tests/unit/submissions/test_intake.py::"
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


def _under_the_common_key(original):
    from shared.access.signing import sign

    return sign


def _certain_of_any_likeness(original):
    from shared.evidence.receipt_store import NEAR_DUPLICATE
    from shared.scanner import finding_for

    async def finding(report, blocked, skill):
        return finding_for(NEAR_DUPLICATE, "SKILL.md", blocked.content_hash)

    return finding


def _approving(certain, because):
    from shared.records.decision import Ruling
    from shared.records.submissions import State

    return Ruling(State.AUTO_APPROVED, "SCANNED")


def _leasing_to_all(original):
    """Every worker asks for itself, though another does already."""

    async def take(self, key, expect):
        return await original(self, key, None)

    return take


def _unchecked(original):
    async def find_piece(self, key, digest):
        return self._content.bodies.get(f"{key.pk.replace(':', '/')}/{digest}")

    return find_piece


def _seeing_nothing(original):
    async def read(self, key):
        return None, None

    return read


def _storing_first(original):
    async def read_known(submission, *args):
        from shared.db import get_content
        from shared.submissions.skill_source import fetch_skill, pin_repo

        await get_content().put_files((await fetch_skill(submission, await pin_repo(submission))).files)
        return await original(submission, *args)

    return read_known


ROOM = Room(10**9, 10**9)


def _listed_by_prefix(original):
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


def _by_its_beginning(original):
    return lambda path, content: "picture" if b"\0" in content[:4096] else ""


def _without_problems(original):
    return lambda content, budget: (member._replace(problem="") for member in original(content, budget))


def _another_each_time(original):
    async def marker_key(*arguments):
        key = await original(*arguments)
        return key._replace(sk=f"{key.sk}{secrets.token_hex(8)}")

    return marker_key


ATTACK_GUARDS = [
    *OWNER_GUARDS,
    *NOTIFICATION_GUARDS,
    Guard("an artifact has its digest", {"shared.marketplace.artifacts:_is_intact": always(True)}),
    Guard(
        "blocked content is withheld",
        {f"functions.api.skill_files:refuse_{what}": always(None) for what in ("blocked", "banned")},
    ),
    Guard(
        "files that leave their folder are not packaged",
        {"shared.marketplace.packaging:leaves_its_folder": always(False)},
    ),
    Guard(
        "names of files are encoded in headers", {"functions.api.skill_files:quote": lambda _: lambda text, safe: text}
    ),
    Guard("a file is never a page", {"functions.api.skill_files:SANDBOX": value("")}),
    Guard("parameters of MCP have a type", {"functions.clients.mcp:_object": lambda _: lambda sent, name: sent}),
    Guard("only usable names are looked up", {"shared.marketplace.installable:is_usable_name": always(True)}),
    Guard(
        "an address downloads a version once a day", {"shared.marketplace.downloads:_marker_key": _another_each_time}
    ),
    Guard(
        "only whole pictures stay unread",
        {"shared.scanner.inventory:media_kind": _by_its_beginning, "shared.scanner.inventory:strings_in": always("")},
    ),
    Guard("what is run is read", {"shared.scanner.inventory:UsedFiles.has": always(False)}),
    Guard(
        "every reader has one decoder",
        {"shared.scanner.inventory:text_of": lambda _: lambda content: content.decode("utf-8", "replace")},
    ),
    Guard("what code could run by a computed name is read", {"shared.scanner.inventory:SkillCode.runs": always(False)}),
    Guard("words excuse what stands in prose alone", {"shared.scanner.scan:_is_in_code": always(False)}),
    Guard("code from other machines is followed", {"shared.scanner.scan:find_remote_runs": always([])}),
    Guard(
        "a known address excuses a plain download only", {"shared.scanner.remote_runs:is_plain_download": always(True)}
    ),
    Guard("unread members are named", {"shared.scanner.inventory:read_archive": _without_problems}),
    Guard("an archive is read beside its files", {"shared.scanner.inventory:between_members": always(b"")}),
    Guard("comments are doubted", {"shared.scanner.doubts:_may_run_them": always(False)}),
    Guard("archives share one budget", {"shared.scanner.archives:Budget.take": always(None)}),
    Guard("names are findings", {"shared.scanner.inventory:name_findings": always(())}),
    Guard("a bundle has its page at the top", {"shared.submissions.skill_source:_require_page": always(None)}),
    Guard(
        "a role is required",
        {f"shared.{module}:require_role": _any_role for module in ("access.auth", "moderation.submission_decisions")},
    ),
    Guard("the queue has a cap", {"shared.submissions.intake:refuse_when_full": always(ROOM)}),
    Guard("skills are counted", {"shared.submissions.intake:count_skills": always(None)}),
    Guard("one address holds a share of the queue", {"shared.settings:Settings.max_held": always(10**9)}),
    Guard(
        "one worker asks GitHub for all",
        {"shared.github.repo_cache:RepoCache._take": _leasing_to_all},
        [f"{SHARED}test_fifty_skills_of_a_repository_ask_github_at_most_ten_times_and_download_once"],
    ),
    Guard(
        "a damaged archive is noticed",
        {"shared.github.repo_cache:RepoCache.find_piece": _unchecked},
        [f"{SHARED}test_a_damaged_archive_is_noticed_and_downloaded_again"],
    ),
    Guard(
        "a shared answer expires",
        {"shared.github.repo_cache:CacheEntry.is_valid": always(True)},
        [f"{SHARED}test_a_repository_that_changed_hands_is_noticed_when_its_answer_has_expired"],
    ),
    Guard(
        "an older answer does not replace a newer one",
        {"shared.github.repo_cache:RepoCache._read": _seeing_nothing},
        [f"{SHARED}test_an_older_answer_never_replaces_a_newer_one"],
    ),
    Guard(
        "content is stored after the blocklist and the name are checked",
        {"shared.verification.verification:_read_known": _storing_first},
    ),
    Guard(
        "an upload is stored after the blocklist is checked",
        {"shared.submissions.skill_source:find_block": always(None)},
        [f"{INTAKE}test_an_upload_that_the_blocklist_names_is_neither_accepted_nor_stored"],
    ),
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
    Guard(
        "an owner that looks like a published one is a finding",
        {"shared.verification.verification:has_look_alike_owner": always(False)},
    ),
    Guard(
        "a near copy is certain only with what the block rested on",
        {"shared.verification.likeness:_finding": _certain_of_any_likeness},
    ),
    Guard(
        "what the original had before is not what the block rested on",
        {"shared.verification.likeness:_marks_before": always(set())},
    ),
    Guard(
        "content that another skill published first is not banned",
        {"shared.marketplace.blocking:published_by_others": always(set())},
    ),
    Guard(
        "findings about a skill are not stored with its content",
        {"shared.evidence.receipt_store:ABOUT_SKILL": value(())},
    ),
    Guard(
        "an approval is for its skill",
        {
            f"shared.{module}:clearance_key": lambda original: lambda name, content_hash: original("any", content_hash)
            for module in ("verification.clearances", "evidence.receipt_store")
        },
    ),
    Guard(
        "an old clearance is for the skill it was given for",
        {"shared.verification.clearances:_is_of": always(True)},
    ),
    Guard("a copy names whom it copies", {"shared.verification.verification:_copied": always(None)}),
    Guard("some names are reserved", {"shared.submissions.skill_source:RESERVED_SLUGS": value(frozenset())}),
    Guard("only a comment excuses code", {"shared.scanner.syntax:SourceSyntax.is_comment": always(True)}),
    Guard("words leave a question", {"shared.scanner.matching:Hit.action": lambda _: _noted}),
    Guard("trust is exact", {"shared.scanner.trust:is_listed": _listed_by_prefix}),
    Guard("every address counts", {"shared.scanner.matching:is_trusted_command": always(True)}),
    Guard(
        "installers keep their source",
        {
            "shared.scanner.remote_runs:OTHER_SOURCE": value(re.compile("(?!)")),
            "shared.scanner.remote_runs:_REDEFINITION": value(re.compile("(?!)")),
            "shared.scanner.vouched_installers:OTHER_SOURCE": value(re.compile("(?!)")),
        },
    ),
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
    Guard("an idempotency key belongs to its caller", {"functions.api.submissions:caller_of": always("")}),
    Guard("a signed-out session is refused", {"functions.html.admin_session:end_session": no_effect()}),
    Guard("sessions have a key of their own", {"shared.access.sessions:sign_for_session": _under_the_common_key}),
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
            "functions.http.partial_batch:records_of": lambda _: lambda event: event.get("Records", []),
            "functions.http.routes:_refuse_other_events": always(None),
        },
    ),
    Guard("JSON is sent as JSON", {"functions.http.request:Request.media_type": always("application/json")}),
    Guard("a wrong method is reported", {"functions.pages:methods_at": always([])}),
]
