"""What became of the mutants of one module, against the survivors that were accepted with a reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.work import Mutant, Result

HERE = Path(__file__).resolve().parent
MOST_SURVIVORS = 0.05
"""Of a module's mutants. More are no list of reasons any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Empty everywhere where all is as it should be."""

    new: tuple[Mutant, ...]
    """No test notices these, and nobody gave a reason."""
    gone: tuple[Mutant, ...]
    """Accepted, and noticed by a test today, or not made any more: these lines of the list can go."""
    too_many: bool

    @property
    def is_good(self) -> bool:
        return not (self.new or self.gone or self.too_many)


def judge(result: Result, accepted: Iterable[Mutant]) -> Verdict:
    survivors, known = set(result.survivors), set(accepted)
    return Verdict(
        new=tuple(sorted(survivors - known)),
        gone=tuple(sorted(known - survivors)),
        too_many=len(result.survivors) > MOST_SURVIVORS * result.mutants,
    )


def modules() -> dict[str, list[str]]:
    """Module -> the tests that have to notice its mutants."""
    return tomllib.loads((HERE / "modules.toml").read_text(encoding="utf-8"))


def accepted_of(module: str) -> dict[Mutant, str]:
    """The reason for each survivor of a module."""
    listed = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8")).get("survivor", [])
    return {
        Mutant(each["function"], each["was"], each["became"]): each["why"]
        for each in listed
        if each["module"] == module
    }


def as_entry(module: str, mutant: Mutant) -> str:
    """A survivor as the list has it, its reason left open."""
    lines = ["[[survivor]]", f'module = "{module}"', f'function = "{mutant.function}"']
    lines += [f"was = '''{mutant.was}'''", f"became = '''{mutant.became}'''", 'why = ""']
    return "\n".join(lines)
