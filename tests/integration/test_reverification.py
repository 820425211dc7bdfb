"""The same skill again: other commits, other names, other rules, and what a scan cannot see."""

import msgspec
import pytest

from shared.errors import BadGateway, Conflict, Unprocessable
from shared.evidence import blocklist
from shared.evidence.receipt_store import find_receipt
from shared.marketplace.skill_store import find_skill
from shared.moderation import submission_decisions
from shared.records.submissions import State, Submission
from shared.storage.documents import encode
from shared.storage.secret_store import AdminToken
from shared.submissions import discovery, intake
from shared.submissions.submission_store import get_submission, submission_key
from tests.support.builders import an_unusable_bundle, processed
from tests.support.invariants import check_invariants
from tests.support.memory import memory_env, within
from tests.support.stub_github import StubGitHub

URL = "https://github.com/acme/skills"
ANNA = AdminToken("anna", "admin", "")


def skill_md(name: str, text: str = "Read the file, then sum it up.") -> str:
    return f"---\nname: {name}\ndescription: Helps with {name} files.\n---\n\n# {name}\n\n{text}\n"


PDF = {"skills/pdf/SKILL.md": skill_md("pdf")}


@pytest.fixture
def stub():
    with StubGitHub() as github:
        yield github


@pytest.fixture
async def env(stub):
    env = memory_env(github_api_url=stub.url)
    yield env
    await env.github.close()


async def submit(env, url=URL, name=None, path=None):
    return await within(env, lambda: intake.submit_repo(url, name, path, None, None))


async def verified(env, url=URL, name=None, path=None):
    accepted = await submit(env, url, name, path)
    await processed(env, accepted.submission)
    return await record(env, accepted.submission)


async def submit_unchecked(env, stub, path):
    """GitHub is down meanwhile, so that only the worker says what is wrong with it."""
    stub.fail("any", "500")
    accepted = await submit(env, path=path)
    stub.fail("any", None)
    return accepted


async def verified_unchecked(env, stub, path):
    accepted = await submit_unchecked(env, stub, path)
    await processed(env, accepted.submission)
    return await record(env, accepted.submission)


async def record(env, submission):
    return await within(env, lambda: get_submission(submission.id))


def rules_change(env, submission):
    """As if it had been decided under an older rule set."""
    stored = env.kv.items[submission_key(submission.id)]
    older = msgspec.structs.replace(msgspec.json.decode(stored.doc, type=Submission), rule_set="older")
    stored.doc = encode(older)


async def test_every_commit_is_remembered_so_the_same_one_is_never_queued_twice(env, stub):
    repo = stub.repo("acme/skills", PDF)
    await verified(env, path="skills/pdf")
    head = repo.commit({"skills/pdf/SKILL.md": skill_md("pdf", "Better.")})
    again = await verified(env, path="skills/pdf")
    assert (again.state, again.commit, again.published_version) == (State.PUBLISHED, head, "1.0.1")
    assert (await submit(env, path="skills/pdf")).flag == "alreadyVerified"
    skill = await within(env, lambda: find_skill("acme/skills/pdf"))
    receipt = await within(env, lambda: find_receipt(again))
    assert skill.commit == receipt.commit == head


async def test_new_commits_with_the_same_content_make_no_new_version(env, stub):
    repo = stub.repo("acme/skills", PDF)
    first = await verified(env, path="skills/pdf")
    head = repo.commit({**PDF, "README.md": "Read me."})
    again = await submit(env, path="skills/pdf")
    assert again.flag == "requeued"
    await processed(env, again.submission)
    after = await record(env, first)
    assert (after.state, after.published_version, after.commit) == (State.PUBLISHED, "1.0.0", head)
    assert (await submit(env, path="skills/pdf")).flag == "alreadyVerified"
    check_invariants(env.kv)


@pytest.mark.parametrize("files", [{"README.md": "x"}, {"skills/pdf/SKILL.md": "# no front matter\n"}])
async def test_what_was_rejected_has_the_same_verdict_until_a_new_commit(env, stub, files):
    repo = stub.repo("acme/skills", files)
    rejected = await verified_unchecked(env, stub, "skills/pdf")
    assert (rejected.state, rejected.commit) == (State.REJECTED, repo.branches["main"])
    with pytest.raises(Unprocessable, match=r"no SKILL\.md|SKILL\.md cannot be used"):
        await submit(env, path="skills/pdf")
    assert await record(env, rejected) == rejected
    repo.commit(PDF)
    assert (await verified(env, path="skills/pdf")).state == State.PUBLISHED


async def test_an_unusable_skill_leaves_its_receipt_and_cannot_be_approved(env, stub):
    stub.repo("acme/skills", {"skills/pdf/SKILL.md": "# no front matter\n"})
    rejected = await verified_unchecked(env, stub, "skills/pdf")
    receipt = await within(env, lambda: find_receipt(rejected))
    assert receipt.report.front_matter.errors
    assert "SKILL.md cannot be used" in rejected.reason
    assert rejected.score is None, "a good score beside a rejection would mislead"
    with pytest.raises(Conflict, match="no usable name"):
        await within(env, lambda: submission_decisions.approve(rejected.id, ANNA, "looks fine"))


async def test_what_was_rejected_is_queued_again_when_the_rules_change(env, stub):
    stub.repo("acme/skills", {"skills/pdf/SKILL.md": "# no front matter\n"})
    rejected = await verified_unchecked(env, stub, "skills/pdf")
    bundle = an_unusable_bundle()
    upload = await within(env, lambda: intake.submit_bundle(bundle["name"], bundle["files"], None, None, None))
    await processed(env, upload.submission)
    rules_change(env, rejected)
    rules_change(env, upload.submission)
    assert (await submit_unchecked(env, stub, "skills/pdf")).flag == "requeued"
    again = await within(env, lambda: intake.submit_bundle(bundle["name"], bundle["files"], None, None, None))
    assert (again.flag, again.upload_token) == ("requeued", None)
    check_invariants(env.kv)


@pytest.mark.requirement("S02")
async def test_a_link_beside_the_same_files_is_not_covered_by_their_receipt(env, stub):
    repo = stub.repo("acme/skills", PDF)
    assert (await verified(env, path="skills/pdf")).state == State.PUBLISHED
    repo.commit(PDF, links={"skills/pdf/key": "/etc/passwd"})
    linked = await verified(env, path="skills/pdf")
    assert linked.state in (State.ON_HOLD, State.BLOCKED)
    assert (await within(env, lambda: find_receipt(linked))).report.incomplete
    repo.commit(PDF)  # and what is wrong with the one says nothing about the other
    assert (await verified(env, path="skills/pdf")).state == State.PUBLISHED


@pytest.mark.requirement("S02")
async def test_an_approval_of_a_link_is_for_where_it_leads(env, stub):
    repo = stub.repo("acme/skills")
    repo.commit(PDF, links={"skills/pdf/key": "notes.md"})
    held = await verified(env, path="skills/pdf")
    await within(env, lambda: submission_decisions.approve(held.id, ANNA, "leads nowhere"))
    repo.commit({**PDF, "README.md": "x"}, links={"skills/pdf/key": "notes.md"})
    same = await verified(env, path="skills/pdf")
    assert (same.state, same.cert_tier) == (State.PUBLISHED, "CERTIFIED")
    repo.commit(PDF, links={"skills/pdf/key": "/etc/passwd"})
    assert (await verified(env, path="skills/pdf")).state == held.state


async def test_a_skill_is_found_by_the_name_in_its_front_matter(env, stub):
    stub.repo("acme/skills", {"skills/a/SKILL.md": skill_md("Invoice-Reader"), "skills/b/SKILL.md": skill_md("b")})
    assert (await submit(env, name="invoice-reader")).submission.skill_path == "skills/a"
    with pytest.raises(Unprocessable, match=r"skills/a, skills/b"):
        await submit(env, name="nobody")


async def test_a_name_goes_with_a_branch(env, stub):
    repo = stub.repo("acme/skills", PDF)
    repo.commit({**PDF, "skills/csv/SKILL.md": skill_md("csv")}, branch="feature/x")
    with pytest.raises(Unprocessable, match="no single skill 'csv'"):
        await submit(env, name="csv")
    named = await submit(env, f"{URL}/tree/feature/x", name="csv")
    assert named.submission.skill_path == "skills/csv@feature/x"
    stub.fail("any", "500")
    silent = await submit(env, f"{URL}/tree/feature/x", name="pdf")
    stub.fail("any", None)
    await processed(env, silent.submission)
    after = await record(env, silent.submission)
    assert (after.state, after.skill_name) == (State.PUBLISHED, "acme/skills/pdf@feature~x")


async def test_discover_says_unknown_of_what_it_cannot_read_and_never_new(env, stub):
    stub.repo("acme/skills", PDF | {"skills/csv/SKILL.md": skill_md("csv")})
    accepted = await submit(env, path="skills/pdf")
    env.kv.items[submission_key(accepted.submission.id)].doc = "{"
    skills, _ = await within(env, lambda: discovery.discover(URL))
    statuses = {skill["path"]: (skill["status"], skill.get("submissionId")) for skill in skills}
    assert statuses == {"skills/pdf": ("unknown", accepted.submission.id), "skills/csv": ("new", None)}


async def test_readers_yield_when_the_quota_is_low_and_workers_do_not(env, stub):
    stub.repo("acme/skills", PDF)
    stub.remaining = 499
    with pytest.raises(BadGateway) as has_yielded:
        await within(env, lambda: discovery.discover(URL))
    assert has_yielded.value.code == "github_quota"
    accepted = await submit(env, name="pdf")
    assert accepted.submission.skill_path == "/name/pdf"  # accepted as it was named
    await processed(env, accepted.submission)
    after = await record(env, accepted.submission)
    assert (after.state, after.skill_path) == (State.PUBLISHED, "skills/pdf")


async def test_a_repository_under_a_former_name_is_the_same_one(env, stub):
    repo = stub.repo("acme/skills", PDF)
    stub.rename(repo, "acme/tools")
    former = await verified(env, path="skills/pdf")
    assert (former.state, former.skill_name) == (State.PUBLISHED, "acme/tools/pdf")
    again = await submit(env, "https://github.com/acme/tools", path="skills/pdf")
    assert (again.flag, again.submission.id) == ("alreadyVerified", former.id)
    repo.commit({"skills/pdf/SKILL.md": skill_md("pdf", "Better.")})
    newer = await verified(env, path="skills/pdf")
    assert (newer.id, newer.published_version) == (former.id, "1.0.1")
    check_invariants(env.kv)


async def test_a_former_name_of_what_was_submitted_already_is_a_duplicate(env, stub):
    repo = stub.repo("acme/tools", PDF)
    first = await verified(env, "https://github.com/acme/tools", path="skills/pdf")
    stub.renamed["acme/skills"] = repo
    late = await verified(env, path="skills/pdf")
    assert (late.state, first.id in late.reason) == (State.DEQUEUED, True)
    check_invariants(env.kv)


async def test_a_second_path_with_the_same_slug_is_refused_with_the_first(env, stub):
    stub.repo("acme/skills", {"a/pdf/SKILL.md": skill_md("pdf"), "b/pdf/SKILL.md": skill_md("pdf")})
    first = await verified(env, path="a/pdf")
    second = await verified(env, path="b/pdf")
    assert second.state == State.REJECTED
    assert "'a/pdf'" in second.reason
    assert first.id in second.reason


async def test_what_the_blocklist_names_is_blocked_before_github_is_asked(env, stub):
    stub.repo("acme/skills", PDF)
    accepted = await submit(env, path="skills/pdf")
    banned = ("acme/skills/pdf", "steals keys", accepted.submission.source)
    await within(env, lambda: blocklist.add_block(blocklist.entry_for(*banned)))
    stub.asked.clear()
    await processed(env, accepted.submission)
    after = await record(env, accepted.submission)
    assert (after.state, after.parked_by, after.attempts) == (State.BLOCKED, "blocklist", 0)
    assert "steals keys" in after.reason
    assert stub.asked == []
    check_invariants(env.kv)
