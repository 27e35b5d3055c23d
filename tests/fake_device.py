"""A device that this machine has not: tensors say that they are there, and their numbers are the CPU's.

It goes by the name "meta", since torch refuses to name an accelerator that is not there.
"""

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("meta")
INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
"""Places may be the CPU's, for CUDA too."""
COPIES = ("aten::_to_copy", "aten::copy_", "aten::to")


class There(Tensor):
    """A tensor on the device; `here` are its numbers."""

    here: Tensor

    @staticmethod
    def __new__(cls, here):
        made = Tensor._make_wrapper_subclass(cls, here.shape, strides=here.stride(), dtype=here.dtype, device=DEVICE)
        made.here = here
        return made

    def __repr__(self, **_):  # type: ignore[override]
        return f"There({self.here})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):  # type: ignore[override]
        raise AssertionError(f"{function} was called outside of FakeDevice")


class FakeDevice(TorchDispatchMode):
    """While it is on, tensors can be on the device. It refuses to mix them with the CPU's, and counts what comes back:
    `scalars` that are read, and the sizes of what else is `copied`."""

    def __init__(self):
        super().__init__()
        self.scalars, self.copied = 0, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, function._schema.name
        leaves = tree_leaves((args, kwargs))
        given = [each for each in leaves if isinstance(each, Tensor)]
        there = [each for each in given if isinstance(each, There)]
        named = [each.type == DEVICE.type for each in leaves if isinstance(each, torch.device)]
        ends_there = named[0] if named else bool(there)
        if name in COPIES:
            like = args[1] if function._overloadname == "other" else args[0]
            ends_there = named[0] if named else isinstance(like, There)
            if isinstance(args[1] if name == "aten::copy_" else args[0], There) and not ends_there:
                self._came_back(given[-1] if name == "aten::copy_" else given[0])
        elif there:
            own = [each for each in given if not isinstance(each, There) and each.dim()]
            assert not own or name in INDEXING, f"{function} mixes the device with the CPU"
            random = [each for each in leaves if isinstance(each, torch.Generator)]
            assert not random, f"{function} draws on the device from the CPU's generator"
        args, kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
        args, kwargs = tree_map_only(There, lambda each: each.here, (args, kwargs))
        found = function(*args, **kwargs)
        if there and not isinstance(found, (Tensor, tuple, list)):
            self.scalars += 1
        if not ends_there:
            return found
        if name == "aten::empty":  # torch also makes it of a list of numbers, which it thinks "meta" has no use for
            found.fill_(torch.nan if found.is_floating_point() else torch.iinfo(found.dtype).max)
        return tree_map_only(Tensor, There, found)

    def _came_back(self, tensor):
        if tensor.numel() == 1:
            self.scalars += 1
        else:
            self.copied.append(tuple(tensor.shape))


def moved(module: nn.Module) -> nn.Module:
    """The module, with weights and statistics on the device."""
    for part in module.modules():
        for name, weight in part._parameters.items():
            part._parameters[name] = (
                None if weight is None else nn.Parameter(There(weight.detach()), requires_grad=False)
            )
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else There(buffer)
    return module
