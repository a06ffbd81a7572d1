"""Two streams in one application, one named and one discovered by its tag: each record lands once, and each shard
belongs to its stream.

The leader looks for streams by their tags once a minute, and at its first tick after a reload. The test reloads instead of
waiting for the minute. tests/duties/streams/test_streams.py has the minute, in virtual time.
"""

from collections import Counter

import pytest

from headrace.pipeline.lake.table.plain_read import rows
from tests.e2e.app import App
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually


def names_of(app: App) -> Counter[str]:
    return Counter((row.stream or "").split(":")[1] for row in app.leases.scan().leases)


def partition_of(stream: str | None) -> str:
    """How the partitions of a stream begin."""
    account, name, created = (stream or "").split(":")
    return f"{name}@{account}:{created}"


@pytest.mark.slow
def test_a_named_and_a_discovered_stream_land_through_a_reshard_and_a_former_stream_is_still_read(
    make_app: MakeApp,
):
    tag = {"landed-by": "this-test"}
    app = make_app(more={"streams_mode": "multi", "discovery": {"tags": tag}})
    found = f"{app.name}-found"
    app.kinesis.create_stream(StreamName=found, ShardCount=2)
    app.produce(10)
    app.settle()
    assert names_of(app) == {app.name: 2}
    app.kinesis.add_tags_to_stream(StreamName=found, Tags=tag)
    app.produce(10, stream=found)
    app.split(0, stream=found)
    app.produce(10, within=(0.0, 0.5), stream=found)
    app.reload()

    def is_found() -> bool:
        app.tick("leader")
        return names_of(app)[found] >= 2

    eventually(is_found, "the tagged stream is found")

    app.read_all()

    app.check()
    assert names_of(app) == {app.name: 2, found: 4}
    landed = rows(app.table, ["stream"])["stream"].to_pylist()
    assert Counter(landed) == {app.name: 10, found: 20}
    app.kinesis.remove_tags_from_stream(StreamName=found, TagKeys=list(tag))
    app.produce(5, within=(0.5, 1.0), stream=found)
    app.reload()
    app.read_all()
    app.check()

    def is_read_on() -> bool:
        """The leader names the streams at its shard syncs; the sentence of a tick between two syncs doesn't."""
        return f"former stream {found} is read on" in str(app.tick("leader").skip_reason)

    eventually(is_read_on, "the sentence of a tick says that the former stream is read on")
    streams = {(row.stream or "").split(":")[1]: row.stream for row in app.leases.scan().leases}
    every = sorted(
        f"{partition_of(streams[name])}/{number}"
        for name, shards in ((app.name, 2), (found, 4))
        for number in range(shards)
    )
    assert app.statuses() == {"MATERIALIZED": every}
