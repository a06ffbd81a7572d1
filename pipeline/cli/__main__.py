"""`python -m headrace.pipeline.cli`, the same as `headrace`."""

import sys

from headrace.pipeline.cli import main

sys.exit(main())
