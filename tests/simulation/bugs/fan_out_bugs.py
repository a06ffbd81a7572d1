"""Planted bugs in reading by enhanced fan-out: shards that end with their consumer, and records that a subscription passes over."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug

_FANNED_OUT: Final[dict[str, Any]] = {
    "fan_out": True,
    "streams": 1,
    "added": 0,
    "removed": False,
    "discovered": False,
    "aggregates": False,
    "keeps": 0.0,
    "of_a_table": False,
    "quiet": 0.0,
    "retention": 86_400.0,
    "mix": {"event": 0.05, "elsewhere": 0.0},
    "troubles": {"take_over": 30.0, "deregister": 60.0, "split": 60.0},
    "settle_seconds": 1000.0,
}

FAN_OUT: Final = (
    a_bug(
        "gone-consumer-is-the-end",
        "a shard counts as ended when Kinesis ends its subscription because the consumer is gone, as in KCL 3.5.1",
        (
            "aws.reading.fan_out",
            "                    raise self._told(frame)\n",
            (
                "                    if frame.name == MISSING:\n"
                "                        nothing = PageAnswer(None, 0, 0, timedelta(0), None, (), None, None, None, None)\n"
                "                        return nothing, self._open.date, self._open.date\n"
                "                    raise self._told(frame)\n"
            ),
        ),
        (
            "aws.reading.fan_out",
            "        self.ended = bool(answer.children)\n",
            "        self.ended = answer.next_iterator is None\n",
        ),
        seeds=20,
        among=_FANNED_OUT,
    ),
    a_bug(
        "gone-consumer-has-lost-records",
        "records count as lost where only the consumer isn't found",
        (
            "aws.reading.known_consumers",
            "        if code_of(error.__cause__) != MISSING:\n            raise\n",
            "        if code_of(error.__cause__):\n            raise\n",
        ),
        seeds=20,
        among=_FANNED_OUT,
    ),
    a_bug(
        "half-an-end",
        "a shard ends with an event that names child shards, although the event has a number to go on from",
        (
            "aws.reading.fan_out",
            "        if (answer.next_iterator is None) != bool(answer.children):\n",
            "        if answer.next_iterator is None and not answer.children:\n",
        ),
        seeds=20,
        among=_FANNED_OUT,
    ),
    a_bug(
        "goes-on-from-a-wave-that-did-not-land",
        "a subscription begins at the number that the last wave left, although that wave's records haven't landed",
        (
            "lake.staging.kept_iterators",
            "        if entry is None or batch.after is None or (batch.after.sequence, batch.after.sub) != entry.after:\n",
            "        if entry is None or batch.after is None:\n",
        ),
        # A process knows a further place than its next batch begins at where a person has set the table or the shard elsewhere.
        among=_FANNED_OUT
        | {
            "shards": 4,
            "mix": _FANNED_OUT["mix"] | {"swap_lost": 0.2, "swap_late": 0.1},
            "troubles": _FANNED_OUT["troubles"] | {"roll_back": 45.0, "skip": 20.0},
        },
    ),
)
