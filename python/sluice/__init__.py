"""Sluice: dataflow graphs, built from Python and run by a C++ engine.

    import sluice as sl

    x = sl.placeholder(sl.float32, [None, 3])
    w = sl.Variable(sl.random_normal([3, 2]))
    y = sl.nn.relu(x @ w)
    with sl.Session() as session:
        session.run(sl.global_variables_initializer())
        print(session.run(y, {x: [[1, 2, 3]]}))

`sluice.compat.v1` has TensorFlow 1's names on the same objects.
"""

import os as _os
import sys as _sys
import threading as _threading
import types as _types

from sluice import native as _native

_core = _native.load()
_core.set_package(_os.path.dirname(__file__) + _os.sep)


from sluice.framework import conversion as _conversion
from sluice.framework import dtypes as _dtypes
from sluice.framework import graph as _graph
from sluice.framework import tensor_shape as _tensor_shape
from sluice.framework import errors
from sluice.client import session as _session
from sluice.ops import indexing as _indexing, operators as _operators
from sluice.ops.variables import Variable as _Variable

_core.set_hooks(
    operation_class=_graph.Operation, tensor_class=_graph.Tensor,
    dtypes=_dtypes._BY_NUMBER, as_dtype=_dtypes.as_dtype,
    shape_dims=_tensor_shape._shape_dims, run_error=errors._from_status,
    wording=errors._worded,
    convert=_conversion._convert, pack=_conversion._pack_list,
    expand_fetch=_session._expand_fetch, expand_feed=_session._expand_feed,
    variable_class=_Variable, session_handle=_session._handles_of)
_core.set_default_graph(_graph.Graph())
_core.watch_interrupts(_threading.main_thread().ident)

from sluice import name_lookup as _lookup, names as _names

__version__ = "0.1.0"


class _Package(_types.ModuleType):
    """A package that keeps its namespaces (`sl.train`).

    When a module of the same name as a namespace is loaded, Python would
    replace the namespace with it. This class prevents that.
    """

    def __setattr__(self, name, value):
        if name not in _names._GROUPS or value is not _sys.modules.get(
                f"sluice.{name}"):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def __getattr__(name):
    return _lookup.lookup("sluice", name, globals())


def __dir__():
    return sorted({name for name in globals() if name.startswith("__")}
                  | _lookup.shown())
