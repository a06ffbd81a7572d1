"""Runs cases and compares the results. A `form` turns one case into the product's answer, in the format of the
expected value."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.vectors import assignment_forms, lease_forms, reading_forms, sync_forms

Form = Callable[[Any, Any, Any], Any]
"""A function of input, expected value and graphs that returns the answer."""

FORMS: dict[str, Form] = {
    **sync_forms.FORMS,
    **assignment_forms.FORMS,
    **lease_forms.FORMS,
    **reading_forms.FORMS,
}
NOT_BUILT: dict[str, str] = {}
"""Why a group of cases isn't implemented, by the name of its function."""


@dataclass
class Report:
    """How many cases agreed, and a line for each that did not."""

    passed: int = 0
    failed: int = 0
    lines: list[str] = field(default_factory=list)


def run_all(document: Any, forms: dict[str, Form] | None = None) -> Report:
    known, report = FORMS if forms is None else forms, Report()
    left_out: Counter[str] = Counter()
    for number, given in enumerate(document["vectors"], 1):
        case = given if isinstance(given, dict) else {"id": f"case {number}"}
        fn = str(case.get("fn"))
        if fn in NOT_BUILT:
            left_out[fn] += 1
            continue
        wrong = _wrong(known.get(fn), case, document.get("graphs") or {})
        report.passed += not wrong
        report.failed += bool(wrong)
        if wrong:
            report.lines.append(_failure(case, wrong))
    report.lines += [f"not built: {fn} ({count} cases): {NOT_BUILT[fn]}" for fn, count in left_out.items()]
    return report


def _wrong(form: Form | None, case: Any, graphs: Any) -> str:
    """The result, if it differs from the expected value; else empty."""
    if form is None:
        return f"unknown fn {case.get('fn')!r}"
    try:
        got = form(case["input"], case["expected"], graphs)
        fine = is_same(got, case["expected"]) and _is_in_order(got, case)
    except Exception as error:  # noqa: BLE001 - an error in one case is a failure of that case, and the others still run
        return f"raised {type(error).__name__}: {error}"
    return "" if fine else f"got {_text(got)}"


def _is_in_order(got: Any, case: Any) -> bool:
    """Dictionaries are equal in any order, unless the case's note says that the order counts."""
    return "ordered list" not in str(case.get("note")) or list(got) == list(case["expected"])


def _failure(case: Any, wrong: str) -> str:
    note = f" (note: {case['note']})" if case.get("note") else ""
    return f"{case.get('id')} {case.get('fn')}: expected {_text(case.get('expected'))}, {wrong}{note}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def is_same(got: Any, expected: Any) -> bool:
    """Equal, with numbers to the last few bits: Java and Python add in different orders."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return got.keys() == expected.keys() and all(is_same(got[key], expected[key]) for key in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(got) == len(expected) and all(map(is_same, got, expected))
    if _is_number(got) and _is_number(expected):
        both_nan = math.isnan(expected) and math.isnan(got)
        whole = isinstance(got, int) and isinstance(expected, int)
        return both_nan or (
            got == expected if whole else math.isclose(got, expected, rel_tol=1e-12, abs_tol=1e-12)
        )
    return type(got) is type(expected) and bool(got == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
