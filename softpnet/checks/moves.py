"""Checks of the walk's proposal and of corruption, by drawing from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from softpnet.checks.kernel import compare_ways, connected_parts, count_proposals
from softpnet.checks.report import count
from softpnet.checks.subject import NotApplicable, Subject
from softpnet.errors import TaskError
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import Diagram
from softpnet.rules.labels import find_labels
from softpnet.rules.make_cache import rows_of

ROWS, STEPS = 2_000, 10
"""Labels: so many rows, spread over the labels (or the same ones again where there are fewer), walk so many steps."""

FEW, COPIES = 200, 16
"""Form: each of so many rows is given so many times in one call, to see that each copy gets its own draw."""

STATES, PROPOSALS, DRAWS = 300, 1_000_000, 10_000
"""Symmetry: so many rows are compared with each other, over so many proposals in all, at most so many of each."""

LINKED, LINKING, LINKS = 5_000, 4_000_000, 5_000
"""Connection: labels with at most so many rows, over so many proposals in all, at most so many of each row."""


def move_is_a_move(subject: Subject) -> str:
    """Rows in, rows out: shape and type stay, the input is left alone, every row gets a draw of its own."""
    move, rows = subject.move, subject.walked_rows(FEW)
    moved = 0
    for copies in (rows.expand(COPIES, -1, -1), rows[:, None].expand(-1, COPIES, -1)):  # [16, M, k], [M, 16, k]
        one, other = _ask_twice(subject, "move", move, copies)
        moved += int((one != copies).any(-1).sum())
        across = 0 if copies.shape[0] == COPIES else 1
        lockstep = all(bool((found == found.narrow(across, 0, 1)).all()) for found in (one, other))
        if lockstep and not torch.equal(one, other):
            raise TaskError(
                f"the move makes one random choice for a whole batch: {COPIES} copies of row {rows[0].tolist()} all "
                "went the same way; draw one per row, e.g. torch.randint(n, rows.shape[:-1], generator=generator)"
            )
    if not moved:
        warnings.warn(f"the move left {count(len(rows), 'row')} where they were: the walk stands still", stacklevel=2)
    share = moved / (2 * COPIES * len(rows))
    return f"{100 * share:.0f} % of the proposals for {count(len(rows), 'row')}, {2 * COPIES} each, were other rows"


def move_keeps_the_label(subject: Subject) -> str:
    generator, move, rows = subject.generator("move label"), subject.move, subject.walked_rows(ROWS)
    here = rows.expand(ROWS // len(rows), -1, -1)  # [B, M, k]
    for _ in range(STEPS):
        there = move(here.clone(), generator)
        label = subject.task.rule(here.clone())
        _require_label(subject, "move", here, there, label, "give a row back unchanged where its label would change")
        here = there
    return f"{len(here) * STEPS} steps from each of {count(len(rows), 'row')} kept the label"


def move_is_symmetric(subject: Subject) -> str:
    """c -> c' is as likely as c' -> c: all small sets of rows are compared, or some rows with their neighbours."""
    generator, move, space = subject.generator("move symmetric"), subject.move, subject.task.space
    states = subject.walked_rows(STATES + 1)
    if len(states) > STATES:
        few = states[:16]
        around = move(few.expand(STATES // len(few), -1, -1).clone(), generator).flatten(0, 1)
        states = torch.cat([few, around]).unique(dim=0)
    draws = min(DRAWS, PROPOSALS // len(states))
    counts = count_proposals(move, space, states, draws, generator)
    found = compare_ways(counts)
    if not found.symmetric:
        i, j = found.worst
        raise TaskError(
            f"the move is not symmetric: in {draws:,} draws, {states[i].tolist()} -> {states[j].tolist()} was "
            f"proposed {int(counts[i, j]):,} times, the way back {int(counts[j, i]):,} times; choose among a fixed "
            "number of changes and stay where one is not possible"
        )
    if not found.telling:
        raise NotApplicable(
            f"too few proposals came back, in {draws:,} draws from each of {count(len(states), 'row')}, to compare"
        )
    return f"{count(found.pairs, 'pair')} of rows, proposed as often both ways in {draws:,} draws from each row"


def move_connects(subject: Subject) -> str:
    """Every row of a label can be reached from every other, where the label has not too many; the compiled rule lists
    them all."""
    move, cache, task = subject.move, subject.cache, subject.task
    counts, rule = cache.counts, compilation(task).rule
    known = subject.walked() & cache.complete  # [L]
    if isinstance(rule, Diagram):
        known = subject.walked() & rule.knows(cache.labels)
        counts = torch.tensor([min(each, LINKED + 1) for each in rule.count(cache.labels)])
    known &= counts <= LINKED
    known &= torch.where(known, counts, 0).cumsum(0) <= LINKED
    wanted = int(known.sum())
    if not wanted:
        raise NotApplicable(f"no label has a complete list of at most {LINKED:,} rows")
    if isinstance(rule, Diagram):
        chosen = zip(cache.labels[known], counts[known].tolist(), strict=True)
        listed = [rows_of(rule, each, size) for each, size in chosen]
        states, label = torch.cat(listed), known.nonzero().flatten().repeat_interleave(counts[known])
    else:
        label = subject.label_of_row()
        states, label = cache.rows[known[label]].long(), label[known[label]]
    draws = min(LINKS, LINKING // len(states))
    part = connected_parts(move, task.space, states, wanted, draws, subject.generator("move connected"))
    parts, place = part.unique(return_inverse=True)
    if len(parts) > wanted:
        of_label = label[parts].bincount(minlength=len(known))  # a part's number is that of a state in it
        split = int(of_label.argmax())
        one, other = parts[label[parts] == split][:2].tolist()
        size = int((place == place[one]).sum())
        raise TaskError(
            f"the move does not connect the rows of label {cache.labels[split].tolist()}: no way from "
            f"{states[one].tolist()} to {states[other].tolist()} in {draws:,} draws from each row ({size:,} of "
            f"{int(counts[split]):,} rows can be reached); allow more kinds of change"
        )
    rows = f"{count(len(states), 'row')} of {count(wanted, 'label')}"
    return f"every row can be reached from every other of its label: {rows}"


def corruption_gives_its_label(subject: Subject) -> str:
    """Rows of the source label -> rows of the corrupted label, always; also for no rows at all."""
    corrupt, cache = subject.corrupt, subject.cache
    if corrupt.label == corrupt.source:
        raise TaskError(f"the corruption turns label {corrupt.source} into itself; expected two different labels")
    at = int(find_labels(cache.labels, torch.tensor([corrupt.source])))
    if at < 0:
        raise TaskError(f"no row has label {corrupt.source}, which the corruption starts from; add rows for it")
    rows = cache.rows[cache.starts[at] :][: min(ROWS, int(cache.counts[at]))].long()
    copies = COPIES * ROWS // len(rows)
    rows = rows.expand(copies, -1, -1)  # [B, M, k]
    corrupted, _ = _ask_twice(subject, "corruption", corrupt.apply, rows)
    label = torch.tensor(corrupt.label)
    _require_label(subject, "corruption", rows, corrupted, label, "draw again until the rule gives that label")
    _ask_twice(subject, "corruption", corrupt.apply, rows[:0])  # a batch may hold no example of this label
    tried = count(rows.shape[1], "row")
    return f"{tried} of label {corrupt.source}, corrupted {copies:,} times each, always had label {corrupt.label}"


def _ask_twice(
    subject: Subject, what: str, function: Callable[[Tensor, Generator], Tensor], rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Two draws for the same rows, after what every function from rows to rows must keep is checked."""
    given = rows.clone()
    generator = subject.generator(what)
    found = function(given, generator)
    if not isinstance(found, Tensor) or found.shape != rows.shape or found.dtype != rows.dtype:
        shown = f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise TaskError(
            f"the {what} turns rows {rows.dtype} {list(rows.shape)} into {shown}, expected the same shape and type; "
            "write it for rows [..., k]"
        )
    changed = (given != rows).any(-1)
    if changed.any():
        raise TaskError(
            f"the {what} writes into its input: row {rows[changed][0].tolist()} is {given[changed][0].tolist()} "
            "afterwards; work on a copy, rows.clone()"
        )
    if not torch.equal(found, function(rows.clone(), subject.generator(what))):
        raise TaskError(
            f"the {what} gives other rows when it is called again with a generator of the same seed; "
            "draw every random number with generator=generator"
        )
    return found, function(rows.clone(), generator)


def _require_label(subject: Subject, what: str, before: Tensor, after: Tensor, wanted: Tensor, fix: str) -> None:
    """Raise where a row `[..., k]` has left the space or has not the wanted label `[...]`, `[..., m]` or `[]`."""
    task = subject.task
    outside = ~task.space.contains(after)
    if outside.any():
        raise TaskError(
            f"the {what} turns {before[outside][0].tolist()} into {after[outside][0].tolist()}, outside the space; "
            f"expected values from 0 to below {list(task.space.sizes)}"
        )
    labels = task.rule(after.clone())
    wanted = wanted.expand(labels.shape)
    wrong = (labels != wanted).reshape(*after.shape[:-1], -1).any(-1)
    if wrong.any():
        raise TaskError(
            f"the {what} turns {before[wrong][0].tolist()} into {after[wrong][0].tolist()}, which has label "
            f"{labels[wrong][0].tolist()}, expected {wanted[wrong][0].tolist()} "
            f"({int(wrong.sum()):,} of {wrong.numel():,}); {fix}"
        )
