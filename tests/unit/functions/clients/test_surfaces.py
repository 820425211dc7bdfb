"""Every surface gives out the recorded artifact, and one write takes the skill from all of them."""

import hashlib
import io
import json
import tarfile
import zipfile

import pytest

from shared.evidence.blocklist import BlockEntry, add_block
from shared.marketplace.skill_admin import yank_version
from shared.records.skills import Deprecation
from shared.storage.content import content_hash_of
from tests.support.client_skills import NAME, change, put_installable, some_files
from tests.support.client_surfaces import (
    ARTIFACT,
    SKILL_INDEX,
    artifact,
    claw,
    index,
    listings,
    market,
    market_of,
    package,
    pinned_index,
    rpc,
)
from tests.support.memory import within
from tests.support.route_calls import call


def unpacked(body: bytes, folder: str = "") -> dict[str, bytes]:
    if body[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
    return {name.removeprefix(folder): content for name, content in files.items() if name.startswith(folder)}


async def every_download(env) -> dict[str, bytes]:
    [entry] = (await index(env)).json["skills"]
    dist = (await package(env)).json["versions"]["1.0.0"]["dist"]
    return {
        "tgz": (await artifact(env, entry["url"])).body,
        "npm": (await artifact(env, dist["tarball"])).body,
        "zip": (await claw(env, "/download?slug=tools--pdf&ownerHandle=acme")).body,
    }


async def test_every_packaging_is_the_recorded_one_and_has_the_scanned_files(env):
    skill = await put_installable(env)
    [entry] = (await index(env)).json["skills"]
    for packaging, body in (await every_download(env)).items():
        folder = "package/skills/pdf/" if packaging == "npm" else ""
        assert content_hash_of(unpacked(body, folder)) == skill.content_hash
        assert f"artifact/{hashlib.sha256(body).hexdigest()}" in env.content.bodies
        if packaging == "tgz":
            assert entry["digest"] == f"sha256:{hashlib.sha256(body).hexdigest()}"


async def test_a_flipped_byte_is_never_served(env):
    await put_installable(env)
    good = await every_download(env)
    for key, body in env.content.bodies.items():
        env.content.bodies[key] = bytes([body[0] ^ 1]) + body[1:]
    bad = await every_download(env)
    assert all(b"artifact_damaged" in body for body in bad.values())
    assert "error" in await rpc(env, "resources/read", uri=f"skill://{NAME}/SKILL.md")
    assert not set(good.values()) & set(bad.values())


@pytest.mark.requirement("S38")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("is_blocked", True),
        ("is_yanked", True),
        ("is_deleted", True),
        ("changed_hands", True),
        ("withdrawn", "Not kept up."),
    ],
)
async def test_one_write_takes_a_skill_from_every_surface(env, field, value):
    skill = await put_installable(env)
    address = (await index(env)).json["skills"][0]["url"]
    assert all((await listings(env)).values())
    await change(env, skill, **{field: value})
    assert not any((await listings(env)).values())
    assert (await artifact(env, address)).status in (403, 404)


async def test_clawhub_refuses_what_changed_hands_with_the_reason_and_calls_nothing_about_it_clean(env):
    skill = await put_installable(env)
    await change(env, skill, changed_hands=True)
    for suffix in ("", "/moderation", "/versions"):
        refused = await claw(env, "/skills/{slug}" + suffix, slug="tools--pdf")
        assert refused.status == 403, suffix
        assert "changed hands" in refused.text
    assert not (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json["ok"]


@pytest.mark.parametrize("field", ["deprecated", "transferred_to"])
async def test_every_client_shows_that_a_skill_is_deprecated_or_was_transferred(env, field):
    """Wherever its protocol has room for a sentence: the list of MCP is the front matter word for word, and `find` of
    the `skills` command prints names alone."""
    notices = {
        "deprecated": Deprecation("Use another.", env.clock(), "acme/tools/csv"),
        "transferred_to": "new/home/pdf",
    }
    skill = await put_installable(env, **{field: notices[field]})
    surfaces = {
        "index": await index(env),
        "marketplace": await market(env),
        "npm": await package(env),
        "clawhub list": await claw(env, "/skills"),
        "clawhub search": await claw(env, "/search?q=pdf"),
        "clawhub show": await claw(env, "/skills/{slug}", slug="tools--pdf"),
    }
    answers = {name: answer.text for name, answer in surfaces.items()}
    found = await rpc(env, "tools/call", name="search_skills", arguments={"query": "pdf"})
    answers["mcp search"] = json.dumps(found)
    assert skill.notice
    assert [name for name, text in answers.items() if skill.notice not in text] == []


async def test_banned_content_is_gone_before_the_ban_has_reached_the_record(env):
    skill = await put_installable(env)
    address = (await index(env)).json["skills"][0]["url"]
    entry = BlockEntry(skill_name="x", content_hash=skill.content_hash, reason="A stealer.", discovered_at=env.clock())
    await within(env, lambda: add_block(entry))
    assert not any((await listings(env)).values())
    assert (await artifact(env, address)).status == 403


async def test_clawhub_gets_reports_of_malware_in_its_own_terms(env):
    skill = await put_installable(env)
    await change(env, skill, is_blocked=True, block_reason="It steals.")
    shown = (await claw(env, "/skills/{slug}?ownerHandle=acme", slug="tools--pdf")).json
    assert shown["moderation"] == {
        "isSuspicious": False,
        "isMalwareBlocked": True,
        "verdict": "malicious",
        "summary": "It steals.",
    }
    assert shown["latestVersion"] is None
    assert not (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json["ok"]


async def test_only_addresses_with_a_digest_are_immutable(env):
    await put_installable(env)
    known = await index(env)
    assert known.headers["cache-control"] == "public, no-cache"
    again = await call(
        env,
        SKILL_INDEX,
        "/acme/tools/pdf/.well-known/agent-skills/index.json",
        headers={"if-none-match": known.headers["etag"]},
        owner="acme",
        repo="tools",
        skill="pdf",
    )
    assert again.status == 304
    bytes_ = await artifact(env, known.json["skills"][0]["url"])
    assert bytes_.headers["cache-control"] == "public, max-age=31536000, s-maxage=60, immutable"
    for response in (await package(env), await market(env), await claw(env, "/download?slug=tools--pdf")):
        assert "immutable" not in response.headers["cache-control"]


async def test_an_address_with_a_version_keeps_it(env):
    first = await put_installable(env)
    [old] = (await index(env)).json["skills"]
    await put_installable(env, files=some_files("pdf", "Other."), version="1.0.1")
    assert (await pinned_index(env, "1.0.0")).json["skills"] == [old]
    assert (await index(env)).json["skills"] != [old]
    assert (await pinned_index(env, "9.9.9")).status == 404
    await change(env, first, is_blocked=True)
    assert (await pinned_index(env, "1.0.0")).status == 403


async def test_a_head_of_an_artifact_is_neither_read_nor_counted(env):
    await put_installable(env)
    address = (await index(env)).json["skills"][0]["url"]
    env.content.bodies.clear()
    before = dict(env.kv.items)
    parts = dict(zip(("owner", "repo", "skill", "version", "file"), address.split("/")[2:], strict=True))
    looked = await call(env, ARTIFACT.replace("GET", "HEAD"), address, **parts)
    digest = address.rpartition("/")[2].removesuffix(".tar.gz")
    assert (looked.status, looked.body, looked.headers["etag"]) == (200, b"", f'"{digest}"')
    assert env.kv.items == before


async def test_the_name_that_find_prints_means_the_plain_skill(env):
    await put_installable(env)
    assert (await index(env, "pdf@pdf")).json == (await index(env)).json
    assert (await index(env, "pdf@dev")).status == 404


async def test_a_skill_of_another_ref_is_on_no_surface(env):
    await put_installable(env, "acme/tools/pdf@dev", ref="dev")
    assert (await index(env, "pdf@dev")).status == 404
    assert (await market(env)).json["plugins"] == []
    assert (await rpc(env, "skills/list"))["result"]["skills"] == []
    assert (await call(env, "GET /api/search", "/api/search?q=pdf")).json["skills"] == []


async def test_only_what_conforms_is_listed_by_mcp(env):
    await put_installable(env, "acme/tools/good")
    await put_installable(env, "acme/tools/loose", some_files("loose", more="metadata: {tags: [a]}\n"))
    [listed] = (await rpc(env, "skills/list"))["result"]["skills"]
    assert listed["uri"] == "skill://acme/tools/good/SKILL.md"
    assert listed["frontmatter"] == {"name": "good", "description": "Helps with good files."}
    assert {each["uri"] for each in listed["resources"]} == {
        "skill://acme/tools/good/SKILL.md",
        "skill://acme/tools/good/notes/a%20b.md",
    }
    read = await rpc(env, "resources/read", uri="skill://acme/tools/good/notes/a%20b.md")
    assert read["result"]["contents"][0]["text"] == "Sum it up."
    assert (await index(env, "loose")).status == 200  # the `skills` command takes it


async def test_a_search_offers_only_what_its_command_installs(env):
    await put_installable(env, "acme/tools/good")
    await put_installable(env, "acme/tools/loose", some_files("loose", more="metadata: {tags: [a]}\n"))
    await put_installable(env, "acme/tools/Odd_Name", some_files("Odd_Name"))
    found = (await call(env, "GET /api/search", "/api/search")).json["skills"]
    assert {each["id"] for each in found} == {"acme/tools/good", "acme/tools/loose"}
    tool = (await rpc(env, "tools/call", name="search_skills", arguments={"query": "acme"}))["result"]
    assert {each["name"]: each["uri"] for each in tool["structuredContent"]["skills"]} == {
        "acme/tools/good": "skill://acme/tools/good/SKILL.md",
        "acme/tools/loose": None,
    }


async def test_a_file_that_becomes_too_large_for_an_answer_as_json_is_refused(env):
    await put_installable(env, files=some_files() | {"ends": b"\n" * 3_500_000, "plain": b"x" * 3_500_000})
    read = await rpc(env, "resources/read", uri=f"skill://{NAME}/ends")
    assert "too large" in read["error"]["message"]
    assert "result" in await rpc(env, "resources/read", uri=f"skill://{NAME}/plain")


async def test_no_marketplace_has_the_name_of_another(env):
    names = []
    for number, repo in enumerate(("a/b-c", "a-b/c", "a/b.c", "category/other", "tier/scanned")):
        await put_installable(env, f"{repo}/pdf", number=number)
        owner, _, last = repo.partition("/")
        for route, path in (("repository/{owner}", f"{owner}/{last}"), ("owner", owner)):
            address = f"GET /marketplace/{route}/{{file}}"
            answer = await call(env, address, "/x", owner=owner, file=f"{path.rpartition('/')[2]}.json")
            names += [answer.json["name"]]
    for kind, value in (("category", "other"), ("tier", "scanned")):
        answer = await call(env, f"GET /marketplace/{kind}/{{file}}", "/x", file=f"{value}.json")
        names += [answer.json["name"]]
    assert len({*names}) == len(names) - 1  # that of the owner `a` twice


async def test_the_first_published_keeps_an_npm_name_even_when_it_is_deleted(env):
    first = await put_installable(env, "acme/a--b/c", number=1)
    await put_installable(env, "acme/a/b--c", some_files("b--c"), number=2)
    owner = (await package(env, "@acme/a--b--c")).json["versions"]["1.0.0"]["dist"]["tarball"]
    assert "/acme/a--b/c/" in owner
    assert [each["name"] for each in (await market(env)).json["plugins"]] == ["acme--a--b--c"]
    assert (await claw(env, "/skills/{slug}?ownerHandle=acme", slug="a--b--c")).status == 409
    await change(env, first, is_deleted=True)
    assert (await package(env, "@acme/a--b--c")).status == 404


async def test_a_clawhub_slug_of_two_owners_needs_the_owner(env):
    await put_installable(env, "acme/tools/pdf")
    await put_installable(env, "bolt/tools/pdf", some_files("pdf", "Another."))
    assert (await claw(env, "/skills/{slug}", slug="tools--pdf")).status == 409
    assert (await claw(env, "/skills/{slug}", slug="pdf")).status == 409
    shown = await claw(env, "/skills/{slug}?ownerHandle=bolt", slug="tools--pdf")
    assert shown.json["owner"] == {"handle": "bolt"}


async def test_an_upload_has_a_package_too(env):
    await put_installable(env, "uploads/anonymous/pdf", repo_url=None)
    assert (await package(env, "@uploads/anonymous--pdf")).status == 200


async def resolved(env, hash_: str):
    return (await claw(env, f"/resolve?slug=tools--pdf&hash={hash_}")).json


async def test_clawhub_learns_which_version_its_files_are(env):
    paths = ("SKILL.md", "a-b.md", "a/b.md", "A_b.md", "a b.md", "ab.md", "b1.md", "b10.md", ".hidden")
    files = {path: f"{path}!".encode() for path in paths} | some_files()
    await put_installable(env, files=files)
    # In the order that JavaScript's localeCompare gives.
    ordered = ("a b.md", "A_b.md", "a-b.md", "a/b.md", "ab.md", "b1.md", "b10.md", "notes/a b.md", "SKILL.md")
    lines = "\n".join(f"{path}:{hashlib.sha256(files[path]).hexdigest()}" for path in ordered)
    known = await resolved(env, hashlib.sha256(lines.encode()).hexdigest())
    assert known == {"match": {"version": "1.0.0"}, "latestVersion": {"version": "1.0.0"}}
    assert (await resolved(env, "0" * 64))["match"] is None


@pytest.mark.parametrize("path", ["ä.md", "a\x7fb.md", "a\nb"])
async def test_clawhub_does_not_guess_the_order_of_other_letters(env, path):
    await put_installable(env, files=some_files() | {path: b""})
    assert (await resolved(env, ""))["match"] is None


async def test_clawhub_does_not_verify_what_is_banned(env):
    skill = await put_installable(env)
    assert (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json["ok"]
    entry = BlockEntry(skill_name="x", content_hash=skill.content_hash, reason="A stealer.", discovered_at=env.clock())
    await within(env, lambda: add_block(entry))
    verified = (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json
    assert (verified["ok"], verified["decision"], verified["artifact"]) == (False, "fail", None)
    assert "A stealer" in verified["reasons"][0]


async def test_clawhub_does_not_verify_a_yanked_version(env):
    await two_versions(env)
    await within(env, lambda: yank_version(NAME, "1.0.0", "It loses pages."))
    verified = (await claw(env, "/skills/{slug}/verify?version=1.0.0", slug="tools--pdf")).json
    assert (verified["ok"], verified["decision"], verified["artifact"]) == (False, "fail", None)
    assert "It loses pages" in verified["reasons"][0]
    assert (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json["ok"]


VERSION_MARKET = "version/{owner}/{repo}/{skill}/{file}"


async def two_versions(env) -> str:
    """The address of the artifact of the first."""
    await put_installable(env)
    address = (await index(env)).json["skills"][0]["url"]
    await put_installable(env, files=some_files("pdf", "Other."), version="1.0.1", versions=2)
    return address


async def of_version(env, version: str) -> dict[str, bool]:
    """Which surface still gives this version."""
    named, slug = f"?version={version}", {"slug": "tools--pdf"}
    listed = (await claw(env, "/skills/{slug}/versions", **slug)).json["items"]
    shown = await claw(env, "/skills/{slug}/versions/{version}", **slug, version=version)
    return {
        "index": (await pinned_index(env, version)).status == 200,
        "marketplace": (await market_of(env, VERSION_MARKET, file=f"{version}.json")).status == 200,
        "npm": version in (await package(env)).json["versions"],
        "clawhub versions": version in [each["version"] for each in listed],
        "clawhub version": shown.status == 200,
        "clawhub file": (await claw(env, f"/skills/{{slug}}/file{named}&path=SKILL.md", **slug)).status == 200,
        "clawhub download": (await claw(env, f"/download{named}&slug=tools--pdf")).status == 200,
        "clawhub verify": (await claw(env, f"/skills/{{slug}}/verify{named}", **slug)).json["ok"],
    }


async def test_yanking_one_version_takes_it_from_every_surface_and_leaves_the_other(env):
    address = await two_versions(env)
    assert all((await of_version(env, "1.0.0")).values())
    await within(env, lambda: yank_version(NAME, "1.0.0", "It loses pages."))
    assert not any((await of_version(env, "1.0.0")).values())
    assert all((await of_version(env, "1.0.1")).values())
    assert (await artifact(env, address)).status == 403
    assert (await artifact(env, (await index(env)).json["skills"][0]["url"])).status == 200


async def test_yanking_the_current_version_makes_the_one_before_current_on_every_surface(env):
    await two_versions(env)
    await within(env, lambda: yank_version(NAME, "1.0.1", "It loses pages."))
    assert not any((await of_version(env, "1.0.1")).values())
    assert (await package(env)).json["dist-tags"] == {"latest": "1.0.0"}
    assert [plugin["version"] for plugin in (await market(env)).json["plugins"]] == ["1.0.0"]
    assert (await claw(env, "/skills/{slug}", slug="tools--pdf")).json["latestVersion"]["version"] == "1.0.0"
    [entry] = (await index(env)).json["skills"]
    assert "/1.0.0/" in entry["url"]
    read = await rpc(env, "resources/read", uri=f"skill://{NAME}/SKILL.md")
    assert "Sum it up." in read["result"]["contents"][0]["text"]


async def test_clawhub_pages_through_the_versions(env):
    for patch in range(5):
        await put_installable(env, files=some_files("pdf", f"Text {patch}."), version=f"1.0.{patch}")
    seen, cursor = [], ""
    while cursor is not None:
        path = "/skills/{slug}/versions?limit=2" + (f"&cursor={cursor}" if cursor else "")
        page = (await claw(env, path, slug="tools--pdf")).json
        seen.append([each["version"] for each in page["items"]])
        cursor = page["nextCursor"]
    assert seen == [["1.0.4", "1.0.3"], ["1.0.2", "1.0.1"], ["1.0.0"]]
