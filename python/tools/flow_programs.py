"""Programs with TensorFlow 1's control flow, recurrence and functions.

See `program_kit.py`.
"""

import numpy as np

from program_kit import A, B, SEQUENCE, program, set_weights


@program
def conditionals(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.cond(p, lambda: tf.exp(x), lambda: x * 2.0)
    z, w = tf.cond(tf.logical_not(p), lambda: (x, x + 1), lambda: (
        tf.square(x), y))
    return [y, z, w] + tf.gradients([y, z], x), {p: True, x: A}


@program
def nested_conditionals(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.cond(n > 0, lambda: tf.cond(n > 5, lambda: tf.sin(x),
                                       lambda: x * x), lambda: -x)
    z = tf.case([(tf.equal(n, 1), lambda: x), (tf.equal(n, 3), lambda: x * 3.0)
                 ], default=lambda: x * 9.0, exclusive=True)
    return [y, z] + tf.gradients(y + z, x), {n: 3, x: A}


@program
def counting(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    i, s = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i * i),
                         [0, 0])
    return [i, s], {n: 10}


@program
def gradients_of_loops(tf):
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    n = tf.placeholder(tf.int32, [], name="n")
    _, y = tf.while_loop(
        lambda i, y: i < n,
        lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x))), [0, tf.eye(3)])
    return [y] + tf.gradients(y, x), {x: A[:3], n: 4}


@program
def gradients_of_nested_loops(tf):
    x = tf.placeholder(tf.float32, [3], name="x")

    def outer(i, y):
        _, z = tf.while_loop(lambda j, z: j <= i,
                             lambda j, z: (j + 1, tf.sin(z) * x), [0, y])
        return i + 1, z + x
    _, y = tf.while_loop(lambda i, y: i < 3, outer, [0, x])
    first, = tf.gradients(y, x)
    return [y, first], {x: A[0]}


@program
def conditionals_in_loops(tf):
    x = tf.placeholder(tf.float32, [3], name="x")
    _, y = tf.while_loop(
        lambda i, y: i < 5,
        lambda i, y: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x,
                                     lambda: y + tf.cos(y))), [0, x])
    return [y] + tf.gradients(y, x), {x: A[0]}


@program
def loops_with_growing_shapes(tf):
    x = tf.placeholder(tf.float32, [1, 3], name="x")
    _, y = tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y * 2.0], 0)),
        [0, x], shape_invariants=[tf.TensorShape([]),
                                  tf.TensorShape([None, 3])])
    return [y] + tf.gradients(y, x), {x: A[:1]}


@program
def second_derivatives_of_loops(tf):
    x = tf.placeholder(tf.float32, [], name="x")
    y = x
    for _ in range(2):
        y = tf.while_loop(lambda v: v < 50.0, lambda v: v * x * 1.5, [y])
        y, = tf.gradients(y * y, x)
        y = tf.identity(y) * 0.01
    return [y], {x: 2.0}


@program
def arrays(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    n = tf.shape(x)[0]
    given = tf.TensorArray(tf.float32, n, clear_after_read=False).unstack(x)
    made = tf.TensorArray(tf.float32, n)
    _, made = tf.while_loop(
        lambda i, a: i < n,
        lambda i, a: (i + 1, a.write(i, given.read(i) * given.read(n - 1 - i))),
        [0, made])
    y = made.stack()
    return [y] + tf.gradients(y, x), {x: A}


@program
def scans(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    a = tf.scan(lambda acc, v: acc * 0.5 + v, x)
    b = tf.map_fn(lambda v: tf.reduce_sum(v) * v, x)
    c = tf.foldl(lambda acc, v: acc + v * v, x)
    d = tf.foldr(lambda acc, v: acc * 0.5 + v, x)
    return [a, b, c, d] + tf.gradients([a, b, c, d], x), {x: A}


@program
def lstm(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    cell = tf.nn.rnn_cell.LSTMCell(4)
    y, state = tf.nn.dynamic_rnn(cell, x, sequence_length=[5, 3],
                                 dtype=tf.float32)
    with tf.control_dependencies([set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, y, state.c, state.h] + tf.gradients(
        y, [x] + tf.trainable_variables()), {x: SEQUENCE}


@program
def bidirectional_gru(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    cells = [tf.nn.rnn_cell.GRUCell(4) for _ in range(2)]
    (a, b), _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, [2, 5],
                                                dtype=tf.float32)
    with tf.control_dependencies([set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, a, b] + tf.gradients([a, b], x), {x: SEQUENCE}


@program
def stacked_static_rnn(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    cell = tf.nn.rnn_cell.MultiRNNCell(
        [tf.nn.rnn_cell.BasicRNNCell(4), tf.nn.rnn_cell.BasicLSTMCell(3)])
    ys, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
    with tf.control_dependencies([set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, ys[-1]] + tf.gradients(ys[-1], x), {x: SEQUENCE}


@program
def control_dependencies(tf):
    v = tf.Variable(1.0, name="v", use_resource=False)
    with tf.control_dependencies([v.assign(2.0)]):
        with tf.control_dependencies([v.assign_add(3.0)]):
            y = v.read_value() * 10.0
    return [y, tf.tuple([y, y + 1.0])[1]], {}


@program
def traced_functions(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    w = tf.Variable(B, use_resource=True)

    @tf.function
    def layer(x, scale):
        h = tf.nn.relu(tf.matmul(x, w)) * scale
        return {"h": h, "sum": tf.reduce_sum(h, 1)}

    @tf.function
    def repeated(n, y):
        return tf.while_loop(lambda i, _: i < n,
                             lambda i, y: (i + 1, tf.tanh(y) + 1.0), (0, y))[1]

    made = layer(x, 2.0)
    y = repeated(tf.constant(3), made["h"])
    grads = tf.gradients([y, made["sum"]], [x, w])
    return [made["sum"], y] + grads, {x: A}


@program
def strings_in_loops(tf):
    words = tf.placeholder(tf.string, [None], name="words")
    n = tf.shape(words)[0]
    given = tf.TensorArray(tf.string, n).unstack(words)
    made = tf.TensorArray(tf.string, n)
    _, made, line = tf.while_loop(
        lambda i, a, s: i < n,
        lambda i, a, s: (i + 1, a.write(i, tf.strings.join(
            [given.read(i), tf.as_string(i)], "-")), s + "."),
        [0, made, tf.constant("")])
    longest = tf.cond(n > 2, lambda: words[2], lambda: tf.constant("none"))
    return [made.stack(), line, longest], {words: np.array(
        [b"one", b"", b"three\0four", b"\xff"], object)}


@program
def variables_in_loops(tf):
    w = tf.get_variable("w", [3, 3], use_resource=True)
    count = tf.Variable(0, name="count", use_resource=True)
    x = tf.placeholder(tf.float32, [2, 3], name="x")

    def body(i, h):
        with tf.control_dependencies([count.assign_add(i)]):
            h = tf.tanh(tf.matmul(h, w))
        return i + 1, tf.cond(i > 1, lambda: h * tf.reduce_sum(w), lambda: h)
    _, y = tf.while_loop(lambda i, _: i < 4, body, [0, x])
    grads = tf.gradients(y, [w, x])
    set_weights(tf, 0.5)
    with tf.control_dependencies([y]):
        return [y, count.read_value()] + grads, {x: A[:2]}


@program
def references_in_loops(tf):
    w = tf.Variable(A[:3], name="w", use_resource=False)
    total = tf.Variable(0.0, name="total", use_resource=False)
    x = tf.placeholder(tf.float32, [2, 3], name="x")

    def body(i, h):
        h = tf.sin(tf.matmul(h, w))
        with tf.control_dependencies([tf.assign_add(
                total, tf.reduce_sum(h))]):
            return i + 1, tf.identity(h)
    _, y = tf.while_loop(lambda i, _: i < 3, body, [0, x])
    with tf.control_dependencies([y]):
        seen = tf.identity(total.read_value())
    return [y, seen] + tf.gradients(y, [w, x]), {x: A[:2]}


@program
def defined_functions(tf):
    from_function = _defun(tf)
    x = tf.placeholder(tf.float32, [4, 3], name="x")

    @from_function(tf.float32, tf.float32)
    def inner(a, b):
        return tf.tanh(a) * b + 1.0

    @from_function(tf.float32)
    def outer(a):
        b = inner(a, a * 0.5)
        return inner(b, a), tf.reduce_sum(b, 1)

    y, s = outer(x)
    z = tf.while_loop(lambda i, _: i < 3,
                      lambda i, z: (i + 1, inner(z, x)), [0, y])[1]
    w = tf.cond(s[0] > 0.0, lambda: inner(x, x), lambda: x)
    return [y, s, z, w] + tf.gradients([y, s, w], x), {x: A}


def _defun(tf):
    if hasattr(tf, "Defun"):
        return tf.Defun
    from tensorflow.python.framework import function
    return function.Defun


@program
def defined_gradients(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")

    @_defun(tf)(tf.float32, tf.float32)
    def gradient(v, g):
        return g * 3.0 * v

    @_defun(tf)(tf.float32, grad_func=gradient)
    def square(v):
        return v * v
    y = square(x)
    return [y] + tf.gradients(y, x), {x: A}


@program
def custom_gradients(tf):
    @tf.custom_gradient
    def clipped(v):
        def grad(g):
            return tf.clip_by_value(g, -0.2, 0.2)
        return tf.identity(v * 3.0), grad
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = clipped(x) * x
    return [y] + tf.gradients(y, x), {x: A}


@program
def functions_in_functions(tf):
    w = tf.Variable(A[:3], use_resource=True, name="w")
    x = tf.placeholder(tf.float32, [4, 3], name="x")

    @tf.function
    def inner(v):
        return tf.nn.softmax(tf.matmul(v, w))

    @tf.function
    def outer(v, n):
        out = tf.while_loop(lambda i, _: i < n,
                            lambda i, v: (i + 1, inner(v) + v), (0, v))[1]
        return tf.cond(tf.reduce_sum(out) > 0.0, lambda: inner(out),
                       lambda: out)
    y = outer(x, tf.constant(2))
    z = tf.map_fn(lambda row: inner(row[tf.newaxis])[0], x)
    return [y, z] + tf.gradients([y * y, z * z], [x, w]), {x: A}


@program
def functions_that_assign(tf):
    v = tf.Variable(1.0, use_resource=True, name="v")

    @tf.function
    def step(x):
        v.assign_add(x)
        v.assign(v * 2.0)
        return v.read_value() + x
    return [step(tf.constant(3.0))], {}


@program
def conditionals_of_state(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.Variable(A, name="v", use_resource=True)
    w = tf.Variable(2.0, name="w", use_resource=True)
    done = tf.cond(p, lambda: tf.group(v.assign_add(v * w), w.assign(5.0)),
                   lambda: tf.no_op())
    y = tf.cond(p, lambda: tf.reduce_sum(v * w), lambda: 0.0)
    grads = tf.gradients(y, [v, w])
    with tf.control_dependencies([done] + [y] + grads):
        return [w.read_value()], {p: True}


@program
def gradients_of_conditionals_of_slices(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    ids = tf.placeholder(tf.int32, [3], name="ids")
    table = tf.Variable(A, name="table", use_resource=True)
    y = tf.cond(p, lambda: tf.gather(table, ids),
                lambda: tf.gather(table, ids + 1) * 2.0)
    z = tf.while_loop(lambda i, _: i < 3,
                      lambda i, s: (i + 1, s + tf.reduce_sum(
                          tf.gather(table, ids[i]))), [0, 0.0])[1]
    return [y, z] + [tf.convert_to_tensor(g) for g in tf.gradients(
        [y * y, z * z], [table])], {p: False, ids: np.array([0, 2, 0])}


@program
def switches_of_many_branches(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.switch_case(n, {2: lambda: x * x, 0: lambda: x, 1: lambda: x + 1.0},
                       default=lambda: tf.sin(x))
    z = tf.switch_case(n - 1, [lambda: x * 2.0, lambda: tf.exp(x)])
    return [y, z] + tf.gradients([y, z], x), {n: 2, x: A}


@program
def loops_in_conditionals(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    x = tf.placeholder(tf.float32, [3], name="x")

    def loop():
        def body(i, y):
            y = tf.cond(tf.equal(i % 2, 0), lambda: tf.while_loop(
                lambda j, _: j < i, lambda j, y: (j + 1, tf.sin(y) * x),
                [0, y])[1], lambda: y * 1.1)
            return i + 1, y
        return tf.while_loop(lambda i, _: i < n, body, [0, x])[1]
    y = tf.cond(n > 2, loop, lambda: x * 7.0)
    return [y] + tf.gradients(y, x), {n: 5, x: A[0]}


@program
def loops_of_structures(tf):
    x = tf.placeholder(tf.float32, [3], name="x")
    start = {"a": x, "b": (tf.constant(0), [x * 2.0])}
    out = tf.while_loop(
        lambda s: s["b"][0] < 4,
        lambda s: {"a": s["a"] * 0.5 + s["b"][1][0],
                   "b": (s["b"][0] + 1, [tf.cos(s["a"])])},
        [start], maximum_iterations=3, parallel_iterations=1)
    out = out[0] if isinstance(out, (list, tuple)) else out
    flat = [out["a"], out["b"][0], out["b"][1][0]]
    return flat + tf.gradients([flat[0], flat[2]], x), {x: A[0]}


@program
def loops_that_capture_much(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.constant(B)
    ys = tf.map_fn(lambda v: (tf.reduce_sum(v), v[tf.newaxis] @ w),
                   x, dtype=(tf.float32, tf.float32), parallel_iterations=3)
    both = tf.map_fn(lambda v: v[0] * v[1], (x, x + 1.0), dtype=tf.float32)
    nested = tf.map_fn(lambda v: tf.map_fn(lambda e: e * v[0], v), x)
    turned = tf.scan(lambda a, v: (a[0] + v, a[1] * v), x,
                     initializer=(tf.zeros([3]), tf.ones([3])), reverse=True)
    outs = list(ys) + [both, nested] + list(turned)
    return outs + tf.gradients(outs, x), {x: A}


@program
def arrays_of_many_uses(tf):
    x = tf.placeholder(tf.float32, [6, 2], name="x")
    a = tf.TensorArray(tf.float32, 3, infer_shape=False).split(x, [1, 2, 3])
    b = tf.TensorArray(tf.float32, 6, element_shape=[2],
                       clear_after_read=False).scatter(
        [5, 0, 1, 2, 3, 4], x)
    c = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)
    c = c.write(0, x[:1]).write(2, x[1:3]).write(1, x[3:])
    d = tf.cond(x[0, 0] > 100.0, lambda: b.gather([0]),
                lambda: b.gather([5, 1]))
    ys = [a.concat(), b.gather([2, 3, 2]), c.concat(), d, c.size()]
    return ys + tf.gradients(ys[:4], x), {x: A.reshape(6, 2)}


@program
def arrays_in_nested_loops(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")

    def row(i, rows):
        cells = tf.TensorArray(tf.float32, 3, element_shape=[])
        _, cells = tf.while_loop(
            lambda j, _: j < 3,
            lambda j, c: (j + 1, c.write(j, tf.sin(x[i, j]) * x[i, 2 - j])),
            [0, cells])
        return i + 1, rows.write(i, cells.stack())
    _, rows = tf.while_loop(lambda i, _: i < 4, row, [
        0, tf.TensorArray(tf.float32, 4)])
    y = rows.stack()
    return [y] + tf.gradients(y * y, x), {x: A}


@program
def raw_recurrence(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    length = tf.placeholder(tf.int32, [2], name="length")
    cell = tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True, num_proj=3)
    given = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))

    def loop_fn(time, output, state, _):
        done = time >= length
        following = tf.cond(tf.reduce_all(done), lambda: tf.zeros([2, 3]),
                            lambda: given.read(time))
        if output is None:
            return done, following, cell.zero_state(2, tf.float32), None, None
        return done, following, state, output, None
    outs, state, _ = tf.nn.raw_rnn(cell, loop_fn)
    y = tf.transpose(outs.stack(), [1, 0, 2])
    set_weights(tf)
    return [y, state.c, state.h] + tf.gradients(y, [x] + (
        tf.trainable_variables())), {
            x: SEQUENCE, length: np.array([3, 5])}


@program
def wrapped_cells(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    length = tf.placeholder(tf.int32, [2], name="length")
    cell = tf.nn.rnn_cell.MultiRNNCell([
        tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(3), 1.0),
        tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.BasicRNNCell(3))])
    y, state = tf.nn.dynamic_rnn(cell, x, length, dtype=tf.float32)
    set_weights(tf)
    return [y] + list(state) + tf.gradients([y, state[1]], x), {
        x: SEQUENCE, length: np.array([2, 5])}
