"""A claim of the results page is held against the records."""

import pytest

from softpnet.errors import InputError
from softpnet.experiments.anchors import ANCHORS, SUGGEST
from softpnet.experiments.rows import EXAMPLES, LEAGUE, NOISE, PRECISION, ROWS, Row
from softpnet.report.claims import Claim, claims, told
from softpnet.report.summary import Summary


def summary(name, values):
    seeds = list(range(len(values)))
    return Summary(Row(name, name, "visual_sudoku"), seeds, {"concept_accuracy": values}, [])


@pytest.mark.parametrize(
    "other, verdict", [([90.0, 91.0, 92.5], "above"), ([94.0, 97.0, 95.0], "level"), ([99.0, 99.5, 98.5], "below")]
)
def test_a_claim_that_the_interval_does_not_bear_out_is_refused(other, verdict):
    pair = [summary("ours", [95.0, 96.0, 95.5]), summary("theirs", other)]
    for said in ("above", "level", "below", "not below"):
        claim = Claim("", "ours", "theirs", is_=said)
        if said == verdict or (said == "not below" and verdict != "below"):
            assert told(claim, pair)[1].mean == pytest.approx(95.5 - sum(other) / 3)
        else:
            with pytest.raises(InputError, match=f"is {said} theirs .* which is {verdict}; rewrite the claim"):
                told(claim, pair)


def test_a_claim_waits_for_the_records_of_both_rows():
    claim = Claim("", "ours", "theirs", is_="below")
    assert told(claim, [summary("ours", [95.0, 96.0])]) is None
    assert told(claim, [summary("theirs", [95.0, 96.0])]) is None
    assert told(claim, [summary("ours", [95.0, 95.1]), summary("theirs", [99.0, 99.1])]) is None  # too few seeds


def test_every_claim_names_rows_that_can_be_run():
    known = {row.name for row in (*ROWS, *LEAGUE, *NOISE, *EXAMPLES, *PRECISION, *ANCHORS, *SUGGEST)}
    said = [*claims("recipe"), *claims("paper")]
    assert {name for claim in said for name in (claim.row, claim.over) if name} <= known
