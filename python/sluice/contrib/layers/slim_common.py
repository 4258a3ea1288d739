"""Helpers of `slim.py` and `slim_norms.py`."""

from sluice.contrib.layers.model_variables import model_variable
from sluice.framework import graph as graphs
from sluice.ops.partitioned import parts_of


def get_variable_collections(variables_collections, name):
    """Returns the collections for a layer's variable of a name."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def collect_named_outputs(collections, alias, outputs):
    """Adds outputs to collections under an alias."""
    if collections:
        known = getattr(outputs, "aliases", [])
        outputs.aliases = [*known, alias.rstrip("/")]
        graphs.add_to_collections(collections, outputs)
    return outputs


def channels_first(data_format, formats):
    """Returns whether the channels come first in a data format."""
    if data_format not in formats:
        raise ValueError(f"data_format has to be either "
                         f"{' or '.join(f for f in formats if f)}.")
    return bool(data_format) and data_format.startswith("NC")


def images_first(data_format):
    """Calls `channels_first` for images."""
    return channels_first(data_format, ("NCHW", "NHWC"))


def model_getter(**renamed):
    """Makes a custom getter that creates model variables with new names."""
    def get(getter, name, **kwargs):
        path, slash, last = name.rpartition("/")
        given = {key: kwargs.get(key) for key in (
            "shape", "dtype", "initializer", "regularizer", "collections",
            "caching_device", "partitioner", "use_resource", "synchronization",
            "aggregation")}
        return model_variable(path + slash + renamed.get(last, last),
                              trainable=kwargs.get("trainable", True),
                              custom_getter=getter, **given)
    return get


def collect(variable, variables_collections, name):
    """Adds a layer's variable to the caller's collections, at most once."""
    for key in get_variable_collections(variables_collections, name) or ():
        known = graphs.get_collection_ref(key)
        known.extend(part for part in parts_of(variable)
                     if not any(part is v for v in known))


def finished(outputs, activation_fn, outputs_collections, name,
             normalizer_fn=None, normalizer_params=None):
    """Normalizes, activates and collects outputs."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, name, outputs)
