"""The checks that every table gets, whatever it was made of. Pure functions of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.live_files import LiveFiles
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.chains import broken_chains, ranges_without_rows, wrong_positions
from headrace.pipeline.proof.counts import wrong_files
from headrace.pipeline.proof.evidence import Evidence, TableLook
from headrace.pipeline.proof.families import ListedShards, children_too_early
from headrace.pipeline.proof.verdict import Check, TableProof, Told, Unproved, Wrong, checked


def finding_of(
    evidence: Evidence,
    checks: Iterable[Check],
    *,
    counts: str = "",
    since: int | None = None,
    is_behind: bool = False,
) -> TableProof:
    """The result of a table's checks, with the numbers of what was read for them."""
    return TableProof(
        name=evidence.table.name,
        checks=tuple(checks),
        counts=counts,
        rows=evidence.source_rows + evidence.rows,
        files=evidence.source_files + evidence.files,
        unchanged=evidence.unchanged,
        since=since,
        is_behind=is_behind,
    )


def chain_check(evidence: Evidence, more: Iterable[Told] = (), *, of: str = "") -> Check:
    """The check whether the ranges of each shard form one chain.

    `more`: further mistakes in the chains. `of`: the table that the promise is about, for its sentence.
    """
    return checked(
        f"{of}the ranges of each shard are one chain, up to the table's position",
        counted(evidence.ranges, "range"),
        (*(statement for look in evidence.looks for statement in _wrong_chains(look)), *more),
    )


def _wrong_chains(look: TableLook) -> Iterator[Told]:
    if not look.exists:
        yield Wrong(f"the table {look.name} doesn't exist")
    yield from broken_chains(look.story)
    yield from wrong_positions(look.story, look.positions)
    yield from ranges_without_rows(look.story)


def parents_check(evidence: Evidence, listed: Mapping[StreamId, ListedShards], *, of: str = "") -> Check:
    story = evidence.table.story
    # The chain of redrives that a typed table has beside each shard is no shard.
    shards = sum(not is_chain(key) for key in story.steps)
    return checked(
        f"{of}no shard began before its parents had ended",
        counted(shards, "shard"),
        children_too_early(story, listed),
    )


def file_check(evidence: Evidence, *, of: str = "") -> Check:
    looks = evidence.looks
    return checked(
        f"{of}each data file is there, with the rows that the table's metadata states",
        counted(evidence.files + evidence.unchanged, "file"),
        (
            *(statement for look in looks for statement in wrong_files((*look.counts, *look.unchanged))),
            *(statement for look in looks for statement in _hidden_rows(look.live)),
        ),
    )


def _hidden_rows(live: LiveFiles) -> Iterator[Unproved]:
    """Rows that are in the files, and that readers may not see."""
    if live.obstacle:
        # Unproved and not wrong: another engine may delete rows on purpose, and a proof that fails
        # for ever is switched off.
        yield Unproved(f"rows may be hidden from readers: {live.obstacle}")
    if hidden := sum(bool(file.deletes) for file in live.files):
        yield Unproved(
            f"another engine deleted rows of {counted(hidden, 'file')} by delete files: "
            "these rows were counted, and readers don't see them"
        )
