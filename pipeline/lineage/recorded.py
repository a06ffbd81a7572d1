"""Up to which snapshot the lineage table has ledgers, as the summary of each of its commits says and as its rows
show.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.ledger.rows import DERIVED, LOST, RANGE
from headrace.pipeline.errors import WrongShape

RECORDED = "headrace.recorded"
"""Key in the summary of a recording's snapshot: how far the lineage table goes with this snapshot."""
_VERSION = "1"


def write_recorded(recorded: Recorded) -> str:
    return f"{_VERSION}:{json.dumps(asdict(recorded))}"


def read_recorded(text: str, identifier: str) -> Recorded:
    version, _, body = text.partition(":")
    if version != _VERSION:
        raise WrongShape(
            f"the newest recording in {identifier} has the version {version[:20]!r}, and this Headrace reads version {_VERSION}. "
            "Nothing was changed; upgrade Headrace in this deployment"
        )
    try:
        return Recorded(**json.loads(body))
    except (ValueError, TypeError) as error:
        raise WrongShape(
            f"the newest recording in {identifier} can't be read ({error}). Nothing was changed; roll the table back to a snapshot "
            "before it, or drop it, and the next recording makes it anew"
        ) from error


def recorded_of(rows: pa.Table) -> Recorded:
    """Up to which snapshot a lineage table with just these rows would have ledgers, and its counts."""
    if not rows.num_rows:
        return Recorded()
    newest = pc.max(rows["snapshot_sequence"])
    of_newest = rows.filter(pc.equal(rows["snapshot_sequence"], newest))
    of_kind = {
        entry: rows.filter(pc.equal(rows["entry"], pa.scalar(entry))) for entry in (RANGE, DERIVED, LOST)
    }
    is_lost_part = pc.is_in(rows["entry"], value_set=pa.array([LOST, DERIVED]))
    return Recorded(
        of_newest["snapshot_id"][0].as_py(),
        newest.as_py(),
        ranges=of_kind[RANGE].num_rows + of_kind[DERIVED].num_rows,
        snapshots=pc.count_distinct(rows.filter(pc.invert(is_lost_part))["snapshot_id"]).as_py(),
        gaps=of_kind[LOST].num_rows,
    )
