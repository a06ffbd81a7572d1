"""Rules of the settings `dagster`. Pure functions."""

import re
from collections.abc import Iterator

from headrace.pipeline.settings.choices import CHECKS, NEVER, POOLS
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.values import show

# Dagster's rules for groups, owners and tags.
_GROUP = re.compile(r"[A-Za-z0-9_]+")
_KEY = re.compile(r"[A-Za-z0-9_-]+")
_OWNER = re.compile(r"team:[A-Za-z0-9_.\- ]+|[^@\s]+@[^@\s]+\.[^@\s]+")
_TAG_NAME = re.compile(r"(?:[A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}")
# Five fields, each of numbers, names, lists, ranges and steps. Dagster checks the rest.
_CRON = re.compile(r"(?:[0-9A-Za-z*/,-]+ ){4}[0-9A-Za-z*/,-]+")
# Dagster's rule for pools.
_POOL = re.compile(r"[A-Za-z0-9_/]+")
_TAG_VALUE = re.compile(r"[A-Za-z0-9_.-]{0,63}")


def dagster_rules(settings: Settings) -> Iterator[Broken]:
    dagster = settings.dagster
    if dagster.group is not None and not _GROUP.fullmatch(dagster.group):
        yield Broken("dagster.group", f"is {dagster.group!r}; allowed: letters, digits and _")
    for n, name in enumerate(dagster.key_prefix):
        if not _KEY.fullmatch(name):
            yield Broken(f"dagster.key_prefix.{n}", f"is {name!r}; allowed: letters, digits, _ and -")
    for n, owner in enumerate(dagster.owners):
        if not _OWNER.fullmatch(owner):
            yield Broken(
                f"dagster.owners.{n}",
                f"is {owner!r}; allowed: an address (ann@example.com) or a team (team:data)",
            )
    for name, value in dagster.tags.items():
        if not _TAG_NAME.fullmatch(name) or not _TAG_VALUE.fullmatch(value):
            yield Broken(
                f"dagster.tags.{name}",
                f"is {value!r}; allowed in name and value: at most 63 of A-Z a-z 0-9 _ . -",
            )
    yield from _freshness(settings)
    yield from _checks(settings)
    yield from _backfill(settings)
    yield from _schedules(settings)


def _freshness(settings: Settings) -> Iterator[Broken]:
    warn, fail = settings.dagster.freshness.warn, settings.dagster.freshness.fail
    if warn is not None and (fail is None or warn >= fail):
        told = "missing" if fail is None else show(fail)
        yield Broken(
            "dagster.freshness.warn",
            f"is {show(warn)}, and dagster.freshness.fail is {told}; allowed: less than dagster.freshness.fail",
            also=("dagster.freshness.fail",),
        )


def _checks(settings: Settings) -> Iterator[Broken]:
    checks = settings.dagster.checks
    if not 0 < checks.quarantined <= 1:
        yield Broken(
            "dagster.checks.quarantined",
            f"is {checks.quarantined}; allowed: a fraction, more than 0 and at most 1 (0.01)",
        )
    for n, name in enumerate(checks.blocking):
        if name not in CHECKS:
            yield Broken(f"dagster.checks.blocking.{n}", f"is {name!r}; allowed: {', '.join(sorted(CHECKS))}")


def _backfill(settings: Settings) -> Iterator[Broken]:
    backfill = settings.dagster.backfill
    if (backfill.by is None) != (backfill.since is None):
        yield Broken(
            "dagster.backfill.by" if backfill.by is None else "dagster.backfill.since",
            "is missing; allowed: dagster.backfill.by and dagster.backfill.since together, or neither of them",
            also=("dagster.backfill.by", "dagster.backfill.since"),
        )
    if backfill.copies and backfill.by is None:
        yield Broken(
            "dagster.backfill.copies",
            "is true, and dagster.backfill.by is missing; allowed: copies by hour or by day",
            also=("dagster.backfill.by",),
        )
    tables = {name for target in settings.parse for name in (target.table, target.quarantine)}
    for n, target in enumerate(settings.parse):
        if backfill.by is not None and f"{target.table}_again" in tables:
            yield Broken(
                f"parse.{n}.table",
                f"is {target.table!r}, whose asset for backfills would have the name of the table "
                f"{target.table}_again; allowed with dagster.backfill.by: another name for one of both",
                also=("dagster.backfill.by",),
            )


def _schedules(settings: Settings) -> Iterator[Broken]:
    schedules = settings.dagster.schedules
    for name, cron in (("upkeep", schedules.upkeep), ("proof", schedules.proof)):
        if cron != NEVER and not _CRON.fullmatch(cron):
            yield Broken(
                f"dagster.schedules.{name}",
                f"is {cron!r}; allowed: five fields as cron has them (47 2 * * *), or {NEVER}",
            )
    for name, pool in settings.dagster.pools.items():
        if name not in POOLS:
            yield Broken(f"dagster.pools.{name}", f"isn't a kind of run; allowed: {', '.join(sorted(POOLS))}")
        elif not _POOL.fullmatch(pool):
            yield Broken(f"dagster.pools.{name}", f"is {pool!r}; allowed: letters, digits, _ and /")
