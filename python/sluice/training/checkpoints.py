"""The file `checkpoint`, which lists a program's checkpoints.

Savers read and write the checkpoints themselves.
"""

import glob
import logging
import os
import re
import uuid

from sluice._core import local_path
from sluice.framework import protos

_log = logging.getLogger("sluice")
_V2 = 2  # The value of SaverDef.V2.


def generate_checkpoint_state_proto(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths=None,
        all_model_checkpoint_timestamps=None, last_preserved_timestamp=None):
    """Makes a CheckpointState.

    If `save_dir` is relative, paths become relative to it. (Those of "file://"
    URIs become paths.)

    Args:
      save_dir: the folder of the checkpoints.
      model_checkpoint_path: the latest checkpoint.
      all_model_checkpoint_paths: all checkpoints, oldest first; the latest is
        added if it is missing.
      all_model_checkpoint_timestamps: the time of each checkpoint.
      last_preserved_timestamp: the time of the last preserved checkpoint.
    """
    save_dir = local_path(save_dir)
    model_checkpoint_path = local_path(model_checkpoint_path)
    paths = [local_path(path) for path in all_model_checkpoint_paths or []]
    if not paths or paths[-1] != model_checkpoint_path:
        _log.info("%s is not in all_model_checkpoint_paths. Manually adding "
                     "it.", model_checkpoint_path)
        paths.append(model_checkpoint_path)
    times = all_model_checkpoint_timestamps
    if times and len(times) != len(paths):
        raise ValueError(f"Checkpoint timestamps, if provided, must match "
                         f"checkpoint paths (got paths {paths} and timestamps "
                         f"{times})")
    if not os.path.isabs(save_dir):
        def relative(path):
            return path if os.path.isabs(path) else os.path.relpath(path,
                                                                    save_dir)
        model_checkpoint_path = relative(model_checkpoint_path)
        paths = [relative(path) for path in paths]
    return protos.CheckpointState(
        model_checkpoint_path=model_checkpoint_path,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp)


def _state_file(folder, latest_filename):
    return os.path.join(folder, latest_filename or "checkpoint")


def update_checkpoint_state(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths=None,
        latest_filename=None, all_model_checkpoint_timestamps=None,
        last_preserved_timestamp=None):
    """Writes the file `checkpoint` (or `latest_filename`) of a folder.

    See `generate_checkpoint_state_proto`.
    """
    state = generate_checkpoint_state_proto(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths,
        all_model_checkpoint_timestamps, last_preserved_timestamp)
    path = _state_file(local_path(save_dir), latest_filename)
    if path == state.model_checkpoint_path:
        raise RuntimeError(f"Save path '{model_checkpoint_path}' conflicts "
                           f"with path used for checkpoint state.  Please use "
                           f"a different save path.")
    # Renaming makes the update atomic for readers.
    written = f"{path}.tmp{uuid.uuid4().hex}"
    with open(written, "w", encoding="utf-8") as f:
        f.write(str(state))
    os.replace(written, path)


def get_checkpoint_state(checkpoint_dir, latest_filename=None):
    """Reads the CheckpointState of a folder, with full paths.

    Returns None if it is missing or cannot be parsed.
    """
    folder = local_path(checkpoint_dir)
    path = _state_file(folder, latest_filename)
    if not os.path.exists(path):
        return None
    state = protos.CheckpointState()
    from google.protobuf import text_format
    try:
        with open(path, encoding="utf-8") as f:
            text_format.Merge(f.read(), state)
    except (OSError, text_format.ParseError) as e:
        _log.warning("%s: %s", type(e).__name__, e)
        _log.warning("%s: Checkpoint ignored", path)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}")
    # os.path.join keeps absolute paths.
    state.model_checkpoint_path = os.path.join(
        folder, local_path(state.model_checkpoint_path))
    state.all_model_checkpoint_paths[:] = [
        os.path.join(folder, local_path(p))
        for p in state.all_model_checkpoint_paths]
    return state


def _escaped(prefix):
    """Returns a pattern for a path whose shards are a pattern themselves."""
    shards = re.search(r"-\?{5}-of-(\d{5}|\?{5})$", prefix)
    return glob.escape(prefix) if shards is None else (
        glob.escape(prefix[:shards.start()]) + shards[0])


def _files_of(checkpoint_prefix):
    """Returns the files that prove that a checkpoint exists.

    These are the index (format 2) or the data (format 1).
    """
    checkpoint_prefix = local_path(checkpoint_prefix)
    index = checkpoint_prefix + ".index"
    if os.path.exists(index):
        return [index]
    # (The path of shards of format 1 is a pattern.)
    return [checkpoint_prefix] if os.path.isfile(checkpoint_prefix) else (
        sorted(glob.glob(_escaped(checkpoint_prefix))))


def checkpoint_exists(checkpoint_prefix):
    """Returns whether a checkpoint of that name exists."""
    return bool(_files_of(checkpoint_prefix))


def latest_checkpoint(checkpoint_dir, latest_filename=None):
    """Returns the name of the latest checkpoint in a folder, or None."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    _log.error("Couldn't match files for checkpoint %s",
                  state.model_checkpoint_path)
    return None


def get_checkpoint_mtimes(checkpoint_prefixes):
    """Returns the modification times in seconds of existing checkpoints."""
    found = [_files_of(prefix) for prefix in checkpoint_prefixes]
    return [os.stat(files[0]).st_mtime for files in found if files]


def meta_graph_filename(checkpoint_filename, meta_graph_suffix="meta"):
    """Returns the graph's file of a checkpoint; shards share it."""
    return (re.sub(r"-[\d\?]+-of-[\d\?]+$", "", checkpoint_filename) + "." +
            meta_graph_suffix)


def remove_checkpoint(checkpoint_prefix, checkpoint_format_version=_V2,
                      meta_graph_suffix="meta"):
    """Deletes the files of a checkpoint."""
    checkpoint_prefix = local_path(checkpoint_prefix)
    prefix = glob.escape(checkpoint_prefix)
    patterns = ([prefix + ".index", prefix + ".data-?????-of-?????"]
                if checkpoint_format_version == _V2 else
                [_escaped(checkpoint_prefix)])
    for pattern in (glob.escape(meta_graph_filename(checkpoint_prefix,
                                                    meta_graph_suffix)),
                    *patterns):
        for path in glob.glob(pattern):
            os.remove(path)
