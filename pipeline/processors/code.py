"""The code of a processor: what its processes need to start, and a text that tells its version in the ledger."""

from __future__ import annotations

import shlex
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.spark.user_code import UserCode, code_beside
from headrace.pipeline.processors.values import ChildSpec, TurnRules
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import Imports


class ProcessorCode:
    """The code of one processor in one run. Modules beside the settings file are read once."""

    def __init__(self, processor: ProcessorSettings) -> None:
        self._processor = processor

    @cached_property
    def user(self) -> UserCode | None:
        """The user's modules beside the settings file; None where the processor is a command, or is installed."""
        folder = self._processor.written.folder
        if not (self._processor.callable and folder):
            return None
        return code_beside(Path(folder).resolve(), self._module)

    @property
    def _module(self) -> str:
        return (self._processor.callable or "").partition(":")[0]

    def check(self) -> None:
        """Raise BadSetting where the processor's module doesn't exist. The module isn't imported by this check:
        the processor's processes import it.
        """
        module = self._module
        if not module or self.user is not None:
            return
        from importlib.util import find_spec

        try:
            # Not imported: what the module does at its import belongs into the processor's own
            # process, with its limits of memory and time.
            is_there = find_spec(module) is not None
        except (ImportError, ValueError):
            is_there = False
        if not is_there:
            raise BadSetting(
                f"there is no module {module} for the processor {self._processor.name}. Nothing was processed; put it "
                f"beside the settings file, or install it, and correct {self._processor.called('callable')}"
            )

    @property
    def child(self) -> ChildSpec:
        processor = self._processor
        return ChildSpec(
            command=tuple(shlex.split(processor.command or "")),
            code=processor.callable or "",
            files=dict(self.user.files) if self.user else {},
            folder=str(Path(processor.written.folder).resolve()) if processor.written.folder else "",
            as_amazon_kclpy=processor.as_amazon_kclpy,
            shares_imports=processor.imports is Imports.SHARED,
            memory=processor.limits.memory,
            cpu=None if processor.limits.cpu is None else int(processor.limits.cpu.total_seconds()),
        )

    @property
    def rules(self) -> TurnRules:
        processor = self._processor
        return TurnRules(
            on_error=processor.on_error,
            tries=processor.tries,
            backoff=processor.backoff.total_seconds(),
            timeout=processor.timeout.total_seconds(),
            grace=processor.shutdown_grace.total_seconds(),
            records=processor.records,
        )

    def text(self) -> str:
        """The name of the processor's code, with digests of the code and of its schema, for the ledger."""
        processor = self._processor
        source = self.user.digest if self.user else ""
        schema = _digest(" ".join(processor.schema.split()))
        return f"{processor.callable or processor.command}, code {_digest(source)}, schema {schema}"


def _digest(text: str) -> str:
    # Each range of the ledger has this text, so that it has to be short.
    return sha256(text.encode()).hexdigest()[:12]
