"""Datasets of what Python generators yield."""

import itertools
import threading

import numpy as np

from sluice import _core
from sluice.data import elements
from sluice.data.elements import Elements
from sluice.framework import dtypes, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.elements import Tensor
from sluice.ops import script_ops


class Source:
    """What `Dataset.from_generator` is.

    The number of the generator that runs is the state of a scan: -1 before
    the first element. So elements come in order, one after the other, and each
    pipeline, and each repetition, has a generator of its own.
    """

    def __init__(self, generator, output_types, output_shapes=None, args=None):
        if not callable(generator):
            raise TypeError("`generator` must be callable.")
        if args is not None and not isinstance(args, (tuple, list)):
            raise TypeError(f"args: expected a tuple, got {args!r}")
        self._generator = generator
        self._types = elements.map_structure(dtypes.as_dtype, output_types)
        self._flat_types = elements.flatten(self._types)
        self._flat_shapes = [
            tensor_shape.as_shape(s) for s in (
                [None] * len(self._flat_types) if output_shapes is None
                else elements.flatten_up_to(self._types, output_shapes))]
        self._args = [convert_to_tensor(a) for a in args or ()]
        self._numbers = itertools.count()
        self._running = {}  # Iterators of the generators, by number.
        self._lock = threading.Lock()

    def _next(self, number, *args):
        """Returns the generator's number, whether it had an element, and it."""
        number = int(number)
        if number < 0:
            running = iter(self._generator(*args))
            with self._lock:
                number = next(self._numbers)
                self._running[number] = running
        try:
            value = next(self._running[number])
        except StopIteration:
            with self._lock:
                del self._running[number]
            return [np.int64(number), np.bool_(False)] + [
                _nothing(t, s) for t, s in zip(self._flat_types,
                                               self._flat_shapes)]
        try:
            leaves = elements.flatten_up_to(self._types, value)
        except (TypeError, ValueError):
            raise TypeError(f"`generator` yielded an element that did not "
                            f"match the expected structure. The expected "
                            f"structure was {self._types}, but the yielded "
                            f"element was {value}.") from None
        return [np.int64(number), np.bool_(True)] + [
            _array(leaf, t, s) for leaf, t, s in zip(
                leaves, self._flat_types, self._flat_shapes)]

    def lower(self, build):
        """Returns this as a _core.Dataset, and its Elements."""
        args = [build.source(a) for a in self._args]
        types = [dtypes.int64, dtypes.bool_, *self._flat_types]
        first = convert_to_tensor(-1, dtypes.int64)
        end = convert_to_tensor(2**62, dtypes.int64)

        def following(state, _):
            made = script_ops.py_func(self._next, [state[0], *args], types)
            for tensor, shape in zip(made, [[], [], *self._flat_shapes]):
                tensor.set_shape(shape)
            return made

        pipeline = _core.Dataset.range(end).scan([first], following)
        return (pipeline.take_while(lambda tensors: [tensors[0]])
                .map(lambda tensors: tensors[1:], 1),
                Elements(elements.map_structure(lambda _: Tensor,
                                                self._types)))


def _nothing(dtype, shape):
    """Returns a value of a type and shape, for after the end."""
    dims = [] if shape.ndims is None else [d or 0 for d in shape.as_list()]
    if dtype == dtypes.string:
        return np.full(dims, b"", dtype=object)
    return np.zeros(dims, dtype.as_numpy_dtype)


def _array(value, dtype, shape):
    """Returns a yielded value as an array; TypeError if it cannot be one."""
    try:
        if dtype == dtypes.string:
            array = np.asarray(value)
            if array.dtype.kind not in "SUO":
                raise TypeError
            array = array.astype(object)
        else:
            array = np.asarray(value, dtype.as_numpy_dtype)
    except (TypeError, ValueError):
        raise TypeError(f"`generator` yielded an element that could not be "
                        f"converted to the expected type. The expected type "
                        f"was {dtype.name}, but the yielded element was "
                        f"{value}.") from None
    if not shape.is_compatible_with(array.shape):
        raise ValueError(f"`generator` yielded an element of shape "
                         f"{array.shape} where an element of shape {shape} was "
                         f"expected.")
    return array
