"""Names that are imported when they are first used."""

import pytest

import staticfire


def test_a_name_of_rocketmqs_java_client_says_what_it_is_called_here() -> None:
    with pytest.raises(ImportError, match="staticfire has no ConsumeOrderlyStatus: it is called OrderedStatus here"):
        from staticfire import ConsumeOrderlyStatus  # noqa: F401


def test_each_of_these_names_leads_to_one_that_is_there() -> None:
    names = staticfire._JAVA_NAMES.values()  # house: users see one at a time, in an error
    assert [name for name in names if name not in staticfire.__all__] == []


def test_any_other_unknown_name_is_no_attribute() -> None:
    assert not hasattr(staticfire, "Nonsense")
