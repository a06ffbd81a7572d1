"""Plans the migration from KCL 2.x to 3.x: from workers that take leases to a leader that assigns them.

no row --start--> UPGRADE_FROM_2X --start--> 3X_WITH_ROLLBACK --finish--> 3X
                    |        ^                   |
                    |   roll-forward             |
                    '--rollback--> 2X <--rollback'
                                   '--finish--> no row
"""

from __future__ import annotations

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.kcl.layout import CLIENT_VERSION, LOCK
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus
from headrace.pipeline.migrate.facts import MigrationFacts
from headrace.pipeline.migrate.steps import (
    READY_FOR,
    Action,
    Answer,
    DeleteIndex,
    Goal,
    NotYet,
    Plan,
    RemoveRow,
    Request,
    SetVersion,
    StepRefusal,
    due,
)

_IN_PROGRESS = frozenset({ClientVersion.UPGRADE_FROM_2X, ClientVersion.WITH_ROLLBACK})
_FOLLOW_UP = "run `headrace migrate start 3.x` again once ten minutes have passed"


def plan_version(request: Request, facts: MigrationFacts) -> Answer:
    match request.action:
        case Action.START:
            return _start(request, facts)
        case Action.ROLLBACK:
            return _rollback(facts)
        case Action.ROLL_FORWARD:
            return _roll_forward(facts)
        case Action.FINISH:
            return _finish(request, facts)
        case Action.STATUS:
            return Plan(version_status(facts))


def version_status(facts: MigrationFacts) -> tuple[str, ...]:
    """Sentences about the state of the migration, and what keeps the next step from being done."""
    version = facts.version
    if version is None:
        return (f"2.x -> 3.x: no row {CLIENT_VERSION}, so this migration isn't under way",)
    first = (
        f"2.x -> 3.x: {version.state}, written by {version.by} at {version.at:%Y-%m-%d %H:%M:%S} UTC: "
        f"{_MEANING[ClientVersion(version.state)]}"
    )
    if facts.client_version is not ClientVersion.UPGRADE_FROM_2X:
        return (first,)
    return (first, *(f"  not ready: {why}" for why in why_not_ready(facts)))


_MEANING = {
    ClientVersion.INIT: "nothing has begun",
    ClientVersion.UPGRADE_FROM_2X: "workers take leases for themselves, and get ready to be assigned leases",
    ClientVersion.WITH_ROLLBACK: "a leader assigns the leases; `headrace migrate rollback` goes back",
    ClientVersion.ROLLED_BACK: "the migration was rolled back: workers take leases for themselves",
    ClientVersion.V3: "the migration is done, and there is no way back",
}


def why_not_ready(facts: MigrationFacts) -> list[str]:
    """The reasons why leases can't be assigned yet; KCL's own leader waits for the same."""
    reasons = []
    # A worker of 3.x finds its leases by this index. One that starts while the index is missing in
    # 3X_WITH_ROLLBACK doesn't make it.
    if facts.index != "ACTIVE":
        state = "is missing" if facts.index is None else f"is {facts.index}"
        reasons.append(
            f"the owner index of table {facts.lease_table} {state}; a leader of Headrace makes it, "
            "and so does `headrace tables create`"
        )
    names = {worker.name for worker in facts.reporting}
    reasons += [
        f"worker {owner} owns {counted(facts.owners[owner], 'lease row')} and has no row younger than 60 s: "
        f"{_remedy(owner, facts)}"
        for owner in sorted(facts.owners)
        if owner not in names
    ]
    if facts.unowned:
        reasons.append(
            f"{counted(len(facts.unowned), 'lease row')} ({facts.unowned[0]}"
            f"{', ...' if len(facts.unowned) > 1 else ''}) {'has' if len(facts.unowned) == 1 else 'have'} no owner"
        )
    return reasons


def _remedy(owner: str, facts: MigrationFacts) -> str:
    # KCL counts owners of ended rows too, so that a worker that left long ago holds the migration
    # up until the clean-up deletes its rows.
    if owner in facts.open_owners:
        return "it is a worker of KCL 2.x, which has to be replaced by one of 3.5, or it is dead"
    return "its shards have ended, and their rows go with the clean-up"


def _start(request: Request, facts: MigrationFacts) -> Answer:
    match facts.client_version:
        case None:
            return _begin(request, facts)
        # KCL's leader waits for ten minutes without a break as well: a worker that comes and goes
        # would be counted as ready otherwise.
        case ClientVersion.INIT | ClientVersion.UPGRADE_FROM_2X:
            return due(facts, READY_FOR, lambda: _go_over(request, facts), what=Goal.VERSION)
        case ClientVersion.WITH_ROLLBACK:
            return Plan(
                ("a leader assigns the leases already",),
                after="`headrace migrate finish` makes it final, and `headrace migrate rollback` goes back",
            )
        case ClientVersion.ROLLED_BACK:
            return StepRefusal(
                "this migration was rolled back: `headrace migrate roll-forward` begins it again"
            )
        case ClientVersion.V3:
            return Plan(("this migration is done",))


def _begin(request: Request, facts: MigrationFacts) -> Answer:
    if why := _why_not_driven(request, facts):
        return StepRefusal(why)
    if facts.table_status not in {None, TableStatus.COMPLETE}:
        return StepRefusal(
            "the move to one table is under way, and KCL doesn't allow both migrations at once"
        )
    old_workers = sorted(facts.kcls - {worker.name for worker in facts.reporting})
    # The first row that isn't a lease stops workers of KCL 2.x from taking leases (seen with
    # 2.7.2).
    if facts.one_table and facts.leases_only and old_workers:
        return StepRefusal(
            f"the row {CLIENT_VERSION} in table {facts.lease_table} would keep KCL workers before 3.5 "
            f"({', '.join(old_workers)}) from taking leases: replace them first by KCL 3.5 with "
            "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X_PHASE1"
        )
    return Plan(
        (
            f"write {CLIENT_VERSION} = UPGRADE_FROM_2X: workers go on taking leases, and KCL's begin to report",
            *(f"  not ready yet: {why}" for why in why_not_ready(facts)),
        ),
        (SetVersion(ClientVersion.UPGRADE_FROM_2X, None),),
        after=_FOLLOW_UP,
    )


def _go_over(request: Request, facts: MigrationFacts) -> Answer:
    if why := _why_not_driven(request, facts):
        return StepRefusal(why)
    if reasons := why_not_ready(facts):
        return NotYet("not every worker is ready: " + "; ".join(reasons))
    return Plan(
        (
            (
                f"write {CLIENT_VERSION} = 3X_WITH_ROLLBACK: no worker takes leases any more, and a leader assigns them. "
                "KCL's workers see it within 90 s; Headrace neither takes nor assigns for the first two minutes"
            ),
        ),
        (SetVersion(ClientVersion.WITH_ROLLBACK, facts.client_version),),
        after="then `headrace migrate finish` makes the migration final, once the bake time (--bake) is over; or `headrace migrate rollback` goes back",
    )


def _why_not_driven(request: Request, facts: MigrationFacts) -> str | None:
    """Why this command doesn't take a step forward: KCL's workers do it themselves, or Headrace's wouldn't follow."""
    if not facts.ours:
        return (
            "no worker of Headrace reports in these tables, and KCL's workers go forward by themselves: deploy them with "
            "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X, and their leader changes over ten minutes after all of them are "
            "ready. `headrace migrate status` tells what their leader waits for"
        )
    # Workers of Headrace that don't follow the row would go on assigning while KCL's take, or the
    # other way round, and leases would move to and fro.
    if not request.follows:
        return (
            "kcl.mode isn't migrating, so workers of Headrace wouldn't follow: set kcl.mode: migrating in the settings "
            "of all deployments, and restart them first"
        )
    return None


def _rollback(facts: MigrationFacts) -> Answer:
    version = facts.client_version
    if version is None:
        return StepRefusal(
            f"there is no row {CLIENT_VERSION}: no migration is under way that could be rolled back"
        )
    if version is ClientVersion.V3:
        return StepRefusal("the migration to 3.x is final: neither Headrace nor KCL has a way back from 3X")
    if version in _IN_PROGRESS or version is ClientVersion.INIT:
        sentence = (
            f"write {CLIENT_VERSION} = 2X: leases are no longer assigned, and workers take them. KCL's workers see it "
            "within 90 s; Headrace neither takes nor assigns for the first two minutes"
        )
        more = () if facts.ours else ("then, once no worker reports any more, delete the owner index",)
        return Plan((sentence, *more), (SetVersion(ClientVersion.ROLLED_BACK, version),), after=_AFTER_BACK)
    return _drop_index(facts)


_AFTER_BACK = "`headrace migrate roll-forward` begins again; `headrace migrate finish` removes what keeps KCL 2.x from starting"


def _drop_index(facts: MigrationFacts) -> Answer:
    if facts.ours:
        return Plan(
            ("rolled back already; the owner index stays, because workers of Headrace use it",),
            after=_AFTER_BACK,
        )
    if facts.index is None:
        return Plan(("rolled back already, and the owner index is gone",), after=_AFTER_BACK)
    # KCL's own tool sleeps for 120 s and then deletes the index, whoever still needs it. Workers
    # look at the row once a minute, so their reports are waited for instead.
    if reporting := sorted(worker.name for worker in facts.reporting):
        return NotYet(
            f"{', '.join(reporting)} reported within the last minute, so not every worker works as 2.x yet, "
            "and without the owner index a worker of 3.x finds no new lease"
        )
    return Plan(
        ("delete the owner index, which no worker uses any more",), (DeleteIndex(),), after=_AFTER_BACK
    )


def _roll_forward(facts: MigrationFacts) -> Answer:
    version = facts.client_version
    if version is ClientVersion.UPGRADE_FROM_2X:
        return Plan((f"{CLIENT_VERSION} says UPGRADE_FROM_2X already",), after=_FOLLOW_UP)
    if version is not ClientVersion.ROLLED_BACK:
        state = "there is no such row" if version is None else f"it says {version}"
        return StepRefusal(f"only from {CLIENT_VERSION} = 2X can be rolled forward, and {state}")
    return Plan(
        (f"write {CLIENT_VERSION} = UPGRADE_FROM_2X: the migration begins again",),
        (SetVersion(ClientVersion.UPGRADE_FROM_2X, version),),
        after=_FOLLOW_UP
        if facts.ours
        else "KCL's leader goes on once all workers have been ready for ten minutes",
    )


def _finish(request: Request, facts: MigrationFacts) -> Answer:
    match facts.client_version:
        case None:
            return StepRefusal(
                f"there is no row {CLIENT_VERSION}: no migration is under way that could be finished"
            )
        case ClientVersion.V3:
            return Plan(("this migration is done",))
        case ClientVersion.WITH_ROLLBACK:
            return due(facts, request.bake, lambda: _make_final(facts), what=Goal.VERSION)
        case ClientVersion.ROLLED_BACK:
            return _clear(facts)
        case ClientVersion.INIT | ClientVersion.UPGRADE_FROM_2X:
            return StepRefusal(
                "leases aren't assigned yet: `headrace migrate start 3.x` takes that step first"
            )


def _make_final(facts: MigrationFacts) -> Answer:
    names = {worker.name for worker in facts.reporting}
    # A worker without a report may be one of 2.x, which would go on taking leases beside the leader
    # for ever.
    if silent := sorted(facts.open_owners - names):
        return NotYet(f"{', '.join(silent)} owns leases and hasn't reported within the last minute")
    return Plan(
        (f"write {CLIENT_VERSION} = 3X, from which there is no way back",),
        (SetVersion(ClientVersion.V3, ClientVersion.WITH_ROLLBACK),),
        after="take `mode: migrating` out of the settings, and CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X out of KCL's",
    )


def _clear(facts: MigrationFacts) -> Answer:
    """After a rollback: without these rows KCL 2.x can be started again."""
    reporting = sorted(worker.name for worker in facts.reporting if not worker.is_ours)
    if reporting:
        return NotYet(
            f"{', '.join(reporting)} reported within the last minute, so not every worker works as 2.x yet"
        )
    if not facts.one_table:
        return Plan(
            (f"delete {CLIENT_VERSION} from table {facts.state_table}: the application is one of 2.x again",),
            (RemoveRow(CLIENT_VERSION),),
            after="set `kcl.mode: 2.x` in the settings of Headrace",
        )
    ours = sorted(worker.name for worker in facts.workers if worker.is_ours)
    # KCL 2.x starts only in a table with nothing but leases. What this command doesn't know isn't
    # its to delete.
    if ours or facts.other_rows:
        rows = ", ".join([*ours, *facts.other_rows])
        return StepRefusal(
            f"table {facts.lease_table} also holds rows that aren't leases and that this command doesn't delete ({rows}): "
            "KCL 2.x can't start beside them"
        )
    workers = tuple(RemoveRow(worker.name, is_worker=True) for worker in facts.workers)
    lock = () if facts.lock is None else (RemoveRow(LOCK, lock_version=facts.lock.version),)
    return Plan(
        (
            (
                f"delete {counted(len(workers), 'worker row')}{', the lock' if lock else ''} and {CLIENT_VERSION} from table "
                f"{facts.lease_table}, which then holds leases only, so that KCL 2.x can start. A KCL 3.5 worker that "
                "starts after this begins a new migration"
            ),
        ),
        # The row that tells the state last: whoever dies before it goes on here.
        (*workers, *lock, RemoveRow(CLIENT_VERSION)),
    )
