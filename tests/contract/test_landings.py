"""Which applications have landed lately, as every lake table tells it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.applications import LandedBy, others_at_work
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table.state_files import StateFiles
from headrace.pipeline.lake.table.summary import ledger_in
from tests.contract.lakes import LAKES, a_lake
from tests.lake.samples import NOON, ORIGIN, STREAM, a_key, a_landing
from tests.lake.tables import IcebergLake, Lake

A = a_key(0)
LONG_AGO = NOON - timedelta(days=9999)


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = a_lake(request, tmp_path)
    lake.handle("first").commit(ORIGIN)
    return lake


def land(lake: Lake, application: str, number: int, key: ShardKey = A) -> None:
    table = lake.handle(application)
    lake.clock.pause(10)
    proposal = a_landing(table.staging_spec(), key, after=number - 1 or None, numbers=[number])
    assert not table.commit(proposal).landing.refused


def told(lake: Lake, since: datetime = LONG_AGO) -> list[str]:
    return [commit.application for commit in lake.handle("reader").landings(since)]


def test_each_landing_names_its_application_newest_first_and_an_origin_is_none(lake: Lake):
    for number, application in enumerate(["first", "first", "second", "first"], start=1):
        land(lake, application, number)
    assert told(lake) == ["first", "second", "first", "first"]
    assert others_at_work(lake.handle("first").landings(LONG_AGO), "first") == ()
    land(lake, "second", 5)
    (other,) = others_at_work(lake.handle("first").landings(LONG_AGO), "first")
    assert (other.name, other.streams) == ("second", (STREAM.name,))


def test_the_look_ends_at_the_given_time(lake: Lake):
    for number, application in enumerate(["second", "first", "second"], start=1):
        land(lake, application, number)
    newest = lake.handle("first").landings(LONG_AGO)[0].when
    assert told(lake, newest)[0] == "second"
    assert told(lake, newest + timedelta(milliseconds=1)) == []


def test_rolled_back_landings_other_engines_and_carried_positions_count_for_nothing(lake: Lake):
    for number, application in enumerate(["first", "second", "first", "second"], start=1):
        land(lake, application, number)
    lake.rollback(3)
    lake.append_as_others()
    lake.handle("upkeep").carry()
    lake.handle("second").commit(Proposal())
    assert told(lake) == ["first"]


def test_no_ledger_is_read_while_one_application_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lake = IcebergLake(tmp_path)
    lake.handle("first").commit(ORIGIN)
    reads: list[str] = []

    def counted(summary: Mapping[str, str], states: StateFiles) -> LedgerPage:
        reads.append("a ledger")
        return ledger_in(summary, states)

    monkeypatch.setattr("headrace.pipeline.lake.table.landings.ledger_in", counted)
    for number in range(1, 4):
        land(lake, "first", number)
    assert [commit.streams for commit in lake.handle("first").landings(LONG_AGO)] == [frozenset()] * 3
    assert reads == []
    land(lake, "second", 4)
    assert len(lake.handle("first").landings(LONG_AGO)) == len(reads) == 4
    assert isinstance(lake.handle("first").landings(LONG_AGO)[0], LandedBy)
