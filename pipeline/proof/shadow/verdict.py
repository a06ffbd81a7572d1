"""Judges whether the lake table and another consumer's output have the same records. Pure functions on what Spark
found.

    ranges of the lake table's ledgers -> Spark puts the rows of both sides beside each other -> differences by range,
    and a sentence

Rows of the other side that lie in no landed range are counted and not judged: the lake table hasn't got so far, or
began later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import BadSetting, Unknown
from headrace.pipeline.proof.patterns import Pattern, by_span
from headrace.pipeline.proof.spans import Cluster, CountPlan, FileCount, plan_rows
from headrace.pipeline.proof.verdict import Check, Wrong, checked, told_lines

_NOT_READ_HERE = {Kind.FOREIGN, Kind.ADOPT, Kind.REPOSITION, Kind.REPAIR}
"""Ranges that were never landed: another worker has read them, or a person has moved the position."""


def compared_stream(streams: Iterable[StreamId], name: str | None) -> StreamId:
    """The stream that the other consumer has read: the newest life of the stream with this name, or of the only
    stream.
    """
    lives = [
        stream for stream in sorted(streams, key=lambda stream: stream.epoch) if name in (None, stream.name)
    ]
    if not lives:
        raise Unknown(
            f"the lake table has no records of {'any stream' if name is None else f'a stream {name!r}'}; "
            "nothing was compared"
        )
    # One stream may have several lives here, of which the newest counts; two streams need a person's word.
    if len(names := sorted({life.name for life in lives})) > 1:
        raise BadSetting(
            f"the lake table has records of {len(names)} streams; "
            f"allowed for --stream: {', '.join(names)}; nothing was compared"
        )
    return lives[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowEvidence:
    """The values that were read of both sides of a comparison."""

    name: str
    """The name of the other side."""
    snapshot: int | None
    plan: CountPlan
    patterns: tuple[Pattern, ...] | None
    """How often each row is here and there. None: no row was compared, because nothing is in a range, or a file can't
    be read."""
    other: tuple[FileCount, ...]
    """The other side's files. `strangers` are rows in no range."""
    payloads: bool
    """Whether payloads were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """The result of a comparison with another consumer."""

    checks: tuple[Check, ...]
    same: int
    """Records that are once on each side, with the same payload where that was compared."""
    shards: int
    name: str
    snapshot: int | None
    payloads: bool
    left_out: tuple[str, ...] = ()
    """What wasn't compared, as sentences."""

    @property
    def is_equal(self) -> bool:
        return self.same > 0 and not any(check.wrong for check in self.checks)

    def lines(self) -> Iterator[str]:
        yield from told_lines(self.checks)
        yield from (f"not compared: {text}" for text in self.left_out)
        yield str(self)

    def __str__(self) -> str:
        differences = sum(check.count for check in self.checks)
        by = "number and payload" if self.payloads else "number, without payloads"
        same = f"{counted(self.same, 'record')} of {counted(self.shards, 'shard')}"
        where = f"in {self.name} and in snapshot {self.snapshot} of the lake table"
        if differences:
            return (
                f"NOT EQUAL: {counted(differences, 'difference')}; "
                f"{same} {_are(self.same)} the same {where}, by {by}"
            )
        if not self.same:
            return f"nothing to compare: no record is both in {self.name} and in a range of the lake table"
        beside = (
            f"; NOT compared: {counted(len(self.left_out), 'thing')} named above" if self.left_out else ""
        )
        return f"equal: {same} {_are(self.same)} the same {where}, by {by}{beside}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def plan_shadow(story: Story, stream: StreamId, window: Window = ALL) -> CountPlan:
    """Which ranges are compared: all landed ones of the stream, including recorded gaps and ranges without rows."""
    steps: dict[object, tuple[Step, ...]] = {}
    for key in story.keys:
        # Other lives of the stream have shards of the same names, and other records.
        if key.stream == stream:
            steps[key] = tuple(
                _with_a_row(step) for step in story.of(key) if step.range.kind not in _NOT_READ_HERE
            )
    return plan_rows(Story(steps), window=window)  # type: ignore[arg-type]


def _with_a_row(step: Step) -> Step:
    # A range without rows is compared as well: the other side may have rows there.
    return replace(step, range=replace(step.range, rows=max(1, step.range.rows)))


def shadow_of(evidence: ShadowEvidence) -> Shadow:
    patterns = evidence.patterns or ()
    errors = (Wrong(f"{count.path}: {count.error}") for count in evidence.other if count.error)
    return Shadow(
        checks=(
            checked("each file of the other side can be read", counted(len(evidence.other), "file"), errors),
            *(
                ()
                if evidence.patterns is None
                else _of_rows(evidence.plan, patterns, payloads=evidence.payloads)
            ),
        ),
        same=sum(pattern.keys for pattern in patterns if pattern.times == (1, 1) and not pattern.differs),
        shards=len({pattern.shard for pattern in patterns if min(pattern.times) > 0}),
        name=evidence.name,
        snapshot=evidence.snapshot,
        payloads=evidence.payloads,
        left_out=tuple(_left_out(evidence.other)),
    )


def _of_rows(plan: CountPlan, patterns: Sequence[Pattern], *, payloads: bool) -> Iterator[Check]:
    by_place = by_span(patterns)
    own_rows, other_rows = (
        counted(sum(pattern.times[side] * pattern.keys for pattern in patterns), "row") for side in (0, 1)
    )
    shared_records = counted(sum(pattern.keys for pattern in patterns if min(pattern.times) > 0), "record")

    def check(promise: str, looked_at: str, is_wrong: Callable[[Pattern], bool], how: str) -> Check:
        return checked(promise, looked_at, _differences(plan, by_place, is_wrong, how))

    yield check(
        "each record of the lake table is on the other side", own_rows, lambda p: p.times[1] == 0, "only here"
    )
    yield check(
        "each record of the other side is in the lake table",
        other_rows,
        lambda p: p.times[0] == 0,
        "only there",
    )
    yield check(
        "no record is on the other side twice", other_rows, lambda p: p.times[1] > 1, "more than once there"
    )
    yield check(
        "no record is in the lake table twice", own_rows, lambda p: p.times[0] > 1, "more than once here"
    )
    if payloads:
        yield check(
            "each record has the same payload on both sides",
            shared_records,
            lambda p: p.differs,
            "other bytes there",
        )


def _differences(
    plan: CountPlan,
    by_place: dict[tuple[int, int], list[Pattern]],
    is_wrong: Callable[[Pattern], bool],
    how: str,
) -> Iterator[Wrong]:
    for cluster in plan.clusters:
        patterns = [p for span in cluster.spans for p in by_place.get((cluster.shard, span), ())]
        for pattern in filter(is_wrong, patterns):
            yield Wrong(_difference(cluster, patterns, pattern, how))


def _difference(cluster: Cluster, patterns: Sequence[Pattern], pattern: Pattern, how: str) -> str:
    step = cluster.steps[0]
    key = step.range.key
    more = f" and {pattern.keys - len(pattern.first):,} more" if pattern.keys > len(pattern.first) else ""
    own_rows, other_rows = (sum(p.times[side] * p.keys for p in patterns) for side in (0, 1))
    return (
        f"{key} {', '.join(pattern.first)}{more}: "
        f"{how}, in the range after {step.range.after or 'the start'} up to {step.range.upto} with "
        f"{counted(own_rows, 'row')} here and {other_rows:,} there"
    )


def _left_out(counts: Iterable[FileCount]) -> Iterator[str]:
    for count in counts:
        if count.strangers_count:
            rows = counted(count.strangers_count, "row")
            more = count.strangers_count - len(count.strangers)
            beside = f", and {more:,} more" if more else ""
            yield f"{rows} of {count.path} in no range of the lake table: {'; '.join(count.strangers)}{beside}"
