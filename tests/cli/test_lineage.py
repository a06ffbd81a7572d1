"""`headrace lineage` of a lake table with two streams, whose shards have the same ids: which range is of which stream, cuts, and JSON."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.cli import DONE, STOPPED, main
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import TRIM, Origin
from headrace.pipeline.core.shards.stream import StreamId, lease_key
from tests.lake.samples import NOON, ORIGIN, a_file, a_key, a_range
from tests.lake.tables import IcebergLake
from tests.memory.leases import MemoryLeaseStore

GOLDEN = Path(__file__).parent / "golden"
RETURNS = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/returns", 1_769_000_007)
A, B = a_key(0), a_key(0, RETURNS)
LATER = NOON + timedelta(hours=1)


class Shop:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake = IcebergLake(folder)
        self.table = self.lake.iceberg
        self.capsys = capsys
        self.table.commit(ORIGIN)
        self.table.commit(Proposal(origins=((RETURNS, Origin(TRIM, NOON - timedelta(hours=1))),)))
        for key, after, numbers, arrival in (
            (A, None, [1, 2], NOON),
            (B, None, [11], NOON),
            (A, 2, [20, 21], LATER),
            (B, 11, [30], LATER),
        ):
            self.land(key, after, numbers, arrival)
        self.config = folder / "headrace.yaml"
        catalog = {name: self.table.catalog.properties[name] for name in ("type", "uri", "warehouse")}
        self.config.write_text(
            "application: shop\nstreams_mode: multi\nstreams: [{name: orders}, {name: returns}]\naws: {region: eu-west-1}\n"
            f"landing: {{table: {self.table.identifier}, state: {folder / 'state'}, catalog: {catalog}}}\n"
        )

    def land(self, key, after, numbers, arrival) -> None:
        file = a_file(
            self.table.staging_spec(), {key: numbers}, arrival=arrival, staged_at=self.lake.clock.at
        )
        landed = a_range(key, after, numbers[-1], rows=len(numbers), files=[file])
        landed = replace(landed, first_arrival=arrival, last_arrival=arrival)
        assert not self.table.commit(Proposal((landed,), (file,))).landing.refused

    def __call__(self, *arguments: str, code: int = DONE) -> str:
        self.capsys.readouterr()
        assert main(["lineage", "--config", str(self.config), *arguments]) == code
        return self.capsys.readouterr().out

    def shards(self, *arguments: str) -> list[tuple[str, str]]:
        """Stream and end of each range that the table shows."""
        rows = re.findall(r"(orders|returns)\s+shardId-0{12}\s+landed\s+\d+\s+(\d+)", self(*arguments))
        return [(stream, upto) for stream, upto in rows]


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    store = MemoryLeaseStore([Lease(lease_key(each, multi=True)) for each in (A, B)])
    monkeypatch.setattr(Adapters, "leases", lambda _: store)
    return Shop(tmp_path, capsys)


def test_each_range_tells_its_stream(shop: Shop):
    assert shop.shards() == [("orders", "2"), ("returns", "11"), ("orders", "21"), ("returns", "30")]
    assert "6 records in 4 ranges of 2 shards" in shop()


@pytest.mark.parametrize(
    "name",
    [
        "returns/0",
        "returns/shardId-000000000000",
        "returns@123456789012:1769000007/0",
        "123456789012:returns:1769000007:shardId-000000000000",
    ],
)
def test_one_shard_of_several_streams_is_named_in_any_of_its_forms(shop: Shop, name: str):
    assert shop.shards("--shard", name) == [("returns", "11"), ("returns", "30")]


def test_a_shard_of_another_life_of_the_stream_isnt_shown(shop: Shop):
    shop("--shard", "returns@123456789012:1769000008/0", code=STOPPED)


def test_the_newest_ranges_are_shown_and_the_others_counted(shop: Shop):
    assert shop.shards("--limit", "1") == [("returns", "30")]
    assert "1 record in 1 range of 1 shard; 3 older ranges left out by --limit" in shop("--limit", "1")
    assert "left out" not in shop("--limit", "4")
    assert len(shop("--limit", "2", "--csv").splitlines()) == 3


def test_ranges_are_cut_by_the_arrival_of_their_records(shop: Shop):
    assert shop.shards("--from", "2026-01-31T12:30") == [("orders", "21"), ("returns", "30")]
    assert shop.shards("--to", "2026-01-31T12:30") == [("orders", "2"), ("returns", "11")]
    assert shop("--from", "2027-01-01") == "no range of records has landed with records of that time\n"
    assert shop("--shard", "orders/0", "--from", "2027-01-01").endswith(
        "of orders/0 with records of that time\n"
    )


def test_a_sequence_number_has_one_answer_with_its_stream(shop: Shop):
    """Each first range spans all numbers below its end: three ranges span 11, and one of them has it."""
    lines = shop("--sequence", "11").splitlines()
    assert lines[0].startswith("landed: returns/shardId-000000000000 after the start up to 11 (snapshot ")
    assert lines[1].endswith("(as it landed); 1 row, arrived 2026-01-31 12:00:00Z")
    assert len(lines) == 2


def test_a_number_that_no_row_has_is_told_in_one_sentence_with_exit_code_1(shop: Shop):
    said = shop("--sequence", "7", code=1)
    assert said.startswith(
        "no range has the sequence number 7: the ranges of orders/shardId-000000000000, returns/"
    )
    assert said.count("\n") == 1
    said = shop("--sequence", "31", code=1)
    assert said == "no range has the sequence number 31: such a record has not landed, and no gap names it\n"
    assert json.loads(shop("--sequence", "31", "--json", code=1))["ranges"] == []


def test_a_gap_that_has_the_number_is_the_answer(shop: Shop):
    gap = replace(a_range(A, 21, 60, kind=Kind.SKIPPED), why="lost")
    assert not shop.table.commit(Proposal((gap,))).landing.refused
    lines = shop("--sequence", "45").splitlines()
    assert lines[0].startswith("skipped: orders/shardId-000000000000 after 21 up to 60")
    assert lines[1:] == ["  the range has no records in the table: lost"]


@pytest.mark.parametrize("text", ["twelve", "-5", "1_000", "٣", "", "9" * 130, "1.5"])
def test_what_is_no_sequence_number_is_refused(shop: Shop, text: str):
    with pytest.raises(SystemExit) as stopped:
        main(["lineage", "--config", str(shop.config), f"--sequence={text}"])
    assert stopped.value.code == STOPPED
    assert "isn't a sequence number" in shop.capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "all", "9" * 5000])
def test_a_limit_that_is_no_count_is_refused(shop: Shop, text: str):
    with pytest.raises(SystemExit) as stopped:
        main(["lineage", f"--limit={text}"])
    assert stopped.value.code == STOPPED
    assert "isn't a number from 1 on" in shop.capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"), [("lineage.json", ("--limit", "3")), ("lineage-sequence.json", ("--sequence", "11"))]
)
def test_json_has_the_form_that_the_documents_tell(shop: Shop, name: str, words: tuple[str, ...]):
    """Names may be added to this form, and none is changed or removed."""
    text = re.sub(r'"[^"]*?([^"/]*)\.parquet"', '"<file>"', shop(*words, "--json"))
    text = re.sub(r'"(snapshot)": "\d+"', r'"\1": "<id>"', text)
    text = re.sub(r'"at": "[^"]*"', '"at": "<time>"', text)
    assert json.loads(text) == json.loads((GOLDEN / name).read_text())
    assert "<id>" in text


@pytest.mark.parametrize(
    "words",
    [
        ("lineage",),
        ("lineage", "--json"),
        ("lineage", "--gaps"),
        ("lineage", "--sequence", "1"),
        ("prove",),
        ("window", "list"),
        ("window", "show", "4f0c2a91"),
        ("upkeep", "--dry-run"),
        ("processor", "status"),
    ],
)
def test_a_look_makes_no_folder_for_a_lake_table_that_isnt_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
):
    config = tmp_path / "headrace.yaml"
    config.write_text(
        "application: shop\nstreams: [{name: orders}]\naws: {region: eu-west-1}\nlanding: {home: lake}\n"
        "processors: [{name: p, command: cat, table: lake.p}]\n"
    )
    assert main([*words, "--config", str(config)]) == STOPPED
    assert f"there is no folder {tmp_path / 'lake'} (landing.home)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [config]
