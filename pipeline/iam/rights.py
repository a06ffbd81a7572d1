"""A statement of a policy, and the statements about the lake that roles share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.pipeline.iam.places import ApplicationArns


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a policy, which allows these actions on these resources."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]


def statement(sid: str, service: str, actions: str, resources: tuple[str, ...]) -> Iterator[Statement]:
    """The statement that allows these actions; nothing where there are no resources. `actions`: names with blanks
    between them.
    """
    if actions and resources:
        yield Statement(sid, tuple(f"{service}:{action}" for action in actions.split()), resources)


def files(
    places: ApplicationArns, actions: str, folders: tuple[str, ...] | None = None
) -> Iterator[Statement]:
    """The statement that allows these actions on the objects of these folders; where no folders are given, on
    those of the warehouse and of the state folder.
    """
    named = (*places.warehouse, *places.state) if folders is None else folders
    yield from statement("Files", "s3", actions, tuple(places.s3(f"{folder}/*") for folder in named))


def listing(places: ApplicationArns) -> Iterator[Statement]:
    """The statement that allows listing a bucket. Without that right S3 answers *forbidden* for an object that
    doesn't exist.
    """
    yield from statement("TellMissingFromForbidden", "s3", "ListBucket", places.buckets)


class Use(StrEnum):
    """What a role does with tables of the catalog. The values are actions of Glue."""

    READS = "GetTable"
    COMMITS = "GetDatabase GetTable CreateTable UpdateTable"
    """It may also make a table, such as the lineage table, in a database that is there."""
    BEGINS = "GetDatabase CreateDatabase GetTable CreateTable UpdateTable"


_OF_BUCKET = {
    Use.READS: "GetTableBucket GetNamespace",
    Use.COMMITS: "GetTableBucket GetNamespace CreateTable",
    Use.BEGINS: "GetTableBucket GetNamespace CreateNamespace CreateTable",
}
"""The actions on a bucket of S3 Tables. They are from AWS's documentation: no test has an S3 table bucket."""
_IN_BUCKET = "GetTable GetTableMetadataLocation GetTableData"
_WRITES_IN_BUCKET = f"{_IN_BUCKET} CreateTable UpdateTableMetadataLocation PutTableData"


def catalog(places: ApplicationArns, tables: tuple[str, ...], use: Use) -> Iterator[Statement]:
    """The statements that allow this use of these tables in the catalog."""
    if places.settings.landing.catalog.get("type") == "glue":
        yield from statement("CatalogTables", "glue", use, places.glue(tables))
    if (bucket := places.table_bucket) is not None:
        yield from statement("TableBucket", "s3tables", _OF_BUCKET[use], (bucket,))
        of_tables = _IN_BUCKET if use is Use.READS else _WRITES_IN_BUCKET
        yield from statement("TablesInTheBucket", "s3tables", of_tables, (f"{bucket}/table/*",))
