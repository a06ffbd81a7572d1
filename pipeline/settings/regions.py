"""Regions in the settings that AWS's own list doesn't have, which are likely typing errors.

They are only warned about: AWS opens regions that an older botocore doesn't know, and a stand-in of AWS may use
any region.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.settings.names import nearest
from headrace.pipeline.settings.values import leaves

if TYPE_CHECKING:
    from headrace.pipeline.settings.file import Loaded


def regions_in_doubt(loaded: Loaded) -> Iterator[str]:
    """A sentence for each region that botocore doesn't know, with the place of the setting."""
    known = _known_regions()
    if not known:
        return
    for key, value, _ in leaves(loaded.settings):
        if not (key.startswith("aws.") and key.endswith("region")) or value is None or value in known:
            continue
        near = nearest(value, sorted(known))
        hint = f"did you mean {near}?" if near else f"it knows {', '.join(sorted(known))}."
        yield (
            f"{loaded.origins[key]}: {key} is {value!r}, and the installed botocore knows no such region: {hint} "
            "Only a region that is newer than botocore, or one of a stand-in of AWS, is right all the same"
        )


def _known_regions() -> frozenset[str]:
    # The file alone: to import botocore takes longer than all else that `headrace config` does.
    package = find_spec("botocore")
    if package is None or package.origin is None:
        return frozenset()
    text = Path(package.origin).with_name("data").joinpath("partitions.json").read_text(encoding="utf-8")
    return frozenset(name for partition in json.loads(text)["partitions"] for name in partition["regions"])
