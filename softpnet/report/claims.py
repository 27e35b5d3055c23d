"""What the pages of results claim, from claims.toml: each claim is held against the records that it names."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal, get_args

import msgspec

from softpnet.errors import InputError
from softpnet.report.summary import Comparison, Summary, compare

Verdict = Literal["above", "level", "below"]
"""Whether the 95 % interval of a difference is above zero, around it, or below it."""


class Claim(msgspec.Struct, forbid_unknown_fields=True):
    """A sentence about the mean of a row or, with `over`, about its difference to another on the same seeds."""

    says: str
    row: str
    over: str = ""
    metric: str = "concept_accuracy"
    is_: Verdict | Literal["not below"] | None = msgspec.field(name="is", default=None)


FEWEST = 3
"""Seeds that both rows of a claim must have: an interval of two says nothing."""


About = Literal["recipe", "paper"]
"""Whether claims are about the default recipe, or about the paper's settings."""


def claims(about: About) -> list[Claim]:
    read = tomllib.loads(files("softpnet.report").joinpath("claims.toml").read_text(encoding="utf-8"))
    return msgspec.convert(read[about], list[Claim])


def told(claim: Claim, summaries: Sequence[Summary]) -> tuple[Summary, Comparison | None] | None:
    """The row's records and how they differ from the other's; None while one of them has too few.

    Raises where the records say something else than the claim.
    """
    there = {summary.row.name: summary for summary in summaries}
    if claim.row not in there:
        return None
    ours = there[claim.row]
    if not claim.over:
        return ours, None
    found = compare(ours, there[claim.over], claim.metric) if claim.over in there else None
    if found is None or found.seeds < FEWEST:
        return None
    borne_out = {"not below": ("level", "above"), None: get_args(Verdict)}.get(claim.is_, (claim.is_,))
    if verdict(found) not in borne_out:
        raise InputError(
            f"claims.toml says that {claim.row} is {claim.is_} {claim.over} on {claim.metric}, but the difference is "
            f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f}), which is {verdict(found)}; rewrite the claim"
        )
    return ours, found


def verdict(found: Comparison) -> Verdict:
    return "above" if found.low > 0 else "below" if found.high < 0 else "level"
