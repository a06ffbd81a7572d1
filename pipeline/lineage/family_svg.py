"""A drawing of shards and their parents as SVG, from the oldest generation on the left to the newest on the right.

Dagster's pages can't draw Mermaid. They show an SVG as an image in Markdown whose address holds the SVG's bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted

MOST: Final = 24
"""Shards in one drawing: Dagster keeps it with each event, at about 200 bytes a shard."""
_WIDE, _HIGH, _GAP, _BETWEEN = 150, 32, 8, 44
_LONGEST_NAME: Final = 22
_WIDEST: Final = 900
"""Pixels of Dagster's column for values. A wider drawing is shown smaller."""
_COLOURS: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("#dff5e1", "#2e7d32"),
    "ended": ("#eeeeee", "#757575"),
    "waiting": ("#fff4d6", "#b26a00"),
    "failed": ("#fde0e0", "#b71c1c"),
    "unread": ("#ffffff", "#9e9e9e"),
}


@dataclass(frozen=True, slots=True)
class DrawnShard:
    key: str
    """What the parents of others name it by."""
    name: str
    state: str
    """open; ended; waiting for its parents; failed; unread."""
    about: str
    """A few words below the name."""
    parents: tuple[str, ...] = ()


def drawn_name(key: ShardKey, *, with_stream: bool) -> str:
    """A shard's name in a box: `shard 12`, or with its stream `orders 12`."""
    number = key.shard_id.removeprefix("shardId-").lstrip("0") or "0"
    return f"{key.stream.name} {number}"[-_LONGEST_NAME:] if with_stream else f"shard {number}"


def svg(shards: Sequence[DrawnShard], *, most: int = MOST) -> str:
    """The drawing of the newest `most` shards; those with parents or children go before others."""
    shown = _most_telling(shards, most)
    places = _places(shown)
    columns = max((column for column, _ in places.values()), default=0) + 1
    rows = max((row for _, row in places.values()), default=0) + 1
    left_out = len(shards) - len(shown)
    wide = columns * _WIDE + (columns - 1) * _BETWEEN + 2
    high = rows * (_HIGH + _GAP) + (16 if left_out else 0)
    scale = min(1.0, _WIDEST / wide)
    size = f'width="{wide * scale:.0f}" height="{high * scale:.0f}" viewBox="0 0 {wide} {high}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    parts += [
        _edge(places[parent], places[shard.key])
        for shard in shown
        for parent in shard.parents
        if parent in places
    ]
    parts += [_box(shard, places[shard.key]) for shard in shown]
    if left_out:
        parts.append(
            f'<text x="2" y="{high - 4}" fill="#757575">and {counted(left_out, "shard")} more</text>'
        )
    return "".join((*parts, "</svg>"))


def image(drawing: str, title: str) -> str:
    """The drawing as an image in Markdown."""
    return f"![{title}](data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()})"


def _most_telling(shards: Sequence[DrawnShard], most: int) -> list[DrawnShard]:
    if len(shards) <= most:
        return list(shards)
    keys = {shard.key for shard in shards}
    related = {parent for shard in shards for parent in shard.parents if parent in keys}
    related |= {shard.key for shard in shards if related & set(shard.parents)}
    newest_first = sorted(shards, key=lambda shard: (shard.key in related, shard.key), reverse=True)
    kept = {shard.key for shard in newest_first[:most]}
    return [shard for shard in shards if shard.key in kept]


def _places(shards: Sequence[DrawnShard]) -> dict[str, tuple[int, int]]:
    """Column and row of each shard: a column for each generation, and a child beside its parents where there is room."""
    by_key = {shard.key: shard for shard in shards}
    generations: dict[str, int] = {}

    def generation(key: str) -> int:
        if key not in generations:
            # Against a circle, which no stream has.
            generations[key] = 0
            before = [generation(parent) for parent in by_key[key].parents if parent in by_key]
            generations[key] = max(before, default=-1) + 1
        return generations[key]

    columns: dict[int, list[DrawnShard]] = {}
    for shard in shards:
        columns.setdefault(generation(shard.key), []).append(shard)
    places: dict[str, tuple[int, int]] = {}
    for column in sorted(columns):
        wanted = {shard.key: _beside(shard, places) for shard in columns[column]}
        row = -1
        for shard in sorted(columns[column], key=lambda member: (wanted[member.key], member.key)):
            row = max(row + 1, wanted[shard.key])
            places[shard.key] = column, row
    return places


def _beside(shard: DrawnShard, places: Mapping[str, tuple[int, int]]) -> int:
    return min((places[parent][1] for parent in shard.parents if parent in places), default=0)


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return 1 + column * (_WIDE + _BETWEEN), 1 + row * (_HIGH + _GAP)


def _edge(parent: tuple[int, int], child: tuple[int, int]) -> str:
    (left, top), (right, bottom) = _corner(parent), _corner(child)
    begin, y, x, end = left + _WIDE, top + _HIGH // 2, right, bottom + _HIGH // 2
    middle = (begin + x) // 2
    return f'<path d="M{begin} {y}C{middle} {y} {middle} {end} {x} {end}" fill="none" stroke="#9e9e9e"/>'


def _box(shard: DrawnShard, place: tuple[int, int]) -> str:
    x, y = _corner(place)
    fill, stroke = _COLOURS.get(shard.state, _COLOURS["unread"])
    dashed = ' stroke-dasharray="3"' if shard.state in {"waiting", "unread"} else ""
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="4" fill="{fill}" stroke="{stroke}"{dashed}/>'
        f'<text x="{x + 6}" y="{y + 13}" font-weight="bold">{escape(shard.name)}</text>'
        f'<text x="{x + 6}" y="{y + 26}" fill="#555555">{escape(shard.about)}</text>'
    )
