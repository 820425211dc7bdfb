import pytest


def pytest_collection_modifyitems(items):
    """Tests that share a platform run in one process (`--dist loadgroup`), so that it is started and filled once."""
    for item in items:
        shared = [name for name in ("demo", "platform") if name in item.fixturenames]
        if item.path.name == "test_pages.py" and shared:
            item.add_marker(pytest.mark.xdist_group(f"pages-{shared[0]}"))
