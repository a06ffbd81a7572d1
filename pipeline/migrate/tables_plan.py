"""Plans the move from three tables to one, KCL 3.4 to 3.5.

    no row --start--> INIT --start--> DEPLOYED --start--> PENDING --finish--> COMPLETE
       ^              |                | ^                  |
       '--rollback----'----rollback----' '-----rollback-----'

Workers of Headrace follow the status alone. KCL workers also follow their setting migrateAllEntitiesToLeaseTable,
and a KCL leader takes all of these steps by itself.
"""

from __future__ import annotations

from headrace.pipeline.kcl.layout import CLIENT_VERSION, TABLE_MIGRATION
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus
from headrace.pipeline.migrate.facts import MigrationFacts, is_recent
from headrace.pipeline.migrate.steps import (
    LEAST_BAKE,
    SUPPORTED_FOR,
    Action,
    Answer,
    Complete,
    ForgetStatus,
    Goal,
    MoveBack,
    MoveRow,
    NotYet,
    Plan,
    RemoveRow,
    Request,
    SetStatus,
    StepRefusal,
    due,
    span_in_words,
)


def plan_tables(request: Request, facts: MigrationFacts) -> Answer:
    match request.action:
        case Action.START:
            return _start(request, facts)
        case Action.ROLLBACK:
            return _rollback(facts)
        case Action.ROLL_FORWARD:
            if facts.table_status is not TableStatus.DEPLOYED:
                return StepRefusal(
                    f"only DEPLOYED can be rolled forward, and {TABLE_MIGRATION} says {facts.table_status}"
                )
            return _start(request, facts)
        case Action.FINISH:
            return _finish(request, facts)
        case Action.STATUS:
            return Plan(tables_status(facts))


def tables_status(facts: MigrationFacts) -> tuple[str, ...]:
    decided = facts.tables
    if facts.table_status in {None, TableStatus.COMPLETE} and facts.one_table:
        return ("three tables -> one: the application has one table",)
    if decided is None:
        return (f"three tables -> one: no row {TABLE_MIGRATION}, so this migration isn't under way",)
    first = (
        f"three tables -> one: {decided.state}, written by {decided.by} at {decided.at:%Y-%m-%d %H:%M:%S} UTC: "
        f"{_MEANING[TableStatus(decided.state)]}"
    )
    reasons = why_not_supported(facts) if facts.table_status is TableStatus.INIT else why_not_moved(facts)
    return (first, *(f"  not ready: {why}" for why in reasons))


_MEANING = {
    TableStatus.INIT: "every worker could work with one table; the rows stay where they are for an hour",
    TableStatus.DEPLOYED: "rows may move",
    TableStatus.PENDING: "workers write their rows into the lease table; `headrace migrate rollback` goes back",
    TableStatus.COMPLETE: "the migration is done, and there is no way back",
}


def why_not_supported(facts: MigrationFacts) -> list[str]:
    """The owners of leases that can't work with one table: KCL before 3.5."""
    able = {worker.name for worker in facts.workers if is_recent(worker.supported, facts.now)}
    return [
        f"worker {owner} hasn't told within the last minute that it can work with one table: it is older than KCL 3.5, "
        "or it is dead"
        for owner in sorted(facts.open_owners - able)
    ]


def why_not_moved(facts: MigrationFacts) -> list[str]:
    """KCL workers that still write to the separate table of workers' rows. Workers of Headrace stop that when the
    status changes.
    """
    if facts.table_status is not TableStatus.DEPLOYED:
        return []
    moved = {worker.name for worker in facts.reporting if worker.in_lease_table}
    here = sorted(
        worker.name for worker in facts.reporting if not worker.in_lease_table and not worker.is_ours
    )
    silent = sorted(facts.open_owners - moved - facts.ours - set(here))
    return [
        *(
            f"KCL worker {name} writes its row into the table for workers' rows: deploy it with "
            "migrateAllEntitiesToLeaseTable = true"
            for name in here
        ),
        *(f"worker {name} owns leases and hasn't reported within the last minute" for name in silent),
    ]


def _start(request: Request, facts: MigrationFacts) -> Answer:
    if facts.table_status is TableStatus.COMPLETE or (facts.one_table and facts.tables is None):
        return Plan(("the application has one table already",))
    if why := _why_not_driven(request, facts):
        return StepRefusal(why)
    match facts.table_status:
        case None:
            return _set(facts, TableStatus.INIT, why_not_supported(facts))
        case TableStatus.INIT:
            deploy = lambda: _set(facts, TableStatus.DEPLOYED, why_not_supported(facts))  # noqa: E731 - a step, not a function
            return due(facts, SUPPORTED_FOR, deploy, what=Goal.TABLES)
        case TableStatus.DEPLOYED:
            return _move(facts)
        case _:
            return Plan(
                ("workers write their rows into the lease table already",),
                after="`headrace migrate finish` makes it final, and `headrace migrate rollback` goes back",
            )


def _why_not_driven(request: Request, facts: MigrationFacts) -> str | None:
    # KCL's change log forbids both at once, and one table needs a fleet of 3.x alone.
    if facts.client_version not in {None, ClientVersion.V3}:
        return "the migration from 2.x to 3.x is under way, and KCL doesn't allow both migrations at once"
    if request.layout_is_fixed:
        return (
            "kcl.layout is M: set kcl.layout: auto in the settings of all deployments, and restart them first"
        )
    if stopping := sorted(worker.name for worker in facts.workers if worker.stopping):
        return (
            f"{', '.join(stopping)} is stopped, which its row says and a row in the other table wouldn't: "
            "`headrace stop --cancel` first, or take that worker out of the settings and delete its row"
        )
    if not facts.ours or facts.kcl_leads:
        who = "a KCL worker leads" if facts.kcl_leads else "no worker of Headrace reports in these tables"
        return (
            f"{who}, and a KCL leader takes these steps by itself: deploy all workers with KCL 3.5 and "
            "migrateAllEntitiesToLeaseTable = false, wait until `headrace migrate status` says DEPLOYED, and deploy them "
            "with migrateAllEntitiesToLeaseTable = true"
        )
    return None


def _set(facts: MigrationFacts, to: TableStatus, reasons: list[str]) -> Answer:
    if reasons:
        return NotYet("not every worker is ready: " + "; ".join(reasons))
    return Plan(
        (f"write {TABLE_MIGRATION} = {to} into table {facts.state_table}: {_MEANING[to]}",),
        (SetStatus(to, facts.table_status),),
        after="run `headrace migrate start one-table` again after an hour"
        if to is TableStatus.INIT
        else "run `headrace migrate start one-table` again: rows then move. Deploy KCL's workers with "
        "migrateAllEntitiesToLeaseTable = true before, where there are any",
    )


def _move(facts: MigrationFacts) -> Answer:
    if reasons := why_not_moved(facts):
        return NotYet("not every worker is ready: " + "; ".join(reasons))
    # Before the status: a worker that sees PENDING looks for its rows in the lease table.
    moves = tuple(MoveRow(key, TableStatus.DEPLOYED) for key in facts.moving)
    return Plan(
        (
            *(f"move the row {move.key} from {facts.state_table} to {facts.lease_table}" for move in moves),
            f"write {TABLE_MIGRATION} = PENDING: workers write their rows into table {facts.lease_table} within a minute",
        ),
        (*moves, SetStatus(TableStatus.PENDING, TableStatus.DEPLOYED)),
        after="then `headrace migrate finish` makes the migration final, once the bake time (--bake) is over; or `headrace migrate rollback` goes back",
    )


def _rollback(facts: MigrationFacts) -> Answer:
    match facts.table_status:
        case None:
            return StepRefusal(
                f"there is no row {TABLE_MIGRATION}: no migration is under way that could be rolled back"
            )
        case TableStatus.COMPLETE:
            return StepRefusal(
                "the move to one table is final: neither Headrace nor KCL has a way back from COMPLETE"
            )
        case TableStatus.PENDING if facts.kcls:
            return StepRefusal(
                f"KCL's workers ({', '.join(sorted(facts.kcls))}) go by their own setting: deploy them with "
                "migrateAllEntitiesToLeaseTable = false, and their leader writes DEPLOYED"
            )
        case TableStatus.PENDING:
            return Plan(
                (
                    f"write {TABLE_MIGRATION} = DEPLOYED: workers write their rows into the table of their own again",
                ),
                (SetStatus(TableStatus.DEPLOYED, TableStatus.PENDING),),
                after="`headrace migrate rollback` again takes the row away, `headrace migrate start one-table` goes on",
            )
        case status:
            if facts.kcl_leads:
                return StepRefusal(f"a KCL worker leads, and would write {status} again")
            return _forget(facts, status)


def _forget(facts: MigrationFacts, status: TableStatus) -> Answer:
    """Without the row, workers expect nothing but leases in the lease table."""
    strays = [worker for worker in facts.workers if worker.in_lease_table]
    # A row that is written again after its deletion would make the table look like that of an
    # application of one table.
    if late := sorted(worker.name for worker in strays if facts.reports(worker)):
        return NotYet(f"{', '.join(late)} wrote a row into table {facts.lease_table} within the last minute")
    back = facts.version is not None and facts.version.in_lease_table
    moves = (MoveBack(CLIENT_VERSION, status),) if back else ()
    removals = tuple(RemoveRow(worker.name, is_worker=True) for worker in strays)
    return Plan(
        (
            *(f"move the row {move.key} back to table {facts.state_table}" for move in moves),
            *(f"delete the old row of worker {row.key} from table {facts.lease_table}" for row in removals),
            f"delete {TABLE_MIGRATION}: the application stays in three tables",
        ),
        (*moves, *removals, ForgetStatus(status)),
    )


def _finish(request: Request, facts: MigrationFacts) -> Answer:
    if facts.table_status is TableStatus.COMPLETE:
        return Plan(("the move to one table is done",))
    if facts.table_status is not TableStatus.PENDING:
        state = f"it says {facts.table_status}" if facts.table_status else "there is no such row"
        return StepRefusal(f"only {TABLE_MIGRATION} = PENDING can be finished, and {state}")
    if facts.kcl_leads:
        return StepRefusal(
            "a KCL worker leads, and completes the move by itself after its tableMigrationCompleteBakeTimeSeconds"
        )
    if request.bake < LEAST_BAKE:
        return StepRefusal(
            f"--bake is {span_in_words(request.bake)}; allowed: {span_in_words(LEAST_BAKE)} or more, as in KCL"
        )
    return due(facts, request.bake, lambda: _complete(facts), what=Goal.TABLES)


def _complete(facts: MigrationFacts) -> Answer:
    if late := sorted(worker.name for worker in facts.reporting if not worker.in_lease_table):
        return NotYet(f"{', '.join(late)} still writes into the table for workers' rows")
    if facts.lock is None or facts.lock.released:
        # One deployment would take the lock of the one table, and another one, which looks a minute later, that of the other.
        return NotYet(
            "nobody leads now, and without a leader's lock two deployments could lead in two tables"
        )
    moves = tuple(MoveRow(key, TableStatus.PENDING) for key in facts.moving)
    return Plan(
        (
            *(f"move the row {move.key} from {facts.state_table} to {facts.lease_table}" for move in moves),
            (
                f"write {TABLE_MIGRATION} = COMPLETE into both tables and give the leader's lock to table {facts.lease_table}. "
                "From here there is no way back"
            ),
        ),
        (*moves, Complete(facts.lock)),
        after="the two side tables aren't used any more; keep the state table until all KCL workers have been restarted",
    )
