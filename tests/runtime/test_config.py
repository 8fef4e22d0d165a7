"""Settings from flags, environment and files, and what is said about wrong ones."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from enum import Enum
from pathlib import Path

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import non_defaults
from staticfire.runtime.config_help import describe, example_toml
from staticfire.runtime.loading import load_settings
from staticfire.runtime.ranges import SettingsValue, chars, settings_class, shown, within


class Colour(Enum):
    RED = "RED"
    BLUE = "BLUE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rocket:
    """One rocket."""

    rocket_name: str = "one"
    engine_count: int = 9
    """How many engines."""
    hold_ms: int = field(default=500, metadata=within(0, 100_000))
    tank_bytes_max: int = 1024
    thrust: float = 1.5
    reusable: bool = True
    colour: Colour = Colour.RED
    pad: str = field(default="A", metadata={"choices": ("A", "B")})
    call_sign: str = field(default="ROS", metadata=chars(1, 3))
    crew: tuple[str, ...] = ()
    host: str = field(default="", metadata={"rocketmq": "brokerIP1"})
    fuel_kg: int | None = None


@dataclass(frozen=True)
class Pad:
    pad_height: int = 3


def load(
    overrides: dict[str, str] | None = None, environment: dict[str, str] | None = None, file: Path | None = None
) -> Rocket:
    return load_settings(Rocket, overrides or {}, environment or {}, str(file) if file else None)


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "rocket.toml"
    file.write_text('rocketName = "file"\nengineCount = 1\nholdMs = 7\n')
    environment = {"STATICFIRE_ROCKET_NAME": "environment", "STATICFIRE_ENGINE_COUNT": "2", "STATICFIRE_OTHER": "x"}
    rocket = load({"rocketName": "flag"}, environment, file)
    assert rocket == Rocket(rocket_name="flag", engine_count=2, hold_ms=7)


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("engineCount", "12", Rocket(engine_count=12)),
        ("engine_count", "-1", Rocket(engine_count=-1)),
        ("holdMs", "2s", Rocket(hold_ms=2_000)),
        ("holdMs", "1.5m", Rocket(hold_ms=90_000)),
        ("tankBytesMax", "64MiB", Rocket(tank_bytes_max=64 * 1024 * 1024)),
        ("thrust", "2", Rocket(thrust=2.0)),
        ("reusable", "False", Rocket(reusable=False)),
        ("colour", "BLUE", Rocket(colour=Colour.BLUE)),
        ("pad", "B", Rocket(pad="B")),
        ("crew", "ann; bob", Rocket(crew=("ann", "bob"))),
        ("brokerIP1", "10.0.0.1", Rocket(host="10.0.0.1")),
        ("fuelKg", "5", Rocket(fuel_kg=5)),
        ("fuelKg", "", Rocket(fuel_kg=None)),
    ],
)
def test_text_becomes_what_the_field_is(key: str, text: str, expected: Rocket) -> None:
    assert load({key: text}) == expected


@pytest.mark.parametrize(
    ("key", "text", "takes"),
    [
        ("engineCount", "29*1000", "a whole number"),
        ("engineCount", "2s", "a whole number"),
        ("holdMs", "2 parsecs", r"a unit \(ms, s, m, h, d\)"),
        ("reusable", "maybe", "true or false"),
        ("colour", "GREEN", "RED or BLUE"),
        ("pad", "C", "A or B"),
        ("holdMs", "-1", r"a whole number from 0 to 100000, or one with a unit \(ms"),
        ("holdMs", "2m", "a whole number from 0 to 100000"),
        ("callSign", "", "text of 1 to 3 characters"),
        ("callSign", "ROCK", "text of 1 to 3 characters"),
        ("callSign", "a\x01b", "without control ones"),
        ("rocketName", "x" * 5_000, "text"),
    ],
)
def test_wrong_value_names_key_value_and_what_is_allowed(key: str, text: str, takes: str) -> None:
    with pytest.raises(UsageError, match=takes) as caught:
        load({key: text})
    assert str(caught.value).startswith(f"{key}={shown(text)} (--set)")


def test_wrong_value_of_the_environment_names_the_variable() -> None:
    with pytest.raises(UsageError, match=r"^STATICFIRE_HOLD_MS=-1 \(the environment\)"):
        load(environment={"STATICFIRE_HOLD_MS": "-1"})


def test_unknown_key_names_its_source_and_the_likely_one(tmp_path: Path) -> None:
    file = tmp_path / "rocket.toml"
    file.write_text("engineCuont = 1\n")
    with pytest.raises(UsageError, match=r"unknown setting engineCuont \(.*rocket.toml\): did you mean engineCount\?"):
        load(file=file)


def test_key_of_another_program_is_skipped_where_both_read_the_same_flags() -> None:
    given = {"padHeight": "4", "engineCount": "1"}
    assert load_settings(Rocket, given, {}, None, others=(Pad,)) == Rocket(engine_count=1)
    assert load_settings(Pad, given, {}, None, others=(Rocket,)) == Pad(pad_height=4)
    with pytest.raises(UsageError, match="did you mean padHeight"):
        load_settings(Rocket, {"padHeigth": "4"}, {}, None, others=(Pad,))


def test_broker_conf_is_read_as_rocketmq_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("# a comment\n\nrocketName = two\nreusable=false\n")
    assert load(file=file) == Rocket(rocket_name="two", reusable=False)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "rocketName = ", "is not valid TOML"),
        ("a.toml", "[rocket]\nname = 1", r"\[rocket\] is a table"),
        ("a.conf", "rocketName", "line 1: 'rocketName' must be written as key=value"),
    ],
)
def test_broken_file_is_one_line_of_words(tmp_path: Path, name: str, text: str, words: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        load(file=file)


def test_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(file=tmp_path / "none.toml")


def test_settings_travel_as_text() -> None:
    rocket = Rocket(engine_count=3, reusable=False, colour=Colour.BLUE, crew=("a", "b"), host="h")
    assert load(non_defaults(rocket)) == rocket
    assert non_defaults(Rocket()) == {}


def test_example_file_has_every_setting_and_is_all_defaults(tmp_path: Path) -> None:
    text = example_toml(Rocket)
    assert "# How many engines.\n# engineCount = 9" in text
    file = tmp_path / "example.toml"
    file.write_text(text.replace("# One rocket.", "").replace("# How many engines.", "").replace("# ", ""))
    assert load(file=file) == Rocket()


def test_settings_are_described_from_their_source() -> None:
    rows = {row.key: row for row in describe(Rocket)}
    assert (rows["engineCount"].takes, rows["engineCount"].text) == ("a whole number", "How many engines.")
    assert rows["brokerIP1"].environment == "STATICFIRE_HOST"
    assert rows["pad"].takes == "A or B"


@settings_class
class Fuel(SettingsValue):
    """The fuel of a rocket."""

    name: str
    kilograms: int = 7
    cipher: str = field(default="", metadata={"secret": True})


def test_settings_class_is_a_value_that_cannot_change() -> None:
    fuel = Fuel(name="methane", cipher="moon")
    assert (fuel.name, fuel.kilograms) == ("methane", 7)
    assert replace(fuel, kilograms=8) == Fuel(name="methane", kilograms=8, cipher="moon") != fuel
    assert copy.deepcopy(fuel) == pickle.loads(pickle.dumps(fuel)) == fuel
    assert {fuel, replace(fuel)} == {fuel}
    assert repr(fuel) == "Fuel(name='methane', kilograms=7, cipher=******)"
    with pytest.raises(FrozenInstanceError, match="kilograms"):
        fuel.kilograms = 9  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="kilograms"):
        del fuel.kilograms


def test_settings_class_names_missing_and_unknown_fields() -> None:
    with pytest.raises(TypeError, match="Fuel needs a value for name"):
        Fuel()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Fuel has no setting colour"):
        Fuel(name="methane", colour="blue")  # type: ignore[call-arg]
