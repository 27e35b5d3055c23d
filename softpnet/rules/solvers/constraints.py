"""ConstraintModel: a rule as a CPMpy model, one door to OR-Tools, SAT, SMT and other solvers.

Processes that only search import this file too, so it does without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from softpnet.errors import InputError, TaskError
from softpnet.rules.solvers import LIMIT, SECONDS, Listed, Solutions, check_distinct, offsets, package

if TYPE_CHECKING:
    from torch import Tensor

CHEAP = 0.02
"""So much may be done for each of the next assignments, or as much as the first took."""


class CpSat(NamedTuple):
    """A model of OR-Tools' CP-SAT, as plain data that can go to another process."""

    text: str  # its protocol buffer
    literals: list[list[int]]  # per concept and value: the Boolean that says that the concept has this value


class Search(NamedTuple):
    """What CP-SAT is asked for one example; plain data, that goes to another process."""

    model: CpSat
    costs: list[list[int]]  # per concept and value; none where any assignment will do
    most: int  # how many assignments are wanted
    effort: float


class Found(NamedTuple):
    rows: list[list[int]]  # best first
    exhausted: bool  # whether there are no others


def searched(search: Search) -> Found:
    """The best assignments: one is looked for, forbidden, and the next is looked for, while that is cheap.

    One thread, one seed and an effort that is counted, not timed, give the same answer every time. Where the effort
    ends before the best is proved, the best found so far counts; the next ones are proved, or left out.
    """
    cp_model = package("ortools.sat.python.cp_model")
    program = cp_model.CpModel()
    program.proto.parse_text_format(search.model.text)
    literals = [[program.get_bool_var_from_proto_index(i) for i in each] for each in search.model.literals]
    flat = [pair for each in zip(literals, search.costs, strict=False) for pair in zip(*each, strict=True)]
    if flat:
        program.minimize(cp_model.LinearExpr.weighted_sum(*map(list, zip(*flat, strict=True))))
    for literal, cost in flat:
        program.add_hint(literal, cost == 0)  # the reading
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2  # on Sudoku many times faster than the default
    solver.parameters.catch_sigint_signal = False
    solver.parameters.max_deterministic_time = search.effort
    rows: list[list[int]] = []
    while len(rows) < search.most:
        status = solver.solve(program)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE) or (rows and status != cp_model.OPTIMAL):
            return Found(rows, status == cp_model.INFEASIBLE)
        chosen = [[solver.boolean_value(literal) for literal in each].index(True) for each in literals]
        rows.append(chosen)
        if status != cp_model.OPTIMAL:
            break
        program.add_bool_or([~each[value] for each, value in zip(literals, chosen, strict=True)])
        if len(rows) == 1:
            solver.parameters.max_deterministic_time = max(CHEAP, solver.deterministic_time)
    return Found(rows, False)


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
        check_distinct([[variable.name] for variable in self.variables], "variable")
        vector = isinstance(label, list | tuple) or (hasattr(label, "ndim") and label.ndim > 0)
        self.labels = [] if label is None else _flat(label)
        for entry in self.labels:
            if not isinstance(entry, self.cp.expressions.core.Expression):
                raise TaskError(f"the label of a ConstraintModel is {entry!r:.100}, expected a CPMpy expression")
        entries = len(self.labels) if vector else None
        super().__init__(len(self.variables), label is not None, entries, other, rule, order, limit, seconds)
        self.constraints = _flat(getattr(constraints, "constraints", constraints))  # a Model has them inside
        if label is None and not self.constraints:
            raise TaskError("a ConstraintModel needs constraints=..., a label=..., or both")
        self.offset, self.solver = offsets(offset, self.k), solver
        self._models: dict[tuple[int, ...], CpSat] = {}

    widen = "let its variable take all of them, beside `offset`, and exclude values by a constraint"

    def values(self, place: int) -> range:
        variable, offset = self.variables[place], self.offset[place]
        return range(variable.lb - offset, variable.ub - offset + 1)

    def auxiliary(self) -> list[Any]:
        """Variables that are no concept's."""
        used = self.cp.transformations.get_variables.get_variables([*self.constraints, *self.labels])
        own = {variable.name for variable in self.variables}
        return [variable for variable in used if variable.name not in own]

    def solutions(self) -> Solutions:
        solver = self._solver(self.solver, self.constraints)
        rows: list[list[int]] = []
        labels: list[list[int] | None] = []

        def keep() -> None:
            rows.append([int(v.value()) - o for v, o in zip(self.variables, self.offset, strict=True)])
            labels.append(self._entries())

        solver.solveAll(display=keep, time_limit=self.seconds, solution_limit=self.limit, call_from_model=True)
        known = [each for each in labels if each is not None]
        if len(known) < len(labels):
            raise TaskError(f"{self.what} has a label that is undefined for row {rows[labels.index(None)]}; correct it")
        return Solutions(rows, known, solver.status().exitstatus.name in ("OPTIMAL", "UNSATISFIABLE"))

    def label_of(self, row: list[int]) -> list[int] | None:
        values = [value + o for value, o in zip(row, self.offset, strict=True)]
        if any(not each.lb <= value <= each.ub for each, value in zip(self.variables, values, strict=True)):
            return None  # no value of that variable
        if self.auxiliary():
            fixed = [variable == value for variable, value in zip(self.variables, values, strict=True)]
            return self._entries() if self._solver(self.solver, [*self.constraints, *fixed]).solve() else None
        for variable, value in zip(self.variables, values, strict=True):
            variable._value = value
        hold = self.cp.expressions.utils.argval  # what is undefined does not hold
        return self._entries() if all(hold(each) for each in self.constraints) else None

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
        self.check_sizes(sizes)
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
        if not self.labelled:
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
        """A solver that knows these constraints, and every variable even where none is about it."""
        try:
            solver = self.cp.SolverLookup.get(name)
            solver.add(constraints)
        except Exception as error:
            raise InputError(f"the CPMpy model cannot be given to the solver {name!r}: {error!r:.300}") from error
        solver.user_vars.update([*self.variables, *self.auxiliary()])
        return solver

    def _entries(self) -> list[int] | None:
        """The label's, for the values that the variables have now; None where it is undefined, as 1 // 0 is."""
        try:
            return [int(entry.value()) for entry in self.labels] or [1]
        except self.cp.exceptions.IncompleteFunctionError:
            return None

    def _all_are_solutions(self) -> bool:
        return not self.constraints


def _flat(given: Any) -> list[Any]:
    """Variables or constraints in lists of lists, or arrays, as one list."""
    if isinstance(given, list | tuple) or (hasattr(given, "ndim") and given.ndim > 0):
        return [each for part in given for each in _flat(part)]
    return [given]
