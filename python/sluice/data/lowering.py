"""What builds the pipelines of the library's datasets."""

from sluice import _core
from sluice.data.elements import Elements
from sluice.framework import errors, tensor_shape
from sluice.framework.conversion import constant_value
from sluice.ops import array_ops

AUTOTUNE = -1  # Lets the library choose.


def missing(what, hint=""):
    """Returns the error for a feature of TensorFlow that is missing here."""
    return errors.UnimplementedError(
        None, None, f"{what}: not implemented yet{hint and '; hint: '}{hint}")


def number(value, what):
    """Returns an argument that must be known while the graph is built.

    Raises:
      TypeError: if it is no integer.
      errors.UnimplementedError: if it is a tensor whose value is unknown.
    """
    if isinstance(value, _core.Tensor):
        known = constant_value(value)
        if known is None:
            raise missing(f"{what}: a tensor that is computed in a step",
                          "pass a number")
        value = known
    try:
        return int(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: expected an integer, got {value!r}") from None


class Build:
    """What the construction of one pipeline has in common.

    Args:
      scratch: a graph in which the pipeline is built only to see the types of
        its elements; tensors of other graphs are replaced.
      inside: whether this is the dataset of a function of `flat_map`.
    """

    def __init__(self, scratch=None, inside=False):
        self.scratch, self.inside = scratch, inside
        self.sources = []  # The tensors that the sources consist of.

    def source(self, tensor):
        """Returns a tensor that is part of a source."""
        if self.scratch is not None and tensor.graph is not self.scratch:
            return array_ops.placeholder(tensor.dtype.base_dtype, tensor.shape)
        if not self.inside:
            self.sources.append(tensor)
        return tensor

    def within(self):
        """Returns the Build of the dataset of a function."""
        return Build(self.scratch, inside=True)


def call(fn, element):
    """Calls a function of an element; a tuple's parts are its arguments."""
    value = fn(*element) if type(element) is tuple else fn(element)
    # (A list is what functions such as py_func give: several tensors.)
    return tuple(value) if isinstance(value, list) else value


def mapped(pipeline, like, fn, parallel=1):
    """Maps a pipeline of the library with a function of structures.

    Args:
      pipeline: a _core.Dataset.
      like: its Elements.
      fn: takes an element and returns one.
      parallel: how many elements may be in the function at once.

    Returns:
      A _core.Dataset and its Elements.
    """
    made = Elements()
    return pipeline.map(lambda tensors: made.unpack(fn(like.pack(tensors))),
                        parallel), made


class Shapes:
    """The static shapes of elements on their way through a queue.

    Queues forget shapes that are partly known, such as those of batches.
    """

    def __init__(self):
        self._shapes = None

    def seen(self, tensors):
        """Notes the shapes of an element; returns its tensors."""
        shapes = [t.shape for t in tensors]
        if self._shapes is not None:  # Another part of a concatenation.
            shapes = [a.most_specific_compatible_shape(b)
                      for a, b in zip(self._shapes, shapes)]
        self._shapes = shapes
        return tensors

    def restored(self, tensors, rows=()):
        """Sets the shapes, with dimensions before them; returns the tensors."""
        for tensor, shape in zip(tensors, self._shapes):
            tensor.set_shape(tensor_shape.TensorShape(rows).concatenate(shape))
        return tensors


def through_queue(pipeline, make, rows=()):
    """Returns make(pipeline) without loss of static shapes.

    Args:
      pipeline: a _core.Dataset.
      make: a function of it that returns another with the same components.
      rows: dimensions that `make` adds before those of the elements.
    """
    shapes = Shapes()
    return make(pipeline.map(shapes.seen, 1)).map(
        lambda tensors: shapes.restored(tensors, rows), 1)
