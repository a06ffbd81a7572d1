"""What the tests of differences between the ledgers and the rows of a lake table share."""

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.typed.wave import Parsing
from tests.lake.tables import expire_all_but_the_head
from tests.typed.parsings import Bed


def accepting(bed: Bed) -> Parsing:
    """The wave of a person who accepts differences."""
    parsing = bed.parsing()
    checking = parsing.checking
    assert checking is not None
    return replace(parsing, checking=replace(checking, accepts_difference=True))


def expire_snapshots(bed: Bed) -> None:
    """Also the metadata files of all but the newest commits are gone, as `write.metadata.previous-versions-max` deletes
    them. The lineage table keeps the ledgers."""
    IcebergLineage(bed.lake.handle()).record(at_most=timedelta(minutes=1))
    expire_all_but_the_head(bed.lake.handle(), forget=True)
