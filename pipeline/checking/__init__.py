"""Checks of an application that cost little: on lease rows, positions, ledgers and the metadata of tables. No data
file is read; `headrace prove` does that.

    look.py      what the checks look at, read by `looking.py`
    lag.py       how far each shard is behind, and when it would lose records
    ledgers.py   whether the ranges of each shard form one chain
    judge.py     the checks: values in, verdicts out
"""
