"""Reading checkpoints: their tensors, and variables that start from them."""

import logging
import os
import time

from sluice import _core
from sluice.framework import (
    dtypes, errors, graph as graphs, protos, tensor_shape)
from sluice.ops import variable_scope
from sluice.ops.partitioned import PartitionedVariable
from sluice.ops.variables import Variable
from sluice.training.checkpoints import (
    checkpoint_exists, latest_checkpoint, local_path)
from sluice.training.saveables import saveables_of

_log = logging.getLogger("sluice")


class CheckpointReader:
    """Reads a checkpoint.

    Args:
      filepattern: its path, as it was given to the saver.

    Raises:
      errors.NotFoundError: if there is none.
      errors.DataLossError: from every method, for what is corrupt.
    """

    def __init__(self, filepattern):
        path = local_path(filepattern.decode() if isinstance(
            filepattern, bytes) else filepattern)
        self._reader = _core.CheckpointReader(path)
        self._tensors = self._reader.tensors()

    def get_variable_to_shape_map(self):
        """Returns {name: shape}."""
        return {name: shape for name, (_, shape) in self._tensors.items()}

    def get_variable_to_dtype_map(self):
        """Returns {name: type}."""
        return {name: dtypes.as_dtype(dtype)
                for name, (dtype, _) in self._tensors.items()}

    def has_tensor(self, tensor_str):
        """Returns whether there is a tensor of that name."""
        return tensor_str in self._tensors

    def get_tensor(self, tensor_str):
        """Returns a tensor as an array.

        Raises:
          errors.NotFoundError: if there is none; with the nearest names.
        """
        name = tensor_str.decode() if isinstance(tensor_str, bytes) else (
            tensor_str)
        return self._reader.read(name)

    def debug_string(self):
        """Returns a line for each tensor, as bytes."""
        return "".join(
            f"{name} ({_type_name(dtype)}) [{','.join(map(str, shape))}]\n"
            for name, (dtype, shape) in self._tensors.items()).encode()


def _type_name(dtype):
    """Returns the name of a type in protocol buffers."""
    return protos.DataType.Name(dtypes.as_dtype(dtype).as_datatype_enum)


def NewCheckpointReader(filepattern):  # noqa: N802 (TensorFlow's name)
    """Returns a CheckpointReader."""
    return CheckpointReader(filepattern)


def _path_of(ckpt_dir_or_file):
    path = local_path(ckpt_dir_or_file)
    if os.path.isdir(path):
        found = latest_checkpoint(path)
        if found is None:
            raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints "
                             f"in given directory {path}")
        return found
    return path


def load_checkpoint(ckpt_dir_or_file):
    """Returns a CheckpointReader of a checkpoint, or of a folder's latest.

    Raises:
      ValueError: if the folder has none.
    """
    return CheckpointReader(_path_of(ckpt_dir_or_file))


def load_variable(ckpt_dir_or_file, name):
    """Returns a tensor of a checkpoint, or of a folder's latest one."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(
        name[:-2] if name.endswith(":0") else name)


def list_variables(ckpt_dir_or_file):
    """Returns the (name, shape) of all tensors, sorted by name."""
    return sorted(
        load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None,
                            seconds_to_sleep=1, timeout=None):
    """Waits until a folder has another latest checkpoint.

    Returns it, or None if the timeout, in seconds, is over.
    """
    _log.info("Waiting for new checkpoint at %s", checkpoint_dir)
    until = time.time() + timeout if timeout is not None else None
    while True:
        path = latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            _log.info("Found new checkpoint at %s", path)
            return path
        if until is not None and time.time() + seconds_to_sleep > until:
            return None
        time.sleep(seconds_to_sleep)


def checkpoints_iterator(checkpoint_dir, min_interval_secs=0, timeout=None,
                         timeout_fn=None):
    """Yields the latest checkpoint of a folder each time there is a new one.

    Args:
      min_interval_secs: the least time between two of them.
      timeout: how many seconds to wait for one; None: for ever.
      timeout_fn: called after a timeout; the iteration ends if it returns true.
    """
    path = None
    while True:
        new = wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if new is None:
            if not timeout_fn:
                _log.info("Timed-out waiting for a checkpoint.")
                return
            if timeout_fn():
                return
            continue
        start = time.time()
        path = new
        yield path
        left = start + min_interval_secs - time.time()
        if left > 0:
            time.sleep(left)


# ---- Variables that start from a checkpoint


def _starts_from(variable, path, name, vocabulary=None):
    """Makes a checkpoint's tensor the initial value of a variable.

    `vocabulary` is what `_core.saved_value` takes as such.
    """
    for part in (variable if isinstance(
            variable, (list, tuple, PartitionedVariable)) else [variable]):
        info = part._save_slice_info
        [saveable] = saveables_of({name: part})
        with graphs.device(part.device), graphs.device("/cpu:0"):
            value = _core.saved_value(
                path, part._handle, name,
                info.spec if info is not None else "", vocabulary)
        part._initializer = saveable.restore([value], None)
        value.set_shape(part.shape)
        part._initial_value = value


def _in_store(name):
    store = variable_scope._store()
    return store._vars.get(name, store._partitioned_vars.get(name))


def init_from_checkpoint(ckpt_dir_or_file, assignment_map):
    """Makes variables start with the values of a checkpoint.

    Their initializers read it; call this before the operations that run all
    initializers are made.

    Args:
      ckpt_dir_or_file: a checkpoint, or a folder with checkpoints.
      assignment_map: a dict, or a list of pairs, from names in the checkpoint
        to variables, lists of parts, names of variables, or, for all variables
        of a scope, from "scope/" to "scope/".

    Raises:
      errors.NotFoundError: if there is no such checkpoint.
      ValueError: if a variable is missing in the checkpoint, or has another
        shape.
    """
    path = _path_of(ckpt_dir_or_file)
    if not checkpoint_exists(path):
        raise errors.NotFoundError(None, None,
                                   f"{path} is not a valid checkpoint")
    saved = CheckpointReader(path).get_variable_to_shape_map()

    def start(variable, name, target):
        if variable is None:
            near = ", ".join(_core.nearest_names(
                target, list(variable_scope._store()._vars)))
            raise ValueError(f"Variable {target} is not in the variable store"
                             f"{f' (nearest: {near})' if near else ''}")
        if name not in saved:
            near = ", ".join(_core.nearest_names(name, sorted(saved)))
            raise ValueError(
                f"Tensor {name} ({target}) is not found in "
                f"{ckpt_dir_or_file} checkpoint {sorted(saved.items())}"
                f"{f' (nearest: {near})' if near else ''}")
        if isinstance(variable, Variable) and (
                variable._save_slice_info is None and
                not variable.shape.is_compatible_with(saved[name])):
            raise ValueError(
                f"Shape of variable {variable.name} ({variable.shape}) doesn't "
                f"match with shape of tensor {name} "
                f"({tensor_shape.as_shape(saved[name])}) from checkpoint "
                f"reader.")
        _starts_from(variable, path, name)

    pairs = (assignment_map.items() if isinstance(assignment_map, dict)
             else assignment_map)
    for name, target in sorted(pairs, key=lambda pair: pair[0]):
        if not isinstance(target, str):
            start(target, name, getattr(target, "name", str(target)))
            continue
        variable = _in_store(target)
        if variable is not None:
            start(variable, name, target)
            continue
        scope = target[:target.rindex("/")] if "/" in target else ""
        if not name.endswith("/"):
            raise ValueError(f"Assignment map with scope only name {scope} "
                             f"should map to scope only {name}. Should be "
                             f"'scope/': 'other_scope/'.")
        store = variable_scope._store()
        for full in sorted({*(v.partition("/part_")[0] for v in store._vars),
                            *store._partitioned_vars}):
            if scope and not full.startswith(scope + "/"):
                continue
            inner = full[len(scope) + 1:] if target != "/" else full
            start(_in_store(full), inner if name == "/" else name + inner, full)
