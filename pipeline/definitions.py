"""The code location of one application: the module that `dagster dev -m headrace.pipeline.definitions` loads.

The settings are read when the module is imported. A project with a code location of its own calls
`headrace.build_definitions` instead.
"""

import os
import warnings

import dagster as dg

from headrace.pipeline.building import build_definitions
from headrace.pipeline.settings.file import read_settings
from headrace.resources.forked_runs import fork_runs

# While Dagster puts the definitions together, it warns of a parameter that it sets itself.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
defs = dg.Definitions.merge(
    build_definitions(read_settings(None, os.environ).settings),
    # Dagster's own executor, which a person's runs in Dagster's UI have, starts a process for each step: a run has one
    # step, and would begin to read seconds later. The application's jobs name this executor themselves.
    dg.Definitions(executor=dg.in_process_executor),
)
fork_runs()
