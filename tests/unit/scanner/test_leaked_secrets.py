"""Keys left in a skill are found, redacted, and never more than a concern."""

import pytest

from shared.scanner import scan_skill
from shared.scanner.report import Verdict

HEADER = "---\nname: example\ndescription: An example.\n---\n\n"
# Put together here so that no scanner takes this file for a leak.
KEYS = {
    "AWS": "AKIA" + "Q3EGRIYNRWZ5WGXT",
    "GitHub": "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO2pHrT8",
    "Stripe": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "Slack": "xoxb-" + "263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1",
    "private key": "-----BEGIN RSA PRIVATE "
    + "KEY-----\nMIIEpAIBAAKCAQEAx4UbaDzY5xjW6hc9jwN0mX33XpTDVW7WqHp5AKaRbtAC\n",
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_real_looking_key_is_a_concern_and_is_not_repeated(kind: str) -> None:
    report = scan_skill({"SKILL.md": (HEADER + f"token: {KEYS[kind]}\n").encode()})
    assert report.verdict is Verdict.CONCERNS
    assert [f.rule for f in report.findings] == ["SECRET-LEAKED"]
    if kind != "private key":
        assert KEYS[kind] not in report.findings[0].excerpt


@pytest.mark.parametrize(
    "text", ["AKIAIOSFODNN7EXAMPLE", "ghp_" + "x" * 36, "sk_live_your_key_here", "-----BEGIN PRIVATE KEY-----\n...\n"]
)
def test_a_placeholder_is_not_a_leak(text: str) -> None:
    assert scan_skill({"SKILL.md": (HEADER + text).encode()}).verdict is Verdict.PASS
