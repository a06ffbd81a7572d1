"""The ledger: which records each commit landed. Each commit adds one page, for itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headrace.pipeline.core.shards.position import Origin, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId


class Kind(StrEnum):
    """What a range of the ledger says: why a position moved, or what else was done."""

    LANDED = "landed"
    FOREIGN = "foreign"
    """A worker that isn't Headrace's read this range; its records aren't in the lake table."""
    SKIPPED = "skipped"
    """A range of records that were lost before they were read, or that a person skipped."""
    REPOSITION = "reposition"
    REPAIR = "repair"
    ADOPT = "adopt"
    REPLAY = "replay"
    """The range was read once more, and its rows take the place of those that the table had. It moves no position (I15
    of docs/reference/protocol.md), and lands only together with a range of the kind `generation`. `account` tells what
    became of each row (`headrace.pipeline.core.ledger.accounting`)."""
    GENERATION = "generation"
    """In a typed table or its quarantine table: a replay raised the shard's generation
    (`headrace.pipeline.core.ledger.generation`). `account` tells what the quarantine table has to exchange."""
    REDRIVEN = "redriven"
    """In a typed table or its quarantine table: rows of the quarantine table were parsed again
    (`headrace.pipeline.typed.quarantine.redrive_plan`). `account` tells what became of each of them."""
    PARSED = "parsed"
    """In a typed table or its quarantine table: the rows of this range of the lake table were parsed. `account` tells
    what became of each of them (`headrace.pipeline.core.ledger.accounting`)."""
    PROCESSED = "processed"
    """In the table of a processor: the user's processor has worked on this range of the lake table. `rows`: how many rows
    it gave. `account` tells of its records, and the state that it has after them
    (`headrace.pipeline.processors.account`)."""
    UNPACKED = "unpacked"
    """In the lake table: aggregates of this range, which had landed as one row each, were taken apart
    (`headrace.pipeline.windows.unpack`). `rows`: how many rows the table has more since. It moves no position.
    `account` tells the window, the rows, and the aggregates that they replace."""
    COPIED = "copied"
    """In the table of a window: the rows of this range of the lake table were copied
    (`headrace.pipeline.windows.copy`)."""
    READ = "read"
    """In the table of a window: the records of this range, which the lake table lacks, were read from the stream
    (`headrace.pipeline.windows.read_stream`). `why` tells which of them may have left the stream before that."""


# The compare-and-swap on positions can't guard these ranges. Another condition of the commit does: the
# shard's generation, or the files that go.
DONE_ANEW = frozenset({Kind.REPLAY, Kind.UNPACKED})
"""Kinds of ranges that move no position, because their records had landed before."""


ACCOUNTED = frozenset(
    {Kind.PARSED, Kind.PROCESSED, Kind.REDRIVEN, Kind.REPLAY, Kind.GENERATION, Kind.UNPACKED}
)
"""Kinds of ranges that have an account in the place of a reason."""


def why_and_account(kind: Kind, stored: str) -> tuple[str, str]:
    """A range's `why` and `account`, which stored ledgers keep as one text."""
    return ("", stored) if kind in ACCOUNTED else (stored, "")


class ParentIs(StrEnum):
    """Why a child may be read though the parent is what it is: ended, gone from Kinesis, and so on."""

    ENDED = "ended"
    """The table has an END for it."""
    BEFORE_START = "before-start"
    """It was closed before the origin. It has no row and no position, and the stream still lists it."""
    GONE = "gone"
    """It has no row and no position, and Kinesis answers ResourceNotFound."""
    PASSED = "passed"
    """It has no position, but a descendant of it (`by`) has one. So it counts as ended."""


@dataclass(frozen=True, slots=True)
class ParentReason:
    shard_id: str
    why: ParentIs
    by: str | None = None
    """The descendant that has a position, where `why` is PASSED."""


@dataclass(frozen=True, slots=True)
class Range:
    """One line of the ledger: in this commit, a shard's position went from `after` to `upto`."""

    kind: Kind
    key: ShardKey
    after: Position | None
    upto: Position
    run: str
    claim: str
    rows: int = 0
    """The range's rows in the lake table. An aggregate that was taken apart has a row for each user record."""
    bytes: int = 0
    """Bytes of the range's Kinesis records, as they were read."""
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None
    files: tuple[str, ...] = ()
    """Names, without folders, of the data files that hold the range's rows."""
    parents: tuple[ParentReason, ...] = ()
    """All parents of the shard in its first range; empty in later ranges."""
    why: str = ""
    """The reason for a range of another kind than `landed`, in a person's own words where a person decided. In a
    `skipped` range that Headrace recorded itself, `first_arrival` and `last_arrival` tell between which moments the
    lost records arrived."""
    account: str = ""
    """With a kind of `ACCOUNTED`: what became of each row, as JSON (`headrace.pipeline.core.ledger.accounting`)."""
    records: int = 0
    """The Kinesis records of which the rows were made."""
    unpacked: bool = False
    """Whether aggregates were taken apart. Else each Kinesis record of the range is one row, also an aggregate."""
    joined: int = 1
    """How many ranges of the ledgers this one stands for. More than one only where a reader has asked for that
    (`headrace.pipeline.core.ledger.filter.Joining`): then snapshot, run, claim and files are those of the last of
    them."""

    @property
    def stored_why(self) -> str:
        """The text that stored ledgers call `why`: the account if there is one, else the reason."""
        return self.account or self.why

    @property
    def moves(self) -> bool:
        """Whether the range moves the shard's position."""
        return self.kind not in DONE_ANEW

    @property
    def may_go_back(self) -> bool:
        """Whether the range may move a position back, which only a person may decide (I9 of
        docs/reference/protocol.md)."""
        # A repair follows the table's rows, and a person has started it.
        return self.kind in {Kind.REPOSITION, Kind.REPAIR}


@dataclass(frozen=True, slots=True)
class FilesDone:
    """The statement in a typed table's ledger about files of the lake table that have nothing left for the typed
    table (`headrace.pipeline.typed.files.looked`).
    """

    snapshot: int
    """The snapshot of the lake table in which the files were found."""
    sequence: int
    """The sequence number of that snapshot."""
    upto: int
    """Files that a commit with this sequence number or an earlier one has added have nothing left, but for those in
    `still`."""
    stream: str | None = None
    """The name of the stream for whose rows this is said. None: it is said for the rows of all streams."""
    still: frozenset[str] = frozenset()
    """The names, without folders, of the files that may have something left."""


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """The ledger of one commit."""

    ranges: tuple[Range, ...] = ()
    origins: tuple[tuple[StreamId, Origin], ...] = ()
    """Origins that this commit decided."""
    dropped: tuple[ShardKey, ...] = ()
    """END positions that this commit removed, because nothing needs them any more."""
    looked: FilesDone | None = None
    """What the next wave of a typed table needn't look into."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The ledger page of one snapshot, with the snapshot's id, number and time."""

    snapshot: int
    sequence: int
    """The snapshot's Iceberg sequence number, which grows from each snapshot to its children."""
    at: datetime
    page: LedgerPage
    writer: str = ""
    """The name of the worker or command that committed the snapshot."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A part of the lake table's history whose ledger is missing."""

    snapshot: int
    """The first known snapshot after the part, or the snapshot itself that has no ledger."""
    sequence: int
    at: datetime
    """The time of that snapshot."""
    why: str
    """A sentence for people."""
    ranges: tuple[Range, ...] = ()
    """Ranges that were derived from rows of the lake table, because their ledger is lost: their run is unknown."""
