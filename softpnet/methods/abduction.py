"""Abduction: the K best feasible candidates, weighted by their probability, teach a plain classifier; no anchors."""

from __future__ import annotations

from typing import Any, ClassVar

from softpnet.methods.classified import GroundedClassifier


class Method(GroundedClassifier):
    """After He et al., Ambiguity-Aware Abductive Learning (ICML 2024), which ABLkit ships as A3BL.

    The candidates are the most probable of S(y) at every encounter, not walked: from the complete list of the label
    where there is one, else k-best. Their weights are their joint probabilities, normalised (gamma = 1).
    """

    fixed: ClassVar[dict[str, Any]] = {
        "targets": "auto",
        "target": "soft",
        "gamma": 1.0,
        "gamma_decay": 1.0,
    }
