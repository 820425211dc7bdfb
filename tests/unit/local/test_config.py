"""Settings, secrets and console output of `make run`."""

import contextlib
import json
import sqlite3
import stat
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from local import console
from local.backup import restore_backup, write_backup
from local.config import StartError, read_config
from local.console import readable
from local.samples import read_bundle, skill_folders
from local.store.database import VERSION
from local.store.ministack_state import newest_complete_snapshot
from local.tokens import add_admin_token, prepare_secrets


def test_defaults() -> None:
    config = read_config({})
    assert (config.port, config.samples, config.time_scale, config.endpoint) == (3000, True, 1, None)
    assert config.directory.name == ".local"
    assert config.template.name == "template.yaml"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "x"),
        ("PORT", "65536"),
        ("PORT", "1.5"),
        ("TIME_SCALE", "0"),
        ("TIME_SCALE", "nan"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_wrong_value_is_named_in_one_sentence(name: str, value: str) -> None:
    with pytest.raises(StartError, match=rf"^{name} is {value}; it must be [^\n]+\.$"):
        read_config({name: value})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com"])
def test_an_address_that_others_reach_needs_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(StartError, match=rf"^HOST is {host}, so other machines [^\n]+ TLS_CERT [^\n]+ limits"):
        read_config({"HOST": host})
    public = read_config({"HOST": host, "TRUSTED_PROXY": "192.0.2.1"})
    assert (public.is_public, public.samples) == (True, False)
    assert read_config({"HOST": host, "TRUSTED_PROXY": "192.0.2.1", "SAMPLES": "1"}).samples
    assert not any(read_config({"HOST": own}).is_public for own in ("", "127.0.0.1", "127.1.2.3", "localhost", "::1"))


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("")
    given = {"TLS_CERT": str(tmp_path / "cert.pem")}
    for key in ({}, {"TLS_KEY": str(tmp_path / "none.pem")}):
        with pytest.raises(StartError, match="TLS_CERT and TLS_KEY must name"):
            read_config({**given, **key})


def test_a_log_file_is_renamed_when_it_is_large_and_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LOG_BYTES", 1000)
    monkeypatch.setattr(console, "LOGS_KEPT", 2)
    log = console.Console("INFO", tmp_path / "platform.log")
    for number in range(100):
        log.say(f"line {number:03} of the log, which is as long as lines are")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["platform.log", "platform.log.1", "platform.log.2"]
    assert (tmp_path / "platform.log").read_text().splitlines()[-1].startswith("line 099")
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    assert log._file
    log._file.close()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"no archive", "is not a backup that can be read"), (None, "is not a backup that can be read")],
)
def test_what_is_no_backup_is_refused_and_changes_nothing(tmp_path: Path, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / "backup").write_bytes(content)
    with pytest.raises(StartError, match=why):
        restore_backup(tmp_path / "local", tmp_path / "backup")
    assert not any((tmp_path / "local").iterdir())


def test_a_damaged_database_is_not_restored_and_an_empty_folder_not_backed_up(tmp_path: Path) -> None:
    for name, content in (("platform.db", b"SQLite format 3\0" + b"x" * 5000), ("secrets.json", b"{}")):
        (tmp_path / name).write_bytes(content)
    with tarfile.open(tmp_path / "backup", "w:gz") as archive:
        archive.add(tmp_path / "platform.db", "platform.db")
        archive.add(tmp_path / "secrets.json", "secrets.json")
    with pytest.raises(StartError, match="is damaged"):
        restore_backup(tmp_path / "local", tmp_path / "backup")
    assert not any((tmp_path / "local").iterdir())
    with pytest.raises(StartError, match="has no data; name the folder"):
        write_backup(tmp_path / "local", tmp_path / "other")


def test_data_of_a_newer_release_is_not_restored(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "platform.db")) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with tarfile.open(tmp_path / "backup", "w:gz") as archive:
        archive.add(tmp_path / "platform.db", "platform.db")
    with pytest.raises(StartError, match=f"has the format {VERSION + 1} of a newer release; this one knows {VERSION}"):
        restore_backup(tmp_path / "local", tmp_path / "backup")
    assert not any((tmp_path / "local").iterdir())


def secrets_of(directory: Path) -> dict[str, object]:
    values: dict[str, object] = json.loads((directory / "secrets.json").read_text())
    return values


def entry(name: str, role: str, token: str) -> dict[str, str]:
    return {"name": name, "role": role, "sha256": sha256(token.encode()).hexdigest()}


def test_the_local_token_stays_and_only_its_hash_is_in_the_secrets(tmp_path: Path) -> None:
    token = prepare_secrets(tmp_path, None)
    first = secrets_of(tmp_path)
    assert prepare_secrets(tmp_path, None) == token
    assert secrets_of(tmp_path) == first
    assert first["adminTokens"] == [entry("local", "admin", token)]
    assert len(str(first["signingKey"])) == 64
    for name in ("secrets.json", "admin-token"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert token not in (tmp_path / "secrets.json").read_text()


def test_a_given_token_replaces_the_local_one_and_keeps_the_others(tmp_path: Path) -> None:
    prepare_secrets(tmp_path, None)
    anna = add_admin_token(tmp_path, "anna", "reviewer")
    prepare_secrets(tmp_path, "mine")
    assert secrets_of(tmp_path)["adminTokens"] == [entry("local", "admin", "mine"), entry("anna", "reviewer", anna)]


def test_every_scanner_gets_a_secret_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    prepare_secrets(tmp_path, None, ["bandit"])
    first = secrets_of(tmp_path)["webhookSecrets"]
    prepare_secrets(tmp_path, None, ["bandit", "other"])
    prepare_secrets(tmp_path, None)
    second = secrets_of(tmp_path)["webhookSecrets"]
    assert (first.keys(), second.keys()) == ({"bandit"}, {"bandit", "other"})
    assert second["bandit"] == first["bandit"] != second["other"]
    assert min(map(len, second.values())) == 64


@pytest.mark.parametrize(("name", "role"), [("", "admin"), ("local", "admin"), ("anna", ""), ("anna", "root")])
def test_a_token_needs_a_name_and_a_known_role(tmp_path: Path, name: str, role: str) -> None:
    with pytest.raises(StartError, match="make admin-token"):
        add_admin_token(tmp_path, name, role)
    assert not (tmp_path / "secrets.json").exists()


def test_damaged_secrets_are_reported_and_kept(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(StartError, match=r"secrets\.json is damaged"):
        prepare_secrets(tmp_path, None)
    assert (tmp_path / "secrets.json").read_text() == "{"


def test_the_newest_complete_snapshot_of_an_earlier_release_is_chosen(tmp_path: Path) -> None:
    assert newest_complete_snapshot(tmp_path) is None
    whole = '{"payload": {}}'
    for name, content in (("1000", whole), ("999", whole), ("2000", '{"cut'), ("3000.partial", whole)):
        (tmp_path / name).mkdir()
        for service in ("dynamodb", "sqs", "s3"):
            (tmp_path / name / f"{service}.json").write_text(content)
    (tmp_path / "4000").mkdir()
    assert newest_complete_snapshot(tmp_path) == tmp_path / "1000"


def test_a_sample_is_every_file_of_its_folder_as_it_is(tmp_path: Path) -> None:
    skill = tmp_path / "good" / "hello"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(b"---\r\nname: hello\r\n---\r\n")
    (skill / "scripts" / "run.sh").write_text("echo hi\n")
    assert list(skill_folders(tmp_path)) == [skill]
    assert read_bundle(skill) == {
        "name": "hello",
        "files": [
            {"path": "SKILL.md", "content": "---\r\nname: hello\r\n---\r\n"},
            {"path": "scripts/run.sh", "content": "echo hi\n"},
        ],
    }


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain text", "plain text"),
        ("{not json", "{not json"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"level": "INFO", "message": "published", "id": "sub_1", "cold_start": true}', "INFO published id=sub_1"),
        ('{"level": "INFO", "message": "published", "function": "s-Pages", "functionRequest": "1"}', "INFO published"),
        ('{"level": "ERROR", "message": "no", "exception": "Trace\\n  line"}', "ERROR no\n  Trace\n    line"),
        (
            '{"log_level": "ERROR", "errorType": "ValueError", "errorMessage": "x", "stackTrace": ["  at y"]}',
            "ERROR ValueError: x\n    at y",
        ),
        ("", None),
        ('{"_aws": {}, "Published": 1}', None),
        ('{"level": "DEBUG", "message": "detail"}', None),
    ],
)
def test_what_functions_log_is_shortened_for_reading(line: str, shown: str | None) -> None:
    assert readable(line, rank=20) == shown
