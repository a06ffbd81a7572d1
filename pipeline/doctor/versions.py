"""Whether Python and the installed packages are those that Headrace is made for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health

_NAME = "versions"
_TOLD = ("dagster", "pyspark", "pyiceberg", "pyarrow", "boto3")


def versions_fit(_: Case) -> Iterator[Diagnosis]:
    from packaging.requirements import Requirement

    try:
        needed = [Requirement(text) for text in requires("headrace") or ()]
    except PackageNotFoundError:
        yield Diagnosis(
            _NAME, Health.NOTE, "Headrace runs from its source, so what it needs can't be compared"
        )
        return
    yield from _compared(
        [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    )
    told = ", ".join(f"{name} {_installed(name) or 'missing'}" for name in _TOLD)
    python = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(_NAME, Health.WELL, f"Headrace {version('headrace')}, Python {python}, {told}")


def _compared(needed: list) -> Iterator[Diagnosis]:  # type: ignore[type-arg] # of packaging's Requirement
    for each in needed:
        installed = _installed(each.name)
        if installed is None or not each.specifier.contains(installed, prereleases=True):
            has = "isn't installed" if installed is None else f"is {installed}"
            yield Diagnosis(
                _NAME,
                Health.ILL,
                f"{each.name} {has}, and Headrace is made for {each.specifier or 'any version'}",
                "Install what requirements.lock names, or `pip install --upgrade headrace`",
            )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
