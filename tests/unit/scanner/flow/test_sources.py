"""What must not leave is recognised by the name of a variable, a path or a command."""

import pytest

from shared.scanner.flow.sources import command_source, path_source, variable_source
from shared.scanner.flow.values import SourceKind


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("GITHUB_TOKEN", "github"),
        ("MY_GH_PAT", "gh"),
        ("OPENAI_API_KEY", "openai"),
        ("AWS_SECRET_ACCESS_KEY", "aws"),
        ("AWS_ACCESS_KEY_ID", "aws"),
        ("DATABASE_URL", "database"),
        ("ACME_PASSWORD", ""),
        ("apiKey".upper(), ""),
    ],
)
def test_a_variable_is_a_secret_by_its_name(name: str, service: str) -> None:
    source = variable_source(name)
    assert source is not None
    assert source.service == service


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "PWD", "MAX_TOKENS", "PUBLIC_KEY", "CACHE_KEY", "KEYBOARD", "TOKENIZER", "AUTHOR", "A" * 500],
)
def test_other_variables_are_not(name: str) -> None:
    assert variable_source(name) is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("~/.ssh/id_rsa", SourceKind.CREDENTIAL),
        ("~/.s?h/id_*", SourceKind.CREDENTIAL),
        ("~/.[s]sh/config2", SourceKind.CREDENTIAL),
        ("~/.a[w]s/credentials", SourceKind.CREDENTIAL),
        ("~/.ssh", SourceKind.CREDENTIAL),
        ("/home/ana/.aws/credentials", SourceKind.CREDENTIAL),
        ("~/.aws/\0", SourceKind.CREDENTIAL),
        ("a.txt ~/.kube/config", SourceKind.CREDENTIAL),
        ("~\\.docker\\config.json", SourceKind.CREDENTIAL),
        ("@.env", SourceKind.CREDENTIAL),
        (".env.local", SourceKind.CREDENTIAL),
        ("~/Library/Application Support/Google/Chrome/Default/Cookies", SourceKind.CREDENTIAL),
        ("~/.zsh_history", SourceKind.HISTORY),
        ("/proc/self/environ", SourceKind.ENVIRONMENT),
        ("~/.claude/projects/a.jsonl", SourceKind.AGENT),
        ("/etc/passwd", SourceKind.FACTS),
    ],
)
def test_a_path_says_what_the_file_holds(path: str, kind: SourceKind) -> None:
    source = path_source(path)
    assert source is not None
    assert source.kind is kind


@pytest.mark.parametrize(
    "path", ["~/.ssh/id_rsa.pub", ".env.example", "environment.yml", "docs/ssh.md", "my.awsome", "~/.ssh/known_hosts"]
)
def test_a_path_that_only_resembles_one_does_not(path: str) -> None:
    assert path_source(path) is None


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("env", SourceKind.ENVIRONMENT),
        ("gh auth token", SourceKind.CREDENTIAL),
        ("security find-generic-password -s x -w", SourceKind.CREDENTIAL),
        ("aws configure get aws_secret_access_key", SourceKind.CREDENTIAL),
        ("printenv GITHUB_TOKEN", SourceKind.SECRET),
        ("whoami", SourceKind.FACTS),
        ("git diff HEAD", SourceKind.FILES),
    ],
)
def test_a_command_says_what_it_prints(command: str, kind: SourceKind) -> None:
    source = command_source(command.split())
    assert source is not None
    assert source.kind is kind


@pytest.mark.parametrize("command", ["env A=1 make", "echo hello", "printenv PATH", "identify a.png"])
def test_other_commands_print_nothing_that_matters(command: str) -> None:
    assert command_source(command.split()) is None
