"""What goes wrong between Spark and a cluster: one line each, with what was wanted, what there is, and the way out."""

from staticfire.protocol.errors import StaticfireError


class SourceUnreachable(StaticfireError):
    """The cluster, or a broker of it, doesn't answer any more, or refuses."""


class DataLost(StaticfireError):
    """Messages that were to be read are gone, and `failOnDataLoss` is true."""


class SparkMissing(StaticfireError):
    """There is no Spark here, or no Java to run it with."""


class RowsNotSent(StaticfireError):
    """Rows that couldn't be sent, and `failOnError` is true."""
