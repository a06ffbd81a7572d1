"""AWS clients are made from the settings, which hold no secrets."""

from dataclasses import fields
from typing import Any

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client, kinesis_client
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.aws import AwsSettings

SETTINGS = AwsSettings(region="eu-west-1", endpoint="http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in (
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path_factory.mktemp("aws") / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path_factory.mktemp("aws") / "none"))


@pytest.mark.parametrize("make", [dynamodb_client, kinesis_client])
def test_a_client_uses_the_endpoint_and_region_of_the_settings_and_names_headrace(make):
    client = make(SETTINGS)
    assert client.meta.region_name == "eu-west-1"
    assert client.meta.endpoint_url == "http://127.0.0.1:1"
    assert "headrace" in client.meta.config.user_agent
    assert client.meta.config.retries == {"mode": "standard", "total_max_attempts": 3}
    assert client.meta.config.connect_timeout + client.meta.config.read_timeout < 10


def test_without_an_endpoint_a_client_goes_to_aws():
    assert (
        kinesis_client(AwsSettings(region="eu-west-1")).meta.endpoint_url
        == "https://kinesis.eu-west-1.amazonaws.com"
    )


def test_no_setting_is_an_aws_key():
    assert not [
        f.name for f in fields(AwsSettings) if "key" in f.name or "secret" in f.name or "token" in f.name
    ]


@pytest.mark.parametrize("endpoint", ["http://user:word@127.0.0.1:1", "http://key@127.0.0.1:1"])
def test_credentials_in_an_endpoint_are_refused_and_not_repeated(endpoint: str):
    with pytest.raises(BadSetting, match=r"aws\.endpoint") as error:
        dynamodb_client(AwsSettings(region="eu-west-1", endpoint=endpoint))
    assert endpoint not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (AwsSettings(region="eu-west-1", profile="absent"), "aws.profile in the settings is 'absent'"),
        (AwsSettings(), "aws.region"),
        (AwsSettings(region="eu-west-1", endpoint="not an address"), "aws.endpoint"),
    ],
)
def test_the_error_for_an_unusable_setting_names_it(settings: AwsSettings, named: str):
    with pytest.raises(BadSetting, match=named):
        dynamodb_client(settings)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"AWS_PROFILE": "absent"}, "AWS_PROFILE in the environment is 'absent'"),
        ({"AWS_DEFAULT_PROFILE": "absent"}, "AWS_DEFAULT_PROFILE in the environment is 'absent'"),
        (
            {"AWS_DEFAULT_PROFILE": "first", "AWS_PROFILE": "second"},
            "AWS_DEFAULT_PROFILE in the environment is 'first'",
        ),
    ],
)
def test_the_error_for_an_unknown_profile_of_the_environment_names_the_variable(
    environ: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
):
    for variable, name in environ.items():
        monkeypatch.setenv(variable, name)
    with pytest.raises(BadSetting) as error:
        kinesis_client(AwsSettings(region="eu-west-1"))
    assert str(error.value).startswith(named)
    assert "None" not in str(error.value)


def test_clients_share_the_descriptions_of_services_and_no_credentials(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "-")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    first = dynamodb_client(SETTINGS)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    second = dynamodb_client(SETTINGS)
    assert first.meta.service_model.metadata is second.meta.service_model.metadata
    clients: list[Any] = [first, second]
    keys = [client._request_signer._credentials.access_key for client in clients]  # no public name
    assert keys == ["first", "second"]
