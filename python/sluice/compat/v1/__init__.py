"""TensorFlow 1's names and behaviour on Sluice's objects.

    import sluice.compat.v1 as tf
"""

from sluice import compat, errors, name_lookup as _lookup, version

def _with_tensorflow_words(message):
    from sluice.compat import wording  # Loaded only for the first error.
    return wording.add(message)


errors._set_wording(_with_tensorflow_words)

__version__ = version.VERSION
__git_version__ = version.GIT_VERSION
__compiler_version__ = version.COMPILER_VERSION


def disable_eager_execution():
    """Does nothing, because there are only graphs."""


def disable_v2_behavior():
    """Does nothing, because the behaviour is that of TensorFlow 1."""


def executing_eagerly():
    """Returns False."""
    return False


def control_flow_v2_enabled():
    """Returns False: control flow uses Switch, Merge and Enter."""
    return False


def enable_control_flow_v2():
    """Does nothing: see `control_flow_v2_enabled`."""


def disable_control_flow_v2():
    """Does nothing: see `control_flow_v2_enabled`."""


def __getattr__(name):
    return _lookup.lookup("sluice.compat.v1", name, globals())


_OWN = {name for name in globals() if name[0] != "_" or name[:2] == "__"}


def __dir__():
    return sorted(_OWN | _lookup.shown())
