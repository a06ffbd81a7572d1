"""How the rows of a wave come into a table of the latest rows.

    staged rows ─► look: which files may have their keys ─► decide: which rows leave ─► copy what stays ─► one commit

The wave's commit lands the new rows, removes the files that lose rows, lands copies of what stays of these, and moves
the positions: all of it or nothing. It is refused where another commit has moved a position since the look, because then
the table may have rows that the wave's rows weren't compared with, or where something else has replaced one of the files.
So a wave that is done again, also by another process, finds the table as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.latest_plan import Departures, KeyPart, LatestLook
from headrace.pipeline.typed.ports import LatestRows
from headrace.pipeline.typed.values import Parsed, ShardCount


@dataclass(frozen=True, slots=True)
class Merged:
    parsed: Parsed
    """What lands, with counts of the rows that don't."""
    gone: tuple[str, ...]
    """The table's files that lose rows."""
    positions: Positions
    """The table's positions when it was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestMerging:
    rows: LatestRows
    settings: ParseSettings

    def merge(self, parsed: Parsed, shards: frozenset[ShardKey], streams: Sequence[StreamId]) -> Merged:
        """Compare the wave's rows with the table's rows by their keys, and copy the rows that stay out of files
        that lose rows. `shards`: those of the wave; all new files are staged as theirs. `streams`: those of the
        wave.
        """
        # The bounds of the staged files tell which of the table's files may have their keys. The
        # look's positions go into the commit, which is refused where one of them has moved since.
        look = self.rows.look(parsed.files)
        self._check(look)
        staged = {file.path: file for file in parsed.files}
        paths = [*staged, *(file.path for file in look.files)] if staged else []
        parts = [KeyPart(number, path, path in staged) for number, path in enumerate(paths)]
        decision = self.rows.decide(parts) if parts else Departures()
        # Refused before anything is copied: an older record of another partition key could bring a
        # deleted row back, and no later wave would notice.
        if decision.mixed:
            raise self._mixed(decision.mixed)
        losing = decision.losing
        copied = self.rows.copy(losing, streams, min(shards)) if losing else Parsed()
        changed = {one.path for one in losing}
        files = (*_untouched(staged, changed), *copied.files)
        landed = replace(
            parsed,
            # Each file counts as one of all shards of the wave: a copied file has rows of any
            # shards, and must land with the wave or not at all.
            files=tuple(replace(file, shards=shards) for file in files),
            counts=tuple(_counts(parsed.counts, copied.counts)),
        )
        return Merged(landed, tuple(sorted(changed - staged.keys())), look.positions)

    def _check(self, look: LatestLook) -> None:
        deleted = next((file.path for file in look.files if file.deletes), "")
        why = look.obstacle or (
            f"another engine has deleted rows of {deleted} by a delete file, which Headrace can't apply"
            if deleted
            else ""
        )
        if why:
            raise WrongShape(
                f"new rows can't come into {self.settings.table} now: {why}. Nothing was committed, and no position moved; "
                "let that engine run its rewrite_data_files"
            )

    def _mixed(self, count: int) -> WrongShape:
        return WrongShape(
            f"{self.settings.name}: {counted(count, 'record')} of a key came with another partition key than the next record "
            "of the same key. Only records of one partition key have an order for sure, so a row that is deleted could "
            "come back by an older record. Nothing was committed, and no position moved. "
            f"Leave {self.settings.called('latest.key')} out, so that the partition key is the key, "
            "let the producers give all records of a key the same partition key and leave the others out by `filter`, "
            f"or leave {self.settings.called('latest.delete_when')} out, so that nothing is deleted"
        )


def check_decided_once(target: ParseSettings, what: str) -> None:
    """Raise BadSetting for a target whose rows can't be parsed again one by one, as those of a table of the
    latest rows. `what`: the operation that was asked for.
    """
    if target.is_latest:
        raise BadSetting(
            f"the target {target.name} keeps the latest row of each key (into: latest), and doesn't remember which keys later "
            f"records have deleted: {what} could bring deleted rows back. Nothing was changed. "
            "Give the target another table, and all records that the lake table has are parsed anew, in their order"
        )


def _untouched(staged: Mapping[str, StagedFile], changed: set[str]) -> Iterator[StagedFile]:
    return (file for path, file in staged.items() if path not in changed)


def _counts(parsed: Sequence[ShardCount], left_out: Sequence[ShardCount]) -> Iterator[ShardCount]:
    """What became of each shard's rows, after some that were parsed don't stay."""
    by_key = {count.key: count for count in left_out}
    for count in parsed:
        out = by_key.get(count.key, ShardCount(count.key))
        less = replace(count, parsed=count.parsed - out.superseded - out.deletions)
        yield less.plus(out)
