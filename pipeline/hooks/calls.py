"""Calls of the user's hooks, in one thread beside the ticks and waves of this process.

    tick or wave ──► queue, 1,000 calls at most ──► the thread ──► the user's method
                                                       └─► what went wrong, in sentences for the next tick or the run's log

No tick waits for a hook. A run waits for a few seconds at its end, because its process ends with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Condition, Thread
from typing import Any

from headrace.pipeline.errors import BadSetting

MOST_WAITING = 1_000
"""Calls that wait for an earlier one. Further ones are left out."""
HANGS_AFTER = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class HookCall:
    method: str
    arguments: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class HookCalls:
    make: Callable[[], Any]
    """Makes the user's object. Called in the thread, before the first call."""
    monotonic: Callable[[], float]
    _changed: Condition = field(default_factory=Condition)
    _waiting: deque[HookCall] = field(default_factory=deque)
    _thread: Thread | None = None
    _hooks: Any = None
    _at_work: HookCall | None = None
    _since: float = 0.0
    _troubles_told: set[tuple[str, str]] = field(default_factory=set)
    """Method and kind of trouble. Forgotten once the method has worked again."""
    _sentences: list[str] = field(default_factory=list)

    def call(self, method: str, **arguments: Any) -> None:
        with self._changed:
            # A hook that hangs mustn't fill the memory of the code server. A call that is left out
            # loses nothing that the tables don't have.
            if len(self._waiting) >= MOST_WAITING:
                self._tell(method, "full", f"{MOST_WAITING:,} calls of hooks wait, and this one is left out")
                return
            self._waiting.append(HookCall(method, arguments))
            if self._thread is None:
                self._thread = Thread(target=self._work, name="headrace-hooks", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def settle(self, within: timedelta) -> bool:
        """Wait until all calls are done, but at most this long. Returns whether none is left."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and self._at_work is None, within.total_seconds()
            )

    def troubles(self) -> tuple[str, ...]:
        """The errors of hooks since this was called last, each once."""
        with self._changed:
            at_work, took = self._at_work, self.monotonic() - self._since
            if at_work is not None and took > HANGS_AFTER.total_seconds():
                self._tell(
                    at_work.method,
                    "hangs",
                    f"the hook has been at work for {took:.0f} s. Nothing waits for it but the hooks after it",
                )
            sentences, self._sentences = tuple(self._sentences), []
            return sentences

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                call = self._at_work = self._waiting.popleft()
                self._since = self.monotonic()
            trouble = self._make_call(call)
            with self._changed:
                if trouble is None:
                    self._troubles_told = {
                        (method, kind) for method, kind in self._troubles_told if method != call.method
                    }
                else:
                    self._tell(call.method, *trouble)
                self._at_work = None
                self._changed.notify_all()

    def _make_call(self, call: HookCall) -> tuple[str, str] | None:
        """The kind of the trouble, and the sentence about it; None where there was none."""
        try:
            if self._hooks is None:
                self._hooks = self.make()
            method = getattr(self._hooks, call.method, None)
            if method is not None:
                method(**call.arguments)
        except BadSetting as error:
            return "code", str(error)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and no tick ends by it
            kind = type(error).__name__
            return (
                kind,
                f"the hook raised {kind}: {error}. Headrace goes on, and doesn't call it again for this change",
            )
        return None

    def _tell(self, method: str, kind: str, why: str) -> None:
        if (method, kind) not in self._troubles_told:
            self._troubles_told.add((method, kind))
            self._sentences.append(f"hook {method}: {why}")
