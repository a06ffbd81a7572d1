"""Joins ranges of the lineage table while they are still columns, before Python objects are made of them
(`headrace.pipeline.core.ledger.filter.Joining`).

rows of a batch  ->  by shard, in the order of their commits  ->  runs of plain ranges that meet  ->  one row for
each run

What is left of all batches is joined once more. A range of another batch or file may lie between two that were
joined: then a run begins before the row in front of it, and the caller is told to read the ranges one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.belonging import AHEAD, BEFORE
from headrace.pipeline.core.ledger.filter import Joining
from headrace.pipeline.core.ledger.ledger import DONE_ANEW, Kind
from headrace.pipeline.core.ledger.rows import RANGE
from headrace.pipeline.errors import WrongShape

JOINED, SINCE = "joined", "since"
"""Added columns: of how many ranges a row is made, and the sequence number of the snapshot of the first of them."""
_SHARD = ("stream_arn", "stream_epoch", "shard_id")
_ORDER = (*_SHARD, "snapshot_sequence", "snapshot_id", "place")
_SUMS = ("rows", "bytes", "records", JOINED)
_NO_REASON = frozenset({Kind.LANDED, Kind.COPIED})
"""Kinds of ranges that are plain without a reason."""
_MANY = 50_000
"""Rows that are joined once more before further ones are read."""
_DAY = 24 * 60 * 60 * 1_000_000

pc: Any = pyarrow.compute
"""Its types don't know a column of whatever type."""

_Column = Any
"""An array of pyarrow's or numpy's, of whatever type the column has."""
_Accounts = Mapping[str, Accounting | None]


def joined(batches: Iterable[pa.RecordBatch], joining: Joining) -> pa.Table | None:
    """The rows of all batches; None where they can't be joined, because the batches don't have the ranges of a shard in
    their order."""
    tables: list[pa.Table] = []
    many = _MANY
    for batch in batches:
        tables.append(_joined(_with_own(pa.Table.from_batches([batch])), joining))
        if sum(len(table) for table in tables) > many:
            tables = [_joined(pa.concat_tables(tables), joining)]
            # What is left can't be joined, and needn't be looked at again for each batch.
            many = max(_MANY, 2 * len(tables[0]))
    if not tables:
        return None
    every = _joined(pa.concat_tables(tables), joining)
    return every if _are_in_order(every) else None


def _with_own(rows: pa.Table) -> pa.Table:
    own = rows.append_column(JOINED, pa.repeat(pa.scalar(1, pa.int64()), len(rows)))
    return own.append_column(SINCE, rows["snapshot_sequence"])


def _joined(rows: pa.Table, joining: Joining) -> pa.Table:
    moves = _moves(rows)
    rest, steps = rows.filter(pc.invert(moves)), rows.filter(moves)
    if not len(steps):
        return rest
    steps = steps.sort_by([(name, "ascending") for name in _ORDER]).combine_chunks()
    first = np.flatnonzero(~_goes_on(steps, joining))
    last = np.append(first[1:], len(steps)) - 1
    runs = _made_one(steps, first, last)
    if not joining.is_aside:
        runs = _with(runs, "why", _reasons(steps, runs, first, last))
    return pa.concat_tables([rest, runs])


def _moves(rows: pa.Table) -> _Column:
    """Ranges that move a position. Others lie beside these, and are told as they are."""
    anew = pa.array([kind.value for kind in DONE_ANEW])
    return pc.and_(pc.equal(rows["entry"], RANGE), pc.invert(pc.is_in(rows["kind"], value_set=anew)))


def _goes_on(steps: pa.Table, joining: Joining) -> _Column:
    """Whether each row is joined to the row before."""
    # A quarantine table's ranges may be joined whether or not they have rows: nobody asks which of them has some.
    has_rows = np.zeros(len(steps), dtype=bool) if joining.is_aside else _has_rows(steps)
    plain, day = _plain(steps, joining), np.zeros(len(steps), dtype=np.int64)
    if joining.by_day:
        day = _days(steps)
        plain &= ~has_rows | _flags(steps["first_arrival"].is_valid())
    meets = _meets(steps)
    alike = np.ones(len(steps) - 1, dtype=bool)
    alike &= _flags(pc.equal(_later(steps["kind"]), _earlier(steps["kind"])))
    for column in (day, has_rows):
        alike &= column[1:] == column[:-1]
    # The row before has to be plain, too, and to be reached by the row before it: else something is told about it
    # alone.
    reached = plain & np.append(False, meets)
    inside = reached[1:] & reached[:-1] & alike
    # A reader looks at the end of a shard's newest range, and at what it says besides.
    newest = np.append(~_same_shard(steps), True)
    return np.append(False, inside) & ~newest


def _plain(steps: pa.Table, joining: Joining) -> _Column:
    after, upto = steps["after"].combine_chunks(), steps["upto"].combine_chunks()
    is_plain = pc.and_(pc.less(steps["snapshot_sequence"], joining.below), after.is_valid())
    for position in (after, upto):
        is_plain = pc.and_(is_plain, pc.struct_field(position, "sequence_number").is_valid())
        is_plain = pc.and_(is_plain, pc.invert(pc.struct_field(position, "ended")))
        if position.type.get_field_index("inside") >= 0:
            is_plain = pc.and_(is_plain, pc.invert(pc.fill_null(pc.struct_field(position, "inside"), False)))
        if position.type.get_field_index("skipped_until") >= 0:
            is_plain = pc.and_(is_plain, pc.struct_field(position, "skipped_until").is_null())
    is_plain = pc.and_(is_plain, _is_forward(after, upto))
    # The reasons why a shard could begin are told by its first range alone.
    is_plain = pc.and_(is_plain, pc.equal(pc.list_value_length(steps["parents"]), 0))
    is_plain = pc.and_(is_plain, pc.greater_equal(steps["rows"], 0))
    is_plain = pc.and_(is_plain, _is_of_its_stream(steps))
    if joining.is_aside:
        return _flags(pc.and_(is_plain, _is_parsed(steps)))
    return _flags(is_plain) & _accounted(steps)


def _is_of_its_stream(steps: pa.Table) -> _Column:
    """Whether the arrivals may be those of the stream (`headrace.pipeline.core.ledger.belonging`). Where they aren't
    known, nothing is told of them."""
    created = pc.multiply(pc.subtract(steps["stream_epoch"], int(BEFORE.total_seconds())), 1_000_000)
    first, last, committed = (
        pc.cast(steps[name], pa.int64()) for name in ("first_arrival", "last_arrival", "snapshot_at")
    )
    early, late = (
        pc.less(first, created),
        pc.greater(last, pc.add(committed, int(AHEAD.total_seconds()) * 1_000_000)),
    )
    return pc.and_(*(pc.invert(pc.fill_null(flags, pa.scalar(value=False))) for flags in (early, late)))


def _is_forward(after: _Column, upto: _Column) -> _Column:
    begin, end = (pc.struct_field(position, "sequence_number") for position in (after, upto))
    # Texts of digits: the longer one is the greater, and equally long ones sort as text.
    begin_long, end_long = pc.binary_length(begin), pc.binary_length(end)
    is_higher = pc.or_(
        pc.greater(end_long, begin_long), pc.and_(pc.equal(end_long, begin_long), pc.greater(end, begin))
    )
    subs = [pc.struct_field(position, "sub_sequence_number") for position in (after, upto)]
    return pc.or_(is_higher, pc.and_(pc.equal(end, begin), pc.greater_equal(subs[1], subs[0])))


def _accounted(steps: pa.Table) -> _Column:
    """Whether the row needs no accounting, or has one that is complete and that its commit carried out at once."""
    needs_none = pc.is_in(steps["kind"], value_set=pa.array([kind.value for kind in _NO_REASON]))
    is_accounted = _flags(pc.and_(needs_none, pc.equal(steps["why"], "")))
    accounts = _accounts(steps)
    if accounts:
        counts = zip(_told(steps, accounts), steps["rows"].to_pylist(), strict=True)
        is_accounted |= np.array([account is not None and account.parsed == rows for account, rows in counts])
    return is_accounted


def _is_parsed(steps: pa.Table) -> _Column:
    return pc.equal(steps["kind"], Kind.PARSED.value)


def _has_rows(steps: pa.Table) -> _Column:
    """Whether a range has rows in the lake table. The accounting of a parsed range tells how many rows were parsed."""
    has_rows = _flags(pc.greater(steps["rows"], 0))
    accounts = _accounts(steps)
    if accounts:
        has_rows |= np.array([account is not None and account.rows > 0 for account in _told(steps, accounts)])
    return has_rows


def _told(steps: pa.Table, accounts: _Accounts) -> list[Accounting | None]:
    """The accounting of each row; None where it has none, or one that has to be looked at by itself."""
    whys: list[Any] = steps["why"].to_pylist()
    return [
        accounts.get(why) if is_parsed else None
        for why, is_parsed in zip(whys, _flags(_is_parsed(steps)), strict=True)
    ]


def _accounts(steps: pa.Table) -> _Accounts:
    """What each accounting tells; None where that has to be looked at by itself."""
    # Most ranges have the same text, so that each text is read once.
    texts = pc.unique(steps["why"].filter(_is_parsed(steps))).to_pylist()
    return {text: _plain_account(text) for text in texts}


def _plain_account(text: str) -> Accounting | None:
    try:
        account = read_accounting(text)
    except WrongShape:
        return None
    is_plain = account.is_complete and not account.taken and not account.window and account.removed == (0, 0)
    return account if is_plain else None


def _meets(steps: pa.Table) -> _Column:
    """Whether each row but the first begins where the row before ended, which is of the same shard."""
    after, upto = steps["after"].combine_chunks(), steps["upto"].combine_chunks()
    meets = _same_shard(steps)
    for name in ("sequence_number", "sub_sequence_number", "ended"):
        begins, ended = pc.struct_field(after, name), pc.struct_field(upto, name)
        meets &= _flags(pc.fill_null(pc.equal(_later(begins), _earlier(ended)), False))
    return meets


def _same_shard(steps: pa.Table) -> _Column:
    is_same = np.ones(len(steps) - 1, dtype=bool)
    for name in _SHARD:
        is_same &= _flags(pc.equal(_later(steps[name]), _earlier(steps[name])))
    return is_same


def _days(steps: pa.Table) -> _Column:
    """The first day of each row, as `headrace.pipeline.core.ledger.arrivals.first_day` counts it."""
    micros = pc.fill_null(steps["first_arrival"].cast(pa.int64()), 0).to_numpy()
    return (micros - APPROXIMATE // type(APPROXIMATE)(microseconds=1)) // _DAY


def _made_one(steps: pa.Table, first: _Column, last: _Column) -> pa.Table:
    begin, end = (np.asarray(places, dtype=np.int64) for places in (first, last))
    runs, begins = steps.take(end), steps.select(["after", SINCE]).take(begin)
    columns: dict[str, _Column] = {"after": begins["after"], SINCE: begins[SINCE]}
    for name in _SUMS:
        columns[name] = pa.array(np.add.reduceat(steps[name].to_numpy(), first), pa.int64())
    columns["first_arrival"] = _extreme(steps["first_arrival"], first, np.minimum)
    columns["last_arrival"] = _extreme(steps["last_arrival"], first, np.maximum)
    for name, column in columns.items():
        runs = _with(runs, name, column)
    return runs


def _with(rows: pa.Table, name: str, column: _Column) -> pa.Table:
    place = rows.column_names.index(name)
    return rows.set_column(place, rows.schema.field(place), column)


def _extreme(times: _Column, first: _Column, of: Any) -> _Column:
    """The least or greatest time of each run; null where no row of it has one."""
    limits = np.iinfo(np.int64)
    # `reduceat` knows no null: a number that no time has takes its place.
    none = limits.max if of is np.minimum else limits.min
    micros = pc.fill_null(times.cast(pa.int64()), pa.scalar(none, pa.int64())).to_numpy()
    extremes = of.reduceat(micros, first)
    return pa.array(extremes, pa.int64(), mask=extremes == none).cast(times.type)


def _reasons(steps: pa.Table, joined_rows: pa.Table, first: _Column, last: _Column) -> _Column:
    """What the runs of parsed ranges tell together."""
    texts: list[Any] = joined_rows["why"].to_pylist()
    runs = np.flatnonzero((last > first) & _flags(_is_parsed(joined_rows)))
    if len(runs):
        accounts = _told(steps, _accounts(steps))
        for i in runs:
            texts[i] = _together(
                account for account in accounts[first[i] : last[i] + 1] if account is not None
            ).text()
    return pa.array(texts, joined_rows.schema.field("why").type)


def _together(accounts: Iterable[Accounting]) -> Accounting:
    every = tuple(accounts)
    reasons = sorted(set(chain.from_iterable(account.dropped for account in every)))
    quarantined = sum(account.quarantined for account in every)
    return Accounting(
        sum(account.rows for account in every),
        sum(account.parsed for account in every),
        quarantined,
        {reason: sum(account.dropped.get(reason, 0) for account in every) for reason in reasons},
        # Which files these are, only the ledgers themselves tell.
        aside=("",) if quarantined else (),
    )


def _are_in_order(rows: pa.Table) -> bool:
    """Whether no range lies between two that were joined."""
    steps = rows.filter(_moves(rows))
    if not len(steps):
        return True
    steps = steps.sort_by([(name, "ascending") for name in _ORDER]).combine_chunks()
    is_run = _flags(pc.greater(_later(steps[JOINED]), 1))
    begins_before = _flags(pc.less_equal(_later(steps[SINCE]), _earlier(steps["snapshot_sequence"])))
    return not (is_run & begins_before & _same_shard(steps)).any()


def _later(column: _Column) -> _Column:
    return column.slice(1)


def _earlier(column: _Column) -> _Column:
    return column.slice(0, len(column) - 1)


def _flags(column: _Column) -> _Column:
    return np.asarray(pc.fill_null(column, pa.scalar(value=False)), dtype=bool)
