"""An observation as CSV: a line with the names of the columns, then one line for each lease."""

from __future__ import annotations

import csv
from typing import TextIO

from headrace.pipeline.inspect.lease_rows import COLUMNS, lease_rows_of
from headrace.pipeline.inspect.observation import Observation


def write_csv(observation: Observation, file: TextIO) -> None:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows(lease_rows_of(observation))
