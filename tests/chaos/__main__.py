"""`make chaos MINUTES=10 SEED=7`: see the package."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from tests.chaos.run import chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things go wrong (10)")
    parser.add_argument("--seed", type=int, help="what goes wrong, and when; drawn by default")
    parser.add_argument(
        "--folder",
        help="an empty folder, in which all files stay: settings, logs, Dagster's storage, the lake",
    )
    args = parser.parse_args()
    seed = random.randrange(10_000) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    place = tempfile.TemporaryDirectory(prefix="chaos-") if args.folder is None else nullcontext(args.folder)
    with place as folder:
        verdict = chaos(Path(folder), minutes=args.minutes, seed=seed)
    print(verdict)
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
