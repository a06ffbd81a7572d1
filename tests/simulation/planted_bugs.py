"""All planted bugs that the simulator must find, by name. Each removes a rule of docs/reference/protocol.md, and is in the module of its kind."""

from __future__ import annotations

from typing import Final

from tests.simulation.aggregate_bugs import AGGREGATES
from tests.simulation.kept_bugs import KEPT
from tests.simulation.once_unseen import ONCE_UNSEEN
from tests.simulation.past_bugs import PAST
from tests.simulation.rewriting_bugs import REWRITING
from tests.simulation.row_bugs import ROWS
from tests.simulation.shared_table_bugs import SHARED_TABLE
from tests.simulation.table_bugs import TABLE
from tests.simulation.time_bugs import TIMES
from tests.simulation.typed_bugs import TYPED
from tests.simulation.window_bugs import WINDOWS

BUGS: Final = {
    bug.name: bug
    for bug in (
        *TABLE,
        *ROWS,
        *TIMES,
        *PAST,
        *SHARED_TABLE,
        *KEPT,
        *ONCE_UNSEEN,
        *REWRITING,
        *AGGREGATES,
        *TYPED,
        *WINDOWS,
    )
}
