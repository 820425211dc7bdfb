"""Where skills may come from and who may judge them: settings and addresses, checked before anything is asked."""

import pytest

from shared.errors import InvalidRequest, InvalidSettings
from shared.settings import load_settings
from shared.submissions.skill_source import parse_repo_url

REQUIRED = {
    "STAGE": "prod",
    "TABLE_NAME": "t",
    "BUCKET_NAME": "b",
    "QUEUE_URL": "q",
    "SECRET_ID": "s",
    "ALLOW_UPLOADS": "false",
    "MAX_ACTIVE": "10",
    "AWS_REGION": "us-east-1",
}


def settings(**given: str):
    return load_settings(REQUIRED | given)


def test_without_settings_the_public_github_is_read_and_the_judge_is_off():
    chosen = settings()
    assert (chosen.github_api_url, chosen.github_host) == ("https://api.github.com", "github.com")
    assert (chosen.judge, chosen.bedrock_endpoint_url, chosen.vendors) == ("none", None, frozenset())


def test_an_enterprise_host_is_where_its_repositories_are():
    assert settings(GITHUB_API_URL="https://git.corp.example/api/v3/").github_host == "git.corp.example"


def test_a_stub_on_loopback_stands_in_for_the_public_github():
    assert settings(STAGE="local", GITHUB_API_URL="http://127.0.0.1:4711").github_host == "github.com"


@pytest.mark.parametrize(
    ("given", "names"),
    [("", ()), ("bandit", ("bandit",)), (" b  a-2 b ", ("b", "a-2"))],
)
def test_external_scanners_are_named_one_by_one(given, names):
    assert settings(EXTERNAL_SCANNERS=given).external_scanners == names


@pytest.mark.parametrize(
    "wrong",
    [
        {"GITHUB_API_URL": "http://127.0.0.1:4711"},
        {"GITHUB_API_URL": "http://git.corp.example"},
        {"GITHUB_API_URL": "https://user@git.corp.example"},
        {"GITHUB_API_URL": "git.corp.example"},
        {"GITHUB_API_URL": "file:///etc"},
        {"GITHUB_CLIENT_ID": "short"},
        {"GITHUB_CLIENT_ID": "Ov23li&scope=repo&x=1"},
        {"GITHUB_CLIENT_ID": "0123456789abcdef0123456789abcdef01234567"},
        {"SECURITY_CONTACT": "security@example.org"},
        {"SECURITY_CONTACT": "http://example.org/security"},
        {"SECURITY_CONTACT": "javascript:alert(1)"},
        {"SECURITY_CONTACT": "mailto:a@b.example\nExpires: never"},
        {"VENDORS": "anthropics"},
        {"VENDORS": "acme:12 other:x"},
        {"EXTERNAL_SCANNERS": "bandit Trivy"},
        {"EXTERNAL_SCANNERS": "-bandit"},
        {"EXTERNAL_SCANNERS": "a" * 41},
        {"EXTERNAL_SCANNERS": "due:waiting#0"},
        {"JUDGE": "recorded"},
        {"JUDGE": "bedrock"},
        {"JUDGE_DAILY_BUDGET": "0"},
        {"JUDGE_MAX_BYTES": "many"},
    ],
)
def test_a_setting_that_cannot_be_meant_stops_the_start(wrong):
    with pytest.raises(InvalidSettings):
        settings(**wrong)


@pytest.mark.parametrize("stage", ["dev", "prod"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:4711", "https://judge.example", "https://amazonaws.com.evil.org"])
def test_a_recorded_judge_does_not_start_outside_one_machine(stage, url):
    with pytest.raises(InvalidSettings, match="must be an address of AWS"):
        settings(STAGE=stage, JUDGE="bedrock", JUDGE_MODEL_ID="m", BEDROCK_ENDPOINT_URL=url)


def test_a_judge_has_its_own_address():
    private = "https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com"
    assert settings(BEDROCK_ENDPOINT_URL=private).bedrock_endpoint_url == private
    assert settings(STAGE="local", BEDROCK_ENDPOINT_URL="http://127.0.0.1:1").bedrock_endpoint_url


def test_vendors_are_logins_with_their_numbers():
    assert settings(VENDORS="Acme:12  other:7").vendors == {("acme", 12), ("other", 7)}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("https://github.com/Acme/Skills", None),
        ("http://www.GitHub.com/Acme/Skills.git/", None),
        ("github.com/Acme/Skills/tree/main/skills/pdf", "main/skills/pdf"),
        ("https://github.com/Acme/Skills/tree/feature%2Fx", "feature/x"),
    ],
)
def test_the_forms_of_an_address_are_understood(text, tree):
    repo = parse_repo_url(text)
    assert (repo.url, repo.source) == ("https://github.com/Acme/Skills", "https://github.com/acme/skills")
    assert repo.tree == tree


@pytest.mark.requirement("S04")
@pytest.mark.parametrize(
    "text",
    [
        "https://github.com.evil.org/a/b",
        "https://github.com@evil.org/a/b",
        "https://user:pass@github.com/a/b",
        "https://github.com:8443/a/b",
        "https://github.com\\@evil.org/a/b",
        "https://gíthub.com/a/b",
        "https://169.254.169.254/a/b",
        "https://[::1]/a/b",
        "https://[::1/a/b",
        "http://2130706433/a/b",
        "file:///etc/passwd/b",
        "git@github.com:a/b",
        "https://github.com/a",
        "https://github.com/../b",
        "https://github.com/a/..",
        "https://github.com/a/b/blob/main/x",
        "https://github.com/a/b/tree/main/%2e%2e/x",
        "https://github.com/a/b/tree/main/%2e%2e%2fx",
        "https://github.com/uploads/b",
        "https://github.com/a%2fb/c",
    ],
)
def test_any_other_address_is_refused_with_a_sentence(text):
    with pytest.raises(InvalidRequest, match=r"Send one like https://github\.com/owner/repo") as refused:
        parse_repo_url(text)
    assert refused.value.code == "invalid_repo_url"


@pytest.mark.requirement("S04")
def test_with_an_enterprise_host_no_other_is_accepted():
    repo = parse_repo_url("https://git.corp.example/acme/skills", "git.corp.example")
    assert repo.source == "https://git.corp.example/acme/skills"
    with pytest.raises(InvalidRequest):
        parse_repo_url("https://github.com/acme/skills", "git.corp.example")
