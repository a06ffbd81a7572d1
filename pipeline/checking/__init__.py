"""Checks of an application that cost little: on lease rows, positions, ledgers and the metadata of tables. No data
file is read; `headrace prove` does that.

    looking.py    reads what the checks look at, and remembers what the next look needs
    look.py       that, as values
    lag.py        how far each shard is behind, and when it would lose records
    ledgers.py    whether the ranges of each shard form one chain
    hash_keys.py  which hash keys nobody reads
    judge.py      the checks: values in, verdicts out
    verdict.py    what a check says
    hours.py      which hours are complete
"""
