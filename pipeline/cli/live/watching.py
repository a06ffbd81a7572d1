"""Checks whether all processes of a Dagster live. `dagster dev` itself can't be asked, so this module examines
the processes.

    dagster dev ─┬─ dagster code-server start ── dagster api grpc ── fork server ── one process for each run
                 ├─ dagster-webserver
                 └─ dagster-daemon

What Dagster 1.13 does when one of them dies, as tried with `kill -9`:

- the daemon or the webserver: `dagster dev` notices within 5 s, stops the other one, and exits with code 0;
- `code-server start`, which relays to the code server: `dagster dev` starts it again within 5 s, and it starts a
  new `api grpc`. That is Dagster's design, and doesn't count as a death here;
- `api grpc`, which runs the sensors and launches the runs: nothing starts it again. `dagster dev` goes on, and no
  sensor ticks any more.

"Reload" in Dagster's UI starts the new `api grpc` before it stops the old one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NoReturn

from headrace.pipeline.cli.beside.services import Group, processes_of
from headrace.pipeline.errors import ProcessDied

# Seconds; a look is one `ps` of 10 ms. `dagster dev` takes longer than that to end after a death.
_LOOK_EVERY = 1.0
# Seconds: 5 for `dagster dev` to notice, 5 to start on an idle machine, and patience with a busy one.
_CODE_SERVER_IS_BACK_WITHIN = 30.0

# Name of a process -> a piece of its command line, and the seconds in which Dagster may start it again by
# itself.
_PARTS = {
    "Dagster's webserver (`dagster-webserver`)": ("dagster_webserver", 0.0),
    "Dagster's daemon (`dagster-daemon`)": ("dagster._daemon run", 0.0),
    "Dagster's code server (`dagster api grpc`)": ("dagster api grpc", _CODE_SERVER_IS_BACK_WITHIN),
}


@dataclass(slots=True)
class Watch:
    """Finds out from the command lines of a process group which process of Dagster is gone for good."""

    monotonic: Callable[[], float] = time.monotonic
    _missed_since: dict[str, float] = field(default_factory=dict)

    def dead(self, commands: Collection[str]) -> str | None:
        """The process that died; None while all live, or while Dagster may still start it again."""
        now = self.monotonic()
        for role, (mark, patience) in _PARTS.items():
            if any(mark in command for command in commands):
                self._missed_since.pop(role, None)
            # Dagster starts a code server again by itself, and a death of the others it doesn't mend.
            elif now - self._missed_since.setdefault(role, now) >= patience:
                return role
        return None


def until_a_process_dies(dagster: Group, look: Callable[[], None] = lambda: None) -> NoReturn:
    """Raise ProcessDied when a process dies. A signal ends the wait too, by the exception that its handler raises.
    `look`: called after each look at the processes.
    """
    watch = Watch()
    while True:
        require_alive(dagster, watch)
        look()
        time.sleep(_LOOK_EVERY)


def require_alive(dagster: Group, watch: Watch) -> None:
    # First, since the relay ends with the processes of Dagster, too.
    has_lost_relay = dagster.has_lost_relay
    role = watch.dead(processes_of(dagster.pid).values())
    if dagster.code is not None and role is None:
        # `dagster dev` ends with code 0 also after a death, so that any end counts.
        role = f"Dagster's own process (`dagster dev`, exit code {dagster.code})"
    if has_lost_relay and role is None:
        # Whatever prints a line would fail, such as a hook of the user's in a run.
        role = "the process that prints Dagster's output (`dagster_output`)"
    if role is not None:
        raise ProcessDied(
            f"{role} died. The other processes are stopped; no landed record is touched, "
            "and records that hadn't landed are read again after the next start"
        )
