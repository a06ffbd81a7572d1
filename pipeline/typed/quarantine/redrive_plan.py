"""Which rows of a quarantine table a redrive parses again, and what the typed table's commit says about them.
Pure functions on values.

A redrive takes whole files of the quarantine table. Of their rows, those that are selected are parsed again, and
the others are copied. So each row of a taken file is parsed, dropped by a named reason, or in a new file for the
quarantine table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.shards.partition import read_name
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import position_at
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.plan import units_of
from headrace.pipeline.typed.values import (
    AsideRows,
    Bound,
    Parsed,
    Piece,
    PlannedRange,
    SourceFile,
    SurveyOrder,
    WaveLimits,
    WavePlan,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of the quarantine table that are parsed again. A field that is None leaves no row out."""

    shard: str | None = None
    """The shard's id, or its name with the stream (`headrace.pipeline.core.shards.partition`)."""
    reason: str | None = None
    since: datetime | None = None
    """Records that arrived at this time or later."""
    until: datetime | None = None
    """Records that arrived before this time."""

    @property
    def rows(self) -> AsideRows:
        return AsideRows(self.reason, self.since, self.until)


ALL = Selection()
_MOST_NAMED = 5
"""Reasons that a message names."""


def reason_meant(text: str, counts: Mapping[str, int]) -> str | None:
    """The reason in the quarantine table that a person names by its text or a part of it; None where no row has
    one. `counts`: the number of rows with each reason.
    """
    if text in counts:
        return text
    meant = sorted(
        (reason for reason in counts if text in reason), key=lambda reason: (-counts[reason], reason)
    )
    if len(meant) > 1:
        named = "; ".join(f"{reason} ({counted(counts[reason], 'row')})" for reason in meant[:_MOST_NAMED])
        more = f"; and {len(meant) - _MOST_NAMED:,} more" if len(meant) > _MOST_NAMED else ""
        raise Unknown(
            f"{len(meant):,} reasons have the text {text!r} in them, and nothing was parsed. "
            f"Give more of the one that you mean: {named}{more}"
        )
    return meant[0] if meant else None


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    wave: WavePlan
    """The rows that are parsed again, as a wave that reads the quarantine table."""
    taken: tuple[SourceFile, ...]
    """The files that leave the quarantine table."""

    @property
    def staying(self) -> int:
        """The number of rows of the taken files that aren't parsed again."""
        return sum(file.rows for file in self.taken) - self.wave.rows


def plan_look(files: Iterable[SourceFile], positions: Positions, selection: Selection) -> SurveyOrder:
    """Which rows Spark has to find in the files of the quarantine table for a redrive. `positions`: those of the
    quarantine table.
    """
    shards = sorted(key for key in positions.shards if not is_chain(key))
    name = None if selection.shard is None else read_name(selection.shard)
    chosen = tuple(key for key in shards if name is None or name.fits(key))
    if selection.shard is not None and not chosen:
        raise Unknown(
            f"the quarantine table has no shard {selection.shard}; nothing was parsed. "
            "The column shard_id names its shards"
        )
    # Closed shards are those that aren't selected: their rows are copied, and Spark needn't look for them.
    return SurveyOrder(
        tuple(sorted(file.path for file in files)),
        tuple(Bound(key, aside=selection.rows) for key in chosen),
        frozenset(shards) - set(chosen),
        tuple(sorted({key.stream for key in shards})),
        None,
    )


def worth_parsing(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The pieces, without those of files whose selected rows were all malformed when they landed: no parser gets
    such rows.
    """
    pieces = tuple(pieces)
    paths = {piece.path for piece in pieces if piece.rows > piece.malformed}
    return tuple(piece for piece in pieces if piece.path in paths)


Groups = Sequence[Sequence[str]]
"""The paths of files that a portion takes together, group after group."""


def one_by_one(pieces: Iterable[Piece]) -> Groups:
    """Each file as a group of its own, for rows that may be parsed in any order."""
    return [[path] for path in sorted({piece.path for piece in pieces})]


def in_order(pieces: Iterable[Piece]) -> Groups:
    """Groups of files in the order of the records: each record of a shard in a later group comes after all of that shard
    in the earlier ones."""
    first: dict[str, dict[ShardKey, str]] = {}
    last: dict[str, dict[ShardKey, str]] = {}
    for piece in pieces:
        lows, highs = first.setdefault(piece.path, {}), last.setdefault(piece.path, {})
        lows[piece.key] = min(piece.first, lows.get(piece.key, piece.first))
        highs[piece.key] = max(piece.last, highs.get(piece.key, ""))
    groups: list[tuple[list[str], dict[ShardKey, str]]] = []
    for path in sorted(first, key=lambda path: (min(first[path].values()), path)):
        begin = next(
            (
                place
                for place, (_, ends) in enumerate(groups)
                if any(ends.get(key, "") >= low for key, low in first[path].items())
            ),
            len(groups),
        )
        paths, ends = [path], dict(last[path])
        # A record of this file comes before one of that group, and so they are given together.
        for earlier, earlier_ends in reversed(groups[begin:]):
            paths = [*earlier, *paths]
            ends |= {key: max(end, ends.get(key, "")) for key, end in earlier_ends.items()}
        groups[begin:] = [(paths, ends)]
    return [paths for paths, _ in groups]


def plan_redrive(
    files: Iterable[SourceFile],
    pieces: Sequence[Piece],
    *,
    limits: WaveLimits,
    aside: AsideRows,
    groups: Callable[[Iterable[Piece]], Groups] = one_by_one,
) -> RedrivePlan:
    """The portion of a redrive: the first groups of files that fit into the limits, but at least one group.
    `pieces`: the selected rows in the files.
    """
    sources = {file.path: file for file in files}
    of_file: dict[str, list[Piece]] = {}
    for piece in pieces:
        if piece.path in sources:
            of_file.setdefault(piece.path, []).append(piece)
    taken: list[SourceFile] = []
    rows = size = 0
    # Each file leaves as a whole, because pyiceberg can't write delete files.
    for group in groups(piece for of in of_file.values() for piece in of):
        rows += sum(piece.rows for path in group for piece in of_file[path])
        size += sum(piece.bytes for path in group for piece in of_file[path])
        if taken and (rows > limits.records or size > limits.bytes):
            break
        taken += [sources[path] for path in group]
    chosen = [piece for f in taken for piece in of_file[f.path]]
    of_shard: dict[ShardKey, list[Piece]] = {}
    for piece in chosen:
        of_shard.setdefault(piece.key, []).append(piece)
    ranges = tuple(_range(key, of_shard[key], aside) for key in sorted(of_shard))
    wave = WavePlan(ranges, tuple(units_of(chosen)), sum(piece.malformed for piece in chosen))
    return RedrivePlan(wave, tuple(taken))


def half_of(limits: WaveLimits, wave: WavePlan) -> WaveLimits:
    """Limits for a portion half as large as the portion `wave`, which has to be within the limits or a single file."""
    # Never 0: `plan_redrive` takes at least one file, and each further one only within the limits.
    size = sum(planned.bytes for planned in wave.ranges)
    return WaveLimits(max(1, min(limits.records, wave.rows) // 2), max(1, min(limits.bytes, size) // 2))


def _range(key: ShardKey, pieces: Sequence[Piece], aside: AsideRows) -> PlannedRange:
    return PlannedRange(
        key,
        None,
        position_at(max(piece.last for piece in pieces), None),
        rows=sum(piece.rows for piece in pieces),
        bytes=sum(piece.bytes for piece in pieces),
        oldest=min((piece.oldest for piece in pieces if piece.oldest is not None), default=None),
        newest=max((piece.newest for piece in pieces if piece.newest is not None), default=None),
        aside=aside,
    )


def with_staying(
    plan: RedrivePlan,
    tried: Mapping[ShardKey, Accounting],
    aside: Sequence[StagedFile],
    copied: Parsed,
    *,
    version: str,
    schema: int,
) -> dict[ShardKey, Accounting]:
    """What became of each row of the taken files, by shard. `tried`: the accountings of rows that were tried
    again; `copied`: the report of the others, which stay in quarantine. `aside`: the staged files of all rows
    that stay.

    Raises WrongShape where a row is missing without a reason, or is counted twice.
    """
    rest = {count.key: count.aside for count in copied.counts}
    if (copied_rows := sum(rest.values())) != plan.staying:
        raise WrongShape(
            f"the files that the redrive takes have {counted(plan.staying, 'row')} beside those that it parses, "
            f"and {copied_rows:,} were copied. Nothing "
            "was committed; report this as an error of Headrace"
        )
    taken = tuple(aside_name(file.path) for file in plan.taken)
    accountings: dict[ShardKey, Accounting] = {}
    for key in sorted(tried.keys() | rest.keys()):
        accounting = tried.get(key, Accounting(0, 0))
        stays = rest.get(key, 0)
        # A staged file may have rows of several shards, and is named in the accounting of each.
        files = tuple(aside_name(file.path) for file in aside if key in file.shards)
        accountings[key] = Accounting(
            accounting.rows + stays,
            accounting.parsed,
            accounting.quarantined + stays,
            accounting.dropped,
            version,
            schema,
            files,
            taken,
        )
        if not accountings[key].is_complete:
            raise WrongShape(
                f"the rows of {key} don't add up: {accountings[key].text()}. "
                "Nothing was committed; report this as an error of Headrace"
            )
    return accountings
