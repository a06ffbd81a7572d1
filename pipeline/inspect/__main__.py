"""`python -m headrace.pipeline.inspect --table NAME`: look at any KCL application, without settings."""

import argparse
import os
import sys
from collections.abc import Sequence

from headrace.pipeline.core.words.words import clean
from headrace.pipeline.errors import HeadraceError, Transient
from headrace.pipeline.inspect.command import add_inspect_arguments, answer, place_arguments, table_names_in
from headrace.pipeline.settings.blocks.aws import AwsSettings

STOPPED, TRY_LATER, INTERRUPTED, OUTPUT_CLOSED = 2, 75, 130, 141
"""Exit codes, the same as those of the `headrace` command."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m headrace.pipeline.inspect",
        description="Show which worker reads which shard, from the coordination tables of any KCL application (2.x "
        "to 3.5). The command writes nothing.",
    )
    add_inspect_arguments(parser, table_is_required=True)
    args = parser.parse_args(argv)
    try:
        code = answer(args, table_names_in(args), AwsSettings(**place_arguments(args)))
        sys.stdout.flush()
    except HeadraceError as error:
        print(f"inspect: {clean(' '.join(str(error).split()))}", file=sys.stderr)
        return TRY_LATER if isinstance(error, Transient) else STOPPED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more when it ends, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    return code


if __name__ == "__main__":
    sys.exit(main())
