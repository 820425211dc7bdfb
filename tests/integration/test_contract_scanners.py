"""Requests and responses of external scanners, compared with the contract (tests/support/contract_checks.py)."""

import json

import pytest

from tests.support.builders import processed, submitted
from tests.support.contract_checks import ask
from tests.support.memory import memory_env
from tests.support.signed_requests import signed_body, signed_headers

CLAIM = "POST /api/v1/internal/scans/claim"


async def test_a_claim_has_its_fields_or_is_null():
    env = memory_env(external_scanners=("bandit",))

    async def claim():
        body = signed_body()
        return await ask(env, CLAIM, body=body, headers=signed_headers(CLAIM.split()[1], body, env.clock.seconds()))

    assert (await claim()).json == {"claim": None}
    await processed(env, await submitted(env))
    claimed = (await claim()).json["claim"]
    assert set(claimed) == {"claimId", "provider", "skillName", "contentHash", "leaseUntil", "filesPath"}
    body = signed_body(skillName=claimed["skillName"], claimId=claimed["claimId"])
    files = "POST /api/v1/internal/scans/files"
    page = await ask(env, files, body=body, headers=signed_headers(files.split()[1], body, env.clock.seconds()))
    assert ([file["path"] for file in page.json["files"]], page.json["nextAfter"]) == (["SKILL.md"], None)


@pytest.mark.requirement("S19")
@pytest.mark.parametrize("path", ["internal/scans/claim", "internal/scans/files", "webhooks/scan-results"])
async def test_without_a_signature_nothing_is_parsed(path):
    env = memory_env(external_scanners=("bandit",))
    answer = await ask(env, f"POST /api/v1/{path}", body=b"\xff not JSON", query="a=1")
    assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_signature")
    assert answer.headers["www-authenticate"] == "HMAC-SHA256"
    assert json.loads(answer.text)["message"].startswith("Invalid signature")
