"""Sorts by file what the Spark tasks that compared keys have found out: which rows leave a table of the latest rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.pipeline.typed.latest.rule import LeavesBecause
from headrace.pipeline.typed.latest_plan import Departures, KeyPart, Losing


def decision_of(leaving: pa.Table, parts: Sequence[KeyPart]) -> Departures:
    """Which rows leave which files.

    `leaving`: the rows that leave, with the columns `LEAVING`.
    """
    files, rows, whys = (leaving[name].to_numpy() for name in ("file", "row", "why"))
    by_number = {part.number: part for part in parts}
    # A mixed row is named a second time beside the reason for which it leaves, and isn't to be
    # counted twice.
    leaves = whys != LeavesBecause.MIXED
    losing = []
    for number in np.unique(files[leaves]).tolist():
        mine, part = leaves & (files == number), by_number[number]
        losing.append(Losing(part.path, part.fresh, rows[mine], whys[mine]))
    return Departures(tuple(losing), int(np.count_nonzero(~leaves)))
