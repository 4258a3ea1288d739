"""Initial values that depend on other variables.

Initializers run in any order, so an initial value reads the initial values of
variables that are not yet initialized.
"""

from sluice.framework import protos
from sluice.framework.graph import GraphKeys
from sluice.framework.node_def import REFERENCE_OPS, import_graph_def

# Ops that read the state of a variable and are not copied.
_TELLING = ("IsVariableInitialized", "VarIsInitializedOp", "ReadVariableOp")


def _depends(op):
    """Returns whether an operation depends on the value of a variable.

    This is fast, because it runs for each variable and most do not.
    """
    seen, stack = {op}, [op]
    while stack:
        op = stack.pop()
        kind = op.type
        if kind in REFERENCE_OPS:
            return True
        if kind in _TELLING or kind == "Merge" and hasattr(
                op, "_is_initialized_value"):
            continue
        for x in op.inputs:
            # Inputs of a loop under construction may be missing.
            if x is not None and x.op not in seen:
                seen.add(x.op)
                stack.append(x.op)
    return False


def _on_the_way(initial):
    """Maps the ancestors of an initial value to whether they read variables.

    Returns {operation: bool}, or {} if there is a cycle.
    """
    depends, active, stack = {}, set(), [initial.op]
    while stack:
        op = stack[-1]
        if op in depends or op.type in _TELLING + REFERENCE_OPS or hasattr(
                op, "_is_initialized_value"):
            depends.setdefault(op, op.type in REFERENCE_OPS)
            stack.pop()
            continue
        before = [x.op for x in op.inputs if x is not None]
        missing = [b for b in before if b not in depends]
        if not missing:
            depends[op] = any(depends[b] for b in before)
            active.discard(op)
            stack.pop()
        elif any(b in active for b in missing):
            return {}
        else:
            active.add(op)
            stack += missing
    return depends


def guarded(initial):
    """Returns a copy of an initial value that works in any order.

    The copy reads the initial values of variables that are not initialized.
    Returns the same tensor if it does not depend on variables.
    """
    if not _depends(initial.op):
        return initial
    depends = _on_the_way(initial)
    copied = [op for op, does in depends.items()
              if does and op.type not in REFERENCE_OPS]
    if not copied:
        return initial
    graph = initial.graph
    known = {v.op: v for key in (GraphKeys.GLOBAL_VARIABLES,
                                 GraphKeys.LOCAL_VARIABLES)
             for v in graph.get_collection_ref(key) if hasattr(v, "op")}
    inputs, nodes, values = {}, [], set()
    for op in copied:
        node = protos.NodeDef()
        node.CopyFrom(op.node_def)
        # The copy needs no control inputs and no placement.
        node.input[:] = [i for i in node.input if not i.startswith("^")]
        node.attr.pop("_class", None)
        nodes.append(node)
        for x in op.inputs:
            if x.name in inputs or x.op in copied:
                continue
            variable = known.get(x.op) if x.op.type in REFERENCE_OPS else None
            inputs[x.name] = x if variable is None else (
                variable.initialized_value())
        # An op that forwarded a reference forwards a value now.
        first = op.inputs[0]
        if op.type.startswith("Ref") and (first.op in values or inputs.get(
                first.name, first) is not first):
            node.op = op.type[len("Ref"):]
            values.add(op)
    made, = import_graph_def(protos.GraphDef(node=nodes), inputs,
                             [initial.name], name="guarded")
    return made
