"""What commands read of a user's table: the images of every slot, labels and true concepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from softpnet.data.tables import Table
from softpnet.errors import InputError
from softpnet.learner import Learner
from softpnet.rules.compile import compilation
from softpnet.rules.confidence import compiled_rule
from softpnet.rules.function import some_rows
from softpnet.task.data import Examples
from softpnet.task.task import Task


class TableInputs:
    """What is read of the rows of a table, once a batch asks for them: a source of inputs."""

    def __init__(self, table: Table, read: Callable[[Table], Tensor]) -> None:
        self.table, self.read = table, read

    def __len__(self) -> int:
        return len(self.table.rows)

    def __getitems__(self, ids: list[int]) -> list[Tensor]:
        return [*self.read(self.table.some(ids))]


def slot_images(
    model: Learner, columns: Sequence[str], boxes: Sequence[str] = (), resize: bool = False
) -> Callable[[Table], Tensor]:
    """How the inputs `[N, n, C, H, W]` are read of a table: for each slot a column of image files, or a box in one."""
    slots, shape = model.task.space.slots, model.input_shape
    assert shape is not None
    if boxes and len(boxes) != slots:
        raise InputError(f"--boxes names {list(boxes)}, expected {slots} boxes, one per slot")
    if len(columns) != slots and not (boxes and len(columns) == 1):
        one = ", or one for all boxes" if boxes else ""
        raise InputError(f"--columns names {list(columns)}, expected {slots} columns, one per slot{one}")
    if boxes:
        return lambda table: table.crops(columns[0] if len(columns) == 1 else columns, boxes, shape)
    return lambda table: table.images(columns, shape, resize=resize)


def labels_and_concepts(
    task: Task, table: Table, labels: Sequence[str], concepts: Sequence[str]
) -> tuple[Tensor, Tensor | None]:
    """Labels `[N]` or `[N, m]` that the rule can give and, where columns are named for them, true concepts `[N, k]`."""
    entries = task.rule(some_rows(task.space, 1)).shape[1:]
    if len(labels) != (entries[0] if entries else 1):
        parts = f"{entries[0]} columns, one per entry of the label" if entries else "one column"
        raise InputError(f"--labels names {list(labels)}, expected {parts}")
    if concepts and len(concepts) != task.space.k:
        raise InputError(f"--concepts names {list(concepts)}, expected {task.space.k} columns, one per concept")
    found = table.integers(labels if entries else labels[0])
    rule = compiled_rule(task)
    if rule is not None and compilation(task).how == "exact" and not (known := rule.knows(found)).all():
        row, others = int((~known).nonzero()[0]), int((~known).sum()) - 1
        more = f" ({others:,} more rows have labels like it)" if others else ""
        raise InputError(
            f"{table.place(row)}: label {found[row].tolist()} is given by no assignment of task {task.name!r}{more}; "
            "correct the label, or remove the row"
        )
    return found, table.concepts(concepts, task.space) if concepts else None


def contradictions(task: Task, table: Table, examples: Examples) -> list[str]:
    """A sentence where rows have concepts that do not give their label."""
    if examples.concepts is None:
        return []
    same = task.rule(examples.concepts) == examples.labels  # [N] or [N, m]
    wrong = ~(same if same.dim() == 1 else same.all(1))
    if not wrong.any():
        return []
    first = table.place(int(wrong.nonzero()[0]))
    return [f"{int(wrong.sum()):,} of {len(wrong):,} rows have concepts that give another label; the first is {first}"]
