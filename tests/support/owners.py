"""Owners of repositories of the stub GitHub: challenges, proofs and requests with their tokens."""

import json
from typing import Any

from shared.access.owners import PROOF_PATH, new_token, token_put
from shared.marketplace.skill_store import version_put
from shared.records.owners import Owner
from shared.records.skills import Skill, SkillVersion
from shared.records.submissions import State, Submission, new_id
from shared.submissions.submission_store import create
from tests.support.builders import SKILL_MD
from tests.support.memory import within
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills
from tests.support.stub_repo import StubRepo


async def call_json(env, route: str, body: Any = None, token: str | None = None, path: str | None = None, **parameters):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    sent = json.dumps(body).encode() if body is not None else b""
    return (await call(env, route, path, body=sent, headers=headers, **parameters)).json


async def challenge_for(env, full_name: str) -> dict[str, Any]:
    url = f"https://github.com/{full_name}"
    return await call_json(env, "POST /api/v1/owners/challenges", {"repoUrl": url})


async def proven(env, repo: StubRepo) -> str:
    """An owner token, by the whole way: challenge, commit, proof."""
    challenge = await challenge_for(env, repo.full_name)
    files = repo.commits[repo.branches[repo.default_branch]].files
    repo.commit({**files, PROOF_PATH: challenge["word"]})
    token = await call_json(env, "POST /api/v1/owners/proofs", {"challengeId": challenge["challengeId"]})
    return token["token"]


async def stored_owner_token(env, repo: str, repo_id: int) -> str:
    """For tests that are not about proofs: a token as a proof would have stored it."""

    async def store() -> str:
        issued = new_token(Owner(repo, repo_id), "a test")
        await env.kv.put(token_put(issued.token))
        return issued.secret

    return await within(env, store)


async def owned_submission(env, **more: Any) -> Submission:
    """Of acme/skills, whose numeric id is 1000: accepted, and waiting unless `state` says otherwise."""
    at = env.clock()
    fields: dict[str, Any] = {
        "id": new_id(at),
        "source": "https://github.com/acme/skills",
        "repo_url": "https://github.com/acme/skills",
        "repo_id": 1000,
        "skill_path": "skills/pdf",
        "skill_name": "acme/skills/pdf",
        "state": State.RECEIVED,
        "created_at": at,
        "updated_at": at,
    }
    return await within(env, lambda: create(Submission(**(fields | more))))


async def owned_skill(env, **more: Any) -> Skill:
    """acme/skills/pdf, published in version 1.0.0, with its stored files."""
    content_hash = await env.content.put_files({"SKILL.md": SKILL_MD.format(name="pdf", description="Reads.").encode()})
    skill = a_skill("acme/skills/pdf", **({"repo_id": 1000, "commit": "c" * 40, "content_hash": content_hash} | more))
    await put_skills(env.kv, skill)
    await env.kv.put(
        version_put(
            SkillVersion(
                name=skill.name,
                version=skill.current_version,
                content_hash=content_hash,
                submission_id=skill.submission_id,
                created_at=skill.published_at,
                score=skill.score,
            )
        )
    )
    return skill
