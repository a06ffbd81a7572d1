"""What the attempts of one commit share: the manifest entries of its files, and their manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.types import StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.table import commit_files
from headrace.pipeline.lake.table.data_files import data_files
from tests.lake.samples import a_file, a_key, a_landing, a_range, numbers_in
from tests.lake.tables import IcebergLake, append_as_others, commit_nothing, patch
from tests.lakehouse import an_iceberg_lake

A, B = a_key(0), a_key(1)


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path)


@pytest.fixture
def footers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files whose footers were read, in order."""
    read: list[str] = []

    def noted(files, table):
        read.extend(file.path for file in files)
        return data_files(files, table)

    monkeypatch.setattr(commit_files, "data_files", noted)
    return read


def manifests(lake: IcebergLake) -> set[Path]:
    folder = Path(lake.iceberg.open().location().removeprefix("file://")) / "metadata"
    return set(folder.glob("*-m*.avro"))


def landing_after(lake: IcebergLake, *meanwhile: Callable[[], object]) -> Proposal:
    """Land a record of shard A. Each function acts just before a request is sent."""
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])

    def one_after_the_other(acts: tuple[Callable[[], object], ...]) -> None:
        if acts:
            acts[0]()
            lake.before_next_swap(lambda: one_after_the_other(acts[1:]))

    lake.before_next_swap(lambda: one_after_the_other(meanwhile))
    assert not lake.table.commit(proposal).landing.refused
    return proposal


def test_after_a_refusal_the_footers_arent_read_and_the_manifest_isnt_written_again(
    lake: IcebergLake, footers: list[str]
):
    def carry() -> None:
        # It adds no file, and so no manifest.
        lake.handle().carry()

    before = manifests(lake)
    proposal = landing_after(lake, carry, carry, carry)
    assert footers == [proposal.files[0].path]
    assert len(manifests(lake) - before) == 1
    assert lake.numbers() == {A.shard_id: [1]}


def test_the_rows_of_a_manifest_that_was_used_again_belong_to_the_snapshot_that_landed(lake: IcebergLake):
    landing_after(lake, lambda: append_as_others(lake.handle().open()))
    table = lake.iceberg.open()
    head = table.current_snapshot()
    assert head is not None
    added = [each for each in head.manifests(table.io) if each.added_snapshot_id == head.snapshot_id]
    entries = [entry for each in added for entry in each.fetch_manifest_entry(table.io)]
    assert [(e.snapshot_id, e.sequence_number) for e in entries] == [(head.snapshot_id, head.sequence_number)]


def test_a_manifest_that_something_deleted_after_a_refusal_is_written_again(lake: IcebergLake):
    before = manifests(lake)

    def someone_tidies_up() -> None:
        lake.handle().carry()
        for path in manifests(lake) - before:
            path.unlink()

    landing_after(lake, someone_tidies_up)
    assert lake.numbers() == {A.shard_id: [1]}


def test_after_a_request_without_an_answer_the_next_attempt_has_a_manifest_of_its_own(lake: IcebergLake):
    before = manifests(lake)
    lake.lose("request")
    lake.table.commit(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1]))
    assert len(manifests(lake) - before) == 2
    assert lake.numbers() == {A.shard_id: [1]}


def land_and_call_it_a_refusal(lake: IcebergLake, then: Callable[[], object]) -> None:
    """botocore repeats a request whose answer was lost, and gets a refusal, because its own first request has landed."""
    commit = lake.iceberg.catalog.commit_table

    def commit_twice(*args: Any) -> Any:
        patch(lake.iceberg.catalog, "commit_table", commit)
        commit(*args)
        then()
        return commit(*args)

    patch(lake.iceberg.catalog, "commit_table", commit_twice)


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_commit_that_landed_and_was_called_refused_counts_once(lake: IcebergLake, refusals: int):
    """Also where its manifest is one that an earlier attempt has written."""
    before = manifests(lake)
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])

    def real_refusal() -> None:
        lake.handle().carry()
        land_and_call_it_a_refusal(lake, then=lambda: None)

    if refusals:
        lake.before_next_swap(real_refusal)
    else:
        land_and_call_it_a_refusal(lake, then=lambda: None)
    snapshot = lake.table.commit(proposal).snapshot
    assert len(manifests(lake) - before) == 1
    assert snapshot == lake.handle().load().snapshot
    assert lake.numbers() == {A.shard_id: [1]}


def test_a_commit_that_landed_and_was_called_refused_and_was_rolled_back_lands_once_more(lake: IcebergLake):
    before = manifests(lake)
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    land_and_call_it_a_refusal(lake, then=lambda: lake.rollback(1))
    committed = lake.table.commit(proposal)
    assert len(manifests(lake) - before) == 1
    assert committed.snapshot == lake.handle().load().snapshot
    assert lake.numbers() == {A.shard_id: [1]}


def test_a_shard_that_is_refused_at_the_second_attempt_isnt_in_its_manifest(lake: IcebergLake):
    spec = lake.iceberg.staging_spec()
    of_a, of_b = a_file(spec, {A: [1]}), a_file(spec, {B: [1]})
    proposal = Proposal((a_range(A, None, 1, files=[of_a]), a_range(B, None, 1, files=[of_b])), (of_a, of_b))
    theirs = a_landing(spec, B, after=None, numbers=[1, 2])
    lake.before_next_swap(lambda: lake.handle().commit(theirs))
    assert [each.range.key for each in lake.table.commit(proposal).landing.refused] == [B]
    assert lake.numbers() == {A.shard_id: [1], B.shard_id: [1, 2]}


def test_a_change_of_the_schema_between_two_attempts_makes_entries_and_manifest_anew(
    lake: IcebergLake, footers: list[str]
):
    def add_a_column() -> None:
        table = lake.iceberg.open()
        with table.update_schema() as change:
            change.add_column("added", StringType())
        commit_nothing(lake.iceberg.open())

    before = manifests(lake)
    proposal = landing_after(lake, add_a_column)
    assert footers == [proposal.files[0].path] * 2
    assert len(manifests(lake) - before) == 2
    assert numbers_in(lake.iceberg.open().scan().to_arrow()) == {A.shard_id: [1]}


def test_twenty_manifests_are_merged_by_an_attempt_that_uses_its_manifest_again(lake: IcebergLake):
    for number in range(1, 19):
        lake.table.commit(
            a_landing(lake.iceberg.staging_spec(), B, after=number - 1 or None, numbers=[number])
        )

    def one_more() -> None:
        lake.handle().commit(a_landing(lake.iceberg.staging_spec(), B, after=18, numbers=[19]))

    landing_after(lake, one_more)
    table = lake.iceberg.open()
    head = table.current_snapshot()
    assert head is not None
    assert len(head.manifests(table.io)) == 1
    assert lake.numbers() == {A.shard_id: [1], B.shard_id: list(range(1, 20))}


def test_only_a_file_that_isnt_found_counts_as_gone(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch):
    """S3 answers 403 while a role lacks a right. The staged file may be there all the same."""
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])

    def forbidden(_: PyArrowFile) -> bool:
        raise PermissionError("AWS Error ACCESS_DENIED during HeadObject operation")

    with monkeypatch.context() as patched:
        patched.setattr(PyArrowFile, "exists", forbidden)
        with pytest.raises(Unreachable, match="can't be reached now"):
            lake.table.commit(proposal)
    assert lake.numbers() == {}
    assert not lake.table.commit(proposal).landing.refused
