"""Collected only by `make test-clients`, which says where the clients are: `make test` needs nothing but Python."""

import os

import pytest

from tests.clients.registry_site import RegistrySite
from tests.support.platform import Platform
from tests.support.stub_github import StubGitHub

collect_ignore_glob = [] if "CLIENTS_DIR" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    with StubGitHub() as github:
        platform = Platform.start(tmp_path_factory.mktemp("site"), GITHUB_API_URL=github.url)
        yield RegistrySite(platform, github)
        platform.stop()
