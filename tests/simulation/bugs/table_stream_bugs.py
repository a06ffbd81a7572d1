"""Planted bugs that matter where shards roll over and listings lag, as those of a DynamoDB table's stream."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug

_ROLLING: Final[dict[str, Any]] = {
    "of_a_table": True,
    "mode": "own",
    "streams": 1,
    "added": 0,
    "removed": False,
    "discovered": False,
    "adopted": False,
    "unadopted": 0.0,
    "foreign": False,
    "aggregates": False,
    "keeps": 0.0,
    "hosts_off": 0.0,
    "quiet": 0.0,
    "retention": 86_400.0,
    "puts_every": 1.0,
    "troubles": {"split": 20.0},
}

TABLE_STREAMS: Final = (
    a_bug(
        "ended-without-a-child",
        "a shard ends that is closed, although its last answer doesn't tell its end",
        (
            "tests.memory.stage",
            "        children = answer.source.children(batch.key) if tells_end else None\n",
            (
                "        listed = next((s for s in answer.source.list_shards(batch.key.stream) if s.shard_id == batch.key.shard_id), None)\n"
                "        children = answer.source.children(batch.key) or (() if listed and listed.closed else None) if tells_end else None\n"
            ),
        ),
        among=_ROLLING,
    ),
)
