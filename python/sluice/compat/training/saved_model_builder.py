"""Writing saved models."""

import os

from sluice import _core
from sluice.compat.training import saved_model as names
from sluice.framework import conversion, errors, protos
from sluice.framework import graph as graphs
from sluice.ops import control_flow, tables, variables
from sluice.training.saver import Saver


def _checked_info(info):
    """Raises AssertionError if a TensorInfo lacks its name or its type."""
    if not protos.is_message(info, "TensorInfo"):
        raise AssertionError(f"expected a TensorInfo, got {info!r}")
    encoding = info.WhichOneof("encoding")
    if encoding == "name" and not info.name or (
            encoding is None and not info.UnknownFields()) or not info.dtype:
        raise AssertionError(
            f"All TensorInfo protos used in the SignatureDefs must have the "
            f"name and dtype field set: {info}")


def _checked_signatures(signature_def_map):
    for signature in (signature_def_map or {}).values():
        for values in (signature.inputs, signature.outputs):
            for info in values.values():
                _checked_info(info)
    for reserved in (names.INIT_OP_SIGNATURE_KEY, names.TRAIN_OP_SIGNATURE_KEY):
        if reserved in (signature_def_map or {}):
            raise KeyError(f"SignatureDef map key \"{reserved}\" is reserved for "
                           f"initialization. Please use a different key.")


def _path_of(tensor):
    """Returns the path that a constant holds."""
    if not isinstance(tensor, _core.Tensor):
        raise TypeError("Asset path tensor must be a Tensor.")
    if tensor.op.type != "Const":
        raise TypeError("Asset path tensor must be of type constant.")
    if tensor.dtype != "string":
        raise TypeError("Asset path tensor must be of dtype string.")
    value = conversion.constant_value(tensor)
    if value is None or value.size != 1:
        raise TypeError("Asset path tensor must be a scalar.")
    return value.item().decode()


class _SavedModelBuilder:
    """Writes a saved model: a folder of graphs, variables and files.

    It gets its name when it is saved: until then nothing is at `export_dir`.

    Args:
      export_dir: the folder, which must not exist or be empty.

    Raises:
      AssertionError: if the folder is not empty.
    """

    def __init__(self, export_dir):
        self._export_dir = os.fspath(export_dir)
        if isinstance(self._export_dir, bytes):
            self._export_dir = self._export_dir.decode()
        self._builder = _core.SavedModelBuilder(self._export_dir)
        try:
            self._variables_path = self._builder.variables_path()
        except errors.AlreadyExistsError as e:
            raise AssertionError(e.message) from None
        self._has_saved_variables = False

    def _assets(self, tensors):
        """Copies the files that constants name; returns AssetFileDefs."""
        made = []
        for tensor in tensors or ():
            path = _path_of(tensor)
            if not path:
                raise ValueError(f"Invalid asset filepath tensor {tensor}")
            made.append(protos.AssetFileDef(
                filename=self._builder.add_asset(path),
                tensor_info=protos.TensorInfo(name=tensor.name)))
        return made

    @staticmethod
    def _saver(saver):
        return saver or Saver(
            variables._all_saveable_objects(), sharded=True, allow_empty=True)

    def _save_variables(self, sess, saver):
        definition = saver.saver_def
        if definition is not None:
            sess.run(definition.save_tensor_name,
                     {definition.filename_tensor_name: self._variables_path})
        self._has_saved_variables = True

    def _add(self, saver, tags, signature_def_map, assets, clear_devices,
             strip_default_attrs):
        meta_graph = saver.export_meta_graph(
            clear_devices=clear_devices,
            strip_default_attrs=strip_default_attrs)
        meta_graph.asset_file_def.extend(assets)
        meta_graph.meta_info_def.tags.extend(tags)
        for key, signature in (signature_def_map or {}).items():
            meta_graph.signature_def[key].CopyFrom(protos.own(signature))
        self._builder.add_meta_graph(meta_graph.SerializeToString())

    @staticmethod
    def _with_ops(signature_def_map, **ops):
        """Adds signatures that name operations."""
        made = dict(signature_def_map or {})
        for key, op in ops.items():
            if op is not None:
                made[key] = names.op_signature_def(op, key)
        return made

    def _before(self, first, signature_def_map):
        if first == self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been "
                "saved. Please invoke `add_meta_graph()` instead." if first else
                "Graph state including variables and assets has not been saved "
                "yet. Please invoke `add_meta_graph_and_variables()` first.")
        _checked_signatures(signature_def_map)

    def add_meta_graph(self, tags, signature_def_map=None, assets_list=None,
                       clear_devices=False, init_op=None, train_op=None,
                       saver=None, strip_default_attrs=False):
        """Adds the default graph for other tags, with the same variables.

        Args: see `add_meta_graph_and_variables`.

        Raises:
          AssertionError: if the variables were not saved before.
        """
        self._before(False, signature_def_map)
        signature_def_map = self._with_ops(
            signature_def_map, **{names.INIT_OP_SIGNATURE_KEY: init_op,
                                  names.TRAIN_OP_SIGNATURE_KEY: train_op})
        self._add(self._saver(saver), tags, signature_def_map,
                  self._assets(assets_list), clear_devices,
                  strip_default_attrs)

    def add_meta_graph_and_variables(
            self, sess, tags, signature_def_map=None, assets_list=None,
            clear_devices=False, init_op=None, train_op=None,
            strip_default_attrs=False, saver=None):
        """Saves the variables, and adds the default graph.

        Args:
          sess: the session that holds the variables.
          tags: the tags by which the graph is found.
          signature_def_map: {name: SignatureDef}.
          assets_list: constants with the paths of files that the graph reads.
          clear_devices: whether to remove the devices of nodes.
          init_op: what is to be run when the model is loaded.
          train_op: what trains the model.
          strip_default_attrs: whether to remove attributes that have their
            default values.
          saver: the Saver to use; defaults to one of all variables.

        Raises:
          AssertionError: if a graph was added before, or a TensorInfo of a
            signature has no name or no dtype.
        """
        self._before(True, signature_def_map)
        signature_def_map = self._with_ops(
            signature_def_map, **{names.INIT_OP_SIGNATURE_KEY: init_op,
                                  names.TRAIN_OP_SIGNATURE_KEY: train_op})
        assets = self._assets(assets_list)
        saver = self._saver(saver)
        self._save_variables(sess, saver)
        self._add(saver, tags, signature_def_map, assets, clear_devices,
                  strip_default_attrs)

    def save(self, as_text=False):
        """Gives the folder its name; returns the path of its main file."""
        try:
            return self._builder.save(as_text).encode()
        except errors.AlreadyExistsError as e:
            raise AssertionError(e.message) from None


class SavedModelBuilder(_SavedModelBuilder):
    """Writes a saved model: a folder of graphs, variables and files.

        builder = tf.saved_model.builder.SavedModelBuilder("export/1")
        with tf.Session() as session:
            ...
            builder.add_meta_graph_and_variables(
                session, [tf.saved_model.tag_constants.SERVING],
                signature_def_map={"serving_default": signature})
        builder.save()

    It gets its name when it is saved: until then nothing is at `export_dir`.

    Args:
      export_dir: the folder, which must not exist or be empty.

    Raises:
      AssertionError: if the folder is not empty.
    """

    @staticmethod
    def _collect(assets, main_op, legacy_init_op, train_op):
        from google.protobuf import any_pb2
        for asset in assets:
            graphs.add_to_collection(names.ASSETS_KEY, any_pb2.Any(
                type_url="type.googleapis.com/tensorflow.AssetFileDef",
                value=asset.SerializeToString()))
        op = main_op if main_op is not None else legacy_init_op
        if op is not None:
            if not isinstance(op, _core.Operation):
                raise TypeError(f"main_op needs to be an Operation: {op!r}")
            for key in (names.LEGACY_INIT_OP_KEY, names.MAIN_OP_KEY):
                if graphs.get_collection(key):
                    raise ValueError(f"Graph already contains one or more main "
                                     f"ops under the collection {key}.")
            graphs.add_to_collection(names.MAIN_OP_KEY, op)
        if train_op is not None:
            if not isinstance(train_op, (_core.Tensor, _core.Operation)):
                raise TypeError(f"train_op needs to be a Tensor or Op: "
                                f"{train_op!r}")
            graphs.add_to_collection(names.TRAIN_OP_KEY, train_op)

    def add_meta_graph(self, tags, signature_def_map=None,
                       assets_collection=None, clear_devices=False,
                       main_op=None, strip_default_attrs=False, saver=None,
                       legacy_init_op=None):
        """Adds the default graph for other tags, with the same variables.

        Args: see `add_meta_graph_and_variables`.

        Raises:
          AssertionError: if the variables were not saved before.
        """
        self._before(False, signature_def_map)
        self._collect(self._assets(assets_collection), main_op, legacy_init_op,
                      None)
        self._add(self._saver(saver), tags, signature_def_map, (),
                  clear_devices, strip_default_attrs)

    def add_meta_graph_and_variables(
            self, sess, tags, signature_def_map=None, assets_collection=None,
            clear_devices=False, main_op=None, strip_default_attrs=False,
            saver=None, legacy_init_op=None):
        """Saves the variables, and adds the default graph.

        Args:
          sess: the session that holds the variables.
          tags: the tags by which the graph is found.
          signature_def_map: {name: SignatureDef}.
          assets_collection: constants with the paths of files that the graph
            reads.
          clear_devices: whether to remove the devices of nodes.
          main_op: what is to be run when the model is loaded.
          strip_default_attrs: whether to remove attributes that have their
            default values.
          saver: the Saver to use; defaults to one of all variables.
          legacy_init_op: the old name of `main_op`.

        Raises:
          AssertionError: if a graph was added before, or a TensorInfo of a
            signature has no name or no dtype.
        """
        self._before(True, signature_def_map)
        self._collect(self._assets(assets_collection), main_op, legacy_init_op,
                      None)
        saver = self._saver(saver)
        self._save_variables(sess, saver)
        self._add(saver, tags, signature_def_map, (), clear_devices,
                  strip_default_attrs)


def main_op():
    """Makes an operation that initializes all variables and tables."""
    return control_flow.group(
        variables.global_variables_initializer(),
        variables.local_variables_initializer(), tables.tables_initializer())


def main_op_with_restore(restore_op_name):
    """Makes `main_op`, followed by the operation of that name."""
    with graphs.control_dependencies([main_op()]):
        restore = graphs.get_default_graph().get_operation_by_name(
            restore_op_name)
        return control_flow.group(restore)


def simple_save(session, export_dir, inputs, outputs, legacy_init_op=None):
    """Saves a model with one signature, for prediction.

    Args:
      session: the session that holds the variables.
      export_dir: the folder, which must not exist or be empty.
      inputs, outputs: {name: tensor}.
      legacy_init_op: what is to be run when the model is loaded.
    """
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session, [names.SERVING],
        {names.DEFAULT_SERVING_SIGNATURE_DEF_KEY:
         names.predict_signature_def(inputs, outputs)},
        assets_collection=graphs.get_collection(
            graphs.GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op, clear_devices=True)
    builder.save()
