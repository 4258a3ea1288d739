"""TensorArray: an array of tensors that loops read and write."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.framework.specs import TensorSpec, TypeSpec, type_spec_from_value
from sluice.ops import array_ops, math_ops

_op = _core.op
_make = _op("TensorArrayV3", "TensorArray")
_read = _op("TensorArrayReadV3")
_write = _op("TensorArrayWriteV3")
_gather = _op("TensorArrayGatherV3")
_scatter = _op("TensorArrayScatterV3")
_concat = _op("TensorArrayConcatV3")
_split = _op("TensorArraySplitV3")
_size = _op("TensorArraySizeV3")


class TensorArray:
    """An array of tensors of one dtype, each of which is written once per step.

    It has value semantics: `write` returns the updated array, whose operations
    run after the write. The flow of an array represents it as a loop variable.

    Args:
      dtype: the dtype of the elements.
      size: the number of elements, as a number or a tensor.
      dynamic_size: whether writing beyond the end extends the array.
      clear_after_read: whether reading an element frees it.
      tensor_array_name: the name for messages.
      handle, flow: the handle and flow of an existing array, instead of a size.
      infer_shape: whether all elements have the same shape.
      element_shape: the static shape of the elements.
    """

    def __init__(self, dtype, size=None, dynamic_size=None,
                 clear_after_read=None, tensor_array_name=None, handle=None,
                 flow=None, infer_shape=True, element_shape=None,
                 colocate_with_first_write_call=True, name=None):
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot provide both `handle` and "
                             "`tensor_array_name` arguments at the same time.")
        if handle is not None and not isinstance(handle, _core.Tensor):
            raise TypeError(f"Expected `handle` to be a Tensor, but got "
                            f"`{handle}`")
        if handle is None and size is None:
            raise ValueError("Argument `size` must be provided if handle is "
                             "not provided.")
        if handle is not None and size is not None:
            raise ValueError("Cannot provide both a `handle` and `size` "
                             "arguments at the same time.")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._infer_shape = bool(infer_shape)
        self._element_shape = [tensor_shape.as_shape(element_shape)]
        self._dynamic_size = bool(dynamic_size)
        self._known_size = None
        with graphs.name_scope(name, "TensorArray",
                               [handle, size, flow]) as scope:
            if handle is None:
                self._handle, self._flow = _make(
                    size, dtype=self._dtype,
                    element_shape=self._element_shape[0],
                    dynamic_size=self._dynamic_size,
                    clear_after_read=clear_after_read is not False,
                    identical_element_shapes=self._infer_shape,
                    tensor_array_name=tensor_array_name or "", name=scope)
                if not self._dynamic_size:
                    self._known_size = constant_value(
                        self._handle.op.inputs[0])
            else:
                self._handle, self._flow = handle, flow

    def _flow_of_array(self, flow):
        """Returns the same array with another flow."""
        made = TensorArray.__new__(TensorArray)
        made.__dict__.update(self.__dict__)
        made._flow = flow
        return made

    @property
    def dtype(self):
        """The dtype of the elements."""
        return self._dtype

    @property
    def handle(self):
        """The handle of the array."""
        return self._handle

    @property
    def flow(self):
        """The scalar that orders the operations on the array."""
        return self._flow

    @property
    def dynamic_size(self):
        """Whether writes may extend the array."""
        return self._dynamic_size

    @property
    def element_shape(self):
        """The static shape of the elements."""
        return self._element_shape[0]

    @property
    def graph(self):
        """The graph of the array."""
        return self._flow.graph

    @property
    def _type_spec(self):
        return TensorArraySpec(self.element_shape, self._dtype,
                               self._dynamic_size, self._infer_shape)

    def _learn(self, shape):
        try:
            merged = self._element_shape[0].merge_with(shape)
            if self._infer_shape:
                self._element_shape[0] = merged
        except ValueError:
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected "
                             f"{self._element_shape[0]}") from None

    def identity(self):
        """Returns a copy of the array with an identity of its flow."""
        return self._flow_of_array(array_ops.identity(self._flow))

    def grad(self, source, flow=None, name=None):
        """Returns the array of gradients with the name `source`."""
        made = _op("TensorArrayGradV3")(
            self._handle, self._flow if flow is None else flow, source=source,
            name=name)
        return TensorArray(self._dtype, handle=made[0], flow=made[1],
                           infer_shape=self._infer_shape,
                           element_shape=self._element_shape[0])

    def read(self, index, name=None):
        """Returns the element at `index`."""
        value = _read(self._handle, index, self._flow, dtype=self._dtype,
                      name=name)
        if self._element_shape[0]:
            value.set_shape(self._element_shape[0])
        return value

    def write(self, index, value, name=None):
        """Returns the array with `value` as the element at `index`."""
        # As in TensorFlow, a wrong dtype is an error only in the step.
        value = convert_to_tensor(value, preferred_dtype=self._dtype,
                                  name="value")
        self._learn(value.shape)
        return self._flow_of_array(_write(self._handle, index, value,
                                          self._flow, name=name))

    def stack(self, name=None):
        """Returns all elements stacked into one tensor."""
        with graphs.name_scope(name, "TensorArrayStack", [self._handle]):
            value = self.gather(math_ops.range(0, self.size()))
            if self._element_shape[0]:
                value.set_shape([self._known_size] +
                                self._element_shape[0].as_list())
            return value

    def gather(self, indices, name=None):
        """Returns selected elements stacked into one tensor."""
        value = _gather(self._handle, indices, self._flow, dtype=self._dtype,
                        element_shape=self._element_shape[0], name=name)
        if self._element_shape[0]:
            value.set_shape([None] + self._element_shape[0].as_list())
        return value

    def concat(self, name=None):
        """Concatenates all elements along their first dimension."""
        value, _ = _concat(self._handle, self._flow, dtype=self._dtype,
                           element_shape_except0=self._element_shape[0][1:],
                           name=name)
        if self._element_shape[0]:
            first, *others = self._element_shape[0].as_list()
            rows = None if None in (first, self._known_size) or (
                not self._infer_shape) else first * self._known_size
            value.set_shape([rows] + others)
        return value

    def unstack(self, value, name=None):
        """Returns the array with the slices of a tensor as elements."""
        with graphs.name_scope(name, "TensorArrayUnstack",
                               [self._handle, value]):
            value = convert_to_tensor(value, self._dtype, name="value")
            n = array_ops.shape(value)[0]
            return self.scatter(math_ops.range(0, n), value)

    def scatter(self, indices, value, name=None):
        """Returns the array with a tensor's slices at the given indices."""
        value = convert_to_tensor(value, self._dtype, name="value")
        if value.shape.ndims is not None:
            self._learn(value.shape[1:])
        return self._flow_of_array(_scatter(self._handle, indices, value,
                                            self._flow, name=name))

    def split(self, value, lengths, name=None):
        """Returns the array with parts of a tensor of the given lengths."""
        value = convert_to_tensor(value, self._dtype, name="value")
        lengths = math_ops.cast(convert_to_tensor(lengths), dtypes.int64)
        known = constant_value(lengths)
        if value.shape.ndims is not None and known is not None and len(
                known) and (known == known[0]).all():
            self._learn(tensor_shape.TensorShape(
                [int(known[0])]).concatenate(value.shape[1:]))
        return self._flow_of_array(_split(self._handle, value, lengths,
                                          self._flow, name=name))

    def size(self, name=None):
        """Returns the number of elements."""
        return _size(self._handle, self._flow, name=name)

    def close(self, name=None):
        """Returns an operation that frees the array."""
        return _op("TensorArrayCloseV3")(self._handle, name=name)


class TensorArraySpec(TypeSpec):
    """The type of a TensorArray.

    It has the elements' shape and dtype, and says whether the array may grow
    and whether all elements have the same shape.
    """

    __slots__ = ("_element_shape", "_dtype", "_dynamic_size", "_infer_shape")

    def __init__(self, element_shape=None, dtype=dtypes.float32,
                 dynamic_size=False, infer_shape=True):
        self._element_shape = tensor_shape.as_shape(element_shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._dynamic_size, self._infer_shape = dynamic_size, infer_shape

    value_type = property(lambda self: TensorArray, doc="TensorArray.")

    @classmethod
    def from_value(cls, value):
        """Returns the spec of a TensorArray."""
        return value._type_spec

    def is_compatible_with(self, other):
        """Returns whether it is compatible, except for shape inference."""
        if not isinstance(other, TypeSpec):
            other = type_spec_from_value(other)
        return (isinstance(other, TensorArraySpec) and
                self._dtype.is_compatible_with(other._dtype) and
                self._element_shape.is_compatible_with(other._element_shape) and
                self._dynamic_size == other._dynamic_size)

    def most_specific_compatible_type(self, other):
        """Returns the most specific spec compatible with both specs.

        Raises ValueError if there is none.
        """
        if not isinstance(other, TensorArraySpec) or (
                self._dtype, self._dynamic_size) != (
                    other._dtype, other._dynamic_size):
            raise ValueError(f"No TypeSpec is compatible with both {self} and "
                             f"{other}")
        return TensorArraySpec(
            self._element_shape.most_specific_compatible_shape(
                other._element_shape), self._dtype, self._dynamic_size,
            self._infer_shape and other._infer_shape)

    def _serialize(self):
        return (self._element_shape, self._dtype, self._dynamic_size,
                self._infer_shape)

    @property
    def _component_specs(self):
        return [TensorSpec([], dtypes.resource), TensorSpec([], dtypes.float32)]

    def _to_components(self, value):
        return [value.handle, value.flow]

    def _from_components(self, components):
        handle, flow = components
        return self.value_type(
            self._dtype, dynamic_size=self._dynamic_size, handle=handle,
            flow=flow, infer_shape=self._infer_shape,
            element_shape=self._element_shape)
