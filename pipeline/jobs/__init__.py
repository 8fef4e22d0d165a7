"""Jobs on Spark: topics to Parquet exactly once, and what the tables say."""
