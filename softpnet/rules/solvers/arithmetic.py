"""Whether an answer-set program computes with numbers beyond clingo's 32 bits, where they wrap around without a word.

Every term gets a bound on its size, from its constants and from the ground atoms that can bind its variables. The first
operation that wraps around meets only numbers that are still right, so that its own bound is too large.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from softpnet.catalogue import optional_package
from softpnet.errors import TaskError
from softpnet.storage import read_plain

LARGEST = 2**31 - 2
"""One less than clingo's largest number, since clingo reads `> N` as `>= N + 1`."""
UNKNOWN = 2**31
"""The bound of a variable that nothing bounds, and of whatever is larger."""
NUMBER = re.compile(r"(?<!\w)(?:0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|[0-9]+)")
STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|%\*.*?\*%|%[^\n]*', re.DOTALL)
COMPUTES = re.compile(r"[+*/\\&?^~|]|(?<!:)-|#sum|#count")
"""What is in a statement with arithmetic: most of a long program are facts, which need no closer look."""

Literals = Sequence[Any]
"""Of the body and of the conditions around a term: they hold wherever the term counts."""
Signature = tuple[str, int, bool]
"""Of atoms: name, arity and sign."""
Bound = Callable[[], int]


def check_arithmetic(what: str, text: str, control: Any) -> None:
    """Raise where a program may compute with too large numbers.

    `control` has its text. Before it is grounded, this looks at the constants alone: some crash clingo.
    """
    ast = optional_package("clingo.ast", "solvers")
    statements: list[Any] = []
    ast.parse_string(text, statements.append, logger=lambda code, message: None)
    included = {statement.location.begin.filename for statement in statements} - {"<string>"}
    for part in (text, *(read_plain(Path(file)).decode() for file in sorted(included))):
        for number in NUMBER.findall(STRING_OR_COMMENT.sub(" ", part)):
            if len(number) > 40 or int(number, 10 if number.isdecimal() else 0) > LARGEST:
                raise _too_large(what, number)
    bounds = _Bounds(ast, control)
    for statement in statements:
        for node, literals in bounds.nodes(statement) if COMPUTES.search(str(statement)) else ():
            if bounds.result(node, literals) > LARGEST:
                raise _too_large(what, f"{node} in line {node.location.begin.line}")


def _too_large(what: str, term: str) -> TaskError:
    return TaskError(
        f"{what} may leave clingo's 32 bits at {term:.100}, expected no number above {LARGEST:,}; use smaller numbers, "
        "or write the rule as a function, a Machine or a ConstraintModel"
    )


class _Bounds:
    """The largest absolute values of terms, variables and aggregates in a ground program."""

    def __init__(self, ast: Any, control: Any) -> None:
        self.ast, self.kind, self.control = ast, ast.ASTType, control
        self.domains: dict[Signature, tuple[int, list[int]]] = {}

    def nodes(self, node: Any, literals: Literals = ()) -> Iterator[tuple[Any, Literals]]:
        """A node of the syntax tree and all below it, each with its literals."""
        literals = (*literals, *getattr(node, "body", ()), *self.condition(node))
        yield node, literals
        for child in self.children(node):
            yield from self.nodes(child, literals)

    def children(self, node: Any) -> list[Any]:
        parts = [getattr(node, key) for key in node.child_keys]
        return [each for part in parts for each in ([part] if isinstance(part, self.ast.AST) else part or ())]

    def condition(self, node: Any) -> Literals:
        found = getattr(node, "condition", ())
        return found.condition if isinstance(found, self.ast.AST) else found  # of an element in a head's aggregate

    def result(self, node: Any, literals: Literals) -> int:
        """Of what the node itself computes; 0 where it computes nothing."""
        kind = node.ast_type
        if kind is self.kind.UnaryOperation and node.argument.ast_type is self.kind.Function:  # an atom's negation
            return 0
        if kind is self.kind.BinaryOperation or kind is self.kind.UnaryOperation:
            return self.size(node, literals)
        if kind is self.kind.BodyAggregate or kind is self.kind.HeadAggregate:
            guards = [self.size(guard.term, literals) for guard in (node.left_guard, node.right_guard) if guard]
            return self.total(node, literals) + max(guards, default=0)
        return 0

    def size(self, term: Any, literals: Literals, seen: frozenset[str] = frozenset()) -> int:
        """Of the numbers in a term, at most UNKNOWN. Variables that were `seen` on the way here cannot bound it."""
        operator = self.ast.BinaryOperator
        if term.ast_type is self.kind.Variable:
            return self.variable(term.name, literals, seen)
        if term.ast_type is self.kind.SymbolicTerm:  # which may be a name that #const explains
            name = term.symbol.name if term.symbol.type.name == "Function" else ""
            return _largest(self.control.get_const(name) or term.symbol)
        sizes = [self.size(each, literals, seen) for each in self.children(term)]
        found = max(sizes, default=0)  # of a function, interval or pool
        if term.ast_type is self.kind.UnaryOperation:
            found += int(term.operator_type == self.ast.UnaryOperator.Negation)
        elif term.ast_type is self.kind.BinaryOperation:
            left, right = sizes
            found = {
                operator.Plus: left + right,
                operator.Minus: left + right,
                operator.Multiplication: left * right,
                operator.Division: left,
                operator.Modulo: min(left, right),
                operator.Power: left ** min(right, 32),
            }.get(term.operator_type, 2 ** found.bit_length())  # the others are about bits
        return min(found, UNKNOWN)

    def variable(self, name: str, literals: Literals, seen: frozenset[str]) -> int:
        """The least of what it equals; where there is nothing, the most of what clingo solves for it, as p(X + 1)."""
        if name in seen:
            return UNKNOWN
        equal, solved = [UNKNOWN], list[int]()
        for term, bound in self.bindings(literals, seen | {name}):
            shift = self.shift(term, name)
            if shift is not None:
                (equal if term.ast_type is self.kind.Variable else solved).append(bound() + shift)
        return min(equal) if min(equal) < UNKNOWN else min(max(solved, default=UNKNOWN), UNKNOWN)

    def bindings(self, literals: Literals, seen: frozenset[str]) -> Iterator[tuple[Any, Bound]]:
        """Terms that the literals bind, each with a bound of its values."""
        equal = self.ast.ComparisonOperator.Equal
        for literal in literals:
            if literal.ast_type is not self.kind.Literal or literal.sign != self.ast.Sign.NoSign:
                continue
            atom, pairs = literal.atom, list[tuple[Any, Bound]]()
            if atom.ast_type is self.kind.SymbolicAtom:
                for signature, arguments in self.signatures(atom.symbol):
                    pairs += [(term, partial(self.reach, signature, i)) for i, term in enumerate(arguments)]
            elif atom.ast_type is self.kind.Comparison:
                sides = [atom.term, *(guard.term for guard in atom.guards)]
                for guard, left, right in zip(atom.guards, sides, sides[1:], strict=False):
                    both = ((left, right), (right, left)) if guard.comparison == equal else ()
                    pairs += [(one, partial(self.size, other, literals, seen)) for one, other in both]
            elif atom.ast_type is self.kind.BodyAggregate or atom.ast_type is self.kind.Aggregate:
                guards = [guard for guard in (atom.left_guard, atom.right_guard) if guard and guard.comparison == equal]
                pairs += [(guard.term, partial(self.total, atom, literals, seen)) for guard in guards]
            yield from ((part, bound) for term, bound in pairs for part in self.parts(term))

    def parts(self, term: Any) -> list[Any]:
        """What stands in functions and tuples."""
        if term.ast_type is not self.kind.Function or term.external:
            return [term]
        return [part for each in term.arguments for part in self.parts(each)]

    def shift(self, term: Any, name: str) -> int | None:
        """How much larger the variable may be than the term, where that can be solved for it; else None."""
        operator = self.ast.BinaryOperator
        if term.ast_type is self.kind.Variable:
            return 0 if term.name == name else None
        if term.ast_type is self.kind.UnaryOperation and term.operator_type == self.ast.UnaryOperator.Minus:
            return self.shift(term.argument, name)
        if term.ast_type is self.kind.BinaryOperation and term.operator_type in (
            operator.Plus,
            operator.Minus,
            operator.Multiplication,
        ):
            for one, other in ((term.left, term.right), (term.right, term.left)):
                constant = self.size(other, ()) if other.ast_type is self.kind.SymbolicTerm else 0
                inside = self.shift(one, name) if constant else None
                if inside is not None:
                    return inside + constant
        return None

    def signatures(self, symbol: Any, positive: bool = True) -> list[tuple[Signature, Sequence[Any]]]:
        """Of an atom, or of all in a pool; and their arguments."""
        if symbol.ast_type is self.kind.UnaryOperation:
            return self.signatures(symbol.argument, not positive)
        if symbol.ast_type is self.kind.Function:
            return [((symbol.name, len(symbol.arguments), positive), symbol.arguments)]
        return [found for each in self.children(symbol) for found in self.signatures(each, positive)]

    def domain(self, signature: Signature) -> tuple[int, list[int]]:
        """How many ground atoms there are, and the largest number in each argument."""
        if signature not in self.domains:
            found = [atom.symbol.arguments for atom in self.control.symbolic_atoms.by_signature(*signature)]
            self.domains[signature] = len(found), [max(map(_largest, each)) for each in zip(*found, strict=True)]
        return self.domains[signature]

    def reach(self, signature: Signature, place: int) -> int:
        count, largest = self.domain(signature)
        return largest[place] if count else 1

    def total(self, aggregate: Any, literals: Literals, seen: frozenset[str] = frozenset()) -> int:
        """Of an aggregate's value, at most UNKNOWN."""
        function, found = self.ast.AggregateFunction, 0
        counts = aggregate.ast_type is self.kind.Aggregate or aggregate.function == function.Count
        for element in aggregate.elements:
            inside = (*literals, *self.condition(element))
            weight = 1 if counts or not element.terms else self.size(element.terms[0], inside, seen)
            if counts or aggregate.function in (function.Sum, function.SumPlus):
                found += weight * self.instances(element, inside)
            else:
                found = max(found, weight)
        return min(found, UNKNOWN)

    def instances(self, element: Any, literals: Literals) -> int:
        """How many an element of an aggregate can become: the product over atoms that together have all variables."""
        choices, count, bound = [], 1, set[str]()
        for literal in self.condition(element):
            if literal.ast_type is self.kind.Literal and literal.atom.ast_type is self.kind.SymbolicAtom:
                names = {node.name for node, _ in self.nodes(literal) if node.ast_type is self.kind.Variable}
                choices.append((sum(self.domain(each)[0] for each, _ in self.signatures(literal.atom.symbol)), names))
        for size, names in sorted(choices, key=lambda choice: choice[0]):
            count *= size if names - bound else 1
            bound |= names
        for node, _ in self.nodes(element):
            if node.ast_type is self.kind.Interval:
                count *= 2 * self.size(node, literals) + 1
            elif node.ast_type is self.kind.Pool:
                count *= len(node.arguments)
        return count


def _largest(symbol: Any) -> int:
    """The largest absolute value of the numbers in a ground term."""
    if symbol.type.name == "Number":
        return abs(symbol.number)
    return max(map(_largest, symbol.arguments), default=0) if symbol.type.name == "Function" else 0
