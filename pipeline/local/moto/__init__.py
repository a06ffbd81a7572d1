"""DynamoDB, S3 and STS of the stand-in, which are moto's, and what is mended of them."""
