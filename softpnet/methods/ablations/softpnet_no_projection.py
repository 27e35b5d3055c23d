"""Ablation C of Soft-PNet: the walk flips single concepts, and flips that the rule forbids are rejected."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from softpnet.methods import softpnet
from softpnet.rules.moves import switch_one
from softpnet.task.anchors import AnchorSet
from softpnet.task.settings import Settings
from softpnet.task.task import Task


class Method(softpnet.Method):
    """Soft-PNet paper, appendix "Ablation study", Abl-C: anchors and population are kept.

    No flip of one cell keeps a valid Sudoku board valid, so there a working set stays what its first draw made it.
    """

    fixed: ClassVar[dict[str, Any]] = {"targets": "cache"}

    def __init__(self, task: Task, settings: Settings, anchors: list[AnchorSet]) -> None:
        naive = dataclasses.replace(task, move=switch_one(task.space, task.rule))
        super().__init__(naive, settings, anchors)
