"""What an expiry needs of a table's metadata, and the request that removes snapshots from it.

pyiceberg's own expiry isn't used: its request has no conditions. If main is rolled back after the metadata was
read and before the request is sent, the request removes the snapshot that main is on by then, and a REST catalog
removes the branch main along with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    TableRequirement,
)

from headrace.pipeline.core.landing.expiry_plan import History, Ref, Seen
from headrace.pipeline.lake.table.history import links_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GC = "gc.enabled"
"""Iceberg's property by which a table's owner forbids expiry and the deletion of files."""


def remove_snapshots(table: Table, history: History, snapshots: Sequence[int]) -> bool:
    """Send one request that removes these snapshots; False if it was refused. Nothing is removed unless each ref
    (branch or tag) still names the snapshot that it names in `history`.
    """
    # Each ref still names the snapshot that the plan saw: a tag that was set since may need a snapshot that is to go.
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=UUID(history.table)),
        *(
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot})
            for name, ref in history.refs.items()
        ),
    )
    update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshots)})
    try:
        table.catalog.commit_table(table, requirements, (update,))
    except CommitFailedException:
        return False
    return True


def history_of(table: Table) -> History:
    """All snapshots and refs of the table's newest metadata, for the plan of an expiry."""
    snapshots = {
        snapshot: Seen(
            snapshot,
            link.parent,
            link.sequence,
            _EPOCH + timedelta(milliseconds=link.at),
            # A cherry-pick by another engine has the rows of a landing and not its positions: they
            # aren't to be gone by.
            carries=link.ours and not link.picked,
            is_pick=link.picked,
        )
        for snapshot, link in links_of(table.metadata).items()
    }
    refs = {name: _ref(ref) for name, ref in table.metadata.refs.items()}
    return History(snapshots, refs, str(table.metadata.table_uuid), is_frozen=is_frozen(table.metadata))


def is_frozen(metadata: TableMetadata) -> bool:
    return metadata.properties.get(_GC, "true").lower() == "false"


def _ref(ref: SnapshotRef) -> Ref:
    at_most = ref.max_snapshot_age_ms
    return Ref(
        ref.snapshot_id,
        is_branch=ref.snapshot_ref_type == SnapshotRefType.BRANCH,
        at_least=ref.min_snapshots_to_keep or 0,
        at_most=None if at_most is None else timedelta(milliseconds=at_most),
    )
