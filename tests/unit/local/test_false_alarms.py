"""`make false-alarms` of another platform than that of this folder."""

import pytest

from local.config import StartError
from local.false_alarms import false_alarms


@pytest.mark.parametrize(
    ("url", "token", "problem"),
    [
        ("https://skills.example.org", None, "ADMIN_TOKEN"),
        ("http://skills.example.org", "a-token", "https"),
        ("http://127.0.0.1.example.org", "a-token", "https"),
    ],
)
def test_a_token_is_sent_over_https_only(tmp_path, url, token, problem):
    with pytest.raises(StartError, match=problem):
        list(false_alarms(tmp_path, url, token))


def test_without_a_url_the_platform_of_the_folder_must_run(tmp_path):
    with pytest.raises(StartError, match="make run"):
        list(false_alarms(tmp_path))
