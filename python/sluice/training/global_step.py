"""The global step: a variable that counts training steps."""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, variable_scope
from sluice.ops.variables import Variable, assign_add


def get_global_step(graph=None):
    """Returns the global step, or None."""
    graph = graph or graphs.get_default_graph()
    steps = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if not steps:  # It may have been created by its name.
        steps = [v for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
                 if v.op.name == GraphKeys.GLOBAL_STEP]
    if len(steps) > 1:
        raise RuntimeError("Multiple items found in collection "
                           "\"global_step\"")
    if not steps:
        return None
    assert_global_step(steps[0])
    return steps[0]


def assert_global_step(global_step_tensor):
    """Raises TypeError unless it is an integer scalar variable or tensor."""
    if not isinstance(global_step_tensor, (Variable, graphs.Tensor)):
        raise TypeError(f'Existing "global_step" must be a Variable or Tensor: '
                        f'{global_step_tensor}.')
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: '
                        f'{global_step_tensor.dtype}')
    if global_step_tensor.shape.ndims not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: '
                        f'{global_step_tensor.shape}')


def create_global_step(graph=None):
    """Makes the global step; ValueError if it exists."""
    graph = graph or graphs.get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return variable_scope.get_variable(
            GraphKeys.GLOBAL_STEP, shape=[], dtype=dtypes.int64,
            initializer=lambda shape, dtype: array_ops.zeros(shape, dtype),
            trainable=False, collections=[GraphKeys.GLOBAL_VARIABLES,
                                          GraphKeys.GLOBAL_STEP])


def get_or_create_global_step(graph=None):
    """Returns the global step; makes it if there is none."""
    return get_global_step(graph) or create_global_step(graph)


_STEP_READ = "global_step_read_op_cache"


def _get_global_step_read(graph=None):
    """Returns the tensor of `_get_or_create_global_step_read`, or None."""
    graph = graph or graphs.get_default_graph()
    reads = graph.get_collection(_STEP_READ)
    if len(reads) > 1:
        raise RuntimeError(f"There are multiple items in collection "
                           f"{_STEP_READ}. There should be only one.")
    return reads[0] if reads else None


def _get_or_create_global_step_read(graph=None):
    """Returns a read of the global step that precedes its increments.

    Returns None if there is no global step.
    """
    graph = graph or graphs.get_default_graph()
    read = _get_global_step_read(graph)
    step = get_global_step(graph)
    if read is not None or step is None:
        return read
    with graph.as_default(), graph.name_scope(None), graph.name_scope(
            step.op.name + "/"):
        value = step.initialized_value() if hasattr(
            step, "initialized_value") else step
        read = array_ops.identity(value + 0)
    graph.add_to_collection(_STEP_READ, read)
    return read


def _increment_global_step(increment, graph=None):
    """Increments the global step after the read."""
    graph = graph or graphs.get_default_graph()
    step = get_global_step(graph)
    if step is None:
        raise ValueError("Global step tensor should be created by "
                         "tf.train.get_or_create_global_step before calling "
                         "increment.")
    read = _get_or_create_global_step_read(graph)
    with graph.as_default(), graphs.control_dependencies([read]):
        return assign_add(step, increment)


def global_step(sess, global_step_tensor):
    """Evaluates the global step; returns an int."""
    return int(sess.run(global_step_tensor))
