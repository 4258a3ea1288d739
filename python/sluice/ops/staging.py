"""Staging areas, which hold values between steps of a pipeline."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, control_flow

_op = _core.op


class _StagingArea:
    """The base class of staging areas."""

    def __init__(self, dtypes_of, shapes, names, shared_name, capacity,
                 memory_limit):
        if shared_name is None:
            # A graph's areas differ in name, and those of two graphs with the
            # same areas agree.
            self._name = graphs.get_default_graph().unique_name(
                type(self).__name__)
        elif isinstance(shared_name, str):
            self._name = shared_name
        else:
            raise ValueError("shared_name must be a string")
        self._dtypes = [dtypes.as_dtype(dtype) for dtype in dtypes_of]
        for given, what in ((shapes, "shapes"), (names, "names")):
            if given is not None and len(given) != len(self._dtypes):
                raise ValueError(f"StagingArea {what} must be the same length "
                                 f"as dtypes")
        self._shapes = ([tensor_shape.unknown_shape() for _ in self._dtypes]
                        if shapes is None else
                        [tensor_shape.as_shape(shape) for shape in shapes])
        self._names = None if names is None else list(names)
        self._capacity = capacity
        self._memory_limit = memory_limit
        with graphs.name_scope(f"{self._name}_root"):
            self._place = control_flow.no_op()

    @property
    def name(self):
        """The name of the staging area."""
        return self._name

    @property
    def dtypes(self):
        """The types of the components."""
        return self._dtypes

    @property
    def shapes(self):
        """The TensorShapes of the components."""
        return self._shapes

    @property
    def names(self):
        """The names of the components, or None."""
        return self._names

    @property
    def capacity(self):
        """The largest number of elements; 0 for no limit."""
        return self._capacity

    @property
    def memory_limit(self):
        """The largest number of bytes; 0 for no limit."""
        return self._memory_limit

    def _call(self, op, *inputs, **attributes):
        container = graphs.get_default_graph()._container
        with graphs.colocate_with(self._place):
            return _op(op)(
                *inputs, shared_name=self._name, container=container or "",
                capacity=self._capacity, memory_limit=self._memory_limit,
                **attributes)

    def _components(self, vals, indices):
        """Returns the tensors to put and the numbers of their components."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a "
                                 "dictionary")
            if not set(vals) <= set(self._names):
                raise ValueError(
                    f"Keys in dictionary to put do not match names of staging "
                    f"area. Dictionary: ({sorted(vals)}), Queue: "
                    f"({sorted(self._names)})")
            indices = [i for i, name in enumerate(self._names) if name in vals]
            vals = [vals[self._names[i]] for i in indices]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a staging "
                                 "area with names")
            if indices is None:
                raise ValueError("Indices must be supplied when inserting a "
                                 "list of tensors")
            if not isinstance(vals, (list, tuple)):
                vals, indices = [vals], [0]
            if len(indices) != len(vals):
                raise ValueError(f"Number of indices '{len(indices)}' doesn't "
                                 f"match number of values '{len(vals)}'")
        if len(vals) > len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs '{len(vals)}' vs "
                             f"'{len(self._dtypes)}'")
        tensors = []
        for value, i in zip(vals, indices):
            if getattr(value, "dtype", self._dtypes[i]) != self._dtypes[i]:
                raise ValueError(f"Datatypes do not match. '{value.dtype}' != "
                                 f"'{self._dtypes[i]}'")
            value = convert_to_tensor(value, self._dtypes[i],
                                      name=f"component_{i}")
            value.shape.assert_is_compatible_with(self._shapes[i])
            tensors.append(value)
        return tensors, list(indices)

    def _moved(self, tensors):
        """Returns copies of values if the current device is another one."""
        if control_flow.no_op().device != self._place.device:
            return [array_ops.identity(t) for t in tensors]
        return list(tensors)

    def _element(self, tensors, indices):
        """Returns values in the form that the program expects."""
        tensors = self._moved(tensors if isinstance(tensors, (list, tuple))
                              else [tensors])
        for tensor, i in zip(tensors, indices):
            tensor.set_shape(self._shapes[i])
        if self._names:
            return {self._names[i]: t for t, i in zip(tensors, indices)}
        return tensors


class StagingArea(_StagingArea):
    """A store whose elements leave in the order in which they came.

    Unlike a queue it is where its first values are, such as on a GPU. What
    reads it waits while it is empty; what puts waits while it is full.

    Args:
      dtypes: the types of the components.
      shapes: their shapes, or None.
      names: their names; with names, elements are dicts.
      shared_name: the name under which graphs share the area.
      capacity: the largest number of elements; 0 for no limit.
      memory_limit: the largest number of bytes; 0 for no limit.

    Raises:
      ValueError: if there are fewer or more shapes or names than types.
    """

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None,
                 capacity=0, memory_limit=0):
        super().__init__(dtypes, shapes, names, shared_name, capacity,
                         memory_limit)

    def put(self, values, name=None):
        """Returns an operation that puts an element in.

        Args:
          values: a tensor, a list of components, or a dict by name.
          name: the name of the operation.

        Raises:
          ValueError: if components are missing or do not fit.
        """
        with graphs.name_scope(name, f"{self._name}_put") as scope:
            if not isinstance(values, (list, tuple, dict)):
                values = [values]
            tensors, _ = self._components(values, range(len(values)))
            return self._call("Stage", tensors, name=scope)

    def get(self, name=None):
        """Takes the oldest element out.

        Returns:
          A list of its components, or a dict if they have names.
        """
        return self._element(
            self._call("Unstage", dtypes=self._dtypes,
                       name=name or f"{self._name}_get"),
            range(len(self._dtypes)))

    def peek(self, index, name=None):
        """Returns an element, which stays; 0 is the oldest."""
        return self._element(
            self._call("StagePeek", index, dtypes=self._dtypes,
                       name=name or f"{self._name}_peek"),
            range(len(self._dtypes)))

    def size(self, name=None):
        """Returns the number of elements, a scalar int32 tensor."""
        return self._call("StageSize", dtypes=self._dtypes,
                          name=name or f"{self._name}_size")

    def clear(self, name=None):
        """Returns an operation that removes all elements."""
        return self._call("StageClear", dtypes=self._dtypes,
                          name=name or f"{self._name}_clear")


class MapStagingArea(_StagingArea):
    """A store of elements by key, whose components may arrive separately.

    Args:
      dtypes: the types of the components.
      shapes: their shapes, or None.
      names: their names; with names, elements are dicts.
      shared_name: the name under which graphs share the area.
      ordered: whether `get` without a key takes the smallest key, rather than
        any.
      capacity: the largest number of elements; 0 for no limit.
      memory_limit: the largest number of bytes; 0 for no limit.

    Raises:
      ValueError: if there are fewer or more shapes or names than types.
    """

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None,
                 ordered=False, capacity=0, memory_limit=0):
        super().__init__(dtypes, shapes, names, shared_name, capacity,
                         memory_limit)
        self._kind = "OrderedMap" if ordered else "Map"

    def put(self, key, vals, indices=None, name=None):
        """Returns an operation that puts components of an element in.

        Args:
          key: the key of the element, an int64 scalar.
          vals: a list of components, or a dict by name.
          indices: the numbers of the components, unless they have names.
          name: the name of the operation.

        Raises:
          ValueError: if components do not fit.
        """
        with graphs.name_scope(name, f"{self._name}_put") as scope:
            tensors, indices = self._components(vals, indices)
            return self._call(f"{self._kind}Stage", key, indices, tensors,
                              dtypes=self._dtypes, name=scope)

    def _selected(self, indices):
        """Returns the numbers and types of components to read."""
        if indices is None:
            indices = list(range(len(self._dtypes)))
        if not isinstance(indices, (tuple, list)):
            raise TypeError(f"Invalid indices type '{type(indices)}'")
        if not indices:
            raise ValueError("Empty indices")
        if all(isinstance(i, str) for i in indices):
            if self._names is None:
                raise ValueError(f"String indices provided '{indices}', but "
                                 f"this Staging Area was not created with "
                                 f"names.")
            for name in indices:
                if name not in self._names:
                    raise ValueError(f"Named index '{name}' not in Staging "
                                     f"Area names '{self._names}'")
            indices = [self._names.index(name) for name in indices]
        elif not all(isinstance(i, int) for i in indices):
            raise TypeError(f"Mixed types in indices '{indices}'. May only be "
                            f"str or int")
        return indices, [self._dtypes[i] for i in indices]

    def peek(self, key, indices=None, name=None):
        """Returns components of an element, which stays.

        Args:
          key: the key of the element.
          indices: the numbers or names of the components; defaults to all.
          name: the name of the operation.
        """
        indices, chosen = self._selected(indices)
        return self._element(
            self._call(f"{self._kind}Peek", key, indices, dtypes=chosen,
                       name=name or f"{self._name}_pop"), indices)

    def get(self, key=None, indices=None, name=None):
        """Takes components of a complete element out.

        Args:
          key: the key of the element; None for any (or the smallest).
          indices: the numbers or names of the components; defaults to all.
          name: the name of the operation.

        Returns:
          (key, components).
        """
        indices, chosen = self._selected(indices)
        if key is None:
            key, taken = self._call(
                f"{self._kind}UnstageNoKey", indices, dtypes=chosen,
                name=name or f"{self._name}_get_nokey")
            key, = self._moved([key])
        else:
            taken = self._call(
                f"{self._kind}Unstage", key, indices, dtypes=chosen,
                name=name or f"{self._name}_get")
        return key, self._element(taken, indices)

    def size(self, name=None):
        """Returns the number of complete elements, a scalar int32 tensor."""
        return self._call(f"{self._kind}Size", dtypes=self._dtypes,
                          name=name or f"{self._name}_size")

    def incomplete_size(self, name=None):
        """Returns the number of incomplete elements, a scalar int32 tensor."""
        return self._call(f"{self._kind}IncompleteSize", dtypes=self._dtypes,
                          name=name or f"{self._name}_incomplete_size")

    def clear(self, name=None):
        """Returns an operation that removes all elements."""
        return self._call(f"{self._kind}Clear", dtypes=self._dtypes,
                          name=name or f"{self._name}_clear")
