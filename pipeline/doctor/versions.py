"""A check: whether Python and the installed packages have versions that Headrace supports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health

_NAME = "versions"
_NAMED = ("dagster", "pyspark", "pyiceberg", "pyarrow", "boto3")


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
        [
            requirement
            for requirement in needed
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    )
    packages = ", ".join(f"{name} {_installed(name) or 'missing'}" for name in _NAMED)
    python = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(_NAME, Health.WELL, f"Headrace {version('headrace')}, Python {python}, {packages}")


def _compared(needed: list) -> Iterator[Diagnosis]:  # type: ignore[type-arg] # of packaging's Requirement
    for requirement in needed:
        installed = _installed(requirement.name)
        if installed is None or not requirement.specifier.contains(installed, prereleases=True):
            has = "isn't installed" if installed is None else f"is {installed}"
            yield Diagnosis(
                _NAME,
                Health.ILL,
                f"{requirement.name} {has}, and Headrace is made for {requirement.specifier or 'any version'}",
                "Install what requirements.lock names, or Headrace anew from where it came from",
            )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
