"""`headrace repair`: a person repairs a table whose snapshots no longer lead to its positions. It reads all that
is left to show positions, plans, and commits the positions once.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from headrace.pipeline.core.landing.repair_plan import Repair, TableEvidence, plan_repair
from headrace.pipeline.core.order.parents import Family, a_family
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.position import Origin, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import rows_of_stream
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.streams.streams import stream_as_written
from headrace.pipeline.errors import ChainBroken, Unknown
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairing:
    """Repairs a lake table whose snapshots no longer lead to its positions."""

    settings: Settings
    leases: LeaseStore
    source: ShardSource
    table: LakeTable
    run: str

    def plan(self, *, why: str, origin: Start | None = None) -> Repair | Stop:
        """The positions that a repair would commit, or why there is nothing to repair. `origin`: the origin that
        the person gives for streams whose origin no snapshot has.
        """
        try:
            self.table.load()
        except ChainBroken:
            pass  # this is what a repair is for: the plan below tells the person what is left of the history
        else:
            return Stop("the lake table has its positions: there is nothing to repair; nothing was changed")
        facts = self._streams()
        evidence = self.table.evidence([stream_facts.stream for stream_facts in facts])
        families = self._families(facts, evidence)
        return plan_repair(
            evidence,
            families,
            # No snapshot tells since when records of an unread shard may have been lost. The stream's creation is the
            # earliest possible moment, so that no gap is missed.
            origins={} if origin is None else {s.stream: Origin(origin, s.stream.created) for s in facts},
            gone=self._gone(evidence, families),
            why=why,
            run=self.run,
        )

    def carry_out(self, repair: Repair) -> str:
        # On the snapshot that the plan has seen: a commit since may have positions that the person hasn't read of.
        state = self.table.rebuild(repair.landing, repair.on)
        shards = counted(len(state.positions.shards), "shard")
        return f"repaired: snapshot {state.snapshot} has the positions of {shards}"

    def _streams(self) -> list[StreamFacts]:
        """The streams that the settings or lease rows name, and that still exist."""
        names = {stream.name for stream in self.settings.streams}
        names |= {stream_as_written(self.settings, row) for row in self.leases.scan().leases if row.stream}
        facts_by_stream: dict[StreamId, StreamFacts] = {}
        for name in sorted(names):
            with suppress(Unknown):
                facts = self.source.describe(name)
                facts_by_stream[facts.stream] = facts
        return list(facts_by_stream.values())

    def _families(self, facts: Iterable[StreamFacts], evidence: TableEvidence) -> dict[StreamId, Family]:
        """The family of each stream, by the listing, the rows, and every END and range in the snapshots that can be
        read."""
        rows = self.leases.scan().leases
        families: dict[StreamId, Family] = {}
        for stream_facts in facts:
            stream = stream_facts.stream
            family = a_family(
                stream,
                self.source.list_shards(stream),
                leases=[row for row in rows_of_stream(stream, rows) if row.stream_epoch == stream.epoch],
            )
            families[stream] = _with_history(family, evidence)
        # Streams that no longer exist, and earlier lives of streams: the table may still have their rows.
        for stream in {key.stream for key in evidence.rows} - families.keys():
            families[stream] = _with_history(a_family(stream, ()), evidence)
        return families

    def _gone(self, evidence: TableEvidence, families: dict[StreamId, Family]) -> frozenset[ShardKey]:
        """Shards that Kinesis has forgotten. They need no position, because no record of them can be read again.

        All shards of an earlier life of a stream are gone once a later life exists. A stream that merely isn't found is
        not taken for gone: the answer may be a mistake, and the stream's records would then be read and landed again.
        """
        listed = {family.stream for family in families.values() if family.listed}
        living = {stream.arn for stream in listed}
        return frozenset(
            key
            for key in evidence.rows
            if (key.stream not in listed and key.stream.arn in living)
            or (
                key.stream in listed
                and key.shard_id not in families[key.stream].listed
                and self.source.is_gone(key)
            )
        )


def _with_history(family: Family, evidence: TableEvidence) -> Family:
    """The family with the parents and children that the snapshots name, also of shards that Kinesis has forgotten."""
    parents = {shard: set(shard_parents) for shard, shard_parents in family.parents.items()}
    for state in evidence.known:
        for key, position in state.positions.shards.items():
            for child in position.children if key.stream == family.stream else ():
                parents.setdefault(child, set()).add(key.shard_id)
        for recorded in state.page.ranges:
            if recorded.key.stream == family.stream and recorded.parents:
                parents.setdefault(recorded.key.shard_id, set()).update(p.shard_id for p in recorded.parents)
    children: dict[str, set[str]] = {}
    for shard, above in parents.items():
        for parent in above:
            children.setdefault(parent, set()).add(shard)
    return Family(
        family.stream,
        {k: frozenset(v) for k, v in parents.items()},
        {k: frozenset(v) for k, v in children.items()},
        in_scope=family.in_scope,
        listed=family.listed,
        with_row=family.with_row,
    )
