"""The elements of graphs: Operation and Tensor."""

import re
import traceback

from sluice import _core
from sluice.framework import (
    constructs, dtypes, members, protos, tensor_shape)
from sluice.framework.default_session import get_default_session


def _set_attribute(self, name, value):
    """Sets an attribute of a handle, and makes the graph keep the handle.

    Otherwise the attribute would be lost with the last reference to it.
    """
    object.__setattr__(self, name, value)
    self.graph._handles_to_keep.add(self)


class Operation(_core.Operation):
    """A node of a graph: an op with its inputs and outputs.

    Op functions make operations. Their attributes are those of the graph's
    node and do not change.
    """

    __setattr__ = _set_attribute
    __getattr__ = members.missing

    def __new__(cls, node_def, g, inputs=None, output_types=None,
                control_inputs=None, input_types=None, original_op=None,
                op_def=None):
        """Adds an operation to a graph, as a NodeDef describes it.

        The op determines the types of the outputs.
        """
        if not protos.is_message(node_def, "NodeDef"):
            raise TypeError(f"node_def needs to be a NodeDef: {node_def}")
        if not isinstance(g, _core.Graph):
            raise TypeError(f"g needs to be a Graph: {g}")
        if not re.fullmatch(r"[A-Za-z0-9.][\w.\\/>-]*", node_def.name):
            raise ValueError(f"'{node_def.name}' is not a valid node name")
        with g.as_default(), g.control_dependencies(None), (
                g.control_dependencies(control_inputs)):
            made = g.create_op(node_def.op, list(inputs or ()),
                               input_types=input_types,
                               name=node_def.name + "/", attrs=node_def.attr)
        if node_def.device:
            made._set_device(node_def.device)
        return made

    def __init__(self, *args, **kwargs):
        """Does nothing: __new__ makes the operation."""

    def _set_device(self, device):
        """Requests another device, given as a name or a DeviceSpec."""
        super()._set_device(device if isinstance(device, str)
                            else device.to_string())

    @property
    def node_def(self):
        """The operation as a NodeDef."""
        return protos.NodeDef.FromString(self._export())

    @property
    def op_def(self):
        """The OpDef of its op."""
        return self.graph.op_def_for_type(self.type)

    @property
    def traceback(self):
        """The calls that made it, outermost first.

        Each is a `traceback.FrameSummary`: (file, line, function, text).
        """
        calls = self._stack or [(*line, "") for line in (self._line,) if line]
        return traceback.StackSummary.from_list(
            [traceback.FrameSummary(*call, lookup_line=False)
             for call in calls])

    def _get_control_flow_context(self):
        """Returns the innermost enclosing loop or branch, or None."""
        return constructs.around(self.graph, self.graph._constructs(self))

    _control_flow_context = property(_get_control_flow_context)

    @property
    def _control_inputs(self):
        return self.control_inputs

    @property
    def _input_types(self):
        taken = [arg.is_ref for arg in self.op_def.input_arg
                 for _ in range(self._arg_size(arg))]
        return [t.dtype if is_ref else t.dtype.base_dtype
                for is_ref, t in zip(taken, self.inputs)]

    _input_dtypes = _input_types

    def _arg_size(self, arg):
        """Returns the number of tensors of an argument of the op."""
        if arg.number_attr:
            return self.get_attr(arg.number_attr)
        if arg.type_list_attr:
            return len(self.get_attr(arg.type_list_attr))
        return 1

    @property
    def _output_types(self):
        return [t.dtype.as_datatype_enum for t in self.outputs]

    def _add_control_inputs(self, ops):
        for op in ops:
            self._add_control_input(op)

    @property
    def control_outputs(self):
        """The operations that have it as a control input."""
        return [op for op in self.graph.get_operations()
                if self in op.control_inputs]

    @property
    def _control_outputs(self):
        return self.control_outputs

    def get_attr(self, name):
        """Returns the value of an attribute.

        It is a number, bytes or a DType, or a message for shapes, tensors and
        functions.

        Raises:
          ValueError: if there is no such attribute.
        """
        value = self._attr(name)
        if isinstance(value, (int, float, bytes, dtypes.DType)):
            return value
        message = protos.AttrValue.FromString(self._attr_message(name))
        kind = message.WhichOneof("value")
        if kind != "list":
            return getattr(message, kind)
        for field, values in message.list.ListFields():
            return ([dtypes.as_dtype(t) for t in values]
                    if field.name == "type" else list(values))
        return []

    def _set_attr(self, attr_name, attr_value):
        """Sets an attribute to the value of an AttrValue."""
        self._set_attr_message(attr_name, attr_value.SerializeToString())

    def values(self):
        """Returns the outputs as a tuple."""
        return tuple(self.outputs)

    def colocation_groups(self):
        """Returns the names of its colocation groups: [b"loc:@name"]."""
        groups = self._attr("_class") if "_class" in self._attr_names() else []
        return [g for g in groups if g.startswith(b"loc:@")] or [
            b"loc:@" + self.name.encode()]

    def run(self, feed_dict=None, session=None):
        """Runs the operation in `session` or in the default session."""
        _use_session(session, self.graph, "run").run(self, feed_dict)

    def __str__(self):
        return str(self.node_def)

    def __repr__(self):
        return f"<tf.Operation '{self.name}' type={self.type}>"


class Tensor(_core.Tensor):
    """An output of an operation, whose value each step computes.

    Python operators build operations: `x + 1`, `x[0, ::2]`. Tensors compare
    equal (`==`, and as keys of a dict) if they are the same output.
    """

    __array_priority__ = 100  # Takes precedence over operators of numpy.
    __setattr__ = _set_attribute
    __getattr__ = members.missing
    # The names of its operators, for classes that behave like a tensor.
    OVERLOADABLE_OPERATORS = frozenset(
        f"__{name}__" for name in (
            *(side + name for side in ("", "r") for name in (
                "add", "and", "floordiv", "matmul", "mod", "mul", "or", "pow",
                "sub", "truediv", "xor")),
            "abs", "eq", "ge", "getitem", "gt", "invert", "le", "lt", "ne",
            "neg"))

    @property
    def shape(self):
        """The static shape, a TensorShape."""
        return tensor_shape.TensorShape._of(self._dims)

    def get_shape(self):
        """Returns the static shape, a TensorShape."""
        return tensor_shape.TensorShape._of(self._dims)

    def set_shape(self, shape):
        """Merges a shape into the static shape.

        Raises:
          ValueError: if the shapes are incompatible.
        """
        self._set_shape(shape)

    @property
    def ndim(self):
        """The static rank, or None."""
        return None if self._dims is None else len(self._dims)

    @property
    def _value_index(self):
        return self.value_index

    def _as_node_def_input(self):
        """Returns its name as an input in a NodeDef."""
        return self.name.removesuffix(":0")

    def _shape_as_list(self):
        return None if self._dims is None else list(self._dims)

    def _shape_tuple(self):
        return self._dims

    def eval(self, feed_dict=None, session=None):
        """Returns its value in a step of `session` or the default session."""
        return _use_session(session, self.graph, "eval").run(self, feed_dict)

    def _as_graph_element(self):
        return self

    def __iter__(self):
        raise TypeError(
            "Tensor objects are only iterable when eager execution is enabled. "
            "To iterate over this tensor use tf.map_fn.")

    def __len__(self):
        raise TypeError(
            f"object of type 'Tensor' has no len(): {self.name}. Please call "
            f"`x.shape` rather than `len(x)` for shape information.")

    def __bool__(self):
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t "
            "is not None:` instead of `if t:` to test if a tensor is defined, "
            "and use TensorFlow ops such as tf.cond to execute subgraphs "
            "conditioned on the value of a tensor.")

    def __array__(self, dtype=None):
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy "
            f"array: run it in a session.")

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def __copy__(self):
        return self

    def __str__(self):
        shape = "" if self._dims is None else f", shape={self.shape}"
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name})'

    def __repr__(self):
        return (f"<tf.Tensor '{self.name}' shape={self.shape} "
                f"dtype={self.dtype.name}>")


def _use_session(session, graph, what):
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError(
                f"Cannot {what} the tensor or operation without a session: No "
                f"default session is registered. Use `with sess.as_default()` "
                f"or pass an explicit session.")
        if session.graph is not graph:
            raise ValueError(
                "Cannot use the default session to evaluate tensor: the "
                "tensor's graph is different from the session's graph. Pass an "
                "explicit session.")
    elif session.graph is not graph:
        raise ValueError(
            "Cannot use the given session to evaluate tensor: the tensor's "
            "graph is different from the session's graph.")
    return session


def require_same_shape(a, b):
    """Raises ValueError unless two tensors can have the same shape.

    The message says where both were made.
    """
    try:
        a.shape.assert_is_compatible_with(b.shape)
    except ValueError as e:
        raise ValueError(f"{e}; {a.op._describe()}, "
                         f"{b.op._describe()}") from None
