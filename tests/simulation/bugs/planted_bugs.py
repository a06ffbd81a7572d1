"""All planted bugs that the simulator must find, by name. Each removes a rule of docs/reference/protocol.md, and is in the module of its kind."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.aggregate_bugs import AGGREGATES
from tests.simulation.bugs.application_bugs import APPLICATIONS
from tests.simulation.bugs.beat_bugs import BEATS
from tests.simulation.bugs.fan_out_bugs import FAN_OUT
from tests.simulation.bugs.kcl_bugs import UNADOPTED
from tests.simulation.bugs.kept_bugs import KEPT
from tests.simulation.bugs.latest_bugs import LATEST
from tests.simulation.bugs.once_unseen import ONCE_UNSEEN
from tests.simulation.bugs.past_bugs import PAST
from tests.simulation.bugs.processor_bugs import PROCESSORS
from tests.simulation.bugs.rewriting_bugs import REWRITING
from tests.simulation.bugs.row_bugs import ROWS
from tests.simulation.bugs.shared_table_bugs import SHARED_TABLE
from tests.simulation.bugs.table_bugs import TABLE
from tests.simulation.bugs.table_stream_bugs import TABLE_STREAMS
from tests.simulation.bugs.time_bugs import TIMES
from tests.simulation.bugs.typed_bugs import TYPED
from tests.simulation.bugs.unique_bugs import UNIQUE
from tests.simulation.bugs.unseen_bugs import UNSEEN
from tests.simulation.bugs.waiting_bugs import WAITING
from tests.simulation.bugs.window_bugs import WINDOWS

BUGS: Final = {
    bug.name: bug
    for bug in (
        *TABLE,
        *ROWS,
        *TIMES,
        *PAST,
        *SHARED_TABLE,
        *KEPT,
        *BEATS,
        *ONCE_UNSEEN,
        *REWRITING,
        *AGGREGATES,
        *TYPED,
        *WINDOWS,
        *UNSEEN,
        *PROCESSORS,
        *UNIQUE,
        *UNADOPTED,
        *TABLE_STREAMS,
        *FAN_OUT,
        *LATEST,
        *APPLICATIONS,
        *WAITING,
    )
}
