"""The port of a proof to an Iceberg table: its newest snapshot, counts of its rows by Spark, and what the last
proof has read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.errors import Unreachable, WrongShape
from headrace.pipeline.lake.staging.stage_codec import decode_all, encode
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.data_files import ids_of
from headrace.pipeline.lake.table.inserted import inserted_by
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.live_files import ManifestReader
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work
from headrace.pipeline.proof.accepted import Accepted, read_accepted, write_accepted
from headrace.pipeline.proof.ports import ProofLook, ProofTable, Proved
from headrace.pipeline.proof.spans import Digest, Doubled, FileCount, Overlap, ShardSpans
from headrace.pipeline.proof.task import ProofSpec
from headrace.pipeline.settings.rules.schema import ROW_NUMBER

_VERSION = 1
_PACK_ROWS = 2_000_000
"""Rows of one Spark task: a few seconds of work."""
_PACK_FILES = 64

_JOB = Job(
    "the Spark job that counts the table's rows", "Nothing is proved, and nothing was changed; run it again"
)


class IcebergProof(ProofTable):
    """The port of a proof to an Iceberg table: its files, counts of their rows, and what the last proof has read."""

    def __init__(self, lake: IcebergTable, tasks: Tasks, *, is_numbered: bool = False) -> None:
        """`is_numbered`: whether several rows may belong to one record, which a column of the table numbers."""
        self._lake = lake
        self._tasks = tasks
        self._is_numbered = is_numbered
        self._manifests = ManifestReader()

    def look(self) -> ProofLook:
        base = self._lake.base()
        with asking(f"the storage of {self._lake.identifier}"):
            live, _ = self._manifests.look(base.table)
        head = base.table.current_snapshot()
        return ProofLook(live, base.state, 0 if head is None else head.sequence_number or 0)

    def count(self, files: Sequence[LiveFile], spans: Sequence[ShardSpans]) -> tuple[FileCount, ...]:
        return self._counts(files, ProofSpec(self._lake.staging_spec(), tuple(spans)), is_known=False)

    def look_again(self, files: Sequence[LiveFile]) -> tuple[FileCount, ...]:
        return self._counts(files, ProofSpec(self._lake.staging_spec(), ()), is_known=True)

    def doubled(self, overlaps: Sequence[Overlap], spans: Sequence[ShardSpans]) -> tuple[Doubled, ...]:
        if not overlaps:
            return ()
        work = _comparing(tuple(overlaps), ProofSpec(self._spec_with_numbers(), tuple(spans)))
        return tuple(decode_all(self._tasks.run(len(overlaps), work, _JOB), Doubled))

    def _spec_with_numbers(self) -> StagingSpec:
        spec = self._lake.staging_spec()
        if not self._is_numbered:
            return spec
        number = ids_of(self._lake.open().schema()).get(ROW_NUMBER)
        if number is None:
            raise WrongShape(
                f"{self._lake.identifier} has no column {ROW_NUMBER}, which tells the rows of a record apart: somebody "
                "has dropped or renamed it. Nothing was proved, and nothing was changed; rename the column back, or "
                "process the records into a new table"
            )
        return replace(spec, field_ids=(*spec.field_ids, (ROW_NUMBER, number)))

    def _counts(self, files: Sequence[LiveFile], spec: ProofSpec, *, is_known: bool) -> tuple[FileCount, ...]:
        if not files:
            return ()
        packs = _packed(files, _PACK_ROWS)
        answers = self._tasks.run(len(packs), _counting(packs, spec, is_known=is_known), _JOB)
        by_path = {c.path: c for answer in decode_all(answers, tuple[FileCount, ...]) for c in answer}
        # A file that no task returned must not pass for one that was counted.
        if missing := [file.path for file in files if file.path not in by_path]:
            raise Unreachable(f"Spark returned no count of {missing[0]}. Nothing is proved; run it again")
        return tuple(by_path[file.path] for file in files)

    # --- what the last proof has read -------------------------------------------------------------------------

    def remembered(self) -> Proved | None:
        try:
            with self._lake.states.io().new_input(self._memory()).open() as source:
                body = json.loads(source.read())
            # Another version may mean other things by the same names: all rows are read then, and nothing is lost but
            # time.
            if body["version"] != _VERSION:
                return None
            files = {path: (day, Digest(rows, total)) for path, day, rows, total in body["files"]}
            kept_from = date.fromisoformat(body["kept_from"]) if body["kept_from"] else None
            strange = body["strange"]
            return Proved(body["snapshot"], body["sequence"], files, kept_from, body["apart"], strange)
        except (OSError, ValueError, KeyError, TypeError):
            # Missing before the first proof; S3 says "access denied" of a missing file, unless the role may list the
            # bucket. Damaged if a process died while it wrote the file. All rows are read then.
            return None

    def remember(self, proved: Proved) -> None:
        files = [[path, day, digest.rows, digest.sum] for path, (day, digest) in sorted(proved.files.items())]
        body = {
            "version": _VERSION,
            "snapshot": proved.snapshot,
            "sequence": proved.sequence,
            "kept_from": None if proved.kept_from is None else proved.kept_from.isoformat(),
            "apart": proved.apart,
            "strange": {path: dict(counts) for path, counts in sorted(proved.strange.items())},
            "files": files,
        }
        output = self._lake.states.io().new_output(self._memory())
        with asking(f"the state of {self._lake.identifier}"), output.create(overwrite=True) as out:
            out.write(json.dumps(body).encode())

    def _memory(self) -> str:
        # By the table's UUID, because a table that was dropped and made anew has the same name.
        return self._lake.states.path(f"proof-{self._lake.open().metadata.table_uuid.hex}.json")

    # --- rows that no ledger claims ---------------------------------------------------------------------------

    def inserted_by(self, snapshot: int) -> tuple[LiveFile, ...]:
        table = self._lake.open()
        with asking(f"the storage of {self._lake.identifier}"):
            return inserted_by(table, snapshot)

    def accepted(self) -> tuple[Accepted, ...]:
        try:
            return self._accepted()
        except (OSError, ValueError, KeyError, TypeError):
            # As in `remembered`. Rows of other engines are wrong then.
            return ()

    def _accepted(self) -> tuple[Accepted, ...]:
        try:
            with self._lake.states.io().new_input(self._acceptances()).open() as source:
                return read_accepted(source.read().decode())
        except FileNotFoundError:
            return ()

    def accept(self, accepted: Accepted) -> None:
        # What was accepted before must not be lost because it can't be read now.
        try:
            with asking(f"the state of {self._lake.identifier}"):
                every = (*self._accepted(), accepted)
        except (ValueError, KeyError, TypeError) as error:
            raise WrongShape(
                f"{self._acceptances()} has what was accepted before, and can't be read ({type(error).__name__}). "
                "Nothing was changed; restore the file, or delete it and accept each snapshot anew"
            ) from error
        output = self._lake.states.io().new_output(self._acceptances())
        with asking(f"the state of {self._lake.identifier}"), output.create(overwrite=True) as out:
            out.write(write_accepted(every).encode())

    def _acceptances(self) -> str:
        return self._lake.states.path(f"accepted-{self._lake.open().metadata.table_uuid.hex}.json")


def _packed(files: Sequence[LiveFile], most_rows: int) -> tuple[tuple[LiveFile, ...], ...]:
    packs: list[list[LiveFile]] = []
    rows = most_rows
    for file in files:
        if rows + file.rows > most_rows or len(packs[-1]) >= _PACK_FILES:
            packs.append([])
            rows = 0
        packs[-1].append(file)
        rows += file.rows
    return tuple(map(tuple, packs))


def _counting(packs: tuple[tuple[LiveFile, ...], ...], spec: ProofSpec, *, is_known: bool) -> Work:
    def work(number: int, _now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip: the function is pickled without its
        # module.
        from headrace.pipeline.proof.task import count_rows, look_at

        count_file = look_at if is_known else count_rows
        return encode(tuple(count_file(file, spec) for file in packs[number]))

    return work


def _comparing(overlaps: tuple[Overlap, ...], spec: ProofSpec) -> Work:
    def work(number: int, _now: Now) -> bytes:
        from headrace.pipeline.proof.task import doubled_rows

        return encode(doubled_rows(overlaps[number], spec))

    return work
