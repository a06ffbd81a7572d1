"""Prints text for people, line by line.

`headrace.pipeline.core.words.words.clean` takes control characters out: names that come from tables could
otherwise control the terminal.
"""

import sys
from typing import TYPE_CHECKING, TextIO

from headrace.pipeline.core.words.words import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.pipeline.typed.done_wave import Wave


def tell(*lines: object, file: TextIO | None = None) -> None:
    """Print each argument as one line, whatever characters it contains; nothing without arguments."""
    if not lines:
        return
    out = sys.stdout if file is None else file
    # Flushed, so that lines on both outputs come in the order in which they were told.
    print(*(clean(str(line)) for line in lines), sep="\n", file=out, flush=True)


def tell_aside(*lines: object) -> None:
    """Print each argument as one line on stderr, because the command's answer on stdout may go into a pipe."""
    tell(*lines, file=sys.stderr)


def tell_waves(
    name: str, waves: "Iterable[Wave]", done: "list[Wave]", *, say: "Callable[[str], None]" = tell
) -> None:
    """Print what each wave did. `name`: the name of the target or the window. `done`: gets the waves, including
    those before one that fails.
    """
    for wave in waves:
        done.append(wave)
        say(f"{name}: {wave}")
        tell_aside(*(f"{name}: {note}" for note in wave.notes))
