"""Reads the coordination tables of any KCL application (2.x to 3.5, or Headrace's own), and shows which worker
reads which shards, and what is wrong.

Only the tables are needed: no settings, no stream, no Dagster, no Spark. Nothing is written; a role that may call
DescribeTable and Scan is enough. In a shell:

    python -m headrace.pipeline.inspect --table orders-consumer --region eu-west-1 --for 30s

In Python:

    from datetime import timedelta

    import boto3
    from headrace.pipeline.inspect.findings import findings_of
    from headrace.pipeline.inspect.looking import look_at_tables

    client = boto3.client("dynamodb", region_name="eu-west-1")
    # Without `watch`, the tables are read once, and the answer comes at once.
    observation = look_at_tables(client, "orders-consumer", watch=timedelta(seconds=30))
    for finding in findings_of(observation):
        print(finding.needs_person, finding.sentence)

What a caller needs:

    looking.look_at_tables      the tables -> an `Observation`, in one call
    findings.findings_of        sentences about an observation, and which of them need a person to act
    as_text.observation_text    an observation as lines for people, as `headrace status` shows it
    as_json.document_of         ... as a dictionary for JSON
    as_csv.write_csv            ... as one CSV line a lease
    as_frame.observe_frame      the tables -> a pandas data frame, one row a lease

How it is made:

    read         the tables -> `TablesRead`: everything that one reading found
    layout       which of KCL's layouts the tables have
    balance      leases counted by worker, and by cluster of workers
    cover        hash keys that no lease covers; child shards that were read before their parents' ends
    compare      one reading, or two of them compared -> `Observation`
    lease_rows   one plain row a lease, for CSV, JSON and data frames
    command      the arguments and the answer of the command
"""
