"""Run many seeds in a few processes: one line for each seed, saved to a file if asked, and a summary at the end."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.quick import collect_after_seed, exclude_imports_from_gc, unfreeze_dataclasses

if TYPE_CHECKING:
    from tests.simulation.run import Outcome

_AT_ONCE = 20
"""How many seeds a process is given at a time."""
_PROGRESS = 15.0
"""Seconds between two messages about the batch's progress."""
ENOUGH = 50
"""The least number of seeds from which the two shares below are judged."""
MOST_RUNS_REFUSED = 0.02
MOST_ROWS_REFUSED = 0.10


@dataclass(frozen=True, slots=True)
class Line:
    """The result of one seed, as the file of a batch keeps it."""

    seed: int
    broken: str | None
    """The broken invariant and its message, in one line."""
    virtual: float
    """Virtual seconds that the seed took."""
    cpu: float
    writes: int
    commits: int
    landed: int
    runs: int
    refused_runs: int
    staged_rows: int
    refused_rows: int
    happened: dict[str, int]
    digest: str = ""
    """The digest of the seed's history, if it was asked for."""


def line_of(done: Outcome, cpu: float, *, digest: bool = False) -> Line:
    """The runs of a plan with slow waves don't count for I27: in such a plan runs are meant to contend for claims."""
    tally = done.tally
    is_weighed = not done.plan.wave_takes
    return Line(
        done.plan.seed,
        None if done.violation is None else str(done.violation).partition("\n")[0],
        round(done.seconds, 1),
        round(cpu, 4),
        writes=tally.writes,
        commits=tally.commits,
        landed=done.landed,
        runs=tally.runs if is_weighed else 0,
        refused_runs=len(tally.refused_runs) if is_weighed else 0,
        staged_rows=tally.staged_rows,
        refused_rows=tally.refused_rows,
        happened=done.happened,
        digest=done.digest if digest else "",
    )


def _begin() -> None:
    """Prepare a worker process: import everything once."""
    unfreeze_dataclasses()
    import tests.simulation.run  # noqa: F401 - only now: its dataclasses must be made unfrozen

    exclude_imports_from_gc()


def _run(seeds: tuple[int, ...], *, digest: bool) -> list[Line]:
    from tests.simulation.run import run_seed

    lines = []
    for seed in seeds:
        began = time.process_time()
        done = run_seed(seed)
        collect_after_seed()
        lines.append(line_of(done, time.process_time() - began, digest=digest))
    return lines


def run_batch(
    seeds: Iterable[int], *, jobs: int, kept: Path | None = None, digest: bool = False
) -> list[Line]:
    """One line for each seed, in the order of the seeds. A seed with a line in the file `kept` isn't run again."""
    wanted = list(seeds)
    known = {line.seed: line for line in _read(kept)} if kept else {}
    known = {seed: known[seed] for seed in wanted if seed in known}
    left = [seed for seed in wanted if seed not in known]
    pieces = [tuple(left[at : at + _AT_ONCE]) for at in range(0, len(left), _AT_ONCE)]
    if kept is not None and kept.exists() and not kept.read_bytes().endswith(b"\n"):
        kept.write_bytes(kept.read_bytes() + b"\n")
    printed_at = began = time.monotonic()
    done = 0
    for lines in _each(pieces, jobs, digest=digest):
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(line)) + "\n" for line in lines)
        known |= {line.seed: line for line in lines}
        done += len(lines)
        for line in lines:
            if line.broken is not None:
                _print_progress(f"FAILED seed {line.seed}: {line.broken}")
        if time.monotonic() - printed_at >= _PROGRESS:
            printed_at = time.monotonic()
            rest = (printed_at - began) / done * (len(left) - done)
            _print_progress(f"{len(known)} of {len(wanted)} seeds, about {rest / 60:.0f} minutes to go")
    return [known[seed] for seed in wanted]


def _each(pieces: list[tuple[int, ...]], jobs: int, *, digest: bool) -> Iterator[list[Line]]:
    # Spawned, not forked: a fork would also have this process's garbage, and collecting a gRPC channel there aborts the process.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin) as pool:
        for done in as_completed([pool.submit(partial(_run, digest=digest), piece) for piece in pieces]):
            yield done.result()


def _read(kept: Path) -> list[Line]:
    """The lines of the file. A line that is incomplete because its process died is left out, and its seed is run
    again."""
    lines = []
    for text in kept.read_text(encoding="utf-8").splitlines() if kept.exists() else ():
        try:
            lines.append(Line(**json.loads(text)))
        except (ValueError, TypeError):
            continue
    return lines


def _print_progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Summary:
    """The sums over all seeds of a batch."""

    seeds: int
    failed: dict[int, str]
    virtual_hours: float
    cpu_seconds: float
    seeds_a_cpu_second: float
    """How many seeds of 900 virtual seconds are run in one CPU second."""
    writes_judged: int
    commits_judged: int
    records_landed: int
    runs: int
    runs_refused: float
    """The share of all runs."""
    rows_refused: float
    """The share of all staged rows."""
    happened: dict[str, int]

    @property
    def too_wasteful(self) -> str | None:
        """I27, judged only where the batch has enough seeds."""
        if self.seeds < ENOUGH:
            return None
        if self.runs_refused >= MOST_RUNS_REFUSED:
            return f"I27: the table refused a range of {self.runs_refused:.2%} of the runs, the bound is {MOST_RUNS_REFUSED:.0%}"
        if self.rows_refused >= MOST_ROWS_REFUSED:
            return f"I27: the table refused {self.rows_refused:.2%} of the staged rows, the bound is {MOST_ROWS_REFUSED:.0%}"
        return None

    def __str__(self) -> str:
        failed = [
            f"FAILED seed {seed}: {why}\n  again: make sim SEEDS=1 FROM={seed}"
            for seed, why in self.failed.items()
        ]
        ran = f"{self.seeds:,} seeds, {len(failed)} failed; {self.virtual_hours:,.1f} virtual hours"
        speed = f"{self.seeds_a_cpu_second:.1f} seeds of 900 virtual seconds in a CPU second"
        judged = f"{self.writes_judged:,} writes of lease rows, {self.commits_judged:,} commits"
        happened = ", ".join(f"{kind} {count:,}" for kind, count in self.happened.items())
        return "\n".join(
            [
                *failed,
                f"{ran} in {self.cpu_seconds:,.1f} CPU seconds: {speed}",
                f"judged: {judged}, {self.records_landed:,} records landed",
                f"wasted: {self.runs_refused:.2%} of {self.runs:,} runs were refused, {self.rows_refused:.2%} of the staged rows",
                *([self.too_wasteful] if self.too_wasteful else []),
                f"faults and rare events: {happened or 'none'}",
            ]
        )


def summed(lines: list[Line]) -> Summary:
    happened: Counter[str] = Counter()
    for line in lines:
        happened.update(line.happened)
    virtual, cpu = sum(line.virtual for line in lines), sum(line.cpu for line in lines)
    return Summary(
        seeds=len(lines),
        failed={line.seed: line.broken for line in lines if line.broken is not None},
        virtual_hours=round(virtual / 3600, 2),
        cpu_seconds=round(cpu, 1),
        seeds_a_cpu_second=round(virtual / 900 / cpu, 2) if cpu else 0.0,
        writes_judged=sum(line.writes for line in lines),
        commits_judged=sum(line.commits for line in lines),
        records_landed=sum(line.landed for line in lines),
        runs=sum(line.runs for line in lines),
        runs_refused=_share(sum(line.refused_runs for line in lines), sum(line.runs for line in lines)),
        rows_refused=_share(
            sum(line.refused_rows for line in lines), sum(line.staged_rows for line in lines)
        ),
        happened=dict(sorted(happened.items())),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
