"""Checks of an application that cost little: on lease rows, positions, ledgers and the metadata of tables. They
read no data file, as `headrace prove` does.

    looking.py    reads what the checks need, and remembers some of it for the next time
    look.py       what was read, as values
    lag.py        how far each shard is behind, and when it would lose records
    ledgers.py    whether the ranges of each shard form one chain
    hash_keys.py  which hash keys nobody reads
    judge.py      the checks: values in, verdicts out
    verdict.py    the result of a check
    hours.py      which hours are complete
"""
