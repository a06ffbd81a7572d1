"""One look at the lake table that ends in time, whatever its catalog does. It changes nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.core.words.words import time_in_words
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lake.table.catalog import CATALOG_FILE

if TYPE_CHECKING:
    from headrace.pipeline.settings.model import Settings

MOST = timedelta(seconds=10)
"""How long the catalog, and the table's metadata, may take to answer."""


@dataclass(frozen=True, slots=True)
class LakeTableSeen:
    is_there: bool | None
    """None: that couldn't be found out."""
    why: str = ""
    """Why the table couldn't be looked at, or, if it is there, why it can't be read."""


@dataclass(slots=True)
class LakeTableLook:
    """A look that another thread makes from now on. A catalog that doesn't answer can't hold up the process's end."""

    settings: Settings
    most: timedelta = MOST
    _seen: list[LakeTableSeen] = field(default_factory=list)
    _thread: threading.Thread = field(init=False)
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.most.total_seconds()
        self._thread = threading.Thread(target=self._look, name="headrace-lake-table", daemon=True)
        self._thread.start()

    def seen(self) -> LakeTableSeen:
        """What the look has shown. Waits until it is over, or its time is."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        if self._seen:
            return self._seen[0]
        return LakeTableSeen(
            None, f"its catalog, or its metadata, didn't answer within {time_in_words(self.most)}"
        )

    def _look(self) -> None:
        try:
            self._seen.append(_seen(self.settings))
        except HeadraceError as error:
            self._seen.append(LakeTableSeen(None, str(error)))
        except Exception as error:  # noqa: BLE001 -- catalogs have errors of their own, and are told of by them
            self._seen.append(LakeTableSeen(None, f"{type(error).__name__}: {error}"))


def _seen(settings: Settings) -> LakeTableSeen:
    # Opening the embedded catalog would make it.
    if not settings.landing.catalog and not (Path(settings.landing.home) / CATALOG_FILE).exists():
        return LakeTableSeen(False)
    ports = wire(settings).ports
    try:
        table = ports.table("status")
        if not table.exists():
            return LakeTableSeen(False)
        try:
            table.load()
        except HeadraceError as error:
            return LakeTableSeen(True, str(error))
        return LakeTableSeen(True)
    finally:
        ports.close()
