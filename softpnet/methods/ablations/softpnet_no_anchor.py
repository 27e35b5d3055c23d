"""Ablation A of Soft-PNet: no anchors; a classifier on the same encoder scores the candidates."""

from __future__ import annotations

from softpnet.methods.classified import GroundedClassifier


class Method(GroundedClassifier):
    """Soft-PNet paper, appendix "Ablation study", Abl-A: the raw network output drives draw, walk and target."""
