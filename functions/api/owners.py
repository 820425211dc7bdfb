"""Proving a repository, and the tokens that this gives."""

from functions.api.owner_schemas import (
    ChallengeAnswer,
    ChallengeBody,
    DeviceOpened,
    DevicePending,
    DeviceProofBody,
    NewOwnerToken,
    OwnerTokens,
    ProofBody,
    TokenBody,
    TokenRow,
    challenge_answer,
    device_answer,
    new_token_answer,
    pending_answer,
    token_row,
)
from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.access import owners
from shared.access.device_proofs import Device, open_device, prove_by_device
from shared.db import get_settings
from shared.records.owners import Owner
from shared.submissions.skill_source import parse_repo_url


@operation(
    "Open a challenge to prove that a repository is yours",
    gives={201: ChallengeAnswer},
    refuses=(422, 502),
    limit="proofs",
)
async def open_challenge(request: Request, body: ChallengeBody) -> Answer:
    """Commit the word to the default branch within an hour, then send the proof. A fork, a pull request or another
    branch does not count."""
    repo = parse_repo_url(body.repo_url, get_settings().github_host)
    return Answer(challenge_answer(await owners.open_challenge(repo.owner, repo.name)), 201)


@operation(
    "Prove a repository: exchange a met challenge for an owner token",
    gives={201: NewOwnerToken},
    refuses=(409, 422, 502),
    limit="proofs",
)
async def prove(request: Request, body: ProofBody) -> Answer:
    """A challenge can be met once. The token is valid for 90 days and shown in this response only. 409 `not_proven`
    while the word is not there: try again. The file may be deleted afterwards."""
    return Answer(new_token_answer(await owners.prove(body.challenge_id, body.label)), 201)


@operation(
    "Start to prove a repository by signing in on GitHub",
    gives={201: DeviceOpened},
    refuses=(404, 422, 502),
    limit="proofs",
)
async def start_device(request: Request, body: ChallengeBody) -> Answer:
    """GitHub's device flow, where this platform has a client id; 404 `device_flow_off` otherwise. Enter the code on
    GitHub with an account that may push to the repository, and ask for the token every `intervalSeconds`."""
    repo = parse_repo_url(body.repo_url, get_settings().github_host)
    return Answer(device_answer(await open_device(repo.owner, repo.name)), 201)


@operation(
    "Prove a repository: exchange a sign-in on GitHub for an owner token",
    gives={201: NewOwnerToken, 202: DevicePending},
    refuses=(403, 404, 409, 422, 429, 502),
)
async def prove_device(request: Request, body: DeviceProofBody) -> Answer:
    """202 until the code is entered. 429 `slow_down` if it is asked sooner than `intervalSeconds` after the last time.
    GitHub must say that the account may push to exactly this repository id. A sign-in can be used once; all other
    refusals end it, so start again."""
    proven = await prove_by_device(body.device_id, body.label)
    if isinstance(proven, Device):
        return Answer(pending_answer(proven), 202)
    return Answer(new_token_answer(proven), 201)


@operation("List the tokens of your repository", gives=OwnerTokens, owned=True)
async def list_tokens(request: Request, owner: Owner) -> Answer:
    """All that have not expired, also those that others with write access created."""
    rows = [token_row(token) for token in await owners.get_owner_tokens(owner)]
    return Answer(OwnerTokens(owner.repo, owner.repo_id, rows))


@operation("Create another owner token", gives={201: NewOwnerToken}, owned=True, refuses=(409,))
async def create_token(request: Request, owner: Owner, body: TokenBody) -> Answer:
    return Answer(new_token_answer(await owners.create_owner_token(owner, body.label)), 201)


@operation("Revoke an owner token", gives=TokenRow, owned=True, refuses=(404, 409))
async def revoke_token(request: Request, owner: Owner) -> Answer:
    """Sessions that were opened with it end at once."""
    return Answer(token_row(await owners.revoke_owner_token(owner, request.path["id"])))


ROUTES = {
    "POST /api/v1/owners/challenges": open_challenge,
    "POST /api/v1/owners/proofs": prove,
    "POST /api/v1/owners/device": start_device,
    "POST /api/v1/owners/device/proofs": prove_device,
    "GET /api/v1/owner/tokens": list_tokens,
    "POST /api/v1/owner/tokens": create_token,
    "POST /api/v1/owner/tokens/{id}/revoke": revoke_token,
}
