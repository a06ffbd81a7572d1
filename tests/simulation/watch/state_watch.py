"""The judge of I34: is the state of each snapshot, as it would be written to files, the one that the ledgers lead to?

The table in memory keeps positions as values. This judge plans for each commit what real files would have: a delta against the full
state that the snapshot below names, or a full state.
"""

from __future__ import annotations

from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.core.landing.ledger_codec import read_delta, write_delta
from headrace.pipeline.core.landing.state_delta import TiedState, as_full, plan_state, restored
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import Violation


class StateWatch:
    def __init__(self) -> None:
        self._states: dict[int, TiedState] = {}

    def judge(self, made: Snapshot, base: int | None) -> None:
        """`base`: the snapshot whose positions were carried forward; None for the first one, and for a repair, which starts anew."""
        if base is None:
            self._states[made.id] = as_full(made.positions)
            return
        try:
            state = plan_state(self._states[base], Landing(made.page, (), (), made.positions))
        except ValueError as error:
            raise Violation("I34", f"snapshot {made.id} on {base}: {error}") from error
        self._states[made.id] = state
        read = restored(state.full, read_delta(write_delta(state.delta)), state.digest)
        if read is None or read.positions.shards.keys() != made.positions.shards.keys():
            raise Violation("I34", f"snapshot {made.id}, written as a delta, can't be read again")
