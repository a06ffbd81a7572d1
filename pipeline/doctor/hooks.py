"""A check: whether the code that `hooks` and `discovery.tracker` name can be imported. A tick goes on without the
code, and reports that only once.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health

_NAME = "hooks"


def hooks_can_be_imported(case: Case) -> Iterator[Diagnosis]:
    if case.settings is None:
        return
    from headrace.pipeline.errors import BadSetting
    from headrace.pipeline.hooks.code import code_named

    named = {"hooks": case.settings.hooks, "discovery.tracker": case.settings.discovery.tracker}
    for setting, code in named.items():
        if code is None:
            continue
        try:
            code_named(code, case.settings.written.folder, setting=setting)
        except BadSetting as error:
            remedy = "Correct the code or the setting: until then nothing of it is called"
            yield Diagnosis(_NAME, Health.ILL, str(error), remedy)
        else:
            yield Diagnosis(_NAME, Health.WELL, f"{setting}: {code} can be imported")
