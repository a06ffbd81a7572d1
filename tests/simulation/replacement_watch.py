"""The judge of replacements (I39): does a commit of a typed table exchange exactly the rows of its ranges, and decide about each once?

What a window's ranges have is asked of the lake table and of the rows that earlier commits have told of, not of the product's own plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pipeline.core.accounting import Accounting, read_accounting
from pipeline.core.lineage import Kind, Range
from pipeline.core.parse_values import end_of, key_of
from pipeline.core.position import Position, is_forward
from pipeline.core.redrive_chain import chain_of, is_chain
from pipeline.core.stream import ShardKey
from pipeline.core.window import ReplayWindow
from pipeline.memory.parse import TypedRow
from pipeline.memory.table import Snapshot
from tests.simulation.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.typed_watch import TypedWatch


class ReplacementWatch:
    def __init__(self, watch: TypedWatch, window: Callable[[str], ReplayWindow]) -> None:
        self._watch = watch
        self._window = window
        self._ends: dict[tuple[str, ShardKey], Position] = {}
        """By window and shard: up to where the window was replaced."""

    def judge(self, made: Snapshot) -> None:
        watch = self._watch
        replays = {each.key: each for each in made.page.ranges if each.kind is Kind.REPLAY}
        raised = {each.key: read_accounting(each.why) for each in made.page.ranges if each.moves}
        if strange := [key for key in raised if not is_chain(key)]:
            raise self._broken(f"a replacement moves the position of {strange[0]}", strange[0])
        for each in replays.values():
            self._judge_once(each)
            if chain_of(each.key) not in raised:
                raise self._broken(f"the generation of {each.key} isn't raised", each.key)

        def split(rows: Iterable[TypedRow]) -> tuple[list[TypedRow], list[TypedRow]]:
            """The rows within the replaced ranges, and the others."""
            found = sorted(rows)
            ours = [row for row in found if row.key in replays and self._is_in(replays[row.key], row)]
            return ours, [row for row in found if row not in set(ours)]

        gone, gone_others = split(row for path in made.replaced for row in watch.typed_rows.of(path))
        good, good_others = split(row for file in made.files for row in watch.typed_rows.of(file.path))
        taken, taken_others = split(self._aside_rows(name for told in raised.values() for name in told.taken))
        bad, bad_others = split(self._aside_rows(name for told in raised.values() for name in told.aside))
        for before, after in ((gone_others, good_others), (taken_others, bad_others)):
            if differs := sorted((Counter(before) - Counter(after)) + (Counter(after) - Counter(before))):
                raise self._broken(f"{differs[0]} is outside of the window, and changes", differs[0].key)
        for each in replays.values():
            self._judge_range(each, gone, taken, good, bad)
        self._judge_kept(taken_others)
        self._take_over(replays, good, bad)
        watch.require_typed()

    def _judge_once(self, each: Range) -> None:
        """A window is replaced from its beginning to its end, and no part of it twice."""
        window = read_accounting(each.why).window
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
            if _token(self._ends.get((window.id, each.key))) != each.upto.token:
                raise self._broken(f"the window {window.id} counts as done before its end", each.key)

    def _aside_rows(self, names: Iterable[str]) -> list[TypedRow]:
        watch = self._watch
        return [row for name in sorted(set(names)) for row in watch.aside_rows.of(watch.aside_path(name))]

    def _is_in(self, each: Range, row: TypedRow) -> bool:
        return key_of(each.after) < self._watch.landed_rows.sort_key(row) < end_of(each.upto)

    def _judge_range(
        self,
        each: Range,
        gone: list[TypedRow],
        taken: list[TypedRow],
        good: list[TypedRow],
        bad: list[TypedRow],
    ) -> None:
        watch, key, told = self._watch, each.key, read_accounting(each.why)
        new = [row for row in (*good, *bad) if row.key == key]
        found = {row.number for row in new}
        if len(found) < len(new):
            raise self._broken(f"a row of {key} is twice in one commit", key)
        if strange := sorted(n for n in found if not watch.is_told(key, n)):
            raise self._broken(f"row {strange[0]} of {key} wasn't parsed before", key)
        decided = {n for k, n in (*watch.done, *watch.aside) if k == key}
        wanted = {n for n in decided | watch.landed(key) if self._is_in(each, TypedRow(key, n))}
        dropped = {n for n in wanted if watch.rules(told.version, TypedRow(key, n)) is None}
        if lost := sorted(wanted - found - dropped):
            raise self._broken(f"row {lost[0]} of {key} is lost", key)
        for row in new:
            if row.version != told.version or watch.rules(row.version, row) != row.reason:
                raise self._broken(f"version {told.version} decides otherwise about {row}", key)
        self._judge_account(each, told, gone=gone, taken=taken, good=good, bad=bad)

    def _judge_account(self, each: Range, told: Accounting, **rows: list[TypedRow]) -> None:
        counts = {name: sum(row.key == each.key for row in its) for name, its in rows.items()}
        stated = (told.parsed, told.quarantined, *told.removed)
        if stated != (counts["good"], counts["bad"], counts["gone"], counts["taken"]) or not told.is_complete:
            raise self._broken(f"the accounting of {each.key} is wrong: {told.text()}, {counts}", each.key)

    def _judge_kept(self, others: list[TypedRow]) -> None:
        if gone := sorted(row for row in others if self._watch.aside.get(row[:2]) != row):
            raise self._broken(f"a replacement keeps {gone[0]}, which isn't in quarantine", gone[0].key)

    def _take_over(self, replays: dict[ShardKey, Range], good: list[TypedRow], bad: list[TypedRow]) -> None:
        """What the commit has decided is what holds from now on."""
        watch = self._watch
        for key, number in [*watch.done, *watch.aside]:
            row = TypedRow(key, number)
            if key in replays and self._is_in(replays[key], row):
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
