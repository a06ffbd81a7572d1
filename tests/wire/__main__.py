"""`python -m tests.wire PATH`: print one line for each failure, one for each operation that Headrace doesn't
implement, and the sum."""

import json
import sys
from pathlib import Path

from tests.wire.room import a_room
from tests.wire.run import run_all


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not arguments[0]:
        print("name a file of cases: make wire WIRE=path", file=sys.stderr)
        return 2
    try:
        cases = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        print(f"{arguments[0]} isn't a file of cases: {error}", file=sys.stderr)
        return 2
    if not isinstance(cases, list):
        print(f"{arguments[0]} isn't a file of cases: it isn't a list", file=sys.stderr)
        return 2
    with a_room() as room:
        report = run_all(cases, room)
    for line in report.lines:
        print(
            line.encode(errors="backslashreplace").decode()
        )  # a text in JSON may hold half of a surrogate pair
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
