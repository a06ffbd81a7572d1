"""The proof names rows that landed and that no wave of a typed table found: a retention or another engine had removed them before."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.proof.target_proofs import prove, typed_ports, unproved, wrong
from tests.typed.parsings import BAD, A, B, Bed, good

DAY = timedelta(days=1)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.clock.at = datetime.now(UTC) + timedelta(hours=1)
    return bed


def parse_without_a_look_at_the_ledgers(bed: Bed) -> None:
    while replace(bed.parsing(), checking=None).wave().snapshot is not None:
        pass


@pytest.mark.parametrize("anew", [True, False])
def test_rows_that_a_retention_took_unparsed_are_named(bed: Bed, *, anew: bool):
    bed.land(A, {1: good(1), 2: BAD}, ended=[B.shard_id], arrival=bed.clock.at)
    parse_without_a_look_at_the_ledgers(bed)
    bed.land(B, {3: good(3), 4: good(4), 5: good(5)}, parents=[A.shard_id], arrival=bed.clock.at - 10 * DAY)
    IcebergLive(bed.lake.handle()).drop((bed.clock.at - 2 * DAY).date())
    bed.land(B, {6: good(6)}, arrival=bed.clock.at)
    parse_without_a_look_at_the_ledgers(bed)
    assert len(bed.parsed()) == 2
    _, proof = prove(bed, lambda: typed_ports(bed), anew=anew)
    assert [
        text
        for text in unproved(proof)
        if f"3 rows of {B} landed, and weren't in the lake table any more" in text
    ]


def test_a_typed_table_that_has_parsed_all_rows_has_nothing_of_the_kind(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD}, ended=[B.shard_id], arrival=bed.clock.at)
    parse_without_a_look_at_the_ledgers(bed)
    bed.land(B, {3: good(3)}, parents=[A.shard_id], arrival=bed.clock.at)
    parse_without_a_look_at_the_ledgers(bed)
    bed.land(B, {4: good(4)}, arrival=bed.clock.at)
    _, proof = prove(bed, lambda: typed_ports(bed))
    assert wrong(proof) == []
    assert unproved(proof) == []
