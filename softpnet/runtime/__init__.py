"""What `softpnet export` wrote, used elsewhere: concepts, labels, and the best reading for a label that is known.

Needs numpy, msgspec and onnxruntime alone; torch only where the file is one of torch's.
"""

from softpnet.errors import InputError
from softpnet.runtime.model import Feasible, Model, Prediction, load

__all__ = ["Feasible", "InputError", "Model", "Prediction", "load"]
