"""Constants and signatures of saved models."""

import os

from sluice import _core
from sluice.compat import gfile
from sluice.framework import dtypes, errors, protos
from sluice.framework.conversion import SparseTensor
from sluice.framework.graph import get_default_graph

SERVING, TRAINING, EVAL, GPU, TPU = "serve", "train", "eval", "gpu", "tpu"
ASSETS_DIRECTORY, ASSETS_KEY = "assets", "saved_model_assets"
VARIABLES_DIRECTORY, VARIABLES_FILENAME = "variables", "variables"
SAVED_MODEL_FILENAME_PB = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
MAIN_OP_KEY, LEGACY_INIT_OP_KEY = "saved_model_main_op", "legacy_init_op"
TRAIN_OP_KEY = "saved_model_train_op"
INIT_OP_SIGNATURE_KEY = "__saved_model_init_op"
TRAIN_OP_SIGNATURE_KEY = "__saved_model_train_op"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
PREDICT_METHOD_NAME = "tensorflow/serving/predict"
CLASSIFY_METHOD_NAME = "tensorflow/serving/classify"
REGRESS_METHOD_NAME = "tensorflow/serving/regress"
SUPERVISED_TRAIN_METHOD_NAME = "tensorflow/supervised/training"
SUPERVISED_EVAL_METHOD_NAME = "tensorflow/supervised/eval"
PREDICT_INPUTS, PREDICT_OUTPUTS = "inputs", "outputs"
REGRESS_INPUTS, REGRESS_OUTPUTS = "inputs", "outputs"
CLASSIFY_INPUTS = "inputs"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"


def build_tensor_info(tensor):
    """Makes the TensorInfo of a (sparse) tensor: name, dtype and shape."""
    info = protos.TensorInfo(
        dtype=dtypes.as_dtype(tensor.dtype).as_datatype_enum,
        tensor_shape=tensor.get_shape().as_proto())
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


def get_tensor_from_tensor_info(tensor_info, graph=None, import_scope=None):
    """Returns the tensor of a TensorInfo in a graph (the default graph).

    The graph was imported under `import_scope`.
    """
    graph = graph or get_default_graph()

    def named(name):
        return graph.get_tensor_by_name(
            f"{import_scope}/{name}" if import_scope else name)

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return named(tensor_info.name)
    if encoding == "coo_sparse":
        parts = tensor_info.coo_sparse
        return SparseTensor(named(parts.indices_tensor_name),
                            named(parts.values_tensor_name),
                            named(parts.dense_shape_tensor_name))
    raise ValueError(f"Invalid TensorInfo.encoding: {encoding}")


def build_tensor_info_from_op(op):
    """Makes a TensorInfo with only the name of an operation (or a tensor)."""
    info = protos.TensorInfo(name=op.name)
    info.tensor_shape.unknown_rank = True
    return info


def get_element_from_tensor_info(tensor_info, graph=None, import_scope=None):
    """Returns the operation or tensor that a TensorInfo names in a graph."""
    name = tensor_info.name
    return (graph or get_default_graph()).as_graph_element(
        f"{import_scope}/{name}" if import_scope else name)


def build_signature_def(inputs=None, outputs=None, method_name=None):
    """Makes a SignatureDef from {name: TensorInfo}."""
    return protos.SignatureDef(inputs=inputs, outputs=outputs,
                               method_name=method_name)


def _info(what, tensor, dtype):
    """Calls `build_tensor_info` for a tensor that must have a dtype."""
    if not isinstance(tensor, _core.Tensor):
        raise ValueError(f"{what}: expected a Tensor, got {tensor!r}")
    if tensor.dtype.base_dtype != dtype:
        raise ValueError(f"{what}: expected a Tensor of type {dtype.name}, got "
                         f"{tensor.dtype.name}")
    return build_tensor_info(tensor)


def predict_signature_def(inputs, outputs):
    """Makes a prediction signature from {name: tensor}."""
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not tensors:
            raise ValueError(f"Prediction {what} cannot be None or empty.")
    return build_signature_def(
        {key: build_tensor_info(t) for key, t in inputs.items()},
        {key: build_tensor_info(t) for key, t in outputs.items()},
        PREDICT_METHOD_NAME)


def regression_signature_def(examples, predictions):
    """Makes a signature for predicting values from serialized examples."""
    return build_signature_def(
        {REGRESS_INPUTS: _info("Regression inputs", examples, dtypes.string)},
        {REGRESS_OUTPUTS: _info("Regression outputs", predictions,
                                dtypes.float32)}, REGRESS_METHOD_NAME)


def classification_signature_def(examples, classes, scores):
    """Makes a signature for classifying serialized examples.

    It has the classes (strings), the scores, or both.
    """
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be "
                         "None.")
    outputs = {}
    if classes is not None:
        outputs[CLASSIFY_OUTPUT_CLASSES] = _info("Classification classes",
                                                 classes, dtypes.string)
    if scores is not None:
        outputs[CLASSIFY_OUTPUT_SCORES] = _info("Classification scores",
                                                scores, dtypes.float32)
    return build_signature_def(
        {CLASSIFY_INPUTS: _info("Classification inputs", examples,
                                dtypes.string)}, outputs,
        CLASSIFY_METHOD_NAME)


def _supervised(method, inputs, *outputs):
    if not inputs:
        raise ValueError(f"{method} inputs cannot be None or empty.")
    return build_signature_def(
        {key: build_tensor_info(t) for key, t in inputs.items()},
        {key: build_tensor_info(t) for values in outputs
         for key, t in (values or {}).items()}, method)


def supervised_train_signature_def(inputs, loss, predictions=None,
                                   metrics=None):
    """Makes a signature for training from {name: tensor}."""
    return _supervised(SUPERVISED_TRAIN_METHOD_NAME, inputs, loss, predictions,
                       metrics)


def supervised_eval_signature_def(inputs, loss, predictions=None,
                                  metrics=None):
    """Makes a signature for evaluation from {name: tensor}."""
    return _supervised(SUPERVISED_EVAL_METHOD_NAME, inputs, loss, predictions,
                       metrics)


def op_signature_def(op, key):
    """Makes a signature whose output `key` names an operation."""
    return build_signature_def(outputs={key: build_tensor_info_from_op(op)})


def load_op_from_signature_def(signature_def, key, import_scope=None):
    """Returns the operation that `op_signature_def` named, in a loaded graph.

    Raises:
      errors.NotFoundError: if the graph does not have it.
    """
    try:
        return get_element_from_tensor_info(signature_def.outputs[key],
                                            import_scope=import_scope)
    except KeyError:
        raise errors.NotFoundError(
            None, None, f"The {key} could not be found in the graph.") from None


def is_valid_signature(signature_def):
    """Returns whether a predict, classify or regress signature is valid."""
    if signature_def is None:
        return False

    def are(tensors, **allowed):
        """Returns whether there are tensors, all allowed with their dtype."""
        return bool(tensors) and all(
            t.dtype == allowed.get(key) for key, t in tensors.items())

    inputs, outputs = signature_def.inputs, signature_def.outputs
    method = signature_def.method_name
    if method == PREDICT_METHOD_NAME:
        return bool(inputs) and bool(outputs)
    examples = are(inputs, **{REGRESS_INPUTS: dtypes.string})
    if method == REGRESS_METHOD_NAME:
        return examples and are(outputs, **{REGRESS_OUTPUTS: dtypes.float32})
    return method == CLASSIFY_METHOD_NAME and examples and are(
        outputs, **{CLASSIFY_OUTPUT_CLASSES: dtypes.string,
                    CLASSIFY_OUTPUT_SCORES: dtypes.float32})


def contains_saved_model(export_dir):
    """Returns whether a folder contains a saved model."""
    return any(gfile.Exists(os.path.join(export_dir, name)) for name in (
        SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT))
