#!/usr/bin/env python3
"""Records the effect of TensorFlow's optimizers on variables, by reference and
by handle, and of the other ops that update them in place.

  record_variable_ops.py > variable_ops.txt  (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import call, on_variables, tf, types

R = np.random.RandomState(20190322)
# The scalars of each optimizer, in order, and its number of variables.
OPTIMISERS = {
    "GradientDescent": (1, "alpha delta"),
    "Momentum": (2, "lr grad momentum"),
    "Adagrad": (2, "lr grad"),
    "AdagradV2": (2, "lr epsilon grad"),
    "Adadelta": (3, "lr rho epsilon grad"),
    "RMSProp": (3, "lr rho momentum epsilon grad"),
    "CenteredRMSProp": (4, "lr rho momentum epsilon grad"),
    "Adam": (3, "beta1_power beta2_power lr beta1 beta2 epsilon grad"),
    "AdamWithAmsgrad": (4, "beta1_power beta2_power lr beta1 beta2 epsilon grad"),
    "AdaMax": (3, "beta1_power lr beta1 beta2 epsilon grad"),
    "Ftrl": (3, "grad lr l1 l2 lr_power"),
    "FtrlV2": (3, "grad lr l1 l2 l2_shrinkage lr_power"),
    "ProximalGradientDescent": (1, "alpha l1 l2 delta"),
    "ProximalAdagrad": (2, "lr l1 l2 grad"),
    "AddSign": (2, "lr alpha sign_decay beta grad"),
    "PowerSign": (2, "lr logbase sign_decay beta grad"),
    "AdagradDA": (3, "grad lr l1 l2 global_step"),
}
SCALARS = dict(alpha=.125, lr=.125, momentum=.75, epsilon=.0625, rho=.875,
               beta1_power=.75, beta2_power=.875, beta1=.5, beta2=.75, l1=.0625,
               l2=.03125, lr_power=-.5, l2_shrinkage=.015625, sign_decay=.5,
               beta=.75, logbase=1.5)
ATTRS = {"Momentum": [dict(use_nesterov=True)],
         "Adam": [dict(use_nesterov=True)],
         "Adagrad": [dict(update_slots=False)],
         "FtrlV2": [dict(multiply_linear_by_lr=True)]}
# Other values, for which some optimizers use another formula.
OTHER = {"Ftrl": dict(lr_power=-.75), "FtrlV2": dict(lr_power=-.75),
         "ProximalGradientDescent": dict(l1=0), "ProximalAdagrad": dict(l1=0),
         "AdagradDA": dict(l1=0)}
VAR = np.array([[1, -2], [-.75, .25], [0, 3]])
GRAD = np.array([[.5, -.25], [-1, .0625], [0, 2]])


def optimiser(prefix, name, dtype, scalars=SCALARS, **attrs):
    op = prefix + "Apply" + name
    number, arguments = OPTIMISERS[name]
    variables = [VAR.astype(dtype)] + [
        (np.abs(VAR) / 4 + i).astype(dtype) for i in range(1, number)]
    values = []
    for a in arguments.split():
        if a == "global_step":
            values.append(np.int64(3))
        elif a not in ("grad", "delta"):
            values.append(np.array(scalars[a], dtype))
        elif "Sparse" in prefix:
            values += [GRAD[:2].astype(dtype), np.int32([2, 0])]
        else:
            values.append(GRAD.astype(dtype))
    on_variables(op, variables, *values, **attrs)


for name, prefix in itertools.product(
        OPTIMISERS, ("", "Resource", "Sparse", "ResourceSparse")):
    op = prefix + "Apply" + name
    if not hasattr(tf.raw_ops, op):
        continue
    for dtype in types(op):
        optimiser(prefix, name, dtype)
    for attrs in ATTRS.get(name, []):
        optimiser(prefix, name, np.float64, **attrs)
    if name in OTHER:
        optimiser(prefix, name, np.float64, {**SCALARS, **OTHER[name]})


# ---- Rows and elements of variables
def x(dtype, *shape):
    t = tf.as_dtype(dtype)
    if t == tf.bool:
        return R.randint(0, 2, shape).astype(bool)
    a = np.asarray(R.randint(1, 9, shape))
    if t.is_complex:
        a = a + 1j * R.randint(-4, 5, shape)
    return a.astype(dtype)


def i32(*v):
    return np.array(v, np.int32)


for prefix, kind in itertools.product(
        ("Scatter", "ResourceScatter"),
        "Add Sub Mul Div Max Min Update".split()):
    op = prefix + kind
    for dtype in types(op, "T" if prefix == "Scatter" else "dtype"):
        on_variables(op, [x(dtype, 4, 2)], i32(2, 0, 2), x(dtype, 3, 2))
        on_variables(op, [x(dtype, 4)], np.int64([[1], [3]]), x(dtype))
    for rows, updates in ((i32(4), (1, 2)), (i32(-1), (1, 2)), (i32(0), (2, 2)),
                          (i32(), (0, 2))):
        on_variables(op, [x(np.float32, 4, 2)], rows, x(np.float32, *updates))
for prefix, kind in itertools.product(("ScatterNd", "ResourceScatterNd"),
                                      ("Add", "Sub", "Update")):
    op = prefix + kind
    for dtype in types(op):
        on_variables(op, [x(dtype, 3, 2)], i32([2, 0], [0, 1]), x(dtype, 2))
        on_variables(op, [x(dtype, 3, 2)], np.int64([[1], [1]]), x(dtype, 2, 2))
    for at in (i32([3, 0]), i32([0, -1]), i32([0, 0, 0])):
        on_variables(op, [x(np.float32, 3, 2)], at, x(np.float32, 1))
for dtype in types("ScatterNdNonAliasingAdd"):
    call("ScatterNdNonAliasingAdd", x(dtype, 3, 2), i32([2, 0], [2, 0]),
         x(dtype, 2))
for dtype in types("StridedSliceAssign"):
    for op in ("StridedSliceAssign", "ResourceStridedSliceAssign"):
        on_variables(op, [x(dtype, 4, 2)], i32(1, 0), i32(3, 1), i32(1, 1),
                     x(dtype, 2, 1))
        on_variables(op, [x(dtype, 4)], i32(3), i32(0), i32(-2), x(dtype, 2),
                     begin_mask=0)
        on_variables(op, [x(dtype, 4)], i32(1), i32(0), i32(1), x(dtype),
                     shrink_axis_mask=1)
for op, types_of in (("Assign", types("Assign")),
                     ("AssignAdd", types("AssignAdd")),
                     ("AssignSub", types("AssignSub")),
                     ("AssignVariableOp", types("AssignVariableOp", "dtype")),
                     ("AssignAddVariableOp",
                      types("AssignAddVariableOp", "dtype")),
                     ("AssignSubVariableOp",
                      types("AssignSubVariableOp", "dtype"))):
    for dtype in types_of:
        on_variables(op, [x(dtype, 2, 2)], x(dtype, 2, 2))
    on_variables(op, [x(np.float32, 2, 2)], x(np.float32, 2))
for dtype in types("ResourceGather", "dtype"):
    on_variables("ResourceGather", [x(dtype, 3, 2)], i32([2, 0], [0, 0]),
                 dtype=tf.as_dtype(dtype))
    on_variables("ResourceGatherNd", [x(dtype, 3, 2)], i32([2, 1], [0, 0]),
                 dtype=tf.as_dtype(dtype))
on_variables("ResourceGather", [x(np.float32, 2, 3)], i32([0, 2], [1, 1]),
             dtype=tf.float32, batch_dims=1)
for at in (3, -1):
    on_variables("ResourceGather", [x(np.float32, 3)], i32(at),
                 dtype=tf.float32)
    on_variables("ResourceGatherNd", [x(np.float32, 3)], i32([at]),
                 dtype=tf.float32)
for kind in (np.int32, np.int64):
    on_variables("CountUpTo", [kind(3)], limit=4)
    on_variables("CountUpTo", [kind(4)], limit=4)
    on_variables("ResourceCountUpTo", [kind(3)], limit=4, T=tf.as_dtype(kind))
    on_variables("ResourceCountUpTo", [kind(4)], limit=4, T=tf.as_dtype(kind))
for out in (tf.int32, tf.int64):
    on_variables("VariableShape", [x(np.float32, 2, 0, 3)], out_type=out)
on_variables("IsVariableInitialized", [x(np.float32, 2)])
on_variables("VarIsInitializedOp", [x(np.float32, 2)])
for dtype in types("ReadVariableOp", "dtype"):
    on_variables("ReadVariableOp", [x(dtype, 2)], dtype=tf.as_dtype(dtype))
