"""AnswerSets: a rule as an answer-set program; clingo lists what its answer sets say about the concepts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from softpnet.errors import InputError, TaskError
from softpnet.rules.solvers import LIMIT, SECONDS, Listed, Solutions, check_distinct, offsets, package
from softpnet.rules.solvers.arithmetic import check_arithmetic
from softpnet.storage import read_plain

Choices = dict[int, int]
"""What says the value of one concept: each value, and the literal that is true where the concept has it."""


class Program(NamedTuple):
    """A program that is ready to be solved."""

    control: Any  # clingo's
    concepts: list[Choices]
    labels: list[Choices]


class Clasp(Listed):
    """A rule that clingo's solver, clasp, lists. Only what the concepts and the label are counts, so that each comes
    once, whatever else a program or formula has."""

    instead = "targets='kbest'"

    @abstractmethod
    def program(self) -> Program:
        """Made once, when it is first needed."""

    @abstractmethod
    def name_of(self, part: str, place: int) -> str:
        """How a person wrote concept or label entry `place`, for errors; part is "concept" or "label"."""

    @cached_property
    def _program(self) -> Program:
        made = self.program()
        with made.control.backend() as backend:
            backend.add_project([abs(c) for each in (*made.concepts, *made.labels) for c in each.values()])
        return made

    def solutions(self) -> Solutions:
        rows: list[list[int]] = []
        labels: list[list[int]] = []
        complete = self._solve([], self.seconds, rows, labels)
        return Solutions(rows, labels, complete)

    def label_of(self, row: list[int]) -> list[int] | None:
        choices = self._program.concepts
        if any(value not in each for value, each in zip(row, choices, strict=True)):
            return None
        labels: list[list[int]] = []
        self._solve([each[value] for value, each in zip(row, choices, strict=True)], None, [], labels)
        return labels[0] if labels else None

    def _solve(self, assumed: list[int], seconds: float | None, rows: list[Any], labels: list[Any]) -> bool:
        """Append what is found, the first one only without a time; whether that is all."""
        control, concepts, entries = self._program
        wrong: list[str] = []

        def keep(model: Any) -> bool:
            try:
                rows.append([self._value(model, each, "concept", place) for place, each in enumerate(concepts)])
                labels.append([self._value(model, each, "label", place) for place, each in enumerate(entries)] or [1])
            except TaskError as error:  # clingo would only say that a callback failed
                wrong.append(str(error))
            return not wrong and seconds is not None and len(rows) < self.limit

        # In another thread, so that this one can stop it.
        with control.solve(assumptions=assumed, on_model=keep, async_=True) as handle:
            handle.wait(seconds)
            handle.cancel()
            complete = bool(handle.get().exhausted)
        if wrong:
            raise TaskError(wrong[0])
        return complete

    def _value(self, model: Any, choices: Choices, part: str, place: int) -> int:
        """The one value that the solution gives to a concept or to an entry of the label."""
        found = [value for value, literal in choices.items() if model.is_true(literal)]
        if len(found) != 1:
            many = f"several, {found}" if found else "none"
            raise TaskError(
                f"a solution of {self.what} has not one value for {part} {place} ({self.name_of(part, place)}), but "
                f"{many}; correct it, so that exactly one is true"
            )
        return found[0]


class AnswerSets(Clasp):
    """A rule as an answer-set program, solved by clingo.

    Args:
        program: its text, or the path of a .lp file.
        concepts: per concept an atom without its last argument, which is the value: "cell(0,1)" for cell(0,1,V).
        label: likewise, "sum" for sum(V), or a list of them for label vectors. Unless given, what an answer set says
            has the label 1, and all else 0.
        offset: a concept's value is the atom's minus this; a number, or one for each concept.
        other: where there is a label, that of an assignment that no answer set has.
        rule: the same as a vectorised function, `[..., k] -> [...]`: it checks what clingo says, and is faster.
        order: in which order the diagram reads the concepts; a good one is looked for unless given.
        limit: listing stops after so many answer sets.
        seconds: and after so long; what was found till then is kept as `known_rows()`.

    >>> import softpnet as sp
    >>> sums = sp.AnswerSets(
    ...     "1 { x(I,0..9) } 1 :- I = 0..1. sum(A + B) :- x(0,A), x(1,B).", ["x(0)", "x(1)"], label="sum")
    """

    def __init__(
        self,
        program: str | Path,
        concepts: Sequence[str],
        label: str | Sequence[str] | None = None,
        *,
        offset: int | Sequence[int] = 0,
        other: int | Sequence[int] = -1,
        rule: Callable[[Tensor], Tensor] | None = None,
        order: Sequence[int] | None = None,
        limit: int = LIMIT,
        seconds: float = SECONDS,
    ) -> None:
        self.clingo = package("clingo")
        labels = [] if label is None else [label] if isinstance(label, str) else list(label)
        self.atoms = {
            "concept": [self._atom(each) for each in concepts],
            "label": [self._atom(each) for each in labels],
        }
        check_distinct([[atom] for atom in self.atoms["concept"]], "atom")
        entries = None if label is None or isinstance(label, str) else len(labels)
        super().__init__(len(concepts), label is not None, entries, other, rule, order, limit, seconds)
        self.offset = offsets(offset, self.k)
        path = Path(program) if isinstance(program, Path) or program.rstrip().endswith(".lp") else None
        self.what = "an answer-set program" if path is None else f"the answer-set program {path.name}"
        self.text = str(program) if path is None else _read(path)

    def program(self) -> Program:
        said: list[str] = []
        control = self.clingo.Control(
            ["0", "--project", "--opt-mode=ignore"], logger=lambda code, message: said.append(message)
        )
        try:
            control.add("base", [], self.text)
            check_arithmetic(self.what, self.text, control)
            control.ground([("base", [])])
        except RuntimeError as error:
            why = " ".join((said[0] if said else str(error)).split())
            raise TaskError(f"{self.what} cannot be read: {why:.300}; correct it") from error
        check_arithmetic(self.what, self.text, control)
        concepts = [
            self._choices(control, atom, offset)
            for atom, offset in zip(self.atoms["concept"], self.offset, strict=True)
        ]
        return Program(control, concepts, [self._choices(control, atom, 0) for atom in self.atoms["label"]])

    def name_of(self, part: str, place: int) -> str:
        atom = self.atoms[part][place]
        return f"{atom.name}({','.join([*map(str, atom.arguments), 'V'])})"

    def _atom(self, text: str) -> Any:
        try:
            atom = self.clingo.parse_term(text, logger=lambda code, message: None)
        except RuntimeError:
            atom = None
        if atom is None or atom.type is not self.clingo.SymbolType.Function or not atom.name:
            raise TaskError(f"a concept or label is {text!r}, expected an atom without its last argument, as cell(0,1)")
        return atom

    def _choices(self, control: Any, atom: Any, offset: int) -> Choices:
        """The atoms of the program that are this one and a value."""
        begin, size = atom.arguments, len(atom.arguments)
        found = [
            each
            for each in control.symbolic_atoms.by_signature(atom.name, size + 1)
            if each.symbol.arguments[:size] == begin
        ]
        for each in found:
            if each.symbol.arguments[-1].type is not self.clingo.SymbolType.Number:
                raise TaskError(f"{self.what} has the atom {each.symbol}, whose last argument is no whole number")
        return {each.symbol.arguments[-1].number - offset: each.literal for each in found}


def _read(path: Path) -> str:
    try:
        return read_plain(path).decode()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; give the path of an answer-set program, or its text") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text: {error}; expected an answer-set program") from error
