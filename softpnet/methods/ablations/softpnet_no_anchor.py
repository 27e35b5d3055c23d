"""Ablation A of Soft-PNet: no anchors; a classifier on the same encoder scores the candidates."""

from __future__ import annotations

from typing import Any, ClassVar

from softpnet.methods import abduction


class Method(abduction.Method):
    """Soft-PNet paper, appendix "Ablation study", Abl-A: the raw network output drives draw, walk and target."""

    fixed: ClassVar[dict[str, Any]] = {}  # candidates and temperatures are Soft-PNet's
