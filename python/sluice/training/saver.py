"""Savers: checkpoints of variables, which TensorFlow reads and writes too."""

import logging
import os

import numpy as np

from sluice import _core
from sluice.client.session import BaseSession
from sluice.framework import (
    dtypes, errors, graph as graphs, meta_graph, protos, registries,
    scopes)
from sluice.framework.graph import GraphKeys
from sluice.ops import variables
from sluice.training import global_step as steps
from sluice.training.checkpoints import (
    checkpoint_exists, get_checkpoint_mtimes, local_path, meta_graph_filename)
from sluice.training.saveables import (
    ReferenceVariableSaveable, ResourceVariableSaveable, SaveableObject,
    SaveSpec, VariableSaveable, op_list_to_dict, saveables_of, shapes_of)

_log = logging.getLogger("sluice")


class BaseSaverBuilder:
    """Adds the operations of a saver to the graph."""

    SaveSpec, SaveableObject = SaveSpec, SaveableObject
    VariableSaveable = ReferenceVariableSaveable
    ResourceVariableSaveable = ResourceVariableSaveable
    OpListToDict = staticmethod(op_list_to_dict)

    def __init__(self, write_version=2):
        self._write_version = write_version

    def build(self, names_to_saveables, reshape=False, sharded=False,
              max_to_keep=5, keep_checkpoint_every_n_hours=10000.0, name=None,
              restore_sequentially=False, filename="model"):
        """Adds the operations, and returns the SaverDef that names them."""
        del restore_sequentially

        def described(saveable):
            return ([(s.name, s.slice_spec, s.dtype, lambda s=s: s.tensor)
                     for s in saveable.specs], str(saveable.device or ""),
                    lambda saved: saveable.restore(
                        saved, shapes_of(saveable) if reshape else None))

        saveables = saveables_of(names_to_saveables)
        with graphs.name_scope(name, "save") as scope:
            prefix, saved, restored = _core.saver_nodes(
                scope, [described(s) for s in saveables], filename or "model",
                sharded, self._write_version == protos.SaverDef.V1)
        return protos.SaverDef(
            filename_tensor_name=prefix.name, save_tensor_name=saved.name,
            restore_op_name=restored.name, max_to_keep=max_to_keep or 0,
            sharded=sharded, version=self._write_version,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours)


BulkSaverBuilder = BaseSaverBuilder


class Saver:
    """Saves and restores variables.

        saver = tf.train.Saver()
        with tf.Session() as session:
            ...
            path = saver.save(session, "model/ckpt", global_step=100)
            saver.restore(session, path)

    A checkpoint is complete, and on disk, before the file `checkpoint` names
    it; a process that is killed at any moment leaves the one before whole.

    Args:
      var_list: a list of variables or SaveableObjects, or a dict from names in
        checkpoints to them; defaults to all variables that can be saved.
      reshape: whether a saved tensor may have another shape than its variable.
      sharded: whether each device writes a file of its own.
      max_to_keep: how many checkpoints are kept; None or 0: all.
      keep_checkpoint_every_n_hours: beside them, one is kept for good each
        time so many hours have passed.
      name: the name scope of the operations, instead of "save".
      restore_sequentially: has no effect: variables are read in parallel, in
        bounded memory.
      saver_def: a SaverDef, whose operations are in the graph already.
      builder: a BaseSaverBuilder that makes the operations.
      defer_build: whether the operations are made by `build`, later.
      allow_empty: whether there may be no variables.
      write_version: the format, `SaverDef.V2` or the old `SaverDef.V1`.
      pad_step_number: whether steps in names have at least eight digits.
      save_relative_paths: whether the file `checkpoint` has relative paths.
      filename: the default name, for sessions that feed none.

    Raises:
      TypeError: if something in `var_list` is not a variable.
      ValueError: if there is nothing to save, or if two have the same name.
    """

    def __init__(self, var_list=None, reshape=False, sharded=False,
                 max_to_keep=5, keep_checkpoint_every_n_hours=10000.0,
                 name=None, restore_sequentially=False, saver_def=None,
                 builder=None, defer_build=False, allow_empty=False,
                 write_version=2, pad_step_number=False,
                 save_relative_paths=False, filename=None):
        if defer_build and var_list:
            raise ValueError("If `var_list` is provided then build cannot be "
                             "deferred. Either set defer_build=False or "
                             "var_list=None.")
        self._var_list = var_list
        self._reshape, self._sharded = reshape, sharded
        self._max_to_keep = max_to_keep
        self._every_n_hours = keep_checkpoint_every_n_hours
        self._name, self._sequentially = name, restore_sequentially
        self.saver_def, self._builder = saver_def, builder
        self._allow_empty, self._write_version = allow_empty, write_version
        self._pad, self._relative = pad_step_number, save_relative_paths
        self._filename = filename
        self._is_built = self._is_empty = False
        self._locks = {}  # By folder: so long no other process may save there.
        self._keeper = None  # The hours count from when there is one.
        if not defer_build:
            self.build()
        if self.saver_def is not None:
            self._check()
            self._write_version = self.saver_def.version
            self._kept()

    def build(self):
        """Adds the operations, unless they are there."""
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            if self._builder is None:
                self._builder = BulkSaverBuilder(self._write_version)
            if self._var_list is None:
                self._var_list = variables._all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self.saver_def = self._builder.build(
                self._var_list, reshape=self._reshape, sharded=self._sharded,
                max_to_keep=self._max_to_keep, name=self._name,
                keep_checkpoint_every_n_hours=self._every_n_hours,
                restore_sequentially=self._sequentially,
                filename=self._filename)
        elif self._name:
            self._check()
            self.saver_def = _within(self.saver_def, self._name)
        self._check()
        self._kept()

    def _check(self):
        if not isinstance(self.saver_def, protos.SaverDef):
            if not protos.is_message(self.saver_def, "SaverDef"):
                raise ValueError(f"saver_def must be a saver_pb2.SaverDef: "
                                 f"{self.saver_def}")
            self.saver_def = protos.own(self.saver_def)
        if not self.saver_def.save_tensor_name:
            raise ValueError(f"saver_def must specify the save_tensor_name: "
                             f"{self.saver_def}")
        if not self.saver_def.restore_op_name:
            raise ValueError(f"saver_def must specify the restore_op_name: "
                             f"{self.saver_def}")

    def as_saver_def(self):
        """Returns the SaverDef."""
        return self.saver_def

    def to_proto(self, export_scope=None):
        """Returns the SaverDef, without a scope; None if it is outside."""
        if export_scope is None:
            return self.saver_def
        if not (self.saver_def.filename_tensor_name.startswith(export_scope) and
                self.saver_def.save_tensor_name.startswith(export_scope) and
                self.saver_def.restore_op_name.startswith(export_scope)):
            return None
        made = protos.SaverDef()
        made.CopyFrom(self.saver_def)
        for field in ("filename_tensor_name", "save_tensor_name",
                      "restore_op_name"):
            setattr(made, field, scopes.strip_name_scope(
                getattr(made, field), export_scope))
        return made

    @staticmethod
    def from_proto(saver_def, import_scope=None):
        """Makes a Saver of operations that are in the graph."""
        return Saver(saver_def=saver_def, name=import_scope)

    # ---- The checkpoints that are kept

    def _kept(self):
        if self._keeper is None:
            definition = self.saver_def or protos.SaverDef(max_to_keep=5)
            self._keeper = _core.CheckpointKeeper(
                definition.max_to_keep,
                definition.keep_checkpoint_every_n_hours, self._relative)
        return self._keeper

    @property
    def last_checkpoints(self):
        """The checkpoints that are kept, oldest first.

        As in TensorFlow, a saver that keeps all lists none here; they are in
        the file `checkpoint`.
        """
        if self.saver_def is not None and self.saver_def.max_to_keep <= 0:
            return []
        return self._kept().paths

    def set_last_checkpoints(self, last_checkpoints):
        """Sets the checkpoints that are kept, oldest first."""
        if not isinstance(last_checkpoints, list):
            raise TypeError(f"expected a list of checkpoints, got "
                            f"{last_checkpoints!r}")
        self._kept().set(last_checkpoints)

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time):
        """Sets the checkpoints that are kept: pairs of a path and a time."""
        if not isinstance(last_checkpoints_with_time, list):
            raise TypeError(f"expected a list of pairs, got "
                            f"{last_checkpoints_with_time!r}")
        self._kept().set([path for path, _ in last_checkpoints_with_time],
                         [time for _, time in last_checkpoints_with_time])

    def recover_last_checkpoints(self, checkpoint_paths):
        """Sets the checkpoints that are kept to those of them that exist."""
        there = [p for p in checkpoint_paths if checkpoint_exists(p)]
        self._kept().set(there, get_checkpoint_mtimes(there))

    # ---- Saving and restoring

    def _list(self, path, state_file, meta_graph_suffix):
        """Lists a checkpoint, and deletes those that are no longer kept."""
        kept = self._kept()
        before = kept.paths
        try:
            kept.saved(path, state_file)
            failed = kept.delete_old()
            if failed:
                _log.warning("An old checkpoint stays for now: %s", failed)
        finally:
            for old in set(before) - set(kept.paths):
                meta = meta_graph_filename(old, meta_graph_suffix)
                if not checkpoint_exists(old) and os.path.exists(meta):
                    os.remove(meta)

    @staticmethod
    def _lock(path, state_file):
        """Returns the lock of a folder, or None if another process has it."""
        try:
            return _core.RunLock(path, state_file)
        except errors.FailedPreconditionError as e:
            if os.path.isdir(os.path.dirname(path) or "."):
                _log.warning("Two programs save to one folder: each lists only "
                             "its own checkpoints in it. %s", e.message)
            return None

    def _check_built(self, what):
        if not self._is_built and self.saver_def is None:
            raise RuntimeError(f"`build()` should be called before {what} if "
                               f"defer_build==True")

    def save(self, sess, save_path, global_step=None, latest_filename=None,
             meta_graph_suffix="meta", write_meta_graph=True, write_state=True,
             strip_default_attrs=False, save_debug_info=False):
        """Saves the variables.

        Args:
          sess: the session, in which they are initialized.
          save_path: the start of the names of the files; a path or a
            "file://" URI.
          global_step: a number, tensor or variable: the end of the names.
          latest_filename: the file that lists the checkpoints, "checkpoint".
          meta_graph_suffix: the end of the name of the graph's file.
          write_meta_graph: whether the graph is written beside it.
          write_state: whether the list is written and old ones are deleted.

        Returns:
          The path of the checkpoint; None if there is nothing to save.

        Raises:
          TypeError: if `sess` is not a session.
          ValueError: if the names are in conflict, or if the folder is not
            one.
          RuntimeError: if the saver was not built.
          errors.OpError: if it cannot be written; the checkpoints before stay.
        """
        del save_debug_info
        self._check_built("save")
        latest_filename = latest_filename or "checkpoint"
        if self._write_version != protos.SaverDef.V2:
            _log.warning("TensorFlow's V1 checkpoint format has been "
                            "deprecated. Consider switching to the more "
                            "efficient V2 format: now on by default.")
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path "
                             "components")
        if not isinstance(sess, BaseSession):
            raise TypeError(f"'sess' must be a Session; {sess}")
        save_path = local_path(save_path)
        path = save_path
        if global_step is not None:
            if not isinstance(global_step, (int, np.integer)):
                global_step = steps.global_step(sess, global_step)
            path += f"-{global_step:08d}" if self._pad else f"-{global_step}"
        elif os.path.basename(save_path) == latest_filename and (
                not self._sharded):
            raise ValueError(f"'latest_filename' collides with 'save_path': "
                             f"'{latest_filename}' and '{save_path}'")
        folder = os.path.dirname(save_path)
        if not self._is_empty:
            if folder not in self._locks:
                self._locks[folder] = self._lock(save_path, latest_filename)
            try:
                path = sess.run(self.saver_def.save_tensor_name,
                                {self.saver_def.filename_tensor_name: path})
            except (errors.FailedPreconditionError, errors.NotFoundError) as e:
                if os.path.isdir(folder or "."):
                    raise
                raise ValueError(f"Parent directory of {save_path} doesn't "
                                 f"exist, can't save.") from e
            path = path.decode() if isinstance(path, bytes) else str(path)
        if write_meta_graph:
            with sess.graph.as_default():
                self.export_meta_graph(
                    meta_graph_filename(path, meta_graph_suffix),
                    strip_default_attrs=strip_default_attrs)
        if self._is_empty:
            return None
        if write_state:
            self._list(path, latest_filename, meta_graph_suffix)
        return path

    def restore(self, sess, save_path):
        """Assigns the saved values to the variables.

        Raises:
          ValueError: if there is no such checkpoint.
          errors.NotFoundError: if variables are missing in it; the message
            names each, with the nearest names in it.
          errors.InvalidArgumentError: if types or shapes differ; the message
            names each.
        """
        self._check_built("restore")
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        save_path = local_path(save_path)
        if not checkpoint_exists(save_path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: "
                             f"{save_path}")
        _log.info("Restoring parameters from %s", save_path)
        self._compare(sess.graph, save_path)
        sess.run(self.saver_def.restore_op_name,
                 {self.saver_def.filename_tensor_name: save_path})

    def _compare(self, graph, path):
        """Raises an error that names all differences from a checkpoint."""
        wanted = []
        for saveable in self._saveables(graph):
            for spec in saveable.specs:
                shape = None
                if isinstance(saveable, VariableSaveable) and not (
                        spec.slice_spec or self._reshape):
                    shape = saveable.op.shape
                wanted.append((
                    spec.name, dtypes.as_dtype(spec.dtype).as_datatype_enum,
                    shape.as_list() if shape is not None and
                    shape.is_fully_defined() else None))
        missing, other, renamed = _core.checkpoint_differences(path, wanted)
        if not missing and not other:
            if renamed:
                _log.warning("%s is a checkpoint of objects: restoring %d of "
                             "%d variables by their full names.", path, renamed,
                             len(wanted))
            return
        kind, what = (
            (errors.NotFoundError,
             "a Variable name or other graph key that is missing")
            if missing else
            (errors.InvalidArgumentError,
             "a mismatch between the current graph and the graph"))
        raise kind(None, None, errors._worded(
            f"Restoring from checkpoint failed. This is most likely due to "
            f"{what} from the checkpoint. Please ensure that you have not "
            f"altered the graph expected based on the checkpoint {path}. "
            f"Differences:\n{missing}{other}"))

    def _saveables(self, graph):
        if self._var_list is None:
            return []
        with graph.as_default():
            return saveables_of(self._var_list)

    def export_meta_graph(self, filename=None, collection_list=None,
                          as_text=False, export_scope=None, clear_devices=False,
                          clear_extraneous_savers=False,
                          strip_default_attrs=False, save_debug_info=False):
        """Returns the graph and this saver as a MetaGraphDef.

        See `tf.train.export_meta_graph`.
        """
        del save_debug_info
        return meta_graph.export_scoped_meta_graph(
            filename=filename,
            graph=graphs.get_default_graph(), saver_def=self.saver_def,
            collection_list=collection_list, as_text=as_text,
            export_scope=export_scope, clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs)[0]


def _within(saver_def, scope):
    """Returns a SaverDef whose names have a prefix."""
    made = protos.SaverDef()
    made.CopyFrom(saver_def)
    for field in ("filename_tensor_name", "save_tensor_name",
                  "restore_op_name"):
        setattr(made, field, f"{scope}/{getattr(saver_def, field)}")
    return made


registries.register_proto_function(
    GraphKeys.SAVERS, proto_type=lambda: protos.SaverDef(),
    to_proto=Saver.to_proto, from_proto=Saver.from_proto)


def import_meta_graph(meta_graph_or_file, clear_devices=False,
                      import_scope=None, **kwargs):
    """Adds a MetaGraphDef to the default graph.

    Args:
      meta_graph_or_file: a MetaGraphDef or a file name.
      clear_devices: whether to remove the devices of nodes.
      import_scope: a prefix for the names.
      input_map, return_elements: as of `tf.import_graph_def`.

    Returns:
      A Saver, or None if there is nothing to save.
    """
    found = meta_graph_or_file
    if not protos.is_message(found, "MetaGraphDef"):
        found = meta_graph.read_meta_graph_file(found)
    if found.HasField("saver_def"):
        made = meta_graph.import_scoped_meta_graph(
            found, clear_devices, import_scope=import_scope, **kwargs)
        scope = import_scope
        for short, variable in made.items():
            # The scope may have been made unique.
            if variable.name != short and variable.name.endswith("/" + short):
                scope = variable.name[:-len(short) - 1]
                break
        return Saver(saver_def=found.saver_def, name=scope)
    meta_graph.import_scoped_meta_graph(
        found, clear_devices, import_scope=import_scope, **kwargs)
    if variables._all_saveable_objects(scope=import_scope):
        return Saver()
    return None
