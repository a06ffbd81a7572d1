"""The user's own code that Headrace calls: hooks at changes of workers, leases, tables and shards, and functions
that list streams.
"""
