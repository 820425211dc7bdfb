"""What the docs name exists: pages, links, anchors, files, functions, make targets, commands and routes."""

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from functions.api.contract import operations
from functions.http.routes import is_at
from local.__main__ import HELP
from shared.records.submissions import LEGAL_MOVES, State

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "bench").rglob("*.md")),
]
FOLDERS = ("functions", "shared", "local", "tests", "bench", "samples", "docs")
SHELL = ("sh", "bash")
OF_CLIENTS = {"orgs", "outdated"}  # commands of the registry's client, which docs/api.md lists
LANGUAGES = {"", "json", "text", "mermaid", "ini", "dockerfile", *SHELL}
FILE_NAME = re.compile(
    rf"(?:(?:{'|'.join(FOLDERS)})/[\w./*-]*|[\w.*-][\w./*-]*\.(?:py|md|yaml|toml|txt|in|json|html|css|js))"
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Link(NamedTuple):
    text: str
    path: str  # empty: this page
    anchor: str


def each_page(pages=PAGES):
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.relative_to(ROOT).as_posix())


def test_the_index_links_every_page_of_the_docs():
    linked = {(DOCS / link.path).resolve() for link in links_of((DOCS / "README.md").read_text())}
    assert [page.name for page in PAGES if DOCS in page.parents and page not in linked | {DOCS / "README.md"}] == []


def test_the_architecture_lists_every_legal_move():
    rows = re.findall(r"^\| ([A-Z0-9_, ]+) \| ([A-Z0-9_, ]+) \|$", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    listed = {State(state): set(map(State, to.split(", "))) for states, to in rows for state in states.split(", ")}
    assert listed == {state: set(moves) for state, moves in LEGAL_MOVES.items()}


def test_the_architecture_lists_every_package_and_file_of_shared_and_functions():
    named = set(code_spans((DOCS / "architecture.md").read_text()))
    packages = [path for folder in ("shared", "functions") for path in (ROOT / folder).iterdir()]
    names = {f"{path.name}/" if path.is_dir() else path.name for path in packages}
    triggers = {path.name for path in (ROOT / "functions").iterdir() if path.is_file()}
    assert sorted(names - triggers - named - {"__pycache__/"}) == []


@each_page()
def test_links_lead_to_files_headings_and_functions_that_exist(page: Path):
    broken = [link for link in links_of(page.read_text()) if not leads_somewhere(page, link)]
    assert broken == []


@each_page()
def test_files_named_in_backticks_exist(page: Path):
    assert [name for name in code_spans(page.read_text()) if FILE_NAME.fullmatch(name) and not is_file(name)] == []


@each_page([page for page in PAGES if page.name not in ("requirements.md", "CHANGELOG.md")])  # which name what is gone
def test_names_in_backticks_occur_in_the_code(page: Path):
    names = {name for name in code_spans(page.read_text()) if re.fullmatch(r"_?[A-Za-z]\w*", name)}
    assert sorted(names - words_of_code() - OF_CLIENTS) == []


@each_page()
def test_make_targets_and_python_programs_exist(page: Path):
    text = page.read_text()
    code = commands_in(text)
    assert targets_in(text) - targets() == set()
    assert [module for module in re.findall(r"\bpython3? -m ([\w.]+)", code) if not is_module(module)] == []
    assert [path for path in re.findall(r"\bpython3? ([\w./]+\.py)", code) if not (ROOT / path).exists()] == []


@each_page()
def test_code_blocks_are_of_a_language_that_is_checked(page: Path):
    assert {language for language, _ in blocks_of(page.read_text())} - LANGUAGES == set()


@each_page()
def test_shell_blocks_are_valid(page: Path):
    for language, block in blocks_of(page.read_text()):
        if language in SHELL:
            checked = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False)
            assert checked.returncode == 0, f"{block}\n{checked.stderr}"


def test_services_and_containers_start_the_platform_with_settings_that_it_knows():
    blocks = dict(blocks_of((ROOT / "docs" / "one-machine.md").read_text()))
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(blocks["ini"])
    commands = {line.partition(" ")[0]: line.partition(" ")[2] for line in blocks["dockerfile"].splitlines()}
    assert unit["Service"]["ExecStart"].endswith("/.venv/bin/python -m local")
    assert json.loads(commands["CMD"]) == [".venv/bin/python", "-m", "local"]
    for given in (unit["Service"]["Environment"], commands["ENV"]):
        names = {pair.partition("=")[0] for pair in given.split()}
        assert {name for name in names if not re.search(rf"\b{name}\b", HELP)} == set()


@each_page()
def test_curl_examples_ask_for_routes_of_the_api(page: Path):
    """Those of docs/api.md are also run, by tests/e2e/test_api_examples.py, which reads its `sh` blocks."""
    for language, block in blocks_of(page.read_text()):
        paths = re.findall(r"(?:\$URL|http://127\.0\.0\.1:3000)(/api/[^\s\"'?]*)", block)
        named = [path.replace("$SKILL", "owner/repo/skill") for path in paths]
        unknown = [path for path in named if not any(is_at(route, path) for _, route, _ in operations())]
        assert unknown == []
        assert language == "sh" or "curl" not in block, "write it as `sh`: other languages are not run"


def test_help_lists_every_target_that_the_docs_name():
    commands = {line.split()[0] for line in make("help").stdout.splitlines()}
    assert set().union(*(targets_in(page.read_text()) for page in PAGES)) <= commands <= targets()


@pytest.mark.parametrize("target", ["build-rules", "build-Dependencies"])
def test_a_build_without_a_destination_is_refused(target: str):
    run = make(target, "ARTIFACTS_DIR=")
    assert run.returncode != 0
    assert run.stderr.startswith(f"make {target} is called by `make build` with ARTIFACTS_DIR set")


# --- reading Markdown -----------------------------------------------------------------------------------------------


def blocks_of(text: str) -> list[tuple[str, str]]:
    """Language and content of every fenced block."""
    return FENCE.findall(text)


def prose_of(text: str) -> str:
    return FENCE.sub("", text)


def code_spans(text: str) -> list[str]:
    return [span.strip() for span in re.findall(r"`([^`\n]+)`", prose_of(text))]


def commands_in(text: str) -> str:
    return "\n".join([*code_spans(text), *(block for language, block in blocks_of(text) if language in SHELL)])


def targets_in(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z][\w-]*)", re.sub(r"#.*", "", commands_in(text))))


def links_of(text: str) -> Iterator[Link]:
    for name, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", prose_of(text)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield Link(name, path, anchor)


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


# --- what there is --------------------------------------------------------------------------------------------------


def leads_somewhere(page: Path, link: Link) -> bool:
    target = (page.parent / link.path).resolve() if link.path else page
    if not target.exists() or (link.anchor and link.anchor not in anchors_of(target)):
        return False
    name = re.fullmatch(r"`(\w+)(?:\(\))?`", link.text)
    return name is None or target.suffix != ".py" or name[1] in defined_in(target)


@cache
def defined_in(module: Path) -> set[str]:
    """Functions, classes and constants."""
    nodes = list(ast.walk(ast.parse(module.read_text())))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return names | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


@cache
def files() -> list[str]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return [path.relative_to(ROOT).as_posix() for path in [*found, *ROOT.iterdir()]]


def is_file(name: str) -> bool:
    """By its path, or by the end of it. What starts with a dot or is written by the runner is made at run time."""
    if name.startswith(".") or f'"{name}"' in source_of("local"):
        return True
    wanted = re.compile(r"(?:.*/)?" + re.escape(name.rstrip("/")).replace(r"\*", "[^/]*"))
    return any(wanted.fullmatch(path) for path in files())


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@cache
def source_of(folder: str) -> str:
    kinds = (".py", ".yaml", ".toml", ".html", ".js", ".txt", ".in")
    paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    return "\n".join(path.read_text() for path in paths)


@cache
def words_of_code() -> set[str]:
    roots = [
        path.read_text() for path in ROOT.iterdir() if path.name == "Makefile" or path.suffix in (".yaml", ".toml")
    ]
    texts = [source_of(folder) for folder in FOLDERS if folder not in ("docs", "samples")] + roots
    return {word for text in texts for word in re.findall(r"\w+", text)}


@cache
def targets() -> set[str]:
    """Those spelled out: the pattern `build-%` takes any name."""
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
