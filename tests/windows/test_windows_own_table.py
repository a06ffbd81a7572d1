"""The table of a window that goes through a processor is that window's alone: nothing else goes on from its positions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.cli.views.window_views import shown, shown_json
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.schema import WINDOW
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.processors.redrive import ProcessorRedriving
from headrace.pipeline.processors.wiring import ProcessorWiring
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import OnProcessorError
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.window import ReplayWindow
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A, B, Bed
from tests.windows.processings import INTO, WindowProcessorBed
from tests.windows.replacements import ReplaceBed


def landed(tmp_path: Path, **settings: Any) -> WindowProcessorBed:
    bed = WindowProcessorBed(tmp_path, **settings)
    bed.land(A, {1: b"a", 2: b"b", 3: b"a"})
    bed.land(A, {4: b"a", 5: b"b"})
    return bed


def again(bed: WindowProcessorBed, window: ReplayWindow, name: str) -> ReplayWindow:
    """Another window, into the same table, as two persons make them at the same time."""
    other = replace(window, id=name)
    bed.wiring().ports.windows().keep(other)
    return other


def test_a_live_processor_never_goes_on_from_a_windows_table(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 4))
    bed.run(window)
    before = bed.of(window).rows()
    live = bed.on(replace(bed.settings, table=INTO))
    bed.land(A, {8: b"a"})
    bed.land(B, {10: b"a"})
    with pytest.raises(
        WrongShape, match=rf"is that of the window {window.id}.* name another `table` for words"
    ):
        live.catch_up()
    assert bed.of(window).rows() == before


def places(bed: ProcessorBed) -> list[str]:
    """Where the metadata of the table and of its quarantine table are: another place after each write."""
    return [table.open().metadata_location for table in (bed.table(), bed.quarantine())]


def redriving(bed: WindowProcessorBed, settings: ProcessorSettings, of_window: str) -> ProcessorRedriving:
    wiring = ProcessorWiring(
        settings=bed.wiring().settings,
        clock=bed.lake.clock,
        ports_of=lambda named, _run: bed.on(named).ports(),
        lineage=lambda _: IcebergLineage(bed.lake.lake.handle()),
    )
    return wiring.redriving(settings, "run", of_window=of_window)


def test_only_the_windows_own_redrive_writes_to_its_table(tmp_path: Path):
    bed = landed(tmp_path, on_error=OnProcessorError.QUARANTINE)
    bed.land(A, {6: b"bad"})
    window = bed.window()
    bed.run(window)
    at_first = places(bed.of(window))
    live, of_window = replace(bed.settings, table=INTO), bed.of(window).settings
    with pytest.raises(WrongShape, match=rf"is that of the window {window.id}.*Nothing was processed again"):
        list(redriving(bed, live, "").portions())
    with pytest.raises(WrongShape, match="isn't that of the window other"):
        list(redriving(bed, of_window, "other").portions())
    assert places(bed.of(window)) == at_first
    (told,) = redriving(bed, of_window, window.id).portions()
    assert str(told) == "1 record given again: 0 processed into 0 rows, 1 still set aside"


def test_a_live_processor_with_other_columns_adds_none_to_a_windows_table(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()
    bed.run(window)
    at_first = places(bed.of(window))
    live = bed.on(replace(bed.settings, table=INTO, schema="word STRING, total BIGINT, more STRING"))
    with pytest.raises(WrongShape, match="is that of the window"):
        live.catch_up()
    assert places(bed.of(window)) == at_first


@pytest.mark.parametrize("act", [lambda bed: bed.parsing().waves(), lambda bed: bed.redriving().portions()])
def test_a_typed_table_is_never_that_of_a_window(tmp_path: Path, act: Callable[[Bed], Iterator[Wave]]):
    bed = landed(tmp_path)
    window = bed.window()
    bed.run(window)
    at_first = places(bed.of(window))
    bed.lake.settings = replace(bed.lake.settings, table=INTO)
    with pytest.raises(WrongShape, match=rf"is that of the window {window.id}"):
        list(act(bed.lake))
    assert places(bed.of(window)) == at_first


def test_rows_in_a_windows_table_are_never_replaced(tmp_path: Path):
    bed = ReplaceBed(tmp_path)
    bed.land(A, {1: b'{"id": 1}'})
    list(bed.parsing().waves())
    window = bed.window(ALL)
    bed.typed().open().transaction().set_properties({WINDOW: "other"}).commit_transaction()
    at_first = bed.typed().open().metadata_location
    with pytest.raises(WrongShape, match=r"is that of the window other.*Nothing was replaced"):
        bed.replace(window)
    assert bed.typed().open().metadata_location == at_first


def test_nothing_lands_in_a_windows_table(tmp_path: Path):
    bed = landed(tmp_path)
    bed.run(bed.window())
    lake = bed.lake
    table = IcebergTable(lake.lake.properties, INTO, state=lake.state, clock=lake.clock)
    with pytest.raises(WrongShape, match=r"has no column partition_key.*Nothing was written"):
        table.ensure(create=False)


def test_of_two_windows_into_one_table_the_later_one_is_refused(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 2))
    other = again(bed, window, "other")
    bed.run(window)
    rows = bed.of(window).rows()
    with pytest.raises(
        WrongShape, match=rf"isn't that of the window other: it is that of the window {window.id}"
    ):
        bed.run(other)
    assert bed.of(window).rows() == rows


@pytest.mark.slow
def test_a_window_never_goes_on_from_a_table_that_was_made_after_the_window(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 4))
    live = bed.on(replace(bed.settings, table=INTO))
    live.catch_up()
    rows = live.rows()
    with pytest.raises(WrongShape, match="something else has made it or written to it"):
        bed.run(window)
    assert live.rows() == rows


@pytest.mark.slow
def test_a_table_that_was_dropped_without_its_lineage_table_is_refused_before_anything_is_processed(
    tmp_path: Path,
):
    bed = landed(tmp_path)
    window = bed.window()
    bed.run(window)
    IcebergLineage(bed.of(window).table()).record()
    catalog = bed.lake.lake.handle().catalog
    for name in (INTO, f"{INTO}_quarantine"):
        catalog.drop_table(name)
    with pytest.raises(WrongShape, match=rf"{INTO}_lineage.* drop these two as well"):
        bed.run(window)
    assert bed.of(window).table().load().snapshot is None
    _leave_a_lineage_table(bed)
    with pytest.raises(BadSetting, match="drop all four"):
        bed.window(into="lake.left")
    catalog.drop_table(f"{INTO}_lineage")
    bed.run(window)
    assert len(bed.of(window).rows()) == 5


def _leave_a_lineage_table(bed: WindowProcessorBed) -> None:
    """A lineage table alone is there, of a table that was dropped."""
    table = bed.on(replace(bed.settings, table="lake.left"))
    table.catch_up()
    IcebergLineage(table.table()).record()
    for name in ("lake.left", "lake.left_quarantine"):
        bed.lake.lake.handle().catalog.drop_table(name)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["_lineage", "_quarantine", "_quarantine_lineage"])
def test_a_window_into_a_table_beside_another_windows_is_refused(tmp_path: Path, end: str):
    bed = landed(tmp_path)
    first = bed.window(into="")
    with pytest.raises(BadSetting, match="of another window"):
        bed.window(into=f"{bed.of(first).settings.table}{end}")


def test_a_window_is_shown_also_once_its_processor_has_left_the_settings(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()
    bed.run(window)
    wiring = bed.wiring()
    wiring = replace(wiring, settings=replace(wiring.settings, processors=()))
    kept_window = wiring.windowing("a test").find(window.id)
    assert f"5 records processed into 5 rows, 0 set aside in {INTO}" in list(shown(kept_window, wiring))
    assert shown_json(kept_window, wiring)["done"] == 5
