"""Who writes ranges into the ledger: a run, by one of its claims, or a person's command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, ParentReason, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Between which times records arrived; None for an unknown time."""

    first: datetime | None = None
    last: datetime | None = None


_UNTOLD = Arrivals()


@dataclass(frozen=True, slots=True)
class Author:
    run: str
    claim: str | None = None
    """None: the run has one claim, which has the name of the run."""

    def range(  # noqa: PLR0913 - a line of the ledger has as many
        self,
        kind: Kind,
        key: ShardKey,
        after: Position | None,
        upto: Position,
        *,
        rows: int = 0,
        bytes: int = 0,  # noqa: A002 - as the ledger calls it
        records: int = 0,
        arrivals: Arrivals = _UNTOLD,
        files: Iterable[StagedFile] = (),
        parents: tuple[ParentReason, ...] = (),
        why: str = "",
        account: str = "",
        unpacked: bool = False,
    ) -> Range:
        """The range with these values, as the commit's ledger states it.

        `files`: the files of the commit; the range names those that have rows of its shard.
        """
        return Range(
            kind,
            key,
            after,
            upto,
            run=self.run,
            claim=self.run if self.claim is None else self.claim,
            rows=rows,
            bytes=bytes,
            first_arrival=arrivals.first,
            last_arrival=arrivals.last,
            files=tuple(name_of(file) for file in files if key in file.shards),
            parents=parents,
            why=why,
            account=account,
            records=records,
            unpacked=unpacked,
        )


def name_of(file: StagedFile) -> str:
    """The file's name without folders, as ranges have it."""
    return file.path.rpartition("/")[2]
