"""Rules of KCL's that no part of the product uses: they are kept for `make vectors`, which shows by their cases that what was
read from KCL's code is understood. They build on `pipeline.kcl`, so the cases of a whole assignment hold its parts too.
"""
