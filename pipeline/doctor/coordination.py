"""A check: whether the coordination tables and the owner index are as Headrace makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.settings.choices import Billing, Create

if TYPE_CHECKING:
    from headrace.pipeline.aws.leases.tables import DynamoTables

_NAME = "coordination tables"
_WORKING = {"ACTIVE", "UPDATING"}


def tables_are_there(live: LiveCase) -> Iterator[Diagnosis]:
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.aws.leases.tables import DynamoTables

    yield from _tables(live, DynamoTables(dynamodb_client(live.settings.aws), live.settings))


def _tables(live: LiveCase, tables: DynamoTables) -> Iterator[Diagnosis]:
    settings, every = live.settings, tables.describe()
    leases = next(facts for facts in every if facts.name == settings.lease_table)
    if leases.status is None:
        made = "The leader's sensor makes them" if settings.coordination.create is Create.AUTO else ""
        health = Health.NOTE if made else Health.ILL
        advice = made or "Run `headrace tables create`, as coordination.create is never"
        yield Diagnosis(_NAME, health, f"table {leases.name} isn't there yet", advice)
        return
    arranged = tables.arrangement()
    needed = [facts for facts in every if arranged.layout == "M" or facts is leases]
    for facts in needed:
        if facts.status not in _WORKING:
            status = facts.status or "missing"
            yield Diagnosis(
                _NAME,
                Health.ILL,
                f"table {facts.name} is {status}",
                "Wait until DynamoDB has made it, or run `headrace tables create`",
            )
        elif facts.billing == Billing.PROVISIONED.value:
            yield Diagnosis(
                _NAME,
                Health.NOTE,
                f"table {facts.name} has provisioned capacity, so DynamoDB refuses requests beyond it",
                "See the sizing section of docs/use/deploying.md, and set an alarm on ThrottledRequests",
            )
    yield _index(leases.name, leases.index)
    yield Diagnosis(
        _NAME, Health.WELL, f"layout {arranged.layout}, {sum(f.status is not None for f in every)} tables"
    )


def _index(table: str, status: str | None) -> Diagnosis:
    if status == "ACTIVE":
        return Diagnosis(_NAME, Health.WELL, f"the index of owners of table {table} is ACTIVE")
    return Diagnosis(
        _NAME,
        Health.NOTE,
        f"the index of owners of table {table} is {status or 'missing'}: workers find their leases by scans, which cost "
        "more the more shards there are",
        "Run `headrace tables create`"
        if status is None
        else "DynamoDB is building it; nothing is to be done",
    )
