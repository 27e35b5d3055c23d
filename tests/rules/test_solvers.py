"""Rules that solvers know: every door leads to the same diagram; what goes wrong is said in one sentence."""

import itertools
import operator
import random
import re
import subprocess
import sys
import tracemalloc

import cpmpy as cp
import pytest
import torch

from softpnet.errors import InputError, TaskError
from softpnet.rules import probe
from softpnet.rules.diagram import NotCompiled
from softpnet.rules.machine import Machine
from softpnet.rules.probe import probed
from softpnet.rules.sifting import sifted
from softpnet.rules.solvers.answer_sets import AnswerSets
from softpnet.rules.solvers.constraints import ConstraintModel
from softpnet.rules.solvers.dimacs import Dimacs
from softpnet.rules.table import from_table
from softpnet.rules.trie import from_rows
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.task import Task
from softpnet.tasks import mnist_evenodd, visual_sudoku

SUMS, BOARDS = mnist_evenodd.SPACE, visual_sudoku.SPACE
PAIRS = ConceptSpace(slots=2, values=3)
UNITS = visual_sudoku.UNITS.tolist()


@pytest.fixture(autouse=True)
def few_checks(monkeypatch):
    """A hundredth of probing's checks, for the time of a test."""
    monkeypatch.setattr(probe, "CHECKS", 10_000)


def exactly_one(variables):
    return [list(variables), *([-a, -b] for a, b in itertools.combinations(variables, 2))]


def write(path, variables, clauses):
    lines = [f"p cnf {variables} {len(clauses)}", *(" ".join(map(str, [*clause, 0])) for clause in clauses)]
    path.write_text("c a formula\n" + "\n".join(lines) + "\n")
    return path


def sums_model(**options):
    x = cp.intvar(0, 9, shape=2)
    return ConstraintModel(x, label=x[0] + x[1], **options)


def sums_formula(folder, **options):
    a, b, total = range(1, 11), range(11, 21), range(21, 40)
    clauses = [*exactly_one(a), *exactly_one(b), *exactly_one(total)]
    clauses += [[-a[i], -b[j], total[i + j]] for i in range(10) for j in range(10)]
    return Dimacs(write(folder / "sums.cnf", 39, clauses), [list(a), list(b)], label=list(total), **options)


def sums_program(**options):
    text = "1 { x(I,0..9) } 1 :- I = 0..1. sum(A + B) :- x(0,A), x(1,B)."
    return AnswerSets(text, ["x(0)", "x(1)"], label="sum", **options)


def sums_doors(folder, order):
    return {
        "table": lambda: from_table(SUMS, mnist_evenodd.label, range(2)),
        "machine": lambda: Machine(0, lambda s, i, v: s + v, lambda s: s, order=order).compiled(SUMS),
        "rows": lambda: from_rows(SUMS, SUMS.all(), SUMS.all().sum(1), range(2), None),
        "CPMpy": lambda: sums_model(order=order).compiled(SUMS),
        "DIMACS": lambda: sums_formula(folder, order=order).compiled(SUMS),
        "answer sets": lambda: sums_program(order=order).compiled(SUMS),
        "probing": lambda: probed(SUMS, mnist_evenodd.label, range(2), SUMS.all()[:0]).diagram,
    }


def board_step(states, cell, values):
    """The values that each row, column and block has, in bits; all bits and one more once a value comes twice."""
    bit = 1 << values
    mine = torch.tensor([cell in unit for unit in UNITS])
    twice = ((states & bit[:, None]) > 0)[:, mine].any(1) | (states[:, 0] == 16)
    after = torch.where(mine, states | bit[:, None], states)
    return torch.where(twice[:, None], 16, after)


def board_model(**options):
    x = cp.intvar(1, 4, shape=16)
    return ConstraintModel(x, constraints=[cp.AllDifferent(x[unit]) for unit in UNITS], offset=1, **options)


def board_formula(folder, **options):
    cells = [range(1 + 4 * cell, 5 + 4 * cell) for cell in range(16)]
    clauses = [clause for cell in cells for clause in exactly_one(cell)]
    clauses += [[-cells[a][v], -cells[b][v]] for u in UNITS for a, b in itertools.combinations(u, 2) for v in range(4)]
    return Dimacs(write(folder / "board.cnf", 64, clauses), [list(cell) for cell in cells], **options)


def board_program(**options):
    units = " ".join(f"unit({number},{cell})." for number, unit in enumerate(UNITS) for cell in unit)
    text = units + "1 { cell(C,1..4) } 1 :- C = 0..15. :- cell(A,V), cell(B,V), unit(U,A), unit(U,B), A < B."
    return AnswerSets(text, [f"cell({cell})" for cell in range(16)], offset=1, **options)


def board_doors(folder, order):
    boards, label = visual_sudoku.boards(), visual_sudoku.label
    return {
        "machine": lambda: Machine(
            (0,) * 12, board_step, lambda s: (s[:, 0] != 16).long(), rule=label, order=order
        ).compiled(BOARDS),
        "rows": lambda: from_rows(BOARDS, boards, label(boards), range(16), torch.tensor(0)),
        "CPMpy": lambda: board_model(order=order).compiled(BOARDS),
        "DIMACS": lambda: board_formula(folder, order=order).compiled(BOARDS),
        "answer sets": lambda: board_program(order=order).compiled(BOARDS),
        "probing": lambda: probed(BOARDS, label, range(16), boards).diagram,
    }


@pytest.mark.parametrize("given", [True, False], ids=["natural order", "sifted"])
def test_every_door_leads_to_the_same_diagram_of_sums(tmp_path, given):
    doors = sums_doors(tmp_path, range(2) if given else None)
    found = {name: make() if given else sifted(make()) for name, make in doors.items()}
    assert [name for name in found if not found[name].same(found["table"])] == []
    assert sum(found["CPMpy"].count(torch.arange(19))) == 100


@pytest.mark.parametrize("given", [True, False], ids=["natural order", "sifted"])
def test_every_door_leads_to_the_same_diagram_of_boards(tmp_path, given):
    doors = board_doors(tmp_path, range(16) if given else None)
    if not given:
        del doors["probing"]  # long, and in the natural order it is the same as the others
    sifted_before = {"machine", "CPMpy", "DIMACS", "answer sets"}
    found = {name: make() if given or name in sifted_before else sifted(make()) for name, make in doors.items()}
    assert [name for name in found if not found[name].same(found["rows"])] == []
    assert found["CPMpy"].count(torch.tensor([0, 1])) == [4**16 - 288, 288]


def test_they_say_where_they_come_from_and_are_rules_of_a_task(tmp_path):
    rules = [board_model(), board_formula(tmp_path), board_program()]
    assert [rule.said for rule in rules] == [
        "from 288 solutions of a CPMpy model",
        "from 288 solutions of the formula board.cnf",
        "from 288 solutions of an answer-set program",
    ]
    rows = torch.cat([visual_sudoku.boards()[:3], torch.zeros(3, 16, dtype=torch.int64)]).view(2, 3, 16)
    for rule in rules:
        task = Task(BOARDS, rule)
        assert task.satisfies(rows, torch.tensor([1, 0])).all()
        assert len(rule.known_rows().rows) == 288 and rule.known_rows().complete.tolist() == [1]


def test_solutions_that_repeat_once_projected_come_once(tmp_path):
    x, free = cp.intvar(0, 2, shape=2), cp.intvar(0, 4, name="free")
    model = ConstraintModel(x, constraints=[x[0] < x[1], free >= x[0]])
    clauses = [*exactly_one([1, 2, 3]), *exactly_one([4, 5, 6])]
    clauses += [[-a, -b] for a, b in [(1, 4), (2, 4), (2, 5), (3, 4), (3, 5), (3, 6)]]
    formula = Dimacs(write(tmp_path / "less.cnf", 9, [*clauses, [7, 8, 9]]), [[1, 2, 3], [4, 5, 6]])
    program = AnswerSets(
        "1 { x(I,0..2) } 1 :- I = 0..1. :- x(0,A), x(1,B), A >= B. { a; b; x(7,0) }.", ["x(0)", "x(1)"]
    )
    for rule in (model, formula, program):
        assert rule.known_rows().rows.tolist() == [[0, 1], [0, 2], [1, 2]]
        assert rule.compiled(PAIRS).count(torch.tensor([1])) == [3]


def test_label_vectors_truth_values_and_offsets(tmp_path):
    """The label [a, b and not a] of a Boolean and a number, where they are not both 1; what is left has -1."""
    space = ConceptSpace(Group((0,), 2, name="a"), Group((1,), 3, name="b"))
    every = space.all()
    truth = torch.stack([every[:, 0], (every[:, 1] * (1 - every[:, 0]))], 1)
    truth[(every[:, 0] == 1) & (every[:, 1] == 1)] = -1
    a, b = cp.boolvar(name="a"), cp.intvar(5, 7, name="b")
    model = ConstraintModel([a, b], label=[a, (b - 5) * ~a], constraints=[~a | (b != 6)], offset=[0, 5])
    text = "1 { a(0..1) } 1. 1 { b(5..7) } 1. :- a(1), b(6). p(A) :- a(A). q((B-5)*(1-A)) :- a(A), b(B)."
    program = AnswerSets(text, ["a", "b"], label=["p", "q"], offset=[0, 5])
    expected = from_table(space, lambda rows: truth[space.keys(rows)], range(2))
    for rule in (model, program):
        assert torch.equal(rule(every), truth)
        assert sifted(expected).same(rule.compiled(space))
    formula = Dimacs(write(tmp_path / "a.cnf", 3, [[1, 2], [-3, 1], [3, -1]]), [1, 2], label=3, other=7)
    assert formula(torch.tensor([[[0, 0], [0, 1]], [[1, 0], [1, 1]]])).tolist() == [[7, 0], [1, 1]]


def cut_doors(folder, **options):
    return [
        sums_model(**options),
        sums_formula(folder, **options),
        sums_program(**options),
    ]


def test_what_a_solver_found_before_it_stopped_is_kept_and_said(tmp_path):
    rows = SUMS.all()
    for rule in cut_doors(tmp_path, limit=10):
        with pytest.raises(
            NotCompiled, match=r"stopped at 10 solutions of .* unknown; raise limit, which is 10, and sec"
        ):
            rule.compiled(SUMS)
        known = rule.known_rows()
        assert len(known.rows) == 10 and torch.equal(known.labels, known.rows.sum(1)) and len(known.complete) == 0
        assert torch.equal(rule(rows), rows.sum(1))  # it is asked about each of them
    with pytest.raises(NotCompiled, match=r"10 solutions of a CPMpy model \(10 % of all\), and the others are unknown"):
        sums_model(limit=10).compiled(SUMS)


def test_a_rule_that_was_cut_off_still_knows_every_label(tmp_path):
    rows = torch.tensor([[0, 1], [1, 1], [2, 1], [1, 2]])
    x, free = cp.intvar(0, 2, shape=2), cp.intvar(0, 9)
    plain = ConstraintModel(x, constraints=[x[0] < x[1]], limit=1)
    hidden = ConstraintModel(x, constraints=[x[0] + free == x[1], free > 0], limit=1)
    program = AnswerSets("1 { x(I,0..2) } 1 :- I = 0..1. :- x(0,A), x(1,B), A >= B.", ["x(0)", "x(1)"], limit=1)
    for rule in (plain, hidden, program):
        assert rule(rows).tolist() == [1, 0, 0, 1]
    assert plain(rows.view(2, 2, 2)).tolist() == [[1, 0], [0, 1]]
    both = ConstraintModel(x, label=[x[0], x[1]], constraints=[x[0] < x[1]], other=[8, 9], limit=1)
    assert both(rows).tolist() == [[0, 1], [8, 9], [8, 9], [1, 2]]


def test_no_solution_in_time_is_said():
    x = cp.intvar(0, 10**6, shape=40)
    slow = ConstraintModel(
        x, constraints=[cp.AllDifferent(x), sum(x[i] * x[i + 1] for i in range(39)) == 7**9], seconds=1e-6
    )
    with pytest.raises(TaskError, match="found no solution of a CPMpy model in 1e-06 s; raise seconds"):
        slow.known_rows()


def test_a_rule_given_beside_the_solver_checks_it():
    x = cp.intvar(0, 2, shape=2)
    fine = ConstraintModel(x, label=x[0] + x[1], rule=lambda c: c.sum(-1))
    assert fine.compiled(PAIRS).count(torch.tensor([2])) == [3]
    with pytest.raises(
        TaskError, match=r"a CPMpy model and its rule disagree on row \[0, 1\]: the solver says 1, the rule 0"
    ):
        ConstraintModel(x, label=x[0] + x[1], rule=lambda c: c.prod(-1)).compiled(PAIRS)
    with pytest.raises(TaskError, match=r"disagree on row .* the solver says 0, the rule 1"):  # a solution is missing
        ConstraintModel(x, constraints=[x[0] < 2], rule=lambda c: c[..., 0] * 0 + 1).compiled(PAIRS)
    with pytest.raises(TaskError, match=r"the rule gives labels of shape \[9, 2\], a CPMpy model \[9\]"):
        ConstraintModel(x, label=x[0] + x[1], rule=lambda c: c).compiled(PAIRS)


def test_an_unsatisfiable_rule_is_refused(tmp_path):
    x = cp.intvar(0, 2, shape=2)
    rules = [
        ConstraintModel(x, constraints=[x[0] < x[1], x[1] < x[0]]),
        Dimacs(write(tmp_path / "no.cnf", 6, [[1], [-1]]), [[1, 2, 3], [4, 5, 6]]),
        AnswerSets("1 { x(0,0..2) } 1. 1 { x(1,0..2) } 1. :- x(0,A), A >= 0.", ["x(0)", "x(1)"]),
    ]
    for rule in rules:
        with pytest.raises(TaskError, match="has no solution at all: no assignment satisfies it"):
            rule.compiled(PAIRS)


def test_variables_must_cover_each_concept_once(tmp_path):
    x = cp.intvar(0, 2, shape=2, name="x")
    path = write(tmp_path / "some.cnf", 4, [[1, 2]])
    program = "1 { x(I,0..2) } 1 :- I = 0..1."
    few = [ConstraintModel(x[:1], label=x[0]), Dimacs(path, [[1, 2, 3]]), AnswerSets(program, ["x(0)"])]
    for rule in few:
        with pytest.raises(TaskError, match="has variables for 1 concepts, but the space has 2; give one for each"):
            rule.compiled(PAIRS)
    with pytest.raises(TaskError, match=r"variable x\[0\] stands for concept 0 and again for concept 1"):
        ConstraintModel([x[0], x[0]], label=x[1])
    with pytest.raises(TaskError, match="variable 2 stands for concept 0 and again for concept 1; give each its own"):
        Dimacs(path, [[1, 2], [3, 2]])
    with pytest.raises(TaskError, match=r"atom x\(1\) stands for concept 0 and again for concept 2"):
        AnswerSets(program, ["x(1)", "x(0)", "x( 1 )"])


def test_values_outside_the_space_are_refused(tmp_path):
    x = cp.intvar(0, 3, shape=2)
    far = r"is row \[0, 3\], which lies outside the space, expected values from 0 to below \[3, 3\]; correct offset="
    with pytest.raises(TaskError, match=far):
        ConstraintModel(x, constraints=[x[0] == 0, x[1] == 3]).compiled(PAIRS)
    with pytest.raises(
        TaskError, match=r"is row \[-1, 0\], which lies outside the space, expected values from 0 or more"
    ):
        AnswerSets("x(0,0). x(1,1).", ["x(0)", "x(1)"], offset=1).compiled(PAIRS)


def test_variables_narrower_than_the_space_are_refused(tmp_path):
    x, y = cp.intvar(1, 2), cp.intvar(-9, 9)
    said = "gives concept 0 values from 0 to 1, but the space has 0 to 2; l"
    narrow = ConstraintModel([x, y], label=x + y, offset=[1, 0])
    formula = Dimacs(write(tmp_path / "some.cnf", 4, [[1, 2]]), [1, [2, 3, 4]])
    for refused in (
        lambda: narrow.compiled(PAIRS),
        lambda: narrow.cp_sat([2], (3, 3)),
        lambda: formula.compiled(PAIRS),
    ):
        with pytest.raises(TaskError, match=said):
            refused()
    wide = ConstraintModel([x, y], constraints=[y >= 0, y < 3], offset=[1, 0])  # what is too wide is not missing
    space = ConceptSpace(Group((0,), 2, name="x"), Group((1,), 3, name="y"))
    assert wide.compiled(space).count(torch.tensor([1])) == [6]


def test_a_solution_gives_every_concept_one_value(tmp_path):
    with pytest.raises(TaskError, match=r"has not one value for concept 1 \(x\(1,V\)\), but none; correct it"):
        AnswerSets("x(0,1). { x(1,2) }.", ["x(0)", "x(1)"]).compiled(PAIRS)
    with pytest.raises(TaskError, match=r"for concept 0 \(x\(V\)\), but several, \[1, 2\]"):
        AnswerSets("x(1..2).", ["x"]).known_rows()
    with pytest.raises(TaskError, match=r"for label 0 \(sum\(V\)\), but none"):
        AnswerSets("x(1).", ["x"], label="sum").known_rows()
    with pytest.raises(TaskError, match=r"formula two.cnf has not one value for concept 0 \(variables 1, 2\)"):
        Dimacs(write(tmp_path / "two.cnf", 2, [[1], [2]]), [[1, 2]]).known_rows()


def test_two_labels_of_one_assignment_are_refused():
    x, free = cp.intvar(0, 2), cp.intvar(0, 1)
    with pytest.raises(
        TaskError, match=r"gives row \[0\] two labels, \[0\] and \[1\]; a rule gives each assignment one"
    ):
        ConstraintModel([x], label=x + free).known_rows()


def test_models_that_make_no_sense_are_refused(tmp_path):
    x = cp.intvar(0, 2, shape=2, name="x")
    with pytest.raises(TaskError, match=r"needs constraints=..., a label=..., or both"):
        ConstraintModel(x)
    with pytest.raises(TaskError, match="concept 1 has 3, expected a CPMpy variable"):
        ConstraintModel([x[0], 3], label=x[0])
    with pytest.raises(TaskError, match="offset has 3 entries, expected a number or one for each of 2 concepts"):
        ConstraintModel(x, label=x[0], offset=[1, 2, 3])
    with pytest.raises(InputError, match="cannot be given to the solver 'nosuch'"):
        ConstraintModel(x, label=x[0], solver="nosuch").known_rows()
    with pytest.raises(InputError, match=r"limit is 0 and seconds is 300.0, expected both above 0"):
        ConstraintModel(x, label=x[0], limit=0)
    with pytest.raises(TaskError, match=r"a label that is undefined for row \["):
        ConstraintModel(x, label=cp.max([x[0] // x[1], 0])).known_rows()
    with pytest.raises(TaskError, match=r"the order of the concepts is \[0, 0\]"):
        ConstraintModel(x, label=x[0], order=[0, 0]).compiled(PAIRS)
    with pytest.raises(TaskError, match="expected an atom without its last argument"):
        AnswerSets("x(1).", ["x(", "y"])
    with pytest.raises(TaskError, match=r"an answer-set program cannot be read: .*syntax error"):
        AnswerSets("x(1) y.", ["x"]).known_rows()
    with pytest.raises(TaskError, match=r"has the atom x\(a\), whose last argument is no whole number"):
        AnswerSets("x(a).", ["x"]).known_rows()
    with pytest.raises(InputError, match=r"there is no file .*nosuch.lp; give the path"):
        AnswerSets(str(tmp_path / "nosuch.lp"), ["x"])
    with pytest.raises(TaskError, match=r"cannot be read: .*python support not available"):  # no code from a file
        AnswerSets("#script (python)\nimport os\n#end.", ["x"]).known_rows()


DIGITS = "1 { x(I,0..9) } 1 :- I = 0..1. "
FITS = [
    "s(10*X+Y) :- x(0,X), x(1,Y).",
    "#const n = 1000. s(N*M) :- x(0,X), x(1,Y), N = X*n+Y, M = n-X.",
    "t(0,1). t(I+1,T*(V+900)) :- t(I,T), x(I,V). s(T) :- t(2,T).",  # T*V can be no larger than what was derived before
    "w(I,10**I) :- I = 0..5. s(N) :- N = #sum { W*V,I : w(I,W), x(J,V), I = 5*J }.",
    "y(V+1) :- x(0,V). s(2*Z) :- y(Z+1). s(0) :- x(0,0).",  # solved for Z
    "s((X/2,Y)) :- x(0,X), x(1,Y). s(V) :- s((V,_)). :- s((A,B)), A+B > 99. s(|X-Y|) :- s((X,Y)).",
    "-a(X) :- x(0,X). s(S+1) :- S = #count { I : x(I,X), -a(X), X < 5 }. % 99999999999 is not counted",
    "s(X\\3 + X**2 + (X&Y) + (X?Y) + (X^Y) - ~X) :- x(0,X), x(1,Y).",
]
LEAVES = {
    "s(X*2147483647+Y) :- x(0,X), x(1,Y).": "2147483647",
    "s(3000000000+X) :- x(0,X).": "3000000000",
    "s(X+0x100000000) :- x(0,X).": "0x100000000",
    "#const n = 65536. s(X) :- x(0,X), not x(1,n*n*X).": "(n*n)*X",
    "s(Z) :- x(0,X), x(1,Y), W = X*50000, Z = (W*50000+Y) \\ 10.": "(W*50000)+Y",
    "s(X) :- x(0,X), (X+1)*65536*65536 = 0.": "((X+1)*65536)*65536",  # which crashes clingo
    "t(70000). t(N*N) :- t(N). s(X) :- x(0,X).": "(N*N)",
    "p(1073741824). s(X) :- x(0,X), p(V), V*4 = X.": "(V*4)",
    "s(X) :- x(0,X), 2147483647 < #sum { 1,I : x(I,3) }.": "2147483647",
    "p(1500000000; 1000000000). s(S) :- S = #sum { V : p(V) }.": "S = #sum { V: p(V) }",
    "s(X) :- x(0,X). #show (X*50000*50000) : s(X).": "(X*50000)*50000",
}


@pytest.mark.parametrize("program", FITS)
def test_arithmetic_that_fits_into_32_bits_is_solved(program):
    AnswerSets(DIGITS + program, ["x(0)", "x(1)"])._program  # noqa: B018


@pytest.mark.parametrize("program", LEAVES)
def test_arithmetic_that_may_leave_32_bits_is_refused(program):
    said = rf"may leave clingo's 32 bits at \(*{re.escape(LEAVES[program])}.*, expected no number above 2,147,483,646; "
    with pytest.raises(TaskError, match=said):
        AnswerSets(DIGITS + program, ["x(0)", "x(1)"], label="s").compiled(SUMS)


def test_a_program_that_another_one_includes_is_looked_at_too(tmp_path):
    (tmp_path / "part.lp").write_text("s(X+4294967296) :- x(0,X).")
    with pytest.raises(TaskError, match=r"32 bits at 4294967296, expected"):
        AnswerSets(f'{DIGITS} #include "{tmp_path / "part.lp"}".', ["x(0)", "x(1)"], label="s").known_rows()


OPERATIONS = {
    "({}+{})": operator.add,
    "({}-{})": operator.sub,
    "({}*{})": operator.mul,
    "({}&{})": operator.and_,
    "({}?{})": operator.or_,
    "({}^{})": operator.xor,
    "({}**3-{})": lambda x, y: x**3 - y,
    "|{}-{}|": lambda x, y: abs(x - y),
    "(~{}-{})": lambda x, y: ~x - y,
}


def random_term(draw, depth):
    """A term of X and Y, and its value for each pair of theirs below 3."""
    if depth == 0:
        number = draw.choice([1, 3, 100, 65536, 10**6, 2**30])
        return draw.choice([("X", [0, 0, 0, 1, 1, 1, 2, 2, 2]), ("Y", [0, 1, 2] * 3), (str(number), [number] * 9)])
    (left, these), (right, those) = random_term(draw, depth - 1), random_term(draw, draw.randrange(depth))
    form = draw.choice(list(OPERATIONS))
    return form.format(left, right), list(map(OPERATIONS[form], these, those))


def test_whatever_arithmetic_is_accepted_is_that_of_whole_numbers():
    draw, accepted = random.Random(0), 0
    for _ in range(150):
        term, truth = random_term(draw, draw.randint(1, 4))
        text = f"1 {{ x(I,0..2) }} 1 :- I = 0..1. s({term}) :- x(0,X), x(1,Y)."
        try:
            assert AnswerSets(text, ["x(0)", "x(1)"], label="s")(PAIRS.all()).tolist() == truth
            accepted += 1
        except TaskError as error:
            assert "may leave clingo's 32 bits" in str(error)
    assert 50 < accepted < 150


def test_a_program_may_be_a_file_and_a_model_may_be_whole(tmp_path):
    (tmp_path / "rule.lp").write_text("1 { x(0..2) } 1. #minimize { X : x(X) }.")
    rule = AnswerSets(tmp_path / "rule.lp", ["x"])
    assert rule.known_rows().rows.tolist() == [[0], [1], [2]]  # what is best does not matter
    assert rule.said == "from 3 solutions of the answer-set program rule.lp"
    x = cp.intvar(0, 2, shape=(1, 2))
    assert len(ConstraintModel(x, constraints=cp.Model(x[0, 0] < x[0, 1])).known_rows().rows) == 3


@pytest.mark.parametrize(
    "text, said",
    [
        ("1 2 0\n", r"line 1: '1 2 0' is no header, expected one like 'p cnf 3 2'"),
        ("c none\n", r"has no header; expected a line like 'p cnf 3 2'"),
        ("p cnf two 1\n1 0\n", r"line 1: 'p cnf two 1' is no header"),
        ("p dnf 2 1\n1 0\n", r"line 1: 'p dnf 2 1' is no header"),
        ("p cnf 2 1\np cnf 2 1\n1 0\n", r"line 2: a second header"),
        ("p cnf 2 1\n\n1 -3 0\n", r"line 3: '-3' is no literal, expected a number from -2 to 2"),
        ("p cnf 2 1\n1 x 0\n", r"line 2: 'x' is no literal"),
        ("p cnf 2 1\n1 " + "9" * 5000 + " 0\n", r"line 2: '9{30,}"),
        ("p cnf 2 1\n1 ² 0\n", r"line 2: '²' is no literal"),
        ("p cnf 2 1\n1 --2 0\n", r"line 2: '--2' is no literal"),
        ("p cnf 2 2\n1 0\n-1 2\n", r"line 3: the last clause \[-1, 2\] does not end with 0"),
        ("p cnf 2 3\n1 0\n-1\n2 0\n", r"has 2 clauses, but its header says 3; is it cut off\?"),
    ],
)
def test_a_damaged_formula_is_refused(tmp_path, text, said):
    (tmp_path / "bad.cnf").write_text(text)
    with pytest.raises(InputError, match=said):
        Dimacs(tmp_path / "bad.cnf", [1, 2])


def test_formulas_are_read_as_people_write_them(tmp_path):
    (tmp_path / "fine.cnf").write_text("c hi\np cnf 3 2\n1 -2\n0 2\n3 0\n%\n0\n")
    rule = Dimacs(str(tmp_path / "fine.cnf"), [1, 2])
    assert rule.formula.clauses == [[1, -2], [2, 3]] and rule.known_rows().rows.tolist() == [[0, 0], [1, 0], [1, 1]]
    with pytest.raises(TaskError, match=r"the formula fine.cnf has no variable 4, expected 1 to 3"):
        Dimacs(tmp_path / "fine.cnf", [1, 4])
    with pytest.raises(InputError, match=r"there is no file .*nosuch.cnf; give the path of a DIMACS file"):
        Dimacs(tmp_path / "nosuch.cnf", [1])
    (tmp_path / "binary.cnf").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"binary.cnf is no text"):
        Dimacs(tmp_path / "binary.cnf", [1])


def test_only_variables_that_a_formula_uses_take_memory(tmp_path):
    path = tmp_path / "promises.cnf"
    path.write_text("p cnf 1000000 1\n1 -7 0\n")
    tracemalloc.start()
    rows = Dimacs(path, [1, 1_000_000]).known_rows().rows
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]] and peak < 10_000_000


@pytest.mark.parametrize("given", [1.0, "1", [1.5, 2], None])
def test_variables_of_a_formula_are_whole_numbers(tmp_path, given):
    path = write(tmp_path / "some.cnf", 3, [[1, 2]])
    said = rf"the variables of a concept or label are {re.escape(repr(given))}, expected whole numbers, as in 1 or"
    with pytest.raises(TaskError, match=said):
        Dimacs(path, [given, 2])


def test_a_missing_package_names_the_command(monkeypatch, tmp_path):
    path = write(tmp_path / "some.cnf", 1, [[1]])
    monkeypatch.setitem(sys.modules, "cpmpy", None)
    monkeypatch.setitem(sys.modules, "clingo", None)
    for door in (lambda: ConstraintModel([]), lambda: Dimacs(path, [1]), lambda: AnswerSets("x(1).", ["x"])):
        with pytest.raises(InputError, match=r"is missing; pip install 'softpnet\[solvers\]' brings it"):
            door()


def test_nothing_heavy_is_imported_before_it_is_used():
    doors = "import sys, softpnet.rules.solvers.constraints as constraints; "
    code = doors + "print([name for name in ('torch', 'cpmpy', 'ortools', 'clingo') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_rule_with_very_many_solutions_is_soon_given_up():
    x = cp.intvar(1, 9, shape=(9, 9))
    blocks = [x[r : r + 3, c : c + 3] for r in (0, 3, 6) for c in (0, 3, 6)]
    rule = ConstraintModel(x, constraints=[cp.AllDifferent(u) for u in [*x, *x.T, *blocks]], offset=1, limit=20)
    with pytest.raises(
        NotCompiled, match="stopped at 20 solutions of a CPMpy model, and how many there are is unknown"
    ):
        rule.compiled(ConceptSpace(slots=81, values=9))
    rows = rule.known_rows().rows
    assert rule(rows[:2]).tolist() == [1, 1] and rule((rows[:2] + 1).clamp_max(8)).tolist() == [0, 0]


def test_a_value_that_a_variable_cannot_have_is_no_solution():
    x = cp.intvar(0, 2, shape=3)
    rows = torch.tensor([[3, 3, 3], [1, 1, 1], [0, 0, 0]])
    for limit in (2, 100):  # asked one by one, and listed
        assert ConstraintModel(x, constraints=[sum(x) >= 3], limit=limit)(rows).tolist() == [0, 1, 0]


def test_a_label_may_be_an_array_of_variables_but_no_number():
    x = cp.intvar(0, 2, shape=2)
    assert ConstraintModel(x, label=x)(torch.tensor([[1, 2]])).tolist() == [[1, 2]]
    with pytest.raises(TaskError, match="the label of a ConstraintModel is 3, expected a CPMpy expression"):
        ConstraintModel(x, label=3)
