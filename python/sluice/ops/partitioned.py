"""Partitioned variables and partitioners."""

import math

from sluice.framework import conversion, dtypes, graph as graphs, tensor_shape
from sluice.ops import array_ops, init_ops
from sluice.ops.variables import SaveSliceInfo


class PartitionedVariable:
    """A variable that is stored as parts along a dimension.

    As a tensor, it is the concatenation of the parts. As a sequence, it
    contains the parts.
    """

    def __init__(self, name, shape, dtype, variable_list, partitions):
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list is not a list or tuple: "
                            f"{variable_list}")
        if not isinstance(partitions, (list, tuple)):
            raise TypeError(f"partitions is not a list or tuple: {partitions}")
        if not all(p >= 1 for p in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        self._name, self._dtype = name, dtype
        self._shape = tensor_shape.as_shape(shape)
        for part in variable_list:
            info = part._save_slice_info
            if info is None:
                raise ValueError(f"All variables must have a save_slice_info "
                                 f"available: {part}")
            if self._shape != info.full_shape:
                raise ValueError(f"All variables' full shapes must match "
                                 f"shape: {self._shape}; but found "
                                 f"{info.full_shape}")
        self._parts = sorted(variable_list,
                             key=lambda v: v._save_slice_info.var_offset)
        self._partitions = list(partitions)
        self._element = None

    name = property(lambda self: self._name, doc="The prefix of parts.")
    dtype = property(lambda self: self._dtype, doc="The dtype of the values.")
    shape = property(lambda self: self._shape, doc="The shape of the whole.")
    graph = property(lambda self: self._parts[0].graph)
    partitions = property(lambda self: list(self._partitions),
                          doc="The number of parts in each dimension.")

    def _concat(self):
        """Returns the concatenated parts, read where this is called."""
        with graphs.name_scope(self._name + "/ConcatPartitions/"):
            whole = self._parts[0].value() if len(self._parts) == 1 else (
                array_ops.concat(self._parts, self._axis()))
        with graphs.name_scope(None):
            return array_ops.identity(whole, name=self._name)

    def _get_partitions(self):
        return list(self._partitions)

    def get_shape(self):
        """Returns the shape of the whole variable."""
        return self._shape

    def _axis(self):
        return next((i for i, n in enumerate(self._partitions) if n > 1), 0)

    def as_tensor(self):
        """Returns the concatenated parts as a tensor.

        Like the value of a variable, it has no control dependencies.
        """
        with graphs.control_dependencies(None):
            return self._concat()

    def _get_variable_list(self):
        return self._parts

    def _as_graph_element(self):
        # Cached, because sessions ask for it in each step.
        if self._element is None:
            with self.graph.as_default(), graphs.init_scope():
                self._element = self.as_tensor()
        return self._element

    def __iter__(self):
        return iter(self._parts)

    def __len__(self):
        return len(self._parts)

    def __getitem__(self, key):
        return self.as_tensor()[key]

    def _slices(self, value):
        """Returns the list of values for the parts.

        `value` is a list with an item for each part, another
        PartitionedVariable, or a tensor to be split.
        """
        if isinstance(value, PartitionedVariable):
            value = list(value)
        if isinstance(value, list):
            if len(value) != len(self._parts):
                raise ValueError(f"value: expected a list of "
                                 f"{len(self._parts)}, one a part, got "
                                 f"{len(value)}")
            return value
        sizes = [p.shape.as_list()[self._axis()] for p in self._parts]
        value = conversion.convert_to_tensor(value, self._dtype.base_dtype)
        return array_ops.split(value, sizes, self._axis())

    def assign(self, value, use_locking=False, name=None, read_value=True):
        """Assigns slices of `value` to the parts; returns their new values."""
        return [p.assign(v, use_locking, name, read_value)
                for p, v in zip(self._parts, self._slices(value))]

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        """Adds slices of `value` to the parts; returns their new values."""
        return [p.assign_add(v, use_locking, name, read_value)
                for p, v in zip(self._parts, self._slices(value))]

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        """Subtracts slices of `value`; returns the parts' new values."""
        return [p.assign_sub(v, use_locking, name, read_value)
                for p, v in zip(self._parts, self._slices(value))]

    def __repr__(self):
        return (f"<tf.PartitionedVariable '{self._name}' shape={self._shape} "
                f"dtype={self._dtype.name} parts={len(self._parts)}>")


def _to_tensor(value, dtype=None, name=None, as_ref=False):
    if as_ref:
        raise NotImplementedError("PartitionedVariable doesn't support being "
                                  "used as a reference.")
    return value.as_tensor()


conversion.register_tensor_conversion_function(PartitionedVariable, _to_tensor,
                                               0)


def _forward(name):
    def method(self, *args):
        return getattr(graphs.Tensor, name)(self.as_tensor(), *args)
    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv",
              "rtruediv", "pow", "matmul", "rmatmul", "neg", "abs"):
    setattr(PartitionedVariable, f"__{_name}__", _forward(f"__{_name}__"))


class PartitionInfo:
    """Describes the part of a variable that an initializer makes."""

    def __init__(self, full_shape, var_offset):
        for what, value in (("full_shape", full_shape),
                            ("var_offset", var_offset)):
            if isinstance(value, str) or not hasattr(value, "__iter__"):
                raise TypeError(f"`{what}` must be a sequence (like tuple or "
                                f"list) instead of {type(value).__name__}")
        self.full_shape, self.var_offset = list(full_shape), list(var_offset)
        if len(self.full_shape) != len(self.var_offset):
            raise ValueError(f"Expected equal length, but `var_offset` is of "
                             f"length {len(self.var_offset)} while full_shape "
                             f"is of length {len(self.full_shape)}.")
        if any(at < 0 or at >= size
               for at, size in zip(self.var_offset, self.full_shape)):
            raise ValueError(f"Expected 0 <= offset < size, got offsets "
                             f"{self.var_offset} in {self.full_shape}")

    def single_offset(self, shape):
        """Returns the offset of a part along the partitioned dimension."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape):
        """Returns the dimension along which a part is partitioned.

        Returns None if the part is the whole variable.

        Raises:
          ValueError: if there are several such dimensions, or if the part
            exceeds the whole.
        """
        if isinstance(shape, str) or not hasattr(shape, "__iter__"):
            raise TypeError(f"`shape` must be a sequence (like tuple or list) "
                            f"instead of {type(shape).__name__}")
        shape = list(shape)
        if len(shape) != len(self.full_shape):
            raise ValueError(f"Expected equal length, but received shape="
                             f"{shape} of length {len(shape)} while "
                             f"self.full_shape={self.full_shape} is of length "
                             f"{len(self.full_shape)}.")
        if any(at + n > size for at, n, size in zip(
                self.var_offset, shape, self.full_shape)):
            raise ValueError(f"With self.var_offset={self.var_offset}, a "
                             f"partition of shape={shape} would exceed "
                             f"self.full_shape={self.full_shape}")
        cut = [i for i, (n, size) in enumerate(zip(shape, self.full_shape))
               if n != size]
        if len(cut) > 1:
            raise ValueError(f"Cannot use single_slice_dim() with shape="
                             f"{shape} and self.full_shape={self.full_shape} "
                             f"since slice dim could be either dimension "
                             f"{cut[0]} or {cut[1]}.")
        return cut[0] if cut else None


def make(name, shape, dtype, partitioner, initializer, get):
    """Makes a partitioned variable.

    get(name of the part, shape or None, its initializer) makes a part.
    """
    dims = shape.as_list()
    partitions = partitioner(shape=shape, dtype=dtype)
    if not isinstance(partitions, (list, tuple)):
        raise ValueError(f"Partitioner must return a sequence, but saw: "
                         f"{partitions}")
    partitions = [int(n) for n in partitions]
    if len(partitions) != len(dims):
        raise ValueError(f"Partitioner returned a partition list that does not "
                         f"match the Variable's rank: {partitions} vs. {shape}")
    if min(partitions) < 1 or sum(n > 1 for n in partitions) > 1:
        raise ValueError(f"Partitioner returned zero partitions for some axes, "
                         f"or more than one axis to slice: {partitions}")
    axis = next((i for i, n in enumerate(partitions) if n > 1), 0)
    count = partitions[axis]
    if count > dims[axis]:
        raise ValueError(f"Partitioner returned {count} partitions for axis "
                         f"{axis} of the shape {shape}")
    parts, offset = [], 0
    for i in range(count):
        # With a remainder, the first parts are longer by one.
        size = dims[axis] // count + (i < dims[axis] % count)
        part = dims[:axis] + [size] + dims[axis + 1:]
        at = [offset if j == axis else 0 for j in range(len(dims))]
        with graphs.name_scope(f"{name}/part_{i}/PartitionedInitializer/"):
            first = _slice(initializer, dims, part, at)
        made = get(f"{name}/part_{i}", part if callable(first) else None, first)
        made._set_save_slice_info(SaveSliceInfo(name, dims, at, part))
        parts.append(made)
        offset += size
    return PartitionedVariable(name, shape, dtype, parts, partitions)


def _slice(initializer, dims, part, at):
    """Returns the initial value or initializer of a part."""
    if initializer is None:
        return None
    if isinstance(initializer, type):
        initializer = initializer()
    if not callable(initializer):
        whole = conversion.convert_to_tensor(initializer)
        if not whole.shape.is_compatible_with(dims):
            raise ValueError(f"Expected an initial value of shape {dims}, got "
                             f"{whole.shape}")
        return array_ops.slice(whole, at, part)
    info = PartitionInfo(dims, at)
    return lambda shape, dtype: init_ops.first_value(initializer, shape, dtype,
                                                     info)


# ---- Partitioners ------------------------------------------------------------


def fixed_size_partitioner(num_shards, axis=0):
    """Returns a partitioner into `num_shards` parts along a dimension."""
    def partitioner(shape, **unused):
        return _along(shape, axis, min(num_shards, shape.as_list()[axis]))
    return partitioner


def _along(shape, axis, count):
    partitions = [1] * shape.ndims
    partitions[axis] = count
    return partitions


def _bytes_each(dtype, bytes_per_string_element):
    dtype = dtypes.as_dtype(dtype)
    return bytes_per_string_element if dtype is dtypes.string else dtype.size


def variable_axis_size_partitioner(max_shard_bytes, axis=0,
                                   bytes_per_string_element=16,
                                   max_shards=None):
    """Returns a partitioner that limits the bytes of each part."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element "
                         "must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape, dtype):
        if not shape.is_fully_defined():
            raise ValueError(f"shape must be a fully defined TensorShape, got "
                             f"{shape}")
        size = _bytes_each(dtype, bytes_per_string_element)
        length = shape.as_list()[axis]
        slice_bytes = shape.num_elements() // length * size
        per_part = max(1, max_shard_bytes // slice_bytes)
        count = math.ceil(length / per_part)
        return _along(shape, axis, min(count, max_shards or count))
    return partitioner


def min_max_variable_partitioner(max_partitions=1, axis=0,
                                 min_slice_size=256 << 10,
                                 bytes_per_string_element=16):
    """Returns a partitioner into many parts with a minimum size in bytes."""
    def partitioner(shape, dtype):
        length = shape.as_list()[axis]
        total = shape.num_elements() * _bytes_each(dtype,
                                                   bytes_per_string_element)
        count = min(length, max_partitions,
                    math.ceil(total / min_slice_size))
        return _along(shape, axis, max(1, count))
    return partitioner


def parts_of(variable):
    """Returns the list of variables that a variable consists of."""
    if isinstance(variable, PartitionedVariable):
        return list(variable)
    return [variable]
