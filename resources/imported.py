"""The fork server (`resources.forked_runs`) imports this module last. From then on Python's garbage collector
leaves out all objects of the modules imported before. Otherwise each run would examine some hundred thousand
objects again and again, and so get a copy of most of their memory.
"""

import gc

gc.collect()
gc.freeze()
