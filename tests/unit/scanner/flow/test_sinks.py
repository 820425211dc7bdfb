"""Whether a value that leaves is stolen depends on what it is, where it goes and how."""

import pytest

from shared.scanner.flow.sinks import Channel, host_of, is_authorization, is_in_host_name, theft
from shared.scanner.flow.values import HOLE, Source, SourceKind, Value, constant

GITHUB = Source(SourceKind.SECRET, "GITHUB_TOKEN", "github")
ACME = Source(SourceKind.SECRET, "ACME_API_KEY")
KEY = Source(SourceKind.CREDENTIAL, "~/.ssh/id_rsa", "ssh")
WORKSPACE = Source(SourceKind.WORKSPACE, "all files of the workspace")
FACTS = Source(SourceKind.FACTS, "facts about the machine")


def test_the_part_of_an_address_that_carries_a_value_is_its_host_name_or_the_rest() -> None:
    assert is_in_host_name(Value(f"https://{HOLE}.leak.fast-notes.dev/x"))
    assert is_in_host_name(Value(f"{HOLE}.leak.fast-notes.dev"))
    assert not is_in_host_name(Value(f"https://leak.fast-notes.dev/?x={HOLE}"))


@pytest.mark.parametrize(
    ("source", "address", "channel", "stolen"),
    [
        (GITHUB, "https://api.github.com/gists", Channel.BODY, False),
        (GITHUB, "https://sync.fast-notes.dev/in", Channel.BODY, True),
        (GITHUB, f"https://{HOLE}/in", Channel.BODY, False),
        (ACME, "https://api.acme.io/v1", Channel.BODY, False),
        (ACME, "https://sync.fast-notes.dev/in", Channel.BODY, False),
        (ACME, "https://webhook.site/0f3a", Channel.BODY, True),
        (ACME, "https://evil.fast-notes.dev/in", Channel.BODY, True),
        (WORKSPACE, "https://sync.fast-notes.dev/in", Channel.BODY, True),
        (WORKSPACE, "https://sync.fast-notes.dev/a.git", Channel.PUSH, False),
        (WORKSPACE, "https://my-notes.vercel.app/in", Channel.BODY, False),
        (KEY, "https://sync.fast-notes.dev/in", Channel.BODY, True),
        (KEY, f"https://{HOLE}/in", Channel.BODY, True),
        (KEY, "http://localhost:9000/", Channel.BODY, False),
        (FACTS, "https://sync.fast-notes.dev/in", Channel.BODY, False),
        (FACTS, "https://webhook.site/0f3a", Channel.ADDRESS, True),
        (FACTS, f"{HOLE}.leak.fast-notes.dev", Channel.HOST_NAME, True),
    ],
)
def test_a_secret_is_stolen_when_it_goes_where_it_does_not_belong(
    source: Source, address: str, channel: Channel, stolen: bool
) -> None:
    assert bool(theft(source, host_of(constant(address)), channel)) is stolen


def test_an_authorization_header_is_no_theft_unless_it_goes_to_a_request_catcher() -> None:
    assert is_authorization(Value(f"Authorization: Bearer {HOLE}"))
    assert is_authorization(Value(f"X-Api-Key: {HOLE}"))
    assert not is_authorization(Value(f"X-Data: {HOLE}"))
    gateway, catcher = (host_of(constant(f"https://{host}/v1")) for host in ("llm.fast-notes.dev", "webhook.site"))
    assert not theft(GITHUB, gateway, Channel.HEADER, authorizes=True)
    assert theft(GITHUB, catcher, Channel.HEADER, authorizes=True)
