"""Converters between items of collections and messages."""

import importlib

_conversions = {}  # (message type, to_proto, from_proto) by collection.
# The modules that register a collection's conversion when they are loaded. They
# are above this one, and loaded when a graph with the collection is read.
_REGISTERED_BY = {"queue_runners": "sluice.training.queue_runner"}


def register_proto_function(collection_name, proto_type=None, to_proto=None,
                            from_proto=None):
    """Registers how a collection's items are converted to messages and back.

    Args:
      collection_name: the collection.
      proto_type: the type of the messages, or a function that makes one.
      to_proto: a function of (value, export_scope) that returns a message or
        None.
      from_proto: a function of (message, import_scope) that returns a value.
    """
    for what, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if function is not None and not callable(function):
            raise TypeError(f"{what} must be callable.")
    if collection_name in _conversions:
        raise KeyError(f"Registering two proto_functions with name "
                       f"{collection_name!r}!")
    _conversions[collection_name] = proto_type, to_proto, from_proto


def _conversion(collection_name):
    if collection_name not in _conversions and (
            collection_name in _REGISTERED_BY):
        importlib.import_module(_REGISTERED_BY[collection_name])
    return _conversions.get(collection_name, (None, None, None))


def get_collection_proto_type(collection_name):
    """Returns the message type of a collection, or None."""
    return _conversion(collection_name)[0]


def get_to_proto_function(collection_name):
    """Returns to_proto(value, export_scope), or None."""
    return _conversion(collection_name)[1]


def get_from_proto_function(collection_name):
    """Returns from_proto(message, import_scope), or None."""
    return _conversion(collection_name)[2]
