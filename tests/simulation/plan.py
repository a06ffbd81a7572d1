"""What a seed stands for: a fleet, a stream, and some kinds of faults. Each seed leaves most kinds out, so that all
mixes occur."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from headrace.pipeline.settings.choices import Heartbeat, InitialPosition, Mode, OnDataLoss
from tests.simulation.application.plan import ApplicationPlan
from tests.simulation.kinds.drawn import with_kinds
from tests.simulation.troubles.call_faults import Mix

CALM = Mix()

RATES = {
    "throttled": (0.001, 0.05),
    "lost": (0.001, 0.03),
    "unanswered": (0.001, 0.03),
    "late": (0.001, 0.02),
    "repeated": (0.001, 0.05),
    "slow": (0.001, 0.02),
    "frozen": (0.0003, 0.004),
    "frozen_at_commit": (0.003, 0.06),
    "killed": (0.0001, 0.001),
    "stale": (0.01, 0.3),
    "kinesis": (0.001, 0.05),
    "lake": (0.001, 0.05),
    "swap_lost": (0.01, 0.2),
    "swap_unanswered": (0.01, 0.2),
    "swap_late": (0.01, 0.2),
    "hung": (0.002, 0.02),
    "cut": (0.002, 0.03),
    "missed": (0.02, 0.3),
    "doubled": (0.02, 0.3),
    "forgotten": (0.005, 0.1),
    "late_listing": (0.05, 0.5),
}
"""Faults that happen at single calls, waves or ticks: the least and the greatest rate that a seed draws."""

HEALTHY = 30.0
"""Seconds after the last fault in which records still arrive. Such a second takes twice the CPU of one with faults, and finds little."""

TROUBLES = {
    "kill_run": (40.0, 200.0),
    "kill_server": (60.0, 300.0),
    "kill_host": (120.0, 400.0),
    "reload": (60.0, 300.0),
    "dynamo_outage": (150.0, 500.0),
    "kinesis_outage": (150.0, 500.0),
    "lake_outage": (150.0, 500.0),
    "jump": (40.0, 200.0),
    "wipe_rows": (200.0, 600.0),
    "drop_tables": (250.0, 700.0),
    "drop_row": (60.0, 300.0),
    "drop_lock": (40.0, 200.0),
    "drop_worker_row": (60.0, 300.0),
    "split": (60.0, 250.0),
    "merge": (60.0, 250.0),
    "false_verdict": (40.0, 200.0),
    "recreate": (250.0, 600.0),
    "compact": (10.0, 60.0),
    "ask": (60.0, 200.0),
    "stop": (120.0, 400.0),
    "freeze_run": (60.0, 200.0),
    "freeze_server": (60.0, 200.0),
    "freeze_host": (100.0, 300.0),
}
"""For each fault that happens from time to time: the least and the greatest mean number of seconds between two of
them that a seed may draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedPlan:
    """The typed tables that runs of their own make beside the fleet that lands. All times are means, in seconds; 0 is never."""

    targets: int = 0
    every: float = 15.0
    """Between two runs of a target. A run doesn't wait for the one before it."""
    rows: int = 1_000_000
    """The most rows of a wave."""
    begins: float = 0.0
    """When the first run starts. A backlog is there by then."""
    deploys: float = 0.0
    """Between two deployments of a parser that takes other records for wrong ones."""
    redrives: float = 0.0
    upkeep: float = 0.0
    """Between two compactions of a typed table and its quarantine table."""
    windows: float = 0.0
    """Between two windows whose rows are replaced in a typed table."""
    copies: float = 0.0
    """Between two windows that are copied into tables of their own."""
    unpacks: float = 0.0
    """Between two windows whose aggregates are taken apart in the lake table. The first one is made once the table keeps none any more."""
    reads: float = 0.0
    """Between two windows that are copied, and that read from the stream what the lake table lacks."""
    cut: float = 0.0
    """The share of the steps at which a run is killed."""
    unique: float = 0.0
    """Within how many seconds two rows with equal keys are the same event, which the typed tables land once."""
    latest: bool = False
    """Whether a table of the latest rows is kept beside the fleet."""
    processor: str = ""
    """What happens after a call of a record processor has failed (`on_error`). Empty: no processor works beside the fleet."""
    call_records: int = 10_000
    """The most records of one of its calls."""
    processed: float = 0.0
    """Between two windows that go through the processor, each into a table of its own."""
    dies: float = 0.0
    """The share of its answers in the place of which its process dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is drawn from a seed before its fleet starts."""

    seed: int
    hosts: int = 2
    shared: bool = False
    """Whether one Dagster instance starts runs on all hosts."""
    workers_each: int = 1
    shards: int = 4
    position: InitialPosition = InitialPosition.TRIM_HORIZON
    starts_at: float = 0.0
    """With AT_TIMESTAMP: the named moment, in seconds after the stream's creation."""
    opens: float = 0.0
    """Seconds until the first deployments start. Records are put before that, too."""
    heartbeat: Heartbeat = Heartbeat.WORKER
    graceful: bool = True
    retention: float = 86_400.0
    """Seconds. Where it is short, `on_data_loss` is `continue`: trimmed records are reported as a gap, and reading
    goes on."""
    foreign: bool = False
    """Whether the settings allow foreign checkpoints."""
    skewed: bool = True
    adopted: bool = False
    """Whether a KCL application reads until `opens`, and its rows are adopted then."""
    unadopted: float = 0.0
    """Of an adopted application: how many seconds later a person adopts it. The fleet is at work by then, and may read nothing."""
    mode: Mode = Mode.OWN
    streams: int = 1
    added: int = 0
    """How many of the streams are created while the fleet is at work."""
    removed: bool = False
    """Whether one of the streams is taken out of the settings."""
    discovered: bool = False
    """Whether all streams but the first are found by their prefix."""
    of_a_table: bool = False
    """Whether the stream is a DynamoDB table's: its shards have no hash keys and roll over in the place of splits, and its listings lag."""
    odd_rows: bool = False
    """Whether the lease table and the worker table hold a row each that Headrace doesn't understand."""
    aggregates: bool = False
    """Whether producers aggregate, as the Kinesis Producer Library does."""
    keeps: float = 0.0
    """Until this second the lake table gets one row for each aggregate, and from then on a row for each user record. Aggregates may have
    aggregates inside, and some records only look like aggregates."""
    short_recordings: bool = False
    """Whether a recording of ledgers may end before the head."""
    midnight: float = 0.0
    """Seconds after the start at which a new day (UTC) begins; 0: not within the plan. Where it does, upkeep drops the day before."""
    files: int = 1
    """The most files that a wave makes."""
    puts_every: float = 4.0
    wave_records: int = 1_000_000
    wave_every: float = 10.0
    mix: Mix = CALM
    troubles: dict[str, float] = field(default_factory=dict)
    wave_takes: float = 0.0
    """Additional seconds that each wave takes to read, as with a backlog, so that claims are held for longer than a
    tick."""
    traffic_ends_early: float | None = None
    """How many seconds before the end of the faults the last record is put; None: half a minute after it."""
    fan_out: bool = False
    """Whether the stream is read by enhanced fan-out at first."""
    beats: bool = False
    """Whether `headrace beat` runs on each host, beside ticks that come every fifteen seconds, and KCL workers take each lease that stands still."""
    hosts_off: float = 0.0
    """Seconds for which all hosts are off at the same time; 0: never."""
    quiet: float = 0.0
    """Seconds with few records, between the end of the faults and the traffic that follows (see `stretches.py`)."""
    fault_seconds: float = 600.0
    """Seconds during which faults happen; after them no new fault happens."""
    typed: TypedPlan = field(default_factory=TypedPlan)
    application: ApplicationPlan = field(default_factory=ApplicationPlan)
    settle_seconds: float = 300.0
    """Seconds after the faults by which everything must have been read."""

    @property
    def on_data_loss(self) -> OnDataLoss:
        return OnDataLoss.STOP if self.retention > 3600.0 else OnDataLoss.CONTINUE

    @property
    def keeps_claims(self) -> bool:
        """Whether runs keep claims from wave to wave while no KCL worker uses the tables."""
        return self.mode is Mode.OWN and not self.foreign and self.heartbeat is Heartbeat.WORKER

    @property
    def end(self) -> float:
        return self.fault_seconds + self.quiet + self.settle_seconds

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} every {mean:.0f} s" for name, mean in self.troubles.items())
        return (
            f"seed {self.seed}: {self.hosts} hosts{' under one Dagster' if self.shared else ''}, {self.workers_each} workers each, "
            f"{self.shards} shards from {'what KCL left' if self.adopted else self.position}, heartbeat {self.heartbeat}{f', not adopted for {self.unadopted:.0f} s' if self.unadopted else ''}"
            f"{f', {self.streams} streams' if self.streams > 1 else ''}{', rows that are not understood' if self.odd_rows else ''}{f', all hosts off for {self.hosts_off:.0f} s' if self.hosts_off else ''}{f', quiet for {self.quiet / 3600:.0f} h' if self.quiet else ''}{', a table' if self.of_a_table else ''}{', kcl.mode 2.x' if self.mode is Mode.KCL_2 else ''}{', aggregates' if self.aggregates else ''}{f', whole until {self.keeps:.0f} s' if self.keeps else ''}{f', {self.typed.targets} typed tables' if self.typed.targets else ''}{f' with each event once in {self.typed.unique:.0f} s' if self.typed.unique else ''}{', a table of the latest rows' if self.typed.latest else ''}{', a processor' if self.typed.processor else ''}{', an application of its own' if self.application.is_on else ''}{', beaten between slow ticks' if self.beats else ''}{', by enhanced fan-out' if self.fan_out else ''}; {self.mix}; {kinds or 'no other faults'}"
        )


def a_plan(seed: int, fitted: Callable[[Plan], Plan] | None = None) -> Plan:
    """The plan of a seed. `fitted`: sets the fields in which a planted bug shows."""
    rng = Random(f"plan {seed}")
    density = rng.choice((0.15, 0.3, 0.5))
    mix = {name: _between(rng, *span) for name, span in RATES.items() if rng.random() < density}
    troubles = {name: rng.uniform(*span) for name, span in TROUBLES.items() if rng.random() < density}
    plan = Plan(
        seed=seed,
        hosts=rng.choice((2, 2, 2, 2, 2, 2, 3, 3, 4, 5)),
        shared=rng.random() < 0.2,
        workers_each=rng.choice((1, 1, 1, 1, 2)),
        shards=rng.choice((1, 2, 3, 4, 6)),
        position=rng.choice(list(InitialPosition)),
        starts_at=(starts_at := rng.uniform(-100.0, 60.0)),
        opens=max(0.0, starts_at),
        heartbeat=Heartbeat.LEASE if rng.random() < 0.25 else Heartbeat.WORKER,
        graceful=rng.random() < 0.8,
        retention=rng.uniform(60.0, 300.0) if rng.random() < 0.25 else 86_400.0,
        puts_every=rng.uniform(1.0, 8.0),
        wave_records=rng.choice((1_000_000, 1_000_000, 10)),
        mix=replace(CALM, **mix),
        troubles=troubles,
        fault_seconds=400.0,
    )
    plan = widened(plan, Random(f"wide {seed}"))
    plan = replace(plan, odd_rows=Random(f"odd {seed}").random() < 0.1)
    plan = stretched(plan, Random(f"stretch {seed}"))
    plan = cooled(plan, Random(f"cold {seed}"))
    plan = kept(plan, Random(f"kept {seed}"))
    plan = tidied(plan, Random(f"tidied {seed}"))
    plan = untold(plan, Random(f"untold {seed}"))
    plan = aggregated(plan, Random(f"aggregated {seed}"))
    plan = misled(plan, Random(f"misled {seed}"))
    plan = typed(plan, Random(f"typed {seed}"))
    plan = windowed(plan, Random(f"windowed {seed}"))
    plan = hushed(plan, Random(f"hushed {seed}"))
    plan = set_back(plan, Random(f"set back {seed}"))
    return with_kinds(plan) if fitted is None else with_kinds(fitted(plan), fitted)


def widened(plan: Plan, rng: Random) -> Plan:
    """Add rare kinds, drawn from a random generator of their own. A seed that draws none of them keeps the plan it had
    before they existed."""
    if rng.random() < 0.06:
        plan = replace(
            plan, adopted=True, position=InitialPosition.TRIM_HORIZON, opens=rng.uniform(20.0, 120.0)
        )
    if rng.random() < 0.06:
        # Workers decide only every five minutes which of them syncs the shards, as in KCL 2.x.
        plan = replace(plan, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE, settle_seconds=700.0)
    if rng.random() < 0.06 and not plan.adopted:
        streams, found = rng.choice((2, 3)), rng.random() < 0.4
        return replace(
            plan,
            streams=streams,
            added=rng.choice((0, 1)),
            removed=not found and rng.random() < 0.6,
            discovered=found,
            shards=min(plan.shards, 3),
        )
    if rng.random() < 0.06:
        # No expiry after an adoption: a repair couldn't find out where an adopted shard begins if none of its
        # records has landed.
        kind = "roll_back" if plan.adopted else rng.choice(("roll_back", "expire"))
        plan = replace(plan, troubles={**plan.troubles, kind: rng.uniform(120.0, 500.0)})
    return plan


def hushed(plan: Plan, rng: Random) -> Plan:
    """Let the traffic of many seeds end while faults still happen: a new record makes a shard due, and hides that nothing else would have."""
    if rng.random() >= 0.4 or plan.traffic_ends_early is not None or plan.quiet:
        return plan
    return replace(plan, traffic_ends_early=rng.uniform(20.0, 120.0))


def stretched(plan: Plan, rng: Random) -> Plan:
    """Add more rare kinds, also drawn from a random generator of their own: denials, half-done portions of writes, an
    early end of traffic, long stretches."""
    if rng.random() < 0.12:
        # A shard that failed often isn't tried again for up to ten minutes.
        plan = replace(
            plan, troubles={**plan.troubles, "deny": rng.uniform(40.0, 200.0)}, settle_seconds=1000.0
        )
    if rng.random() < 0.12:
        plan = replace(plan, mix=replace(plan.mix, half_done=_between(rng, 0.01, 0.2)))
    if rng.random() < 0.12:
        troubles = {"kill_run": rng.uniform(20.0, 60.0), **plan.troubles}
        plan = replace(plan, traffic_ends_early=rng.uniform(30.0, 300.0), troubles=troubles)
    if rng.random() < 0.15:
        troubles = {"stop": rng.uniform(60.0, 150.0), "kill_host": rng.uniform(100.0, 200.0), **plan.troubles}
        # Slow waves of few records each could never catch up with the traffic.
        plan = replace(
            plan,
            wave_takes=rng.uniform(4.0, 20.0),
            wave_records=1_000_000,
            troubles=troubles,
            settle_seconds=1000.0,
        )
    plan = _named_elsewhere(plan, rng)
    dice = rng.random()
    if dice < 0.08 and not plan.adopted:
        retention = rng.uniform(60.0, 150.0)
        troubles = {"wipe_rows": rng.uniform(100.0, 300.0), **plan.troubles}
        hosts_off = retention * rng.uniform(1.0, 2.5)
        return replace(plan, retention=retention, hosts_off=hosts_off, puts_every=2.0, troubles=troubles)
    if dice < 0.11 and plan.mode is Mode.OWN:
        hours = rng.choice((rng.uniform(2.0, 4.0), rng.uniform(27.0, 32.0)))
        return replace(
            plan, quiet=3600.0 * hours, retention=86_400.0, heartbeat=Heartbeat.WORKER, fault_seconds=300.0
        )
    if dice < 0.15:
        # Records arrive as fast as waves read them, and people ask for shards by name.
        troubles = {**plan.troubles, "ask": rng.uniform(20.0, 60.0)}
        busy = replace(plan, puts_every=0.4, wave_records=10, shards=1, fault_seconds=300.0)
        # Waves are hardly faster than the records arrive: after an outage the backlog takes minutes.
        settle = max(busy.settle_seconds, 700.0)
        return replace(busy, troubles=troubles, wave_takes=0.0, settle_seconds=settle)
    return plan


def cooled(plan: Plan, rng: Random) -> Plan:
    """Add runs whose Spark starts slowly or not at all, drawn from a random generator of their own."""
    if rng.random() < 0.15:
        # A shard whose runs often found no Spark isn't tried again for up to a minute.
        mix = replace(plan.mix, cold=_between(rng, 0.03, 0.5))
        return replace(plan, mix=mix, settle_seconds=max(plan.settle_seconds, 1000.0))
    return plan


def kept(plan: Plan, rng: Random) -> Plan:
    """Add what matters for claims that are kept from wave to wave: much traffic, long pauses, hangs in them, and thieves."""
    if rng.random() < 0.12:
        plan = replace(plan, mix=replace(plan.mix, hung_between=_between(rng, 0.0003, 0.005)))
    if not plan.keeps_claims:
        return plan
    if rng.random() < 0.1:
        plan = replace(plan, troubles={**plan.troubles, "steal": rng.uniform(80.0, 250.0)})
    if rng.random() < 0.15:
        plan = replace(plan, puts_every=rng.uniform(0.3, 1.0), wave_records=1_000_000)
    if rng.random() < 0.08 and plan.retention > 3600.0:
        # A record waits up to five minutes for its wave, and five more where that wave fails.
        return replace(plan, wave_every=300.0, settle_seconds=max(plan.settle_seconds, 1500.0))
    return plan


def set_back(plan: Plan, rng: Random) -> Plan:
    """Set clocks back shortly before runs die, drawn from a random generator of its own: how long a run counts as alive mustn't go by such a clock."""
    if rng.random() < 0.1 and not plan.quiet:
        return replace(plan, troubles={**plan.troubles, "set_back": rng.uniform(60.0, 150.0)})
    return plan


def tidied(plan: Plan, rng: Random) -> Plan:
    """Add compactions by Headrace, drawn from a random generator of their own."""
    if rng.random() < 0.25:
        return replace(plan, troubles={**plan.troubles, "upkeep": rng.uniform(20.0, 120.0)})
    return plan


def untold(plan: Plan, rng: Random) -> Plan:
    """Let Kinesis tell ends of shards only after their last records, drawn from a random generator of its own."""
    if rng.random() < 0.2:
        return replace(plan, mix=replace(plan.mix, end_untold=_between(rng, 0.1, 1.0)))
    return plan


def misled(plan: Plan, rng: Random) -> Plan:
    """Let tasks read where another stream of the same name answers, drawn from a random generator of its own."""
    if rng.random() < 0.1:
        # A shard that failed often isn't tried again for up to ten minutes.
        mix = replace(plan.mix, elsewhere=_between(rng, 0.01, 0.2))
        return replace(plan, mix=mix, settle_seconds=max(plan.settle_seconds, 1000.0))
    return plan


def aggregated(plan: Plan, rng: Random) -> Plan:
    """Let producers aggregate, more often where KCL's checkpoints are adopted, which may be inside an aggregate."""
    return replace(plan, aggregates=rng.random() < (0.7 if plan.adopted else 0.2))


def typed(plan: Plan, rng: Random) -> Plan:
    """Add typed tables, drawn from a random generator of their own: they change nothing of what is landed."""
    # A typed table counts on what holds for Kinesis, where no retention is shorter than a day.
    return replace(plan, typed=parsed(rng)) if rng.random() < 0.15 and plan.retention > 3600.0 else plan


def parsed(rng: Random) -> TypedPlan:
    return TypedPlan(
        targets=rng.choice((1, 1, 2)),
        every=rng.uniform(6.0, 40.0),
        rows=rng.choice((1, 3, 20, 1_000_000)),
        begins=rng.choice((0.0, 0.0, rng.uniform(60.0, 400.0))),
        deploys=rng.choice((0.0, rng.uniform(20.0, 120.0), rng.uniform(20.0, 120.0))),
        redrives=rng.choice((0.0, rng.uniform(10.0, 120.0), rng.uniform(10.0, 120.0))),
        upkeep=rng.choice((0.0, rng.uniform(20.0, 120.0))),
        cut=rng.choice((0.0, _between(rng, 0.01, 0.2), _between(rng, 0.01, 0.2))),
        # Drawn last: what was drawn before there were windows stays as it was.
        windows=rng.choice((0.0, rng.uniform(20.0, 150.0), rng.uniform(20.0, 150.0))),
        copies=rng.choice((0.0, 0.0, rng.uniform(60.0, 250.0))),
    )


def windowed(plan: Plan, rng: Random) -> Plan:
    """Add windows that take aggregates apart and windows that read from the stream, drawn from a random generator of their own. A fleet with
    the first kind lands other rows than it would without."""
    if not plan.typed.targets:
        return plan
    if rng.random() < 0.3:
        plan = replace(plan, typed=replace(plan.typed, reads=rng.uniform(60.0, 250.0)))
    return taking_apart(plan, rng) if rng.random() < 0.3 and not plan.adopted else plan


def taking_apart(plan: Plan, rng: Random) -> Plan:
    """The plan with a lake table that keeps aggregates whole at first, and with windows that take these apart later."""
    keeps = rng.uniform(0.2, 0.7) * plan.fault_seconds
    unpacks = rng.uniform(15.0, 80.0)
    return replace(plan, aggregates=True, keeps=keeps, typed=replace(plan.typed, unpacks=unpacks))


def _named_elsewhere(plan: Plan, rng: Random) -> Plan:
    """For AT_TIMESTAMP: name a moment before the retention, or one in the future."""
    dice = rng.random()
    if plan.position is not InitialPosition.AT_TIMESTAMP or plan.adopted or dice > 0.4:
        return plan
    if dice > 0.2:
        return replace(plan, starts_at=rng.uniform(60.0, 250.0), opens=0.0, puts_every=8.0)
    return replace(plan, starts_at=-400.0, opens=0.0, retention=rng.uniform(60.0, 300.0))


def _between(rng: Random, least: float, most: float) -> float:
    """A number between the two. Its logarithm is evenly spread, so that small rates are as likely as large ones."""
    return least * float((most / least) ** rng.random())
