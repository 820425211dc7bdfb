"""The guards of ownership: proofs, tokens, what belongs to whom."""

from datetime import timedelta

from shared.storage.kv import Check
from tests.faults.guards import Guard
from tests.faults.switches import always, value


def _at_any_branch(original):
    """Also what a contributor may push."""

    async def head(self, repo):
        ref = await self._find_ref(repo, "heads", "pull-1")
        return ref.object.sha if ref else await original(self, repo)

    return head


OWNER_GUARDS = [
    Guard("a challenge is used up", {"shared.access.owners:Delete": value(Check)}),
    Guard("a challenge expires", {"shared.access.owners:CHALLENGE_TTL": value(timedelta(days=2))}),
    Guard("a proof is of one numeric id", {"shared.access.owners:_is_still_it": always(True)}),
    Guard("a proof is at the head of the default branch", {"shared.github.client:GitHub._head": _at_any_branch}),
]
