"""The local Spark Connect server: one for each project and environment of a user, which ends by itself after its
last user.

    key              which server a process may join: settings file, DAGSTER_HOME, and the environment that the server's workers keep
    users            the processes that use a server. A lock of the operating system tells whether each of them lives
    process          the server's process id, and its end
    watch            a small process beside each server, which ends the server some minutes after its last user
    joining          joining a server that runs, or starting one
    facts            the servers of this host, as `headrace status` and `headrace doctor` show them

A folder for each server, which only its user may read, holds all that belongs to it:

    connect.json     address and token, written once the server listens; without it no process joins the server
    key.json         what the server was started for (`key`)
    server.pid       the server's process id
    server.conf      Spark's configuration of the server
    users/           a file for each process that uses the server, locked as long as that process lives
    unused.json      since when the server has had no user, and when it will end; the file is there only then
    join.lock        locked by a process that joins, starts or ends the server
    watch.lock       locked by the watching process
    logs/            the logs of the last five starts

`users`, `process` and `watch` import nothing but Python's standard library: the watching process then takes 9 MB.
"""
