"""Whose host is it, and which secrets may it be given."""

from pathlib import Path

import pytest

from bench import hosts as host_count
from shared.scanner.hosts import HostKind, find_host, hosts_in, identity_of, registered_domain, secret_belongs_to

SKILL = identity_of(
    "quillbird-notes-helper",
    "Reads and writes notes. Works with Larkspurly accounts at notes.plumvale.io.",
    ["https://thornhollow.dev/quill", "https://github.com/quilljane/notes"],
)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("https://api.openai.com/v1/chat", HostKind.KNOWN),
        ("https://learn.microsoft.com/x", HostKind.KNOWN),
        ("https://${region}.console.aws.amazon.com/", HostKind.KNOWN),
        ("https://sts.amazonaws.com/", HostKind.KNOWN),
        ("https://api.quillbird.com/v1", HostKind.OWN),
        ("https://getquillbird.app", HostKind.OWN),
        ("https://thornhollow.dev", HostKind.OWN),
        ("wss://live.larkspurly.net/socket", HostKind.OWN),
        ("https://cdn.plumvale.io", HostKind.OWN),
        ("https://github.com/quilljane/other", HostKind.OWN),
        ("https://quillbird.workers.dev/x", HostKind.TENANT),
        ("https://a1b2.ngrok-free.app", HostKind.TENANT),
        ("https://my-bucket.s3.eu-west-1.amazonaws.com/k", HostKind.TENANT),
        ("https://abc.execute-api.us-east-1.amazonaws.com/prod", HostKind.TENANT),
        ("https://discord.com/api/webhooks/1/x", HostKind.TENANT),
        ("https://discord.com/developers", HostKind.KNOWN),
        ("https://pastebin.com/raw/abc", HostKind.TENANT),
        ("https://github.com/strangername/tool", HostKind.FORGE),
        ("git@github.com:strangername/tool.git", HostKind.FORGE),
        ("https://raw.githubusercontent.com/strangername/tool/main/x.sh", HostKind.FORGE),
        ("https://api.github.com/repos/strangername/tool/issues", HostKind.FORGE),
        ("https://api.github.com/user", HostKind.KNOWN),
        ("https://github.com/microsoft/vscode", HostKind.KNOWN),
        ("http://45.61.130.7:8080/c", HostKind.BARE),
        ("http://203.0.113.9/c", HostKind.BARE),
        ("http://0x2d3d8207/c", HostKind.BARE),
        ("http://[2a02:6b8::1]/c", HostKind.BARE),
        ("http://192.168.1.4/c", HostKind.RESERVED),
        ("http://localhost:3000", HostKind.RESERVED),
        ("http://api.internal/x", HostKind.RESERVED),
        ("https://api.example.com", HostKind.RESERVED),
        ("https://your-project.supabase.co", HostKind.RESERVED),
        ("https://exfil.example.com", HostKind.UNKNOWN),
        ("https://evil.com/x", HostKind.UNKNOWN),
        ("https://telemetry-zorbl.top/v1", HostKind.UNKNOWN),
        ("https://openai.zorbl.top/v1", HostKind.UNKNOWN),
        ("https://api.openai.com@zorbl.top/v1", HostKind.UNKNOWN),
        ("https://api.openai.com.zorbl.top/v1", HostKind.UNKNOWN),
    ],
)
def test_a_host_has_one_kind(address: str, kind: HostKind) -> None:
    host = find_host(address, SKILL)
    assert host is not None
    assert host.kind is kind


@pytest.mark.parametrize(
    "address", ["https://$HOST/x", "https://{base_url}/x", "", "https://", "see the page", "https://api.$DOMAIN/v1"]
)
def test_an_address_that_does_not_say_which_host_has_none(address: str) -> None:
    assert find_host(address) is None


def test_words_that_say_what_a_skill_does_make_no_host_its_own() -> None:
    skill = identity_of("data-sync-tool", "Uses the Update Server to sync data.")
    assert find_host("https://datasync.top", skill).kind is HostKind.UNKNOWN
    assert find_host("https://update.zone", skill).kind is HostKind.UNKNOWN
    assert find_host("https://sync.data.top", skill).kind is HostKind.UNKNOWN


def test_a_shared_domain_in_a_description_makes_no_tenant_the_skills_own() -> None:
    skill = identity_of("notes", "Deploys to workers.dev and pastebin.com.", ["https://notes.vercel.app"])
    assert find_host("https://x.workers.dev", skill).kind is HostKind.TENANT
    assert find_host("https://pastebin.com/raw/1", skill).kind is HostKind.TENANT
    assert find_host("https://other.vercel.app", skill).kind is HostKind.TENANT


def test_local_and_catching_hosts_are_marked() -> None:
    assert find_host("http://127.0.0.1:5000").local
    assert not find_host("https://api.example.com").local
    assert find_host("https://webhook.site/abc").catcher
    assert find_host("https://x.oast.fun").catcher
    assert not find_host("https://app.vercel.app").catcher
    assert all(
        find_host(f"https://{name}").catcher for name in ("evil.example.com", "c2.fast-notes.dev", "x.attacker.io")
    )
    assert not any(find_host(f"https://{name}").catcher for name in ("devil.fast-notes.dev", "c2pa.org", "medieval.io"))


@pytest.mark.parametrize(
    ("secret", "address", "belongs"),
    [
        ("GITHUB_TOKEN", "https://api.github.com/user", True),
        ("GH_TOKEN", "https://github.com/strangername/tool", True),
        ("OPENAI_API_KEY", "https://api.openai.com/v1", True),
        ("openaiApiKey", "https://api.openai.com/v1", True),
        ("QUILLBIRD_TOKEN", "https://api.quillbird.com", True),
        ("MELON_ORCHARD_KEY", "https://api.melonorchard.net", True),
        ("SUPABASE_SERVICE_KEY", "https://abc.supabase.co/rest", True),
        ("TELEGRAM_BOT_TOKEN", "https://api.telegram.org/bot1/sendMessage", True),
        ("AWS_SECRET_ACCESS_KEY", "https://sts.amazonaws.com", True),
        ("GITHUB_TOKEN", "https://api.telegram.org/bot1/sendMessage", False),
        ("GITHUB_TOKEN", "https://api.openai.com", False),
        ("GITHUB_TOKEN", "https://github.zorbl.top", False),
        ("OPENAI_API_KEY", "https://openai.top/v1", False),
        ("WEBHOOK_TOKEN", "https://webhook.site/abc", False),
        ("NGROK_TOKEN", "https://abc.ngrok.io", False),
        ("API_KEY", "https://zorbl.top", False),
        ("SYNC_TOKEN", "https://sync.top", False),
        ("TOKEN", "http://45.61.130.7/c", False),
    ],
)
def test_a_secret_belongs_to_the_service_it_is_named_after(secret: str, address: str, belongs: bool) -> None:
    assert secret_belongs_to(secret, find_host(address)) is belongs


def test_all_hosts_of_a_text_are_found_in_order() -> None:
    text = "See https://github.com/strangername/x, then `curl http://45.61.130.7/a` and <https://pypi.org/project/y>."
    assert [host.name for host in hosts_in(text)] == ["github.com", "45.61.130.7", "pypi.org"]


def test_the_registered_domain_has_a_part_more_in_some_countries() -> None:
    assert registered_domain("api.shop.co.uk") == "shop.co.uk"
    assert registered_domain("a.b.zorbl.top") == "zorbl.top"


def test_names_are_counted_once_per_collection_and_only_in_ordinary_skills(tmp_path: Path) -> None:
    rows = ["path,visibility,source"]
    for number, (visibility, source) in enumerate(
        [("normal", "Bench-one"), ("normal", "Bench-two"), ("normal", "other__skills"), ("overt", "third__skills")]
    ):
        folder = tmp_path / "corpus" / str(number)
        folder.mkdir(parents=True)
        shared = "https://wide.zorbl.top/a http://10.0.0.1/" if source != "Bench-one" else ""
        (folder / "SKILL.md").write_text(f"{shared} https://narrow{'' if source.startswith('Bench') else number}.top/")
        rows.append(f"{number},{visibility},{source}")
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("\n".join(rows))
    skills = list(host_count.ordinary_skills(tmp_path / "corpus", manifest, None))
    named = {(name, collection) for folder, collection in skills for name in host_count.names_in(folder)}
    assert host_count.count_hosts(named) == {"wide.zorbl.top": 2, "zorbl.top": 2}
    assert host_count.count_hosts(named, without="Bench") == {}
