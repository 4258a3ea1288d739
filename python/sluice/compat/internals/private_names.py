"""Internal names of TensorFlow's modules that programs import.

They are aliases and helpers. compat/imports.py searches this module last.
"""

import itertools
import re
import warnings

from sluice import _core
from sluice.client.session import Session
from sluice.framework import (
    conversion, dtypes, errors, graph as graphs, protos, scopes, tensor_shape)
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, convert_to_tensor)
from sluice.framework.devices import DeviceSpec
from sluice.ops import (
    array_ops, control_flow, ctc, embedding, gradients, image_resizing,
    init_ops, math_ops, nn, parsing, partitioned, string_ops)
from sluice.ops.variable_scope import variable_scope
from sluice.ops.variables import Variable

_op = _core.op


# ---- Graphs, conversions, devices and errors ---------------------------------

_USE_C_API = True  # TensorFlow's tests read it; graphs are C++ objects.


def _set_call_cpp_shape_fn(call_cpp_shape_fn):
    """Does nothing, because shapes are inferred in C++."""


_uids = itertools.count()


def uid():
    """Returns a number that is unique in this process."""
    return next(_uids)


def _NodeDef(op_type, name, device=None, attrs=None):
    """Makes a NodeDef; `attrs` are AttrValues by name."""
    return protos.NodeDef(op=op_type, name=name, attr=attrs,
                          device=graphs._device_string(device) or "")


DEFAULT_GRAPH_SEED = 87654321


_TensorLike = (_core.Tensor, SparseTensor, IndexedSlices)


def is_dense_tensor_like(t):
    """Returns whether a value is a tensor or a variable."""
    return isinstance(t, (_core.Tensor, Variable))


def convert_n_to_tensor(values, dtype=None, name=None, preferred_dtype=None):
    """Applies `convert_to_tensor` to each value."""
    return [convert_to_tensor(v, dtype,
                              None if name is None else f"{name}_{i}",
                              preferred_dtype) for i, v in enumerate(values)]


constant_v1 = conversion.constant


DeviceSpecV1 = DeviceSpec
variable = Variable


def canonical_name(device):
    """Returns the full name of a device or DeviceSpec; "" for None."""
    if device is None:
        return ""
    if not isinstance(device, DeviceSpec):
        device = DeviceSpec.from_string(device)
    return device.to_string()


def merge_device(spec):
    """Returns a device function that completes the devices of operations."""
    spec = DeviceSpec.from_string(spec or "")

    def merged(node_def):
        own = DeviceSpec.from_string(node_def.device or "")
        return spec.make_merged_spec(own)
    return merged


def check_valid(spec):
    """Raises ValueError unless the string is a device name."""
    DeviceSpec.from_string(spec)


def _make_specific_exception(node_def, op, message, error_code):
    """Makes the exception of an error code."""
    if error_code in errors._CLASSES:
        return errors._CLASSES[error_code](node_def, op, message)
    warnings.warn(f"Unknown error code: {error_code}")
    return errors.UnknownError(node_def, op, message, error_code)


# ---- Names and shapes --------------------------------------------------------


def prepend_name_scope(name, import_scope):
    """Adds a scope to a name ("x", "^x", "loc:@x")."""
    if not import_scope:
        return name
    return re.sub(r"^(\^|loc:@|)(.*)$",
                  rf"\g<1>{scopes.within(import_scope)}\2", name)


def is_broadcast_compatible(shape_x, shape_y):
    """Returns whether two static shapes can broadcast."""
    try:
        return tensor_shape.broadcast_shape(shape_x, shape_y).ndims is not None
    except ValueError:
        return False


def scalar_shape(unused_op):
    """Returns the shapes of an operation with one scalar output."""
    return [tensor_shape.scalar()]


def no_outputs(unused_op):
    """Returns the shapes of an operation without outputs."""
    return []


def list_local_devices(session_config=None):
    """Returns the devices of this process.

    It replaces the function in `tensorflow.python.client.device_lib`.
    """
    with Session(graph=graphs.Graph(), config=session_config) as session:
        return session.list_devices()


# ---- Operations and gradients ------------------------------------------------


def _Enter(data, frame_name, is_constant=False, parallel_iterations=10,
           use_ref=True, use_input_shape=True, name=None):
    """Returns a tensor, or each part of one, in a loop's frame."""
    if isinstance(data, Variable) and use_ref:
        data = data._ref()
    del use_input_shape  # The op has the shape of its input.
    return control_flow._of_each_part(
        "Enter", data, name, frame_name=frame_name, is_constant=is_constant,
        parallel_iterations=parallel_iterations)


def _Identity(tensor, name=None):
    """Returns an Identity of a tensor or a reference, or of each part of one."""
    if isinstance(tensor, Variable):
        tensor = tensor._ref()
    return control_flow._of_each_part("Identity", tensor, name)


def shape_internal(input, name=None, optimize=True, out_type=dtypes.int32):
    """Works like `shape`; without `optimize`, always adds an operation."""
    if optimize or isinstance(input, array_ops._SPARSE):
        return array_ops.shape(input, name, out_type)
    return _op("Shape")(input, out_type=out_type, name=name)


def rank_internal(input, name=None, optimize=True):
    """Works like `rank`; without `optimize`, always adds an operation."""
    if optimize:
        return array_ops.rank(input, name)
    return _op("Rank")(convert_to_tensor(input), name=name)


def reduced_shape(input_shape, axes):
    """Returns the shape of a reduction with `keepdims`."""
    input_shape = math_ops.cast(input_shape, dtypes.int32)
    axes = math_ops.cast(axes, dtypes.int32)
    rank = _op("Size")(input_shape)
    axes = (axes + rank) % rank
    return _op("DynamicStitch")(
        [math_ops.range(rank), axes],
        [input_shape, _op("Fill")(_op("Shape")(axes), 1)])


def nth_element(input, n, reverse=False, name=None):
    """Returns the n-th smallest (or largest) element of each row."""
    return _op("NthElement")(input, n, reverse=reverse, name=name)


def _hessian_vector_product(ys, xs, v):
    """Multiplies the Hessian of sum(ys) by a vector.

    The vector and the result are lists with a part for each x.
    """
    xs, v = gradients._list(xs), gradients._list(v)
    if len(v) != len(xs):
        raise ValueError("xs and v must have the same length.")
    products = [math_ops.multiply(grad, array_ops.stop_gradient(part))
                for grad, part in zip(gradients.gradients(ys, xs), v)
                if grad is not None]
    return gradients.gradients(products, xs)


def _AggregateIndexedSlicesGradients(grads):
    """Sums gradients, which may be sparse or None; None if all are None."""
    some = [g for g in grads if g is not None]
    if len(some) < 2:
        return some[0] if some else None
    slices = math_ops._as_indexed_slices_list(some)
    return IndexedSlices(array_ops.concat([s.values for s in slices], 0),
                         array_ops.concat([s.indices for s in slices], 0),
                         slices[0].dense_shape)


def _GetGradSource(op_or_tensor):
    """Returns the innermost gradient scope ("gradients_1/...") of a name.

    The result includes its parent scopes. Raises ValueError if there is no such
    scope.
    """
    parts = op_or_tensor.name.split("/")
    at = [i for i, part in enumerate(parts) if part.startswith("gradients")]
    if not at:
        raise ValueError(f"Expected op/tensor name to start with gradients "
                         f"(excluding scope), got: {op_or_tensor.name}")
    return "/".join(parts[:at[-1] + 1])


# ---- Initializers and variables ----------------------------------------------

identity_initializer = init_ops.Identity


RefVariable = VariableV1 = Variable


def is_resource_variable(var):
    """Returns whether a variable is a resource variable."""
    return isinstance(var, Variable) and var._resource


_PartitionInfo = partitioned.PartitionInfo


def _pure_variable_scope(name_or_scope, **defaults):
    """Works like `variable_scope`, but without a name scope."""
    return variable_scope(name_or_scope, auxiliary_name_scope=False, **defaults)


# ---- Functions with names from later versions --------------------------------


def softmax_v2(logits, axis=None, name=None):
    """Calls `softmax`."""
    return nn.softmax(logits, axis, name)


def log_softmax_v2(logits, axis=None, name=None):
    """Calls `log_softmax`."""
    return nn.log_softmax(logits, axis, name)


def dropout_v2(x, rate=None, noise_shape=None, seed=None, name=None):
    """Calls `dropout`."""
    return nn.dropout(x, noise_shape=noise_shape, seed=seed, name=name,
                      rate=rate)


def l2_normalize_v2(x, axis=None, epsilon=1e-12, name=None):
    """Calls `l2_normalize`."""
    return nn.l2_normalize(x, axis, epsilon, name)


def moments_v2(x, axes, shift=None, keepdims=False, name=None):
    """Calls `moments`."""
    return nn.moments(x, axes, shift, name, keepdims=keepdims)


def embedding_lookup_v2(params, ids, max_norm=None, name=None):
    """Calls `embedding_lookup` with the partition strategy "div"."""
    return embedding.embedding_lookup(params, ids, "div", name,
                                      max_norm=max_norm)


def embedding_lookup_sparse_v2(params, sp_ids, sp_weights, combiner=None,
                               max_norm=None, name=None):
    """Calls `embedding_lookup_sparse` with the partition strategy "div"."""
    return embedding.embedding_lookup_sparse(
        params, sp_ids, sp_weights, "div", name, combiner, max_norm)


def safe_embedding_lookup_sparse_v2(embedding_weights, sparse_ids,
                                    sparse_weights=None, combiner="mean",
                                    default_id=None, max_norm=None, name=None):
    """Calls `safe_embedding_lookup_sparse` with the strategy "div"."""
    return embedding.safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner, default_id,
        name, "div", max_norm)


def nce_loss_v2(weights, biases, labels, inputs, num_sampled, num_classes,
                num_true=1, sampled_values=None, remove_accidental_hits=False,
                name="nce_loss"):
    """Calls `nce_loss` with the partition strategy "div"."""
    return embedding.nce_loss(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        sampled_values, remove_accidental_hits, "div", name)


def sampled_softmax_loss_v2(weights, biases, labels, inputs, num_sampled,
                            num_classes, num_true=1, sampled_values=None,
                            remove_accidental_hits=True, seed=None,
                            name="sampled_softmax_loss"):
    """Calls `sampled_softmax_loss` with the partition strategy "div"."""
    return embedding.sampled_softmax_loss(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        sampled_values, remove_accidental_hits, "div", name, seed)


def ctc_loss_dense(labels, logits, label_length, logit_length,
                   logits_time_major=True, unique=None, blank_index=0,
                   name=None):
    """Calls `ctc_loss_v2` with dense labels."""
    return ctc.ctc_loss_v2(labels, logits, label_length, logit_length,
                           logits_time_major, unique, blank_index, name)


def string_split_v2(source, sep=None, maxsplit=-1):
    """Calls `strings_split`."""
    return string_ops.strings_split(source, sep, maxsplit)


print_v2 = string_ops.tf_print
resize_image_with_pad_v1 = image_resizing.resize_image_with_pad
decode_raw_v1 = parsing.decode_raw
