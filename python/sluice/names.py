"""The public names of the package, with the module that defines each.

name_lookup.py imports a module when one of its names is first used.
"""

from sluice.absences import MODULE_NEEDS


def _from(module, *names, **renamed):
    """Returns names of a module; keywords are renamed: public=internal."""
    module = "sluice." + module
    found = {name: (module, name) for name in names}
    found.update({name: (module, there) for name, there in renamed.items()})
    return found


def _raw(*same, **renamed):
    """Returns op functions under public names: name=op type."""
    return _from("raw_ops", *same, **renamed)


_FRAMEWORK = {
    **_from("framework.dtypes", "DType", "as_dtype", "float16",
            "float32", "float64", "bfloat16", "half", "double", "int8",
            "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "string", "complex64", "complex128", "resource", "variant",
            "qint8", "quint8", "qint16", "quint16", "qint32", bool="bool_"),
    **_from("framework.tensor_shape", "TensorShape", "Dimension",
            "dimension_value", "dimension_at_index"),
    **_from("framework.elements", "Operation", "Tensor"),
    **_from("framework.graph", "Graph",
            "GraphKeys", "get_default_graph", "reset_default_graph",
            "name_scope", "device", "control_dependencies", "colocate_with",
            "container", "add_to_collection", "add_to_collections",
            "get_collection", "get_collection_ref", "set_random_seed",
            "get_seed", "init_scope"),
    **_from("framework.node_def", "import_graph_def"),
    **_from("framework.protos", "AttrValue", "ConfigProto", "GPUOptions",
            "GraphDef", "GraphOptions", "MetaGraphDef", "NameAttrList",
            "NodeDef", "OptimizerOptions", "RunMetadata", "RunOptions",
            "TensorProto"),
    **_from("functions.function", "Declare", "Defun"),
    **_from("functions.traced", "function"),
    **_from("functions.wrapped", "wrap_function"),
    **_from("framework.conversion", "IndexedSlices",
            "IndexedSlicesValue", "SparseTensor", "SparseTensorValue",
            "constant", "convert_to_tensor",
            "convert_to_tensor_or_indexed_slices",
            "convert_to_tensor_or_sparse_tensor", "is_tensor",
            "register_tensor_conversion_function",
            get_static_value="constant_value"),
    **_from("framework.specs", "TypeSpec", "type_spec_from_value", "TensorSpec",
            "SparseTensorSpec", "IndexedSlicesSpec"),
    **_from("framework.tensor_proto", "make_tensor_proto",
            "make_ndarray"),
    **_from("framework.op_library", "load_op_library"),
    **_from("framework.devices", "DeviceSpec"),
    **_from("client.progress_bar", "progress"),
    **_from("version", "GRAPH_DEF_VERSION",
            "GRAPH_DEF_VERSION_MIN_CONSUMER", "GRAPH_DEF_VERSION_MIN_PRODUCER"),
    **_from("client.session", "Session", "InteractiveSession"),
    **_from("framework.default_session", "get_default_session"),
}

_MATH = _from(
    "ops.math_ops", "add", "subtract", "multiply", "divide", "truediv",
    "floordiv", "floormod", "mod", "truncatediv", "truncatemod", "realdiv",
    "div", "div_no_nan", "floor_div", "maximum", "minimum",
    "squared_difference", "negative", "reciprocal", "square", "sqrt", "rsqrt",
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid",
    "erf", "erfc", "lgamma", "digamma", "sign", "floor", "ceil", "rint",
    "round", "is_nan", "is_inf", "is_finite", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_not", "logical_xor", "abs", "pow", "cast", "saturate_cast",
    "to_float", "to_double", "to_int32", "to_int64", "to_bfloat16",
    "to_complex64", "to_complex128", "real",
    "imag", "conj", "complex", "scalar_mul", "add_n", "accumulate_n", "matmul",
    "range", "linspace", "reduce_sum", "reduce_mean", "reduce_prod",
    "reduce_max", "reduce_min", "reduce_all", "reduce_any",
    "reduce_logsumexp", "count_nonzero", "cumsum", "cumprod", "argmax",
    "argmin", "arg_max", "arg_min", "segment_sum", "segment_mean",
    "segment_max", "segment_min", "segment_prod", "unsorted_segment_sum",
    "unsorted_segment_max", "cholesky", "trace", "lbeta",
    "log_sigmoid", "angle", neg="negative", mul="multiply", sub="subtract",
    lin_space="linspace")
_MATH.update(_from("ops.contractions", "einsum", "tensordot"))
_MATH.update(_from(
    "ops.segments", "bincount", "histogram_fixed_width",
    "sparse_segment_sum", "sparse_segment_mean", "sparse_segment_sqrt_n",
    "unsorted_segment_mean", "unsorted_segment_sqrt_n"))
_MATH.update(_raw(
    cross="Cross", betainc="Betainc", igamma="Igamma", igammac="Igammac",
    polygamma="Polygamma", zeta="Zeta", approximate_equal="ApproximateEqual",
    unsorted_segment_min="UnsortedSegmentMin",
    unsorted_segment_prod="UnsortedSegmentProd"))
_LINALG = {
    **_from("ops.linalg_ops", "adjoint", "cholesky_solve", "cross",
            "det", "expm", "eye", "inv", "logdet", "lstsq", "norm", "qr",
            "slogdet", "solve", "svd", "triangular_solve", "matvec",
            "matrix_rank", "pinv", "normalize", "lu_matrix_inverse",
            "lu_reconstruct", "lu_solve",
            eigh="self_adjoint_eig", eigvalsh="self_adjoint_eigvals",
            tridiagonal_solve="tridiagonal_solve"),
    **_from("ops.array_ops", band_part="matrix_band_part",
            tensor_diag="diag", tensor_diag_part="diag_part",
            transpose="matrix_transpose",
            matrix_transpose="matrix_transpose"),
    **_from("ops.diagonals", diag="matrix_diag",
            diag_part="matrix_diag_part", set_diag="matrix_set_diag"),
    **_from("ops.clip_ops", "global_norm"),
    **_from("ops.contractions", "einsum", "tensordot"),
    **_from("ops.math_ops", "cholesky", "matmul", "trace"),
    **_from("ops.nn", "l2_normalize"),
    **_raw(lu="Lu")}
_FFT = _raw(fft="FFT", ifft="IFFT", fft2d="FFT2D", ifft2d="IFFT2D",
            fft3d="FFT3D", ifft3d="IFFT3D")
_SIGNAL = {**_FFT, **_from(
    "ops.signal_ops", "rfft", "irfft", "rfft2d", "irfft2d", "rfft3d",
    "irfft3d", "fftshift", "ifftshift", "frame", "overlap_and_add",
    "hann_window", "hamming_window", "stft", "inverse_stft",
    "inverse_stft_window_fn", "dct", "idct", "linear_to_mel_weight_matrix",
    "mfccs_from_log_mel_spectrograms")}
_SPARSE = {
    **_from("ops.sparse_ops", "from_dense", mask="sparse_mask",
            placeholder="sparse_placeholder", to_dense="sparse_to_dense",
            matmul="sparse_tensor_dense_matmul",
            sparse_dense_matmul="sparse_tensor_dense_matmul",
            merge="sparse_merge", **{n: "sparse_" + n for n in (
                "add", "concat", "cross", "cross_hashed", "expand_dims", "eye",
                "fill_empty_rows", "maximum", "minimum", "reduce_max",
                "reduce_max_sparse", "reduce_sum", "reduce_sum_sparse",
                "reorder", "reset_shape", "reshape", "retain", "slice",
                "softmax", "split", "to_indicator", "transpose")}),
    **_from("framework.conversion", "SparseTensor"),
    **_from("ops.segments", **{n: "sparse_" + n for n in (
        "segment_sum", "segment_mean", "segment_sqrt_n")})}
_SETS = _from("ops.sparse_ops", "set_difference", "set_intersection",
              "set_size", "set_union", difference="set_difference",
              intersection="set_intersection", size="set_size",
              union="set_union")
_STRINGS = {
    **_from("ops.string_ops", "as_string", "reduce_join",
            "regex_full_match", "regex_replace", "substr",
            "unsorted_segment_join", format="string_format",
            join="string_join", length="string_length", lower="string_lower",
            split="strings_split", strip="string_strip", upper="string_upper",
            to_hash_bucket="string_to_hash_bucket",
            to_hash_bucket_fast="string_to_hash_bucket_fast",
            to_hash_bucket_strong="string_to_hash_bucket_strong",
            to_number="string_to_number")}
_IO = _from("ops.string_ops", "decode_base64", "encode_base64")
_PARSING = _from("ops.parsing", "decode_csv", "decode_json_example",
                 "decode_raw", "parse_example", "parse_single_example",
                 "parse_single_sequence_example")
_IO.update({**_PARSING, **_from("ops.parsing", "parse_sequence_example")})
_IO.update({
    **_from("framework.graph_io", "write_graph"),
    **_from("ops.sparse_ops", "serialize_sparse",
            "serialize_many_sparse", "deserialize_many_sparse"),
    **_raw(decode_compressed="DecodeCompressed",
           serialize_tensor="SerializeTensor", parse_tensor="ParseTensor")})
_IMAGE_CODECS = _from(
    "ops.image_codecs", "decode_and_crop_jpeg", "decode_bmp", "decode_gif",
    "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png",
    "extract_jpeg_shape", "is_jpeg")
_IO.update(_IMAGE_CODECS)
_IMAGE = {
    **_IMAGE_CODECS,
    **_from("ops.image_codecs", "adjust_jpeg_quality", "random_jpeg_quality"),
    **_from("ops.image_ops", "central_crop", "crop_to_bounding_box",
            "flip_left_right", "flip_up_down", "pad_to_bounding_box",
            "random_crop", "random_flip_left_right", "random_flip_up_down",
            "resize_image_with_crop_or_pad", "rot90", "transpose_image",
            resize_with_crop_or_pad="resize_image_with_crop_or_pad",
            transpose="transpose_image"),
    **_from("ops.image_colors", "adjust_brightness", "adjust_contrast",
            "adjust_gamma", "adjust_hue", "adjust_saturation",
            "convert_image_dtype", "grayscale_to_rgb", "hsv_to_rgb",
            "per_image_standardization", "random_brightness",
            "random_contrast", "random_hue", "random_saturation",
            "rgb_to_grayscale", "rgb_to_hsv", "rgb_to_yiq", "rgb_to_yuv",
            "yiq_to_rgb", "yuv_to_rgb"),
    **_from("ops.image_resizing", "ResizeMethod", "crop_and_resize",
            "extract_glimpse", "resize_area", "resize_bicubic",
            "resize_bilinear", "resize_image_with_pad", "resize_images",
            "resize_nearest_neighbor", resize="resize_images"),
    **_from("ops.image_boxes", "combined_non_max_suppression",
            "draw_bounding_boxes", "non_max_suppression",
            "non_max_suppression_overlaps", "non_max_suppression_padded",
            "non_max_suppression_with_scores",
            "sample_distorted_bounding_box"),
    **_from("ops.image_quality", "image_gradients", "psnr", "sobel_edges",
            "ssim", "ssim_multiscale", "total_variation")}
_IMAGE.update(_from("ops.array_ops", "extract_image_patches",
                    "extract_patches"))
_QUANTIZED = _raw(
    dequantize="Dequantize", quantize_v2="QuantizeV2",
    quantized_concat="QuantizedConcat",
    fake_quant_with_min_max_args="FakeQuantWithMinMaxArgs",
    fake_quant_with_min_max_args_gradient="FakeQuantWithMinMaxArgsGradient",
    fake_quant_with_min_max_vars="FakeQuantWithMinMaxVars",
    fake_quant_with_min_max_vars_gradient="FakeQuantWithMinMaxVarsGradient",
    fake_quant_with_min_max_vars_per_channel=(
        "FakeQuantWithMinMaxVarsPerChannel"),
    fake_quant_with_min_max_vars_per_channel_gradient=(
        "FakeQuantWithMinMaxVarsPerChannelGradient"))

_QUANTIZED.update(_from(
    "ops.quantize_ops", "quantize", "quantize_and_dequantize",
    "quantize_and_dequantize_v2"))

_CHECKS = _from(
    "ops.check_ops", "assert_equal", "assert_none_equal", "assert_less",
    "assert_less_equal", "assert_greater", "assert_greater_equal",
    "assert_negative", "assert_positive", "assert_non_negative",
    "assert_non_positive", "assert_near", "assert_rank",
    "assert_rank_at_least", "assert_rank_in", "assert_scalar", "assert_type",
    "assert_integer", "assert_proper_iterable", "is_numeric_tensor",
    "is_non_decreasing", "is_strictly_increasing", "add_check_numerics_ops",
    "assert_same_float_dtype", verify_tensor_all_finite="assert_all_finite")

_OPS = {
    **_MATH,
    **_from("ops.array_ops", "reshape", "identity", "identity_n",
            "stop_gradient", "tile", "gather", "gather_nd", "scatter_nd",
            "invert_permutation", "unique", "unique_with_counts",
            "broadcast_to", "fill", "slice", "diag", "diag_part", "bitcast",
            "check_numerics", "dynamic_partition",
            "dynamic_stitch", "space_to_depth", "depth_to_space",
            "space_to_batch_nd", "batch_to_space_nd", "matrix_band_part",
            "placeholder", "placeholder_with_default", "shape", "shape_n",
            "size", "rank", "zeros", "ones", "zeros_like", "ones_like",
            "expand_dims", "squeeze", "concat", "stack", "parallel_stack",
            "unstack", "split", "transpose", "matrix_transpose", "where",
            "where_v2", "pad", "reverse", "reverse_v2",
            "reverse_sequence", "one_hot",
            "boolean_mask", "sequence_mask", "sparse_to_dense",
            "strided_slice", "newaxis", "meshgrid", "setdiff1d",
            "edit_distance", "space_to_batch", "batch_to_space",
            "required_space_to_batch_paddings", "broadcast_dynamic_shape",
            "broadcast_static_shape",
            "extract_image_patches", "ensure_shape", "batch_gather",
            "fingerprint"),
    **_from("ops.diagonals", "matrix_diag", "matrix_diag_part",
            "matrix_set_diag"),
    **_from("ops.ordering", "argsort", "repeat", "searchsorted",
            "sort"),
    **_raw(guarantee_const="GuaranteeConst",
           roll="Roll", unravel_index="UnravelIndex",
           tensor_scatter_update="TensorScatterUpdate",
           tensor_scatter_add="TensorScatterAdd",
           tensor_scatter_sub="TensorScatterSub",
           tensor_scatter_nd_update="TensorScatterUpdate",
           tensor_scatter_nd_add="TensorScatterAdd",
           tensor_scatter_nd_sub="TensorScatterSub",
           tensor_scatter_nd_max="TensorScatterMax",
           tensor_scatter_nd_min="TensorScatterMin",
           extract_volume_patches="ExtractVolumePatches",
           sparse_matmul="SparseMatMul", timestamp="Timestamp"),
    **_FFT, **_QUANTIZED,
    **_from("ops.linalg_ops", "cholesky_solve", "eye", "matrix_inverse",
            "matrix_determinant", "matrix_solve",
            "matrix_solve_ls", "matrix_triangular_solve", "norm", "qr",
            "self_adjoint_eig", "self_adjoint_eigvals", "svd"),
    **_from("ops.sparse_ops", "deserialize_many_sparse",
            "serialize_many_sparse", "serialize_sparse", "sparse_add",
            "sparse_concat", "sparse_fill_empty_rows", "sparse_mask",
            "sparse_maximum", "sparse_merge", "sparse_minimum",
            "sparse_placeholder", "sparse_reduce_max",
            "sparse_reduce_max_sparse", "sparse_reduce_sum",
            "sparse_reduce_sum_sparse", "sparse_reorder",
            "sparse_reset_shape", "sparse_reshape", "sparse_retain",
            "sparse_slice", "sparse_softmax", "sparse_split",
            "sparse_tensor_dense_matmul", "sparse_to_indicator",
            "sparse_transpose",
            sparse_tensor_to_dense="sparse_to_dense"),
    **_PARSING,
    **_from("ops.string_ops", "as_string", "decode_base64",
            "encode_base64", "reduce_join", "regex_replace", "string_join",
            "string_split", "string_strip", "string_to_hash_bucket",
            "string_to_hash_bucket_fast", "string_to_hash_bucket_strong",
            "string_to_number", "substr", "unsorted_segment_join",
            print="tf_print"),
    **_raw(decode_compressed="DecodeCompressed",
           serialize_tensor="SerializeTensor", parse_tensor="ParseTensor"),
    **_from("ops.image_ops", "random_crop"),
    **_from("functions.custom_gradient", "custom_gradient", "make_template",
            "Template", "grad_pass_through", "recompute_grad"),
    **_from("ops.random_ops", "random_uniform", "random_normal",
            "truncated_normal", "random_shuffle", "multinomial",
            "random_gamma", "random_poisson"),
    **_from("ops.control_flow", "no_op", "group", "tuple", "cond",
            "case", "switch_case", "while_loop", "Assert", "Print"),
    **_CHECKS,
    **_from("ops.tensor_array", "TensorArray", "TensorArraySpec"),
    **_from("ops.tensor_store", "TensorStore"),
    **_from("ops.scheduled", "scheduled"),
    **_from("client.treebank", "Treebank", "parse_treebank", "read_treebank"),
    **_from("contrib.critical_section", "CriticalSection"),
    **_from("ops.script_ops", "py_func", "numpy_function"),
    **_from("functions.eager_function", "py_function"),
    **_from("client.session_ops", "delete_session_tensor",
            "get_session_handle", "get_session_tensor"),
    **_from("ops.clip_ops", "clip_by_value", "clip_by_norm",
            "clip_by_average_norm", "clip_by_global_norm", "global_norm"),
    **_from("ops.functional", "map_fn", "foldl", "foldr", "scan"),
    **_from("ops.gradients", "gradients", "hessians",
            "RegisterGradient", "NotDifferentiable", "NoGradient",
            "no_gradient", "UnconnectedGradients", "AggregationMethod"),
    **_from("ops.tape", "GradientTape"),
    **_from("ops.variables", "Variable", "global_variables",
            "all_variables", "local_variables", "model_variables",
            "trainable_variables", "moving_average_variables",
            "variables_initializer", "initialize_variables",
            "global_variables_initializer", "initialize_all_variables",
            "local_variables_initializer", "initialize_local_variables",
            "is_variable_initialized", "report_uninitialized_variables",
            "assert_variables_initialized", "assign", "assign_add",
            "assign_sub", "count_up_to", "variable_creator_scope",
            "enable_resource_variables", "disable_resource_variables",
            "resource_variables_enabled"),
    **_from("ops.variable_copies", "VariableAggregation",
            "VariableSynchronization"),
    **_from("ops.scatters", "batch_scatter_update", "scatter_add",
            "scatter_div", "scatter_max", "scatter_min", "scatter_mul",
            "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update",
            "scatter_sub", "scatter_update"),
    **_from("ops.variable_scope", "AUTO_REUSE", "VariableScope",
            "variable_scope", "variable_op_scope", "get_variable",
            "get_local_variable", "get_variable_scope", "no_regularizer",
            "create_partitioned_variables"),
    **_from("ops.partitioned", "fixed_size_partitioner",
            "variable_axis_size_partitioner", "min_max_variable_partitioner"),
    **_from("ops.init_ops", "Initializer",
            zeros_initializer="Zeros", ones_initializer="Ones",
            constant_initializer="Constant",
            random_uniform_initializer="RandomUniform",
            random_normal_initializer="RandomNormal",
            truncated_normal_initializer="TruncatedNormal",
            variance_scaling_initializer="VarianceScaling",
            glorot_uniform_initializer="GlorotUniform",
            glorot_normal_initializer="GlorotNormal",
            orthogonal_initializer="Orthogonal",
            uniform_unit_scaling_initializer="UniformUnitScaling"),
}

_QUEUES = _from("ops.queues", "FIFOQueue", "PaddingFIFOQueue", "PriorityQueue",
                "QueueBase", "RandomShuffleQueue")
_ACCUMULATORS = _from("ops.accumulators", "ConditionalAccumulator",
                      "ConditionalAccumulatorBase",
                      "SparseConditionalAccumulator")
_TABLE_INITIALIZERS = _from("ops.tables", "KeyValueTensorInitializer",
                            "TextFileIndex", "TextFileInitializer")
_LOOKUP = {
    **_TABLE_INITIALIZERS, **_from("ops.tables", "StaticHashTable"),
    **_from("ops.vocabularies", "StaticVocabularyTable")}
_CONTRIB_LOOKUP = {
    **_TABLE_INITIALIZERS, **_from(
        "ops.tables", "InitializableLookupTableBase",
        "InitializableLookupTableBaseV1", "LookupInterface",
        "TableInitializerBase", "TextFileIdTableInitializer",
        "TextFileStringTableInitializer",
        MutableDenseHashTable="DenseHashTable"), **_from(
        "ops.vocabularies", "FastHashSpec", "HasherSpec",
        "IdTableWithHashBuckets", "StrongHashSpec", "index_table_from_file",
        "index_to_string_table_from_file"), **_from(
        "contrib.lookup", "HashTable", "MutableHashTable",
        "index_table_from_tensor", "index_to_string",
        "index_to_string_table_from_tensor", "string_to_index",
        "string_to_index_table_from_file",
        "string_to_index_table_from_tensor")}
_OPS.update(_from("ops.tables", "initialize_all_tables", "tables_initializer"))
_FILES = _from("ops.files", "matching_files", "read_file", "write_file")
_RECORDS = {
    **_from("client.records", "TFRecordWriter", "tf_record_iterator"),
    **_from("framework.record_options", "TFRecordCompressionType",
            "TFRecordOptions")}
_IO.update(_RECORDS)
_OPS.update({**_QUEUES, **_ACCUMULATORS, **_FILES, **_from(
    "ops.readers", "FixedLengthRecordReader", "IdentityReader", "ReaderBase",
    "TFRecordReader", "TextLineReader", "WholeFileReader")})
_IO.update({**_FILES, **_from("training.input", "match_filenames_once")})
_IO.update({name: where for name, where in _QUEUES.items()
            if name != "FIFOQueue"})
_SPARSE["SparseConditionalAccumulator"] = _ACCUMULATORS[
    "SparseConditionalAccumulator"]

_ERRORS = _from("framework.errors", "OpError")

# Namespaces that are modules.
_MODULES = {
    "errors": "sluice.framework.errors", "nest": "sluice.compat.nest",
    "raw_ops": "sluice.raw_ops", "logging": "sluice.compat.logging",
    "version": "sluice.version", "test": "sluice.compat.testing.test",
    "compat": "sluice.compat", "flags": "sluice.compat.flags",
    "app": "sluice.compat.app", "gfile": "sluice.compat.gfile",
    "io.gfile": "sluice.compat.gfile",
    "contrib.framework.nest": "sluice.compat.nest",
    "examples.tutorials.mnist.input_data": "sluice.compat.mnist"}

_DEBUGGING = {
    **_CHECKS, **_from("ops.check_ops", "assert_all_finite",
                       "assert_shapes"),
    **_from("ops.math_ops", "is_nan", "is_inf", "is_finite"),
    **_from("ops.array_ops", "check_numerics"),
    **_from("ops.control_flow", "Assert")}
_LAYERS = _from(
    "layers", "InputSpec", "Layer", "AveragePooling1D",
    "AveragePooling2D", "AveragePooling3D", "BatchNormalization", "Conv1D",
    "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense",
    "Dropout", "Flatten", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
    "SeparableConv1D", "SeparableConv2D", "average_pooling1d",
    "average_pooling2d", "average_pooling3d", "batch_normalization", "conv1d",
    "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "dense",
    "dropout", "flatten", "max_pooling1d", "max_pooling2d", "max_pooling3d",
    "separable_conv1d", "separable_conv2d")
_LOSSES = _from(
    "training.losses", "Reduction", "absolute_difference", "add_loss",
    "compute_weighted_loss", "cosine_distance", "get_losses",
    "get_regularization_loss", "get_regularization_losses", "get_total_loss",
    "hinge_loss", "huber_loss", "log_loss", "mean_pairwise_squared_error",
    "mean_squared_error", "sigmoid_cross_entropy", "softmax_cross_entropy",
    "sparse_softmax_cross_entropy")
_METRICS = _from(
    "contrib.metrics.metrics", "accuracy", "auc", "false_negatives",
    "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean", "mean_absolute_error",
    "mean_cosine_distance", "mean_iou", "mean_per_class_accuracy",
    "mean_relative_error", "mean_squared_error", "mean_tensor",
    "percentage_below", "precision", "precision_at_thresholds", "recall",
    "recall_at_thresholds", "root_mean_squared_error",
    "sensitivity_at_specificity", "specificity_at_sensitivity",
    "true_negatives", "true_negatives_at_thresholds", "true_positives",
    "true_positives_at_thresholds")
_METRICS.update(_from(
    "contrib.metrics.metrics_at_k", "average_precision_at_k", "precision_at_k",
    "precision_at_top_k", "recall_at_k", "recall_at_top_k",
    "sparse_average_precision_at_k", "sparse_precision_at_k"))
_QUEUE_RUNNERS = _from("training.queue_runner", "QueueRunner",
                       "add_queue_runner", "start_queue_runners")
_TRAIN = _from("training.optimizer", "Optimizer", "GradientDescentOptimizer",
               "AdagradOptimizer", "MomentumOptimizer", "RMSPropOptimizer",
               "AdamOptimizer")
_TRAIN.update({
    **_from("training.global_step", "assert_global_step", "get_global_step",
            "create_global_step", "get_or_create_global_step", "global_step"),
    **_from("framework.graph_io", "write_graph"),
    **_from("framework.meta_graph", "export_meta_graph"),
    **_from("training.saver", "Saver", "import_meta_graph"),
    **_from("training.checkpoint_readers", "NewCheckpointReader",
            "checkpoints_iterator", "init_from_checkpoint", "list_variables",
            "load_checkpoint", "load_variable"),
    **_from("training.warm_start", "VocabInfo", "warm_start"),
    **_from("training.optimizers", "AdadeltaOptimizer", "AdagradDAOptimizer",
            "FtrlOptimizer", "ProximalGradientDescentOptimizer",
            "ProximalAdagradOptimizer"),
    **_from("training.learning_rates", "cosine_decay", "cosine_decay_restarts",
            "exponential_decay", "inverse_time_decay", "linear_cosine_decay",
            "noisy_linear_cosine_decay",
            "natural_exp_decay", "piecewise_constant", "polynomial_decay",
            piecewise_constant_decay="piecewise_constant"),
    **_from("training.lbfgs", "LbfgsResult", "minimize_lbfgs"),
    **_from("training.all_reduce", "AllReduceOptimizer"),
    **_from("training.moving_averages", "ExponentialMovingAverage"),
    **_from("training.coordinator", "Coordinator", "LooperThread"),
    **_QUEUE_RUNNERS,
    **_from("training.input", "batch", "batch_join", "input_producer",
            "limit_epochs", "match_filenames_once", "maybe_batch",
            "maybe_batch_join", "maybe_shuffle_batch",
            "maybe_shuffle_batch_join", "range_input_producer", "shuffle_batch",
            "shuffle_batch_join", "slice_input_producer",
            "string_input_producer"),
    **_from("client.cluster", "ClusterSpec", "Server",
            "replica_device_setter"),
    **_from("ops.confusion_matrix", "confusion_matrix")})
_TRAIN.update({
    **_from("compat.training.session_hooks", "FeedFnHook", "FinalOpsHook",
            "CheckpointSaverHook", "CheckpointSaverListener",
            "GlobalStepWaiterHook",
            "LoggingTensorHook",
            "NanLossDuringTrainingError", "NanTensorHook", "ProfilerHook",
            "SecondOrStepTimer",
            "SessionRunArgs", "SessionRunContext", "SessionRunHook",
            "SessionRunValues", "StepCounterHook", "StopAtStepHook",
            "SummarySaverHook"),
    **_from("summary.writer", "summary_iterator"),
    **_from("compat.training.monitored_session", "ChiefSessionCreator",
            "MonitoredSession", "MonitoredTrainingSession", "Scaffold",
            "SessionCreator", "SessionManager", "SingularMonitoredSession",
            "WorkerSessionCreator"),
    **_from("compat.training.supervisor", "Supervisor", "basic_train_loop"),
    **_from("compat.training.sync_replicas", "SyncReplicasOptimizer")})
_TRAIN.update({
    **_from("training.checkpoints", "checkpoint_exists",
            "generate_checkpoint_state_proto", "get_checkpoint_mtimes",
            "get_checkpoint_state", "latest_checkpoint", "remove_checkpoint",
            "update_checkpoint_state"),
    **_from("framework.protos", "BytesList", "Example", "Feature",
            "FeatureList", "FeatureLists", "Features", "FloatList", "Int64List",
            "SequenceExample"),
    **_from("framework.protos", "ClusterDef", "JobDef", "SaverDef",
            "ServerDef")})
_SIGNATURE_CONSTANTS = _from(
    "compat.training.saved_model", "CLASSIFY_INPUTS", "CLASSIFY_METHOD_NAME",
    "CLASSIFY_OUTPUT_CLASSES", "CLASSIFY_OUTPUT_SCORES",
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY", "PREDICT_INPUTS",
    "PREDICT_METHOD_NAME", "PREDICT_OUTPUTS", "REGRESS_INPUTS",
    "REGRESS_METHOD_NAME", "REGRESS_OUTPUTS")
_TAG_CONSTANTS = _from("compat.training.saved_model", "EVAL", "GPU", "SERVING",
                       "TPU", "TRAINING")
_SAVED_MODEL_CONSTANTS = _from(
    "compat.training.saved_model", "ASSETS_DIRECTORY", "ASSETS_KEY",
    "INIT_OP_SIGNATURE_KEY", "LEGACY_INIT_OP_KEY", "MAIN_OP_KEY", "SAVED_MODEL_FILENAME_PB",
    "SAVED_MODEL_FILENAME_PBTXT", "SAVED_MODEL_SCHEMA_VERSION",
    "TRAIN_OP_KEY", "TRAIN_OP_SIGNATURE_KEY", "VARIABLES_DIRECTORY", "VARIABLES_FILENAME")
_SIGNATURE_DEFS = {
    **_from("compat.training.saved_model", "build_signature_def",
            "classification_signature_def", "is_valid_signature",
            "predict_signature_def", "regression_signature_def"),
    **_from("compat.training.saved_model_loader", "MethodNameUpdater")}
_SAVED_MODEL_UTILS = _from("compat.training.saved_model", "build_tensor_info",
                           "get_tensor_from_tensor_info")
_SAVED_MODEL_BUILDER = _from("compat.training.saved_model_builder",
                             "SavedModelBuilder")
_SAVED_MODEL_LOADER = {
    **_from("compat.training.saved_model_loader", "load"),
    **_from("compat.training.saved_model",
            maybe_saved_model_directory="contains_saved_model")}
_SAVED_MODEL_MAIN_OP = _from("compat.training.saved_model_builder", "main_op",
                             "main_op_with_restore")
_SAVED_MODEL = {
    **_from("compat.training.saved_model_builder", "simple_save",
            "main_op_with_restore", Builder="SavedModelBuilder"),
    **_from("compat.training.saved_model_loader", "load"),
    **_SIGNATURE_CONSTANTS, **_TAG_CONSTANTS, **_SAVED_MODEL_CONSTANTS,
    **_SIGNATURE_DEFS, **_SAVED_MODEL_UTILS,
    **_from("compat.training.saved_model", "contains_saved_model",
            maybe_saved_model_directory="contains_saved_model")}
_FEATURES = _from(
    "framework.features", "FixedLenFeature",
    "FixedLenSequenceFeature", "SparseFeature", "VarLenFeature")
_IO.update(_FEATURES)
_SUMMARIES = {
    **_from("framework.protos", "Event", "SessionLog", "Summary",
            "SummaryDescription", "TaggedRunMetadata"),
    **_from("summary.summary_ops", "audio", "get_summary_description",
            "histogram", "image", "merge", "merge_all", "scalar",
            "tensor_summary", "text"),
    **_from("summary.writer", "FileWriter", "FileWriterCache")}
_MODEL_VARIABLES = _from(
    "contrib.layers.model_variables", "VariableDeviceChooser",
    "add_model_variable", "assign_from_values", "assign_from_values_fn",
    "filter_variables", "get_local_variables",
    "get_model_variables", "get_trainable_variables", "get_unique_variable",
    "get_variable_full_name", "get_variables", "get_variables_by_name",
    "get_variables_by_suffix", "get_variables_to_restore", "global_variable",
    "local_variable", "model_variable", "variable")
_ARG_SCOPES = _from(
    "contrib.layers.arg_scope", "add_arg_scope", "arg_scope",
    "arg_scoped_arguments", "current_arg_scope", "has_arg_scope")
_CONTRIB_LAYERS = {
    **_from("contrib.layers.regularizers", "apply_regularization",
            "l1_regularizer", "l2_regularizer", "l1_l2_regularizer",
            "sum_regularizer"),
    **_from("contrib.layers.initializers",
            xavier_initializer="xavier_initializer",
            xavier_initializer_conv2d="xavier_initializer",
            variance_scaling_initializer="variance_scaling"),
    # Aliases come first: scopes are named after the last name of a function.
    **_from("contrib.layers.slim", conv1d="convolution1d",
            conv2d="convolution2d", conv2d_in_plane="convolution2d_in_plane",
            conv2d_transpose="convolution2d_transpose",
            conv3d="convolution3d",
            conv3d_transpose="convolution3d_transpose",
            separable_conv2d="separable_convolution2d"),
    **_from("contrib.layers.slim", "avg_pool2d", "avg_pool3d", "bias_add",
            "convolution", "convolution1d", "convolution2d",
            "convolution2d_in_plane", "convolution2d_transpose",
            "convolution3d", "convolution3d_transpose", "dense_to_sparse",
            "dropout", "elu", "embed_sequence", "flatten", "fully_connected",
            "images_to_sequence", "linear", "max_pool2d", "max_pool3d",
            "maxout", "one_hot_encoding", "pool", "relu", "relu6", "repeat",
            "scale_gradient", "separable_convolution2d", "sequence_to_images",
            "softmax", "spatial_softmax", "stack"),
    **_from("contrib.layers.slim_norms", "batch_norm", "instance_norm",
            "layer_norm", "unit_norm"),
    **_from("ops.embedding", "safe_embedding_lookup_sparse")}
_DISTRIBUTIONS = _from(
    "contrib.distributions", "Bernoulli", "Beta", "Categorical", "Dirichlet",
    "DirichletMultinomial", "Distribution", "Exponential",
    "FULLY_REPARAMETERIZED", "Gamma", "Laplace", "Multinomial",
    "NOT_REPARAMETERIZED", "Normal", "RegisterKL", "ReparameterizationType",
    "StudentT", "Uniform", "kl_divergence")
_INITIALIZERS = _from(
    "ops.init_ops", zeros="Zeros", ones="Ones", constant="Constant",
    random_uniform="RandomUniform", random_normal="RandomNormal",
    truncated_normal="TruncatedNormal", variance_scaling="VarianceScaling",
    glorot_uniform="GlorotUniform", glorot_normal="GlorotNormal",
    identity="Identity", orthogonal="Orthogonal",
    uniform_unit_scaling="UniformUnitScaling", he_normal="he_normal",
    he_uniform="he_uniform", lecun_normal="lecun_normal",
    lecun_uniform="lecun_uniform")
_INITIALIZERS.update({
    name: ("sluice.ops.variables", there) for name, there in (
        ("variables", "variables_initializer"),
        ("global_variables", "global_variables_initializer"),
        ("local_variables", "local_variables_initializer"))})
_INITIALIZERS.update(_from("ops.tables", "tables_initializer"))
_RANDOM = _from(
    "ops.random_ops", uniform="random_uniform", normal="random_normal",
    truncated_normal="truncated_normal", shuffle="random_shuffle",
    multinomial="multinomial", categorical="categorical",
    gamma="random_gamma", poisson="random_poisson",
    stateless_uniform="stateless_random_uniform",
    stateless_normal="stateless_random_normal",
    stateless_truncated_normal="stateless_truncated_normal",
    stateless_multinomial="stateless_multinomial")
_RANDOM["get_seed"] = ("sluice.framework.graph", "get_seed")
_SAMPLERS = _from(
    "ops.embedding", "all_candidate_sampler", "compute_accidental_hits",
    "fixed_unigram_candidate_sampler", "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler", "uniform_candidate_sampler")
_RANDOM.update({name: where for name, where in _SAMPLERS.items()
                if name.endswith("_sampler")})
_RANDOM["set_random_seed"] = ("sluice.framework.graph", "set_random_seed")
_NN = {
    **_from("ops.nn", "relu", "relu6", "elu", "selu", "softplus",
            "softsign", "tanh", "sigmoid", "l2_loss", "in_top_k", "lrn",
            "local_response_normalization", "leaky_relu", "swish", "bias_add",
            "xw_plus_b", "softmax", "log_softmax",
            "softmax_cross_entropy_with_logits_v2",
            "softmax_cross_entropy_with_logits",
            "sparse_softmax_cross_entropy_with_logits",
            "sigmoid_cross_entropy_with_logits", "conv2d", "depthwise_conv2d",
            "depthwise_conv2d_native", "conv2d_transpose", "max_pool",
            "avg_pool", "moments", "batch_normalization", "l2_normalize",
            "dropout", "top_k", "zero_fraction", "crelu",
            "fused_batch_norm", "weighted_moments", "sufficient_statistics",
            "normalize_moments", "batch_norm_with_global_normalization",
            "relu_layer", "weighted_cross_entropy_with_logits",
            "log_poisson_loss", "silu", max_pool2d="max_pool",
            avg_pool2d="avg_pool"),
    **_from("ops.embedding", "embedding_lookup",
            "embedding_lookup_sparse", "nce_loss",
            "safe_embedding_lookup_sparse", "sampled_softmax_loss"),
    **_SAMPLERS,
    **_from("ops.ctc", "ctc_loss", "ctc_loss_v2", "ctc_greedy_decoder",
            "ctc_beam_search_decoder", "collapse_repeated",
            "ctc_unique_labels"),
    **_from("ops.math_ops", "log_sigmoid"),
    **_from("ops.array_ops", "space_to_batch", "space_to_depth",
            "depth_to_space", "batch_to_space"),
    **_raw(quantized_conv2d="QuantizedConv2D",
           quantized_relu_x="QuantizedReluX",
           quantized_max_pool="QuantizedMaxPool",
           quantized_avg_pool="QuantizedAvgPool",
           fractional_avg_pool="FractionalAvgPool",
           fractional_max_pool="FractionalMaxPool"),
    **_from("ops.conv", "convolution", "conv1d", "conv1d_transpose",
            "conv3d", "conv3d_transpose", "conv3d_backprop_filter",
            "conv2d_backprop_filter", "conv2d_backprop_input",
            "separable_conv2d", "atrous_conv2d", "atrous_conv2d_transpose",
            "pool", "max_pool1d", "avg_pool1d", "max_pool3d", "avg_pool3d",
            "max_pool_with_argmax", "dilation2d", "erosion2d",
            **{f"depthwise_conv2d_{native}backprop_{to}":
               f"depthwise_conv2d_backprop_{to}"
               for native in ("", "native_") for to in ("filter", "input")},
            conv3d_backprop_filter_v2="conv3d_backprop_filter"),
    **_from("layers.rnn", "dynamic_rnn", "bidirectional_dynamic_rnn",
            "raw_rnn", "static_rnn", "static_bidirectional_rnn",
            "static_state_saving_rnn")}
_CELLS = _from(
    "layers.rnn_cell", "RNNCell", "BasicRNNCell", "GRUCell",
    "LSTMStateTuple", "BasicLSTMCell", "LSTMCell", "MultiRNNCell",
    "DropoutWrapper", "ResidualWrapper", "DeviceWrapper")
_SEQ2SEQ = {
    **_from("contrib.seq2seq.decoders", "BasicDecoder", "BasicDecoderOutput",
            "CustomHelper", "Decoder", "GreedyEmbeddingHelper", "Helper",
            "InferenceHelper", "SampleEmbeddingHelper",
            "ScheduledEmbeddingTrainingHelper",
            "ScheduledOutputTrainingHelper", "TrainingHelper",
            "dynamic_decode", "sequence_loss"),
    **_from("contrib.seq2seq.attention", "AttentionMechanism",
            "AttentionWrapper", "AttentionWrapperState", "BahdanauAttention",
            "BahdanauMonotonicAttention", "LuongAttention",
            "LuongMonotonicAttention", "hardmax", "monotonic_attention",
            "safe_cumprod"),
    **_from("contrib.seq2seq.beam_search", "BeamSearchDecoder",
            "BeamSearchDecoderOutput", "BeamSearchDecoderState",
            "FinalBeamSearchDecoderOutput", "gather_tree", "tile_batch")}
_LEGACY_SEQ2SEQ = _from(
    "contrib.seq2seq.legacy_seq2seq", "attention_decoder", "basic_rnn_seq2seq",
    "embedding_attention_decoder", "embedding_attention_seq2seq",
    "embedding_rnn_decoder", "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq", "model_with_buckets", "one2many_rnn_seq2seq",
    "rnn_decoder", "sequence_loss", "sequence_loss_by_example",
    "tied_rnn_seq2seq")
_OPS.update(_from("ops.confusion_matrix", "confusion_matrix"))
_MATH_NAMESPACE = {
    **_MATH, "confusion_matrix": _OPS["confusion_matrix"],
    **_from("ops.math_ops", "reduce_variance", "reduce_std",
            "cumulative_logsumexp",
            "reduce_euclidean_norm", "bessel_i0", "bessel_i0e", "bessel_i1",
            "bessel_i1e", "xlog1py",
            "reciprocal_no_nan", "erfcinv", "polyval", "multiply_no_nan",
            divide_no_nan="div_no_nan"),
    **_raw(xdivy="Xdivy", xlogy="Xlogy", nextafter="NextAfter",
           erfinv="Erfinv",
           ndtri="Ndtri")}
_MANIP = {**_from("ops.array_ops", "batch_to_space_nd", "gather_nd",
                  "reshape", "reverse", "scatter_nd", "space_to_batch_nd",
                  "tile"), **_raw(roll="Roll")}
_BITWISE = _raw(bitwise_and="BitwiseAnd", bitwise_or="BitwiseOr",
                bitwise_xor="BitwiseXor", invert="Invert",
                left_shift="LeftShift", right_shift="RightShift")
_DTYPES = {
    **{name: where for name, where in _FRAMEWORK.items()
       if where[0] == "sluice.framework.dtypes"},
    **_from("ops.math_ops", "cast", "complex", "saturate_cast"),
    **_from("ops.string_ops", "as_string")}
_GRAPH_UTIL = _from(
    "framework.node_def", "convert_variables_to_constants",
    "extract_sub_graph", "import_graph_def", "must_run_on_cpu",
    "remove_training_nodes", "tensor_shape_from_node_def_name")
for _name in ("softmax", "log_softmax", "softplus", "softsign", "top_k",
              "in_top_k", "l2_normalize", "zero_fraction"):
    _MATH_NAMESPACE[_name] = ("sluice.ops.nn", _name)
_MATH_NAMESPACE.update({
    **_from("ops.array_ops", "invert_permutation"),
    **_from("ops.check_ops", "is_non_decreasing",
            "is_strictly_increasing")})
_SPECIAL = _from("ops.math_ops", "bessel_i0", "bessel_i0e", "bessel_i1",
                 "bessel_i1e")

PUBLIC = {
    **_FRAMEWORK, **_OPS, **_ERRORS, **_FEATURES,
    **_from("framework.protos", "Event", "HistogramProto",
            "LogMessage", "SessionLog", "Summary", "SummaryMetadata")}


# Namespaces with names from several modules.
_CONTRIB_METRICS = {
    **_from("contrib.metrics.contrib_metrics", "accuracy",
            "aggregate_metric_map", "aggregate_metrics",
            *("streaming_" + name for name in (
                "accuracy", "auc", "false_negatives", "false_positives",
                "mean_absolute_error", "mean_cosine_distance", "mean_iou",
                "mean_relative_error", "mean_squared_error", "precision",
                "precision_at_thresholds", "recall", "recall_at_thresholds",
                "root_mean_squared_error", "sensitivity_at_specificity",
                "specificity_at_sensitivity", "true_negatives",
                "true_positives", "false_negatives_at_thresholds",
                "false_positives_at_thresholds",
                "true_negatives_at_thresholds", "true_positives_at_thresholds",
                "sparse_precision_at_k", "sparse_recall_at_k",
                "sparse_average_precision_at_k"))),
    **_from("contrib.metrics.metrics", streaming_mean="mean",
            streaming_mean_tensor="mean_tensor",
            streaming_percentage_less="percentage_below"),
    **_from("ops.confusion_matrix", "confusion_matrix")}
_GROUPS = {
    "bitwise": _BITWISE, "contrib": {}, "contrib.testing": {},
    "contrib.image": _from(
        "contrib.image", "angles_to_projective_transforms",
        "compose_transforms", "flat_transforms_to_matrices",
        "matrices_to_flat_transforms", "rotate", "transform", "translate",
        "translations_to_projective_transforms"),
    "contrib.layers": _CONTRIB_LAYERS,
    "contrib.staging": _from("ops.staging", "StagingArea"),
    "contrib.eager": {
        **_from("functions.traced", defun="function"),
        **_from("compat.internals.context", "executing_eagerly",
                "in_eager_mode"),
        **_from("compat.testing.test",
                run_test_in_graph_and_eager_modes=(
                    "run_in_graph_and_eager_modes"),
                run_all_tests_in_graph_and_eager_modes=(
                    "run_all_in_graph_and_eager_modes"))},
    "contrib.framework": {
        **_ARG_SCOPES, **_MODEL_VARIABLES,
        **_from("framework.graph", "get_name_scope"),
        **_from("framework.specs", "BoundedTensorSpec", "TensorSpec"),
        **_from("contrib.checkpoint_ops", "load_and_remap_matrix",
                "load_and_remap_matrix_initializer",
                "load_embedding_initializer",
                "load_linear_multiclass_bias_initializer",
                "load_variable_slot_initializer"),
        **_from("contrib.critical_section", "CriticalSection"),
        "is_tensor": _FRAMEWORK["is_tensor"], **_from(
            "ops.control_flow", "smart_case", "smart_cond",
            "smart_constant_value"), **{
            name: _TRAIN[name] for name in (
                "create_global_step", "get_global_step",
                "get_or_create_global_step")}},
    "contrib.legacy_seq2seq": _LEGACY_SEQ2SEQ,
    "contrib.lookup": _CONTRIB_LOOKUP,
    "contrib.losses": _from(
        "contrib.losses", "absolute_difference", "add_loss",
        "compute_weighted_loss", "cosine_distance", "get_losses",
        "get_regularization_losses", "get_total_loss", "hinge_loss", "log_loss",
        "mean_pairwise_squared_error", "mean_squared_error",
        "sigmoid_cross_entropy", "softmax_cross_entropy",
        "sparse_softmax_cross_entropy"),
    "contrib.nn": _from("contrib.nn", *(
        f"deprecated_flipped_{kind}_cross_entropy_with_logits"
        for kind in ("sigmoid", "softmax", "sparse_softmax"))),
    "contrib.opt": _from(
        "contrib.optimizers", "AdaMaxOptimizer", "AdamWOptimizer",
        "DecoupledWeightDecayExtension", "ExternalOptimizerInterface",
        "LazyAdamOptimizer", "MomentumWOptimizer", "NadamOptimizer",
        "ScipyOptimizerInterface", "extend_with_decoupled_weight_decay"),
    "contrib.rnn": {**_CELLS, **_from(
        "layers.rnn", "static_rnn", "static_bidirectional_rnn",
        "static_state_saving_rnn"), **_from(
        "contrib.rnn", "EmbeddingWrapper", "GRUBlockCell", "GRUBlockCellV2",
        "InputProjectionWrapper", "LSTMBlockCell", "LayerNormBasicLSTMCell",
        "OutputProjectionWrapper", "stack_bidirectional_dynamic_rnn",
        "stack_bidirectional_rnn")},
    "contrib.seq2seq": _SEQ2SEQ,
    "contrib.metrics": {**_CONTRIB_METRICS, **{
        "set_" + name: _SETS[name] for name in (
            "difference", "intersection", "size", "union")}},
    "contrib.slim.metrics": _CONTRIB_METRICS,
    "contrib.slim": {**_CONTRIB_LAYERS, **_MODEL_VARIABLES, **_ARG_SCOPES},
    "contrib.training": {
        **_from("contrib.evaluation", "StopAfterNEvalsHook", "evaluate_once",
                "get_or_create_eval_step"),
        **_from("contrib.hparams", "HParams", "parse_values"),
        **_from("contrib.bucketing", "bucket", "bucket_by_sequence_length")},
    "debugging": _DEBUGGING, "distribute": {
        **_from("client.cluster", "Server"),
        **_from("compat.distribute", "get_replica_context", "get_strategy",
                "has_strategy", "in_cross_replica_context")},
    "contrib.learn": _from("compat.estimator", ModeKeys="LearnModeKeys"),
    "distributions": _DISTRIBUTIONS,
    "contrib.distributions": {
        **_DISTRIBUTIONS,
        **_from("contrib.distributions.util", "softplus_inverse"),
        **_from("contrib.distributions.multivariate", "MultivariateNormalDiag",
                "MultivariateNormalDiagWithSoftplusScale"),
        **_from("contrib.distributions", "BetaWithSoftplusConcentration",
                "ExponentialWithSoftplusRate",
                "GammaWithSoftplusConcentrationRate",
                "LaplaceWithSoftplusScale", "NormalWithSoftplusScale",
                "StudentTWithAbsDfSoftplusScale")},
    "dtypes": _DTYPES, "estimator": {
        **_from("compat.estimator", "ModeKeys"),
        **{name: where for name, where in _TRAIN.items()
           if where[0] == "sluice.compat.training.session_hooks" and (
               name.endswith(("Hook", "Listener")) or
               name.startswith(("SessionRun", "NanLoss", "SecondOrStep")))}},
    "examples": {}, "examples.tutorials": {}, "examples.tutorials.mnist": {},
    "graph_util": _GRAPH_UTIL, "image": _IMAGE, "initializers": _INITIALIZERS,
    "io": _IO, "layers": _LAYERS, "linalg": _LINALG, "losses": _LOSSES,
    "lookup": _LOOKUP,
    "lookup.experimental": _from("ops.tables", "DenseHashTable"),
    "manip": _MANIP, "math": _MATH_NAMESPACE, "math.special": _SPECIAL,
    "collectives": _from("ops.collectives", "all_gather", "all_reduce",
                         "broadcast", "reduce_scatter"),
    "metrics": _METRICS, "nn": _NN,
    "nn.rnn_cell": _CELLS, "quantization": {
        **_QUANTIZED, **_from("client.inference", "quantize_graph",
                              "QuantizedGraph")},
    "python_io": _RECORDS, "queue": _QUEUES, "random": _RANDOM,
    "saved_model": _SAVED_MODEL,
    "saved_model.builder": _SAVED_MODEL_BUILDER,
    "saved_model.loader": _SAVED_MODEL_LOADER,
    "saved_model.main_op": _SAVED_MODEL_MAIN_OP,
    "saved_model.constants": _SAVED_MODEL_CONSTANTS,
    "saved_model.signature_constants": _SIGNATURE_CONSTANTS,
    "saved_model.signature_def_utils": _SIGNATURE_DEFS,
    "saved_model.tag_constants": _TAG_CONSTANTS,
    "saved_model.utils": _SAVED_MODEL_UTILS, "sets": _SETS, "signal": _SIGNAL,
    "sparse": _SPARSE, "spectral": _SIGNAL,
    "strings": _STRINGS, "summary": _SUMMARIES, "train": _TRAIN,
    "train.queue_runner": _QUEUE_RUNNERS}
_DATASETS = {
    **_from("data.dataset", "Dataset"),
    **_from("data.iterator", "Iterator", "make_one_shot_iterator",
            "make_initializable_iterator", "get_output_classes",
            "get_output_shapes", "get_output_types"),
    **_from("data.options", "Options"),
    **_from("data.readers", "TFRecordDataset", "TextLineDataset",
            "FixedLengthRecordDataset")}
_DATASET_FUNCTIONS = _from(
    "data.transformations", "bucket_by_sequence_length", "enumerate_dataset",
    "ignore_errors", "map_and_batch", "parallel_interleave", "scan",
    "shuffle_and_repeat", "take_while", "unbatch")
_GROUPS.update({
    "data": _DATASETS,
    "data.experimental": {**_DATASET_FUNCTIONS,
                          **_from("data.dataset", "AUTOTUNE"),
                          **_from("data.iterator",
                                  "make_saveable_from_iterator")},
    "contrib.data": {**_DATASET_FUNCTIONS, **_from("data.dataset", "AUTOTUNE")}
})
# Programs may import these empty namespaces.
for _name in MODULE_NEEDS:
    _GROUPS.setdefault(_name, {})
