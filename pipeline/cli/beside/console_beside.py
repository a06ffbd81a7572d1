"""The console that `headrace dev` serves beside Dagster's UI, in a thread of its own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from headrace.pipeline.settings.model import Settings


@contextmanager
def console_beside(settings: Settings, *, dagster: str, say: Callable[[str], None]) -> Iterator[None]:
    """Serve the console while the `with` block runs. Where it can't be served, a sentence says so, and the block
    runs all the same, because no landing depends on the console.
    """
    from headrace.pipeline.console.serve import served_beside
    from headrace.pipeline.console.server import app_of
    from headrace.pipeline.console.wiring import console_of, of_settings
    from headrace.pipeline.errors import HeadraceError

    try:
        listener = _listening()
        app = app_of(console_of(of_settings(settings, dagster=dagster)))
    except HeadraceError as error:
        say(f"the console isn't served: {error}")
        yield
        return
    with served_beside(app, listener) as address:
        say(f"the console at {address} shows shards, workers and lags live")
        yield


def _listening() -> socket.socket:
    """On the console's usual port, else on any free one: another console may run."""
    from headrace.pipeline.cli.beside.services import HOST
    from headrace.pipeline.cli.console import PORT
    from headrace.pipeline.console.serve import bound
    from headrace.pipeline.errors import BadSetting

    try:
        return bound(HOST, PORT)
    except BadSetting:
        return bound(HOST, 0)
