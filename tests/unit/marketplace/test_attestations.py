"""The signed receipt of a version, and the command that verifies it without a network."""

import base64
import json
import sys

import msgspec
import pytest

from shared.access.receipt_signing import get_public_keys
from shared.marketplace.artifacts import artifact_key, read_artifact
from shared.marketplace.attestations import read_attestation
from shared.marketplace.skill_store import get_versions, version_update
from shared.moderation.artifact_backfill import build_artifacts
from shared.scanner.__main__ import main
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import within
from tests.support.route_calls import call

FULL = "uploads/anonymous/greeter"
KEY = "first-key-of-tests-" + "k" * 32
KEYS_ROUTE = "GET /.well-known/vskill-keys.json"


@pytest.fixture
async def market(env):
    env.secrets.receipt_key = KEY
    await processed(env, await submitted(env, a_bundle("greeter", **{"run.sh": "echo hi\n"})))
    return env


async def version_of(env):
    return (await within(env, lambda: get_versions(FULL)))[0]


async def on_disk(env, folder, packaging="zip") -> list[str]:
    """The files that a person has downloaded, as arguments of the command."""
    version = await version_of(env)
    bodies = {
        "artifact": await within(env, lambda: read_artifact(version, packaging)),
        "receipt.json": await within(env, lambda: read_attestation(version)),
        "keys.json": (await call(env, KEYS_ROUTE)).body,
    }
    for name, body in bodies.items():
        (folder / name).write_bytes(body)
    return ["verify", str(folder / "artifact"), str(folder / "receipt.json"), "--keys", str(folder / "keys.json")]


def rewritten(folder, change) -> None:
    """The receipt with another statement under the old signature."""
    path = folder / "receipt.json"
    envelope = json.loads(path.read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    path.write_text(json.dumps(envelope))


async def test_the_receipt_names_the_artifacts_the_files_and_the_verdict(market):
    version = await version_of(market)
    envelope = json.loads(await within(market, lambda: read_attestation(version)))
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digests = {subject["digest"]["sha256"] for subject in statement["subject"]}
    assert digests == {artifact.sha256 for artifact in version.artifacts.values()}
    [npm] = [subject["digest"] for subject in statement["subject"] if subject["name"].endswith(".npm")]
    assert npm["sha1"] == version.artifacts["npm"].shasum
    assert f"sha512-{base64.b64encode(bytes.fromhex(npm['sha512'])).decode()}" == version.artifacts["npm"].integrity
    claims = statement["predicate"]
    assert (claims["skill"], claims["version"], claims["contentHash"]) == (FULL, "1.0.0", version.content_hash)
    assert (claims["verdict"], claims["approvedBy"], claims["inconclusive"]) == ("PASS", None, [])
    assert claims["ruleSet"] == version.metadata.rule_set
    assert [file["path"] for file in claims["files"]] == ["SKILL.md", "run.sh"]


async def test_the_api_serves_it_with_its_keys(market):
    got = await call(market, "GET /api/v1/skills/{proxy+}", proxy=f"{FULL}/versions/latest/receipt")
    version = await version_of(market)
    assert (got.status, got.body) == (200, market.content.bodies[artifact_key(version.attestation)])
    [key] = (await call(market, KEYS_ROUTE)).json["keys"]
    assert key["keyid"] == got.json["signatures"][0]["keyid"]
    assert KEY not in json.dumps(key)


@pytest.mark.parametrize("packaging", ["zip", "tgz", "npm"])
async def test_every_artifact_is_verified_and_scanned_again_offline(market, tmp_path, packaging, capsys):
    arguments = await on_disk(market, tmp_path, packaging)
    assert main(arguments) == 0
    assert main([*arguments, "--rescan"]) == 0
    assert "rescanned: PASS" in capsys.readouterr().out


async def test_one_changed_byte_is_another_artifact(market, tmp_path):
    arguments = await on_disk(market, tmp_path)
    body = (tmp_path / "artifact").read_bytes()
    (tmp_path / "artifact").write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    assert main(arguments) == 2


async def test_a_receipt_that_was_changed_or_signed_by_another_key_is_refused(market, tmp_path):
    arguments = await on_disk(market, tmp_path)
    rewritten(tmp_path, lambda statement: statement["predicate"].update(verdict="FAIL"))
    assert main(arguments) == 1
    arguments = await on_disk(market, tmp_path)
    keys = json.loads((tmp_path / "keys.json").read_text())
    keys["keys"][0]["publicKey"] = base64.b64encode(bytes(32)).decode()
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    assert main(arguments) == 1
    for text in ("{}", "", '{"payloadType": "x", "payload": "!", "signatures": []}'):
        (tmp_path / "receipt.json").write_text(text)
        assert main(arguments) == 1
    assert main([*arguments[:1], "nowhere", *arguments[2:]]) == 64


@pytest.mark.parametrize(
    "arguments", [["verify"], ["verify", "a", "b"], ["verify", "a", "b", "--keys", "k", "--other"]]
)
def test_a_wrong_command_line_is_no_verdict_about_the_bytes(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 64
    assert "Try --help." in capsys.readouterr().err


async def test_without_cryptography_the_command_says_what_to_install(market, tmp_path, monkeypatch, capsys):
    arguments = await on_disk(market, tmp_path)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert main(arguments) == 64
    assert "vskill-scanner[verify]" in capsys.readouterr().err


async def test_other_rules_and_another_verdict_have_codes_of_their_own(market, tmp_path, monkeypatch, capsys):
    arguments = [*await on_disk(market, tmp_path), "--rescan"]
    monkeypatch.setattr("shared.scanner.pack.rule_set_version", lambda: "another")
    assert main(arguments) == 4
    assert "another" in capsys.readouterr().err
    monkeypatch.undo()
    version = await version_of(market)
    monkeypatch.setattr("shared.scanner.verify.verify", lambda *_: _failed(market, version))
    assert main(arguments) == 3


def _failed(market, version):
    from shared.scanner.attestation import read_envelope, read_statement

    body = market.content.bodies[artifact_key(version.attestation)]
    return msgspec.structs.replace(read_statement(read_envelope(body).statement).predicate, verdict="FAIL")


async def test_after_a_rotation_the_old_key_stays_listed(market, tmp_path):
    market.secrets.receipt_key = KEY.upper()
    await processed(market, await submitted(market, a_bundle("another")))
    keys = await within(market, get_public_keys)
    assert len({key.keyid for key in keys}) == 2
    assert keys[0].since > keys[1].since
    assert main(await on_disk(market, tmp_path)) == 0  # by the first


async def test_what_was_published_without_a_key_gets_its_receipt_from_the_job(env):
    await processed(env, await submitted(env, a_bundle("greeter")))
    got = await call(env, "GET /api/v1/skills/{proxy+}", proxy=f"{FULL}/versions/1.0.0/receipt")
    assert (got.status, got.json["error"]["code"]) == (404, "no_receipt")
    env.secrets.receipt_key = KEY
    assert (await within(env, build_artifacts)).built == 1
    assert (await version_of(env)).attestation
    assert (await within(env, build_artifacts)).built == 0


async def test_a_version_whose_scan_is_unknown_is_packaged_without_a_receipt(market):
    version = await version_of(market)
    older = msgspec.structs.replace(version, artifacts={}, attestation="", metadata=None)
    await market.kv.put(version_update(older))
    assert (await within(market, build_artifacts)).built == 1
    assert (await within(market, build_artifacts)).built == 0
