"""Keeps things such as clients that a process makes once, until its AWS credentials or its endpoint may have
changed.

Making a boto3 client costs a tenth of a second of CPU, which was most of what a deployment without traffic used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from headrace.pipeline.aws.clients.identity import Identity

_T = TypeVar("_T")


class MadeOnce:
    """Things by name, each made when it is first asked for. Several threads may share this object."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._making = threading.RLock()
        self._identity = Identity(monotonic)
        self._made_for: tuple[object, ...] = ()
        self._made: dict[tuple[str, ...], object] = {}

    def get(self, make: Callable[[], _T], *name: str) -> _T:
        """The thing of this name. After a change of credentials, all things are dropped together and made anew."""
        # Reentrant, because making one thing may ask for another. Without the lock two threads would make two clients.
        with self._making:
            identity = self._identity.of(os.environ)
            if identity != self._made_for:
                self._made_for, self._made = identity, {}
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value] # each name is made by one function
