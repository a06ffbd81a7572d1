"""The rules of the Kinesis Client Library (KCL), as pure functions that decide as KCL does. docs/reference/kcl-rows.md lists
the differences.

Where Headrace has tables of its own, its defaults replace most of these rules. The rules are used in tables that KCL's
workers share. `make vectors` compares the rules with what the Java library decided in the same cases.

Rules and writes that only `make vectors` and `make wire` need are in tests/vectors/rules.
"""
