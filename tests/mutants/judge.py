"""Compares the surviving mutants of a module with the survivors that were accepted with a reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.work import Mutant, Result

HERE = Path(__file__).resolve().parent
MOST_SURVIVORS = 0.05
"""The greatest share of a module's mutants that may survive, even with reasons."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a module's mutants; all parts are empty if nothing is."""

    new: tuple[Mutant, ...]
    """Survivors that no test notices and that have no reason."""
    gone: tuple[Mutant, ...]
    """Accepted survivors that a test notices now, or that aren't made any more. Their lines in the list can be
    deleted."""
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
    """The tests that have to notice the mutants, by module."""
    return tomllib.loads((HERE / "modules.toml").read_text(encoding="utf-8"))


def accepted_of(module: str) -> dict[Mutant, str]:
    """The accepted survivors of a module, each with its reason."""
    listed = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8")).get("survivor", [])
    return {
        Mutant(each["function"], each["was"], each["became"]): each["why"]
        for each in listed
        if each["module"] == module
    }


def as_entry(module: str, mutant: Mutant) -> str:
    """A survivor in the form of the list, with an empty reason."""
    lines = ["[[survivor]]", f'module = "{module}"', f'function = "{mutant.function}"']
    lines += [f"was = '''{mutant.was}'''", f"became = '''{mutant.became}'''", 'why = ""']
    return "\n".join(lines)
