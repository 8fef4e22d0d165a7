"""The errors between Spark and a cluster. Each is one line: what was wanted, what there is, and the fix."""

from staticfire.protocol.errors import StaticfireError


class SourceUnreachable(StaticfireError):
    """The cluster or a broker of it doesn't respond any more, or refuses requests."""


class DataLost(StaticfireError):
    """Messages that the query had to read are gone, and `failOnDataLoss` is true."""


class SparkMissing(StaticfireError):
    """Spark isn't installed, or there is no Java to run it."""


class RowsNotSent(StaticfireError):
    """Rows couldn't be sent, and `failOnError` is true."""


class RowHeldBack(StaticfireError):
    """A row wasn't sent, since an earlier one for its queue has failed: it would overtake that one's next attempt."""

    def __init__(self, cause: StaticfireError) -> None:
        super().__init__(f"not sent, since an earlier row for its queue failed: {cause}")
        self.cause = cause
