"""A process with a setting missing or wrong does not start, and says which."""

import pytest

from shared.errors import InvalidSettings
from shared.settings import Settings, find_whole_number, load_settings

GOOD = {
    "STAGE": "prod",
    "TABLE_NAME": "table",
    "BUCKET_NAME": "bucket",
    "QUEUE_URL": "https://queue.example/q",
    "SECRET_ID": "secret",
    "ALLOW_UPLOADS": "false",
    "MAX_ACTIVE": "10000",
    "AWS_REGION": "eu-central-1",
}


def test_settings_are_what_the_environment_says():
    assert load_settings(GOOD) == Settings(
        stage="prod",
        table_name="table",
        bucket_name="bucket",
        queue_url="https://queue.example/q",
        secret_id="secret",
        allow_uploads=False,
        max_active=10_000,
        region="eu-central-1",
        endpoint_url=None,
        secrets_file=None,
    )


def test_one_machine_names_an_endpoint_and_a_secrets_file():
    settings = load_settings(GOOD | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "SECRETS_FILE": "secrets.json"})
    assert (settings.endpoint_url, settings.secrets_file) == ("http://127.0.0.1:1", "secrets.json")


def test_empty_is_not_an_endpoint_nor_a_secrets_file():
    settings = load_settings(GOOD | {"AWS_ENDPOINT_URL": "", "SECRETS_FILE": ""})
    assert (settings.endpoint_url, settings.secrets_file) == (None, None)


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_setting_is_named(name, value):
    env = {key: text for key, text in GOOD.items() if key != name}
    with pytest.raises(InvalidSettings, match=name):
        load_settings(env if value is None else env | {name: value})


@pytest.mark.parametrize("value", ["Prod", "production", "test"])
def test_an_unknown_stage_is_refused_with_those_there_are(value):
    with pytest.raises(InvalidSettings, match="local, dev, prod"):
        load_settings(GOOD | {"STAGE": value})


@pytest.mark.parametrize("value", ["True", "yes", "1", "on"])
def test_uploads_are_on_only_when_it_says_true(value):
    with pytest.raises(InvalidSettings, match="true, false"):
        load_settings(GOOD | {"ALLOW_UPLOADS": value})
    assert load_settings(GOOD | {"ALLOW_UPLOADS": "true"}).allow_uploads is True


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "1e4", "5_0", "\u0661", "many", "9" * 5000])
def test_max_active_is_a_whole_number_above_0(value):
    with pytest.raises(InvalidSettings, match="whole number above 0"):
        load_settings(GOOD | {"MAX_ACTIVE": value})


@pytest.mark.parametrize(
    ("text", "highest", "number"), [("0", 9, 0), ("007", 999, 7), ("999", 999, 999), ("100", 100, 100)]
)
def test_digits_are_a_whole_number_up_to_the_highest(text, highest, number):
    assert find_whole_number(text, highest) == number


@pytest.mark.parametrize(
    "text", [None, "", "-1", "+1", " 1", "1 ", "5_0", "1.0", "1e1", "\u0661", "\u00b2", "101", "0100", "9" * 5000]
)
def test_nothing_else_is_a_whole_number(text):
    assert find_whole_number(text, highest=100) is None


@pytest.mark.requirement("S37")
def test_the_share_of_an_address_is_a_percentage_of_the_queue():
    assert load_settings(GOOD).max_held == 1000
    assert load_settings(GOOD | {"ADDRESS_SHARE": "25", "MAX_ACTIVE": "10"}).max_held == 2
    assert load_settings(GOOD | {"MAX_ACTIVE": "5"}).max_held == 1
    with pytest.raises(InvalidSettings, match="ADDRESS_SHARE"):
        load_settings(GOOD | {"ADDRESS_SHARE": "0"})


@pytest.mark.requirement("S37")
def test_skills_have_a_limit_of_their_own():
    limits = load_settings(GOOD | {"RATE_LIMITS": "submit=10/3600 skills=100/3600"}).limits
    assert (limits["submit"].most, limits["skills"].most) == (10, 100)
