"""What `make build` puts into each function and into the layer: of our code the modules that the handler imports, at
once or when they are needed, with the files these read; of the packages those that some function needs.

python -m local.bundle function NAME FOLDER      copies the code of the function NAME of template.yaml
python -m local.bundle layer FOLDER              checks and trims what pip has installed into FOLDER
"""

import ast
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.cloudformation import load
from local.config import StartError
from shared.scanner.pack import PRESENTATION

ROOT = Path(__file__).parents[1]
OURS = ("functions", "shared")
MODULE = re.compile(rf"(?:{'|'.join(OURS)})(?:\.\w+)+")
# The files that a module reads from its folder, beside its code. A test holds this against the code.
READS = {
    "shared.scanner.pack": ("shared/scanner/rules.pack", "shared/scanner/rules/*.yaml", "shared/scanner/**/*.py"),
    "shared.web.assets": ("shared/web/assets/*",),
    "shared.web.rendering": ("shared/web/templates/*",),
}
NOT_READ = {f"shared/scanner/{name}" for name in PRESENTATION}  # not part of the rule set, so not of its digest
PYTHON = {"python_version": "3.13", "python_full_version": "3.13.0"}  # the functions'
GIVEN_BY_LAMBDA = {"snapshot_restore_py"}
# What the SDK knows of services, for those that we call and those that credentials come from.
SERVICES = {"bedrock-runtime", "dynamodb", "s3", "secretsmanager", "sqs", "sso", "sso-oidc", "sts"}
# What the packages bring and no program reads; of the records, those that name the machine that built them.
NOT_RUN = (
    *("bin", "boto3/data", "boto3/examples", "*/tests", "*.dist-info/RECORD"),
    *("**/*.pyi", "**/*.pyx", "**/*.pxd", "**/*.h", "**/*.c"),
)


class BundleError(StartError):
    """The code cannot be packed; the message names the module or the package."""


def files_of(function: str) -> list[Path]:
    """Below the root: everything that this function of template.yaml needs of our code."""
    modules = modules_of(_handler_of(function))
    read = [path for name in modules for pattern in READS.get(name, ()) for path in ROOT.glob(pattern)]
    files = {path.relative_to(ROOT) for path in [*modules.values(), *read] if path.is_file()}
    return sorted(path for path in files if path.as_posix() not in NOT_READ or ROOT / path in modules.values())


def modules_of(*handlers: str) -> dict[str, Path]:
    """The modules of ours that these import, at once or later, with the packages they are in."""
    found: dict[str, Path] = {}
    waiting = list(handlers)
    while waiting:
        name = waiting.pop()
        path = find_module(name)
        if path is not None and name not in found:
            found[name] = path
            waiting += [name.rpartition(".")[0], *imports_of(path)]
    return found


def packages_used() -> set[str]:
    """The names by which our functions import what is not ours and not Python's."""
    handlers = [_handler_of(name) for name in functions()]
    imported = {name.partition(".")[0] for path in modules_of(*handlers).values() for name in imports_of(path)}
    return imported - sys.stdlib_module_names - GIVEN_BY_LAMBDA - set(OURS)


@cache
def functions() -> dict[str, str]:
    """The module of each function's handler."""
    resources = load(ROOT / "template.yaml")["Resources"]
    handlers = {name: r["Properties"].get("Handler") for name, r in resources.items() if "Properties" in r}
    return {name: handler.rpartition(".")[0] for name, handler in handlers.items() if handler}


def _handler_of(function: str) -> str:
    if function not in functions():
        raise BundleError(f"template.yaml has no function {function}.")
    return functions()[function]


def find_module(name: str) -> Path | None:
    path = ROOT / name.replace(".", "/")
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((c for c in candidates if MODULE.fullmatch(name + ".x") and c.is_file()), None)


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Names that may be modules: `from a import b` is `a` and `a.b`."""
    return frozenset(_imports(ast.parse(path.read_text("utf-8")), path))


def _imports(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        children: Iterable[ast.AST] = node.orelse
    else:
        yield from _imports_by(node, path)
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _imports(child, path)


def _imports_by(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "importlib.import_module"):
        yield _package_named_in(node.args[0], path)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
        yield node.value  # a program that another process runs


def _package_named_in(name: ast.expr, path: Path) -> str:
    """Of a name that is put together, the package it begins with: of ours it would not say which module."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    if not isinstance(parts[0], ast.Constant) or str(parts[0].value).startswith(OURS):
        raise BundleError(f"{path.relative_to(ROOT)}: cannot tell which module it imports by name.")
    return str(parts[0].value).partition(".")[0]


# --- the layer ------------------------------------------------------------------------------------------------------


def unused_packages(installed: Iterable[Distribution]) -> set[str]:
    """Those that no function imports, nor anything that is imported requires. Raises BundleError for a missing one."""
    by_name: dict[str, Distribution] = {canonicalize_name(package.name): package for package in installed}
    provided = {module: name for name, package in by_name.items() for module in _modules_of(package)}
    missing = packages_used() - provided.keys()
    if missing:
        raise BundleError(f"requirements.txt has nothing that provides {', '.join(sorted(missing))}.")
    waiting = [(provided[module], "") for module in packages_used()]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted not in seen and wanted[0] in by_name:
            seen.add(wanted)
            waiting += _required_by(by_name[wanted[0]], wanted[1])
    return by_name.keys() - {name for name, _ in seen}


def _modules_of(package: Distribution) -> set[str]:
    return {file.parts[0].partition(".")[0] for file in package.files or () if file.suffix in (".py", ".so")}


def _required_by(package: Distribution, extra: str) -> Iterator[tuple[str, str]]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate(PYTHON | {"extra": extra}):
            name = canonicalize_name(requirement.name)
            yield from ((name, wanted) for wanted in ("", *requirement.extras))


def trim(folder: Path) -> None:
    """Takes out what no function reads."""
    unread = [path for pattern in NOT_RUN for path in folder.glob(pattern)]
    knowledge = (folder / "botocore" / "data").glob("*/")
    for path in [*unread, *(path for path in knowledge if path.is_dir() and path.name not in SERVICES)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def copy_function(name: str, folder: Path) -> None:
    for path in files_of(name):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)


def pack_layer(folder: Path) -> None:
    unused = unused_packages(distributions(path=[str(folder)]))
    if unused:
        raise BundleError(f"No function needs {', '.join(sorted(unused))}: take it out of requirements.in.")
    trim(folder)


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["function", name, folder]:
                copy_function(name, Path(folder))
            case ["layer", folder]:
                pack_layer(Path(folder))
            case _:
                sys.exit(__doc__)
    except BundleError as error:
        sys.exit(str(error))
