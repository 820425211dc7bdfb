"""One artifact per version and packaging: built once from what was scanned, stored by digest, served only undamaged."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import zipfile

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared import telemetry
from shared.errors import DamagedArtifact, NotFound, Unavailable
from shared.marketplace.artifacts import artifact_key, read_artifact
from shared.marketplace.packaging import PACKAGINGS, npm_folder, package
from shared.marketplace.skill_store import get_versions
from shared.records.skills import SkillVersion, npm_name_of
from shared.storage.content import content_hash_of
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import MemoryContent, MemoryKV, memory_env, within
from tests.support.metrics import metrics_in

FULL = "uploads/anonymous/greeter"
FILES = {"SKILL.md": b"---\nname: greeter\n---\n", "scripts/run.sh": b"echo hi\n", "ä/ö.md": b"\xff\x00"}
PARTS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\:~"), min_size=1, max_size=30)
PATHS = st.lists(PARTS.filter(lambda part: part.strip(".")), min_size=1, max_size=3).map("/".join)


def unpacked(packaging: str, body: bytes) -> dict[str, bytes]:
    if packaging == "zip":
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(body))) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def skill_files(packaging: str, body: bytes, name: str = FULL) -> dict[str, bytes]:
    files, folder = unpacked(packaging, body), npm_folder(name) if packaging == "npm" else ""
    return {path.removeprefix(folder): content for path, content in files.items() if path.startswith(folder)}


async def published(env, name="greeter", **files) -> SkillVersion:
    await processed(env, await submitted(env, a_bundle(name, **files)))
    [version] = await within(env, lambda: get_versions(f"uploads/anonymous/{name}"))
    return version


@pytest.mark.parametrize("packaging", PACKAGINGS)
async def test_every_packaging_of_a_published_version_has_the_content_that_was_scanned(env, packaging):
    version = await published(env, **{"scripts/run.sh": "echo hi\n", "docs/ä.md": "ä"})
    body = await within(env, lambda: read_artifact(version, packaging))
    assert content_hash_of(skill_files(packaging, body)) == version.content_hash
    artifact = version.artifacts[packaging]
    assert (artifact.sha256, artifact.size) == (hashlib.sha256(body).hexdigest(), len(body))


async def test_the_npm_package_is_a_plugin_that_runs_nothing(env):
    version = await published(env, **{"package.json": '{"scripts": {"postinstall": "echo hi"}}'})
    body = await within(env, lambda: read_artifact(version, "npm"))
    files = unpacked("npm", body)
    own = json.loads(files.pop("package/package.json"))
    assert own == {"name": "@uploads/anonymous--greeter", "version": "1.0.0", "description": "Greets people by name."}
    plugin = json.loads(files.pop("package/.claude-plugin/plugin.json"))
    assert (plugin["name"], plugin["version"]) == ("greeter", "1.0.0")
    assert set(files) == {"package/skills/greeter/SKILL.md", "package/skills/greeter/package.json"}
    artifact = version.artifacts["npm"]
    assert artifact.shasum == hashlib.sha1(body).hexdigest()
    assert artifact.integrity == f"sha512-{base64.b64encode(hashlib.sha512(body).digest()).decode()}"


@settings(deadline=None, max_examples=25)
@given(st.dictionaries(PATHS, st.binary(max_size=200), max_size=6))
def test_the_same_files_are_the_same_bytes_in_any_order(files):
    bodies = package(FULL, "1.0.0", "", files).bodies
    assert package(FULL, "1.0.0", "", dict(reversed(files.items()))).bodies == bodies
    for packaging, body in bodies.items():
        assert skill_files(packaging, body) == files


def test_a_tar_has_plain_files_without_extensions_times_or_owners():
    for packaging in ("tgz", "npm"):
        raw = gzip.decompress(package(FULL, "1.0.0", "", FILES).bodies[packaging])
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            members = archive.getmembers()
        assert raw[257:265] == b"ustar\x0000"
        assert {member.type for member in members} == {tarfile.REGTYPE}
        assert {(m.mtime, m.mode, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0o644, 0, 0, "", "")}
        assert not any(member.pax_headers for member in members)
        assert [member.name for member in members] == sorted(member.name for member in members)


def test_a_path_that_fits_only_in_two_fields_of_a_tar_is_packaged_and_a_longer_one_only_as_zip():
    fits = "/".join(["d" * 50] * 3) + "/" + "f" * 60
    assert set(package(FULL, "1.0.0", "", {"SKILL.md": b"", fits: b"x"}).bodies) == {"tgz", "zip"}  # npm adds a folder
    packaged = package(FULL, "1.0.0", "", {"SKILL.md": b"", "f" * 101: b"x"})
    assert set(packaged.bodies) == {"zip"}
    assert "too long for a .tar.gz" in packaged.missing


@pytest.mark.requirement("S41")
@pytest.mark.parametrize("path", ["../up", "/root", "a/../../up", "a\\b", "C:x", "~/x", "a\nb", "a/./b", "a//b", ""])
def test_what_leads_out_of_its_folder_is_in_no_packaging(path):
    packaged = package(FULL, "1.0.0", "", {"SKILL.md": b"", path: b"x"})
    assert packaged.bodies == {}
    assert "another place" in packaged.missing


def test_two_files_that_one_disk_takes_for_one_are_in_no_packaging():
    assert package(FULL, "1.0.0", "", {"SKILL.md": b"", "a.md": b"1", "A.md": b"2"}).bodies == {}


@pytest.mark.parametrize(
    ("name", "npm_name"),
    [
        ("Owner/Repo/skill", "@owner/repo--skill"),
        ("uploads/anonymous/greeter", "@uploads/anonymous--greeter"),
        ("greeter", "@uploads/anonymous--greeter"),
        ("o/r/s@main~x", None),
        ("o/.github/s", None),
        ("o/" + "r" * 150 + "/" + "s" * 64, None),
    ],
)
def test_the_npm_name_of_a_skill(name, npm_name):
    assert npm_name_of(name) == npm_name
    assert ("npm" in package(name, "1.0.0", "", FILES).bodies) == (npm_name is not None)


@pytest.mark.requirement("R41")
@pytest.mark.parametrize("packaging", PACKAGINGS)
async def test_a_flipped_byte_is_noticed_counted_and_never_served(env, packaging, capsys):
    version = await published(env)
    key = artifact_key(version.artifacts[packaging].sha256)
    body = bytearray(env.content.bodies[key])
    body[len(body) // 2] ^= 1
    env.content.bodies[key] = bytes(body)
    with pytest.raises(DamagedArtifact):
        await within(env, lambda: read_artifact(version, packaging))
    telemetry.flush()
    assert metrics_in(capsys.readouterr().out)["DamagedArtifacts"] == 1


async def test_an_artifact_that_is_lost_is_our_fault_and_one_that_was_never_built_is_not_found(env):
    version = await published(env)
    env.content.bodies.clear()
    with pytest.raises(Unavailable):
        await within(env, lambda: read_artifact(version, "zip"))
    older = msgspec.structs.replace(version, artifacts={})
    with pytest.raises(NotFound, match="not been packaged yet") as refused:
        await within(env, lambda: read_artifact(older, "zip"))
    assert refused.value.code == "not_packaged"


async def test_a_record_of_an_older_release_has_no_artifacts_and_is_read(env):
    version = await published(env)
    record = msgspec.json.decode(msgspec.json.encode(version))
    del record["artifacts"]
    assert msgspec.convert(record, SkillVersion, strict=False).artifacts == {}


class CountedKV(MemoryKV):
    requests = 0

    async def load(self, key):
        self.requests += 1
        return await super().load(key)

    async def query(self, query):
        self.requests += 1
        return await super().query(query)

    async def put(self, put):
        self.requests += 1
        await super().put(put)

    async def transact(self, build):
        self.requests += 1
        return await super().transact(build)


class CountedContent(MemoryContent):
    """Also notes how many requests the table had got when each artifact was written."""

    def __init__(self, kv):
        super().__init__()
        self.kv, self.puts = kv, []

    async def put_body(self, key, body):
        self.puts.append((key, self.kv.requests))
        await super().put_body(key, body)


async def test_artifacts_cost_one_bucket_write_each_and_no_request_to_the_table(monkeypatch):
    async def requests(is_built: bool) -> tuple[int, list]:
        env = memory_env(CountedKV)
        content = CountedContent(env.kv)
        object.__setattr__(env, "content", content)
        if not is_built:
            monkeypatch.setattr("shared.marketplace.artifacts.package", lambda *_: package("", "", "", {"..": b""}))
        await processed(env, await submitted(env))
        return env.kv.requests, content.puts

    built, puts = await requests(True)
    assert len(puts) == len({key for key, _ in puts}) == len(PACKAGINGS)
    assert (await requests(False)) == (built, [])
    assert all(requests < built for _, requests in puts)  # before the transaction that publishes
