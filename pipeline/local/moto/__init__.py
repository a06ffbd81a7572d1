"""DynamoDB, S3 and STS of the stand-in: those of moto, with corrections."""
