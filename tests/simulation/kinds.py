"""Kinds of histories that the drawing of single fields hardly ever brings together. Each is in at least six of a hundred plain seeds.

A kind is drawn for a plan after all else, where it fits, and several may come together. `has` tells a kind by the plan alone, so that a test
can count how often each kind comes (`test_kinds.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from headrace.pipeline.settings.choices import Heartbeat, InitialPosition, Mode

if TYPE_CHECKING:
    from tests.simulation.plan import Plan


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    has: Callable[[Plan], bool]
    make: Callable[[Plan, Random], Plan]
    fits: Callable[[Plan], bool] = lambda _: True
    share: float = 0.1
    """Of the plans for which the kind is drawn. Some don't fit."""


def with_kinds(plan: Plan, fitted: Callable[[Plan], Plan] | None = None) -> Plan:
    """Each kind is drawn from a random generator of its own: a further kind changes only the plans that get it.

    `fitted` sets the fields that a planted bug is looked for in. A kind that these fields would undo is left out.
    """
    for kind in KINDS:
        rng = Random(f"{kind.name} {plan.seed}")
        if rng.random() < kind.share and kind.fits(plan):
            of_kind = kind.make(plan, rng)
            if fitted is None:
                plan = of_kind
            elif kind.has(fitted(of_kind)):
                plan = fitted(of_kind)
    return plan


def kinds_of(plan: Plan) -> frozenset[str]:
    return frozenset(kind.name for kind in KINDS if kind.has(plan))


# --- what is changed ----------------------------------------------------------------------------------------------


def _troubled(plan: Plan, rng: Random, **spans: tuple[float, float]) -> Plan:
    """The plan with these troubles, and with less time: they come often."""
    troubles = {name: rng.uniform(*span) for name, span in spans.items()}
    return replace(plan, troubles={**plan.troubles, **troubles}, fault_seconds=min(plan.fault_seconds, 400.0))


def _parsed(plan: Plan, rng: Random) -> Plan:
    from tests.simulation.plan import parsed

    return plan if plan.typed.targets else replace(plan, typed=parsed(rng))


def _often(plan: Plan, name: str, mean: float) -> bool:
    return 0.0 < plan.troubles.get(name, 0.0) <= mean


def _may_be_parsed(plan: Plan) -> bool:
    # A typed table counts on what holds for Kinesis, where no retention is shorter than a day.
    return plan.retention > 3600.0


def _long_waves(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(plan, rng, stop=(60.0, 150.0), kill_host=(100.0, 200.0))
    return replace(
        plan, wave_takes=rng.uniform(15.0, 30.0), wave_records=1_000_000, graceful=True, settle_seconds=1200.0
    )


def _named_shards(plan: Plan, rng: Random) -> Plan:
    """Shards are asked for by name whose parents are unread, whose rows are gone, or whose worker has just been replaced by another one."""
    plan = _troubled(plan, rng, ask=(8.0, 25.0), recreate=(60.0, 150.0))
    if rng.random() < 0.6:
        plan = _troubled(plan, rng, split=(30.0, 80.0), drop_row=(20.0, 60.0), stop=(40.0, 120.0))
    return plan


def _late_merges(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(plan, rng, merge=(20.0, 60.0), split=(30.0, 80.0))
    if rng.random() < 0.5:
        # Kinesis contradicts itself also about shards that it leaves out.
        plan = _troubled(plan, rng, deny=(10.0, 40.0))
        plan = replace(plan, settle_seconds=max(plan.settle_seconds, 1000.0))
    return replace(plan, shards=rng.choice((4, 6)), mix=replace(plan.mix, late_listing=rng.uniform(0.1, 0.5)))


def _late_typed(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(_parsed(plan, rng), rng, split=(30.0, 80.0), merge=(60.0, 150.0))
    typed = replace(plan.typed, begins=rng.uniform(60.0, 250.0))
    if rng.random() < 0.6:
        # Runs of a target meet in most of their waves.
        typed = replace(typed, every=rng.uniform(4.0, 9.0), redrives=0.0, copies=0.0)
    return replace(plan, typed=typed)


def _large_windows(plan: Plan, rng: Random) -> Plan:
    plan = _parsed(plan, rng)
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
    plan = _troubled(_parsed(plan, rng), rng, recreate=(60.0, 150.0))
    return replace(plan, typed=replace(plan.typed, reads=rng.uniform(15.0, 50.0)))


def _many_shards(plan: Plan, rng: Random) -> Plan:
    troubles = {
        name: mean for name, mean in plan.troubles.items() if name not in {"wipe_rows", "drop_tables"}
    }
    return replace(
        plan,
        shards=rng.randint(101, 120),
        puts_every=0.5,
        troubles=troubles,
        fault_seconds=90.0,
        hosts=2,
        workers_each=1,
    )


def _dropped_days(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(plan if rng.random() < 0.4 else _parsed(plan, rng), rng, tidy=(15.0, 40.0))
    typed = replace(plan.typed, windows=0.0, copies=0.0, unpacks=0.0, reads=0.0)
    # The runs of a target come late, and fail; shards come that it doesn't know yet.
    midnight = rng.uniform(80.0, 250.0)
    if typed.targets:
        plan = _troubled(plan, rng, split=(40.0, 120.0))
        typed = replace(typed, every=rng.uniform(20.0, 60.0))
        if rng.random() < 0.6:
            # The first runs come while the retention would already drop a day, and die.
            typed = replace(typed, begins=midnight + rng.uniform(0.0, 40.0), cut=rng.uniform(0.2, 0.5))
    return replace(plan, midnight=midnight, typed=typed)


def _deleted_files(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(plan, rng, tidy=(5.0, 15.0), freeze_run=(40.0, 120.0))
    # Few commits: a file that was staged long ago can still be committed, because the table hasn't moved.
    # Runs that die between staging and committing leave files without a name.
    mix = replace(plan.mix, frozen_at_commit=rng.uniform(0.2, 0.5), cut=rng.uniform(0.02, 0.08))
    shards = rng.choice((1, 1, plan.shards))
    return replace(plan, mix=mix, shards=shards, puts_every=max(plan.puts_every, rng.uniform(4.0, 10.0)))


def _of_a_table(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(plan, rng, split=(15.0, 60.0))
    return replace(plan, of_a_table=True, aggregates=False)


def _may_be_a_table(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.foreign
    return is_plain and not plan.keeps and _may_be_parsed(plan) and not _often(plan, "merge", 60.0)


def _each_event_once(plan: Plan, rng: Random) -> Plan:
    plan = _parsed(plan, rng)
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
    if rng.random() < 0.6:
        # Processors see the ends of shards.
        plan = _troubled(plan, rng, split=(30.0, 80.0))
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
    plan = _troubled(plan, rng, split=(30.0, 80.0))
    if not plan.of_a_table and "merge" not in plan.troubles and rng.random() < 0.6:
        plan = _troubled(plan, rng, merge=(40.0, 100.0))
    if rng.random() < 0.3 and not (plan.adopted or plan.foreign or plan.midnight):
        plan = _troubled(plan, rng, roll_back=(80.0, 200.0))
    return replace(plan, typed=typed)


def _made_a_day_late(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(_parsed(plan, rng), rng, split=(30.0, 80.0), merge=(60.0, 150.0))
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


def _keeps_its_history(plan: Plan) -> bool:
    # A repair, which takes positions from rows, knows nothing of those that a retention has removed.
    return (
        not plan.troubles.keys() & {"roll_back", "roll_forward", "expire"}
        and not plan.quiet
        and _may_be_parsed(plan)
    )


_UNDOING = frozenset({"roll_back", "roll_forward", "expire", "wipe_rows", "drop_tables", "drop_row"})


def _unadopted(plan: Plan, rng: Random) -> Plan:
    """The fleet finds rows of KCL's, and refuses to read until a person adopts them."""
    troubles = {name: mean for name, mean in plan.troubles.items() if name not in {"expire", "roll_forward"}}
    return replace(
        plan,
        adopted=True,
        position=InitialPosition.TRIM_HORIZON,
        opens=rng.uniform(20.0, 120.0),
        unadopted=rng.uniform(20.0, 200.0),
        troubles=troubles,
    )


def _with_foreign(plan: Plan, rng: Random) -> Plan:
    plan = _troubled(plan, rng, steal=(30.0, 80.0))
    # What a KCL worker has processed isn't in the lake table: nothing but the rows tells how far it came.
    troubles = {name: mean for name, mean in plan.troubles.items() if name not in _UNDOING}
    if rng.random() < 0.4:
        troubles["roll_back"] = rng.uniform(60.0, 200.0)
    return replace(plan, foreign=True, troubles=troubles)


def _is_alone(plan: Plan) -> bool:
    """Whether an adoption fits in, early in the time of the faults."""
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.foreign and not plan.quiet
    return is_plain and not plan.keeps and not plan.hosts_off and _may_be_parsed(plan) and plan.shards <= 100


def _may_have_foreign(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.quiet
    return is_plain and not plan.aggregates and not plan.hosts_off and _may_be_parsed(plan)


def _beaten(plan: Plan, rng: Random) -> Plan:
    """Processes that beat are frozen and killed with their hosts; shards end, and leases are handed over between workers."""
    plan = _troubled(
        plan,
        rng,
        freeze_host=(60.0, 200.0),
        kill_host=(100.0, 300.0),
        split=(60.0, 150.0),
        freeze_server=(60.0, 200.0),
    )
    # What a KCL worker has processed isn't in the lake table: nothing but the rows tells how far it came.
    troubles = {name: mean for name, mean in plan.troubles.items() if name not in _UNDOING}
    return replace(
        plan,
        beats=True,
        foreign=True,
        heartbeat=Heartbeat.LEASE,
        troubles=troubles,
        settle_seconds=max(plan.settle_seconds, 700.0),
    )


def _by_fan_out(plan: Plan, rng: Random) -> Plan:
    """Subscriptions are refused and end in all ways, another program takes them over, consumers go, and the way of reading changes."""
    plan = _troubled(plan, rng, take_over=(10.0, 60.0), split=(30.0, 100.0))
    if rng.random() < 0.6:
        plan = _troubled(plan, rng, deregister=(60.0, 200.0))
    if rng.random() < 0.6:
        plan = _troubled(plan, rng, change_retrieval=(40.0, 150.0))
    mix = replace(plan.mix, event=rng.choice((0.0, rng.uniform(0.01, 0.1))), elsewhere=0.0)
    # A shard whose consumer was gone for a while isn't tried again for up to ten minutes.
    return replace(plan, fan_out=True, mix=mix, settle_seconds=max(plan.settle_seconds, 1000.0))


def _may_fan_out(plan: Plan) -> bool:
    return (
        plan.streams == 1
        and not (plan.aggregates or plan.keeps or plan.of_a_table or plan.quiet)
        and plan.shards <= 10
    )


def _with_application(plan: Plan, rng: Random) -> Plan:
    """Runs of the processor's application die and stand still in mid wave, and workers of KCL take its leases."""
    from tests.simulation.application.plan import an_application

    application = an_application(rng)
    plan = _troubled(plan, rng, split=(30.0, 100.0))
    # A shard at which the processor has failed often isn't tried again for up to ten minutes.
    return replace(plan, application=application, settle_seconds=max(plan.settle_seconds, 1000.0))


def _may_have_application(plan: Plan) -> bool:
    is_plain = not (plan.of_a_table or plan.quiet or plan.keeps or plan.added or plan.removed)
    return is_plain and plan.shards <= 10 and plan.retention > 3600.0


def _is_small(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.quiet
    return (
        is_plain
        and not plan.typed.targets
        and not plan.hosts_off
        and not plan.wave_takes
        and _may_be_parsed(plan)
    )


KINDS: Final = (
    Kind(
        "KCL workers whose checkpoints are allowed",
        lambda p: p.foreign and _often(p, "steal", 100.0),
        _with_foreign,
        _may_have_foreign,
        0.2,
    ),
    Kind(
        "rows of KCL's that nobody has adopted yet",
        lambda p: p.adopted and p.unadopted >= 20.0,
        _unadopted,
        _is_alone,
        0.16,
    ),
    Kind(
        "waves longer than the lease duration beside handovers",
        lambda p: p.wave_takes >= 15.0 and p.graceful and _often(p, "stop", 150.0),
        _long_waves,
        lambda p: not p.quiet,
    ),
    Kind(
        "late listings beside many merges",
        lambda p: p.mix.late_listing >= 0.1 and _often(p, "merge", 60.0) and p.shards >= 4,
        _late_merges,
        lambda p: p.streams == 1,
    ),
    Kind(
        "named shards beside recreated streams",
        lambda p: _often(p, "ask", 60.0) and _often(p, "recreate", 150.0),
        _named_shards,
        share=0.18,
    ),
    Kind(
        "typed tables that begin late beside splits",
        lambda p: bool(p.typed.targets) and p.typed.begins >= 60.0 and _often(p, "split", 80.0),
        _late_typed,
        _may_be_parsed,
        0.12,
    ),
    Kind(
        "typed tables that are made a day late",
        lambda p: (
            bool(p.typed.targets) and min(p.typed.begins, p.quiet) > 86_400.0 and _often(p, "split", 80.0)
        ),
        _made_a_day_late,
        lambda p: _is_small(p) and p.retention > 3600.0,
        0.24,
    ),
    Kind(
        "windows with a hundred rows",
        lambda p: p.typed.rows > 100 and 0.0 < p.typed.windows <= 60.0 and p.puts_every <= 0.6,
        _large_windows,
        lambda p: _may_be_parsed(p) and not p.wave_takes and not p.quiet,
        0.19,
    ),
    Kind(
        "windows that read a stream while it is recreated",
        lambda p: 0.0 < p.typed.reads <= 50.0 and _often(p, "recreate", 150.0),
        _read_while_recreated,
        _may_be_parsed,
        0.14,
    ),
    Kind(
        "files that nothing names are deleted",
        lambda p: _often(p, "tidy", 60.0),
        _deleted_files,
        lambda p: not p.quiet,
        0.07,
    ),
    Kind("upkeep.retention", lambda p: bool(p.midnight), _dropped_days, _keeps_its_history, 0.25),
    Kind(
        "a person who rolls forward",
        lambda p: "roll_forward" in p.troubles,
        lambda p, rng: replace(p, troubles={**p.troubles, "roll_forward": rng.uniform(80.0, 250.0)}),
        lambda p: not (p.adopted or p.midnight or p.quiet or p.foreign or "expire" in p.troubles),
        0.11,
    ),
    Kind(
        "a recording that ends before the head",
        lambda p: p.short_recordings,
        lambda p, rng: replace(p, short_recordings=True),
    ),
    Kind(
        "several files a wave", lambda p: p.files > 1, lambda p, rng: replace(p, files=rng.choice((2, 3, 5)))
    ),
    Kind(
        "the stream of a DynamoDB table, whose listings lag",
        lambda p: p.of_a_table and _often(p, "split", 150.0),
        _of_a_table,
        _may_be_a_table,
        0.2,
    ),
    Kind(
        "typed tables that land the same event once",
        lambda p: bool(p.typed.targets) and p.typed.unique > 0.0,
        _each_event_once,
        lambda p: _may_be_parsed(p) and not (p.typed.windows and p.puts_every <= 0.6),
        0.12,
    ),
    Kind(
        "a processor in mode landed",
        lambda p: bool(p.typed.processor),
        _with_processor,
        lambda p: _may_be_parsed(p) and not p.keeps and not p.quiet,
        0.14,
    ),
    Kind(
        "beats between slow ticks",
        lambda p: p.beats and p.heartbeat is Heartbeat.LEASE,
        _beaten,
        _may_have_foreign,
        0.35,
    ),
    Kind("more than a hundred shards", lambda p: p.shards > 100, _many_shards, _is_small, 0.9),
    Kind(
        "tables of the latest rows",
        lambda p: p.typed.latest and _often(p, "split", 80.0),
        _with_latest,
        lambda p: _may_be_parsed(p) and not p.keeps and not p.quiet,
        0.14,
    ),
    Kind(
        "enhanced fan-out",
        lambda p: p.fan_out and _often(p, "take_over", 60.0),
        _by_fan_out,
        _may_fan_out,
        0.2,
    ),
    Kind(
        "a processor in mode application",
        lambda p: p.application.is_on and _often(p, "split", 100.0),
        _with_application,
        _may_have_application,
        0.2,
    ),
)
