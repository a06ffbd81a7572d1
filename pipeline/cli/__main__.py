"""`python -m pipeline.cli`, the same as `headrace`."""

import sys

from pipeline.cli import main

sys.exit(main())
