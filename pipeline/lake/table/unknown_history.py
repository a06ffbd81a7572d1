"""Whether a table without positions is really new to Headrace. Where it isn't, a new origin would land records
again (rule I1 of docs/reference/protocol.md).
"""

from __future__ import annotations

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.append import MARK, TAG
from headrace.pipeline.lake.table.position_chain import Known
from headrace.pipeline.lake.table.remedy import OF_THE_LAKE_TABLE, Remedy


def check_never_ours(table: Table, current: Known, remedy: Remedy = OF_THE_LAKE_TABLE) -> None:
    """Raise ChainBroken where Headrace has landed in this table before, or where the table has records that came
    without positions: a copy that another engine made of Headrace's table looks like this."""
    name = ".".join(table.name())
    if (trace := _trace(table, current)) is not None:
        raise ChainBroken(
            f"no snapshot in the history of {name} has positions, yet {trace} shows that "
            f"Headrace landed here before: the table was rolled back or replaced. Nothing was committed; {remedy.way}"
        )
    if _has_rows(table):
        raise ChainBroken(
            f"the table {name} has records, but no snapshot in its history has positions: another tool copied the table, "
            f"replaced it, or wrote into it before Headrace did. Nothing was committed, so that no record lands twice; {remedy.way}"
        )


def _trace(table: Table, current: Known) -> str | None:
    # Three traces, because other tools may remove each of them.
    if TAG in table.refs():
        return f"the tag {TAG}"
    if MARK in table.properties:
        return f"the property {MARK}"
    return next((f"snapshot {link.snapshot}" for link in current.values() if link.ours), None)


def _has_rows(table: Table) -> bool:
    # The list of manifests tells it, and not the summary, in which an engine needn't count.
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot is not None else ()
    return any(
        manifest.content is ManifestContent.DATA
        and (manifest.has_added_files() or manifest.has_existing_files())
        for manifest in manifests
    )
