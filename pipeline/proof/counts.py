"""Compares counts of rows with the ledgers: whether the data files have the rows that the ledgers state. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.accepted import shard_text
from headrace.pipeline.proof.evidence import Compared
from headrace.pipeline.proof.rounds import cluster_place
from headrace.pipeline.proof.spans import Cluster, CountPlan, Digest, Doubled, FileCount, Overlap
from headrace.pipeline.proof.verdict import Extra, Told, Unproved, Wrong


def overlaps(plan: CountPlan, counts: Iterable[FileCount]) -> tuple[Overlap, ...]:
    """The places where a row may be there twice although the numbers of rows are right: the sort keys of two
    groups of rows overlap.
    """
    by_span: dict[tuple[int, int], list[tuple[str, str, str]]] = {}
    for count in counts:
        for part in count.parts:
            # Where ranges overlap, a record is there once for each of them.
            if plan.spans[part.shard].claims[part.span] == 1:
                by_span.setdefault((part.shard, part.span), []).append((part.first, part.last, count.path))
    doubtful: list[Overlap] = []
    for (shard, _), places in sorted(by_span.items()):
        # By the first sort key: two places can share a row only where one begins before another has ended.
        places.sort()
        low, high, files = places[0][0], places[0][1], [places[0][2]]
        for first, last, path in places[1:]:
            if first <= high:
                high = max(high, last)
                files.append(path)
                continue
            _add(doubtful, shard, low, high, files)
            low, high, files = first, last, [path]
        _add(doubtful, shard, low, high, files)
    return tuple(doubtful)


def _add(doubtful: list[Overlap], shard: int, low: str, high: str, files: list[str]) -> None:
    if len(files) > 1:
        doubtful.append(Overlap(shard, low, high, tuple(dict.fromkeys(files))))


def compared_counts(plan: CountPlan, counts: Sequence[FileCount], doubled: Iterable[Doubled]) -> Compared:
    """The comparison of the counts of the lake table's files with the plan's ranges. `doubled`: rows that are
    there twice.
    """
    wrong = _wrong_clusters(plan, counts)
    return Compared(
        ranges=len(plan.clusters),
        numbers=tuple((cluster_place(cluster, plan), statement) for cluster, statement in wrong),
        rows=tuple(doubled_as_wrong(doubled)),
        derived=plan.derived,
    )


def doubled_as_wrong(doubled: Iterable[Doubled]) -> Iterator[Wrong]:
    """The sentences about rows that are there more than once."""
    for double in doubled:
        yield from map(Wrong, double.rows)
        if more := double.count - len(double.rows):
            yield Wrong(f"{more:,} more records of the same shard are in the table more than once")


def _wrong_clusters(plan: CountPlan, counts: Sequence[FileCount]) -> Iterator[tuple[Cluster, Wrong]]:
    """The ranges that have another number of rows than their ledger states, each with what is wrong with it."""
    places: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for count in counts:
        for part in count.parts:
            places.setdefault((part.shard, part.span), []).append((count.path, part.rows))
    for cluster in plan.clusters:
        row_places = [place for span in cluster.spans for place in places.get((cluster.shard, span), ())]
        rows = sum(number for _, number in row_places)
        if rows > cluster.rows:
            of = plan.spans[cluster.shard]
            shard = shard_text(of.stream, of.epoch, of.shard_id)
            yield cluster, Extra(_miscount(cluster, rows, row_places), {shard: rows - cluster.rows})
        # Fewer rows aren't wrong where the retention may have removed some.
        elif rows < cluster.rows and not cluster.is_dropped:
            yield cluster, Wrong(_miscount(cluster, rows, row_places))


def _miscount(cluster: Cluster, rows: int, row_places: Iterable[tuple[str, int]]) -> str:
    by_file: dict[str, int] = {}
    for path, number in row_places:
        by_file[path] = by_file.get(path, 0) + number
    files = ", ".join(f"{number:,} in {file_name(path)}" for path, number in sorted(by_file.items())[:5])
    # The names at landing help a person, though compaction may have moved the rows since.
    landed = ", ".join(name for name in cluster.steps[0].range.files[:3])
    more = (
        f" and {counted(len(cluster.steps) - 1, 'range')} that it overlaps with" if cluster.steps[1:] else ""
    )
    return (
        f"{cluster.steps[0]}{more}: the ledger states {counted(cluster.rows, 'row')}, and {rows:,} "
        f"{'is' if rows == 1 else 'are'} in the table ({files or 'in no file'}; landed in {landed or 'no file'})"
    )


def strange_rows(counts: Iterable[FileCount], *, has_lost: bool) -> Iterator[Told]:
    """The sentences about rows that no range accounts for. `has_lost`: whether lost ledgers may have accounted
    for them.
    """
    for count in counts:
        if not count.strangers_count:
            continue
        left_out = count.strangers_count - len(count.strangers)
        more = f", and {left_out:,} more" if left_out else ""
        rows = counted(count.strangers_count, "row")
        sentence = (
            f"{rows} in {file_name(count.path)} in no range of the ledger: {'; '.join(count.strangers)}{more}"
        )
        if has_lost:
            yield Unproved(f"{sentence}. Ledgers are lost that may have had these rows")
        else:
            yield Extra(sentence, dict(count.strange))


def wrong_files(counts: Iterable[FileCount]) -> Iterator[Told]:
    """The sentences about files that are missing, or that have another number of rows than the table's metadata
    states.
    """
    for count in counts:
        if count.error:
            yield Wrong(f"{file_name(count.path)} with {counted(count.stated, 'row')}: {count.error}")
        elif count.rows != count.stated:
            yield Wrong(
                f"{file_name(count.path)} has {counted(count.rows, 'row')}, "
                f"and the table's metadata states {count.stated:,}"
            )


def changed_days(
    before: Mapping[str, tuple[str | None, Digest]],
    counts: Iterable[FileCount],
    *,
    live: frozenset[str],
    kept_from: date | None,
) -> tuple[str, ...]:
    """Days of which files were replaced, since an earlier proof, by files with other records. `before`: the files
    of that proof.
    """
    gone: dict[str, Digest] = {}
    for path, (day, digest) in before.items():
        if path not in live:
            # Compaction replaces files of one day by others of that day, so that the sums of the day stay.
            gone[day or ""] = gone.get(day or "", Digest()) + digest
    came: dict[str, Digest] = {}
    for count in counts:
        came[count.day or ""] = came.get(count.day or "", Digest()) + count.known
    changed = [
        day for day in sorted(gone.keys() | came.keys()) if gone.get(day, Digest()) != came.get(day, Digest())
    ]
    # The retention removes days whole.
    return tuple(
        day
        for day in changed
        if not (kept_from and day and date.fromisoformat(day) < kept_from and day not in came)
    )


def file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
