"""A cold function imports only its own world: the number of modules is held to a budget, so that it cannot creep up.
Python's own modules do not count: they differ from one version to the next.

`python -m bench.cold_start` measures what it is about. A change that needs another module raises the number here.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cold_start import EVENTS

ROOT = Path(__file__).parents[2]
BUDGETS = {
    "submissions_api": 169,
    "skills_api": 177,
    "registry": 168,
    "admin_api": 219,
    "owner_api": 220,
    "owner_pages": 238,
    "webhooks": 156,
    "pages": 325,
    "admin_pages": 339,
    "consumer": 168,
    "dead_letters": 164,
    "stuck_scan": 164,
    "notifications": 124,
    "sweep": 129,
    "rescan": 161,
}
# The SDK and what serves it; a general HTTP client; what reads YAML and matches rules; the compiler of templates.
NEVER = {"aioboto3", "aiobotocore", "boto3", "aiohttp", "cryptography", "yaml", "yara_x"}
LATER = {"shared.evidence.judge", "shared.scanner.scan", "shared.scanner.pack"}  # with the first skill that needs them
NO_PAGES = {"jinja2", "markdown_it"}
COUNT = "import json, sys, functions.{}; print(json.dumps(sorted(sys.modules)))"


def imported_by(function: str) -> list[str]:
    command = [sys.executable, "-c", COUNT.format(function)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.mark.parametrize("function", BUDGETS)
def test_a_function_imports_no_more_than_its_budget(function):
    modules = [name for name in imported_by(function) if name.partition(".")[0] not in sys.stdlib_module_names]
    packages = {module.partition(".")[0] for module in modules}
    assert not packages & NEVER
    assert not LATER & set(modules)
    assert not packages & NO_PAGES or function.endswith("pages")
    assert len(modules) <= BUDGETS[function]


def test_every_function_has_a_budget_and_is_measured():
    triggers = {path.stem for path in (ROOT / "functions").glob("*.py")} - {"__init__"}
    assert set(BUDGETS) == triggers
    assert set(EVENTS) == triggers
