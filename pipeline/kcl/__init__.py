"""KCL's own rules, exactly, as pure functions.

Our defaults replace most of them (see docs/kcl.md). They are here for tables shared with KCL, for the simulator's
KCL workers and for `make vectors`, which holds them against what the Java library really does.

Rules here that no tick uses, and why they are kept:

    checkpointer            a later step needs them: an application that reads beside KCL checkpoints by these rules
    deaggregate             a later step needs it: records that KPL has packed together
    iterator                a later step needs it: where KCL's readers begin
    lease_count.assign_free KCL's own way beside `spread_free`, which is ours; `make vectors` compares it with KCL's cases
    writes                  `make wire` compares each of KCL's writes with what KCL sends; ticks use `take` only

Rules that nothing but `make vectors` needs lie beside its cases, in tests/vectors/rules.
"""
