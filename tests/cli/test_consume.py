"""`headrace consume` reads shards from the shell without Dagster, and claims their rows."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.cli import main
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.sharing.sync_plan import a_lease
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

ROOT = Path(__file__).parents[2]
UNOWNED, MINE, ELSEWHERE = (f"shardId-{n:012d}" for n in range(3))
OWNERS = {UNOWNED: None, MINE: "w1", ELSEWHERE: "other"}
RECORDS = 60


@dataclass
class App:
    """A stream with records, and the lake table and lease rows that a leader would have made."""

    folder: Path
    leases: DynamoLeaseStore
    put: dict[str, list[str]]

    @property
    def arguments(self) -> list[str]:
        return ["consume", "--config", str(self.folder / "headrace.yaml")]

    def shell(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-P", "-m", "headrace.pipeline.cli", *self.arguments, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    def imported_by(self, *command: str) -> set[str]:
        """The modules that a new interpreter has imported when the command ends."""
        words = [command[0], "--config", str(self.folder / "headrace.yaml"), *command[1:]]
        code = (
            f"import sys; from headrace.pipeline.cli import main; code = main({words!r}); "
            "print('imported', *sys.modules); sys.exit(code)"
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        told = next(line for line in done.stdout.splitlines() if line.startswith("imported "))
        return set(told.split())

    def landed(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in read.rows(the_table(self.folder / "lake"), ["shard_id", "sequence_number"]).to_pylist():
            found.setdefault(row["shard_id"], []).append(row["sequence_number"])
        return {shard: sorted(numbers, key=int) for shard, numbers in found.items()}


@pytest.fixture(scope="module")
def app(
    aws: LocalAws,
    dynamodb: "DynamoDBClient",
    kinesis: "KinesisClient",
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[App]:
    folder, name = tmp_path_factory.mktemp("app"), f"c-{uuid4().hex[:8]}"
    kinesis.create_stream(StreamName=name, ShardCount=len(OWNERS))
    put: dict[str, list[str]] = {}
    for n in range(RECORDS):
        answer = kinesis.put_record(StreamName=name, Data=b"{}", PartitionKey=f"k{n}")
        put.setdefault(answer["ShardId"], []).append(answer["SequenceNumber"])
    file = folder / "headrace.yaml"
    file.write_text(
        f"application: {name}\nstreams: [{{name: {name}}}]\nlanding: {{home: lake}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
        encoding="utf-8",
    )
    settings = read_settings(str(file), {}).settings
    DynamoTables(dynamodb, settings).create()
    the_table(folder / "lake").ensure(create=True)
    leases = DynamoLeaseStore(dynamodb, settings.lease_table)
    source = KinesisSource(kinesis)
    stream = source.describe(name).stream
    for shard in source.list_shards(stream):
        owner = OWNERS[shard.shard_id]
        row = a_lease(stream, shard, multi=False, positions=Positions(), sentinel=TRIM_HORIZON, owner=owner)
        leases.apply(change.create(row, "for the test"))
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in aws.environment.items():
            patch.setenv(variable, value)
        patch.delenv("DAGSTER_HOME", raising=False)
        yield App(folder, leases, put)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--shard", "shardId-000000000007"], "similar names: shardId-00000000000"),
        (["--shard", UNOWNED, "orders"], "there is no shard 'orders'"),
        (["--worker", "w7"], "no worker 'w7' is configured (there are: w1)"),
        (
            ["--shard", ELSEWHERE],
            f"{ELSEWHERE} is read by worker other, which isn't among the workers in these settings",
        ),
        (["--shard", ELSEWHERE, "--worker", "w1"], f"{ELSEWHERE} is read by worker other, not by w1"),
        ([], "--shard NAME..., or --worker ID"),
    ],
)
def test_wrong_arguments_are_refused_before_a_record_is_read(
    app: App, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert main([*app.arguments, *arguments]) == 2
    out, err = capsys.readouterr()
    assert told in err
    assert out == ""
    assert all(row.run_claim is None for row in app.leases.scan().leases)


def test_a_worker_without_leases_is_told_that_nothing_was_read_and_who_gives_leases(
    app: App, capsys: pytest.CaptureFixture[str]
):
    settings = (app.folder / "headrace.yaml").read_text(encoding="utf-8")
    other = app.folder / "other.yaml"
    other.write_text(
        f"{settings}workers: [{{id: w9}}]\ntimes: {{idle: 1s}}\nwave: {{every: 1s}}\n", encoding="utf-8"
    )
    assert main(["consume", "--config", str(other), "--worker", "w9"]) == 0
    assert "w9: it owns no lease of an open shard, so nothing was read" in capsys.readouterr().out
    assert app.landed() == {}


def test_shards_land_from_the_shell_and_a_failing_one_delays_no_other(app: App, joined_spark: None):
    first = app.shell("--shard", UNOWNED)
    assert first.returncode == 0, first.stderr
    assert f"{UNOWNED}: {len(app.put[UNOWNED])} records landed, now at " in first.stdout
    assert app.landed() == {UNOWNED: app.put[UNOWNED]}

    stand_ahead_of_the_table(app, MINE)
    second = app.shell("--shard", UNOWNED, MINE)
    assert second.returncode == 1, second.stderr
    assert f"{UNOWNED}: 0 records landed, now at {app.put[UNOWNED][-1]}, its newest record" in second.stdout
    assert f"{MINE}: FAILED: " in second.stdout
    assert app.landed() == {UNOWNED: app.put[UNOWNED]}
    rows = {row.key: row for row in app.leases.scan().leases}
    assert rows[UNOWNED].owner == "w1"
    assert all(row.run_claim is None for row in rows.values())
    failing = {key: row.failure.why for key, row in rows.items() if row.failure}
    assert list(failing) == [MINE]
    assert f"{MINE}: FAILED: {failing[MINE]}" in " ".join(second.stdout.split())

    script = app.shell("--shard", UNOWNED, MINE, "--json")
    assert script.returncode == 1, script.stderr
    answer = json.loads(script.stdout)
    ours, failed = answer["shards"]
    upto = {"sequence_number": app.put[UNOWNED][-1], "sub_sequence_number": 0, "ended": False}
    assert (answer["format"], ours["shard"], ours["records"], ours["failed"]) == (1, UNOWNED, 0, None)
    assert ours["upto"] is None or ours["upto"] | {"sub_sequence_number": 0} == upto
    assert (failed["shard"], failed["upto"]) == (MINE, None)
    assert failed["failed"]


def stand_ahead_of_the_table(app: App, key: str) -> None:
    """Write the row as if another application of the same name had read the shard."""
    row = app.leases.get(key)
    assert row is not None
    claimed = change.claim(row, "w1", "test/1")
    app.leases.apply(claimed)
    held = replace(row, run_claim="test/1")
    app.leases.apply(change.checkpoint(held, "w1", "test/1", upto=Checkpoint(app.put[key][0])))
    app.leases.apply(change.release(held, "test/1", looked_at=None, behind_ms=None))


@pytest.mark.parametrize(
    "command", [("status",), ("plan", "--for", "1s"), ("consume", "--shard", UNOWNED), ("lineage",)]
)
def test_without_a_dagster_at_hand_a_command_never_imports_dagster(
    app: App, joined_spark: None, command: tuple[str, ...]
):
    imported = app.imported_by(*command)
    assert "headrace.pipeline" in imported
    assert {name for name in imported if name.startswith("dagster")} == set()
    assert imported.isdisjoint({"headrace.assets", "headrace.sensors", "headrace.resources"})
