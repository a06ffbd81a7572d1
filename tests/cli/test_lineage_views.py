"""`headrace lineage --sequence`, `--gaps` and `--family` on a table in a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.cli import DONE, STOPPED, main
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from tests.lake.samples import NOON, a_file, a_key
from tests.proof.proofs import FIRST, LEFT, Family


class Shown:
    def __init__(self, folder: Path, out: pytest.CaptureFixture[str]) -> None:
        self.family = Family(folder)
        self.out = out
        self.config = folder / "headrace.yaml"
        self.config.write_text(
            "application: orders\nstreams: [{name: orders}]\naws: {region: eu-west-1}\n"
            f"landing: {{table: {self.family.table.identifier}, home: {self.family.lake.folder}}}\n"
        )

    def __call__(self, *arguments: str, code: int = DONE) -> str:
        self.out.readouterr()
        assert main(["lineage", "--config", str(self.config), *arguments]) == code
        return self.out.readouterr().out


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    return Shown(tmp_path, capsys)


def test_a_record_is_found_with_its_run_its_file_and_the_snapshots(shown: Shown):
    path = Path(shown.family.path_with(LEFT, 37))
    text = shown("--sequence", "37")
    assert "landed: orders/shardId-000000000002 after 35 up to 38 (snapshot " in text
    assert "run run-1)" in text
    assert f"{path.name}, which snapshot " in text
    assert "added (as it landed); 1 row, arrived 2026-01-31 12:00:00Z" in text


def test_a_record_is_found_in_the_file_into_which_it_was_compacted(shown: Shown):
    shown.family.compact()
    head = shown.family.table.load().snapshot
    assert f"which snapshot {head} added (rewritten since it landed)" in shown("--sequence", "37")


def test_the_ranges_of_all_shards_are_searched_unless_a_shard_is_named(shown: Shown):
    shown.family.land((LEFT, 60))
    text = shown("--sequence", "57")
    assert text.count("landed: ") == 2
    assert text.count("; 1 row") == 2
    assert shown("--sequence", "57", "--shard", LEFT.shard_id).count("landed: ") == 1


def test_a_record_that_is_missing_in_its_range_and_one_in_no_range_are_told_apart(shown: Shown):
    shown.family.change_rows(FIRST, 8, lambda _: [])
    missing = shown("--sequence", "8", code=1)
    assert "the ranges of orders/shardId-000000000000, orders/shardId-000000000001, " in missing
    assert "span it, and no row of the table has it" in missing
    assert "no range has the sequence number 999: such a record has not landed" in shown(
        "--sequence", "999", code=1
    )


def test_a_record_in_a_gap_is_told_as_such(shown: Shown):
    shown.family.move(LEFT, 45, Kind.SKIPPED)
    assert "the range has no records in the table: the test's reason" in shown(
        "--sequence", "41", "--shard", LEFT.shard_id
    )


def test_an_aggregate_of_which_another_program_read_the_first_user_records_is_found(shown: Shown):
    """The rest is in the range that begins inside the record."""
    family, before = shown.family, shown.family.table.load().positions.of(LEFT)
    inside, whole = Position(41, 2, arrival=NOON, inside=True), Position(41, 5, arrival=NOON)
    file = replace(a_file(family.table.staging_spec(), {LEFT: [41]}), staged_at=family.lake.clock.at)
    foreign = Range(Kind.FOREIGN, LEFT, before, inside, run="r", claim="r")
    rest = Range(Kind.LANDED, LEFT, inside, whole, run="r", claim="r", rows=1, files=(Path(file.path).name,))
    family.lake.handle().commit(Proposal((foreign,)))
    assert not family.lake.handle().commit(Proposal((rest,), (file,))).landing.refused
    text = shown("--sequence", "41", "--shard", LEFT.shard_id)
    assert "foreign: orders/shardId-000000000002 after 38 up to 41/2" in text
    assert "landed: orders/shardId-000000000002 after 41/2 up to 41/5" in text
    assert "(as it landed); 1 row" in text


@pytest.mark.parametrize(
    "words",
    [
        ("--gaps", "--shard", "shardId-000000000000"),
        ("--family", "--csv"),
        ("--rebuild", "--shard", "shardId-000000000000"),
        ("--sequence", "37", "--csv"),
        ("--sequence", "37", "--limit", "1"),
        ("--sequence", "37", "--from", "2026-01-31"),
        ("--gaps", "--json"),
        ("--family", "--limit", "1"),
        ("--gaps", "--to", "2026-01-31"),
    ],
)
def test_options_that_a_view_has_no_use_for_are_refused(
    shown: Shown, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert main(["lineage", "--config", str(shown.config), *words]) == STOPPED
    assert "can't go with" in capsys.readouterr().err


def test_gaps_are_listed(shown: Shown):
    assert shown("--gaps").startswith("no gap: ")
    shown.family.move(LEFT, 45, Kind.SKIPPED)
    assert "records are missing by a recorded gap: orders/shardId-000000000002 after 38 up to 45" in shown(
        "--gaps"
    )


def test_the_family_is_a_picture_with_states(shown: Shown):
    text = shown("--family")
    assert text.startswith("flowchart LR\n")
    assert '["shardId-000000000000<br/>ended, 15 records"]:::ended' in text
    assert '["shardId-000000000004<br/>open, 5 records"]:::open' in text
    edges = [line.strip() for line in text.splitlines() if "-->" in line]
    assert edges == ["s0n0 --> s0n2", "s0n0 --> s0n3", "s0n1 --> s0n4", "s0n3 --> s0n4"]


def test_a_child_without_a_range_waits_in_the_picture(shown: Shown):
    shown.family.land((LEFT, 50), ends={LEFT: (a_key(5), a_key(6))})
    text = shown("--family")
    assert '["shardId-000000000005<br/>waiting, 0 records"]:::waiting' in text
    assert '["shardId-000000000002<br/>ended, 20 records"]:::ended' in text
