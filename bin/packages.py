"""What is installed with Headrace: its licenses, and a bill of materials.

    python bin/packages.py --check        each package has a license that is allowed below; part of `make check`
    python bin/packages.py --sbom FILE    writes CycloneDX 1.6 as JSON; `make sbom`

Both read the metadata of the packages in this environment, which set-up makes from requirements.lock: the packages that
`pip install headrace` brings here, with all extras. Tools for tests and checks aren't among them. The same lock gives the same
file. A package's own parts aren't listed one by one: pyspark, for example, carries Java archives, named in its LICENSE.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "headrace"

ALLOWED = {
    "0BSD": "asks for nothing",
    "Apache-2.0": "Headrace's own license",
    "BSD-2-Clause": "asks for its notice only",
    "BSD-3-Clause": "asks for its notice only",
    "CC0-1.0": "asks for nothing",
    "CNRI-Python": "Python's own former license",
    "ISC": "asks for its notice only",
    "MIT": "asks for its notice only",
    "MIT-0": "asks for nothing",
    "MPL-2.0": "binds changes of the package's own files, which Headrace doesn't make",
    "PSF-2.0": "Python's own license",
    "Zlib": "asks for nothing where the files aren't changed",
}
"""License -> why it may be there."""

ALLOWED_PACKAGES = {
    ("psycopg2-binary", "LGPL"): "only with the extra `postgres`, imported unchanged as a library of its own",
}
"""Package and license that isn't allowed elsewhere -> why it may be there."""

SAID_AS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What older metadata says -> the license's name in SPDX."""


class Package(NamedTuple):
    name: str
    version: str
    license: str
    """An expression in SPDX's names; empty where the metadata says nothing."""
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"

    @property
    def choices(self) -> list[list[str]]:
        """The licenses that bind a user: one of each list. (`A OR B AND C` is read as if C bound in any case.)"""
        return [re.findall(r"(?!OR\b)[A-Za-z0-9][\w.+-]*", part) for part in self.license.split(" AND ")]

    def is_allowed(self) -> bool:
        return all(
            any(name in ALLOWED or (self.name, name) in ALLOWED_PACKAGES for name in names)
            for names in self.choices
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="check the licenses")
    parser.add_argument("--sbom", metavar="FILE", type=Path, help="write the bill of materials")
    asked = parser.parse_args()
    packages = installed(PROJECT)
    if asked.sbom:
        asked.sbom.parent.mkdir(parents=True, exist_ok=True)
        asked.sbom.write_text(json.dumps(bill(packages), indent=2) + "\n", encoding="utf-8")
        print(f"{asked.sbom}: {len(packages) - 1} packages beside {PROJECT}")
    refused = [*refusals(packages)] if asked.check else []
    for sentence in refused:
        print(sentence, file=sys.stderr)
    if asked.check and not refused:
        print(f"the licenses of {len(packages) - 1} packages are allowed")
    return 1 if refused else 0


def installed(project: str) -> list[Package]:
    """The project, with all extras, and what it needs here; sorted by name."""
    names, packages = {canonicalize_name(project): frozenset(extras_of(project))}, {}
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        found = distribution(name)
        needed = {canonicalize_name(each.name): frozenset(each.extras) for each in _needs(found, names[name])}
        present = {key: extras for key, extras in needed.items() if _is_installed(key)}
        packages[name] = Package(name, found.version, license_of(found), tuple(sorted(present)))
        for key, extras in present.items():
            if key not in names or not extras <= names[key]:
                names[key] = names.get(key, frozenset()) | extras
                waiting.append(key)
    return [packages[name] for name in sorted(packages)]


def extras_of(project: str) -> list[str]:
    return distribution(project).metadata.get_all("Provides-Extra") or []


def _needs(found: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in found.requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield requirement


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def license_of(found: Distribution) -> str:
    """The license in SPDX's names, from the newest field of the metadata that says something."""
    metadata: Any = found.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or []
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    said = classifiers or [str(metadata.get("License") or "").strip().partition("\n")[0]]
    return " AND ".join(SAID_AS.get(each, each) for each in said if each)


def refusals(packages: list[Package]) -> Iterator[str]:
    """A sentence for each package whose license nobody has allowed."""
    for package in packages:
        if package.name == PROJECT:
            continue
        if not package.license:
            yield f"{package.name} {package.version} tells no license: find it, and add it to bin/packages.py"
        elif not package.is_allowed():
            yield (
                f"{package.name} {package.version} has the license {package.license!r}, which isn't allowed: leave the "
                "package out, or add the license with a reason to bin/packages.py"
            )


def bill(packages: list[Package]) -> dict[str, Any]:
    """The bill of materials. It has no date and no random number: the same packages give the same file."""
    purls = {package.name: package.purl for package in packages}
    (own,) = (package for package in packages if package.name == PROJECT)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(own, kind="application")},
        "components": [_component(package) for package in packages if package is not own],
        "dependencies": [
            {"ref": package.purl, "dependsOn": [purls[name] for name in package.needs]}
            for package in packages
        ],
    }


def _component(package: Package, kind: str = "library") -> dict[str, Any]:
    known = all(name in ALLOWED for names in package.choices for name in names)
    said = {"expression": package.license} if known else {"license": {"name": package.license}}
    return {
        "type": kind,
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "licenses": [said],
    }


if __name__ == "__main__":
    sys.exit(main())
