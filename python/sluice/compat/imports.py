"""Runs programs for TensorFlow 1 unchanged.

    python -m sluice.run script.py [arguments of the script]
    python -m sluice.run -m package.module [arguments]

`import tensorflow` (and `tensorflow.compat.v1`, `from tensorflow.x import y`)
imports `sluice.compat.v1` and its members. Modules inside TensorFlow
(`tensorflow.python.framework.ops`) have all public names.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import types

from sluice import name_lookup, names
from sluice.compat import v1


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tensorflow` and its submodules."""

    def find_spec(self, fullname, path=None, target=None):
        # `from tensorflow.nn import x` looks for a submodule x of the result.
        name = fullname.replace("sluice.compat.v1.", "tensorflow.")
        if name != "tensorflow" and not name.startswith("tensorflow."):
            return None
        try:
            if self._find(name) is None:
                return None
        except AttributeError as e:
            raise ModuleNotFoundError(f"No module named '{name}': {e}",
                                      name=name) from None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return self._find(spec.name.replace("sluice.compat.v1.", "tensorflow."))

    def exec_module(self, module):
        pass

    @staticmethod
    def _find(fullname):
        parts = fullname.split(".")[1:]
        if parts[:2] == ["compat", "v1"]:
            parts = parts[2:]
        if parts[-1:] and parts[-1].startswith("_"):
            return None  # The name of a member, not of a module.
        if parts[:1] == ["python"]:
            return _internal(fullname, parts[1:])
        if parts[:1] == ["contrib"] and parts[2:3] == ["python"]:
            return _internal(fullname, parts[3:], ".".join(parts[:2]))
        if parts[:1] == ["core"]:
            return _Internal(fullname, not fullname.endswith("_pb2"))
        found = v1
        for part in parts:
            found = getattr(found, part)
        return found


class _Internal(types.ModuleType):
    """A module inside TensorFlow, such as `tensorflow.python.ops.rnn`.

    It has all public names, and the names of the modules of this package for
    it (`_OURS`). A package of such modules has no names.
    """

    def __init__(self, fullname, is_package, group=None):
        super().__init__(fullname)
        self._is_package = is_package
        self._own = fullname.rpartition(".")[2]
        self._group = group or _GROUPS.get(self._own)

    def _modules(self):
        if self._own.endswith("_pb2"):
            return ("protos",)
        return [*_OURS.get(self._own, self._own).split(), "private_names"]

    def __getattr__(self, name):
        if name.startswith("__") or self._is_package and (
                name not in names._GROUPS.get(self._group, ())):
            raise AttributeError(name)
        found = name_lookup.anywhere(
            self.__name__, name, self._group,
            [f"sluice.{folder}{module}"
             for module in self._modules()
             for folder in _FOLDERS],
            self._own.startswith("gen_"))
        setattr(self, name, found)
        return found


# The folders in which modules are searched, in order.
_FOLDERS = (
    "framework.", "ops.", "client.", "functions.", "layers.", "training.",
    "data.", "summary.",
    "contrib.", "contrib.layers.", "contrib.metrics.", "contrib.seq2seq.",
    "compat.", "compat.internals.", "compat.testing.", "compat.training.", "")
# Internal modules that are public under another name.
_PUBLIC = {"errors_impl": "errors", "tf_logging": "logging", "test": "test",
           "googletest": "test", "rnn_cell": "nn.rnn_cell",
           "nest": "nest", "gfile": "gfile", "app": "app", "flags": "flags",
           "errors": "errors", "test_util": "test", "compat": "compat",
           "spectral_ops_test_util": "test"}
# Internal modules whose public names are those of a namespace.
_GROUPS = {"convolutional": "layers", "core": "layers", "pooling": "layers",
           "normalization": "layers", "losses": "losses",
           "losses_impl": "losses", "metrics": "metrics",
           "metrics_impl": "metrics", "rnn_cell_impl": "nn.rnn_cell",
           "image_ops": "image", "image_ops_impl": "image",
         "summary": "summary"}
# The modules of this package with the other names of an internal module.
_OURS = {"ops": "graph conversion registries scopes gradients",
         "dataset_ops": "dataset iterator options readers",
         "iterator_ops": "iterator", "batching": "transformations",
         "constant_op": "conversion", "sparse_tensor": "conversion",
         "tensor_util": "tensor_proto conversion",
         "lookup_ops": "tables vocabularies", "tensor_spec": "specs",
         "io_ops": "readers files", "tf_record": "record_options records",
         **dict.fromkeys(("image_ops", "image_ops_impl"),
                         "image_ops image_colors image_resizing image_codecs "
                         "image_boxes image_quality"),
         "queue_runner_impl": "queue_runner", "bucket_ops": "bucketing",
         "data_flow_ops": ("queues barriers accumulators staging files "
                           "tensor_array"),
         "script_ops": "script_ops eager_function",
         "resource_variable_ops": "variables",
         "state_ops": "variables scatters",
         "variables": "variables partitioned", "variable_v1": "variables",
         "metrics_impl": "metrics metrics_at_k",
         "resource_variables_toggle": "variables", "ref_variable": "variables",
         "device_spec": "devices", "parsing_ops": "parsing features",
         "checkpoint_management": "checkpoints", "saver": "saver checkpoints",
         "saveable_object": "saveables", "saveable_object_util": "saveables",
         "checkpoint_utils": "checkpoint_readers",
         "py_checkpoint_reader": "checkpoint_readers",
         "saver_test_utils": "checkpointed_op", "base": "base saveables",
         **dict.fromkeys(("builder", "builder_impl"),
                         "saved_model_builder saved_model"),
         **dict.fromkeys(("loader", "loader_impl"),
                         "saved_model_loader saved_model"),
         "method_name_updater": "saved_model_loader",
         **dict.fromkeys(("simple_save", "main_op", "main_op_impl"),
                         "saved_model_builder"),
         **dict.fromkeys(("constants", "signature_constants", "signature_def_utils",
                          "signature_def_utils_impl", "tag_constants",
                          "utils_impl"), "saved_model"),
         "summary": "summary_ops writer", "summary_iterator": "writer",
         "writer_cache": "writer", "basic_session_run_hooks": "session_hooks",
         "session_run_hook": "session_hooks",
         "sets": "sparse_ops", "loss_ops": "contrib.losses",
         "metric_ops": "contrib_metrics",
         "common_shapes": "tensor_shape", "confusion_matrix": "weights",
         "weights_broadcast_ops": "weights", "gradients_impl": "gradients",
         "gradients_util": "gradients", "control_flow_ops": "control_flow",
         "tensor_array_ops": "tensor_array", "graph_util": "node_def",
         "importer": "node_def", "functional_ops": "functional",
         "attention_wrapper": "attention", "basic_decoder": "decoders",
         "beam_search_decoder": "beam_search",
         "beam_search_ops": "beam_search", "decoder": "decoders",
         "helper": "decoders", "seq2seq": "decoders",
         "core_rnn_cell": "rnn_cell contrib.rnn",
         "partitioned_variables": "partitioned",
         "nn_ops": "nn conv", "nn_impl": "nn conv embedding",
         "embedding_ops": "embedding", "rnn_cell_impl": "rnn_cell",
         "tf2": "context", "device_lib": "session",
         "utils": "layer_utils saved_model",
         "histogram_ops": "segments", "ctc_ops": "ctc",
         "training_util": "global_step",
         "template": "custom_gradient",
         "tensor_array_grad": "tensor_array", "math_grad": "gradients",
         "control_flow_util": "context", "device": "devices",
         "random_seed": "graph", "logging_ops": "string_ops",
         "tf_inspect": "introspection", "tf_decorator": "introspection",
         "function_utils": "introspection",
         "tf_contextlib": "introspection", "all_util": "introspection",
         "decorator_utils": "deprecation", "registry": "registries",
         "function": "function traced", "spectral_ops": "signal_ops",
         "dct_ops": "signal_ops", "fft_ops": "signal_ops",
         "reconstruction_ops": "signal_ops", "window_ops": "signal_ops",
         "shape_ops": "signal_ops", "mel_ops": "signal_ops",
         "mfcc_ops": "signal_ops", "stateless_random_ops": "random_ops",
         "smart_cond": "control_flow",
         "critical_section_ops": "critical_section",
         "control_flow_v2_toggles": "compat.v1",
         **{name: "contrib.distributions." + module for module, names in (
             ("numbers", "bernoulli beta exponential gamma laplace normal "
                         "student_t uniform"),
             ("classes", "categorical dirichlet dirichlet_multinomial "
                         "multinomial"),
             *((name, name) for name in ("distribution", "kullback_leibler",
                                         "special_math", "util")))
            for name in names.split()}}


def _internal(fullname, parts, contrib=None):
    public = _PUBLIC.get(parts[-1]) if len(parts) > 1 and not contrib else None
    if public is not None:
        return _Finder._find("tensorflow." + public)
    if parts[-1:] == ["test_ops"]:  # Importing it registers its ops.
        return importlib.import_module("sluice.compat.testing.test_ops")
    return _Internal(fullname, parts[-1:] == ["distributions"] or (
                         len(parts) < 2 and
                         parts[-1:] not in (["tf2"], ["tfe"])),
                     contrib if contrib in names._GROUPS else None)


def install():
    """Makes `import tensorflow` import this package."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def main():
    """Runs `python -m sluice.run`."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.exit("sluice.run: expected a module after -m, got nothing")
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
