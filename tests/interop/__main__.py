"""`make interop`: run all scenarios, or the named ones: `make interop ARGS="3.5.1 headrace-leads"`."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.build import NotAtHand, adapter_class_path, class_path, producers_class_path

if TYPE_CHECKING:
    from tests.interop.scene import Stage

_FOLDER = Path(__file__).parents[2] / "artifacts" / "interop"
_VERSIONS = ("3.5.1", "3.4.2", "2.7.2", "1.15.0", "1.14.10")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make interop", description=__doc__)
    parser.add_argument("scenario", nargs="*", default=[], help="see tests/interop/README.md; all by default")
    parser.add_argument(
        "--keep-rows", action="store_true", help="renew the fixtures of tests/interop by what this run sees"
    )
    args = parser.parse_args()
    try:
        for kcl in _VERSIONS:
            class_path(kcl)
        producers_class_path()
        adapter_class_path()
    except NotAtHand as reason:
        print(f"make interop was skipped: {reason}, and real KCL workers can't be built without it.")
        return 0
    from tests.interop.scenarios import (
        SCENARIOS,
    )  # imported only now, because the scenarios import the whole product
    from tests.interop.scene import Stage

    wanted = args.scenario or list(SCENARIOS)
    unknown = [name for name in wanted if name not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    stage = Stage(_FOLDER / "runs", args.keep_rows)
    failed = [name for name in wanted if _fails(SCENARIOS[name], stage, name)]
    held = len(wanted) - len(failed)
    print(f"make interop: {held} scenarios hold, {len(failed)} don't: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _fails(scenario: Callable[[Stage], int], stage: Stage, name: str) -> bool:
    try:
        return scenario(stage) > 0
    except Exception as broken_off:  # noqa: BLE001 - the scenarios after this one are run, whatever went wrong
        traceback.print_exception(broken_off)
        print(f"{name}: FAILED: {broken_off}", flush=True)
        return True


if __name__ == "__main__":
    raise SystemExit(main())
