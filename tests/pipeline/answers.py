"""Answers of an analysis, made by hand, for tests of the page."""

from staticfire.pipeline.jobs.answers import Answers, Consumer, Dead, Latency, Moment, Series, Try

ANSWERS = Answers(
    stored=101,
    messages=100,
    latency=Latency(98, 100.0, 180.0, 198.0, 200.0, tuple(float(part) for part in range(201))),
    series=Series(1_000_000, 100, tuple(Moment(at * 100, 10, 9, 50.0, 90.0) for at in range(10))),
    consumers=(Consumer("one", 60, 2, 1_000_000, 1_000_400), Consumer("two", 40, 2, 1_000_500, 1_001_000)),
    tries=(Try(0, 101, 100, 98, 2, 0.0), Try(1, 2, 2, 0, 2, 10_200.0), Try(2, 2, 2, 0, 2, 40_400.0)),
    dead=Dead(2, 2, 40_500.0),
    handled_again=1,
)
