"""Settings of a process, read once and checked before the first request. template.yaml declares each of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import InvalidSettings

STAGES = ("local", "dev", "prod")


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
    endpoint_url: str | None  # an emulator's address; None on AWS
    secrets_file: str | None  # one machine keeps its secrets in a file


def load_settings(env: Mapping[str, str] = os.environ) -> Settings:
    return Settings(
        stage=_one_of(env, "STAGE", STAGES),
        table_name=_text(env, "TABLE_NAME"),
        bucket_name=_text(env, "BUCKET_NAME"),
        queue_url=_text(env, "QUEUE_URL"),
        secret_id=_text(env, "SECRET_ID"),
        allow_uploads=_one_of(env, "ALLOW_UPLOADS", ("true", "false")) == "true",
        max_active=_whole_number(env, "MAX_ACTIVE"),
        region=_text(env, "AWS_REGION"),
        endpoint_url=env.get("AWS_ENDPOINT_URL") or None,
        secrets_file=env.get("SECRETS_FILE") or None,
    )


def _text(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise InvalidSettings(f"The environment variable {name} is missing; template.yaml sets it for every function.")
    return value


def _one_of(env: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = _text(env, name)
    if value not in allowed:
        raise InvalidSettings(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    return value


def _whole_number(env: Mapping[str, str], name: str) -> int:
    value = _text(env, name)
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0):
        raise InvalidSettings(f"{name} is {value[:20]!r}; it must be a whole number above 0.")
    return int(value)
