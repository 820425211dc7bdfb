"""Proving a repository against the stub GitHub. S39: a proof cannot be replayed, moved, or met by a stranger."""

import json

import pytest

from shared.access.auth import sha256_of
from shared.access.owners import PROOF_PATH, find_owner_token
from tests.support.memory import memory_env, within
from tests.support.owners import call_json, challenge_for, proven
from tests.support.route_calls import call
from tests.support.stub_github import StubGitHub

REPO = "acme/skills"
SKILL = {"skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads.\n---\n"}


@pytest.fixture(scope="module")
def github():
    with StubGitHub() as github:
        yield github


@pytest.fixture
async def env(github):
    github.repos.clear()
    github.renamed.clear()
    github.repo(REPO, SKILL, id=1000)
    env = memory_env(github_api_url=github.url)
    yield env
    await env.github.close()


async def prove(env, challenge) -> dict:
    return await call_json(env, "POST /api/v1/owners/proofs", {"challengeId": challenge["challengeId"]})


def write_word(repo, word: str, **more) -> None:
    repo.commit({**SKILL, PROOF_PATH: f"{word}\n"}, **more)


async def test_the_word_at_the_head_of_the_default_branch_gives_a_token(env, github):
    challenge = await challenge_for(env, REPO)
    assert (await prove(env, challenge))["error"]["code"] == "not_proven"
    write_word(github.repos[REPO], challenge["word"])
    token = await prove(env, challenge)
    assert (token["repo"], token["repoId"]) == (REPO, 1000)
    listed = await call_json(env, "GET /api/v1/owner/tokens", token=token["token"])
    assert [(one["label"], one["isSession"]) for one in listed["tokens"]] == [("API", False)]
    stored = json.dumps([[key, item.doc] for key, item in env.kv.items.items()])
    assert token["token"] not in stored
    assert challenge["challengeId"] not in stored


@pytest.mark.requirement("S39")
async def test_a_challenge_is_met_once(env, github):
    challenge = await challenge_for(env, REPO)
    write_word(github.repos[REPO], challenge["word"])
    assert "token" in await prove(env, challenge)
    assert (await prove(env, challenge))["error"]["code"] == "challenge_expired"


@pytest.mark.requirement("S39")
async def test_a_challenge_expires(env, github):
    challenge = await challenge_for(env, REPO)
    write_word(github.repos[REPO], challenge["word"])
    env.clock.forward(minutes=61)
    assert (await prove(env, challenge))["error"]["code"] == "challenge_expired"


@pytest.mark.requirement("S39")
async def test_the_word_alone_which_everybody_can_read_gives_nothing(env, github):
    challenge = await challenge_for(env, REPO)
    write_word(github.repos[REPO], challenge["word"])
    assert (await prove(env, {"challengeId": challenge["word"]}))["error"]["code"] == "challenge_expired"


@pytest.mark.requirement("S39")
async def test_the_word_of_one_repository_proves_no_other(env, github):
    """A stranger who can write to a repository of their own cannot prove somebody else's with it."""
    own = github.repo("mallory/fork", SKILL, id=2000)
    challenge = await challenge_for(env, REPO)
    write_word(own, challenge["word"])
    assert (await prove(env, challenge))["error"]["code"] == "not_proven"
    github.repos[REPO] = own  # the name leads to another repository since the challenge was opened
    assert (await prove(env, challenge))["error"]["code"] == "repository_changed"


@pytest.mark.requirement("S39")
@pytest.mark.parametrize("where", ["a fork", "another branch", "an older commit"])
async def test_a_commit_that_is_not_the_head_of_the_default_branch_proves_nothing(env, github, where):
    repo = github.repos[REPO]
    challenge = await challenge_for(env, REPO)
    if where == "a fork":  # also what a pull request shows through the parent
        repo.fork_commit({**SKILL, PROOF_PATH: challenge["word"]})
    elif where == "another branch":
        write_word(repo, challenge["word"], branch="pull-1")
    else:
        write_word(repo, challenge["word"])
        repo.commit(SKILL)
    assert (await prove(env, challenge))["error"]["code"] == "not_proven"


@pytest.mark.requirement("S39")
async def test_a_word_among_other_text_proves_nothing(env, github):
    challenge = await challenge_for(env, REPO)
    write_word(github.repos[REPO], f"{challenge['word']}\nmore")
    assert (await prove(env, challenge))["error"]["code"] == "not_proven"


async def test_a_renamed_repository_is_proven_under_its_new_name(env, github):
    repo = github.repos[REPO]
    challenge = await challenge_for(env, REPO)
    write_word(repo, challenge["word"])
    github.rename(repo, "acme/tools")
    assert (await prove(env, challenge))["repo"] == "acme/tools"


async def test_a_token_ends_after_90_days_or_when_it_is_revoked(env, github):
    first, second = await proven(env, github.repos[REPO]), await proven(env, github.repos[REPO])
    listed = await call_json(env, "GET /api/v1/owner/tokens", token=first)
    other = next(one["id"] for one in listed["tokens"] if one["id"] != _id_of(first))
    revoked = await call_json(env, "POST /api/v1/owner/tokens/{id}/revoke", token=first, id=other)
    assert revoked["revokedAt"]
    assert (await call_json(env, "GET /api/v1/owner/tokens", token=second))["error"]["code"] == "unauthorized"
    env.clock.forward(days=89, hours=23)
    assert "tokens" in await call_json(env, "GET /api/v1/owner/tokens", token=first)
    env.clock.forward(hours=2)
    assert (await call_json(env, "GET /api/v1/owner/tokens", token=first))["error"]["code"] == "unauthorized"


def _id_of(secret: str) -> str:
    return sha256_of(secret)[:12]


async def test_an_owner_revokes_no_token_of_another_repository(env, github):
    mine = await proven(env, github.repos[REPO])
    theirs = await proven(env, github.repo("other/skills", SKILL, id=2000))
    refused = await call_json(env, "POST /api/v1/owner/tokens/{id}/revoke", token=theirs, id=_id_of(mine))
    assert refused["error"]["code"] == "token_not_found"
    assert await within(env, lambda: find_owner_token(mine))


async def test_a_new_token_is_for_the_same_repository(env, github):
    mine = await proven(env, github.repos[REPO])
    made = await call_json(env, "POST /api/v1/owner/tokens", {"label": "release workflow"}, token=mine)
    assert (made["repo"], made["label"]) == (REPO, "release workflow")
    assert "tokens" in await call_json(env, "GET /api/v1/owner/tokens", token=made["token"])
    audited = [item.doc for key, item in env.kv.items.items() if key.pk.startswith("audit:")]
    assert sum('"by":"owner:acme/skills"' in doc for doc in audited) == 2  # the proof and the new token


async def test_a_private_or_missing_repository_has_no_challenge(env, github):
    github.repo("acme/secret", SKILL, private=True)
    for name in ("acme/secret", "acme/none"):
        body = json.dumps({"repoUrl": f"https://github.com/{name}"}).encode()
        answer = await call(
            env, "POST /api/v1/owners/challenges", body=body, headers={"content-type": "application/json"}
        )
        assert (answer.status, answer.json["error"]["code"]) == (422, "repo_not_found")
