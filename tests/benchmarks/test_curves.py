"""Curves and soaks: what is concluded from what was measured, and that each point can be measured."""

import json

import pytest

from benchmarks.curves.curve import Curve, exponent
from benchmarks.curves.record import CURVES, RECORDED
from benchmarks.figures import Stand
from benchmarks.soak import Look, judge, plot

SMALL = {"body_bytes": 100, "stored": 1_000, "delayed": 1_000}
# Of the others a first point is small enough.


def test_a_cost_that_does_not_depend_on_the_number_grows_not_at_all() -> None:
    assert exponent({10: 4.0, 1_000: 4.0}) == 0


def test_a_cost_in_proportion_grows_like_the_number() -> None:
    assert exponent({10: 40.0, 100: 5.0, 1_000: 50.0}) == pytest.approx(1)


def test_one_point_says_nothing() -> None:
    assert exponent({10: 4.0}) is None


@pytest.mark.slow
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_each_curve_is_measured(curve: Curve) -> None:
    values = curve.measure(SMALL.get(curve.name, curve.points[0]), Stand(0.05, None, is_quick=True))
    assert values.keys() >= curve.columns.keys()


def test_what_is_recorded_is_of_all_curves() -> None:
    recorded = json.loads(RECORDED.read_text())["curves"]
    assert {name: list(map(int, one["values"])) for name, one in recorded.items()} == {
        curve.name: list(curve.points) for curve in CURVES
    }
    assert {name: one["columns"] for name, one in recorded.items()} == {
        curve.name: dict(curve.columns) for curve in CURVES
    }


def looks(servers_mib: list[float], latency_us: float = 500.0) -> list[Look]:
    return [Look(5.0 * at, mib, 40.0, 30, latency_us, at) for at, mib in enumerate(servers_mib)]


def test_memory_that_levels_off_has_not_grown() -> None:
    assert judge(looks([10, 40, 60, 61, 61, 62, 61, 61, 62, 61])) == []


def test_memory_that_climbs_is_reported() -> None:
    (fault,) = judge(looks([10.0 * at for at in range(20)]))
    assert fault.startswith("memory of the servers (MiB) grew from")


def test_a_latency_that_doubles_is_reported() -> None:
    (fault,) = judge(looks([60] * 10) + looks([60] * 10, latency_us=1_000))
    assert "latency" in fault


def test_a_run_of_seconds_is_not_judged() -> None:
    assert judge([]) == ["too short to be judged: a minute at least"]


def test_a_plot_is_as_wide_as_it_may_be() -> None:
    assert plot([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert len(plot([1.0] * 1000, width=60)) <= 60
