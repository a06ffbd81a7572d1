"""Which data files another engine's delete files are about."""

from pathlib import Path

import pytest

from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.merge_on_read import delete_by_values, delete_by_vector, delete_rows
from tests.lake.samples import NOON
from tests.upkeep.compactions import Small


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path, waves=3)


def deleted(small: Small) -> set[str]:
    return {each.path for each in small.live() if each.deletes}


def test_a_deletion_vector_is_about_the_data_file_that_its_entry_names(small: Small):
    """pyiceberg finds no bounds in its entry, and takes it for one about all files of the day."""
    first, second, third = (each.path for each in small.live())
    delete_by_vector(small.table.open(), second)
    assert deleted(small) == {second}
    delete_by_vector(small.table.open(), third)
    assert deleted(small) == {second, third}
    assert first not in deleted(small)


def test_a_position_delete_file_is_about_the_data_file_that_its_bounds_name(small: Small):
    first = small.live()[0].path
    delete_rows(small.table.open(), first, 0)
    assert deleted(small) == {first}


def test_a_delete_by_values_is_about_the_older_files_of_its_day(small: Small):
    small.clock.at = NOON
    older = {each.path for each in small.live()}
    delete_by_values(small.table.open(), min(older))
    small.land()
    assert deleted(small) == older
    assert IcebergLive(small.lake.handle()).live().obstacle


def test_a_compaction_leaves_only_the_file_of_a_deletion_vector(small: Small):
    for _ in range(3):
        small.land()
    gone = small.live()[0].path
    delete_by_vector(small.table.open(), gone)
    done = small.compacting().run()
    assert [len(group.files) for group in done.done] == [5]
    assert gone in {each.path for each in small.live()}
