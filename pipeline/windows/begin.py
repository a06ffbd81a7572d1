"""The first commit of a window's own table brings it to where the window begins. From then on its positions refuse a
second run, as those of the lake table do."""

from __future__ import annotations

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.shards.position import TRIM, Origin, Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.typed.ports import MadePorts
from headrace.pipeline.windows.copy_plan import beginnings
from headrace.pipeline.windows.make import origins_of
from headrace.pipeline.windows.window import ReplayWindow, filter_of


def has_begun(window: ReplayWindow, target: Positions) -> bool:
    """Whether the window's table, which has these positions, is where the window begins, or further on."""
    return not beginnings(window, target, run="") and set(window.streams) <= target.origins.keys()


def has_old_ledgers(ports: MadePorts) -> bool:
    """Whether there is still a lineage table of a dropped table with this name, or of its quarantine table."""
    kept_lineages = (kept_table.lineage() for kept_table in ports.kept)
    return any(lineage.recorded() != Recorded() for lineage in (ports.lineage, *kept_lineages))


def begin_table(
    window: ReplayWindow,
    table: LandingTable,
    source: Positions,
    landed: LineageTable,
    *,
    run: str,
    kind: Kind = Kind.COPIED,
    account: str = "",
    is_sole: bool = False,
) -> bool:
    """Bring the window's table to where the window begins. Where another run has done so meanwhile, this does
    nothing.

    `source`, `landed`: the positions and the ledgers of the lake table. `kind`, `account`: those of the ranges
    that lead to the beginnings. `is_sole`: whether the table states which window it belongs to, so that nothing
    else goes on from its positions. Returns whether there was something to do.
    """
    target = table.load().positions
    if has_begun(window, target):
        return False
    origins = tuple(
        (s, _origin(s, window, source, landed)) for s in window.streams if s not in target.origins
    )
    ranges = beginnings(window, target, run=run, kind=kind, account=account)
    table.commit(Proposal(ranges, origins=origins, whole=True, window=window.id if is_sole else ""))
    return True


def _origin(stream: StreamId, window: ReplayWindow, source: Positions, landed: LineageTable) -> Origin:
    """The origin by the lake table's positions; of a former life that a repair has left out by its ledgers."""
    if stream in source.origins:
        return source.origins[stream]
    # Where these are lost, too: the earliest moment from which the stream can have been read.
    return origins_of(landed.entries(filter_of(window))).get(stream, Origin(TRIM, stream.created))
