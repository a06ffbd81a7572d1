"""The Kinesis stream: its shards for those who coordinate, its pages for those who read."""

from pipeline.ports import Pages, ShardSource
from pipeline.settings import Settings
from resources.aws import AwsResource, where


class StreamResource(AwsResource):
    @classmethod
    def of(cls, settings: Settings) -> "StreamResource":
        return cls(**where(settings.aws))

    def source(self) -> ShardSource:
        from pipeline.aws.clients import kinesis_client
        from pipeline.aws.kinesis import KinesisSource

        return KinesisSource(kinesis_client(self.aws))

    def pages(self) -> Pages:
        from pipeline.aws.clients import kinesis_client
        from pipeline.aws.pages import KinesisPages

        client = kinesis_client(self.aws)
        return KinesisPages(region=client.meta.region_name, endpoint=self.endpoint_url)
