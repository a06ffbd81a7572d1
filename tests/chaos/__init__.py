"""`make chaos`: an application with all of its processes, which are killed at random while records are put and shards are split and merged.

At the end each record that was put must have landed once, without a person; and what the status, the console and the checks said meanwhile is
compared with the truth, which the ledgers tell afterwards: when each record was put, and when it landed.

    deployment.py    the processes, which are started again when they have died, as Compose or a cluster starts them again
    traffic.py       puts and reshards
    troubles.py      what goes wrong, drawn by a seed
    samples.py       what people and programs were told meanwhile
    truth.py         what was true then, and which of the samples were wrong
    run.py           all of it, and the verdict
"""
