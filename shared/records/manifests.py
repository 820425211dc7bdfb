"""What clients read of a version without its files: its front matter, where that leaves the specification, and the
digest of every file. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

YAML, NAME, DESCRIPTION = "yaml", "name", "description"


class Deviation(msgspec.Struct, frozen=True, array_like=True):
    """From the specification of agentskills.io: the field, and what to change."""

    field: str
    problem: str


class FileDigest(msgspec.Struct, frozen=True, array_like=True):
    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str  # of the skill
    version: str
    front_matter: Mapping[str, Any] | None = None  # as YAML reads it; None: JSON has no form for it
    deviations: tuple[Deviation, ...] = ()
    files: tuple[FileDigest, ...] = ()  # empty: too many for a record
