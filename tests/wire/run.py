"""Runs cases: the row before is put into a table, the product's own function is called, and DynamoDB's outcome and the
rows after are compared.
"""

import base64
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pipeline.aws import lease_item, worker_item
from pipeline.core.change import Refused
from pipeline.errors import HeadraceError
from tests.wire.ops import KEYS_OF, NOT_BUILT, OPERATIONS, Operation
from tests.wire.room import Room

OURS = frozenset(
    {name for field in lease_item.OUR_FIELDS for name in lease_item.ATTRIBUTES[field]} | worker_item.OURS
)
"""Attributes that KCL's readers pass over: a case of KCL's says nothing about them."""


@dataclass
class Report:
    passed: int = 0
    failed: int = 0
    lines: list[str] = field(default_factory=list)


def run_all(cases: Any, room: Room) -> Report:
    report = Report()
    for case in cases:
        if case["op"] in NOT_BUILT:
            continue
        wrong = _wrong(case, room)
        report.passed += not wrong
        report.failed += bool(wrong)
        if wrong:
            note = f" (note: {case['note']})" if case.get("note") else ""
            report.lines.append(f"{case.get('name', 'a case')} [{case['op']}]: {'; '.join(wrong)}{note}")
    counts = Counter(case["op"] for case in cases)
    report.lines += [
        f"not built: {op} ({counts[op]} cases): {why}" for op, why in NOT_BUILT.items() if counts[op]
    ]
    return report


def _wrong(case: Any, room: Room) -> list[str]:
    """What isn't as the case has it."""
    operation = OPERATIONS.get(case["op"])
    if case["op"] not in KEYS_OF and operation is None:
        return [f"unknown op {case['op']!r}"]
    try:
        if case["op"] in KEYS_OF:
            return _wrong_keys(case, room)
        assert operation is not None
        return _wrong_write(case, operation, room)
    except Exception as error:  # noqa: BLE001 - one case that breaks is a failure of its own, and the others still run
        return [f"raised {type(error).__name__}: {error}"]


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
    found = [without_ours(row, like=decoded(case["after"])) for row in room.rows(place)]
    if [canonical(row) for row in found] != [canonical(row) for row in after]:
        wrong.append(f"expected the row {_text(after)}, got {_text(found)}")
    return wrong


def _wrong_keys(case: Any, room: Room) -> list[str]:
    """A case that reads: rows go in, and keys are what comes out."""
    args = case["args"]
    rows = [decoded(row) for row in _first_list(case.get("rows"), args.get("rows"), case.get("before"))]
    expected = _first_list(
        case.get("accepted"), case.get("keys"), case.get("expected"), args.get("accepted"), case.get("after")
    )
    place = room.place_of(*rows)
    room.clear()
    room.put(place, *rows)
    got = KEYS_OF[case["op"]](room.client, place, args)
    return [] if sorted(got) == sorted(expected) else [f"expected {_text(expected)}, got {_text(got)}"]


def _first_list(*named: Any) -> list[Any]:
    return next(each for each in named if isinstance(each, list))


def without_ours(row: Mapping[str, Any], *, like: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {name: value for name, value in row.items() if name not in OURS or name in (like or {})}


def decoded(value: Any) -> Any:
    """JSON has no bytes: {"B64": ...} stands for them."""
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
    """Alike for what DynamoDB takes for alike: numbers by value, sets in any order."""
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
