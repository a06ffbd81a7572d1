"""Put numbered records into the stream `orders`, and create it if it isn't there: python put_records.py 200."""

import json
import sys

import boto3

STREAM = "orders"
AT_ONCE = 500  # what PutRecords takes in one request


def main(count: int) -> int:
    kinesis = boto3.client("kinesis")
    try:
        kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    except kinesis.exceptions.ResourceInUseException:
        print(f"the stream {STREAM} is there already")
    kinesis.get_waiter("stream_exists").wait(StreamName=STREAM, WaiterConfig={"Delay": 1})
    failed = 0
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        answer = kinesis.put_records(
            StreamName=STREAM,
            Records=[
                {"Data": json.dumps({"order": n}).encode(), "PartitionKey": f"customer-{n % 50}"}
                for n in numbers
            ],
        )
        failed += answer["FailedRecordCount"]
    print(f"{count - failed} records put into {STREAM}, {failed} refused by Kinesis")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
