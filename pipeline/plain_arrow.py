"""Arrow arrays made of buffers, for what every staging task does.

`pa.array` and `pa.scalar` convert values of Python, and import pandas for it where pandas is installed: a third of a CPU second in each new
worker of Spark. numpy's arrays and equal values need no conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def of_numpy(values: np.ndarray[Any, Any], type_: pa.DataType) -> Any:
    """The same numbers, not copied. `type_`: an Arrow type whose values lie in memory as numpy's do."""
    import pyarrow as pa

    if values.dtype.itemsize * 8 != type_.bit_width or not values.flags.c_contiguous:
        raise TypeError(f"{values.dtype} doesn't lie in memory as {type_} does")
    memory: Any = values  # stubs of pyarrow do not know that it takes arrays of numpy
    return pa.Array.from_buffers(type_, len(memory), [None, pa.py_buffer(memory)])


def same_text(text: str, count: int) -> Any:
    """A column with the same text in each row."""
    import pyarrow as pa

    each = text.encode()
    offsets = (
        np.arange(0, (count + 1) * len(each), len(each), dtype=np.int32)
        if each
        else np.zeros(count + 1, np.int32)
    )
    memory: Any = offsets
    buffers = [None, pa.py_buffer(memory), pa.py_buffer(each * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def one_text(text: str) -> Any:
    """A scalar of Arrow."""
    return same_text(text, 1)[0]
