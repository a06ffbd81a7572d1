"""`make interop`: all scenarios, or those that are named: `make interop ARGS="3.5.1 2.7.2"`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.interop.build import NotAtHand, class_path
from tests.interop.scenarios import SCENARIOS, Stage

_FOLDER = Path(__file__).parents[2] / "artifacts" / "interop"
_VERSIONS = ("3.5.1", "3.4.2", "2.7.2")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make interop", description=__doc__)
    parser.add_argument("scenario", nargs="*", default=[], metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument(
        "--keep-rows", action="store_true", help="renew tests/interop/rows with the rows of this run"
    )
    args = parser.parse_args()
    wanted = args.scenario or list(SCENARIOS)
    unknown = [name for name in wanted if name not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    try:
        for kcl in _VERSIONS:
            class_path(kcl)
    except NotAtHand as reason:
        print(f"make interop was skipped: {reason}, and real KCL workers can't be built without it.")
        return 0
    failed = [name for name in wanted if _fails(name, Stage(_FOLDER / "runs", args.keep_rows))]
    print(
        f"make interop: {len(wanted) - len(failed)} scenarios hold, {len(failed)} don't: {', '.join(failed) or 'none'}"
    )
    return 1 if failed else 0


def _fails(name: str, stage: Stage) -> bool:
    try:
        return SCENARIOS[name](stage) > 0
    except TimeoutError as late:
        print(f"{name}: FAILED: {late}")
        return True


if __name__ == "__main__":
    raise SystemExit(main())
