"""Code of the user's own that Headrace calls: hooks at changes of workers, leases, tables and shards, and lists of streams."""
