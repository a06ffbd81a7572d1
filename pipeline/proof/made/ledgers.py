"""The mistakes in the ledgers of a typed table and of its quarantine table, found without looking at rows. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.pipeline.core.ledger.generation import is_chain, shard_of
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.evidence import TableLook, unsettled_steps
from headrace.pipeline.proof.made.evidence import MadeEvidence, accounting_of
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong
from headrace.pipeline.windows.copy_plan import is_done
from headrace.pipeline.windows.window import ReplayWindow


def ranges_outside(window: ReplayWindow, table: TableLook) -> Iterator[Told]:
    """The ranges of a window's table that aren't within the window."""
    by_key = {r.key: r for r in window.ranges}
    for key, steps in table.story.steps.items():
        # The chain of redrives that a processor's table has beside each shard moves no position.
        if is_chain(key):
            continue
        window_range = by_key.get(key)
        for step in steps:
            if window_range is None or not window_range.has(step.range.upto):
                yield Wrong(f"the window {window.id} doesn't have all of {step}")
            # A window's range from the stream says which of its records may have left Kinesis before they
            # were read.
            if step.range.kind is Kind.READ and step.range.why:
                yield Unproved(f"{step}: {step.range.why}")
    for planned in window.ranges:
        taken = (s for s in table.story.steps.get(planned.key, ()) if s.range.kind is not Kind.READ)
        rows = sum(account.rows for account in map(accounting_of, taken) if account is not None)
        # The ledgers state rows for whole ranges only: of a window that cuts them, nothing tells how many
        # there should be.
        if is_done(planned, table.positions) and planned.is_whole and rows != planned.rows:
            yield Unproved(
                f"the window {window.id} was made for {counted(planned.rows, 'row')} of {planned.key}, "
                f"and the lake table had {rows:,} of them when "
                f"they were {'processed' if window.processor else 'copied'}"
            )


def ranges_behind(table: TableLook, aside: TableLook) -> Iterator[Told]:
    """The shards of which the quarantine table hasn't taken over the typed table's commits, or has a position
    that it can't have.
    """
    late, lost = unsettled_steps(table.story, aside.positions)
    for key in lost:
        sentence = (
            f"{aside.name} is at {aside.positions.of(key)} of {key}, where no range of {table.name} ends"
        )
        yield Unproved(sentence) if table.story.lost else Wrong(sentence)
    if late and not lost:
        yield Unproved(
            f"{aside.name} hasn't got the rows of {counted(len(late), 'range')} yet "
            f"that {table.name} has set aside, mended or replaced; the next parsing "
            f"brings them. The first of these ranges: {late[0]}"
        )


def wrong_accounts(story: Story) -> Iterator[Wrong]:
    """The ranges whose accounting doesn't say what became of each row."""
    for step in story.all():
        account = accounting_of(step)
        if account is None:
            yield Wrong(f"the ledger doesn't tell what became of the rows of {step}")
        elif not account.is_complete or account.parsed != step.range.rows:
            yield Wrong(
                f"{step}: of {counted(account.rows, 'row')} the ledger tells of {account.parsed:,} parsed, "
                f"{account.quarantined:,} set aside and "
                f"{sum(account.dropped.values()):,} dropped, and of {step.range.rows:,} in the typed table"
            )


def wrong_replacements(story: Story) -> Iterator[Wrong]:
    """The replacements whose commit didn't raise the generation of the shard, and those that state impossible
    numbers of older rows.
    """
    # By the snapshot, too: only a generation that the same commit has raised refuses a second replacement.
    raised = {
        (step.snapshot, shard_of(key))
        for key, steps in story.steps.items()
        if is_chain(key)
        for step in steps
    }
    for step in (replay for steps in story.replays.values() for replay in steps):
        if (step.snapshot, step.range.key) not in raised:
            yield Wrong(
                "rows were replaced, and the same commit hasn't raised the generation of the shard, "
                f"so that two replacements may have landed: {step}"
            )
        account = accounting_of(step)
        if account is not None and not (min(account.removed) >= 0 and sum(account.removed) <= account.rows):
            yield Wrong(
                f"{step}: the ledger states that {account.removed[0]:,} rows left "
                f"the typed table and {account.removed[1]:,} the quarantine table, "
                f"and that the range has {counted(account.rows, 'row')}"
            )


def wrong_settlings(evidence: MadeEvidence) -> Iterator[Wrong]:
    """Ranges of the quarantine table that have another number of rows than the typed table's ledger has set aside."""
    # Of a lost ledger nothing tells how many rows it had set aside.
    if evidence.aside is None or evidence.table.story.lost:
        return
    for key, steps in evidence.aside.story.steps.items():
        for step, rows, stated in _settled(evidence.table.story.steps.get(key, ()), steps):
            if rows != stated:
                yield Wrong(
                    f"{evidence.table.name} has set aside {counted(rows, 'row')} of {step}, "
                    f"and the ledger of {evidence.aside.name} states {stated:,}"
                )


def _settled(decided: Sequence[Step], steps: Iterable[Step]) -> Iterator[tuple[Step, int, int]]:
    """Each range of the quarantine table, with the rows that the typed table's ledger has set aside in it, and the rows
    that the quarantine table's own ledger states. Joined ranges of the two tables may end elsewhere: then up to where
    one of each ends."""
    has_joined = any(step.range.joined > 1 for step in decided)
    start = stated = 0
    for step in steps:
        stated += step.range.rows
        end = step.range.upto.token
        place = next((n for n in range(start, len(decided)) if decided[n].range.upto.token == end), None)
        if place is None:
            # Without joined ranges the two chains have come apart here, which another check tells.
            if not has_joined:
                return
            continue
        accounts = (accounting_of(decision) for decision in decided[start : place + 1])
        yield step, sum(account.quarantined for account in accounts if account is not None), stated
        # From here on both tables' ranges begin anew, so that a difference is told once.
        start, stated = place + 1, 0
