"""Kinds of fleets and streams: what happens to leases, shards and those who read them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from headrace.pipeline.settings.choices import Heartbeat, InitialPosition, Mode
from tests.simulation.kinds.kind import Kind, may_be_parsed, often, troubled

if TYPE_CHECKING:
    from tests.simulation.plan import Plan


_UNDOING = frozenset({"roll_back", "roll_forward", "expire", "wipe_rows", "drop_tables", "drop_row"})
_ENDING_RUNS = frozenset(
    {"kill_run", "kill_server", "kill_host", "reload", "false_verdict", "stop", "recreate", "steal", "deny"}
    | {
        "freeze_run",
        "freeze_server",
        "freeze_host",
        "wipe_rows",
        "drop_tables",
        "dynamo_outage",
        "lake_outage",
    }
)


def _denied(plan: Plan, rng: Random) -> Plan:
    """Kinesis denies for longer than its retention that shards exist, and its lists leave them out for a while."""
    from tests.simulation.plan import TypedPlan

    plan = troubled(plan, rng, deny=(8.0, 25.0), split=(40.0, 100.0))
    return replace(
        plan,
        typed=TypedPlan(),
        wave_takes=0.0,
        hosts_off=0.0,
        retention=rng.uniform(60.0, 90.0),
        mix=replace(plan.mix, late_listing=rng.uniform(0.3, 0.6)),
        settle_seconds=max(plan.settle_seconds, 1000.0),
    )


def _may_be_denied(plan: Plan) -> bool:
    # A wave every five minutes can't read each shard within a retention that is shorter.
    reads_often = plan.wave_every <= 60.0
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted
    return is_plain and not plan.quiet and reads_often


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


def _is_alone(plan: Plan) -> bool:
    """Whether an adoption fits in, early in the time of the faults."""
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.foreign and not plan.quiet
    return is_plain and not plan.keeps and not plan.hosts_off and may_be_parsed(plan) and plan.shards <= 100


def _with_foreign(plan: Plan, rng: Random) -> Plan:
    plan = troubled(plan, rng, steal=(30.0, 80.0))
    # What a KCL worker has processed isn't in the lake table: nothing but the rows tells how far it came.
    troubles = {name: mean for name, mean in plan.troubles.items() if name not in _UNDOING}
    if rng.random() < 0.6:
        # Ends of shards that KCL's workers have read are undone.
        troubles["roll_back"] = rng.uniform(60.0, 150.0)
        troubles["split"] = rng.uniform(25.0, 70.0)
    return replace(plan, foreign=True, troubles=troubles, aggregates=rng.random() < 0.4)


def _may_have_foreign(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.quiet
    return is_plain and not plan.aggregates and not plan.hosts_off and may_be_parsed(plan)


def _long_waves(plan: Plan, rng: Random) -> Plan:
    plan = troubled(plan, rng, stop=(60.0, 150.0), kill_host=(100.0, 200.0))
    return replace(
        plan, wave_takes=rng.uniform(15.0, 30.0), wave_records=1_000_000, graceful=True, settle_seconds=1200.0
    )


def _named_shards(plan: Plan, rng: Random) -> Plan:
    """Shards are asked for by name whose parents are unread, whose rows are gone, or whose worker has just been replaced by another one."""
    plan = troubled(plan, rng, ask=(8.0, 25.0), recreate=(60.0, 150.0))
    if rng.random() < 0.6:
        plan = troubled(plan, rng, split=(30.0, 80.0), drop_row=(20.0, 60.0), stop=(40.0, 120.0))
    return plan


def _late_merges(plan: Plan, rng: Random) -> Plan:
    plan = troubled(plan, rng, merge=(20.0, 60.0), split=(30.0, 80.0))
    if rng.random() < 0.5:
        # Kinesis contradicts itself also about shards that it leaves out.
        plan = troubled(plan, rng, deny=(10.0, 40.0))
        plan = replace(plan, settle_seconds=max(plan.settle_seconds, 1000.0))
    return replace(plan, shards=rng.choice((4, 6)), mix=replace(plan.mix, late_listing=rng.uniform(0.1, 0.5)))


def _of_a_table(plan: Plan, rng: Random) -> Plan:
    plan = troubled(plan, rng, split=(15.0, 60.0))
    return replace(plan, of_a_table=True, aggregates=False)


def _may_be_a_table(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.foreign
    return (
        is_plain
        and not plan.keeps
        and may_be_parsed(plan)
        and not plan.troubles.keys() & {"skip"}
        and not often(plan, "merge", 60.0)
    )


def _beaten(plan: Plan, rng: Random) -> Plan:
    """Processes that beat are frozen and killed with their hosts; shards end, and leases are handed over between workers."""
    plan = troubled(
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


def _many_shards(plan: Plan, rng: Random) -> Plan:
    """Alone in the lake table: each of so many shards costs time."""
    from tests.simulation.plan import TypedPlan

    troubles = {
        name: mean for name, mean in plan.troubles.items() if name not in {"wipe_rows", "drop_tables"}
    }
    return replace(
        plan,
        typed=TypedPlan(),
        wave_takes=0.0,
        keeps=0.0,
        shards=rng.randint(101, 120),
        puts_every=0.5,
        troubles=troubles,
        fault_seconds=90.0,
        # One worker alone can't probe all of its shards in one tick.
        hosts=rng.choice((1, 2)),
        workers_each=1,
    )


def _may_be_many(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.quiet
    return is_plain and not plan.hosts_off and not plan.midnight and may_be_parsed(plan)


def _by_fan_out(plan: Plan, rng: Random) -> Plan:
    """Subscriptions are refused and end in all ways, another program takes them over, consumers go, and the way of reading changes."""
    plan = troubled(plan, rng, take_over=(10.0, 60.0), split=(30.0, 100.0))
    if rng.random() < 0.6:
        plan = troubled(plan, rng, deregister=(60.0, 200.0))
    if rng.random() < 0.6:
        plan = troubled(plan, rng, change_retrieval=(40.0, 150.0))
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
    plan = troubled(plan, rng, split=(30.0, 100.0))
    # A shard at which the processor has failed often isn't tried again for up to ten minutes.
    return replace(plan, application=application, settle_seconds=max(plan.settle_seconds, 1000.0))


def _may_have_application(plan: Plan) -> bool:
    is_plain = not (plan.of_a_table or plan.quiet or plan.keeps)
    return is_plain and plan.shards <= 10


def _with_added(plan: Plan, rng: Random) -> Plan:
    """A stream is created, and the settings name it or it is found, while the processor's application reads others."""
    plan = _with_several(plan, rng)
    is_found = plan.discovered or (not plan.removed and rng.random() < 0.4)
    return replace(plan, added=1, discovered=is_found)


def _with_removed(plan: Plan, rng: Random) -> Plan:
    """A stream is taken out of the settings while the processor's application reads it."""
    return replace(_with_several(plan, rng), removed=True)


def _with_several(plan: Plan, rng: Random) -> Plan:
    """An application of several streams, each of whose records stay for a day. No KCL application was there before."""
    plan = replace(plan, retention=86_400.0, hosts_off=0.0, adopted=False)
    plan = plan if plan.application.is_on else _with_application(plan, rng)
    return replace(plan, streams=max(plan.streams, rng.choice((2, 3))), shards=min(plan.shards, 3))


def _may_have_several(plan: Plan) -> bool:
    """Whether several streams fit into a plan with an application. Some kinds judge a single stream, or records that go early."""
    is_single = plan.unadopted or plan.foreign or plan.fan_out or plan.beats or plan.typed.unpacks
    alone = plan.troubles.keys() & {"expire"} or often(plan, "deny", 25.0) or often(plan, "merge", 60.0)
    of_kind = replace(plan, retention=86_400.0)
    return _may_have_application(of_kind) and not (is_single or alone)


def _long_runs(plan: Plan, rng: Random) -> Plan:
    """Records come steadily and nothing dies, so that runs go on for minutes, as they do in a fleet without trouble."""
    troubles = {name: mean for name, mean in plan.troubles.items() if name not in _ENDING_RUNS}
    deadly = dict.fromkeys(
        ("killed", "frozen", "frozen_at_commit", "hung", "hung_between", "cut", "half_done"), 0.0
    )
    return replace(
        plan,
        troubles=troubles,
        mix=replace(plan.mix, **deadly),
        puts_every=min(plan.puts_every, rng.uniform(0.8, 1.6)),
        wave_records=1_000_000,
        traffic_ends_early=None,
    )


def _may_run_long(plan: Plan) -> bool:
    is_plain = plan.keeps_claims and plan.streams == 1 and not plan.quiet and plan.shards <= 10
    # Waves that are longer or come seldom are of other kinds.
    return (
        is_plain
        and plan.wave_every <= 60.0
        and not (plan.wave_takes or plan.mix.cold or often(plan, "deny", 25.0))
    )


LEASE_KINDS: Final = (
    Kind(
        "shards that Kinesis denies for longer than its retention",
        lambda p: often(p, "deny", 25.0) and p.retention <= 90.0 and p.mix.late_listing >= 0.3,
        _denied,
        _may_be_denied,
        0.12,
    ),
    Kind(
        "KCL workers whose checkpoints are allowed",
        lambda p: p.foreign and often(p, "steal", 100.0),
        _with_foreign,
        _may_have_foreign,
        0.28,
    ),
    Kind(
        "rows of KCL's that nobody has adopted yet",
        lambda p: p.adopted and p.unadopted >= 20.0,
        _unadopted,
        _is_alone,
        0.22,
    ),
    Kind(
        "waves longer than the lease duration beside handovers",
        lambda p: p.wave_takes >= 15.0 and p.graceful and often(p, "stop", 150.0),
        _long_waves,
        lambda p: not p.quiet,
    ),
    Kind(
        "late listings beside many merges",
        lambda p: p.mix.late_listing >= 0.1 and often(p, "merge", 60.0) and p.shards >= 4,
        _late_merges,
        lambda p: p.streams == 1,
        0.14,
    ),
    Kind(
        "named shards beside recreated streams",
        lambda p: often(p, "ask", 60.0) and often(p, "recreate", 150.0),
        _named_shards,
        share=0.18,
    ),
)

STREAM_KINDS: Final = (
    Kind(
        "the stream of a DynamoDB table, whose listings lag",
        lambda p: p.of_a_table and often(p, "split", 150.0),
        _of_a_table,
        _may_be_a_table,
        0.42,
    ),
    Kind(
        "beats between slow ticks",
        lambda p: p.beats and p.heartbeat is Heartbeat.LEASE,
        _beaten,
        _may_have_foreign,
        0.35,
    ),
    Kind("more than a hundred shards", lambda p: p.shards > 100, _many_shards, _may_be_many, 0.26),
    Kind(
        "enhanced fan-out",
        lambda p: p.fan_out and often(p, "take_over", 60.0),
        _by_fan_out,
        _may_fan_out,
        0.2,
    ),
    Kind(
        "a processor in mode application",
        lambda p: p.application.is_on and often(p, "split", 100.0),
        _with_application,
        _may_have_application,
        0.23,
    ),
    Kind(
        "an application beside a stream that is created",
        lambda p: p.application.is_on and p.added > 0,
        _with_added,
        _may_have_several,
        0.25,
    ),
    Kind(
        "an application beside a stream that is taken out",
        lambda p: p.application.is_on and p.removed,
        _with_removed,
        lambda p: not p.discovered and _may_have_several(p),
        0.27,
    ),
)
"""Drawn after the kinds of tables, which some of them leave no room for."""

CALM_KINDS: Final = (
    Kind(
        "runs that last for minutes",
        lambda p: _may_run_long(p) and p.puts_every <= 1.6 and not p.troubles.keys() & _ENDING_RUNS,
        _long_runs,
        _may_run_long,
        0.5,
    ),
)
"""Drawn after all others, whose troubles end runs early."""
