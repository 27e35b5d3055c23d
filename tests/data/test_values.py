"""Values are called by name or by number in files, and never taken for others."""

import pytest

from softpnet import InputError
from softpnet.data.values import value_number


@pytest.mark.parametrize(
    "text, names, number",
    [
        ("low", ["low", "high"], 0),
        ("1", ["low", "high"], 1),
        ("00001", ["0", "1", "2"], 1),
        ("1", ["1", "2", "3"], 0),
        ("1", [" 1 ", "0"], 0),
        ("b", [5, "b"], 1),
    ],
)
def test_a_name_comes_before_a_number(text, names, number):
    assert value_number(text, names) == number


@pytest.mark.parametrize(
    "text, names, said",
    [
        ("mid", ["low", "high"], r"'mid', expected one of \['low', 'high'\], or a number from 0 to 1$"),
        ("2", ["low", "high"], "or a number from 0 to 1$"),
        ("-1", ["low", "high"], "or a number from 0 to 1$"),
        ("9" * 5000, ["low", "high"], "or a number from 0 to 1$"),
        ("0", ["1", "2", "3"], r"'0', expected one of \['1', '2', '3'\]$"),
        ("2", ["-1", "0", "1"], r"expected one of \['-1', '0', '1'\]$"),
        ("0", ["0.5", "1.5"], r"expected one of \['0.5', '1.5'\]$"),
        ("x", [f"sign {n}" for n in range(43)], "expected one of 43 names, 'sign 0' to 'sign 42', or a number from 0"),
    ],
)
def test_what_is_neither_or_could_be_two_is_refused(text, names, said):
    with pytest.raises(InputError, match=said):
        value_number(text, names)
