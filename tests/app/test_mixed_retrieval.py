"""One application that polls one stream and reads another one by enhanced fan-out."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.file import parse_settings
from tests.interop.ours import WithoutSpark

pytestmark = pytest.mark.slow

YAML = """
application: {name}
streams_mode: multi
streams:
  - {{name: {polled}, initial_position: TRIM_HORIZON}}
  - {{name: {fanned}, initial_position: TRIM_HORIZON, retrieval: fanout}}
workers: [{{id: w1}}]
landing: {{home: {home}}}
wave: {{every: 1s, seconds: 5s}}
aws: {{region: {region}, endpoint: "{endpoint}"}}
"""


@pytest.fixture
def aws() -> Iterator[LocalAws]:
    """A stand-in of AWS of this test's own, because the test counts what it was asked."""
    with local_aws("--transition", "0") as own:
        yield own


def test_a_polled_stream_and_one_by_fan_out_land_in_one_application(aws: LocalAws, tmp_path: Path) -> None:
    name = f"mixed-{uuid.uuid4().hex[:8]}"
    polled, fanned = f"{name}-polled", f"{name}-fanned"
    put: list[tuple[str, str]] = []
    kinesis = aws.client("kinesis")
    for stream in (polled, fanned):
        kinesis.create_stream(StreamName=stream, ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
        entries = [{"Data": b"%d" % n, "PartitionKey": f"k{n}"} for n in range(50)]
        answer = kinesis.put_records(StreamName=stream, Records=entries)
        put += [(stream, record["SequenceNumber"]) for record in answer["Records"]]
    settings = parse_settings(
        YAML.format(
            name=name,
            polled=polled,
            fanned=fanned,
            home=tmp_path / "lake",
            region=aws.region,
            endpoint=aws.endpoint,
        ),
        {},
        name="headrace.yaml",
    ).settings
    ports = WithoutSpark(settings)
    wiring, led, worked = Wiring(settings, ports), None, None
    for _ in range(3):
        led = wiring.leader_turn(led).cursor
        worked = wiring.worker_turn("w1", worked, instance="here", runs=NoDagster()).cursor
    assert {row.holder for row in wiring.leases().scan().leases} == {"w1"}
    # A fault that never strikes counts the calls that it would match.
    for stream in (polled, fanned):
        aws.inject("error", operation="SubscribeToShard", resource=stream, skip=10_000)
    ending = wiring.reading(
        "run", NoDagster(), on_wave=lambda _: None, on_waiting=lambda _: None
    ).everything_due("w1")
    assert ending.error is None
    assert not ending.failed
    rows = read.rows(ports.table("test"), ("stream", "sequence_number")).to_pylist()
    assert sorted((row["stream"], row["sequence_number"]) for row in rows) == sorted(put)
    by_polling, by_fan_out = (fault["seen"] for fault in aws.faults())
    assert (by_polling, bool(by_fan_out)) == (0, True)
