"""The example own-stream, from the first command of its README to the last one that reads."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.local.endpoint import LocalAws
from tests.examples.example import alive_until, copied, owners

SHARDS = ("shardId-000000000000", "shardId-000000000001")


@pytest.mark.slow  # docs/start.md walks the same way in each run of the tests
def test_records_that_were_put_are_consumed_and_shown_by_the_lineage(
    aws: LocalAws, joined_spark: None, tmp_path: Path
):
    example = copied("own-stream", tmp_path, aws)
    example.variables["HEADRACE__AWS__ENDPOINT"] = (
        aws.endpoint
    )  # the shared Spark server doesn't know the stand-in
    assert "200 records put into orders" in example.type("python put_records.py 200")
    assert "lake.orders" in example.type("headrace config")

    with example.sensors("headrace.yaml", home=".dagster") as process:
        alive_until(lambda: owners(aws, "orders").total() == 2, "a lease for each shard", process)
        assert "leases: 2 rows, 2 open" in example.type("headrace status")
    told = example.type("headrace consume --shard shardId-000000000000 shardId-000000000001")

    counts = [int(n) for n in re.findall(r"shardId-\d+: (\d+) records? landed", told)]
    assert (len(counts), sum(counts)) == (2, 200), told
    lineage = example.type("headrace lineage")
    assert all(shard in lineage for shard in SHARDS)
    assert "200 records in 2 ranges of 2 shards" in lineage
    assert "200 records in lake.orders" in example.type("python read_records.py")
    first = example.type("python read_new.py")
    assert "200 new records" in first
    shards = [line.split()[0] for line in first.splitlines() if line.startswith("shardId")]
    assert shards == sorted(shards)
    assert "no new commit" in example.type("python read_new.py")
    example.type("python put_records.py 200")
    example.type("headrace consume --shard shardId-000000000000 shardId-000000000001")
    assert "200 new records" in example.type("python read_new.py")

    (example.folder / "read-up-to.txt").write_text("1234")
    gone = subprocess.run(
        [sys.executable, "read_new.py"],
        cwd=example.folder,
        env=example.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert gone.returncode == 1
    assert "Nothing was read" in gone.stderr
    assert (example.folder / "read-up-to.txt").read_text() == "1234"
