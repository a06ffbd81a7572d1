"""`headrace window create --from-stream` on a real Spark, with a stream of the stand-in and the settings of a user."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Origin, Position, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.local.endpoint import LocalAws
from tests.typed.parsings import Bed

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]

SETTINGS = """
application: windows
streams: [{{name: {stream}}}]
aws: {{region: {region}, endpoint: "{endpoint}"}}
landing: {{home: {home}}}
"""


class Scene:
    """A stream that an application has read from its newest record on, and of which a worker of KCL has read a part."""

    def __init__(self, folder: Path, aws: LocalAws, kinesis: "KinesisClient") -> None:
        name = f"s-{uuid4().hex[:8]}"
        self.client, self.name = kinesis, name
        kinesis.create_stream(StreamName=name, ShardCount=1)
        told = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
        stream = StreamId(told["StreamARN"], int(told["StreamCreationTimestamp"].timestamp()))
        self.key = ShardKey(stream, "shardId-000000000000")
        self.bed = Bed(folder / "home")
        settings = SETTINGS.format(
            stream=name, region=aws.region, endpoint=aws.endpoint, home=folder / "home"
        )
        (folder / "headrace.yaml").write_text(settings)
        self.older = self.put(3)
        began = datetime.now(UTC)
        self.commit(Proposal(origins=((stream, Origin(Start(began), began)),)))
        self.landed = self.land(2)
        self.foreign = self.put(3)
        table = self.bed.lake.handle()
        before = table.load().positions.of(self.key)
        upto = Position(self.foreign[-1], arrival=datetime.now(UTC), inside=True)
        self.commit(
            Proposal((Range(Kind.FOREIGN, self.key, before, upto, run="r", claim="r/1", why="read by KCL"),))
        )
        self.landed += self.land(2)

    def commit(self, proposal: Proposal) -> None:
        assert not self.bed.lake.handle().commit(proposal).landing.refused

    def put(self, many: int) -> list[int]:
        entries = [{"Data": b"%d" % n, "PartitionKey": "key"} for n in range(many)]
        answer = self.client.put_records(StreamName=self.name, Records=entries)  # type: ignore[arg-type]
        return sorted(int(record["SequenceNumber"]) for record in answer["Records"])

    def land(self, many: int) -> list[int]:
        numbers = self.put(many)
        self.bed.land(self.key, dict.fromkeys(numbers, b"{}"), arrival=datetime.now(UTC))
        return numbers

    def copied(self, window: str) -> list[int]:
        name = f"lake.records_window_{window}"
        table = IcebergTable(self.bed.lake.properties, name, state=self.bed.state, clock=self.bed.clock)
        rows = read.rows(table, ("sequence_number",)).to_pylist()
        return sorted(int(row["sequence_number"]) for row in rows)


@pytest.fixture
def scene(tmp_path: Path, aws: LocalAws, kinesis: "KinesisClient", monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    return Scene(tmp_path, aws, kinesis)


def told(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert main(["window", *argv]) == code
    said = capsys.readouterr()
    return said.out if code == 0 else said.err


def test_what_the_lake_table_lacks_is_read_from_the_stream(scene: Scene, capsys: pytest.CaptureFixture[str]):
    before = scene.bed.lake.handle().load()
    created = told(capsys, "create", "--shard", scene.key.shard_id, "--from-stream").splitlines()
    window = created[0].split()[1].rstrip(":")
    assert created[1].startswith("1 shard of 1 stream, 2 rows, ")
    assert created[2].startswith("from the stream: 2 ranges of 1 shard, with records that arrived from 20")
    assert created[2].endswith(" s with 20% of each shard's limits")
    assert created[3] == f"`headrace window run {window}` copies it into lake.records_window_{window}"
    assert told(capsys, "run", window).splitlines()[2:] == [
        f"{window}: 5 rows read from the stream",
        f"{window}: 3 rows read from the stream",
        f"{window}: 2 rows copied",
        f"the window is copied into lake.records_window_{window}",
    ]
    wanted = sorted([*scene.older, *scene.landed, *scene.foreign])
    assert scene.copied(window) == wanted
    told(capsys, "run", window)
    assert scene.copied(window) == wanted
    assert scene.bed.lake.handle().load() == before, "the lake table is only read"
    shown = told(capsys, "show", window)
    assert "    after the start up to" in shown
    assert ": from the stream\n" in shown
    assert f"8 rows read from the stream into lake.records_window_{window}" in shown
    main(["prove"])
    proved = capsys.readouterr().out
    assert "2 rows copied, and 8 rows read from the stream that the lake table needn't have" in proved


def test_a_window_for_which_nothing_is_read_from_the_stream_says_so(
    scene: Scene, capsys: pytest.CaptureFixture[str]
):
    first, last = (str(number) for number in scene.landed[2:])
    argv = ("create", "--shard", scene.key.shard_id, "--first", first, "--last", last)
    assert "nothing of this window is read from the stream: the lake table has all of its records" in told(
        capsys, *argv, "--from-stream"
    )
    assert "from the stream" not in told(capsys, *argv)


def test_a_replacement_from_the_stream_is_refused(scene: Scene, capsys: pytest.CaptureFixture[str]):
    argv = ("create", "--shard", scene.key.shard_id, "--from-stream", "--replace", "orders")
    assert "nothing was made. Choose one" in told(capsys, *argv, code=STOPPED)
    assert told(capsys, "list") == "there is no window\n"
