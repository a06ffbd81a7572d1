"""The judge of replacements (I39): does a commit of a typed table exchange exactly the rows of its ranges, and decide about each once?

What a window's ranges have is asked of the lake table and of the rows that earlier commits have told of, not of the product's own plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.generation import chain_of, is_chain
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position, is_forward
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.windows.window import ReplayWindow
from tests.memory.parse import TypedRow
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.watch.typed_watch import TypedWatch


class ReplacementWatch:
    def __init__(self, watch: TypedWatch, window: Callable[[str], ReplayWindow]) -> None:
        self._watch = watch
        self._window = window
        self._ends: dict[tuple[str, ShardKey], Position] = {}
        """By window and shard: up to where the window was replaced."""

    def judge(self, made: Snapshot, looked: int | None) -> None:
        """`looked`: the snapshot of the lake table at which the process has looked."""
        watch = self._watch
        replays = {each.key: each for each in made.page.ranges if each.kind is Kind.REPLAY}
        raised = {each.key: read_accounting(each.account) for each in made.page.ranges if each.moves}
        if strange := [key for key in raised if not is_chain(key)]:
            raise self._broken(f"a replacement moves the position of {strange[0]}", strange[0])
        for each in replays.values():
            self._judge_once(each)
            if chain_of(each.key) not in raised:
                raise self._broken(f"the generation of {each.key} isn't raised", each.key)

        is_in = {key: watch.is_in(each) for key, each in replays.items()}

        def split(rows: Iterable[TypedRow]) -> tuple[list[TypedRow], list[TypedRow]]:
            """The rows within the replaced ranges, and the others."""
            ours: list[TypedRow] = []
            others: list[TypedRow] = []
            for row in sorted(rows):
                (ours if row.key in is_in and is_in[row.key](row) else others).append(row)
            return ours, others

        gone, gone_others = split(row for path in made.replaced for row in watch.typed_rows.of(path))
        good, good_others = split(row for file in made.files for row in watch.typed_rows.of(file.path))
        taken, taken_others = split(self._aside_rows(name for told in raised.values() for name in told.taken))
        bad, bad_others = split(self._aside_rows(name for told in raised.values() for name in told.aside))
        for before, after in ((gone_others, good_others), (taken_others, bad_others)):
            if before == after:  # both are sorted
                continue
            if differs := sorted((Counter(before) - Counter(after)) + (Counter(after) - Counter(before))):
                raise self._broken(f"{differs[0]} is outside of the window, and changes", differs[0].key)
        decided = [TypedRow(*row) for row in (*watch.done, *watch.aside) if row[0] in replays]
        for each in replays.values():
            there = watch.rows_at(looked, each.key)
            self._judge_range(each, there, gone=gone, taken=taken, good=good, bad=bad)
            watch.note_whole(there, watch.numbers_in(each, there))
            decided += there.values()
        self._judge_kept(taken_others)
        self._take_over([row for row in decided if is_in[row.key](row)], good, bad)
        watch.require_typed()

    def _judge_once(self, each: Range) -> None:
        """A window is replaced from its beginning to its end, and no part of it twice."""
        window = read_accounting(each.account).window
        asked = next(own for own in self._window(window).ranges if own.key == each.key)
        before = self._ends.get((window, each.key), asked.after)
        if _token(each.after) != _token(before):
            raise self._broken(
                f"the window {window} was replaced up to {before}, and goes on after {each.after}", each.key
            )
        if not is_forward(each.upto, asked.upto):
            raise self._broken(
                f"{each.upto} is beyond the end of the window {window}, {asked.upto}", each.key
            )
        self._ends[window, each.key] = each.upto

    def require_replaced(self, window: ReplayWindow) -> None:
        for each in window.ranges:
            if self._watch.is_out_of_reach(each):
                continue
            if _token(self._ends.get((window.id, each.key))) != each.upto.token:
                raise self._broken(f"the window {window.id} counts as done before its end", each.key)

    def _aside_rows(self, names: Iterable[str]) -> list[TypedRow]:
        watch = self._watch
        return [row for name in sorted(set(names)) for row in watch.aside_rows.of(watch.aside_path(name))]

    def _judge_range(self, each: Range, there: dict[int, TypedRow], **rows: list[TypedRow]) -> None:
        """`there`: the shard's rows of the lake table when the wave looked."""
        watch, key, told = self._watch, each.key, read_accounting(each.account)
        new = [row for row in (*rows["good"], *rows["bad"]) if row.key == key]
        found = {row.number for row in new}
        if len(found) < len(new):
            raise self._broken(f"a row of {key} is twice in one commit", key)
        if strange := sorted(n for n in found if n not in there or not self._may_have(key, there[n])):
            raise self._broken(f"row {strange[0]} of {key} isn't there, or wasn't parsed before", key)
        decided, is_in = {n for k, n in (*watch.done, *watch.aside) if k == key}, watch.is_in(each)
        wanted = {
            n
            for n in decided | there.keys()
            if is_in(TypedRow(key, n)) and not self._is_whole_again(key, n, there)
        }
        dropped = {n for n in wanted if watch.rules(told.version, TypedRow(key, n)) is None}
        if lost := sorted(wanted - found - dropped):
            raise self._broken(f"row {lost[0]} of {key} is lost", key)
        for row in new:
            if row.version != told.version or watch.rules(row.version, row) != row.reason:
                raise self._broken(f"version {told.version} decides otherwise about {row}", key)
        self._judge_account(each, told, **rows)

    def _may_have(self, key: ShardKey, row: TypedRow) -> bool:
        """Whether the row was parsed before, or passed: a person set the lake table back to before a skip, and it landed behind the typed
        table's position. A wave of the target is refused for such a row and never parses it. A replacement of the row's landing does: the
        row is in the lake table, in the window, and then once in the typed table, as I38 wants it."""
        if self._watch.is_told(key, row.number):
            return True
        position = self._watch.table.load().positions.of(key)
        return position is not None and self._watch.has_passed(position, row)

    def _is_whole_again(self, key: ShardKey, number: int, there: dict[int, TypedRow]) -> bool:
        """Whether the row was a part of an aggregate that is whole again, because the lake table was rolled back."""
        first = there.get(number - self._watch.sub(key, number))
        return number not in there and first is not None and first.users > 1

    def _judge_account(self, each: Range, told: Accounting, **rows: list[TypedRow]) -> None:
        counts = {name: sum(row.key == each.key for row in its) for name, its in rows.items()}
        stated = (told.parsed, told.quarantined, *told.removed)
        if stated != (counts["good"], counts["bad"], counts["gone"], counts["taken"]) or not told.is_complete:
            raise self._broken(f"the accounting of {each.key} is wrong: {told.text()}, {counts}", each.key)

    def _judge_kept(self, others: list[TypedRow]) -> None:
        if gone := sorted(row for row in others if self._watch.aside.get(row[:2]) != row):
            raise self._broken(f"a replacement keeps {gone[0]}, which isn't in quarantine", gone[0].key)

    def _take_over(self, decided: list[TypedRow], good: list[TypedRow], bad: list[TypedRow]) -> None:
        """What the commit has decided is what holds from now on. `decided`: all rows about which it has decided."""
        watch = self._watch
        for row in decided:
            watch.aside.pop(row[:2], None)
            watch.done[row[:2]] = None
        watch.done.update((row[:2], row) for row in good)
        for row in bad:
            watch.done.pop(row[:2], None)
            watch.aside[row[:2]] = row

    def _broken(self, why: str, key: ShardKey) -> Violation:
        return Violation("I39", f"{self._watch.name}: {why}", key.shard_id)


def _token(at: Position | None) -> object:
    return None if at is None else at.token
