"""Kinds of tables: what is made from the lake table beside the fleet, and what becomes of the lake table itself."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from headrace.pipeline.settings.choices import Heartbeat
from tests.simulation.kinds.kind import Kind, is_small, may_be_parsed, often, troubled, with_typed

if TYPE_CHECKING:
    from tests.simulation.plan import Plan


def _late_typed(plan: Plan, rng: Random) -> Plan:
    plan = troubled(with_typed(plan, rng), rng, split=(30.0, 80.0), merge=(60.0, 150.0))
    typed = replace(plan.typed, begins=rng.uniform(60.0, 250.0))
    if rng.random() < 0.6:
        # Runs of a target meet in most of their waves.
        typed = replace(typed, every=rng.uniform(4.0, 9.0), redrives=0.0, copies=0.0)
    return replace(plan, typed=typed)


def _made_a_day_late(plan: Plan, rng: Random) -> Plan:
    plan = troubled(with_typed(plan, rng), rng, split=(30.0, 80.0), merge=(60.0, 150.0))
    # Kinesis has forgotten the shards of the first minutes, and the lake table has dropped them, before the first run looks.
    quiet = rng.uniform(29.0, 32.0) * 3600.0
    typed = replace(
        plan.typed, begins=300.0 + quiet - rng.uniform(0.0, 1200.0), upkeep=0.0, windows=0.0, copies=0.0
    )
    return replace(
        plan,
        typed=replace(typed, unpacks=0.0, reads=0.0),
        keeps=0.0,
        quiet=quiet,
        fault_seconds=min(plan.fault_seconds, 200.0),
        heartbeat=Heartbeat.WORKER,
        hosts=2,
        workers_each=1,
    )


def _large_windows(plan: Plan, rng: Random) -> Plan:
    plan = with_typed(plan, rng)
    typed = replace(
        plan.typed, rows=1_000_000, windows=rng.uniform(20.0, 60.0), every=rng.uniform(6.0, 15.0), begins=0.0
    )
    # Every fifth deployment sets all rows aside.
    typed = replace(typed, deploys=rng.uniform(20.0, 60.0))
    return replace(
        plan,
        typed=typed,
        puts_every=rng.uniform(0.3, 0.6),
        wave_records=1_000_000,
        shards=1,
        fault_seconds=300.0,
    )


def _read_while_recreated(plan: Plan, rng: Random) -> Plan:
    plan = troubled(with_typed(plan, rng), rng, recreate=(60.0, 150.0))
    return replace(plan, typed=replace(plan.typed, reads=rng.uniform(15.0, 50.0)))


def _each_event_once(plan: Plan, rng: Random) -> Plan:
    plan = with_typed(plan, rng)
    # Redrives and waves decide about the same events.
    redrives = plan.typed.redrives or rng.uniform(10.0, 60.0)
    # Such a table refuses windows that replace rows.
    return replace(
        plan, typed=replace(plan.typed, unique=rng.uniform(10.0, 90.0), redrives=redrives, windows=0.0)
    )


def _with_processor(plan: Plan, rng: Random) -> Plan:
    on_error = rng.choice(("halt", "retry", "halve", "quarantine", "quarantine"))
    typed = replace(
        plan.typed,
        processor=on_error,
        call_records=rng.choice((1, 2, 3, 10_000)),
        dies=rng.choice((0.0, rng.uniform(0.02, 0.15))),
        every=min(plan.typed.every, rng.uniform(5.0, 25.0)),
        deploys=plan.typed.deploys or rng.uniform(20.0, 120.0),
    )
    if not plan.typed.targets:
        # Small waves leave work for many runs, which meet and die between two steps.
        typed = replace(
            typed, rows=rng.choice((5, 20, 1_000_000)), cut=rng.choice((0.0, rng.uniform(0.02, 0.2)))
        )
    if on_error == "quarantine" and not plan.typed.targets:
        # Several redrives come between two waves.
        typed = replace(typed, redrives=rng.uniform(3.0, 15.0))
    if rng.random() < 0.6:
        # Processors see the ends of shards.
        plan = troubled(plan, rng, split=(30.0, 80.0))
    # Drawn last: what was drawn before windows went through processors stays as it was.
    if rng.random() < 0.5:
        typed = replace(typed, processed=rng.uniform(20.0, 100.0))
    return replace(plan, typed=typed)


def _with_latest(plan: Plan, rng: Random) -> Plan:
    """Waves of few rows, so that many waves meet each key, beside shards whose keys go to others."""
    typed = replace(
        plan.typed,
        latest=True,
        every=min(plan.typed.every, rng.uniform(5.0, 20.0)),
        deploys=plan.typed.deploys or rng.uniform(20.0, 120.0),
        upkeep=plan.typed.upkeep or rng.choice((0.0, rng.uniform(20.0, 60.0))),
    )
    if not plan.typed.targets:
        typed = replace(
            typed, rows=rng.choice((5, 20, 1_000_000)), cut=rng.choice((0.0, rng.uniform(0.02, 0.2)))
        )
    plan = troubled(plan, rng, split=(30.0, 80.0))
    if not plan.of_a_table and "merge" not in plan.troubles and rng.random() < 0.6:
        plan = troubled(plan, rng, merge=(40.0, 100.0))
    if rng.random() < 0.3 and not (plan.adopted or plan.foreign or plan.midnight):
        plan = troubled(plan, rng, roll_back=(80.0, 200.0))
    return replace(plan, typed=typed)


def _deleted_files(plan: Plan, rng: Random) -> Plan:
    plan = troubled(plan, rng, tidy=(5.0, 15.0), freeze_run=(40.0, 120.0))
    # Few commits: a file that was staged long ago can still be committed, because the table hasn't moved.
    # Runs that die between staging and committing leave files without a name.
    mix = replace(plan.mix, frozen_at_commit=rng.uniform(0.2, 0.5), cut=rng.uniform(0.02, 0.08))
    shards = rng.choice((1, 1, plan.shards))
    return replace(plan, mix=mix, shards=shards, puts_every=max(plan.puts_every, rng.uniform(4.0, 10.0)))


def _dropped_days(plan: Plan, rng: Random) -> Plan:
    plan = troubled(plan if rng.random() < 0.4 else with_typed(plan, rng), rng, tidy=(15.0, 40.0))
    typed = replace(plan.typed, windows=0.0, copies=0.0, unpacks=0.0, reads=0.0)
    # The runs of a target come late, and fail; shards come that it doesn't know yet.
    midnight = rng.uniform(80.0, 250.0)
    if typed.targets:
        plan = troubled(plan, rng, split=(40.0, 120.0))
        typed = replace(typed, every=rng.uniform(20.0, 60.0))
        if rng.random() < 0.6:
            # The first runs come while the retention would already drop a day, and die.
            typed = replace(typed, begins=midnight + rng.uniform(0.0, 40.0), cut=rng.uniform(0.2, 0.5))
    return replace(plan, midnight=midnight, typed=typed)


def _keeps_its_history(plan: Plan) -> bool:
    # A repair, which takes positions from rows, knows nothing of those that a retention has removed.
    return (
        not plan.troubles.keys() & {"roll_back", "roll_forward", "expire"}
        and not plan.quiet
        and may_be_parsed(plan)
    )


TABLE_KINDS: Final = (
    Kind(
        "typed tables that begin late beside splits",
        lambda p: bool(p.typed.targets) and p.typed.begins >= 60.0 and often(p, "split", 80.0),
        _late_typed,
        may_be_parsed,
        0.12,
    ),
    Kind(
        "typed tables that are made a day late",
        lambda p: (
            bool(p.typed.targets) and min(p.typed.begins, p.quiet) > 86_400.0 and often(p, "split", 80.0)
        ),
        _made_a_day_late,
        lambda p: is_small(p) and p.retention > 3600.0,
        0.42,
    ),
    Kind(
        "windows with a hundred rows",
        lambda p: p.typed.rows > 100 and 0.0 < p.typed.windows <= 60.0 and p.puts_every <= 0.6,
        _large_windows,
        lambda p: may_be_parsed(p) and not p.wave_takes and not p.quiet,
        0.22,
    ),
    Kind(
        "windows that read a stream while it is recreated",
        lambda p: 0.0 < p.typed.reads <= 50.0 and often(p, "recreate", 150.0),
        _read_while_recreated,
        may_be_parsed,
        0.2,
    ),
    Kind(
        "files that nothing names are deleted",
        lambda p: often(p, "tidy", 60.0),
        _deleted_files,
        lambda p: not p.quiet,
        0.07,
    ),
    Kind("upkeep.retention", lambda p: bool(p.midnight), _dropped_days, _keeps_its_history, 0.25),
    Kind(
        "a recording that ends before the head",
        lambda p: p.short_recordings,
        lambda p, rng: replace(p, short_recordings=True),
        share=0.12,
    ),
    Kind(
        "several files a wave",
        lambda p: p.files > 1,
        lambda p, rng: replace(p, files=rng.choice((2, 3, 5))),
        share=0.16,
    ),
    Kind(
        "typed tables that land the same event once",
        lambda p: bool(p.typed.targets) and p.typed.unique > 0.0,
        _each_event_once,
        lambda p: may_be_parsed(p) and not (p.typed.windows and p.puts_every <= 0.6),
        0.18,
    ),
    Kind(
        "a processor in mode landed",
        lambda p: bool(p.typed.processor),
        _with_processor,
        lambda p: may_be_parsed(p) and not p.keeps and not p.quiet,
        0.24,
    ),
    Kind(
        "tables of the latest rows",
        lambda p: p.typed.latest and often(p, "split", 80.0),
        _with_latest,
        lambda p: may_be_parsed(p) and not p.keeps and not p.quiet,
        0.2,
    ),
)
