"""Runs cases: the rows before are put into a table, the product's own function is called, and DynamoDB's answer and the rows after are compared."""

import base64
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from headrace.pipeline.aws.leases import lease_item, worker_item
from headrace.pipeline.core.leases.change import Refused
from headrace.pipeline.errors import HeadraceError
from tests.wire.ops import KEYS_OF, NOT_BUILT, OPERATIONS, KeysOf, Operation
from tests.wire.room import Room

HEADRACE_ATTRIBUTES = frozenset(
    {name for field in lease_item.OUR_FIELDS for name in lease_item.ATTRIBUTES[field]} | worker_item.OURS
)
"""Attributes that KCL's readers ignore, and that KCL's cases don't mention."""


@dataclass
class Report:
    """How many cases agreed, and a line for each that did not."""

    passed: int = 0
    failed: int = 0
    lines: list[str] = field(default_factory=list)


def run_all(cases: Any, room: Room) -> Report:
    report = Report()
    left_out: Counter[str] = Counter()
    for given in cases:
        case = given if isinstance(given, dict) else {}
        op = str(case.get("op"))
        if op in NOT_BUILT:
            left_out[op] += 1
            continue
        wrong = _wrong(op, case, room)
        report.passed += not wrong
        report.failed += bool(wrong)
        if wrong:
            note = f" (note: {case['note']})" if case.get("note") else ""
            report.lines.append(f"{case.get('name', 'a case')} [{op}]: {'; '.join(wrong)}{note}")
    report.lines += [f"not built: {op} ({count} cases): {NOT_BUILT[op]}" for op, count in left_out.items()]
    return report


def _wrong(op: str, case: Any, room: Room) -> list[str]:
    """How the result differs from the case."""
    try:
        if op in KEYS_OF:
            return _wrong_keys(KEYS_OF[op], case, room)
        if op in OPERATIONS:
            return _wrong_write(case, OPERATIONS[op], room)
    except Exception as error:  # noqa: BLE001 - an error in one case is a failure of that case, and the others still run
        return [f"raised {type(error).__name__}: {error}"]
    return [f"unknown op {op!r}"]


def _wrong_write(case: Any, operation: Operation, room: Room) -> list[str]:
    place = room.place_of(case["before"], case["after"])
    room.clear()
    before = decoded(case["before"])
    room.put(place, *([before] if before else []))
    answer: Any
    try:
        answer = operation(room.client, place, case["args"])
    except HeadraceError as error:
        answer = error
    held = not room.refused and not isinstance(answer, HeadraceError)
    wrong = []
    if held is not case["succeeds"]:
        wrong.append(f"expected {_outcome(case['succeeds'])}, got {_outcome(held)} ({answer})")
    if held and (answer is False or isinstance(answer, Refused)):
        wrong.append("DynamoDB wrote, and the product says that it didn't")
    after = [] if case["after"] is None else [decoded(case["after"])]
    found = [without_headraces_attributes(row, like=decoded(case["after"])) for row in room.rows(place)]
    if [canonical(row) for row in found] != [canonical(row) for row in after]:
        wrong.append(f"expected the row {_text(after)}, got {_text(found)}")
    return wrong


def _wrong_keys(keys_of: KeysOf, case: Any, room: Room) -> list[str]:
    """Whether the case reads: its rows are a list, and its result is a list of keys."""
    args = case["args"]
    lists = [each for each in (*case.values(), *args.values()) if isinstance(each, list)]
    rows = [decoded(row) for each in lists for row in each if isinstance(row, dict)]
    expected = sorted(key for each in lists for key in each if isinstance(key, str))
    place = room.place_of(*rows)
    room.clear()
    room.put(place, *rows)
    got = sorted(keys_of(room.client, place, args))
    return [] if got == expected else [f"expected {_text(expected)}, got {_text(got)}"]


def without_headraces_attributes(
    row: Mapping[str, Any], *, like: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    return {
        name: value for name, value in row.items() if name not in HEADRACE_ATTRIBUTES or name in (like or {})
    }


def decoded(value: Any) -> Any:
    """A value with bytes in place of {"B64": ...}, because JSON has no bytes."""
    match value:
        case {"B64": str(text)}:
            return base64.b64decode(text)
        case dict():
            return {name: decoded(each) for name, each in value.items()}
        case list():
            return [decoded(each) for each in value]
        case _:
            return value


def canonical(value: Any) -> Any:
    """A form in which values are equal if DynamoDB takes them as equal: numbers by value, sets in any order."""
    match value:
        case {"N": number}:
            return ("N", Decimal(number))
        case {"SS": texts}:
            return ("SS", sorted(texts))
        case {"NS": numbers}:
            return ("NS", sorted(map(Decimal, numbers)))
        case dict():
            return {name: canonical(each) for name, each in value.items()}
        case list():
            return [canonical(each) for each in value]
        case _:
            return value


def _outcome(held: Any) -> str:
    return {True: "a write", False: "a refusal"}.get(held, str(held))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
