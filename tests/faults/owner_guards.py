"""The guards of ownership: proofs, tokens, what belongs to whom."""

import re
from datetime import timedelta

from shared.storage.kv import Check, Key
from tests.faults.guards import Guard
from tests.faults.switches import always, value


def _at_any_branch(original):
    """Also what a contributor may push."""

    async def head(self, repo):
        ref = await self._find_ref(repo, "heads", "pull-1")
        return ref.object.sha if ref else await original(self, repo)

    return head


def _another_marker(original):
    return lambda appeal: Key(f"appeal-open:{appeal.id}")


def _one_purpose(original):
    """Both kinds under one key, for one purpose."""

    async def sign(kind, purpose, text):
        return await original("session", "session" if purpose != "form" else purpose, text)

    return sign


def _with_all_open_reports(original):
    def community(skill, counts, at):
        known = original(skill, counts, at)
        return known._replace(has_confirmed_report=bool(counts and counts.open_reports))

    return community


def _scoring_what_is_blocked(original):
    return lambda verdict, judged, provenance, community, certified, is_blocked: original(
        verdict, judged, provenance, community, certified
    )


def _found_by_anything(original):
    return lambda challenge_id: Key("owner-challenge:any")


def _contains(original):
    return lambda word, written: word in written


OWNER_GUARDS = [
    Guard("a proof file has the word alone", {"shared.access.owners:is_same": _contains}),
    Guard("an answer is about what was seen", {"shared.moderation.submission_decisions:refuse_changed": always(None)}),
    Guard("owners have a share of actions", {"shared.access.owners:count_owner_action": always(None)}),
    Guard("a sentence has no control characters", {"shared.access.audit:_UNSAFE": value(re.compile("(?!)"))}),
    Guard("a challenge has a secret id", {"shared.access.owners:_challenge_key": _found_by_anything}),
    Guard("an operator's yank stays", {"shared.moderation.owner_decisions:_is_by_operator": always(False)}),
    Guard("a blocked skill has no score", {"shared.marketplace.community:trust": _scoring_what_is_blocked}),
    Guard(
        "ownership goes by numeric id",
        {"shared.access.owners:owns": always(True), "shared.moderation.owner_decisions:owns": always(True)},
    ),
    Guard(
        "an owner reopens what an owner cancelled",
        {"shared.moderation.owner_decisions:_was_moved_by_owner": always(True)},
    ),
    Guard("a transfer takes no name of others", {"shared.moderation.owner_decisions:_refuse_target": always(None)}),
    Guard("one open appeal at a time", {"shared.evidence.appeal_store:_marker_key": _another_marker}),
    Guard("sessions are for one purpose", {"shared.access.sessions:_sign": _one_purpose}),
    Guard("owners' forms have a token", {"functions.html.owner_session:check_csrf_token": always(None)}),
    Guard("a revoked token is none", {"shared.access.owners:OwnerToken.is_valid": always(True)}),
    Guard("only confirmed reports count", {"shared.marketplace.community:community_of": _with_all_open_reports}),
    Guard("a challenge is used up", {"shared.access.owners:Delete": value(Check)}),
    Guard("push permission is required", {"shared.github.device_flow:may_push": always(True)}),
    Guard("a sign-in is of one numeric id", {"shared.access.device_proofs:_is_same_repo": always(True)}),
    Guard("a sign-in is used up", {"shared.access.device_proofs:Delete": value(Check)}),
    Guard("a sign-in expires", {"shared.access.device_proofs:Device.is_open": always(True)}),
    Guard("a challenge expires", {"shared.access.owners:CHALLENGE_TTL": value(timedelta(days=2))}),
    Guard("a proof is of one numeric id", {"shared.access.owners:_is_still_it": always(True)}),
    Guard("a proof is at the head of the default branch", {"shared.github.client:GitHub._head": _at_any_branch}),
]
