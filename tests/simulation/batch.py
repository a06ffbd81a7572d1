"""Many seeds over a few processes: one line a seed, kept in a file if asked, and the sum of all lines at the end."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.quick import settle_down, thaw

if TYPE_CHECKING:
    from tests.simulation.run import Outcome

_AT_ONCE = 20
"""Seeds a piece of work."""
_PROGRESS = 15.0
"""Seconds between two words on how far it is."""
ENOUGH = 50
"""Seeds from which on rates mean something."""
MOST_FENCED = 0.02
MOST_REFUSED = 0.10


@dataclass(frozen=True, slots=True)
class Line:
    """One seed, as it is kept."""

    seed: int
    broken: str | None
    """The invariant, and what was said of it in one line."""
    virtual: float
    """Seconds."""
    cpu: float
    writes: int
    commits: int
    landed: int
    runs: int
    fenced: int
    staged: int
    refused: int
    bites: dict[str, int]
    digest: str = ""
    """Of its history, where it was asked for."""


def line_of(done: Outcome, cpu: float, *, digest: bool = False) -> Line:
    """Runs of a plan whose waves take long aren't weighed for I27: it is there to have claims fought for."""
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
        fenced=len(tally.fenced) if is_weighed else 0,
        staged=tally.staged_rows,
        refused=tally.refused_rows,
        bites=done.bites,
        digest=done.digest if digest else "",
    )


def _begin() -> None:
    """In each process: all is imported once."""
    thaw()
    import tests.simulation.run  # noqa: F401 - after the thaw

    settle_down()


def _run(seeds: tuple[int, ...], *, digest: bool) -> list[Line]:
    from tests.simulation.run import run_seed

    lines = []
    for seed in seeds:
        began = time.process_time()
        done = run_seed(seed)
        lines.append(line_of(done, time.process_time() - began, digest=digest))
    return lines


def run_batch(
    seeds: Iterable[int], *, jobs: int, kept: Path | None = None, digest: bool = False
) -> list[Line]:
    """In the order of the seeds, whoever ran them. `kept`: lines of an earlier try are not run again."""
    wanted = list(seeds)
    known = {line.seed: line for line in _read(kept)} if kept else {}
    known = {seed: known[seed] for seed in wanted if seed in known}
    left = [seed for seed in wanted if seed not in known]
    pieces = [tuple(left[at : at + _AT_ONCE]) for at in range(0, len(left), _AT_ONCE)]
    if kept is not None and kept.exists() and not kept.read_bytes().endswith(b"\n"):
        kept.write_bytes(kept.read_bytes() + b"\n")
    told = began = time.monotonic()
    done = 0
    for lines in _each(pieces, jobs, digest=digest):
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(line)) + "\n" for line in lines)
        known |= {line.seed: line for line in lines}
        done += len(lines)
        for line in lines:
            if line.broken is not None:
                _say(f"FAILED seed {line.seed}: {line.broken}")
        if time.monotonic() - told >= _PROGRESS:
            told = time.monotonic()
            rest = (told - began) / done * (len(left) - done)
            _say(f"{len(known)} of {len(wanted)} seeds, about {rest / 60:.0f} minutes to go")
    return [known[seed] for seed in wanted]


def _each(pieces: list[tuple[int, ...]], jobs: int, *, digest: bool) -> Iterator[list[Line]]:
    with ProcessPoolExecutor(jobs, initializer=_begin) as pool:
        for done in as_completed([pool.submit(partial(_run, digest=digest), piece) for piece in pieces]):
            yield done.result()


def _read(kept: Path) -> list[Line]:
    """A line that was cut off when its process died is run again."""
    lines = []
    for text in kept.read_text(encoding="utf-8").splitlines() if kept.exists() else ():
        try:
            lines.append(Line(**json.loads(text)))
        except (ValueError, TypeError):
            continue
    return lines


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Summary:
    seeds: int
    failed: dict[int, str]
    virtual_hours: float
    cpu_seconds: float
    seeds_a_cpu_second: float
    """Of 900 virtual seconds each."""
    writes_judged: int
    commits_judged: int
    records_landed: int
    runs: int
    runs_fenced: float
    """Of all runs."""
    rows_refused: float
    """Of all rows staged."""
    bites: dict[str, int]

    @property
    def too_wasteful(self) -> str | None:
        """I27, over as many seeds as say something."""
        if self.seeds < ENOUGH:
            return None
        if self.runs_fenced >= MOST_FENCED:
            return f"I27: {self.runs_fenced:.2%} of the runs were fenced, the bound is {MOST_FENCED:.0%}"
        if self.rows_refused >= MOST_REFUSED:
            return f"I27: {self.rows_refused:.2%} of the rows staged were refused, the bound is {MOST_REFUSED:.0%}"
        return None

    def __str__(self) -> str:
        failed = [
            f"FAILED seed {seed}: {why}\n  again: make sim SEEDS=1 FROM={seed}"
            for seed, why in self.failed.items()
        ]
        ran = f"{self.seeds:,} seeds, {len(failed)} failed; {self.virtual_hours:,.1f} virtual hours"
        speed = f"{self.seeds_a_cpu_second:.1f} seeds of 900 s a CPU second"
        judged = f"{self.writes_judged:,} writes of lease rows, {self.commits_judged:,} commits"
        bites = ", ".join(f"{kind} {count:,}" for kind, count in self.bites.items())
        return "\n".join(
            [
                *failed,
                f"{ran} in {self.cpu_seconds:,.1f} CPU seconds: {speed}",
                f"judged: {judged}, {self.records_landed:,} records landed",
                f"wasted: {self.runs_fenced:.2%} of {self.runs:,} runs fenced, {self.rows_refused:.2%} of the rows staged refused",
                *([self.too_wasteful] if self.too_wasteful else []),
                f"faults that bit: {bites or 'none'}",
            ]
        )


def summed(lines: list[Line]) -> Summary:
    bites: Counter[str] = Counter()
    for line in lines:
        bites.update(line.bites)
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
        runs_fenced=_share(sum(line.fenced for line in lines), sum(line.runs for line in lines)),
        rows_refused=_share(sum(line.refused for line in lines), sum(line.staged for line in lines)),
        bites=dict(sorted(bites.items())),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
