"""What objects say of themselves to savers."""


class SaveSpec:
    """A tensor to save.

    Args:
      tensor: the tensor, or a function that makes it.
      slice_spec: the part of a larger tensor that it is, such as
        "10 20 0,10:5,3"; "" for all of it.
      name: its name in the checkpoint.
      dtype: its type; needed if `tensor` is a function.
      device: its device; needed if `tensor` is a function.
    """

    def __init__(self, tensor, slice_spec, name, dtype=None, device=None):
        if callable(tensor) and (dtype is None or device is None):
            raise ValueError("When passing a callable `tensor` to a SaveSpec, "
                             "an explicit dtype and device must be provided.")
        self._tensor, self.slice_spec, self.name = tensor, slice_spec, name
        self.dtype = dtype if dtype is not None else tensor.dtype.base_dtype
        self.device = device if device is not None else tensor.device

    @property
    def tensor(self):
        """The tensor."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """The base class of what savers save.

    Args:
      op: the operation or the tensor whose device is that of the saving.
      specs: the SaveSpecs of its tensors.
      name: its name.
    """

    def __init__(self, op, specs, name):
        self.op, self.specs, self.name = op, specs, name

    @property
    def device(self):
        """The device of the saving."""
        return self.specs[0].device

    def restore(self, restored_tensors, restored_shapes):
        """Makes the operation that restores it.

        Args:
          restored_tensors: what was saved, in the order of `specs`.
          restored_shapes: the shapes that they should have; None if they have
            them already.
        """
        raise ValueError("Calling an abstract method.")


VARIABLE_VALUE_KEY = "VARIABLE_VALUE"


class Trackable:
    """The base class of objects that stand for what a Saver saves of them."""

    def _gather_saveables_for_checkpoint(self):
        """Returns {VARIABLE_VALUE_KEY: a variable}.

        Instead of the variable there may be a function from a name to a
        SaveableObject.
        """
        return {}
