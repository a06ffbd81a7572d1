"""The example two-deployments: the workers of both deployments share the leases."""

from pathlib import Path

import pytest

from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings
from tests.examples.example import alive_until, copied, owners

FAST = {"HEADRACE__TIMES__ASSIGNMENT": "1s", "HEADRACE__TIMES__DWELL": "1s"}


@pytest.mark.slow
def test_two_deployments_share_the_leases_of_one_stream(aws: LocalAws, tmp_path: Path):
    example = copied("two-deployments", tmp_path, aws)
    example.variables.update(FAST)
    aws.client("kinesis").create_stream(StreamName="orders", ShardCount=4)
    with (
        example.sensors("first.yaml", home=".dagster-a") as a,
        example.sensors("second.yaml", home=".dagster-b") as b,
    ):
        alive_until(
            lambda: owners(aws, "orders") == {"orders-a": 2, "orders-b": 2}, "each owns two leases", a, b
        )
        look = example.type("headrace status --config first.yaml")
    assert "orders-a" in look
    assert "orders-b" in look


@pytest.mark.parametrize("name", ["first.yaml", "second.yaml"])
def test_the_two_settings_files_differ_only_in_their_workers(name: str):
    folder = Path(__file__).parents[2] / "examples" / "two-deployments"
    first = read_settings(str(folder / "first.yaml"), {}).settings
    settings = read_settings(str(folder / name), {}).settings
    assert (settings.application, settings.streams, settings.landing) == (
        first.application,
        first.streams,
        first.landing,
    )
    assert [worker.id for worker in settings.workers] == ["orders-a" if name == "first.yaml" else "orders-b"]
