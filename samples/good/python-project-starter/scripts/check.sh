#!/usr/bin/env bash
# Everything that must pass before a commit.
set -euo pipefail
uv run ruff format --check .
uv run ruff check .
uv run mypy src
uv run pytest -q
