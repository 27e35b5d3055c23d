"""SoftG: one walked candidate per example, scored by a LeNet's own output; no anchors."""

from __future__ import annotations

from typing import Any, ClassVar

from softpnet.methods import softg_k


class Method(softg_k.Method):
    """Li et al., Softened Symbol Grounding for Neuro-symbolic Systems (ICLR 2023), as the Soft-PNet paper runs it.

    The candidate is drawn uniformly from the cached rows of the label, takes one Metropolis step at every later
    encounter, and is the target of a cross-entropy.
    """

    fixed: ClassVar[dict[str, Any]] = softg_k.Method.fixed | {"working_set": 1}
