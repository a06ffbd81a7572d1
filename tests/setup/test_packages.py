"""The licenses of what is installed with Headrace, and the bill of materials."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from bin.packages import ALLOWED, ALLOWED_PACKAGES, Package, bill, extras_of, installed, refusals
from bin.setup import ROOT

_LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
# A package may be locked in two versions, for two versions of Python.
LOCKED = set(re.findall(r"^([a-z0-9-]+)==([\w.]+)", _LOCK, re.MULTILINE))


@cache
def packages() -> list[Package]:
    """Not at the top of the file: each process of `make test` imports it, and one runs its tests."""
    return installed("headrace")


def a_package(license_text: str, name: str = "foo") -> Package:
    return Package(name, "1.0", license_text, ())


def test_the_packages_are_those_of_all_extras_in_the_versions_of_the_lock():
    versions = {package.name: package.version for package in packages() if package.name != "headrace"}
    assert versions.items() <= LOCKED
    assert {"dagster", "pyspark", "moto", "psycopg2-binary", "opentelemetry-sdk", "grpcio"} <= versions.keys()
    assert {"pytest", "mypy", "hypothesis"}.isdisjoint(versions), "tools aren't installed with Headrace"
    assert set(extras_of("headrace")) == {"local", "otel", "postgres"}


def test_each_package_has_a_license_that_is_allowed():
    assert [*refusals(packages())] == []


def test_nothing_is_allowed_that_no_package_needs():
    named = {name for package in packages() for names in package.choices for name in names}
    assert set(ALLOWED) - named == set()
    assert {(package.name, name) for package in packages() for name in named} >= ALLOWED_PACKAGES.keys()


@pytest.mark.parametrize(
    ("license_text", "is_allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-3.0-only)", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only", False),
        ("LGPL", False),
        ("", False),
    ],
)
def test_a_license_that_nobody_has_allowed_is_refused_by_the_packages_name(
    license_text: str, *, is_allowed: bool
):
    sentences = [*refusals([a_package(license_text)])]
    assert (sentences == []) is is_allowed
    assert all(sentence.startswith("foo 1.0 ") for sentence in sentences)


def test_an_exception_is_for_one_package():
    assert [*refusals([a_package("LGPL", "psycopg2-binary")])] == []


def test_the_bill_names_each_package_once_with_its_needs_and_is_the_same_each_time():
    bill_of_materials = bill(packages())
    refs = [component["bom-ref"] for component in bill_of_materials["components"]]
    own = bill_of_materials["metadata"]["component"]["bom-ref"]

    assert sorted(set(refs)) == sorted(refs)
    assert sum(ref.startswith("pkg:pypi/dagster@") for ref in refs) == 1
    needs = {entry["ref"]: entry["dependsOn"] for entry in bill_of_materials["dependencies"]}
    assert needs.keys() == {own, *refs}
    assert any(ref.startswith("pkg:pypi/pyiceberg@") for ref in needs[own])
    assert all(ref in refs for named in needs.values() for ref in named)
    assert json.dumps(bill(installed("headrace"))) == json.dumps(bill_of_materials)


def test_make_check_checks_the_licenses_and_make_sbom_writes_the_bill():
    makefile = Path(ROOT / "Makefile").read_text(encoding="utf-8")
    assert "python bin/packages.py --check\n" in makefile
    assert "python bin/packages.py --check --sbom dist/headrace.cdx.json" in makefile
