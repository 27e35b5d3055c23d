"""Ablation B of Soft-PNet: one candidate per example (K = 1), a hard target."""

from __future__ import annotations

from typing import Any, ClassVar

from softpnet.methods import softpnet


class Method(softpnet.Method):
    """Soft-PNet paper, appendix "Ablation study", Abl-B: anchors and walk are kept, the KL becomes a cross-entropy."""

    fixed: ClassVar[dict[str, Any]] = {"targets": "cache", "working_set": 1, "target": "best"}
