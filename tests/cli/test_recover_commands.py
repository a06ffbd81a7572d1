"""`headrace skip`, `reposition` and `repair` on the stand-in: the commands show their decision, and carry it out
only after a confirmation."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.cli import main
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import a_lease
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings
from tests.lake.tables import append_as_others

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

RECORDS = 9
FIRST, SECOND = (f"shardId-{n:012d}" for n in range(2))


@dataclass
class App:
    """An application on the stand-in: calling it runs a `headrace` command with its settings."""

    folder: Path
    stream: StreamId
    leases: DynamoLeaseStore
    put: dict[str, list[int]]

    def __call__(self, command: str, *arguments: str) -> int:
        words = [command, "--config", str(self.folder / "headrace.yaml"), *arguments]
        return main([*words, "--why", "a test"])

    @property
    def table(self) -> IcebergTable:
        return the_table(self.folder / "lake")

    def position(self, shard: str) -> Position | None:
        return self.table.load().positions.of(ShardKey(self.stream, shard))

    def kinds(self) -> list[Kind]:
        return [r.kind for entry in read.ledger(self.table) for r in entry.page.ranges]

    def land(self, shard: str, upto: int) -> None:
        """Commit a range and write the row as a run does, but without data files."""
        key, at = ShardKey(self.stream, shard), self.position(shard)
        each = Range(Kind.LANDED, key, at, Position(upto), run="r", claim="r/1")
        assert not self.table.commit(Proposal((each,))).landing.refused
        self.checkpoint(shard, upto)

    def checkpoint(self, shard: str, at: int) -> None:
        row = self.leases.get(shard)
        assert row is not None
        held = self.leases.apply(change.hold(row, "r/1", "a test"))
        assert isinstance(held, change.Applied)
        said = Checkpoint(str(at))
        self.leases.apply(change.reposition(held.lease, "r/1", place=said, landed=said, why="a test"))
        moved = self.leases.get(shard)
        assert moved is not None
        self.leases.apply(change.release(moved, "r/1"))


@pytest.fixture
def app(
    aws: LocalAws,
    dynamodb: "DynamoDBClient",
    kinesis: "KinesisClient",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[App]:
    name = f"c-{uuid4().hex[:8]}"
    kinesis.create_stream(StreamName=name, ShardCount=2)
    put: dict[str, list[int]] = {}
    for n in range(RECORDS):
        answer = kinesis.put_record(StreamName=name, Data=b"{}", PartitionKey=f"k{n}")
        put.setdefault(answer["ShardId"], []).append(int(answer["SequenceNumber"]))
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"application: {name}\nstreams: [{{name: {name}}}]\nlanding: {{home: lake}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
        encoding="utf-8",
    )
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    settings = read_settings(str(file), {}).settings
    DynamoTables(dynamodb, settings).create()
    leases = DynamoLeaseStore(dynamodb, settings.lease_table)
    source = KinesisSource(kinesis)
    facts = source.describe(name)
    for shard in source.list_shards(facts.stream):
        row = a_lease(
            facts.stream, shard, multi=False, positions=Positions(), sentinel=TRIM_HORIZON, owner="w1"
        )
        leases.apply(change.create(row, "for the test"))
    made = App(tmp_path, facts.stream, leases, put)
    made.table.ensure(create=True)
    made.table.commit(Proposal(origins=((facts.stream, Origin(TRIM, facts.asked)),)))
    yield made
    assert all(row.run_claim is None for row in leases.scan().leases), "no row is held when a command ends"


def test_a_skip_is_shown_and_changes_nothing_without_a_confirmation(
    app: App, capsys: pytest.CaptureFixture[str]
):
    before = app.table.load()
    assert app("skip", "--shard", FIRST) == 2
    out, err = capsys.readouterr()
    assert "no record of the shard has landed; the next wave goes on with what the stream still holds" in out
    assert "nothing was changed: there is no terminal to ask on. Add --yes" in err
    assert app.table.load() == before


def test_a_skip_with_json_is_a_dry_run(app: App, capsys: pytest.CaptureFixture[str]):
    before = app.table.load()
    assert app("skip", "--shard", FIRST, "--to-tip", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["shards"], told["why"]) == (1, [FIRST], "a test")
    assert f"up to {app.put[FIRST][-1]}" in told["plan"][0]
    assert app.table.load() == before


def test_a_gap_is_skipped(app: App):
    assert app("skip", "--shard", FIRST, "--yes") == 0
    at = app.position(FIRST)
    assert at is not None
    assert at.gap_accepted
    assert app.kinds() == [Kind.SKIPPED]


def test_a_shard_may_be_named_with_its_stream_where_the_application_reads_only_one(app: App):
    assert app("skip", "--shard", f"{app.stream.name}/0", "--yes") == 0
    assert app.kinds() == [Kind.SKIPPED]
    assert app("skip", "--shard", "another/0", "--yes") == 2


def test_a_shard_is_skipped_to_a_record_or_to_its_tip(app: App):
    second, last = app.put[FIRST][1], app.put[FIRST][-1]
    assert app("skip", "--shard", FIRST, "--to", str(second), "--yes") == 0
    assert (at := app.position(FIRST)) is not None
    assert at.sequence == second
    assert app("skip", "--shard", FIRST, "--to-tip", "--yes") == 0
    assert (at := app.position(FIRST)) is not None
    assert (at.sequence, at.arrival is not None, at.seen is not None) == (last, True, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--shard", "shardId-000000000007"], "similar names: shardId-00000000000"),
        (["--shard", FIRST, "--to", "tomorrow"], "--to is 'tomorrow'; allowed: a sequence number"),
        (
            ["--shard", FIRST, "--to", "12"],
            "can't go on after it; nothing was changed. Name the whole sequence",
        ),
        (["--shard", FIRST, "--end"], "the shard is still open, so it has no end yet"),
    ],
)
def test_impossible_skips_are_refused(
    app: App, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    before = app.table.load()
    assert app("skip", *arguments, "--yes") == 2
    assert told in capsys.readouterr().err
    assert app.table.load() == before


@pytest.mark.parametrize("why", ["", "  "])
@pytest.mark.parametrize("command", [["skip"], ["reposition", "--to", "table"]])
def test_a_decision_needs_a_reason(
    app: App, command: list[str], why: str, capsys: pytest.CaptureFixture[str]
):
    before = app.table.load()
    with pytest.raises(SystemExit) as left:
        app(*command, "--shard", FIRST, "--yes", "--why", why)
    assert left.value.code == 2
    assert (
        "the reason is blank, and the table's ledger keeps it for good; nothing was changed"
        in capsys.readouterr().err
    )
    assert app.table.load() == before


def test_if_one_of_several_shards_fails_the_error_names_those_that_are_done(
    app: App, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for shard in (FIRST, SECOND):
        first, second, *_ = app.put[shard]
        app.land(shard, first)
        app.checkpoint(shard, second)

    def somebody_moves_the_second_row(_: str) -> str:
        app.checkpoint(SECOND, app.put[SECOND][2])
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", somebody_moves_the_second_row)
    shards = ("--shard", FIRST, SECOND)
    assert app("reposition", *shards, "--to", "lease") == 2
    assert f"headrace: {FIRST}: done, and not undone. But then, for {SECOND}: " in capsys.readouterr().err
    assert app.kinds()[-1] is Kind.REPOSITION
    assert (at := app.position(FIRST)) is not None
    assert at.sequence == app.put[FIRST][1]
    somebody_moves_the_second_row("")
    assert app("reposition", "--shard", SECOND, "--to", "lease", "--yes") == 0


def test_the_error_of_a_single_shard_is_shown_unchanged(
    app: App, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    first, second, third, *_ = app.put[FIRST]
    app.land(FIRST, first)
    app.checkpoint(FIRST, second)

    def somebody_moves_the_row(_: str) -> str:
        app.checkpoint(FIRST, third)
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", somebody_moves_the_row)
    before = app.position(FIRST)
    assert app("reposition", "--shard", FIRST, "--to", "lease") == 2
    assert app.position(FIRST) == before
    said = capsys.readouterr().err
    assert said.startswith("headrace: shardId-000000000000 moved between the plan and now")
    assert "done, and not undone" not in said


@pytest.mark.usefixtures("no_backoff")
def test_if_only_the_release_of_a_row_fails_the_command_says_what_was_done(
    app: App, aws: LocalAws, capsys: pytest.CaptureFixture[str]
):
    aws.inject("error", operation="UpdateItem", skip=1)  # the first request, which holds the row, succeeds
    assert app("skip", "--shard", FIRST, "--yes") == 75
    aws.clear_faults()
    assert (
        f"headrace: {FIRST}: done, and not undone. But while the claim on {FIRST} was released: table"
        in capsys.readouterr().err
    )
    assert app.kinds() == [Kind.SKIPPED]
    row = app.leases.get(FIRST)
    assert row is not None
    app.leases.apply(change.release(row, row.run_claim or ""))


def test_reposition_moves_a_row_ahead_of_the_table_back_or_the_table_forward(
    app: App, capsys: pytest.CaptureFixture[str]
):
    first, second, *_ = app.put[FIRST]
    app.land(FIRST, first)
    app.checkpoint(FIRST, second)
    assert app("skip", "--shard", FIRST, "--yes") == 2
    assert "headrace reposition" in capsys.readouterr().err
    assert app("reposition", "--shard", FIRST, "--to", "table", "--yes") == 0
    row = app.leases.get(FIRST)
    assert row is not None
    assert (row.checkpoint, row.landed) == (Checkpoint(str(first)), Checkpoint(str(first)))
    app.checkpoint(FIRST, second)
    assert app("reposition", "--shard", FIRST, "--to", "lease", "--yes") == 0
    assert (at := app.position(FIRST)) is not None
    assert at.sequence == second
    assert app.kinds() == [Kind.LANDED, Kind.REPOSITION, Kind.REPOSITION]
    assert app("reposition", "--shard", FIRST, "--to", "table", "--yes") == 2
    assert "agree" in capsys.readouterr().err


def test_repair_leaves_a_table_with_whole_positions_alone_and_repairs_a_broken_chain(
    app: App, capsys: pytest.CaptureFixture[str]
):
    app.land(FIRST, app.put[FIRST][0])
    assert app("repair", "--yes") == 2
    assert "there is nothing to repair" in capsys.readouterr().err
    append_as_others(app.table.open(), summary={"source-snapshot-id": "5"})
    assert app("repair", "--yes") == 2
    assert "of a snapshot that isn't known any more" in capsys.readouterr().err
    assert app("repair", "--origin", "yesterday") == 2
    assert "allowed: TRIM_HORIZON, or a moment with its time zone" in capsys.readouterr().err


def test_a_cherry_pick_without_headraces_ranges_is_repaired(app: App, capsys: pytest.CaptureFixture[str]):
    app.land(FIRST, app.put[FIRST][0])
    append_as_others(app.table.open())
    theirs = app.table.load().snapshot
    append_as_others(app.table.open(), summary={"source-snapshot-id": str(theirs)})
    assert app("repair", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    # As text, because JavaScript's numbers have too few digits for it.
    assert (told["format"], told["snapshot"]) == (1, str(app.table.open().metadata.current_snapshot_id))
    assert told["plan"] == [
        "1 shard unchanged",
        "2 rows that no landing of this application wrote: left as found",
    ]
    assert app("repair", "--yes") == 0
    assert "has the positions of 1 shard" in capsys.readouterr().out
    assert (at := app.position(FIRST)) is not None
    assert at.sequence == app.put[FIRST][0]
