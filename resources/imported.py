"""The fork server imports this module last: Python's garbage collector then leaves out all that was imported before.

Else each run would look through some hundred thousand objects again and again, and get a copy of most of their memory
by that.
"""

import gc

gc.collect()
gc.freeze()
