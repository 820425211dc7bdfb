"""What was scanned, for everyone to download and read; what is blocked, for reviewers only."""

import hashlib
import io
import zipfile

import msgspec
import pytest

from functions.api import skill_files
from shared.evidence.blocklist import block_puts, entry_for
from shared.marketplace.artifacts import artifact_key
from shared.marketplace.skill_admin import block_skill, yank_version
from shared.marketplace.skill_store import get_versions, version_update
from shared.storage.content import content_hash_of
from shared.submissions.skill_source import UPLOADS
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import ADMIN_TOKEN, within
from tests.support.route_calls import call

FULL = "uploads/anonymous/greeter"
ROUTE = "GET /api/v1/skills/{proxy+}"
REVIEWER = {"authorization": f"Bearer {ADMIN_TOKEN}-reviewer"}
SCRIPT = "<script>alert(1)</script>"


async def published(env, name="greeter", **files):
    await processed(env, await submitted(env, a_bundle(name, **files)))
    return (await versions(env, name))[0]


def versions(env, name="greeter"):
    return within(env, lambda: get_versions(f"uploads/anonymous/{name}"))


async def ask(env, path, query="", headers=None, method="GET", name=FULL):
    route = ROUTE.replace("GET", method)
    address = f"{name}/versions/{path}"
    return await call(env, route, f"/api/v1/skills/x?{query}", headers=headers, method=method, proxy=address)


def code_of(response) -> tuple[int, str]:
    return response.status, response.json["error"]["code"]


@pytest.mark.parametrize(("format_", "media_type"), [("zip", "application/zip"), ("tgz", "application/gzip")])
@pytest.mark.parametrize("version", ["1.0.0", "latest"])
async def test_a_download_is_the_artifact_of_the_record(env, format_, media_type, version):
    stored = (await published(env)).artifacts[format_]
    response = await ask(env, f"{version}/download", f"format={format_}")
    assert (response.status, hashlib.sha256(response.body).hexdigest()) == (200, stored.sha256)
    assert response.headers["etag"] == f'"{stored.sha256}"'
    assert response.headers["content-type"] == media_type
    assert "content-encoding" not in response.headers
    assert response.headers["cache-control"] == "public, no-cache"
    suffix = {"zip": "zip", "tgz": "tar.gz"}[format_]
    assert response.headers["content-disposition"] == f'attachment; filename="greeter-1.0.0.{suffix}"'


async def test_a_download_without_a_format_is_a_zip_with_what_was_scanned(env):
    version = await published(env, **{"docs/ä.md": "ä"})
    body = (await ask(env, "latest/download", name="greeter")).body
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert content_hash_of(files) == version.content_hash


async def test_only_an_address_with_the_digest_is_kept_and_a_wrong_one_is_not_found(env):
    stored = (await published(env)).artifacts["tgz"]
    kept = await ask(env, "1.0.0/download", f"format=tgz&sha256={stored.sha256}")
    assert (kept.status, kept.headers["cache-control"]) == (200, "public, max-age=31536000, s-maxage=60, immutable")
    other = await ask(env, "1.0.0/download", f"format=zip&sha256={stored.sha256}")
    assert code_of(other) == (404, "digest_not_found")
    assert (await ask(env, "1.0.0/download", "sha256=short")).status == 400


async def test_who_has_it_and_who_only_looks_reads_nothing_from_the_bucket(env):
    stored = (await published(env)).artifacts["zip"]
    env.content.bodies.clear()
    etag = f'"{stored.sha256}"'
    current = await ask(env, "latest/download", headers={"if-none-match": f'"x", W/{etag}'})
    assert (current.status, current.body, current.headers["etag"]) == (304, b"", etag)
    head = await ask(env, "latest/download", method="HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", etag)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_head_is_answered_like_a_get_without_its_body(env, method):
    await published(env)
    for path in ("latest/files", "1.0.0/files/SKILL.md"):
        response = await ask(env, path, method=method)
        assert (response.status, bool(response.body)) == (200, method == "GET")


async def test_a_large_artifact_is_a_redirect_to_an_address_of_a_minute(env, monkeypatch):
    stored = (await published(env)).artifacts["zip"]
    monkeypatch.setattr(skill_files, "LARGEST_ANSWER", stored.size)
    assert (await ask(env, "1.0.0/download")).status == 200
    monkeypatch.setattr(skill_files, "LARGEST_ANSWER", stored.size - 1)
    response = await ask(env, "1.0.0/download")
    assert (response.status, response.body, response.headers["cache-control"]) == (302, b"", "no-store")
    assert response.headers["location"] == f"https://bucket.example/{artifact_key(stored.sha256)}?expires=60"


@pytest.mark.requirement("R41")
@pytest.mark.parametrize("largest", [0, 10**6])
async def test_a_flipped_byte_is_neither_served_nor_redirected_to(env, monkeypatch, largest):
    stored = (await published(env)).artifacts["zip"]
    monkeypatch.setattr(skill_files, "LARGEST_ANSWER", largest)
    body = env.content.bodies[artifact_key(stored.sha256)]
    env.content.bodies[artifact_key(stored.sha256)] = body[:-1] + bytes([body[-1] ^ 1])
    assert code_of(await ask(env, "1.0.0/download")) == (502, "artifact_damaged")


async def test_what_an_older_release_published_is_not_packaged_yet(env):
    version = await published(env)
    await env.kv.put(version_update(msgspec.structs.replace(version, artifacts={})))
    assert code_of(await ask(env, "latest/download")) == (404, "not_packaged")


async def test_files_are_listed_with_their_digest_and_whether_they_were_read(env):
    await published(env, **{"run.sh": "echo hi\n"})
    body = (await ask(env, "latest/files")).json
    assert (body["name"], body["version"]) == (FULL, "1.0.0")
    assert [file["path"] for file in body["files"]] == ["SKILL.md", "run.sh"]
    digest = hashlib.sha256(b"echo hi\n").hexdigest()
    assert body["files"][1] == {"path": "run.sh", "size": 8, "sha256": digest, "scanned": True, "skipped": None}


async def test_without_its_receipt_it_is_unknown_whether_a_file_was_read(env):
    await published(env)
    for key in [key for key in env.kv.items if key.pk.startswith("receipt:")]:
        del env.kv.items[key]
    assert (await ask(env, "latest/files")).json["files"][0]["scanned"] is None


@pytest.mark.requirement("S41")
async def test_a_script_in_a_file_is_text_that_runs_nowhere(env):
    await published(env, **{"page.html": SCRIPT})
    response = await ask(env, "1.0.0/files/page.html")
    assert (response.status, response.text) == (200, SCRIPT)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert response.headers["etag"] == f'"{hashlib.sha256(SCRIPT.encode()).hexdigest()}"'
    known = {"if-none-match": response.headers["etag"]}
    assert (await ask(env, "1.0.0/files/page.html", headers=known)).status == 304


async def test_what_is_not_text_in_utf8_is_bytes_to_keep(env):
    version = await published(env)
    files = {"SKILL.md": b"x", "a.bin": b"\xff\xfe", "nul.txt": b"a\0b"}
    env.content.files[version.content_hash] = files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shared.marketplace.published_content.content_hash_of", lambda _: version.content_hash)
        for path in ("a.bin", "nul.txt"):
            response = await ask(env, f"1.0.0/files/{path}")
            assert (response.body, response.headers["content-type"]) == (files[path], "application/octet-stream")
            assert response.headers["content-disposition"].startswith("attachment; ")


@pytest.mark.requirement("S41")
@pytest.mark.parametrize("name", ['q".md', "ä b;.md", "a\u2028b.md", "x'y%0d%0a.md"])
async def test_no_name_of_a_file_gets_into_a_header(env, name):
    version = await published(env)
    env.content.files[version.content_hash] = {name: b"x"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shared.marketplace.published_content.content_hash_of", lambda _: version.content_hash)
        response = await ask(env, f"1.0.0/files/{name}")
    assert response.status == 200
    disposition = response.headers["content-disposition"]
    assert disposition.isascii()
    assert not set(disposition.partition("filename*=")[2]) & set(' ";\r\n\\')


@pytest.mark.parametrize("path", ["../../../etc/passwd", "docs/../SKILL.md", "/SKILL.md", "skill.md", "..", "docs/"])
async def test_only_a_listed_path_is_a_file(env, path):
    await published(env, **{"docs/a.md": "x"})
    assert (await ask(env, f"1.0.0/files/{path}")).status == 404


@pytest.mark.parametrize("name", ["versions/1.0.0/files/badge", "download", "badge", "files/files"])
async def test_a_file_may_be_called_like_a_route(env, name):
    await published(env, **{name: "found"})
    for skill in (FULL, "greeter"):
        assert (await ask(env, f"1.0.0/files/{name}", name=skill)).text == "found"


async def withheld(env, how: str) -> str:
    """The code with which it is refused."""
    version = await published(env)
    if how == "blocked":
        await within(env, lambda: block_skill(FULL, "It steals keys.", "admin:ann"))
        return "skill_blocked"

    async def ban():
        entry = msgspec.structs.replace(entry_for("other", "Known.", UPLOADS), content_hash=version.content_hash)
        await env.kv.put_all((await block_puts(entry))[1])

    await within(env, ban)
    return "version_blocked"


@pytest.mark.requirement("S48")
@pytest.mark.parametrize("how", ["blocked", "banned"])
@pytest.mark.parametrize("path", ["1.0.0/download", "latest/download", "latest/files", "1.0.0/files/SKILL.md"])
async def test_blocked_content_is_served_to_reviewers_only(env, how, path):
    code = await withheld(env, how)
    for headers in ({}, {"if-none-match": "*"}):
        assert code_of(await ask(env, path, headers=headers)) == (403, code)
    assert (await ask(env, path, method="HEAD")).status == 403
    assert code_of(await ask(env, path, headers={"authorization": "Bearer wrong"})) == (401, "unauthorized")
    seen = await ask(env, path, headers=REVIEWER)
    assert (seen.status, seen.headers["cache-control"]) == (200, "no-store")


async def test_a_yanked_version_is_read_but_not_downloaded(env):
    await published(env)
    await within(env, lambda: yank_version(FULL, "1.0.0", "It is broken."))
    for version in ("1.0.0", "latest"):
        assert code_of(await ask(env, f"{version}/download")) == (403, "version_yanked")
    assert (await ask(env, "1.0.0/files/SKILL.md")).status == 200


async def test_what_is_not_there_is_not_found(env):
    await published(env)
    assert code_of(await ask(env, "9.9.9/download")) == (404, "version_not_found")
    assert code_of(await ask(env, "latest/download", name="a/b/c")) == (404, "skill_not_found")
    assert (await ask(env, "banana/download")).status == 404
    assert (await ask(env, "latest/download", "format=rar")).status == 400
