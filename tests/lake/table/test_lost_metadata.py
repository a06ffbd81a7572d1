"""The newest metadata file is gone or damaged: the error names it, and the documented way back works."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.errors import ChainBroken, CommitUnknown, MetadataLost, Unreachable
from headrace.pipeline.lake.table.metadata_files import finding_metadata
from tests.lake.samples import a_key, a_landing, at
from tests.lake.tables import IcebergLake, append_as_others, patch
from tests.lakehouse import an_iceberg_lake

A = a_key(0)
PAGE = Path(__file__).parents[3] / "docs" / "use" / "when-wrong.md"


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path, [1, 2], [3, 4])


def newest(lake: IcebergLake) -> Path:
    return Path(lake.iceberg.open().metadata_location)


def statement_of_the_page() -> str:
    section = PAGE.read_text().split("## A metadata file that is gone")[1].split("\n## ")[0]
    (statement,) = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    return str(statement)


HARMS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_text(""),
    "cut off": lambda path: path.write_text(path.read_text()[:800]),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "no metadata": lambda path: path.write_text("{}"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_the_error_names_the_file_and_the_one_before(lake: IcebergLake, harm: Callable[[Path], object]):
    path = newest(lake)
    before = Path(lake.iceberg.open().metadata.metadata_log[-1].metadata_file)
    harm(path)
    for ask in ("load", "exists", "staging_spec"):
        with pytest.raises(MetadataLost) as caught:
            getattr(lake.handle(), ask)()
        said = str(caught.value)
        assert f"{path}, is {'gone' if harm is Path.unlink else 'damaged'}" in said
        assert "Nothing was committed" in said
        assert f"the file before it, {before}," in said
        assert "\n" not in said


def test_the_way_back_that_the_page_tells_lands_each_record_once(lake: IcebergLake):
    newest(lake).write_text("")
    with sqlite3.connect(lake.folder / "catalog.db") as database:
        assert database.execute(statement_of_the_page()).rowcount == 1
    again = lake.handle()
    assert again.load().positions.of(A) == at(2)
    assert lake.numbers() == {A.shard_id: [1, 2]}
    assert not again.commit(a_landing(again.staging_spec(), A, after=2, numbers=[3, 4])).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_after_the_way_back_a_process_that_stood_still_names_files_that_upkeep_has_deleted(
    lake: IcebergLake,
):
    """Nothing of the table tells that there was a later commit. So the page says to end every process first."""
    late = a_landing(lake.iceberg.staging_spec(), A, after=4, numbers=[5])

    def delete_behind_a_fence_and_go_back() -> None:
        lake.handle().carry()
        lake.remove(late.files[0])
        with sqlite3.connect(lake.folder / "catalog.db") as database:
            database.execute(statement_of_the_page())

    lake.before_next_swap(delete_behind_a_fence_and_go_back)
    assert not lake.iceberg.commit(late).landing.refused
    with pytest.raises(Unreachable, match=Path(late.files[0].path).name):
        lake.numbers()
    assert "End each process of Headrace" in PAGE.read_text()


def test_without_a_file_before_the_statement_of_the_page_changes_nothing(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    assert lake.iceberg.load().origin_allowed
    with sqlite3.connect(lake.folder / "catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET previous_metadata_location = NULL")
        assert database.execute(statement_of_the_page()).rowcount == 0


def test_a_commit_whose_outcome_cant_be_seen_any_more_isnt_reported_as_not_landed(lake: IcebergLake):
    commit = lake.iceberg.catalog.commit_table

    def land_and_lose(*args: object) -> None:
        commit(*args)  # type: ignore[arg-type]
        newest(lake).unlink()
        lake.iceberg.catalog._kept = {}  # type: ignore[attr-defined] # as in another process
        raise ConnectionResetError("the answer was lost")

    proposal = a_landing(lake.iceberg.staging_spec(), A, after=4, numbers=[5])
    patch(lake.iceberg.catalog, "commit_table", land_and_lose)
    with pytest.raises(CommitUnknown, match="landed whole or not at all"):
        lake.iceberg.commit(proposal)


def test_a_damaged_older_metadata_file_ends_the_walk_as_a_missing_one_does(lake: IcebergLake):
    lake.iceberg.open().manage_snapshots().remove_tag("headrace").commit()
    append_as_others(lake.iceberg.open())
    lake.expire_all_but_the_head(forget=False)
    for entry in lake.iceberg.open().metadata.metadata_log:
        Path(entry.metadata_file).write_text("{")
    with pytest.raises(ChainBroken, match="headrace repair"):
        lake.handle().load()


def test_the_error_of_a_catalog_that_reads_the_file_itself_has_the_path_of_a_missing_file(tmp_path: Path):
    with (
        pytest.raises(MetadataLost, match=r"nowhere\.metadata\.json.* is gone"),
        finding_metadata("lake.records"),
    ):
        (tmp_path / "nowhere.metadata.json").read_text()
