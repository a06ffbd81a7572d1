"""Rules of applications that work beside running workers of KCL, in their tables. Pure functions.

The application that lands records is one of them, and so is the application of each processor that has one.
"""

from collections.abc import Iterator
from datetime import timedelta

from headrace.pipeline.settings.choices import Beat, Heartbeat
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in
from headrace.pipeline.settings.values import show

# With less, the leases of a worker would expire when its sensor misses a few ticks (5 s each).
_LEAST_FAILOVER = timedelta(seconds=20)
# KCL's default. The process that beats may miss two of three beats.
_LEAST_FAILOVER_OF_PROCESS = timedelta(seconds=10)
# A longer time is almost surely a number of milliseconds that was taken for seconds.
_MOST_FAILOVER = timedelta(hours=1)


def beside_kcl_rules(settings: Settings) -> Iterator[Broken]:
    """The broken rules of an application that lands records beside KCL's workers."""
    kcl, shared = settings.kcl, ("kcl.failover",)
    if kcl.failover is None:
        if kcl.allow_foreign_checkpoints:
            yield Broken(
                "kcl.allow_foreign_checkpoints",
                "is true, but kcl.failover is missing; allowed with kcl.failover only, "
                "which says how long the KCL fleet waits for the counter of a lease to move",
                also=shared,
            )
        if kcl.beat is Beat.PROCESS:
            yield Broken(
                "kcl.beat",
                "is process, but kcl.failover is missing; allowed with kcl.failover only: a third of it is the time "
                "between two beats",
                also=shared,
            )
        return
    yield from fleet_rules(settings, "kcl.failover", beat_key="kcl.beat")
    if kcl.heartbeat is not Heartbeat.LEASE:
        yield Broken(
            "kcl.heartbeat",
            f"is {kcl.heartbeat}; allowed beside KCL's workers: "
            "lease, else KCL's workers believe our workers dead and take their leases",
        )
    if not kcl.allow_foreign_checkpoints:
        yield Broken(
            "kcl.allow_foreign_checkpoints",
            "is false; allowed beside KCL's workers: true. Records that KCL's workers read aren't in the "
            "lake table, and the table's ledger records these ranges as foreign",
        )


def fleet_rules(settings: Settings, failover_key: str, *, beat_key: str) -> Iterator[Broken]:
    """The broken rules about an application's times, which have to fit those of the KCL fleet that the
    application joins. Empty without a fleet.

    `failover_key`: the setting with the fleet's failover time. `beat_key`: the setting that says what beats.
    """
    failover, duration = settings.kcl.failover, settings.times.lease_duration
    if failover is None:
        return
    if settings.kcl.beat is Beat.TICKS:
        yield from _beaten_by_ticks(settings, failover, failover_key, beat_key)
    else:
        yield from _beaten_by_a_process(settings, failover, failover_key, beat_key)
    if failover > _MOST_FAILOVER:
        yield Broken(
            failover_key,
            f"is {show(failover)}; allowed: {show(_MOST_FAILOVER)} or less. "
            "KCL's failoverTimeMillis is in milliseconds: write 30s for its 30000",
        )
    if duration < failover:
        yield Broken(
            "times.lease_duration",
            f"is {show(duration)}; allowed: {failover_key} ({show(failover)}) or more, "
            "else living workers of KCL count as dead",
            also=(failover_key,),
        )
    yield from _table_streams(settings, failover_key)


def _beaten_by_ticks(
    settings: Settings, failover: timedelta, failover_key: str, beat_key: str
) -> Iterator[Broken]:
    tick = settings.times.worker_tick
    if failover < _LEAST_FAILOVER:
        wayout = (
            f"say {beat_key}: process, which beats between the ticks"
            if failover >= _LEAST_FAILOVER_OF_PROCESS
            else f"set the fleet's failoverTimeMillis to {_in_ms(_LEAST_FAILOVER)} or more first"
        )
        yield Broken(failover_key, f"is {show(failover)}; allowed: {show(_LEAST_FAILOVER)} or more: {wayout}")
    if 2 * tick > failover:
        yield Broken(
            "times.worker_tick",
            f"is {show(tick)}; allowed: at most half of {failover_key} ({show(failover)})",
            also=(failover_key,),
        )


def _beaten_by_a_process(
    settings: Settings, failover: timedelta, failover_key: str, beat_key: str
) -> Iterator[Broken]:
    least, duration = _LEAST_FAILOVER_OF_PROCESS, settings.times.lease_duration
    if failover < least:
        yield Broken(
            failover_key,
            f"is {show(failover)}; allowed with {beat_key}: process: {show(least)} or more: "
            f"set the fleet's failoverTimeMillis to {_in_ms(least)} or more first",
            also=(beat_key,),
        )
    if duration < _LEAST_FAILOVER:
        yield Broken(
            "times.lease_duration",
            f"is {show(duration)}; allowed with {beat_key}: process: {show(_LEAST_FAILOVER)} or more, "
            "else a leader of Headrace counts a worker with slow ticks as dead",
            also=(beat_key,),
        )


def _table_streams(settings: Settings, failover_key: str) -> Iterator[Broken]:
    for stream in settings.streams:
        if is_dynamodb(stream.name):
            yield Broken(
                failover_key,
                f"is given, and {name_in(stream.name)} is the stream of a DynamoDB table: Headrace doesn't share a table's "
                f"stream with workers of KCL. Stop them and remove {failover_key}, or give the stream an application of its "
                "own",
                also=("streams",),
            )


def _in_ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
