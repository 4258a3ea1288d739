"""Loading saved models."""

import os

from sluice import _core
from sluice.compat.training import saved_model as names
from sluice.framework import errors, meta_graph, protos
from sluice.framework import graph as graphs
from sluice.ops import variables
from sluice.training.checkpoints import local_path
from sluice.training.saver import Saver, import_meta_graph


def _text(path):
    path = os.fspath(path)
    return local_path(path.decode() if isinstance(path, bytes) else path)


class MethodNameUpdater:
    """Changes the method names of signatures in the file of a SavedModel.

        updater = MethodNameUpdater("model")
        updater.replace_method_name("score", "tensorflow/serving/regress",
                                    tags="serve")
        updater.save()

    Args:
      export_dir: the folder of the SavedModel.

    Raises:
      OSError: if there is none, or it cannot be parsed.
    """

    def __init__(self, export_dir):
        self._folder = _text(export_dir)
        self._model = parse_saved_model(export_dir)

    def replace_method_name(self, signature_key, method_name, tags=None):
        """Sets the method name of a signature.

        Args:
          signature_key: the name of the signature.
          method_name: its new method name.
          tags: the tag or tags of the one meta graph to change; None for all.

        Raises:
          ValueError: if no meta graph has these tags, or one that has them
            lacks the signature; meta graphs before that one are changed.
        """
        for what, given in (("signature_key", signature_key),
                            ("method_name", method_name)):
            if not given:
                raise ValueError(f"{what} must be defined.")
        if tags is not None and not isinstance(tags, (list, tuple, set)):
            tags = [tags]
        chosen = [m for m in self._model.meta_graphs
                  if tags is None or set(m.meta_info_def.tags) == set(tags)]
        if not chosen:
            raise ValueError(
                f"MetaGraphDef associated with tags {tags} could not be found "
                f"in SavedModel: it has "
                f"{[list(m.meta_info_def.tags) for m in self._model.meta_graphs]}")
        for meta_graph in chosen:
            if signature_key not in meta_graph.signature_def:
                raise ValueError(
                    f"MetaGraphDef associated with tags {tags} does not have a "
                    f"signature_def with key: {signature_key}; it has "
                    f"{sorted(meta_graph.signature_def)}")
            meta_graph.signature_def[signature_key].method_name = method_name

    def save(self, new_export_dir=None):
        """Writes the file, in the format of the one that was read.

        Args:
          new_export_dir: an existing folder for it; by default it replaces the
            one that was read.
        """
        folder = _text(new_export_dir or self._folder)
        binary = os.path.join(self._folder, names.SAVED_MODEL_FILENAME_PB)
        if os.path.exists(binary):
            name = names.SAVED_MODEL_FILENAME_PB
            data = self._model.SerializeToString(deterministic=True)
        else:
            name = names.SAVED_MODEL_FILENAME_PBTXT
            data = str(self._model).encode()
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


def parse_saved_model(export_dir):
    """Returns the SavedModel of a folder.

    Raises:
      OSError: if there is none, or it cannot be parsed.
    """
    from google.protobuf import message, text_format
    export_dir = _text(export_dir)
    binary = os.path.join(export_dir, names.SAVED_MODEL_FILENAME_PB)
    text = os.path.join(export_dir, names.SAVED_MODEL_FILENAME_PBTXT)
    made = protos.SavedModel()
    if os.path.exists(binary):
        try:
            with open(binary, "rb") as f:
                made.ParseFromString(f.read())
            return made
        except message.DecodeError as e:
            raise OSError(f"Cannot parse file {binary}: {e}.") from None
    if os.path.exists(text):
        try:
            with open(text, "rb") as f:
                return text_format.Merge(f.read().decode(), made)
        except (text_format.ParseError, UnicodeDecodeError) as e:
            raise OSError(f"Cannot parse file {text}: {e}.") from None
    raise _no_model(export_dir)


def _no_model(export_dir):
    return OSError(f"SavedModel file does not exist at: {export_dir}{os.sep}"
                   f"{{{names.SAVED_MODEL_FILENAME_PBTXT}|"
                   f"{names.SAVED_MODEL_FILENAME_PB}}}")


def _find(export_dir, tags):
    """Returns the MetaGraphDef with exactly these tags."""
    if not _core.is_saved_model(export_dir):
        raise _no_model(export_dir)
    try:
        found = _core.find_meta_graph(export_dir, sorted(tags))
    except errors.NotFoundError as e:
        raise RuntimeError(
            f"MetaGraphDef associated with tags "
            f"{str(sorted(tags)).strip('[]')} could not be found in "
            f"SavedModel: {e.message}") from None
    except errors.DataLossError as e:
        raise OSError(f"Cannot parse {e.message}.") from None
    return protos.MetaGraphDef.FromString(found)


def _within(name, scope):
    return f"{scope}/{name}" if scope else name


maybe_saved_model_directory = names.contains_saved_model


def get_asset_tensors(export_dir, meta_graph_def_to_load, import_scope=None):
    """Returns {name of a tensor: path of its file} of a MetaGraphDef.

    Raises:
      ValueError: if a name leads out of the folder of assets.
    """
    assets = list(meta_graph_def_to_load.asset_file_def)
    if not assets:
        collection = meta_graph_def_to_load.collection_def
        if names.ASSETS_KEY in collection:
            assets = [protos.AssetFileDef.FromString(any_.value) for any_ in
                      collection[names.ASSETS_KEY].any_list.value]
    for asset in assets:
        # A model reads no files outside of its folder.
        if (os.path.isabs(asset.filename) or
                not asset.filename or ".." in asset.filename.split("/")):
            raise ValueError(f"Expected an asset in the model's folder, got "
                             f"{asset.filename!r}.")
    folder = os.path.join(_text(export_dir), names.ASSETS_DIRECTORY)
    return {_within(asset.tensor_info.name, import_scope):
            os.path.join(folder, asset.filename) for asset in assets}


def _op_of_signature(meta_graph_def, key, scope):
    if key not in meta_graph_def.signature_def:
        return None
    return names.load_op_from_signature_def(
        meta_graph_def.signature_def[key], key, scope)


def _op_of_collection(meta_graph_def, keys):
    for key in keys:
        if key not in meta_graph_def.collection_def:
            continue
        found = meta_graph_def.collection_def[key].node_list.value
        if len(found) != 1:
            raise RuntimeError(f"Expected exactly one {key}: {list(found)}")
        # (As it was imported, under whatever scope.)
        return graphs.get_collection(key)[-1]
    return None


def get_init_op(meta_graph_def, import_scope=None):
    """Returns the operation of a loaded graph that initializes it, or None."""
    found = _op_of_signature(meta_graph_def, names.INIT_OP_SIGNATURE_KEY,
                             import_scope)
    if found is not None:
        return found
    return _op_of_collection(
        meta_graph_def, (names.MAIN_OP_KEY, names.LEGACY_INIT_OP_KEY))


def get_train_op(meta_graph_def, import_scope=None):
    """Returns what trains a loaded graph, or None."""
    found = _op_of_signature(meta_graph_def, names.TRAIN_OP_SIGNATURE_KEY,
                             import_scope)
    if found is not None:
        return found
    return _op_of_collection(meta_graph_def, (names.TRAIN_OP_KEY,))


class SavedModelLoader:
    """Loads the graphs of a saved model.

    Args:
      export_dir: the folder.

    Raises:
      OSError: if there is no saved model, or it cannot be parsed.
    """

    def __init__(self, export_dir):
        self._export_dir = _text(export_dir)
        self._saved_model = parse_saved_model(self._export_dir)

    @property
    def export_dir(self):
        """The folder."""
        return self._export_dir

    @property
    def variables_path(self):
        """The path of its checkpoint."""
        return os.path.join(self._export_dir, names.VARIABLES_DIRECTORY,
                            names.VARIABLES_FILENAME)

    @property
    def saved_model(self):
        """The SavedModel."""
        return self._saved_model

    def get_meta_graph_def_from_tags(self, tags):
        """Returns the MetaGraphDef with exactly these tags.

        Raises:
          RuntimeError: with the tags that there are, if there is none.
        """
        return _find(self._export_dir, tags)

    def load_graph(self, graph, tags, import_scope=None, return_elements=None,
                   **saver_kwargs):
        """Adds a MetaGraphDef to a graph.

        Args:
          graph: the graph.
          tags: the tags of the MetaGraphDef.
          import_scope: the scope of its nodes.
          return_elements: names of operations and tensors to return.
          saver_kwargs: arguments of `tf.train.import_meta_graph`.

        Returns:
          (Saver of its variables or None, the requested elements or None).
        """
        found = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            saver = import_meta_graph(found, import_scope=import_scope,
                                      **saver_kwargs)
            if return_elements is None:
                return saver, None
            try:
                return saver, [
                    graph.as_graph_element(_within(name, import_scope))
                    for name in return_elements]
            except KeyError as e:
                raise ValueError(f"Requested return_element not found in "
                                 f"graph_def: {e}; not found in graph.") from None

    def restore_variables(self, sess, saver, import_scope=None):
        """Restores the variables of a graph that `load_graph` added.

        Raises:
          ValueError: if there is no saver, but there are variables.
        """
        with sess.graph.as_default():
            if isinstance(saver, Saver):
                if not saver._is_empty:
                    saver.restore(sess, self.variables_path)
            elif saver is not None or variables._all_saveable_objects(
                    scope=import_scope):
                raise ValueError(
                    "No tf.train.Saver object was passed to the function "
                    "SavedModelLoader.restore_variables. Since there are "
                    "variables in the graph, a saver is required.")

    def run_init_ops(self, sess, tags, import_scope=None):
        """Runs what initializes the model, with the paths of its assets."""
        found = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            init_op = get_init_op(found, import_scope)
            if init_op is not None:
                sess.run(init_op, get_asset_tensors(self._export_dir, found,
                                                    import_scope))

    def load(self, sess, tags, import_scope=None, **saver_kwargs):
        """Adds a MetaGraphDef to a session's graph, and makes it ready.

        Args:
          sess: the session.
          tags: the tags of the MetaGraphDef.
          import_scope: the scope of its nodes.
          saver_kwargs: arguments of `tf.train.import_meta_graph`.

        Returns:
          The MetaGraphDef, with all attributes.

        Raises:
          RuntimeError: with the tags that there are, if none has these.
          errors.NotFoundError: if the variables are missing.
        """
        saver, _ = self.load_graph(sess.graph, tags, import_scope,
                                   **saver_kwargs)
        self.restore_variables(sess, saver, import_scope)
        self.run_init_ops(sess, tags, import_scope)
        found = self.get_meta_graph_def_from_tags(tags)
        if found.meta_info_def.stripped_default_attrs:
            meta_graph.add_default_attrs(found.graph_def)
        return found


def load(sess, tags, export_dir, import_scope=None, **saver_kwargs):
    """Adds a saved model to a session's graph, and makes it ready.

        with tf.Session(graph=tf.Graph()) as session:
            model = tf.saved_model.loader.load(session, ["serve"], "export/1")
            signature = model.signature_def["serving_default"]
            y = session.run(signature.outputs["y"].name,
                            {signature.inputs["x"].name: x})

    Args:
      sess: the session.
      tags: the tags of the MetaGraphDef.
      export_dir: the folder.
      import_scope: the scope of its nodes.
      saver_kwargs: arguments of `tf.train.import_meta_graph`.

    Returns:
      The MetaGraphDef.

    Raises:
      OSError: if there is no saved model, or it cannot be parsed.
      RuntimeError: with the tags that there are, if none has these.
    """
    return SavedModelLoader(export_dir).load(sess, tags, import_scope,
                                             **saver_kwargs)
