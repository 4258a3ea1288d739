"""TensorFlow's messages (GraphDef, ConfigProto, ...) and enums, by name.

They are classes of the `protobuf` package, made on the first access from the
descriptors of the .proto files (`sluice/messages.pb`). They have their own
descriptor pool, because TensorFlow may have declared the same names in the
default pool.
"""

import copyreg
import os
import sys
import threading

from sluice import _core

_PACKAGE = "tensorflow."
_lock = threading.Lock()
_found = {}  # Classes, enums and their values, by name.


def _caller(name):
    """Returns the function of this package that the program called.

    Returns `name`, the requested attribute, if there is no such function.
    """
    frame, found = sys._getframe(1), name
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("sluice."):
            break
        if module not in (__name__, "sluice.name_lookup") and (
                not frame.f_code.co_name.startswith("__")):
            found = frame.f_code.co_name
        frame = frame.f_back
    return found


def _library(name):
    """Imports the parts of protobuf that make classes."""
    try:
        from google.protobuf import (
            descriptor_pb2, descriptor_pool, message_factory)
        from google.protobuf.internal import enum_type_wrapper
    except ImportError as e:
        raise ImportError(
            f"{_caller(name)}: expected the Python package protobuf, "
            f"which makes messages such as {name}, got none ({e}); hint: 'pip "
            f"install protobuf', or Debian's python3-protobuf",
            name="google.protobuf") from None
    return (descriptor_pb2, descriptor_pool.DescriptorPool(), message_factory,
            enum_type_wrapper.EnumTypeWrapper)


def _load(name):
    """Makes all classes; `name` is the requested one."""
    descriptors, pool, factory, wrapper = _library(name)
    # Before protobuf 4.22, a factory makes classes, without the nested ones.
    class_of = getattr(factory, "GetMessageClass", None) or (
        factory.MessageFactory(pool).GetPrototype)

    def restored(full_name, data):
        return class_of(pool.FindMessageTypeByName(full_name)).FromString(data)

    def reduced(message):
        return _restored, (type(message).DESCRIPTOR.full_name,
                           message.SerializeToString())

    def made(descriptor):
        cls = class_of(descriptor)
        cls.__module__ = __name__
        cls.__qualname__ = descriptor.full_name[len(_PACKAGE):]
        for inner in descriptor.nested_types:
            if not inner.GetOptions().map_entry:
                setattr(cls, inner.name, made(inner))
        # By default, protobuf looks in the default pool.
        copyreg.pickle(cls, reduced)
        return cls

    found = {"_restored": restored}
    path = os.path.join(os.path.dirname(_core.__file__), "messages.pb")
    with open(path, "rb") as f:
        files = descriptors.FileDescriptorSet.FromString(f.read()).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    for file in files:
        if not file.package.startswith(_PACKAGE[:-1]):
            continue
        here = pool.FindFileByName(file.name)
        for each, enumeration in here.enum_types_by_name.items():
            found[each] = wrapper(enumeration)
            found.update(found[each].items())
        for each, descriptor in here.message_types_by_name.items():
            found[each] = made(descriptor)
    from sluice.framework import config
    # _core calls it at the end of a step.
    found["RunMetadata"]._fill = config.fill_metadata
    _found.update(found)


def _restored(full_name, data):
    """Unpickles a message."""
    return __getattr__("_restored")(full_name, data)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if not _found:
        with _lock:
            if not _found:
                _load(name)
    if name not in _found:
        near = ", ".join(_core.nearest_names(name, sorted(_found)))
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'"
                             f"{f' (nearest: {near})' if near else ''}")
    return _found[name]


def is_message(value, name):
    """Returns whether a value is a message of the given type.

    Its class may come from another package, such as TensorFlow. Does not
    import protobuf.
    """
    descriptor = getattr(type(value), "DESCRIPTOR", None)
    return getattr(descriptor, "full_name", None) == _PACKAGE + name


def own(message):
    """Converts a message of another package's class to the class used here."""
    cls = __getattr__(type(message).DESCRIPTOR.name)
    if isinstance(message, cls):
        return message
    return cls.FromString(message.SerializeToString())
