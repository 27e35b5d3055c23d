"""Options that take several values take them at once, or one after the other."""

import pytest
import tyro

from softpnet.cli.compare import Compare
from softpnet.cli.options import flat, parse_options
from softpnet.cli.predict import Predict
from softpnet.cli.table import ResultTable
from softpnet.errors import InputError


@pytest.mark.parametrize(
    "command, before, option, values",
    [
        (Predict, ["run", "new.csv"], "columns", ["left", "right"]),
        (Compare, ["my_rule.py"], "methods", ["softpnet", "supervised"]),
        (ResultTable, [], "only", ["results", "pairs"]),
    ],
)
def test_an_option_of_several_values_may_be_repeated(command, before, option, values):
    for given in ([f"--{option}", *values], [f"--{option}", values[0], f"--{option}", values[1]]):
        chosen = tyro.cli(command, args=[*before, *given])
        assert flat(getattr(chosen, option)) == tuple(values)


def test_an_option_of_a_task_that_is_given_twice_is_refused():
    assert parse_options(("a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    with pytest.raises(InputError, match="option 'a' is given 2 times, expected once"):
        parse_options(("a=1", "b=2", "a=3"))
