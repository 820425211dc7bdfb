"""Every surface gives out the recorded artifact, and one write takes the skill from all of them."""

import hashlib
import io
import json
import tarfile
import zipfile
from urllib.parse import urlsplit

import pytest

from shared.evidence.blocklist import BlockEntry, add_block
from shared.storage.content import content_hash_of
from tests.support.client_skills import NAME, change, put_installable, some_files
from tests.support.memory import within
from tests.support.route_calls import call

SKILL_INDEX = "GET /{owner}/{repo}/{skill}/.well-known/agent-skills/index.json"
REPO_INDEX = "GET /{owner}/{repo}/.well-known/agent-skills/index.json"
ARTIFACT = "GET /artifacts/{owner}/{repo}/{skill}/{version}/{file}"
CLAWHUB = "/clawhub/api/v1"


async def index(env, skill: str = "pdf"):
    path = f"/acme/tools/{skill}/.well-known/agent-skills/index.json"
    return await call(env, SKILL_INDEX, path, owner="acme", repo="tools", skill=skill)


async def artifact(env, address: str, **more):
    _, _, owner, repo, skill, version, file = urlsplit(address).path.split("/")
    return await call(
        env, ARTIFACT, urlsplit(address).path, owner=owner, repo=repo, skill=skill, version=version, file=file, **more
    )


async def package(env, name: str = "@acme/tools--pdf"):
    return await call(env, "GET /npm/{proxy+}", f"/npm/{name}", proxy=name, headers={"host": "skills.example"})


async def market(env):
    return await call(env, "GET /marketplace.json", headers={"host": "skills.example"})


async def claw(env, suffix: str, **path: str):
    route = f"GET {CLAWHUB}{suffix.partition('?')[0]}"
    return await call(env, route, f"{CLAWHUB}{suffix}".replace("{slug}", path.get("slug", "")), **path)


async def rpc(env, method: str, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return (await call(env, "POST /mcp", body=body, headers={"content-type": "application/json"})).json


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


async def listings(env) -> dict[str, bool]:
    """Which surface still knows the skill."""
    listed = (await rpc(env, "skills/list"))["result"]["skills"]
    found = (await rpc(env, "tools/call", name="search_skills", arguments={"query": "pdf"}))["result"]
    shown = await claw(env, "/skills/{slug}", slug="tools--pdf")
    repo = await call(env, REPO_INDEX, "/acme/tools/.well-known/agent-skills/index.json", owner="acme", repo="tools")
    return {
        "index": (await index(env)).status == 200,
        "repository": repo.status == 200,
        "search": bool((await call(env, "GET /api/search", "/api/search?q=pdf")).json["skills"]),
        "marketplace": bool((await market(env)).json["plugins"]),
        "npm": (await package(env)).status == 200,
        "clawhub search": bool((await claw(env, "/search?q=pdf")).json["results"]),
        "clawhub list": bool((await claw(env, "/skills")).json["items"]),
        "clawhub install": shown.status == 200 and not shown.json["moderation"]["isMalwareBlocked"],
        "clawhub download": (await claw(env, "/download?slug=tools--pdf")).status == 200,
        "mcp list": bool(listed),
        "mcp search": bool(found["structuredContent"]["skills"]),
        "mcp get": "result" in await rpc(env, "skills/get", uri=f"skill://{NAME}/SKILL.md"),
        "mcp read": "result" in await rpc(env, "resources/read", uri=f"skill://{NAME}/SKILL.md"),
    }


@pytest.mark.parametrize("field", ["is_blocked", "is_yanked", "is_deleted"])
async def test_one_write_takes_a_skill_from_every_surface(env, field):
    skill = await put_installable(env)
    address = (await index(env)).json["skills"][0]["url"]
    assert all((await listings(env)).values())
    await change(env, skill, **{field: True})
    assert not any((await listings(env)).values())
    assert (await artifact(env, address)).status in (403, 404)


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


async def pinned_index(env, version: str):
    route = SKILL_INDEX.replace("{skill}", "{skill}/{version}")
    return await call(env, route, "/x", owner="acme", repo="tools", skill="pdf", version=version)


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


async def test_clawhub_does_not_verify_what_is_banned_or_yanked(env):
    skill = await put_installable(env)
    assert (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json["ok"]
    entry = BlockEntry(skill_name="x", content_hash=skill.content_hash, reason="A stealer.", discovered_at=env.clock())
    await within(env, lambda: add_block(entry))
    verified = (await claw(env, "/skills/{slug}/verify", slug="tools--pdf")).json
    assert (verified["ok"], verified["decision"], verified["artifact"]) == (False, "fail", None)
    assert "A stealer" in verified["reasons"][0]
