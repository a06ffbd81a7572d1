"""KCL's own rules, exactly, as pure functions.

Our defaults replace most of them (see docs/kcl.md). They are here for tables shared with KCL, for the simulator's
KCL workers and for `make vectors`, which holds them against what the Java library really does.
"""
