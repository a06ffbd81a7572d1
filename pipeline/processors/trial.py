"""Tries whether the code of a processor can be loaded: its process is started as a task starts it, and gets no
message.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.code import ProcessorCode
from headrace.pipeline.processors.starting import folder_of, start_child
from headrace.pipeline.settings.blocks.processors import ProcessorSettings

_WITHIN = 60.0
"""Seconds that the code has to be imported, and its process to end."""


def why_not_loaded(processor: ProcessorSettings) -> str:
    """Why the code can't be loaded on this host; empty where it can. For a command it is only checked that the
    program exists: it isn't started, because nobody knows what it does before its first message.
    """
    code = ProcessorCode(processor)
    try:
        code.check()
        child = code.child
    except (HeadraceError, ValueError, OSError) as error:
        return str(error)
    if child.command:
        place = child.folder if Path(child.folder).is_dir() else None
        path = os.pathsep.join([os.environ.get("PATH", os.defpath)])
        program = child.command[0]
        here = Path(place or ".", program) if os.sep in program else program
        return "" if shutil.which(str(here), path=path) else f"there is no program {program} on this host"
    with folder_of(child) as folder:
        process = start_child(child, folder)
        try:
            # At the end of its input a processor ends, without any call.
            process.end_input()
            process.hear(within=_WITHIN)
        except ChildFailed as failed:
            return "" if process.process.poll() == 0 else str(failed)
        finally:
            process.kill()
    return ""
