"""What a message tells a person to do about a table whose positions can't be found, for each kind of table."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.state_files import StateFile
from headrace.pipeline.windows.table import IcebergWindowCopy
from tests.lake.samples import ORIGIN, a_landing
from tests.lake.tables import IcebergLake, append_as_others, expire_all_but_the_head
from tests.typed.parsings import BAD, A, Bed, good

PARSE_AGAIN = r"drop lake\.orders together with lake\.orders_quarantine, and all records that the lake table has are parsed again"
RUN_AGAIN = r"drop this table of a window and run the window again"


def typed(folder: Path) -> IcebergTable:
    return parsed(folder).typed()


def quarantine(folder: Path) -> IcebergTable:
    return parsed(folder).quarantine()


def parsed(folder: Path) -> Bed:
    bed = Bed(folder)
    bed.land(A, {1: good(1), 2: BAD})
    bed.catch_up()
    return bed


def window(folder: Path) -> IcebergTable:
    lake = IcebergLake(folder)
    table = IcebergWindowCopy(
        lake.properties, "lake.records_window_1", state=str(folder / "state"), clock=lake.clock
    )
    table.ensure(create=True)
    table.commit(ORIGIN)
    table.commit(a_landing(table.staging_spec(), A, after=None, numbers=[1]))
    return table


def pick(table: IcebergTable) -> None:
    append_as_others(table.open(), summary={"source-snapshot-id": "5"})


def cut(table: IcebergTable) -> None:
    append_as_others(table.open())
    append_as_others(table.open())
    expire_all_but_the_head(table, forget=True)


@pytest.mark.parametrize("lose", [pick, cut])
@pytest.mark.parametrize(
    ("make", "way"), [(typed, PARSE_AGAIN), (quarantine, PARSE_AGAIN), (window, RUN_AGAIN)]
)
def test_a_table_that_is_made_of_the_lake_table_is_made_again(
    tmp_path: Path,
    make: Callable[[Path], IcebergTable],
    way: str,
    lose: Callable[[IcebergTable], None],
):
    table = make(tmp_path)
    lose(table)
    with pytest.raises(ChainBroken) as told:
        table.load()
    assert re.search(way, str(told.value))
    assert table.identifier in str(told.value)
    assert "run `headrace repair`" not in str(told.value)


def test_a_walk_through_the_history_tells_the_same_way(tmp_path: Path):
    table = typed(tmp_path)
    cut(table)
    with pytest.raises(ChainBroken, match=PARSE_AGAIN):
        list(table.history())


def test_a_file_of_positions_that_is_gone_tells_the_same_way(tmp_path: Path):
    states = typed(tmp_path).states
    with pytest.raises(ChainBroken, match=f"put the file back from a backup, or .*{PARSE_AGAIN}"):
        states.read(StateFile("gone.json", ""))


def test_the_way_that_is_told_works(tmp_path: Path):
    bed = parsed(tmp_path)
    cut(bed.typed())
    with pytest.raises(ChainBroken, match=PARSE_AGAIN):
        bed.parsing().wave()
    for name in (bed.settings.table, bed.settings.quarantine):
        bed.typed().catalog.drop_table(name)
    bed.catch_up()
    bed.check()
