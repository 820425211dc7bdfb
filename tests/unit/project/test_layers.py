"""The import contracts in pyproject.toml refuse what they are for. Each case plants one fault in a copy of the code."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LINT_IMPORTS = Path(sysconfig.get_path("scripts")) / "lint-imports"
SHARED = "Packages of shared/ import downwards only, and each module has a package"
TRIGGERS = "Triggers are independent of each other; below them pages, the API and HTTP"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("functions", "shared", "local"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=lambda _, names: [n for n in names if _is_data(n)])
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _is_data(name: str) -> bool:
    return name == "__pycache__" or ("." in name and not name.endswith(".py"))


def broken_contracts(copy: Path) -> list[str]:
    run = subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=copy, capture_output=True, text=True, check=False)
    broken = [line.removesuffix(" BROKEN") for line in run.stdout.splitlines() if line.endswith(" BROKEN")]
    assert run.returncode == bool(broken), run.stdout + run.stderr
    return broken


def plant(copy: Path, path: str, line: str) -> None:
    with (copy / path).open("a") as file:
        file.write(f"\n{line}\n")


def test_the_code_keeps_every_contract(copy):
    assert broken_contracts(copy) == []


@pytest.mark.parametrize(
    ("path", "line", "contract"),
    [
        pytest.param(
            "shared/storage/kv.py",
            "import shared.submissions.intake",
            SHARED,
            id="a package that imports a higher one",
        ),
        pytest.param("shared/new_idea.py", "", SHARED, id="a module of shared/ without a layer"),
        pytest.param("shared/new_idea/__init__.py", "", SHARED, id="a package of shared/ without a layer"),
        pytest.param("functions/new_trigger.py", "", TRIGGERS, id="a module of functions/ without a layer"),
        pytest.param(
            "functions/stuck_scan.py",
            "import functions.consumer",
            TRIGGERS,
            id="a trigger that imports another",
        ),
        pytest.param(
            "functions/http/openapi.py",
            "import functions.pages",
            TRIGGERS,
            id="functions.http that imports a trigger",
        ),
        pytest.param(
            "functions/http/openapi.py",
            "def later():\n    import functions.pages",
            TRIGGERS,
            id="an import hidden in a function",
        ),
        pytest.param(
            "shared/errors.py", "import functions.http", "Functions are above shared", id="shared above functions"
        ),
        pytest.param(
            "shared/runtime.py",
            "import local",
            "The platform does not know the machine it runs on",
            id="an import of local",
        ),
    ],
)
def test_a_planted_fault_breaks_its_contract(copy, path, line, contract):
    (copy / path).parent.mkdir(exist_ok=True)
    plant(copy, path, line)
    assert contract in broken_contracts(copy)
