"""The rule pack: YAML files compiled into one file for the scanner.

`python -m shared.scanner.build` writes the compiled file, which contains the digest of its sources: a pack that is
missing or outdated is recompiled in memory, so a read-only disk never stops a scan.
"""

import hashlib
import io
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
import yara_x

from shared.scanner import hidden_text
from shared.scanner.anchors import ANCHORS
from shared.scanner.calibration import Calibration, standing_for
from shared.scanner.flow_words import WORD_LISTS
from shared.scanner.host_table import HostTable, host_table
from shared.scanner.report import Action, Severity, Standing

RULES_DIR = Path(__file__).parent / "rules"
COMPILED_PACK = Path(__file__).parent / "rules.pack"
# A change in any other module may change verdicts, so it changes the version; these show results or run scans.
PRESENTATION = {
    "attestation.py",
    "verify.py",
    "timing.py",  # of the wheel alone, in place of the platform's
    "__init__.py",
    "__main__.py",
    "build.py",
    "terminal.py",
    "sarif.py",
    "scan_process.py",
    "scan_runner.py",
}
CALIBRATION = "calibration.yaml"
PUBLISHERS = "publishers"  # of the lists of hosts, the one where anybody publishes
RELEASE = "2026.11"
# A literal space (group 1) without a quantifier; escapes and character classes are skipped.
_SPACE_OR_OTHER = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\]){0,100}\]|( )(?![?*+{])")


class RuleError(ValueError):
    """A rule file is invalid; the message names the file and the rule."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. yara-x matches `patterns` in lower-cased text; Python code detects a rule without patterns."""

    id: str
    title: str
    category: str
    severity: Severity
    action: Action
    why: str
    fix: str
    patterns: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()  # a match that overlaps one of these does not count
    where: tuple[str, ...] = ("command", "code", "config", "prose", "hidden")
    certain: bool = False  # claimed; the calibration must bear it out
    policy: Literal["", "hidden", "unread", "unsafe", "known", "careless", "forbidden"] = (
        ""  # why figures do not matter, decision 18
    )
    documentable: bool = True  # a match in a warning or a bad example is a note
    trusted: str = ""  # the list of hosts in trusted.yaml for which a match does not count
    all_of: tuple[str, ...] = ()  # a composite: these signals must occur together ...
    within: str = ""  # ... in "line", "near" (some lines), "file", "skill" or "claim" (a script against SKILL.md)
    is_order: bool = False  # counts only in a sentence that orders it
    object: str = ""  # every match has one of this pattern in it: where there is none, nothing is looked for
    listener: Literal["", "stranger", "download"] = (
        ""  # counts only with such an address: of a stranger, to get a program
    )

    @property
    def is_directive(self) -> bool:
        return self.is_order or bool(self.listener)

    @property
    def is_sentence(self) -> bool:
        """Matches text addressed to an agent rather than commands."""
        return self.category == "prompt injection" or not {"command", "code"} & {*self.where}


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    rules: dict[str, Rule]
    trusted: dict[str, tuple[str, ...]]
    packages: dict[str, tuple[str, ...]]
    hosts: HostTable
    read_words: dict[str, frozenset[str]]  # of languages.py: frequent words of the languages that rules read ...
    read_endings: dict[str, str]  # ... what words of them look like ...
    unread_words: dict[str, frozenset[str]]  # ... and frequent words of other languages
    standings: dict[str, Standing]
    compiled: bytes
    listened: bytes  # the patterns that count only with an address near them
    objects: bytes  # what every match of some of these patterns has in it
    about_objects: bytes  # the patterns themselves
    orders: bytes  # the patterns for sentences, which authors wrap, run again over prose without its line breaks
    exclusions: bytes  # the `unless` patterns, run only over what matched
    anchors: dict[str, bytes]  # one compiled file for each, since each is searched for in other texts


def read_rules(folder: Path = RULES_DIR) -> dict[str, Rule]:
    """Rules without their examples, by id, in file order."""
    rules: dict[str, Rule] = {}
    for path, entry in rule_entries(folder):
        rule = _rule(path, {key: value for key, value in entry.items() if key != "examples"})
        if rule.id in rules:
            raise RuleError(f"{path.name}: rule {rule.id} is defined twice")
        rules[rule.id] = rule
    return rules


def rule_entries(folder: Path = RULES_DIR) -> list[tuple[Path, dict[str, Any]]]:
    entries = []
    for path in sorted(folder.glob("*.yaml")):
        document = _load_yaml(path)
        entries += [(path, {"category": document["category"], **entry}) for entry in document.get("rules", ())]
    return entries


def read_trusted(folder: Path = RULES_DIR) -> dict[str, tuple[str, ...]]:
    document = _load_yaml(folder / "trusted.yaml")
    by_path, by_name = (tuple(document["publishers"][kind].split()) for kind in ("by_path", "by_name"))
    for entry in (entry for entries in document["hosts"].values() for entry in entries):
        _refuse_publisher(entry, by_path, by_name)
    return {PUBLISHERS: (*by_path, *by_name), **{name: tuple(hosts) for name, hosts in document["hosts"].items()}}


def _refuse_publisher(entry: str, by_path: tuple[str, ...], by_name: tuple[str, ...]) -> None:
    host, _, path = entry.partition("/")
    serves_anybody = host.startswith(("s3.", "s3-")) or any(
        host == name.lstrip(".") or (name[0] == "." and host.endswith(name)) for name in by_path
    )
    if host in by_name or (serves_anybody and not path.strip("/")):
        raise RuleError(f"trusted.yaml: {entry} lists a host where anybody publishes; name the owner's path")


def read_packages(folder: Path = RULES_DIR) -> dict[str, tuple[str, ...]]:
    lists = _load_yaml(folder / "packages.yaml")
    lists = {**lists["popular"], "also_real": lists["also_real"], "known_imitations": lists["known_imitations"]}
    return {name: tuple(words.split()) for name, words in lists.items()}


def read_hosts(folder: Path = RULES_DIR) -> HostTable:
    publishers = _load_yaml(folder / "trusted.yaml")["publishers"]
    return host_table(_load_yaml(folder / "hosts.yaml"), _load_yaml(folder / "known_hosts.yaml"), publishers)


def read_calibration(folder: Path = RULES_DIR) -> Calibration:
    try:
        return msgspec.convert(_load_yaml(folder / CALIBRATION), Calibration)
    except FileNotFoundError:
        return Calibration()
    except msgspec.ValidationError as error:
        raise RuleError(f"{CALIBRATION}: {error}") from error


def standings_of(rules: dict[str, Rule], calibration: Calibration) -> dict[str, Standing]:
    return {
        rule.id: standing_for(
            calibration,
            rule.id,
            may_block=rule.action is Action.BLOCK,
            is_policy=bool(rule.policy),
            is_definition=bool(rule.policy) and rule.certain,
        )
        for rule in rules.values()
    }


def compile_pack(folder: Path = RULES_DIR) -> Pack:
    rules = read_rules(folder)
    words = _load_yaml(folder / "vocabulary.yaml")["words"]
    languages = _load_yaml(folder / "read_words.yaml")
    return Pack(
        digest=sources_digest(),
        rules=rules,
        trusted=read_trusted(folder),
        packages=read_packages(folder),
        hosts=read_hosts(folder),
        read_words=_word_sets(languages["read"]),
        read_endings={name: "".join(pattern.split()) for name, pattern in languages["endings"].items()},
        unread_words=_word_sets(languages["unread"]),
        standings=standings_of(rules, read_calibration(folder)),
        compiled=_compile({rule.id: rule.patterns for rule in rules.values() if not rule.listener}, words),
        listened=_compile(
            {rule.id: rule.patterns for rule in rules.values() if rule.listener and not rule.object}, words
        ),
        objects=_compile({rule.id: (rule.object,) for rule in rules.values() if rule.object}, words),
        about_objects=_compile({rule.id: rule.patterns for rule in rules.values() if rule.object}, words),
        orders=_compile(
            {rule.id: rule.patterns for rule in rules.values() if rule.is_directive and not rule.listener}, words
        ),
        exclusions=_compile({rule.id: rule.unless for rule in rules.values()}, words),
        anchors={name: _compiled_anchor(f"/{pattern}/ nocase") for name, pattern in ANCHORS.items()}
        | {name: _compiled_anchor(f"/{'|'.join(map(_as_pattern, words))}/") for name, words in WORD_LISTS.items()},
    )


def _word_sets(lists: dict[str, str]) -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in lists.items()}


@cache
def sources_digest() -> str:
    """Digest of the rules and of the code that evaluates them: either can change verdicts."""
    here = Path(__file__).parent
    code = {path.relative_to(here).as_posix(): path for path in here.rglob("*.py")}
    sources = {name: path for name, path in code.items() if name not in PRESENTATION}
    sources |= {path.name: path for path in RULES_DIR.glob("*.yaml")}
    digest = hashlib.sha256()
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + _source(sources[name]) + b"\0")
    return digest.hexdigest()


def _source(path: Path) -> bytes:
    """As the platform has it: in the wheel the package has another name, which changes no verdict."""
    text, own, platform = path.read_bytes(), (__package__ or "").encode(), b"shared"
    if own.startswith(platform):
        return text
    return text.replace(own + b".timing", platform + b".timing").replace(own, platform + b".scanner")


def rule_set_version() -> str:
    return f"{RELEASE}+{sources_digest()[:10]}"


@cache
def load_pack() -> Pack:
    return find_compiled_pack() or compile_pack()


def find_compiled_pack(path: Path = COMPILED_PACK) -> Pack | None:
    try:
        pack = msgspec.msgpack.decode(path.read_bytes(), type=Pack)
    except (OSError, msgspec.MsgspecError):
        return None
    return pack if pack.digest == sources_digest() else None


@cache
def load_matcher() -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().compiled))


@cache
def load_listened() -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().listened))


@cache
def load_objects() -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().objects))


@cache
def load_about_objects() -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().about_objects))


@cache
def load_orders() -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().orders))


@cache
def load_exclusions() -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().exclusions))


def write_pack(path: Path = COMPILED_PACK) -> Pack:
    pack = compile_pack()
    path.write_bytes(msgspec.msgpack.encode(pack))
    return pack


def rule_id_of(identifier: str) -> str:
    return identifier.replace("_", "-")


def _compile(patterns: dict[str, tuple[str, ...]], words: dict[str, str]) -> bytes:
    compiler = yara_x.Compiler()
    for rule_id in filter(patterns.get, patterns):
        try:
            compiler.add_source(_yara_rule(rule_id, [expand(p, words) for p in patterns[rule_id]]))
        except yara_x.CompileError as error:
            raise RuleError(f"rule {rule_id}: {error}") from error
    return _serialized(compiler.build())


def _compiled_anchor(pattern: str) -> bytes:
    return _serialized(yara_x.compile(f"rule anchor {{ strings: $p = {pattern} condition: $p }}"))


def _as_pattern(word: str) -> str:
    return "".join(c if c.isalnum() else f"\\x{ord(c):02x}" for c in word)


def _serialized(rules: yara_x.Rules) -> bytes:
    written = io.BytesIO()
    rules.serialize_into(written)
    return written.getvalue()


def _yara_rule(rule_id: str, patterns: list[str]) -> str:
    written = [_escape_slashes(loosen_spaces(folded(pattern))) for pattern in patterns]
    strings = "\n".join(f"    $p{index} = /{pattern}/" for index, pattern in enumerate(written))
    return f"rule {rule_id.replace('-', '_')} {{\n  strings:\n{strings}\n  condition:\n    any of them\n}}"


def expand(pattern: str, words: dict[str, str]) -> str:
    """Replace <word> by its entry in vocabulary.yaml; entries may use each other."""
    for _ in range(5):
        expanded = re.sub(
            r"<([a-z_]+)>", lambda m: f"({words[m.group(1)]})" if m.group(1) in words else m.group(0), pattern
        )
        if expanded == pattern:
            break
        pattern = expanded
    return pattern


def loosen_spaces(pattern: str) -> str:
    """A space in a pattern matches any white space: commands get reformatted and prose gets wrapped."""
    return _SPACE_OR_OTHER.sub(lambda m: m.group() if m.group(1) is None else r"\s+", pattern)


def folded(pattern: str) -> str:
    """A pattern reads the text that is matched, in which look-alike and accented letters are ASCII."""
    return pattern if pattern.isascii() else hidden_text.plain(pattern)


def _escape_slashes(pattern: str) -> str:
    return re.sub(r"\\.|/", lambda m: r"\/" if m.group() == "/" else m.group(), pattern)


def _rule(path: Path, entry: dict[str, Any]) -> Rule:
    try:
        return msgspec.convert(entry, Rule)
    except msgspec.ValidationError as error:
        raise RuleError(f"{path.name}: rule {entry.get('id', '?')}: {error}") from error


def _load_yaml(path: Path) -> dict[str, Any]:
    return dict(yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))  # noqa: S506
