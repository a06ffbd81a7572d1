"""Objects, lists and maps of JSON payloads as columns of a typed table.

msgspec decodes many payloads at once, and each part of a column becomes one Arrow array: Python code looks at no
value alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol, TypedDict

import msgspec
import numpy as np
import pyarrow as pa

from headrace.pipeline.typed.json.unfit import UnfitValues, Values

Unfits = Mapping[str, Mapping[int, str | None]]


class ValueKind(Protocol):
    """How the JSON values of a column, or of a part of one, are decoded and become an Arrow array."""

    @property
    def arrow(self) -> pa.DataType: ...

    @property
    def exact(self) -> Any:
        """The msgspec type that nearly all values have: the column's own type."""

    @property
    def wide(self) -> Any:
        """The msgspec type of every value that the column can take after a conversion; for a column of texts, any
        value.
        """

    def array(self, values: Sequence[Any]) -> Values:
        """These values as an Arrow array of the column's type; None becomes null. Raises UnfitValues."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Reads JSON objects as an Arrow struct. `parts`: the readers of the fields, by name; None where payloads
    don't make the field.
    """

    arrow: Any
    parts: Sequence[tuple[str, ValueKind | None]]
    is_whole: bool = False
    """Whether `exact` refuses an object with a field that is no column."""
    exact: Any = field(init=False)
    wide: Any = field(init=False)
    _empty: Any = field(init=False)
    _getters: Sequence[Callable[[Any], Any] | None] = field(init=False)

    def __post_init__(self) -> None:
        # A structure's fields are Python's names, and those of payloads may be any text.
        names = {f"f{place}": name for place, (name, kind) in enumerate(self.parts) if kind is not None}
        has_odd_names = any(map(_is_odd, names.values()))
        make = _dictionary if has_odd_names else partial(_structure, names)
        kinds = [(name, kind) for name, kind in self.parts if kind is not None]
        exact = make([(name, kind.exact) for name, kind in kinds], is_whole=self.is_whole)
        wide = make([(name, kind.wide) for name, kind in kinds], is_whole=False)
        object.__setattr__(self, "exact", exact | None)
        object.__setattr__(self, "wide", wide | None)
        # A null object is read as an empty one and masked afterwards: Arrow makes a struct of its
        # parts, each of which needs a value for each row.
        object.__setattr__(self, "_empty", exact())
        getters = [
            None if kind is None else partial(_value_of, name) if has_odd_names else attrgetter(f"f{place}")
            for place, (name, kind) in enumerate(self.parts)
        ]
        object.__setattr__(self, "_getters", getters)

    @property
    def tells_all(self) -> bool:
        """Whether decoding by `exact` refuses each payload with a field, at any depth, that has no column."""
        return self.is_whole and not any(
            _is_odd(name) or (kind is not None and not _tells_all(kind)) for name, kind in self.parts
        )

    def decoding_exactly(self) -> Callable[[bytes], Any]:
        return _decoding(self.exact)

    def decoding_widely(self) -> Callable[[bytes], Any]:
        return _decoding(self.wide)

    def array(self, values: Sequence[Any]) -> Values:
        array, unfit = self.fitting(values)
        if unfit:
            raise UnfitValues({place: why for places in unfit.values() for place, why in places.items()})
        return array

    def fitting(self, values: Sequence[Any]) -> tuple[Values, Unfits]:
        """The values as an array in which those that don't fit are null, and for each part of the struct the
        places of those that don't fit.
        """
        is_null = None if all(values) else np.array([value is None for value in values])
        if is_null is not None:
            values = [self._empty if value is None else value for value in values]
        arrays, unfit = self._arrays(values)
        if unfit:
            is_null = np.zeros(len(values), dtype=bool) if is_null is None else is_null
            # The whole row becomes null, because a row in which one part fails goes to quarantine as it is.
            is_null[[place for places in unfit.values() for place in places]] = True
        mask = None if is_null is None else pa.array(is_null)
        # Arrow can't tell how many rows a struct without fields has.
        if not self.parts:
            return pa.array([{}] * len(values), self.arrow, mask=is_null), unfit
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow), mask=mask), unfit

    def _arrays(self, values: Sequence[Any]) -> tuple[list[Values], Unfits]:
        arrays, unfit = list[Values](), dict[str, Mapping[int, str | None]]()
        for part, (name, kind), getter in zip(self.arrow, self.parts, self._getters, strict=True):
            if kind is None or getter is None:
                arrays.append(pa.nulls(len(values), part.type))
                continue
            inner = list(map(getter, values))
            try:
                arrays.append(kind.array(inner))
            except UnfitValues as error:
                unfit[name] = error.places
                # The others of the column are wanted all the same: they are read once more, with null in these places.
                for place in error.places:
                    inner[place] = None
                arrays.append(kind.array(inner))
        return arrays, unfit


def _decoding(kind: Any) -> Callable[[bytes], Any]:
    """The decoder of an object that isn't null."""
    return msgspec.json.Decoder(next(part for part in kind.__args__ if part is not type(None))).decode


def _tells_all(kind: ValueKind) -> bool:
    match kind:
        case Objects():
            return kind.tells_all
        case Lists() | Maps():
            return _tells_all(kind.items)
        case _:
            return True


def _is_odd(name: str) -> bool:
    """Whether msgspec doesn't take the name as that of a structure's field."""
    return any(letter in '"\\' or letter < " " for letter in name)


def _structure(names: dict[str, str], kinds: Sequence[tuple[str, Any]], *, is_whole: bool) -> Any:
    fields = [(attribute, kind, None) for attribute, (_, kind) in zip(names, kinds, strict=True)]
    # Without the garbage collector's bookkeeping, which takes as long as the decoding: values of JSON have no cycles.
    return msgspec.defstruct("Object", fields, rename=names, forbid_unknown_fields=is_whole, gc=False)


def _dictionary(kinds: Sequence[tuple[str, Any]], *, is_whole: bool) -> Any:  # noqa: ARG001 - see tells_all
    return TypedDict("Object", dict(kinds), total=False)  # type: ignore[operator] # names that only the run knows


def _value_of(name: str, values: dict[str, Any]) -> Any:
    return values.get(name)


@dataclass(frozen=True, slots=True)
class Lists:
    arrow: Any
    items: ValueKind
    exact: Any = field(init=False)
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        list_of: Any = list
        object.__setattr__(self, "exact", list_of[self.items.exact] | None)
        object.__setattr__(self, "wide", list_of[self.items.wide] | None)

    def array(self, values: Sequence[Any]) -> Values:
        ends, is_null = _ends(values, is_long=pa.types.is_large_list(self.arrow))
        items = _items(self.items, _joined(values), ends)
        arrays: Any = pa.LargeListArray if pa.types.is_large_list(self.arrow) else pa.ListArray
        return arrays.from_arrays(ends, items, self.arrow, mask=is_null)


@dataclass(frozen=True, slots=True)
class Maps:
    """Reads JSON objects as an Arrow map. Where an object has a name twice, the last value counts."""

    arrow: Any
    items: ValueKind
    exact: Any = field(init=False)
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        map_of: Any = dict
        object.__setattr__(self, "exact", map_of[str, self.items.exact] | None)
        object.__setattr__(self, "wide", map_of[str, self.items.wide] | None)

    def array(self, values: Sequence[Any]) -> Values:
        ends, is_null = _ends(values, is_long=False)
        keys = pa.array(_joined(values), self.arrow.key_type)
        items = _items(self.items, _joined([value.values() for value in values if value]), ends)
        arrays: Any = pa.MapArray
        return arrays.from_arrays(ends, keys, items, self.arrow, mask=is_null)


def _items(kind: ValueKind, items: Sequence[Any], ends: Any) -> Values:
    try:
        return kind.array(items)
    except UnfitValues as error:
        inner = list(error.places)
        # An item that doesn't fit condemns the row that has it, so its place among all items is
        # turned into that of its list.
        outer = np.searchsorted(ends.to_numpy(), inner, side="right") - 1
        raise UnfitValues(dict(zip(outer.tolist(), error.places.values(), strict=True))) from None


def _ends(values: Sequence[Any], *, is_long: bool) -> tuple[Any, Any]:
    """Where the entries of each value end, among those of all; and which values are null."""
    lengths = [len(value) if value else 0 for value in values]
    ends = np.zeros(len(values) + 1, dtype=np.int64 if is_long else np.int32)
    np.cumsum(lengths, out=ends[1:])
    is_null = pa.array([value is None for value in values]) if None in values else None
    return pa.array(ends), is_null


def _joined(values: Iterable[Any]) -> list[Any]:
    return list(chain.from_iterable(value for value in values if value))
