"""Model variables and searches for variables: `tf.contrib.framework`."""

import functools
import itertools
import re

from sluice.contrib.layers.arg_scope import add_arg_scope
from sluice.framework import dtypes, graph as graphs
from sluice.framework.devices import DeviceSpec
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, control_flow, variable_scope
from sluice.ops.variables import Variable


def _kept(initial_value, validate_shape, name, use_resource, collection):
    return Variable(initial_value, trainable=False, collections=[collection],
                    validate_shape=validate_shape, use_resource=use_resource,
                    name=name)


def local_variable(initial_value, validate_shape=True, name=None,
                   use_resource=None):
    """Creates a local variable, which is not trainable."""
    return _kept(initial_value, validate_shape, name, use_resource,
                 GraphKeys.LOCAL_VARIABLES)


def global_variable(initial_value, validate_shape=True, name=None,
                    use_resource=None):
    """Creates a global variable, which is not trainable."""
    return _kept(initial_value, validate_shape, name, use_resource,
                 GraphKeys.GLOBAL_VARIABLES)


@add_arg_scope
def variable(name, shape=None, dtype=None, initializer=None, regularizer=None,
             trainable=True, collections=None, caching_device=None, device=None,
             partitioner=None, custom_getter=None, use_resource=None,
             synchronization=None, aggregation=None):
    """Calls `get_variable` on a device or with a device function.

    A custom getter is called in its place.
    """
    getter = variable_scope.get_variable if custom_getter is None else (
        functools.partial(custom_getter,
                          reuse=variable_scope.get_variable_scope().reuse))
    collections = [GraphKeys.GLOBAL_VARIABLES] if collections is None else (
        list(dict.fromkeys(collections)))
    with graphs.device(device or ""):
        return getter(
            name, shape=shape, dtype=dtype, initializer=initializer,
            regularizer=regularizer, trainable=trainable,
            collections=collections, caching_device=caching_device,
            partitioner=partitioner, use_resource=use_resource,
            synchronization=synchronization, aggregation=aggregation)


@add_arg_scope
def model_variable(name, shape=None, dtype=dtypes.float32, initializer=None,
                   regularizer=None, trainable=True, collections=None,
                   caching_device=None, device=None, partitioner=None,
                   custom_getter=None, use_resource=None, synchronization=None,
                   aggregation=None):
    """Calls `variable` and adds the result to MODEL_VARIABLES."""
    return variable(
        name, shape=shape, dtype=dtype, initializer=initializer,
        regularizer=regularizer, trainable=trainable,
        collections=[*(collections or ()), GraphKeys.GLOBAL_VARIABLES,
                     GraphKeys.MODEL_VARIABLES],
        caching_device=caching_device, device=device, partitioner=partitioner,
        custom_getter=custom_getter, use_resource=use_resource,
        synchronization=synchronization, aggregation=aggregation)


class VariableDeviceChooser:
    """A device function that cycles through the tasks of a job.

    Without tasks, it selects this process.
    """

    def __init__(self, num_tasks=0, job_name="ps", device_type="CPU",
                 device_index=0, replica=None):
        self._tasks = itertools.cycle(range(num_tasks))
        self._job_name, self._spec = job_name, dict(
            replica=replica, device_type=device_type, device_index=device_index)

    def __call__(self, op):
        task = next(self._tasks, None)
        where = {} if task is None else dict(job=self._job_name, task=task)
        return DeviceSpec(**where, **self._spec).to_string()


def add_model_variable(var):
    """Adds a variable to MODEL_VARIABLES unless it is there."""
    known = graphs.get_collection_ref(GraphKeys.MODEL_VARIABLES)
    if not any(var is v for v in known):
        known.append(var)


def get_variables(scope=None, suffix=None,
                  collection=GraphKeys.GLOBAL_VARIABLES):
    """Returns the variables that match a scope and a suffix.

    Both are regular expressions; `scope` matches at the start of the name.
    """
    if isinstance(scope, variable_scope.VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = (scope or "") + ".*" + (suffix if ":" in suffix
                                        else suffix + ":")
    return graphs.get_collection(collection, scope)


def get_model_variables(scope=None, suffix=None):
    """Calls `get_variables` for MODEL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope=None, suffix=None):
    """Calls `get_variables` for LOCAL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope=None, suffix=None):
    """Calls `get_variables` for TRAINABLE_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix, scope=None):
    """Calls `get_variables` with the suffix as the first argument."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name, scope=None):
    """Returns the variables whose last name component matches."""
    return get_variables(scope, f"/{given_name}:|^{given_name}:")


def get_variables_to_restore(include=None, exclude=None):
    """Returns the variables of some scopes, except those of others.

    By default includes all scopes.
    """
    for what, given in (("include", include), ("exclude", exclude)):
        if given is not None and not isinstance(given, (list, tuple)):
            raise TypeError(f"{what} is provided but is not a list or a tuple.")
    found = get_variables() if include is None else [
        v for scope in include for v in get_variables(scope)]
    without = {id(v) for scope in exclude or () for v in get_variables(scope)}
    return [v for v in found if id(v) not in without]


def get_unique_variable(var_op_name):
    """Returns the variable of a name; ValueError if it does not exist."""
    found = get_variables(var_op_name)
    if not found:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    for v in found:
        if v.op.name == var_op_name:
            return v
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a "
                     f"variable")


def get_variable_full_name(var):
    """Returns the name of a variable; for a part, that of the whole."""
    part = var._save_slice_info
    return part.full_name if part else var.op.name


def filter_variables(var_list, include_patterns=None, exclude_patterns=None,
                     reg_search=True):
    """Returns the variables that match an include and no exclude pattern.

    Without include patterns, all variables match. Patterns match anywhere in
    the name, or only at its start unless `reg_search`.
    """
    match = re.search if reg_search else re.match

    def any_of(patterns, v):
        return any(match(p, v.name) for p in patterns)

    return [v for v in var_list
            if (include_patterns is None or any_of(include_patterns, v))
            and not any_of(exclude_patterns or (), v)]


def assign_from_values(var_names_to_values):
    """Returns (operation that assigns arrays to variables by name, feeds)."""
    feed_dict, assigned = {}, []
    for name, value in var_names_to_values.items():
        found = graphs.get_collection(GraphKeys.GLOBAL_VARIABLES, name)
        if not found:
            raise ValueError(f"Variable {name} wasn't found")
        if len(found) > 1:
            found = [v for v in found if v.op.name == name]
            if not found:
                raise ValueError(f"Variable {name} doesn't uniquely identify a "
                                 f"variable")
        fed = array_ops.placeholder(
            found[0].dtype.base_dtype, found[0].get_shape(),
            name="placeholder/" + found[0].op.name)
        assigned.append(found[0].assign(fed))
        feed_dict[fed] = value.reshape(found[0].get_shape().as_list())
    return control_flow.group(*assigned), feed_dict


def assign_from_values_fn(var_names_to_values):
    """Returns a function of a session that calls `assign_from_values`."""
    assign_op, feed_dict = assign_from_values(var_names_to_values)
    return lambda session: session.run(assign_op, feed_dict)
