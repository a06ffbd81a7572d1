"""The console: one web page that shows any application of KCL 1.x to 3.5, or of Headrace, as it is now.

    headrace console --table orders-consumer --stream orders --region eu-west-1

The page is read-only, and it shows no payload. `serve.serve` serves it on this machine; `once.write_once` writes it
as one file.

    DynamoDB, Kinesis ──► watch ──► picture ──► document ──► server ──► the page (static/)
                          looks     decides     JSON         HTTP

What each part does:

    values        what a picture holds: shards, workers, the leader, lags, risks
    sequence      times that are read from Kinesis's sequence numbers
    family        the shards of a stream, of the lease rows and of Kinesis's list, with parents and generations
    lag           how far behind a shard is, or how far it can be at most
    forecast      whether and when unread records leave the stream
    states        the states of a shard, with their words, and which one a shard is in
    events        what changed between two looks: handovers, reshards, workers that come and go
    stillness     since when locks and workers stand still, and how lags grow
    picture       puts the parts together: one look -> `Picture`
    document      a picture as JSON, and only what changed of it
    pace          when to read the tables again, by what the last reading cost
    watch         reads the tables when a page asks, keeps the last good picture, and turns errors into sentences
    ports         the ports of the watch; `sources`, `metered`, `peek` and `lake` implement them on AWS and Iceberg
    guards        which requests are answered, and the headers of each answer
    server        the page and its JSON over HTTP; `serve` runs it, `once` writes one file
"""
