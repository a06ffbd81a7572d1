"""The proof that the lake table holds what its ledgers state, and that the tables which were made of it account for
each of its rows. It reads ledgers, rows and Kinesis's list of shards, changes nothing, and can run beside everything
else.

    look at the newest snapshot -> ledgers up to it -> rows, on Spark -> all checks -> remember what was read

Each table is proved in these steps; tables differ in what their rows are compared with
(`headrace.pipeline.proof.subject`). Rows that an earlier proof has read are not read again, as long as their
files are the same, or were replaced by files with the same records of the same day. Otherwise all rows are read
anew. The ranges of rows that aren't read again are joined, so that a long history needn't be in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.arrivals import ALL, Window, first_kept_day
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.proof.checks import proof_of
from headrace.pipeline.proof.evidence import TableLook
from headrace.pipeline.proof.lake_subject import LakeSubject, listings_of_streams
from headrace.pipeline.proof.made.subject import MadeSubject, sides_of
from headrace.pipeline.proof.memory import proved_now
from headrace.pipeline.proof.ports import ProofTable, ProvedTable, TargetPorts
from headrace.pipeline.proof.processed.subject import ProcessedSubject
from headrace.pipeline.proof.read_rows import all_rows, new_rows, window_rows
from headrace.pipeline.proof.sides import Side, late_steps
from headrace.pipeline.proof.subject import MOST_RANGES, ProofReading, Subject
from headrace.pipeline.proof.verdict import Proof, TableProof
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """The proof of the lake table, and of all tables that were made of it."""

    table: ProofTable
    lineage: LineageTable
    source: Callable[[], ShardSource]
    settings: UpkeepSettings
    clock: Clock
    target_ports: Callable[[], Iterable[TargetPorts]] = tuple
    """The tables that were made of the lake table."""
    most_ranges: int = MOST_RANGES
    """The most ranges that are in memory at once. Only a single day that has more goes beyond it."""

    def run(self, window: Window = ALL, *, anew: bool = False) -> Proof:
        """Prove all tables.

        `window`: prove only ranges with records that arrived in this time. `anew`: read all rows, also those that
        an earlier proof has read.
        """
        lake = self._lake(window)
        finding, reading = prove(lake, window, anew=anew)
        # From here on the lake table counts as it was read: what has landed since belongs to the next proof.
        made = (prove(subject, window, anew=anew)[0] for subject in self._made_of(lake, reading))
        return proof_of(lake.evidence(reading), finding, made)

    def _lake(self, window: Window) -> LakeSubject:
        # The look first: what lands since belongs to the next proof.
        look, before = self.table.look(), self.table.remembered()
        # What an earlier proof knew, and what the table states: the upkeep may have had another clock, or a shorter retention.
        said = [look.state.kept_from, None if before is None else before.kept_from]
        kept_before = max((day for day in said if day is not None), default=None)
        kept_from = first_kept_day(self.clock.now(), self.settings.retention, kept_before)
        ports = ProvedTable("the lake table", lambda: True, self.table, self.lineage)
        table_look = TableLook(name=ports.name, positions=look.state.positions, live=look.live)
        # After the look: a shard that was listed before may have ended in the table since, and its children wouldn't be
        # known.
        listed, unlisted = listings_of_streams(self.source, look)
        return LakeSubject(
            sides=(Side(ports, table_look, before, look.sequence, kept_from=kept_from),),
            kept_from=kept_from,
            most_ranges=self.most_ranges,
            look=look,
            window=window,
            listed=listed,
            unlisted=unlisted,
            accepted=self.table.accepted(),
        )

    def _made_of(self, lake: LakeSubject, reading: ProofReading) -> Iterator[MadeSubject]:
        """The tables that were made of the lake table and exist."""
        landed = reading.sides[0].look.story
        moved = frozenset(step.range.key for step in landed.all() if step.range.may_go_back)
        for target_ports in self.target_ports():
            if target_ports.table.exists():
                kind = ProcessedSubject if target_ports.is_processed else MadeSubject
                yield kind(
                    sides=sides_of(target_ports),
                    kept_from=lake.kept_from,
                    most_ranges=self.most_ranges,
                    ports=target_ports,
                    moved=moved,
                    landed=landed,
                    landed_of=lambda shard_filter: story_of(
                        self.lineage.entries(replace(shard_filter, upto=lake.look.sequence))
                    ),
                )


def prove(subject: Subject, window: Window, *, anew: bool) -> tuple[TableProof, ProofReading]:
    """The result of the checks of one table, and what was read for them. If the checks find no mistake, the table
    remembers what was read.
    """
    reading = new_rows(subject) if window.is_all and not anew else None
    finding = None if reading is None else subject.finding(reading)
    if reading is None or finding is None or (subject.reads_again and not finding.holds):
        reading = (all_rows(subject) if window.is_all else None) or window_rows(subject, window)
        finding = subject.finding(reading)
    # A table whose quarantine table hasn't followed yet is read whole by the next proof.
    if not finding.holds or not window.is_all or late_steps(reading.sides)[0]:
        return finding, reading
    try:
        _remember(subject, reading, finding)
    except HeadraceError as error:
        # A role that may only read can prove all the same.
        finding = replace(finding, forgotten=str(error))
    return finding, reading


def _remember(subject: Subject, reading: ProofReading, finding: TableProof) -> None:
    # As long as the rows of aggregates that were taken apart haven't followed, each proof looks for them and says so.
    apart = subject.apart if not any(check.unproved for check in finding.checks) else None
    for side in reading.sides:
        before = side.before if reading.is_new else None
        proved = proved_now(
            side.ledgers.newest,
            side.look.live,
            side.look.counts,
            before,
            kept_from=side.kept_from,
            apart=apart,
        )
        if proved is not None:
            side.ports.rows.remember(proved)
