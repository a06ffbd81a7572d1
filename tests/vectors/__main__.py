"""`python -m tests.vectors PATH`: print one line for each failure, one for each group that Headrace doesn't
implement, and the sum."""

import json
import sys
from pathlib import Path

from tests.vectors.run import run_all


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not arguments[0]:
        print("name a file of cases: make vectors VECTORS=path", file=sys.stderr)
        return 2
    try:
        cases = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        print(f"{arguments[0]} isn't a file of cases: {error}", file=sys.stderr)
        return 2
    if not isinstance(cases, dict) or not isinstance(cases.get("vectors"), list):
        print(f"{arguments[0]} isn't a file of cases: it has no list `vectors`", file=sys.stderr)
        return 2
    report = run_all(cases)
    for line in report.lines:
        print(
            line.encode(errors="backslashreplace").decode()
        )  # a text in JSON may hold half of a surrogate pair
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
