"""The names of the package, each with where it is defined.

Modules are loaded when a name of theirs is first asked for; a name that is not
there is answered with the nearest one.
"""

import importlib
import types

from sluice import _core


def _from(module, *names, **renamed):
    found = {name: (module, name) for name in names}
    found.update({name: (module, there) for name, there in renamed.items()})
    return found


_FRAMEWORK = {
    **_from("sluice.framework.dtypes", "DType", "as_dtype", "float16",
            "float32", "float64", "bfloat16", "half", "double", "int8",
            "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "string", "complex64", "complex128", "resource", "variant",
            "qint8", "quint8", "qint16", "quint16", "qint32", bool="bool_"),
    **_from("sluice.framework.tensor_shape", "TensorShape", "Dimension",
            "dimension_value"),
    **_from("sluice.framework.graph", "Graph", "Operation", "Tensor",
            "GraphKeys", "get_default_graph", "reset_default_graph",
            "name_scope", "device", "control_dependencies", "colocate_with",
            "container", "add_to_collection", "add_to_collections",
            "get_collection", "get_collection_ref", "set_random_seed",
            "get_seed", "init_scope"),
    **_from("sluice.framework.node_def", "GraphDef", "NodeDef",
            "import_graph_def"),
    **_from("sluice.framework.conversion", "IndexedSlices",
            "IndexedSlicesValue", "SparseTensor", "SparseTensorValue",
            "constant", "convert_to_tensor",
            "convert_to_tensor_or_indexed_slices",
            "convert_to_tensor_or_sparse_tensor",
            "register_tensor_conversion_function",
            get_static_value="constant_value"),
    **_from("sluice.client.session", "Session", "InteractiveSession",
            "RunOptions", "RunMetadata", "ConfigProto", "GPUOptions",
            "GraphOptions", "OptimizerOptions", "get_default_session"),
}

_MATH = _from(
    "sluice.ops.math_ops", "add", "subtract", "multiply", "divide", "truediv",
    "floordiv", "floormod", "mod", "truncatediv", "truncatemod", "realdiv",
    "div", "div_no_nan", "floor_div", "maximum", "minimum",
    "squared_difference", "negative", "reciprocal", "square", "sqrt", "rsqrt",
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid",
    "erf", "erfc", "lgamma", "digamma", "sign", "floor", "ceil", "rint",
    "round", "is_nan", "is_inf", "is_finite", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_not", "logical_xor", "abs", "pow", "cast", "saturate_cast",
    "to_float", "to_double", "to_int32", "to_int64", "to_bfloat16", "real",
    "imag", "conj", "complex", "scalar_mul", "add_n", "accumulate_n", "matmul",
    "range", "linspace", "reduce_sum", "reduce_mean", "reduce_prod",
    "reduce_max", "reduce_min", "reduce_all", "reduce_any",
    "reduce_logsumexp", "count_nonzero", "cumsum", "cumprod", "argmax",
    "argmin", "tensordot", "segment_sum", "segment_mean", "segment_max",
    "segment_min", "segment_prod", "unsorted_segment_sum",
    "unsorted_segment_max", "bincount", "cholesky", "trace", neg="negative", mul="multiply",
    sub="subtract", arg_max="argmax", arg_min="argmin", lin_space="linspace")

_CHECKS = _from(
    "sluice.ops.check_ops", "assert_equal", "assert_none_equal", "assert_less",
    "assert_less_equal", "assert_greater", "assert_greater_equal",
    "assert_negative", "assert_positive", "assert_non_negative",
    "assert_non_positive", "assert_near", "assert_rank",
    "assert_rank_at_least", "assert_rank_in", "assert_scalar", "assert_type",
    "assert_integer", "assert_proper_iterable", "is_numeric_tensor",
    "is_non_decreasing", "is_strictly_increasing", "add_check_numerics_ops",
    "assert_same_float_dtype", verify_tensor_all_finite="assert_all_finite")

_OPS = {
    **_MATH,
    **_from("sluice.ops.array_ops", "reshape", "identity", "identity_n",
            "stop_gradient", "tile", "gather", "gather_nd", "scatter_nd",
            "invert_permutation", "unique", "unique_with_counts",
            "broadcast_to", "fill", "slice", "matrix_diag", "matrix_diag_part", "diag",
            "diag_part", "bitcast", "check_numerics", "dynamic_partition",
            "dynamic_stitch", "space_to_depth", "depth_to_space",
            "space_to_batch_nd", "batch_to_space_nd", "matrix_band_part",
            "placeholder", "placeholder_with_default", "shape", "shape_n",
            "size", "rank", "zeros", "ones", "zeros_like", "ones_like",
            "expand_dims", "squeeze", "concat", "stack", "parallel_stack",
            "unstack", "split", "transpose", "matrix_transpose", "where",
            "where_v2", "pad", "reverse", "reverse_v2",
            "reverse_sequence", "one_hot",
            "boolean_mask", "sequence_mask", "sparse_to_dense",
            "strided_slice", "newaxis"),
    **_from("sluice.ops.random_ops", "random_uniform", "random_normal",
            "truncated_normal", "random_shuffle", "multinomial"),
    **_from("sluice.ops.control_flow", "no_op", "group", "tuple", "cond",
            "case", "while_loop", "Assert", "Print"),
    **_CHECKS,
    **_from("sluice.ops.tensor_array", "TensorArray"),
    **_from("sluice.ops.clip_ops", "clip_by_value", "clip_by_norm",
            "clip_by_global_norm", "global_norm"),
    **_from("sluice.ops.functional", "map_fn", "foldl", "foldr", "scan"),
    **_from("sluice.ops.gradients", "gradients", "hessians",
            "RegisterGradient", "NotDifferentiable", "NoGradient",
            "UnconnectedGradients", "AggregationMethod"),
    **_from("sluice.ops.variables", "Variable", "global_variables",
            "all_variables", "local_variables", "model_variables",
            "trainable_variables", "moving_average_variables",
            "variables_initializer", "initialize_variables",
            "global_variables_initializer", "initialize_all_variables",
            "local_variables_initializer", "initialize_local_variables",
            "is_variable_initialized", "report_uninitialized_variables",
            "assert_variables_initialized", "scatter_update", "scatter_add",
            "scatter_sub", "scatter_mul", "scatter_div", "assign",
            "assign_add", "assign_sub"),
    **_from("sluice.ops.variable_scope", "AUTO_REUSE", "VariableScope",
            "variable_scope", "variable_op_scope", "get_variable",
            "get_local_variable", "get_variable_scope", "no_regularizer"),
    **_from("sluice.ops.partitioned", "fixed_size_partitioner",
            "variable_axis_size_partitioner", "min_max_variable_partitioner",
            "create_partitioned_variables"),
    **_from("sluice.ops.init_ops", "Initializer",
            zeros_initializer="Zeros", ones_initializer="Ones",
            constant_initializer="Constant",
            random_uniform_initializer="RandomUniform",
            random_normal_initializer="RandomNormal",
            truncated_normal_initializer="TruncatedNormal",
            variance_scaling_initializer="VarianceScaling",
            glorot_uniform_initializer="GlorotUniform",
            glorot_normal_initializer="GlorotNormal"),
}

_ERRORS = _from("sluice.framework.errors", "OpError")

# Modules as they are.
_MODULES = {
    "errors": "sluice.framework.errors", "nest": "sluice.nest",
    "raw_ops": "sluice.raw_ops", "logging": "sluice.logging",
    "version": "sluice.version", "test": "sluice.test",
    "compat": "sluice.compat"}

_DEBUGGING = {
    **_CHECKS, **_from("sluice.ops.check_ops", "assert_all_finite"),
    **_from("sluice.ops.math_ops", "is_nan", "is_inf", "is_finite"),
    **_from("sluice.ops.array_ops", "check_numerics"),
    **_from("sluice.ops.control_flow", "Assert")}
_LAYERS = _from(
    "sluice.layers", "InputSpec", "Layer", "AveragePooling1D",
    "AveragePooling2D", "AveragePooling3D", "BatchNormalization", "Conv1D",
    "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense",
    "Dropout", "Flatten", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
    "SeparableConv1D", "SeparableConv2D", "average_pooling1d",
    "average_pooling2d", "average_pooling3d", "batch_normalization", "conv1d",
    "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "dense",
    "dropout", "flatten", "max_pooling1d", "max_pooling2d", "max_pooling3d",
    "separable_conv1d", "separable_conv2d")
_LOSSES = _from(
    "sluice.losses", "Reduction", "absolute_difference", "add_loss",
    "compute_weighted_loss", "cosine_distance", "get_losses",
    "get_regularization_loss", "get_regularization_losses", "get_total_loss",
    "hinge_loss", "huber_loss", "log_loss", "mean_pairwise_squared_error",
    "mean_squared_error", "sigmoid_cross_entropy", "softmax_cross_entropy",
    "sparse_softmax_cross_entropy")
_METRICS = _from(
    "sluice.metrics", "accuracy", "auc", "false_negatives",
    "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean", "mean_absolute_error",
    "mean_cosine_distance", "mean_iou", "mean_per_class_accuracy",
    "mean_relative_error", "mean_squared_error", "mean_tensor",
    "percentage_below", "precision", "precision_at_thresholds", "recall",
    "recall_at_thresholds", "root_mean_squared_error",
    "sensitivity_at_specificity", "specificity_at_sensitivity",
    "true_negatives", "true_negatives_at_thresholds", "true_positives",
    "true_positives_at_thresholds")
_TRAIN = _from(
    "sluice.train", "Optimizer", "GradientDescentOptimizer",
    "AdagradOptimizer", "MomentumOptimizer", "RMSPropOptimizer",
    "AdamOptimizer", "exponential_decay", "piecewise_constant",
    "get_global_step", "create_global_step", "get_or_create_global_step",
    "global_step")
_INITIALIZERS = _from(
    "sluice.ops.init_ops", zeros="Zeros", ones="Ones", constant="Constant",
    random_uniform="RandomUniform", random_normal="RandomNormal",
    truncated_normal="TruncatedNormal", variance_scaling="VarianceScaling",
    glorot_uniform="GlorotUniform", glorot_normal="GlorotNormal",
    identity="Identity")
_INITIALIZERS.update({
    name: ("sluice.ops.variables", there) for name, there in (
        ("variables", "variables_initializer"),
        ("global_variables", "global_variables_initializer"),
        ("local_variables", "local_variables_initializer"))})
_RANDOM = _from(
    "sluice.ops.random_ops", uniform="random_uniform", normal="random_normal",
    truncated_normal="truncated_normal", shuffle="random_shuffle",
    multinomial="multinomial")
_RANDOM["set_random_seed"] = ("sluice.framework.graph", "set_random_seed")
_NN = {
    **_from("sluice.ops.nn", "relu", "relu6", "elu", "selu", "softplus",
            "softsign", "tanh", "sigmoid", "l2_loss", "in_top_k", "lrn",
            "local_response_normalization", "leaky_relu", "swish", "bias_add",
            "xw_plus_b", "softmax", "log_softmax",
            "softmax_cross_entropy_with_logits_v2",
            "softmax_cross_entropy_with_logits",
            "sparse_softmax_cross_entropy_with_logits",
            "sigmoid_cross_entropy_with_logits", "conv2d", "depthwise_conv2d",
            "depthwise_conv2d_native", "conv2d_transpose", "max_pool",
            "avg_pool", "moments", "batch_normalization", "l2_normalize",
            "dropout", "embedding_lookup", "top_k", "zero_fraction", "crelu",
            "fused_batch_norm"),
    **_from("sluice.ops.conv", "convolution", "conv1d", "conv1d_transpose",
            "conv3d", "conv3d_transpose", "conv3d_backprop_filter",
            "conv2d_backprop_filter", "conv2d_backprop_input",
            "separable_conv2d", "atrous_conv2d", "atrous_conv2d_transpose",
            "pool", "max_pool1d", "avg_pool1d", "max_pool3d", "avg_pool3d",
            "max_pool_with_argmax", "dilation2d", "erosion2d",
            conv3d_backprop_filter_v2="conv3d_backprop_filter"),
    **_from("sluice.ops.rnn", "dynamic_rnn", "bidirectional_dynamic_rnn",
            "raw_rnn", "static_rnn", "static_bidirectional_rnn")}
_CELLS = _from(
    "sluice.ops.rnn_cell", "RNNCell", "BasicRNNCell", "GRUCell",
    "LSTMStateTuple", "BasicLSTMCell", "LSTMCell", "MultiRNNCell",
    "DropoutWrapper", "ResidualWrapper", "DeviceWrapper")
_OPS.update(_from("sluice.ops.confusion_matrix", "confusion_matrix"))
_MATH_NAMESPACE = {**_MATH, "confusion_matrix": _OPS["confusion_matrix"]}
for _name in ("softmax", "log_softmax", "softplus", "softsign", "top_k",
              "in_top_k", "l2_normalize", "zero_fraction"):
    _MATH_NAMESPACE[_name] = ("sluice.ops.nn", _name)

PUBLIC = {**_FRAMEWORK, **_OPS, **_ERRORS}


# Namespaces that take their names from several modules.
_GROUPS = {
    "debugging": _DEBUGGING, "initializers": _INITIALIZERS, "layers": _LAYERS, "losses": _LOSSES,
    "math": _MATH_NAMESPACE, "metrics": _METRICS, "nn": _NN,
    "nn.rnn_cell": _CELLS, "random": _RANDOM, "train": _TRAIN}


class _Namespace(types.ModuleType):
    """Names that are found when they are asked for: `math`, `nn`."""

    def __init__(self, name, key):
        super().__init__(name, f"The names of {key}.")
        self._key = key

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _find(self.__name__, name, self._key + ".", _GROUPS[self._key],
                     self.__dict__)

    def __dir__(self):
        within = self._key + "."
        return sorted(set(_GROUPS[self._key]) | {
            k[len(within):] for k in (*_GROUPS, *_MODULES)
            if k.startswith(within) and "." not in k[len(within):]})

    def __repr__(self):
        return f"<namespace {self.__name__}>"


def _find(where, name, prefix, names, cache):
    key = prefix + name
    entry = names.get(name)
    if entry is not None:
        value = getattr(importlib.import_module(entry[0]), entry[1])
    elif key in _GROUPS:
        value = _Namespace(f"{where}.{name}", key)
    elif key in _MODULES:
        value = importlib.import_module(_MODULES[key])
    else:
        near = ", ".join(_core.nearest_names(name, sorted(names)))
        raise AttributeError(
            f"module '{where}' has no attribute '{name}'"
            f"{f' (nearest: {near})' if near else ''}")
    cache[name] = value
    return value


def lookup(where, name, cache):
    """What `name` is in the module `where`, whose globals are `cache`.

    Raises:
      AttributeError: with the nearest name, if it is nothing.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return _find(where, name, "", PUBLIC, cache)
