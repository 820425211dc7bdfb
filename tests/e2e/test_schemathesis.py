"""The contract against the running platform: whatever fits it or breaks it, every answer is one that it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.platform import REPOSITORY, Platform
from tests.support.stub_github import StubGitHub

CONFIG = REPOSITORY / "tests" / "support" / "schemathesis.toml"
DEEP = ["--max-examples", "50"] if os.environ.get("MODEL_PROFILE") == "deep" else []
SKILL_MD = "---\nname: repo\ndescription: Greets people by name.\n---\n\n# repo\n\nSay hello.\n"


@pytest.fixture
def platform(tmp_path):
    """Limits are off on one machine, so nothing is refused for coming too often."""
    with StubGitHub() as github:
        github.repo("owner/repo", {"SKILL.md": SKILL_MD})
        running = Platform.start(tmp_path, GITHUB_API_URL=github.url)
        yield running
        running.kill()


def test_no_answer_breaks_the_contract(platform, tmp_path):
    tried = subprocess.run(
        [
            Path(sys.executable).with_name("st"),
            *("--config-file", CONFIG, "--no-color", "run", f"{platform.url}/api/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {platform.admin_token}", "--workers", "1", *DEEP),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode == 0, tried.stdout[-20_000:] + tried.stderr
    assert re.search(r"Tested: [1-9]\d+", tried.stdout), tried.stdout
