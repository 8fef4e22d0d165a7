"""A program for spark-submit: it sends three messages to a cluster of its own, and reads them with Spark."""

from pyspark.sql import SparkSession

from staticfire import Cluster, Message, Producer


def main() -> None:
    """Print the number of rows."""
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with Producer("shop", cluster.namesrv) as producer:
            for number in range(3):
                producer.send(Message("orders", b"%d" % number))
        spark = SparkSession.builder.appName("orders").getOrCreate()
        source = spark.read.format("staticfire").option("nameServer", cluster.namesrv).option("subscribe", "orders")
        print(f"rows: {source.load().count()}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
