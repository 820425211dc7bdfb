"""S11: a new name that people take for a published one waits for a person. Real client and scanner, stub GitHub."""

import pytest

from shared.db import get_kv
from shared.evidence.receipt_store import find_receipt
from shared.marketplace.skill_admin import block_skill
from shared.marketplace.skill_index import (
    known_owner_key,
    known_owner_puts,
    look_alike_keys,
    look_alike_puts,
    owner_keys,
    owner_puts,
)
from shared.marketplace.skill_store import find_skill
from shared.moderation import submission_decisions
from shared.moderation.index_rebuild import rebuild_index
from shared.records.submissions import State
from shared.storage.secret_store import AdminToken
from shared.submissions import intake
from shared.submissions.submission_store import get_submission
from shared.verification.verification import _confused_with
from tests.support.builders import processed
from tests.support.memory import memory_env, within
from tests.support.stub_github import StubGitHub

ANNA = AdminToken("anna", "admin", "")


def skill_md(text: str) -> str:
    return f"---\nname: pdf\ndescription: Helps with pdf files.\n---\n\n# pdf\n\n{text}\n"


@pytest.fixture
def stub():
    with StubGitHub() as github:
        yield github


@pytest.fixture
async def env(stub):
    env = memory_env(github_api_url=stub.url)
    yield env
    await env.github.close()


async def submit(env, repo, path):
    accepted = await within(env, lambda: intake.submit_repo(f"https://github.com/{repo}", None, path, None, None))
    await processed(env, accepted.submission)
    return await within(env, lambda: get_submission(accepted.submission.id))


async def verified(env, stub, repo, slug="pdf-tools", text=None):
    files = {f"skills/{slug}/SKILL.md": skill_md(text or f"Made by {repo}.")}
    if known := stub.repos.get(repo.lower()):
        known.commit(files)
    else:
        stub.repo(repo, files)
    return await submit(env, repo, f"skills/{slug}")


async def rules_of(env, submission):
    return {finding.rule for finding in (await within(env, lambda: find_receipt(submission))).report.findings}


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(
    ("repo", "slug"),
    [
        ("acme/skil1s", "pdf-tools"),
        ("acme/ski-lls", "pdf-tools"),
        ("acme/sk_ills", "pdf-tools"),
        ("ac-me/skills", "pdf-tools"),
        ("ac-me/Skills", "pdf_tools"),
        ("ac-me/skills", "pdf.too1s"),
        ("ac-me/skills", "pdft0ols"),
    ],
)
async def test_a_name_that_looks_like_a_published_one_is_held_with_a_finding(env, stub, repo, slug):
    assert (await verified(env, stub, "acme/skills")).state == State.PUBLISHED
    held = await verified(env, stub, repo, slug)
    assert (held.state, held.parked_by, held.verdict) == (State.ON_HOLD, "rule", "CONCERNS")
    assert "taken for that of a published skill" in held.reason
    assert "NAME-LOOK-ALIKE" in await rules_of(env, held)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(("repo", "slug"), [("other/skills", "pdf-tools"), ("acme/skills2", "pdf-tools")])
async def test_the_same_slug_in_another_repository_is_no_look_alike(env, stub, repo, slug):
    await verified(env, stub, "acme/skills")
    assert (await verified(env, stub, repo, slug)).state == State.PUBLISHED


@pytest.mark.requirement("S11")
async def test_names_of_one_repository_are_not_confused_with_each_other(env, stub):
    paths = ("skills/pdf-tools", "skills/pdftools", "skills/pdf.tools")
    stub.repo("acme/skills", {f"{path}/SKILL.md": skill_md(f"At {path}.") for path in paths})
    assert [(await submit(env, "acme/skills", path)).state for path in paths] == [State.PUBLISHED] * 3


@pytest.mark.requirement("S11")
async def test_approving_a_look_alike_publishes_it_and_its_next_version_is_not_asked_about_again(env, stub):
    await verified(env, stub, "acme/skills")
    held = await verified(env, stub, "ac-me/skills")
    approved = await within(env, lambda: submission_decisions.approve(held.id, ANNA, "their own fork"))
    assert (approved.state, approved.cert_tier) == (State.PUBLISHED, "CERTIFIED")
    again = await verified(env, stub, "ac-me/skills", text="Mended.")
    assert (again.state, again.published_version) == (State.PUBLISHED, "1.0.1")
    original = await verified(env, stub, "acme/skills", text="Mended too.")
    assert (original.state, original.published_version) == (State.PUBLISHED, "1.0.1")


@pytest.mark.requirement("S11")
async def test_the_finding_is_about_the_name_not_about_the_content(env, stub):
    """The receipt of the same content is used for another name, without what was said about the first."""
    text = "The same in both."
    await verified(env, stub, "acme/skills")
    held = await verified(env, stub, "ac-me/skills", text=text)
    assert held.state == State.ON_HOLD
    other = await verified(env, stub, "somebody/else", text=text)
    assert other.content_hash == held.content_hash
    assert other.state == State.PUBLISHED
    assert await rules_of(env, other) == set()
    third = await verified(env, stub, "some-body/else", text=text)
    assert (third.content_hash, third.state) == (held.content_hash, State.ON_HOLD)


@pytest.mark.requirement("S11")
async def test_a_look_alike_of_a_blocked_skill_is_held_too(env, stub):
    first = await verified(env, stub, "acme/skills")
    await within(env, lambda: block_skill(first.skill_name, "steals keys", "admin:anna"))
    assert (await verified(env, stub, "ac-me/skills", text="Quite another text.")).state != State.PUBLISHED
    assert await within(env, lambda: find_skill("ac-me/skills/pdf-tools")) is None


# --- owners (S34) ---------------------------------------------------------------------------------------------------

LOOK_LIKE_ACME_INC = [
    *("acme1", "acme-inc2", "acme-limited", "acme-company", "acme-mcp", "acme-verified"),
    "acrne-inc",
    "acmeinc",
    "acme--inc",
    "acme-lnc",
    "acme-1nc",
    "accme-inc",
    "acme-incs",
    "acmes-inc",
    "acme-inc-official",
    "acme-official",
    "acmeofficial",
    "the-acme-inc",
    "acme-hq",
    "acmehq",
    "acme-labs",
    "acme",
    "acne-inc",
    "acm-einc",
    "acme-ic",
    "acme-incx",
    "amce-inc",
    "аcme-inc",
]


@pytest.mark.requirement("S34")
@pytest.mark.parametrize("slug", ["pdf-tools", "something-else"])
@pytest.mark.parametrize("owner", LOOK_LIKE_ACME_INC)
async def test_an_owner_that_looks_like_one_with_published_skills_is_held_with_a_finding(env, owner, slug):
    known = await within(env, lambda: _published_as(env, "acme-inc/skills/pdf-tools"))
    assert known
    name = f"{owner}/skills/{slug}"
    assert await within(env, lambda: _confused(name)) == "acme-inc/skills/pdf-tools"


@pytest.mark.requirement("S34")
@pytest.mark.parametrize("owner", ["other", "zinc", "acorn", "pacme-intl", "aime", "uploads"])
async def test_other_owners_with_the_same_repository_and_slug_are_no_look_alikes(env, owner):
    await within(env, lambda: _published_as(env, "acme-inc/skills/pdf-tools"))
    assert await within(env, lambda: _confused(f"{owner}/skills/pdf-tools")) is None


async def _published_as(env, name):
    await env.kv.transact(lambda: [*look_alike_puts(name), *owner_puts(name), *known_owner_puts(name)])
    return name


async def _confused(name):
    keys = [*look_alike_keys(name), *owner_keys(name), known_owner_key(name)]
    return _confused_with(name, (await get_kv().get_many(keys)).found)


@pytest.mark.requirement("S34")
async def test_a_look_alike_owner_is_reviewed_once_and_its_other_skills_are_not_held(env, stub):
    await verified(env, stub, "acme-inc/skills")
    held = await verified(env, stub, "acme-labs/tools", "csv", "Something quite different.")
    assert (held.state, held.parked_by) == (State.ON_HOLD, "rule")
    assert "taken for that of a published skill" in held.reason
    await within(env, lambda: submission_decisions.approve(held.id, ANNA, "the same company"))
    env.clock.forward(seconds=15)  # else a worker may use what GitHub said before the push
    more = await verified(env, stub, "acme-labs/tools", "xml", "Another one of theirs.")
    assert more.state == State.PUBLISHED
    same = await verified(env, stub, "acme-labs/skills", "pdf-tools", "The name of the other one.")
    assert same.state == State.ON_HOLD
    third = await verified(env, stub, "acrne-inc/kit", "new", "By somebody else.")
    assert third.state == State.ON_HOLD


@pytest.mark.requirement("S34")
async def test_an_approved_look_alike_does_not_take_the_place_of_the_owner_it_looks_like(env, stub):
    first = await verified(env, stub, "acme-inc/skills")
    held = await verified(env, stub, "acme-labs/tools", "csv", "Something quite different.")
    await within(env, lambda: submission_decisions.approve(held.id, ANNA, "the same company"))
    assert await within(env, lambda: _confused("acrne/kit/new")) == first.skill_name


@pytest.mark.requirement("S34")
async def test_owners_of_an_older_release_are_found_once_the_index_is_rebuilt(env, stub):
    await verified(env, stub, "acme-inc/skills")
    for key in [key for key in env.kv.items if key.pk.startswith(("alike-owner:", "owner:", "alike:"))]:
        del env.kv.items[key]
    assert await within(env, lambda: _confused("acrne-inc/skills/pdf-tools")) is None
    await within(env, rebuild_index)
    assert await within(env, lambda: _confused("acrne-inc/skills/pdf-tools")) == "acme-inc/skills/pdf-tools"


@pytest.mark.requirement("S34")
async def test_a_vendor_is_not_held_for_the_name_of_another(stub):
    env = memory_env(github_api_url=stub.url, vendors=frozenset({("acme-inc", stub.repo("acme-inc/skills").owner_id)}))
    await within(env, lambda: _published_as(env, "acme-lnc/skills/other"))
    try:
        assert (await verified(env, stub, "acme-inc/skills")).state == State.VENDOR_APPROVED
    finally:
        await env.github.close()


@pytest.mark.requirement("S34")
@pytest.mark.parametrize("owner", ["ab", "acme-inc", "an-owner-of-a-common-length", "x" * 20 + "y" * 19])
def test_looking_for_look_alikes_takes_few_keys_however_many_skills_there_are(owner):
    assert len(owner_keys(f"{owner}/skills/pdf")) <= 4 * len(owner) + 3
    assert len(owner_puts(f"{owner}/skills/pdf")) <= len(owner) + 2
