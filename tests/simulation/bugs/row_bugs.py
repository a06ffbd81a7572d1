"""Planted bugs in the writes on lease rows, and in which rows are made, assigned and reported."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_CHECKPOINT_WRITE: Final = """f"landed up to {upto}",
        holder=me,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},"""

_MOVES: Final = """\
    return [
        _write(rows[key], to, loads.count[to], inputs=inputs, weights=weights, rules=rules)
        for key, to in loads.moves.items()
        if to != rows[key].owner or needs_worker(rows[key], inputs)
    ]
"""
_NEEDLESS_MOVES: Final = (
    _MOVES.replace("return [", "moves = [")
    + """\
    names = sorted(inputs.living)
    for row in rows.values():
        if not moves and len(names) > 1 and row.owner in names and not needs_worker(row, inputs):
            to = names[(names.index(row.owner) + 1) % len(names)]
            moves.append(_write(row, to, loads.count[to], inputs=inputs, weights=weights, rules=rules))
    return moves
"""
)

_PLAN_WITH_MOVES: Final = {
    "graceful": True,
    "hosts": 3,
    "shards": 6,
    "troubles": {"kill_host": 100.0, "freeze_run": 60.0},
}

ROWS: Final = (
    a_bug(
        "checkpoint-without-claim",
        "a frozen run of the same worker writes after the run that replaced it (D2)",
        (
            "core.leases.change",
            _CHECKPOINT_WRITE,
            _CHECKPOINT_WRITE.replace('"run_claim": run_claim, ', ""),
        ),
        seeds=150,
    ),
    a_bug(
        "exact-counter-token",
        "a run's checkpoint is refused because of a beat in between (D1)",
        (
            "core.leases.change",
            _CHECKPOINT_WRITE,
            _CHECKPOINT_WRITE.replace("read.checkpoint}", 'read.checkpoint, "counter": read.counter}'),
        ),
        seeds=150,
    ),
    a_bug(
        "claim-without-owner",
        "a worker that finds a row in a stale index can claim it",
        (
            "core.leases.change",
            '            "owner": me,\n            "run_claim": read.run_claim,',
            '            "run_claim": read.run_claim,',
        ),
        seeds=200,
    ),
    a_bug(
        "claim-during-handover",
        "a run can claim a row during its handover",
        (
            "core.leases.change",
            '            "checkpoint_owner": None,\n            "owner": me,\n            "run_claim"',
            '            "owner": me,\n            "run_claim"',
        ),
        ("duties.waves.claims", "if row.holder != self.me:", "if row.owner != self.me:"),
        ("duties.waves.claims", "if row.checkpoint_owner is not None:", "if False:"),
        (
            "core.leases.due",
            "lease.holder != me or lease.checkpoint_owner is not None or",
            "lease.owner != me or",
        ),
        among=_PLAN_WITH_MOVES,
    ),
    a_bug(
        "release-without-claim",
        "a frozen run releases the claim of the run that replaced it",
        (
            "core.leases.change",
            '        requires={"run_claim": run_claim},\n        put=put,',
            "        put=put,",
        ),
    ),
    a_bug(
        "take-over-without-counter",
        "a leader that was frozen takes leases that have moved meanwhile",
        (
            "core.leases.change",
            '            "counter": read.counter,\n            "stream_epoch"',
            '            "stream_epoch"',
        ),
        # A leader is frozen between its look and its write, and another one leads meanwhile.
        among={
            "hosts": 4,
            "mode": "own",
            "streams": 1,
            "heartbeat": "worker",
            "quiet": 0.0,
            "troubles": {
                "freeze_server": 20.0,
                "kill_host": 60.0,
                "drop_lock": 20.0,
                "kill_server": 100.0,
            },
        },
    ),
    a_bug(
        "silent-take-over",
        "the counter doesn't grow when the holder changes",
        (
            "core.leases.change",
            'add={"counter": 1, "owner_switches": 1} if switched else {"counter": 1},',
            "add={},",
        ),
    ),
    a_bug(
        "believed-without-claim",
        "after a lost answer a process takes another process's write for its own",
        (
            "core.leases.own_write",
            "not change.put or not _is_marked(change, row):\n        return False",
            "not change.put:\n        return False\n    if row:\n        return True",
        ),
    ),
    a_bug(
        "resurrecting-create",
        "a frozen leader's late create overwrites the row that exists by then (D4)",
        (
            "tests.memory.leases",
            "        return change.kind is ChangeKind.CREATE and found is None",
            "        return change.kind is ChangeKind.CREATE",
        ),
    ),
    a_bug(
        "current-life-retired",
        "rows of the stream's present life are deleted as rows of an earlier life",
        ("core.sharing.sync_plan", "row.stream_epoch < stream.epoch", "row.stream_epoch <= stream.epoch"),
    ),
    a_bug(
        "numbers-as-text",
        "sequence numbers are compared as text",
        (
            "core.shards.checkpoint",
            "int(sequence) if word is None else word",
            'sequence if word is None else ""',
        ),
        ("core.shards.checkpoint", "tuple[int, int, int]", "tuple[int, str, int]"),
    ),
    a_bug(
        "restless-assignment",
        "each assignment pass moves a lease, though nothing has changed (I6)",
        ("core.sharing.assign_plan", _MOVES, _NEEDLESS_MOVES),
        among={"hosts": 3, "shards": 4},
    ),
    a_bug(
        "odd-rows-untold",
        "rows that Headrace doesn't understand aren't reported",
        (
            "duties.fleet.leader_report",
            """f"{counted(len(listing.skipped), 'row')} not understood" if listing and listing.skipped else "",""",
            '"",',
        ),
        among={"odd_rows": True},
    ),
)
