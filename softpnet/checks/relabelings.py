"""The simplest reasoning shortcuts, counted: relabelings of the values that leave every training example its label."""

from __future__ import annotations

from softpnet.checks.report import attribute_names, count, listed
from softpnet.checks.subject import NotApplicable, Subject, warned
from softpnet.rules import relabelings
from softpnet.rules.relabelings import Values, enough
from softpnet.task.concepts import ConceptSpace

NAMED = 8
"""No more values are named in a list."""


def no_relabeling_fits(subject: Subject) -> str:
    """Counts the relabelings that fit, and names a few values whose anchors alone would rule them out.

    A relabeling takes each value of an attribute for one of its values, in all slots alike, as a network might that
    gets every label right; two may be taken for the same.
    """
    task, concepts = subject.task, subject.data.train.concepts
    if concepts is None:
        raise NotApplicable("the training examples have no true concepts, so that it is not known what occurs")
    rows = concepts.long().unique(dim=0)  # [M, k]
    if not task.space.consist_of_primitives(rows).all():
        raise NotApplicable("some training examples have a combination of values that is no primitive (see 'concepts')")
    found = relabelings.fitting_relabelings(task.space, rows, task.rule)
    if found is None:
        return warned(
            f"more than {relabelings.LIMIT:,} relabelings of the values would have to be followed at a time, or "
            f"{relabelings.TRIED:,} in all; they are not counted, so that shortcuts of this kind are neither found nor "
            "ruled out"
        )
    values, (plain, names) = Values(task.space), _value_names(task.space)
    examples = count(len(rows), "different assignment")
    absent = (found[0] < 0).nonzero().flatten()
    if len(absent):
        examples += f", none with {listed([names[v] for v in absent], NAMED)}"
    wrong = (found >= 0) & (found != values.number)  # [S, V]
    found, wrong = found[wrong.any(1)], wrong[wrong.any(1)]
    if not len(wrong):
        return f"no relabeling of the values keeps the labels of all training examples ({examples})"
    nearest = int(wrong.sum(1).argmin())
    moved = wrong[nearest].nonzero().flatten()
    taken = moved - values.number[moved] + found[nearest, moved]  # the places of what they are taken for
    told = listed([f"{names[v]} for {plain[w]}" for v, w in zip(moved, taken, strict=True)], NAMED)
    few = listed([names[v] for v in enough(wrong)], NAMED)
    keep = "relabeling of the values keeps" if len(wrong) == 1 else "relabelings of the values keep"
    return warned(
        f"{len(wrong):,} {keep} the labels of all training examples ({examples}), such as to take {told}; "
        f"anchors of {few} alone would rule out every one, so choose those with care"
    )


def _value_names(space: ConceptSpace) -> tuple[list[str], list[str]]:
    """The names of all values, plain, and with the attribute before them where two attributes share a name."""
    named = [(who, names) for group in space.groups for who, names in attribute_names(space, group)]
    plain = [name for _, names in named for name in names]
    unique = len(set(plain)) == len(plain)
    return plain, plain if unique else [who + name for who, names in named for name in names]
