"""SoftG-K: K walked candidates per example, and a cross-entropy towards the best of them; no anchors."""

from __future__ import annotations

from typing import Any, ClassVar

from softpnet.methods import abduction
from softpnet.networks.encoders import lenet


class Method(abduction.Method):
    """The baseline of the Soft-PNet paper that gives SoftG a population of K candidates, drawn uniformly."""

    encoder = staticmethod(lenet)
    fixed: ClassVar[dict[str, Any]] = {
        "targets": "cache",
        "draw_factor": 1,
        "target": "best",
    }
