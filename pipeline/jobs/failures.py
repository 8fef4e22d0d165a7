"""Turn Spark's error of a failed query into one line: staticfire's own message, without the text around it.

An error of the data source reaches the caller inside a Python traceback, a Java exception and a report of the query's
plan. The useful part is the one line of staticfire's own exception.
"""

import re

_OWN = re.compile(r"^(?:staticfire|pyspark_staticfire)(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*(.*)")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")
LINE_CHARS_MAX = 500


def one_line(failure: BaseException) -> str:
    """Return the reason of a failure, in one line."""
    text = str(failure)
    own = _OWN.findall(text)
    if own:
        return _shortened(_STATE.sub("", own[-1][1]))
    conditions = _CONDITION.findall(text)
    words = [f"{_STATE.sub('', said)} ({name})" for name, said in conditions if said.strip()]
    if words:
        return _shortened(words[-1])
    return _shortened(next((line.strip() for line in text.splitlines() if line.strip()), type(failure).__name__))


def _shortened(line: str) -> str:
    line = line.strip()
    return line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 1] + "…"


def failures_of_spark() -> tuple[type[Exception], ...]:
    """Return the exceptions that Spark and the bridge to its JVM raise."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, Py4JNetworkError
