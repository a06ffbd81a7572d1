"""The rules of the Kinesis Client Library (KCL), as pure functions that decide as KCL does. docs/reference/kcl-rows.md lists
the differences.

Where Headrace has tables of its own, its defaults replace most of these rules. The rules are used in tables that KCL's
workers share. `make vectors` compares the rules with what the Java library decided in the same cases.

The following rules are used by no tick and no run. This is why each of them is kept:

    checkpointer.plan_prepare           a later version needs it: an application that reads beside KCL prepares
                                        checkpoints by this rule
    iterator                            a later version needs it: it tells where KCL's readers begin
    lease_count.assign_free_by_count    KCL's own way; ticks use `spread_free` instead. `make vectors` compares it
                                        with KCL's cases
    writes                              `make wire` compares each write with the request that KCL sends; ticks use
                                        `take` only

Rules that only `make vectors` needs are in tests/vectors/rules.
"""
