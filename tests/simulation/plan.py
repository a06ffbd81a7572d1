"""What a seed stands for: a fleet, a stream, and a mix of faults. A swarm: each seed leaves most of them out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from pipeline.settings.choices import Heartbeat, InitialPosition, Mode, OnDataLoss
from tests.simulation.weather import Mix

CALM = Mix()

RATES = {
    "throttled": (0.001, 0.05),
    "lost": (0.001, 0.03),
    "unanswered": (0.001, 0.03),
    "late": (0.001, 0.02),
    "repeated": (0.001, 0.05),
    "slow": (0.001, 0.02),
    "frozen": (0.0003, 0.004),
    "napped": (0.003, 0.06),
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
"""Per call, wave or tick: the least and the most that a seed draws."""

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
"""Seconds between two of a kind, on average: the least and the most that a seed draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    hosts: int = 2
    shared: bool = False
    """One Dagster instance launches runs on all hosts."""
    workers_each: int = 1
    shards: int = 4
    position: InitialPosition = InitialPosition.TRIM_HORIZON
    starts_at: float = 0.0
    """With AT_TIMESTAMP: seconds after the stream's creation."""
    opens: float = 0.0
    """When the first deployments come up; records are put before."""
    heartbeat: Heartbeat = Heartbeat.WORKER
    graceful: bool = True
    retention: float = 86_400.0
    """Seconds. Where it is short, what was trimmed is recorded as a gap, and reading goes on."""
    foreign: bool = False
    """Checkpoints of KCL's workers are believed."""
    skewed: bool = True
    adopted: bool = False
    """Until it opens a KCL application reads; then that is stopped, and its rows are taken over."""
    mode: Mode = Mode.OWN
    streams: int = 1
    added: int = 0
    """Of these, how many come up while the fleet is at work."""
    removed: bool = False
    """One of them is taken out of the settings."""
    discovered: bool = False
    """All but the first are found by prefix."""
    odd_rows: bool = False
    """In both tables lies a row that nobody understands."""
    puts_every: float = 4.0
    wave_records: int = 1_000_000
    mix: Mix = CALM
    troubles: dict[str, float] = field(default_factory=dict)
    wave_takes: float = 0.0
    """Seconds that the reading of each wave takes on top, as a backlog would: claims are held for longer than a tick."""
    hush: float | None = None
    """Traffic stops so many seconds before the storm ends; None: a minute after it."""
    dark: float = 0.0
    """Seconds for which all hosts are off, once."""
    quiet: float = 0.0
    """Seconds between the storm and the traffic that follows it (see `stretches`)."""
    storm: float = 600.0
    """Seconds until everything that goes wrong stops."""
    calm: float = 300.0
    """Seconds by which everything must be well again."""

    @property
    def on_data_loss(self) -> OnDataLoss:
        return OnDataLoss.STOP if self.retention > 3600.0 else OnDataLoss.CONTINUE

    @property
    def end(self) -> float:
        return self.storm + self.quiet + self.calm

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} every {mean:.0f} s" for name, mean in self.troubles.items())
        return (
            f"seed {self.seed}: {self.hosts} hosts{' under one Dagster' if self.shared else ''}, {self.workers_each} workers each, "
            f"{self.shards} shards from {'what KCL left' if self.adopted else self.position}, heartbeat {self.heartbeat}"
            f"{f', {self.streams} streams' if self.streams > 1 else ''}{', odd rows' if self.odd_rows else ''}{f', dark for {self.dark:.0f} s' if self.dark else ''}{f', quiet for {self.quiet / 3600:.0f} h' if self.quiet else ''}{', each worker takes for itself' if self.mode is Mode.KCL_2 else ''}; {self.mix}; {kinds or 'no troubles'}"
        )


def a_plan(seed: int) -> Plan:
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
    )
    plan = widened(plan, Random(f"wide {seed}"))
    plan = replace(plan, odd_rows=Random(f"odd {seed}").random() < 0.1)
    return stretched(plan, Random(f"stretch {seed}"))


def widened(plan: Plan, rng: Random) -> Plan:
    """What is rare, by dice of its own: a seed that draws none of it is the fleet that it always was."""
    if rng.random() < 0.06:
        plan = replace(
            plan, adopted=True, position=InitialPosition.TRIM_HORIZON, opens=rng.uniform(20.0, 120.0)
        )
    if rng.random() < 0.06:
        # Who syncs the shards is found out anew every five minutes only, as by KCL 2.x.
        plan = replace(plan, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE, calm=700.0)
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
        # Where a row stands at a start of its own that no landed row tells of, nobody could repair it.
        kind = "roll_back" if plan.adopted else rng.choice(("roll_back", "expire"))
        plan = replace(plan, troubles={**plan.troubles, kind: rng.uniform(120.0, 500.0)})
    return plan


def stretched(plan: Plan, rng: Random) -> Plan:
    """By dice of its own again: denials, portions half done, traffic that stops early, and one of the longer stretches."""
    if rng.random() < 0.12:
        # A shard that failed often is left alone for up to ten minutes.
        plan = replace(plan, troubles={**plan.troubles, "deny": rng.uniform(40.0, 200.0)}, calm=1000.0)
    if rng.random() < 0.12:
        plan = replace(plan, mix=replace(plan.mix, halved=_between(rng, 0.01, 0.2)))
    if rng.random() < 0.12:
        troubles = {"kill_run": rng.uniform(20.0, 60.0), **plan.troubles}
        plan = replace(plan, hush=rng.uniform(30.0, 300.0), troubles=troubles)
    if rng.random() < 0.15:
        troubles = {"stop": rng.uniform(60.0, 150.0), "kill_host": rng.uniform(100.0, 200.0), **plan.troubles}
        # Long waves of a few records each would never catch up, however well the fleet does.
        plan = replace(
            plan, wave_takes=rng.uniform(4.0, 20.0), wave_records=1_000_000, troubles=troubles, calm=1000.0
        )
    plan = _named_elsewhere(plan, rng)
    dice = rng.random()
    if dice < 0.08 and not plan.adopted and plan.starts_at <= 60.0:
        retention = rng.uniform(60.0, 150.0)
        troubles = {"wipe_rows": rng.uniform(100.0, 300.0), **plan.troubles}
        dark = retention * rng.uniform(1.0, 2.5)
        return replace(plan, retention=retention, dark=dark, puts_every=2.0, troubles=troubles)
    if dice < 0.11 and plan.mode is Mode.OWN:
        hours = rng.choice((rng.uniform(2.0, 4.0), rng.uniform(27.0, 32.0)))
        return replace(
            plan, quiet=3600.0 * hours, retention=86_400.0, heartbeat=Heartbeat.WORKER, storm=300.0
        )
    if dice < 0.15:
        # Shards whose tip no wave reaches, and people who ask for them by name.
        troubles = {**plan.troubles, "ask": rng.uniform(20.0, 60.0)}
        busy = replace(plan, puts_every=0.4, wave_records=10, shards=1, storm=300.0)
        return replace(busy, troubles=troubles, wave_takes=0.0)
    return plan


_ROWS_LOST = {"drop_row", "wipe_rows", "drop_tables"}


def _named_elsewhere(plan: Plan, rng: Random) -> Plan:
    """AT_TIMESTAMP: a moment that the stream has forgotten, or one that is still to come."""
    dice = rng.random()
    if plan.position is not InitialPosition.AT_TIMESTAMP or plan.adopted or dice > 0.4:
        return plan
    if dice > 0.2:
        # Without lost rows: see "A start that is still to come" in docs/reliability.md.
        kept = {kind: mean for kind, mean in plan.troubles.items() if kind not in _ROWS_LOST}
        return replace(plan, starts_at=rng.uniform(60.0, 250.0), opens=0.0, puts_every=8.0, troubles=kept)
    return replace(plan, starts_at=-400.0, opens=0.0, retention=rng.uniform(60.0, 300.0))


def _between(rng: Random, least: float, most: float) -> float:
    """Small rates are as likely as large ones."""
    return least * float((most / least) ** rng.random())
