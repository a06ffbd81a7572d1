"""Checks of what must hold while an application works: the findings of `headrace status`, leases and shards that
belong together, and one application for each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.pipeline.core.landing.applications import (
    LOOKED_BACK,
    LandedBy,
    application_name,
    notice_of,
    others_at_work,
)
from headrace.pipeline.core.order.first_start import why_not_make_table
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.errors import TablesMissing
from headrace.pipeline.inspect.findings import findings_of
from headrace.pipeline.settings.model import Settings

_WORK, _LEASES, _TABLE = "workers and leader", "leases and shards", "lake table"
_NAMED = 3
_STATUS = "`headrace status` shows the rows behind this"
_ADVICE = {
    "leader-dead": "Start the leader's sensor of a deployment (`headrace dev`, or Dagster's Automation page); if one runs, its "
    "log says why it can't take the lock",
    "leader-idle": "Stop the deployment that leads, so that another one leads",
    "nobody-leads": "Start the leader's sensor of a deployment",
    "shards-failing": "Each sentence says what to do; see docs/use/when-wrong.md",
    "rows-left-over": "Run `headrace rekey`",
}
"""Code of a finding -> what to do; the others say it themselves."""


def what_status_finds(live: LiveCase) -> Iterator[Diagnosis]:
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.inspect.looking import look_at_tables
    from headrace.pipeline.inspect.read import TableNames

    settings = live.settings
    names = TableNames(
        lease_table=settings.lease_table,
        worker_table=settings.worker_table,
        state_table=settings.state_table,
    )
    try:
        observation = look_at_tables(
            dynamodb_client(settings.aws), names, watch=live.case.watch, clock=live.ports.clock
        )
    except TablesMissing:
        yield Diagnosis(_WORK, Health.NOTE, "there is no lease table yet, so no worker has worked")
        return
    findings = findings_of(observation)
    for finding in findings:
        health = Health.ILL if finding.needs_person else Health.NOTE
        yield Diagnosis(
            _WORK, health, f"{finding.code}: {finding.sentence}", _ADVICE.get(finding.code, _STATUS)
        )
    if live.case.watch is None:
        yield Diagnosis(
            _WORK,
            Health.NOTE,
            "one look can't tell a worker or leader that lives from one that has died",
            "`headrace doctor --for 30s` watches them",
        )
    elif not findings:
        yield Diagnosis(_WORK, Health.WELL, "the leader and the workers were seen to beat")


def leases_and_shards(live: LiveCase) -> Iterator[Diagnosis]:
    """Whether each open shard has a lease row, and each open lease row a shard."""
    source = live.ports.source("doctor")
    try:
        rows = live.ports.leases().scan().leases
    except TablesMissing:
        return
    # Before the first sync each shard lacks a row, and nothing is wrong.
    if not rows:
        return
    keys = {row.key for row in rows}
    for setting in live.settings.streams:
        facts = source.describe(setting.name)
        listed = {shard.shard_id: shard for shard in source.list_shards(facts.stream)}
        of_stream = [row for row in rows if row.stream in {None, facts.stream.serialized}]
        yield from _without_shard(
            [row.key for row in of_stream if not row.has_ended and row.shard_id not in listed]
        )
        have = {row.shard_id for row in of_stream}
        lacking = [
            shard_id for shard_id, shard in listed.items() if not shard.closed and shard_id not in have
        ]
        yield from _without_lease(setting.name, sorted(lacking))
    yield Diagnosis(
        _LEASES, Health.WELL, f"{counted(len(keys), 'lease row')} compared with Kinesis's list of shards"
    )


def _without_shard(keys: list[str]) -> Iterator[Diagnosis]:
    if keys:
        yield Diagnosis(
            _LEASES,
            Health.ILL,
            f"{counted(len(keys), 'open lease')} of shards that Kinesis doesn't list ({_some(keys)}): "
            "their end was never read, and records may be lost",
            'See "Lost records" in docs/use/when-wrong.md: `headrace skip` records the gap',
        )


def _without_lease(stream: str, shards: list[str]) -> Iterator[Diagnosis]:
    if shards:
        yield Diagnosis(
            _LEASES,
            Health.ILL,
            f"{counted(len(shards), 'open shard')} of {stream} without a lease row ({_some(shards)}): nobody reads them",
            "The leader's sensor makes the rows within `times.shard_sync`; if they stay away, its ticks say why",
        )


def neighbours(live: LiveCase) -> Iterator[Diagnosis]:
    table = live.ports.table("doctor")
    if not table.exists():
        yield _without_table(live)
        return
    commits = table.landings(live.ports.clock.now() - LOOKED_BACK)
    yield commit_findings(commits, live.settings)


def _without_table(live: LiveCase) -> Diagnosis:
    name = live.settings.landing.table
    try:
        gone = why_not_make_table(name, live.ports.leases().scan().leases)
    except TablesMissing:
        gone = None
    if gone is not None:
        return Diagnosis(_TABLE, Health.ILL, gone)
    return Diagnosis(_TABLE, Health.NOTE, f"{name} isn't there yet; the leader makes it")


def commit_findings(commits: Iterable[LandedBy], settings: Settings) -> Diagnosis:
    notice = notice_of(others_at_work(commits, application_name(settings)))
    if notice is not None:
        return Diagnosis(_TABLE, Health.ILL, notice)
    return Diagnosis(_TABLE, Health.WELL, f"{settings.landing.table} is this application's alone")


def _some(keys: list[str]) -> str:
    names = ", ".join(map(partition_of, keys[:_NAMED]))
    return f"{names}, ..." if len(keys) > _NAMED else names
