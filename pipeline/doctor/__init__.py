"""`headrace doctor`: checks whether this host, this project, its settings and its application are as Headrace
needs them. It changes nothing.

diagnosis      what a check has found, in a sentence, and what to do about it
case           what the checks look at: the settings, as far as they can be read, the environment, and the ports
checks         the lists of all checks; a new one is a function and a line there

on this host
    settings       the settings file
    versions       Python and the installed packages
    java           Java, where a worker uses a Spark that Headrace starts
    spark_server   the project's local Spark server, and other servers of this user
    spark          whether each worker's Spark is reached, and its tasks can import what they need
    dagster_home   Dagster's instance and its daemon
in AWS
    clock          whether AWS answers, and whether both clocks agree
    rights         what AWS allows this process, by calls (in dry_calls) that change nothing
    coordination   the coordination tables and their index
    invariants     workers, leader, leases and shards; other applications on the lake table
    upkeep         whether expiry keeps up with commits
"""
