"""Dimacs: a rule as a formula in conjunctive normal form, in a DIMACS file; clasp lists what satisfies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from softpnet.errors import InputError, TaskError
from softpnet.rules.solvers import LIMIT, SECONDS, check_distinct, package
from softpnet.rules.solvers.answer_sets import Choices, Clasp, Program
from softpnet.storage import read_plain
from softpnet.task.concepts import integers_of, is_number


class Formula(NamedTuple):
    variables: int  # they are called 1, 2, ...
    clauses: list[list[int]]  # of each clause the literals, one of which is true; -3 says that variable 3 is false


class Dimacs(Clasp):
    """A rule as a Boolean formula. Variables that are no concept's and no label's are auxiliary.

    Args:
        path: the file.
        concepts: per concept a variable, whose value is 1 where it is true; or a list of variables, one for each value,
            of which exactly one is true.
        label: likewise. Unless given, what satisfies the formula has the label 1, and all else 0.
        other: where there is a label, that of an assignment that does not satisfy the formula.
        rule: the same as a vectorised function, `[..., k] -> [...]`: it checks what the solver says, and is faster.
        order: in which order the diagram reads the concepts; a good one is looked for unless given.
        limit: listing stops after so many solutions.
        seconds: and after so long; what was found till then is kept as `known_rows()`.
    """

    def __init__(
        self,
        path: str | Path,
        concepts: Sequence[int | Sequence[int]],
        label: int | Sequence[int] | None = None,
        *,
        other: int = -1,
        rule: Callable[[Tensor], Tensor] | None = None,
        order: Sequence[int] | None = None,
        limit: int = LIMIT,
        seconds: float = SECONDS,
    ) -> None:
        self.clingo = package("clingo")
        path = Path(path)
        self.what = f"the formula {path.name}"
        self.formula = parsed(path)
        self.variables = {"concept": [_listed(each) for each in concepts], "label": []}
        if label is not None:
            self.variables["label"] = [_listed(label)]
        for variable in [v for part in self.variables.values() for each in part for v in each]:
            if not 0 < variable <= self.formula.variables:
                raise TaskError(f"{self.what} has no variable {variable}, expected 1 to {self.formula.variables:,}")
        check_distinct(self.variables["concept"], "variable")
        super().__init__(len(concepts), label is not None, None, other, rule, order, limit, seconds)

    def program(self) -> Program:
        control = self.clingo.Control(["0", "--project"])
        with control.backend() as backend:
            used = {abs(each) for clause in self.formula.clauses for each in clause}
            used |= {each for part in self.variables.values() for variables in part for each in variables}
            atoms = {variable: backend.add_atom() for variable in sorted(used)}  # the header may promise any number
            backend.add_rule(list(atoms.values()), choice=True)
            for clause in self.formula.clauses:  # not all of its literals are false
                backend.add_rule([], [-_literal(atoms, each) for each in clause])
        concepts, labels = ([_choices(atoms, each) for each in self.variables[part]] for part in ("concept", "label"))
        return Program(control, concepts, labels)

    widen = "list a variable for each value, as in [1, 2, 3]"

    def values(self, place: int) -> range:
        return range(max(2, len(self.variables["concept"][place])))

    def name_of(self, part: str, place: int) -> str:
        return f"variables {', '.join(map(str, self.variables[part][place]))}"


def _listed(given: int | Sequence[int]) -> tuple[int, ...]:
    """A Boolean concept's one variable, or those of all values."""
    variables: Any = [given] if is_number(given) else given
    return integers_of("the variables of a concept or label are", variables, "1 or [1, 2, 3]")


def _choices(atoms: dict[int, int], variables: tuple[int, ...]) -> Choices:
    if len(variables) == 1:
        return {0: -atoms[variables[0]], 1: atoms[variables[0]]}
    return {value: atoms[variable] for value, variable in enumerate(variables)}


def _literal(atoms: dict[int, int], literal: int) -> int:
    return atoms[literal] if literal > 0 else -atoms[-literal]


def parsed(path: Path) -> Formula:
    """The formula of a DIMACS file. A line `p cnf VARIABLES CLAUSES`, then clauses that each end with 0."""
    try:
        text = read_plain(path).decode()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; give the path of a DIMACS file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text: {error}; expected a DIMACS file") from error
    header: tuple[int, int] | None = None
    clauses: list[list[int]] = []
    clause: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("c"):
            continue
        if words[0] == "%":  # how some collections end their files
            break
        if words[0] == "p" or header is None:
            if header is not None:
                raise InputError(f"{path}, line {number}: a second header {line!r:.80}; a file holds one formula")
            header = _header(words, f"{path}, line {number}", line)
            continue
        for word in words:
            literal = _number(word)
            if literal is None or abs(literal) > header[0]:
                raise InputError(
                    f"{path}, line {number}: {word!r:.40} is no literal, expected a number from -{header[0]} to "
                    f"{header[0]}"
                )
            if literal:
                clause.append(literal)
            else:
                clauses.append(clause)
                clause = []
    if header is None:
        raise InputError(f"{path} has no header; expected a line like 'p cnf 3 2'")
    if clause:
        raise InputError(f"{path}, line {number}: the last clause {clause!s:.80} does not end with 0")
    if len(clauses) != header[1]:
        raise InputError(f"{path} has {len(clauses):,} clauses, but its header says {header[1]:,}; is it cut off?")
    return Formula(header[0], clauses)


def _header(words: list[str], where: str, line: str) -> tuple[int, int]:
    counts = [_number(word) for word in words[2:]]
    if words[:2] == ["p", "cnf"] and len(counts) == 2:
        variables, clauses = counts
        if variables is not None and clauses is not None and variables > 0 and clauses >= 0:
            return variables, clauses
    raise InputError(f"{where}: {line!r:.80} is no header, expected one like 'p cnf 3 2'")


def _number(word: str) -> int | None:
    """A whole number of a length that a formula's may have."""
    if len(word) > 10 or not word.lstrip("-").isdecimal():
        return None
    try:
        return int(word)
    except ValueError:
        return None
