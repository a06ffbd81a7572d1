"""Commands' answers as JSON, for scripts: each is one object with the number of its format. Later versions may
add names, but never change or remove one. A number that may have more digits than a script's numbers hold, such
as a sequence number or the id of a snapshot, is text; a time is in ISO 8601; null says that something isn't known
or isn't there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, _MutuallyExclusiveGroup
    from collections.abc import Mapping
    from datetime import datetime

FORMAT = 1


def add_json(parser: ArgumentParser | _MutuallyExclusiveGroup) -> None:
    parser.add_argument("--json", action="store_true", help="print as JSON")


def print_json(answer: Mapping[str, Any]) -> None:
    print(json.dumps({"format": FORMAT, **answer}, indent=2), flush=True)


def time_json(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat(timespec="milliseconds")


def id_json(number: int | None) -> str | None:
    # As text: ids of snapshots have 19 digits, and JavaScript's numbers are exact to 15.
    return None if number is None else str(number)
