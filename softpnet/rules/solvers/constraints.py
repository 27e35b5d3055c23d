"""ConstraintModel: a rule as a CPMpy model, one door to OR-Tools, SAT, SMT and other solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from softpnet.errors import InputError, TaskError
from softpnet.rules.solvers import LIMIT, SECONDS, Listed, Solutions, check_distinct, offsets, package


class CpSat(NamedTuple):
    """A model of OR-Tools' CP-SAT, as plain data that can go to another process."""

    text: str  # its protocol buffer
    literals: list[list[int]]  # per concept and value: the Boolean that says that the concept has this value


class ConstraintModel(Listed):
    """A rule as CPMpy constraints over one integer or Boolean variable per concept.

    The solutions are listed by a solver, once, when they are first needed. A rule with too many to list has no
    diagram; then `targets='solver'` asks CP-SAT for the best assignment of each example.

    Args:
        variables: the variable of each concept, in a list or an array.
        label: an expression, or a list of them for label vectors. Unless given, the label is 1 where all constraints
            hold, and 0 elsewhere.
        constraints: what every solution satisfies. Where there is a label, what breaks them has the label `other`.
        offset: a concept's value is its variable's minus this; a number, or one for each concept.
        other: see `constraints`.
        rule: the same as a vectorised function, `[..., k] -> [...]`: it checks what the solver says, and is faster.
        order: in which order the diagram reads the concepts; a good one is looked for unless given.
        limit: listing stops after so many solutions.
        seconds: and after so long; what was found till then is kept as `known_rows()`.
        solver: CPMpy's name of the solver that lists them.

    >>> import cpmpy, softpnet as sp
    >>> x = cpmpy.intvar(1, 4, shape=3)
    >>> rule = sp.ConstraintModel(x, constraints=[cpmpy.AllDifferent(x)], offset=1)
    """

    what = "a CPMpy model"
    instead = "targets='solver'"

    def __init__(
        self,
        variables: Any,
        label: Any = None,
        constraints: Any = (),
        *,
        offset: int | Sequence[int] = 0,
        other: int | Sequence[int] = -1,
        rule: Callable[[Tensor], Tensor] | None = None,
        order: Sequence[int] | None = None,
        limit: int = LIMIT,
        seconds: float = SECONDS,
        solver: str = "ortools",
    ) -> None:
        self.cp = package("cpmpy")
        self.variables = _flat(variables)
        single = self.cp.expressions.variables._NumVarImpl
        for place, variable in enumerate(self.variables):
            if not isinstance(variable, single):
                raise TaskError(f"concept {place} has {variable!r:.100}, expected a CPMpy variable, intvar or boolvar")
        check_distinct([variable.name for variable in self.variables], "variable")
        super().__init__(len(self.variables), label, other, rule, order, limit, seconds)
        self.constraints = _flat(getattr(constraints, "constraints", constraints))  # a Model has them inside
        if label is None and not self.constraints:
            raise TaskError("a ConstraintModel needs constraints=..., a label=..., or both")
        self.labels = [] if label is None else list(label) if self.is_vector else [label]
        self.offset, self.solver = offsets(offset, self.k), solver
        self._models: dict[tuple[int, ...], CpSat] = {}

    def auxiliary(self) -> list[Any]:
        """Variables that are no concept's."""
        used = self.cp.transformations.get_variables.get_variables([*self.constraints, *self.labels])
        own = {variable.name for variable in self.variables}
        return [variable for variable in used if variable.name not in own]

    def solutions(self) -> Solutions:
        solver = self._solver(self.solver, self.constraints)
        rows, labels = [], []

        def keep() -> None:
            rows.append([int(v.value()) - o for v, o in zip(self.variables, self.offset, strict=True)])
            labels.append(self._entries())

        solver.solveAll(display=keep, time_limit=self.seconds, solution_limit=self.limit, call_from_model=True)
        return Solutions(rows, labels, solver.status().exitstatus.name in ("OPTIMAL", "UNSATISFIABLE"))

    def label_of(self, row: list[int]) -> list[int] | None:
        values = [value + o for value, o in zip(row, self.offset, strict=True)]
        if self.auxiliary():
            fixed = [variable == value for variable, value in zip(self.variables, values, strict=True)]
            return self._entries() if self._solver(self.solver, [*self.constraints, *fixed]).solve() else None
        for variable, value in zip(self.variables, values, strict=True):
            variable._value = value
        return self._entries() if all(_holds(each) for each in self.constraints) else None

    def cp_sat(self, label: Sequence[int], sizes: Sequence[int]) -> CpSat:
        """CP-SAT's model of the assignments that have this label, made once per label; sizes are the space's.

        Raises where "no solution" is asked for and there are auxiliary variables: it would be a question about all of
        their values, which no such model answers.
        """
        wanted = tuple(int(entry) for entry in label)
        if wanted not in self._models:
            self._models[wanted] = self._cp_sat(wanted, sizes)
        return self._models[wanted]

    def _cp_sat(self, wanted: tuple[int, ...], sizes: Sequence[int]) -> CpSat:
        if len(sizes) != self.k:
            raise TaskError(
                f"{self.what} has variables for {self.k} concepts, but the space has {len(sizes)}; give one for each"
            )
        solver = self._solver("ortools", self._with_label(wanted))
        model, literals = solver.ort_model, []
        for variable, offset, size in zip(self.variables, self.offset, sizes, strict=True):
            number = solver.solver_var(variable)
            each = [model.new_bool_var("") for _ in range(size)]
            model.add_exactly_one(each)
            model.add(sum((value + offset) * literal for value, literal in enumerate(each)) == number)
            for value, literal in enumerate(each):
                model.add(number == value + offset).only_enforce_if(literal)
            literals.append([literal.index for literal in each])
        return CpSat(str(model.proto), literals)

    def _with_label(self, wanted: tuple[int, ...]) -> list[Any]:
        """The constraints of all assignments that have the label."""
        if self.label is None:
            return self.constraints if wanted == (1,) else [self._broken()] if wanted == (0,) else [False]
        same = [entry == value for entry, value in zip(self.labels, wanted, strict=True)]
        other = [self.other] * len(wanted) if isinstance(self.other, int) else self.other
        if not self.constraints or tuple(other) != wanted:
            return [*self.constraints, *same]
        return [self._broken() | self.cp.all(same)]

    def _broken(self) -> Any:
        """At least one constraint does not hold."""
        auxiliary = self.auxiliary()
        if auxiliary:
            raise TaskError(
                f"{self.what} has auxiliary variables, as {auxiliary[0].name}, so that CP-SAT cannot look for an "
                "assignment that is no solution; write the constraints over the concepts alone"
            )
        return ~self.cp.all(self.constraints)

    def _solver(self, name: str, constraints: list[Any]) -> Any:
        """A solver that knows these constraints, and every concept's variable even where none is about it."""
        try:
            solver = self.cp.SolverLookup.get(name)
            solver.add(constraints)
        except Exception as error:
            raise InputError(f"the CPMpy model cannot be given to the solver {name!r}: {error!r:.300}") from error
        solver.user_vars.update(self.variables)
        return solver

    def _entries(self) -> list[int]:
        """The label's, for the values that the variables have now."""
        return [int(entry.value()) for entry in self.labels] or [1]

    def _all_are_solutions(self) -> bool:
        return not self.constraints


def _holds(constraint: Any) -> bool:
    return bool(constraint.value() if hasattr(constraint, "value") else constraint)


def _flat(given: Any) -> list[Any]:
    """Variables or constraints in lists of lists, or arrays, as one list."""
    if isinstance(given, list | tuple) or getattr(given, "ndim", 0):
        return [each for part in given for each in _flat(part)]
    return [given]
