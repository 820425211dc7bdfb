"""Settings of a process, read once and validated before the first request. template.yaml declares each of them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from shared.errors import InvalidSettings

STAGES = ("local", "dev", "prod")
COUNTER_SHARDS = ("10", "20", "50", "100")
JUDGES = ("none", "bedrock")
GITHUB = "https://api.github.com"
LIMITED = ("submit", "check", "skills", "discover", "installs", "check-updates", "reports", "proofs", "sign-in")
_LIMIT = re.compile(r"([a-z-]+)=([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", re.ASCII)
_CLIENT_ID = re.compile(r"[A-Za-z0-9.]{16,32}", re.ASCII)
_CONTACT = re.compile(r"mailto:[^\s@<>\"]+@[A-Za-z0-9.-]+|https://[A-Za-z0-9.-]+(:[0-9]+)?(/[!-~]*)?", re.ASCII)
_SCANNER = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class Limit(NamedTuple):
    most: int
    window: timedelta


@dataclass(frozen=True, slots=True)
class Settings:
    stage: str
    table_name: str
    bucket_name: str
    queue_url: str
    secret_id: str
    allow_uploads: bool
    max_active: int
    region: str
    endpoint_url: str | None  # of an emulator; None on AWS
    secrets_file: str | None  # a file instead of Secrets Manager, when run on one machine
    github_api_url: str = GITHUB
    github_client_id: str = ""  # of the OAuth app for GitHub's device flow; empty: owners prove by a file only
    vendors: frozenset[tuple[str, int]] = frozenset()  # trusted owners: login in lower case, numeric id
    judge: str = "none"
    judge_model_id: str = ""
    judge_daily_budget: int = 1000  # judgements a day, of all workers together
    judge_max_bytes: int = 200_000
    bedrock_endpoint_url: str | None = None
    external_scanners: tuple[str, ...] = ()  # each scans what is published; each has a secret of its own
    session_secret_id: str | None = None  # of the key of admin sessions: only the admin pages have it
    session_secret_file: str | None = None  # that key when run on one machine
    owner_session_secret_id: str | None = None  # of the key of owners' sessions: only their pages have it
    owner_session_secret_file: str | None = None
    receipt_secret_id: str | None = None  # of the key that signs receipts: only functions that publish have it
    receipt_secret_file: str | None = None
    admin_token_secret_id: str | None = None  # only for functions that check admin tokens
    github_token_secret_id: str | None = None  # only for functions that ask GitHub
    webhook_secret_id: str | None = None  # only for functions that check webhooks, or ask who may send them
    limits: Mapping[str, Limit] = field(default_factory=dict)  # per IP address; a kind without an entry has no limit
    long_scan_queue_url: str | None = None  # only the consumer has it; None: a worker waits for every scan
    notification_queue_url: str | None = None  # only the function that notifies owners has it
    webhook_loopback: bool = False  # whether owners may name a webhook on this machine, over http; stage local only
    security_contact: str = ""  # of the operator: mailto:… or https://…; empty: security.txt leads to the policies
    counter_shards: int = 10  # items that count submissions; see counters.py
    address_share: int = 10  # percent of max_active that one IP address may hold, where limits are on

    @property
    def max_held(self) -> int:
        """How many active submissions one IP address may have."""
        return max(1, self.max_active * self.address_share // 100)

    @property
    def github_host(self) -> str:
        """The host in repository addresses. On loopback, a stub takes the place of the public GitHub."""
        parts = urlsplit(self.github_api_url)
        return "github.com" if self.github_api_url == GITHUB or is_loopback(parts) else str(parts.hostname)


def load_settings(env: Mapping[str, str] = os.environ) -> Settings:
    stage = _one_of(env, "STAGE", STAGES)
    judge = _one_of(env, "JUDGE", JUDGES, default="none")
    return Settings(
        stage=stage,
        table_name=_text(env, "TABLE_NAME"),
        bucket_name=_text(env, "BUCKET_NAME"),
        queue_url=_text(env, "QUEUE_URL"),
        secret_id=_text(env, "SECRET_ID"),
        allow_uploads=_one_of(env, "ALLOW_UPLOADS", ("true", "false")) == "true",
        max_active=_above_0(env, "MAX_ACTIVE"),
        region=_text(env, "AWS_REGION"),
        endpoint_url=env.get("AWS_ENDPOINT_URL") or None,
        secrets_file=env.get("SECRETS_FILE") or None,
        github_api_url=_github_url(env, stage),
        github_client_id=_client_id(env),
        vendors=frozenset(map(_vendor, env.get("VENDORS", "").split())),
        judge=judge,
        judge_model_id=_text(env, "JUDGE_MODEL_ID") if judge == "bedrock" else "",
        judge_daily_budget=_above_0(env, "JUDGE_DAILY_BUDGET", default="1000"),
        judge_max_bytes=_above_0(env, "JUDGE_MAX_BYTES", default="200000"),
        bedrock_endpoint_url=_bedrock_url(env, stage),
        external_scanners=tuple(dict.fromkeys(map(_scanner, env.get("EXTERNAL_SCANNERS", "").split()))),
        session_secret_id=env.get("SESSION_SECRET_ID") or None,
        session_secret_file=env.get("SESSION_SECRET_FILE") or None,
        owner_session_secret_id=env.get("OWNER_SESSION_SECRET_ID") or None,
        owner_session_secret_file=env.get("OWNER_SESSION_SECRET_FILE") or None,
        receipt_secret_id=env.get("RECEIPT_SECRET_ID") or None,
        receipt_secret_file=env.get("RECEIPT_SECRET_FILE") or None,
        admin_token_secret_id=env.get("ADMIN_TOKEN_SECRET_ID") or None,
        github_token_secret_id=env.get("GITHUB_TOKEN_SECRET_ID") or None,
        webhook_secret_id=env.get("WEBHOOK_SECRET_ID") or None,
        limits=_limits(env),
        long_scan_queue_url=env.get("LONG_SCAN_QUEUE_URL") or None,
        notification_queue_url=env.get("NOTIFICATION_QUEUE_URL") or None,
        webhook_loopback=_webhook_loopback(env, stage),
        security_contact=_contact(env),
        counter_shards=int(_one_of(env, "COUNTER_SHARDS", COUNTER_SHARDS, default="10")),
        address_share=_above_0(env, "ADDRESS_SHARE", default="10"),
    )


def find_whole_number(text: str | None, highest: int = 999_999_999) -> int | None:
    """ASCII digits only: `int` also reads signs, spaces, underscores and other scripts, and any length."""
    if not text or len(text) > len(str(highest)) or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= highest else None


def is_loopback(parts: SplitResult) -> bool:
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _text(env: Mapping[str, str], name: str, default: str = "") -> str:
    value = env.get(name, "").strip() or default
    if not value:
        raise InvalidSettings(f"The environment variable {name} is missing; template.yaml sets it for every function.")
    return value


def _one_of(env: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str = "") -> str:
    value = _text(env, name, default)
    if value not in allowed:
        raise InvalidSettings(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    return value


def _above_0(env: Mapping[str, str], name: str, default: str = "") -> int:
    value = _text(env, name, default)
    number = find_whole_number(value)
    if not number:
        raise InvalidSettings(f"{name} is {value[:20]!r}; it must be a whole number above 0.")
    return number


def _vendor(text: str) -> tuple[str, int]:
    login, _, digits = text.partition(":")
    number = find_whole_number(digits, highest=10**12)
    if not login or number is None:
        raise InvalidSettings(f"VENDORS has {text!r}; each is a GitHub login and its numeric id, like octocat:583231.")
    return login.lower(), number


def _scanner(text: str) -> str:
    if not _SCANNER.fullmatch(text):
        raise InvalidSettings(
            f"EXTERNAL_SCANNERS has {text[:60]!r}; a name has 1 to 40 of the characters a-z, 0-9 and `-`."
        )
    return text


def _limits(env: Mapping[str, str]) -> dict[str, Limit]:
    """RATE_LIMITS is `off`, or for each kind how many in how many seconds: `submit=10/3600 reports=5/900`."""
    value = _text(env, "RATE_LIMITS", default="off")
    return {} if value == "off" else dict(map(_limit, value.split()))


def _limit(text: str) -> tuple[str, Limit]:
    match = _LIMIT.fullmatch(text)
    if match is None or match[1] not in LIMITED:
        raise InvalidSettings(
            f"RATE_LIMITS has {text[:60]!r}; it is `off`, or like submit=10/3600 for {', '.join(LIMITED)}."
        )
    return match[1], Limit(int(match[2]), timedelta(seconds=int(match[3])))


def _github_url(env: Mapping[str, str], stage: str) -> str:
    """https://api.github.com, or https://HOST/api/v3 of a GitHub Enterprise."""
    value = _text(env, "GITHUB_API_URL", default=GITHUB).rstrip("/")
    parts = urlsplit(value)
    if not _is_plain(parts) or not (parts.scheme == "https" or _is_test_address(parts, stage)):
        raise InvalidSettings(f"GITHUB_API_URL is {value!r}; it must be an https address like {GITHUB}.")
    return value


def _client_id(env: Mapping[str, str]) -> str:
    value = env.get("GITHUB_CLIENT_ID", "").strip()
    if value and not _CLIENT_ID.fullmatch(value):
        raise InvalidSettings(
            "GITHUB_CLIENT_ID must be the client id of an OAuth app on GitHub: 16 to 32 letters, digits and dots."
            " It is not the client secret; leave it empty to switch the device flow off."
        )
    return value


def _contact(env: Mapping[str, str]) -> str:
    value = env.get("SECURITY_CONTACT", "").strip()
    if value and not _CONTACT.fullmatch(value):
        raise InvalidSettings(
            f"SECURITY_CONTACT is {value[:60]!r}; it must be like mailto:security@example.org or https://example.org/security."
        )
    return value


def _bedrock_url(env: Mapping[str, str], stage: str) -> str | None:
    """Outside stage local the judge cannot be replaced: a recorded response is not a judgement."""
    value = env.get("BEDROCK_ENDPOINT_URL", "").strip().rstrip("/")
    if not value:
        return None
    parts = urlsplit(value)
    is_aws = parts.scheme == "https" and f".{parts.hostname}".endswith((".amazonaws.com", ".amazonaws.com.cn"))
    if not _is_plain(parts) or not (is_aws or _is_test_address(parts, stage)):
        raise InvalidSettings(f"BEDROCK_ENDPOINT_URL is {value!r}; outside stage local it must be an address of AWS.")
    return value


def _webhook_loopback(env: Mapping[str, str], stage: str) -> bool:
    """On other stages a webhook on loopback would reach what runs beside the platform."""
    allows = _one_of(env, "WEBHOOK_LOOPBACK", ("true", "false"), default="false") == "true"
    if allows and stage != "local":
        raise InvalidSettings("WEBHOOK_LOOPBACK is for stage local only: unset it, or set STAGE=local.")
    return allows


def _is_plain(parts: SplitResult) -> bool:
    return bool(parts.hostname) and "@" not in parts.netloc and not parts.query and not parts.fragment


def _is_test_address(parts: SplitResult, stage: str) -> bool:
    return stage == "local" and parts.scheme == "http" and is_loopback(parts)
