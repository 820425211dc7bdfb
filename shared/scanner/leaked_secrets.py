"""Keys left in a skill, found by the structured plugins of detect-secrets, which know the key format of one provider.
Heuristic plugins (entropy, keywords) raise false alarms on documentation. A leak is carelessness, not malice, so it is
never more than a concern."""

import re
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec

from shared.scanner.matching import Hit

# Module and class of each structured plugin. Loaded on the first line that looks like a key: importing costs 0.2 s.
PLUGINS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "mailchimp": "MailchimpDetector",
    "npm": "NpmDetector",
    "openai": "OpenAIDetector",
    "private_key": "PrivateKeyDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
PLACEHOLDER = re.compile(
    r"example|placeholder|your[-_]?|xxx|dummy|fake|sample|test|redacted|changeme|replace|insert|\.\.\.|<|>|123456|abcdef"
    r"|00000|aaaa|deadbeef|foo|bar\b",
    re.IGNORECASE,
)
MAX_LINE = 1000


class Leak(msgspec.Struct, frozen=True):
    kind: str
    line: int
    excerpt: str


def find_leaks(candidates: list[Hit], lines: list[str]) -> list[Leak]:
    """`candidates` are the lines where the rule pack matched the beginning of a key."""
    leaks = []
    for number in sorted({hit.line for hit in candidates}):
        leaks += _leaks_in(lines[number - 1], number, lines)
    return leaks


def _leaks_in(text: str, number: int, lines: list[str]) -> list[Leak]:
    following = lines[number : number + 2]
    found = (
        Leak(str(plugin.secret_type), number, redact(text, match.group()))
        for plugin in _plugins()
        for pattern in plugin.denylist
        for match in pattern.finditer(text[:MAX_LINE])
        if not _is_placeholder(match.group(), text, following)
    )
    return list(islice(found, 1))


def redact(text: str, secret: str) -> str:
    """Enough to find the place, not enough to use the key."""
    shown = " ".join(text[:MAX_LINE].replace(secret, f"{secret[:4]}…[redacted]").split())
    return shown[:120]


def _is_placeholder(secret: str, text: str, following: list[str]) -> bool:
    if secret.startswith("-----BEGIN") or "PRIVATE KEY" in secret:
        body = " ".join([text.partition("-----BEGIN")[2], *following])
        return not re.search(r"[A-Za-z0-9+/]{40}", body) or bool(re.search(r"\.\.\.|example|your", body, re.IGNORECASE))
    return bool(PLACEHOLDER.search(secret)) or len(set(secret)) < 10


@cache
def _plugins() -> tuple[Any, ...]:
    return tuple(getattr(import_module(f"detect_secrets.plugins.{module}"), name)() for module, name in PLUGINS.items())
