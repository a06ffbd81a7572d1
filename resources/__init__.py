"""Configuration in, a port out: what Dagster's assets and sensors are handed. No logic lives here."""
