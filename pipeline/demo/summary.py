"""The demo's summary for people."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.demo.evidence import DemoEvidence
from headrace.pipeline.demo.verdict import CheckedPromise, DemoVerdict

# At most so many violations of one promise are shown; their number counts all.
_SHOWN = 5


def summary(evidence: DemoEvidence, verdict: DemoVerdict) -> Iterator[str]:
    yield "Computed from the table's files and its snapshots' ledger:"
    yield ""
    for name, count in _counts(verdict):
        yield f"  {name:14}{count:>9,}"
    yield ""
    yield from _shards(evidence)
    yield ""
    snapshots = sum(1 for page in evidence.pages if page.ranges)
    runs = len({r.run for page in evidence.pages for r in page.ranges})
    yield (
        f"  {counted(snapshots, 'snapshot')} by {counted(runs, 'run')} added "
        f"{counted(len(evidence.files), 'data file')}"
    )
    yield ""
    for finding in verdict.findings:
        yield from _finding(finding)


def _counts(verdict: DemoVerdict) -> Iterator[tuple[str, int]]:
    yield "put", verdict.put
    yield "landed", verdict.landed
    for name in ("missing", "duplicates", "out of order"):
        yield name, len(verdict.wrong(name))


def _shards(evidence: DemoEvidence) -> Iterator[str]:
    """A line for each shard, with its rows, ranges, parents and children."""
    yield f"  {'shard':22}{'rows':>9}  {'ranges':>6}  {'parents':8}  up to"
    for shard in sorted(evidence.shards, key=lambda s: s.shard_id):
        ranges = [covered for _, covered in evidence.ranges.get(shard.shard_id, ())]
        rows = sum(covered.rows for covered in ranges)
        # A shard that was just made has no range yet.
        last = ranges[-1].upto if ranges else None
        if last is None:
            upto = "nothing yet"
        elif last.ended:
            upto = f"the shard's end; children: {', '.join(map(_short, last.children)) or 'none'}"
        else:
            upto = str(last)
        parents = ", ".join(map(_short, shard.parents)) or "-"
        yield f"  {shard.shard_id:22}{rows:>9,}  {len(ranges):>6}  {parents:8}  {upto}"


def _finding(finding: CheckedPromise) -> Iterator[str]:
    yield f"  {'NO ' if finding.wrong else 'yes'}  {finding.promise}  ({finding.looked_at})"
    for sentence in finding.wrong[:_SHOWN]:
        yield f"         {sentence}"
    if len(finding.wrong) > _SHOWN:
        yield f"         and {len(finding.wrong) - _SHOWN:,} more"


def _short(shard_id: str) -> str:
    return str(int(shard_id.rsplit("-", 1)[-1]))
