"""Runs a script that was written for amazon_kclpy: python -m headrace.kclpy SCRIPT [ARGUMENT ...]."""

from __future__ import annotations

import os
import sys
from runpy import run_path

from headrace.kclpy.alias import stand_in_for_amazon_kclpy


def main(arguments: list[str]) -> None:
    stand_in_for_amazon_kclpy()
    script = arguments[0]
    sys.argv = arguments
    # As where Python itself runs the script. Without `pathlib`, which takes half a megabyte in each shard's process.
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))  # noqa: PTH120
    run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
