"""Which of the lake table's Iceberg manifests a commit merges. Pure functions on values.

Manifests of about the same number of files are merged, twenty at a time. So each file's entry is written again
once for each factor of twenty: a commit's cost doesn't grow with the table, and a table of 8,000 files has at
most 60 manifests. (pyiceberg merges all manifests into one of up to 8 MB: every twentieth commit then takes
longer the more files there are.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mergeable:
    files: int
    size: int
    """The size of the manifest in bytes."""
    kind: Hashable = 0
    """Only manifests of the same kind can be merged: those of one partition spec."""


def plan_merges(manifests: Sequence[Mergeable], *, at_once: int, at_most: int) -> list[tuple[int, ...]]:
    """The manifests that become one, for each merge, by their places in `manifests`. `at_once`: how many
    manifests are worth a merge. `at_most`: bytes of the largest manifest that a merge may make, as far as the
    sizes of its parts tell.
    """
    alike: dict[tuple[Hashable, int], list[int]] = {}
    for place, manifest in enumerate(manifests):
        alike.setdefault((manifest.kind, _level(manifest.files, at_once)), []).append(place)
    return [
        tuple(places)
        for places in alike.values()
        # A single manifest is no merge, whatever the table's settings say.
        if len(places) >= max(at_once, 2) and sum(manifests[place].size for place in places) <= at_most
    ]


def _level(files: int, at_once: int) -> int:
    level = 0
    # A property of the table may say 1, with which the level would never end.
    while at_once > 1 and files >= at_once ** (level + 1):
        level += 1
    return level
