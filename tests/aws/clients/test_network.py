"""`aws.client`: how the clients of AWS connect, in this process and in Spark's tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.clients import (
    cloudwatch_client,
    dynamodb_client,
    kinesis_access,
    kinesis_client,
)
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.leases.task_rows import rows_client
from headrace.pipeline.aws.reading.subscribing import subscriber_client
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.aws_network import AwsNetwork
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.task_identity import AwsKeys, TaskIdentity

PROXY = "http://proxy.internal:3128"
CLIENT = {
    "use_fips_endpoint": "true",
    "proxies": PROXY,
    "max_pool_connections": "7",
    "connect_timeout": "1.5",
    "read_timeout": "3",
}
KEYS = TaskIdentity(keys=AwsKeys("id", "secret"))


def shown(client: Any) -> tuple[Any, ...]:
    config = client.meta.config
    return (config.proxies["https"], config.max_pool_connections, config.connect_timeout, config.read_timeout)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize("make", [kinesis_client, dynamodb_client, cloudwatch_client])
def test_each_client_connects_as_the_setting_says(make: Any) -> None:
    client = make(AwsSettings(region="us-east-1", client=CLIENT))
    assert shown(client) == (PROXY, 7, 1.5, 3)
    assert "-fips." in client.meta.endpoint_url


def test_the_clients_of_spark_tasks_connect_so_whatever_their_hosts_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    access = kinesis_access(AwsSettings(region="us-east-1", client=CLIENT))
    access = decode(encode(access), KinesisAccess)  # the task's process gets it as a document
    access = KinesisAccess(
        access.region,
        access.endpoint,
        KEYS,
        fips=access.fips,
        dualstack=access.dualstack,
        network=access.network,
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://another:1")
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "false")
    for client in (client_of_service(access, "kinesis"), subscriber_client(access)._client):
        assert client.meta.config.proxies["https"] == PROXY
        assert client.meta.config.connect_timeout == 1.5
        assert client.meta.endpoint_url == "https://kinesis-fips.us-east-1.amazonaws.com"
    assert shown(client_of_service(access, "kinesis"))[3] == 3
    # A task also writes checkpoints of processors.
    assert shown(rows_client(access)) == (PROXY, 7, 1.5, 3)
    assert rows_client(access).meta.endpoint_url == "https://dynamodb-fips.us-east-1.amazonaws.com"


def test_the_setting_goes_before_the_environment_and_what_it_leaves_out_comes_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
    access = kinesis_access(AwsSettings(region="us-east-1", client={"use_fips_endpoint": "false"}))
    assert (access.fips, access.dualstack) == (False, True)


def test_without_the_setting_the_times_are_those_of_a_tick_and_of_a_task() -> None:
    assert shown_times(dynamodb_client(AwsSettings(region="us-east-1"))) == (2, 4)
    access = KinesisAccess("us-east-1", identity=KEYS)
    assert shown_times(client_of_service(access, "kinesis")) == (5, 10)
    # A checkpoint that waits for long would hold its processor up.
    assert shown_times(rows_client(access)) == (2, 4)
    # A subscription is silent for as long as it may be, whatever the setting says of other answers.
    network = AwsNetwork(read_timeout=3)
    assert shown_times(subscriber_client(replace(access, network=network))._client) == (5, 10)


def shown_times(client: Any) -> tuple[float, float]:
    return client.meta.config.connect_timeout, client.meta.config.read_timeout


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ("{proxy: 'http://a:1'}", "aws.client has proxy; allowed: use_fips_endpoint, "),
        ("{read_timeout: 60}", r"read_timeout; allowed: 1 to 10 \(seconds\)"),
        ("{connect_timeout: soon}", "connect_timeout; allowed: 0.1 to 5"),
        ("{use_fips_endpoint: maybe}", "allowed: true or false"),
        ("{proxies: 'http://user:word@a:1'}", "without a user and a password|secret|password"),
    ],
)
def test_another_name_or_value_is_refused_with_what_is_allowed(client: str, why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        parse_settings(
            f"{{application: a, streams: [{{name: s}}], aws: {{client: {client}}}}}", {}, name="h.yaml"
        )


def test_awss_fips_endpoints_beside_an_endpoint_of_ones_own_are_refused() -> None:
    text = "{application: a, streams: [{name: s}], aws: {endpoint: 'http://a:1', client: {use_fips_endpoint: 'true'}}}"
    with pytest.raises(BadSetting, match=r"aws\.endpoint names an endpoint: remove one of the two"):
        parse_settings(text, {}, name="h.yaml")
