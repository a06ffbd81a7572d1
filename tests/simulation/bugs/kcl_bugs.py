"""Planted bugs of fleets that find rows of a KCL application which nobody has adopted (I1)."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug

_UNADOPTED: Final[dict[str, Any]] = {
    "adopted": True,
    "unadopted": 90.0,
    "opens": 60.0,
    "position": "TRIM_HORIZON",
    "mode": "own",
    "streams": 1,
    "added": 0,
    "removed": False,
    "discovered": False,
    "foreign": False,
    "hosts_off": 0.0,
    "keeps": 0.0,
    "quiet": 0.0,
    "retention": 86_400.0,
}

UNADOPTED: Final = (
    a_bug(
        "begun-beside-what-kcl-has-read",
        "the start of a stream is decided although checkpoints in its rows show that another program has read it",
        ("duties.streams.origin", "    if read:\n", "    if False:\n"),
        among=_UNADOPTED,
    ),
    a_bug(
        "an-end-is-no-reading",
        "the start of a stream is decided where no row has the number of a record, although a shard was read to its end",
        ("duties.streams.origin", "(row.checkpoint.is_digits or row.has_ended)", "row.checkpoint.is_digits"),
        among=_UNADOPTED | {"puts_every": 20.0},
    ),
    a_bug(
        "adopted-beside-rows-of-none",
        "a run begins a stream by itself where another process has decided that it may not",
        (
            "duties.waves.plan",
            "                decide = partial(ensure_origin, self.ports.table, state, facts, stream=named, leases=every)",
            "                decide = partial(ensure_origin, self.ports.table, state, facts, stream=named, leases=())",
        ),
        among=_UNADOPTED,
    ),
)
