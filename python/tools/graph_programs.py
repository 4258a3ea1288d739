"""Programs in TensorFlow 1's names, for any library that has them.

Each takes such a module and gives (fetches, feeds): a list of tensors, and
arrays by placeholder. `compare_tensorflow.py` builds them by Sluice and by
TensorFlow.
"""

import numpy as np

PROGRAMS = {}
_rng = np.random.RandomState(7)
_A = _rng.randn(4, 3).astype(np.float32)
_B = _rng.randn(3, 5).astype(np.float32)
_IMAGE = _rng.randn(2, 8, 8, 3).astype(np.float32)
_SEQUENCE = _rng.randn(2, 5, 3).astype(np.float32)


def _program(fn):
    PROGRAMS[fn.__name__] = fn
    return fn


def _set_weights(tf, scale=0.1):
    """Assignments of reproducible values to all variables."""
    ops = []
    for v in sorted(tf.global_variables(), key=lambda v: v.op.name):
        shape = v.shape.as_list()
        n = int(np.prod(shape))
        values = np.sin(np.arange(n) * 1.7 + len(shape)).reshape(shape)
        ops.append(tf.assign(v, (scale * values).astype(
            v.dtype.base_dtype.as_numpy_dtype)))
    return tf.group(*ops, name="set_weights")


@_program
def arithmetic(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = (x + 1.0) * x / (2.0 - x) ** 2 - 3.0 * -x
    return [y, tf.floordiv(x, 0.3), tf.mod(x, 0.7), abs(x), x > 0.0,
            tf.maximum(x, tf.minimum(0.5, 2 * x))], {x: _A}


@_program
def elementwise(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    p = tf.abs(x) + 0.1
    return [tf.exp(x), tf.log(p), tf.sqrt(p), tf.rsqrt(p), tf.tanh(x),
            tf.sigmoid(x), tf.sin(x), tf.atan2(x, p), tf.erf(x), tf.lgamma(p),
            tf.square(x), tf.sign(x), tf.floor(x), tf.round(x),
            tf.log1p(p), tf.expm1(x), tf.pow(p, x)], {x: _A}


@_program
def reductions(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    return [tf.reduce_sum(x), tf.reduce_mean(x, 0),
            tf.reduce_max(x, [1], keepdims=True), tf.reduce_prod(x, -1),
            tf.reduce_logsumexp(x, 1), tf.reduce_any(x > 1, 0),
            tf.argmax(x, 1), tf.cumsum(x, 1, exclusive=True, reverse=True),
            tf.norm(x), tf.count_nonzero(x > 0)], {x: _A}


@_program
def products(tf):
    a = tf.placeholder(tf.float32, [None, 3], name="a")
    b = tf.constant(_B)
    c = tf.matmul(a, b)
    grads = tf.gradients(tf.reduce_sum(c * c), [a, b])
    return [c, tf.matmul(c, b, transpose_b=True), tf.tensordot(a, b, [[1], [0]])
            ] + grads, {a: _A}


@_program
def shapes(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    s = tf.shape(x)
    return [s, tf.reshape(x, [-1]), tf.reshape(x, tf.stack([s[1], s[0]])),
            tf.transpose(x), tf.expand_dims(x, 1), tf.size(x), tf.rank(x),
            tf.tile(x, [2, 1]), tf.zeros_like(x), tf.fill([2, s[1]], 7.0),
            tf.pad(x, [[1, 0], [0, 2]], constant_values=9.0),
            tf.reverse(x, [1]), tf.squeeze(x[:, None, :1])], {x: _A}


@_program
def slicing(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    return [x[1], x[:, 1], x[::-1, 1:], x[..., tf.newaxis], x[-2:, ::2],
            tf.slice(x, [1, 0], [2, -1]), tf.strided_slice(x, [0], [4], [2]),
            tf.gather(x, [2, 0, 2]), tf.gather_nd(x, [[0, 1], [3, 2]]),
            tf.boolean_mask(x, [True, False, True, True])], {x: _A}


@_program
def joins(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    parts = tf.split(x, [1, 2], 1) + tf.split(x, 2)
    return parts + [tf.concat([x, x], 1), tf.stack([x, 2 * x], 1)] + (
        tf.unstack(x, axis=1)) + [tf.one_hot([1, 3], 4), tf.where(
            x > 0, x, -x), tf.where(x > 0)], {x: _A}


@_program
def gradients_of_shapes(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.concat([x[1:], tf.tile(x[:1], [2, 1])], 0)
    y = tf.transpose(tf.pad(y, [[0, 1], [1, 0]])) * tf.reverse(
        tf.transpose(tf.pad(y, [[1, 0], [0, 1]])), [0])
    z = tf.gather(tf.reshape(y, [-1]), [3, 1, 4, 1, 5])
    return tf.gradients([y, tf.unstack(z)[2]], x), {x: _A}


@_program
def second_derivatives(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.reduce_sum(tf.tanh(x) * tf.exp(-x * x))
    first, = tf.gradients(y, x)
    second, = tf.gradients(first, x)
    return [first, second] + tf.hessians(tf.reduce_sum(x ** 3), [x]), {x: _A}


@_program
def sparse_gradients(tf):
    table = tf.get_variable("table", initializer=_A)
    ids = tf.placeholder(tf.int32, [None], name="ids")
    y = tf.nn.embedding_lookup(table, ids)
    grad, = tf.gradients(tf.reduce_sum(y * y), [table])
    return [y, grad.values, grad.indices,
            tf.convert_to_tensor(grad)], {ids: [3, 0, 3]}


@_program
def dense_layers(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    h = tf.layers.dense(x, 7, tf.nn.relu)
    y = tf.layers.dense(h, 2, name="out")
    set_weights = _set_weights(tf)
    with tf.control_dependencies([set_weights]):
        ready = tf.identity(1.0)
    return [ready, y] + tf.gradients(y, tf.trainable_variables()), {x: _A}


@_program
def training_by_gradient_descent(tf):
    return _training(tf, tf.train.GradientDescentOptimizer(0.1))


@_program
def training_by_momentum(tf):
    return _training(tf, tf.train.MomentumOptimizer(0.1, 0.9,
                                                    use_nesterov=True))


@_program
def training_by_adam(tf):
    return _training(tf, tf.train.AdamOptimizer(0.01))


@_program
def training_by_adagrad(tf):
    return _training(tf, tf.train.AdagradOptimizer(0.1))


@_program
def training_by_rmsprop(tf):
    return _training(tf, tf.train.RMSPropOptimizer(0.01, momentum=0.5))


def _training(tf, optimizer):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", initializer=_B)
    b = tf.Variable(tf.zeros([5]), name="b")
    loss = tf.reduce_mean(tf.squared_difference(tf.matmul(x, w) + b, 1.0))
    grads = optimizer.compute_gradients(loss)
    clipped, norm = tf.clip_by_global_norm([g for g, _ in grads], 1.0)
    train = optimizer.apply_gradients(
        zip(clipped, [v for _, v in grads]),
        tf.train.get_or_create_global_step())
    with tf.control_dependencies([train]):
        after = [v.read_value() for v in (w, b)]
    return [norm] + after, {x: _A}


@_program
def resource_variables(tf):
    v = tf.get_variable("v", initializer=_A, use_resource=True)
    with tf.control_dependencies([v.assign_add(tf.ones_like(v))]):
        read = v.read_value()
        grad, = tf.gradients(tf.reduce_sum(v * v), [v])
    return [read, grad], {}


@_program
def reference_variables(tf):
    v = tf.Variable(_A, name="v", use_resource=False)
    up = tf.assign_add(v, tf.ones_like(v))
    return [up * 2.0, tf.scatter_add(
        tf.Variable(_A, name="w", use_resource=False), [1, 1],
        tf.ones([2, 3]))], {}


@_program
def conditionals(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.cond(p, lambda: tf.exp(x), lambda: x * 2.0)
    z, w = tf.cond(tf.logical_not(p), lambda: (x, x + 1), lambda: (
        tf.square(x), y))
    return [y, z, w] + tf.gradients([y, z], x), {p: True, x: _A}


@_program
def nested_conditionals(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.cond(n > 0, lambda: tf.cond(n > 5, lambda: tf.sin(x),
                                       lambda: x * x), lambda: -x)
    z = tf.case([(tf.equal(n, 1), lambda: x), (tf.equal(n, 3), lambda: x * 3.0)
                 ], default=lambda: x * 9.0, exclusive=True)
    return [y, z] + tf.gradients(y + z, x), {n: 3, x: _A}


@_program
def counting(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    i, s = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i * i),
                         [0, 0])
    return [i, s], {n: 10}


@_program
def gradients_of_loops(tf):
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    n = tf.placeholder(tf.int32, [], name="n")
    _, y = tf.while_loop(
        lambda i, y: i < n,
        lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x))), [0, tf.eye(3)])
    return [y] + tf.gradients(y, x), {x: _A[:3], n: 4}


@_program
def gradients_of_nested_loops(tf):
    x = tf.placeholder(tf.float32, [3], name="x")

    def outer(i, y):
        _, z = tf.while_loop(lambda j, z: j <= i,
                             lambda j, z: (j + 1, tf.sin(z) * x), [0, y])
        return i + 1, z + x
    _, y = tf.while_loop(lambda i, y: i < 3, outer, [0, x])
    first, = tf.gradients(y, x)
    return [y, first], {x: _A[0]}


@_program
def conditionals_in_loops(tf):
    x = tf.placeholder(tf.float32, [3], name="x")
    _, y = tf.while_loop(
        lambda i, y: i < 5,
        lambda i, y: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x,
                                     lambda: y + tf.cos(y))), [0, x])
    return [y] + tf.gradients(y, x), {x: _A[0]}


@_program
def loops_with_growing_shapes(tf):
    x = tf.placeholder(tf.float32, [1, 3], name="x")
    _, y = tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y * 2.0], 0)),
        [0, x], shape_invariants=[tf.TensorShape([]),
                                  tf.TensorShape([None, 3])])
    return [y] + tf.gradients(y, x), {x: _A[:1]}


@_program
def second_derivatives_of_loops(tf):
    x = tf.placeholder(tf.float32, [], name="x")
    y = x
    for _ in range(2):
        y = tf.while_loop(lambda v: v < 50.0, lambda v: v * x * 1.5, [y])
        y, = tf.gradients(y * y, x)
        y = tf.identity(y) * 0.01
    return [y], {x: 2.0}


@_program
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
    return [y] + tf.gradients(y, x), {x: _A}


@_program
def scans(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    a = tf.scan(lambda acc, v: acc * 0.5 + v, x)
    b = tf.map_fn(lambda v: tf.reduce_sum(v) * v, x)
    c = tf.foldl(lambda acc, v: acc + v * v, x)
    d = tf.foldr(lambda acc, v: acc * 0.5 + v, x)
    return [a, b, c, d] + tf.gradients([a, b, c, d], x), {x: _A}


@_program
def convolutions(tf):
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    k = tf.constant(np.sin(np.arange(3 * 3 * 3 * 4)).reshape(
        3, 3, 3, 4).astype(np.float32))
    y = tf.nn.relu(tf.nn.conv2d(x, k, [1, 2, 2, 1], "SAME"))
    z = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    w = tf.nn.avg_pool(y, [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    d = tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "VALID")
    t = tf.nn.conv2d_transpose(y, k, [2, 8, 8, 3], [1, 2, 2, 1], "SAME")
    return [y, z, w, d, t] + tf.gradients([z, w, d, t], [x, k]), {x: _IMAGE}


@_program
def convolutional_layers(tf):
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    y = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu)
    y = tf.layers.max_pooling2d(y, 2, 2)
    y = tf.layers.flatten(tf.layers.average_pooling2d(y, 2, 2))
    y = tf.layers.dense(y, 3)
    with tf.control_dependencies([_set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, y] + tf.gradients(y, tf.trainable_variables()), {x: _IMAGE}


@_program
def batch_normalization(tf):
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    y = tf.layers.batch_normalization(x, training=True)
    z = tf.layers.batch_normalization(x, training=False)
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    w = tf.nn.batch_normalization(x, mean, variance, 0.1, 1.5, 1e-3)
    return [y, z, w] + tf.gradients([y * y, w * x], x), {x: _IMAGE}


@_program
def classification(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    a = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    b = tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.one_hot(labels, 3), logits=x)
    c = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.one_hot(labels, 3),
                                                logits=x)
    top = tf.nn.top_k(x, 2)
    return [a, b, c, tf.nn.softmax(x), tf.nn.log_softmax(x), top.values,
            top.indices, tf.nn.in_top_k(x, tf.cast(labels, tf.int32), 1)
            ] + tf.gradients([a, b, c], x), {x: _A, labels: [0, 2, 1, 1]}


@_program
def activations(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ys = [f(x) for f in (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu,
                         tf.nn.softplus, tf.nn.softsign, tf.nn.leaky_relu,
                         tf.nn.swish)]
    return ys + tf.gradients(ys, x), {x: _A}


@_program
def lstm(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    cell = tf.nn.rnn_cell.LSTMCell(4)
    y, state = tf.nn.dynamic_rnn(cell, x, sequence_length=[5, 3],
                                 dtype=tf.float32)
    with tf.control_dependencies([_set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, y, state.c, state.h] + tf.gradients(
        y, [x] + tf.trainable_variables()), {x: _SEQUENCE}


@_program
def bidirectional_gru(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    cells = [tf.nn.rnn_cell.GRUCell(4) for _ in range(2)]
    (a, b), _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, [2, 5],
                                                dtype=tf.float32)
    with tf.control_dependencies([_set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, a, b] + tf.gradients([a, b], x), {x: _SEQUENCE}


@_program
def stacked_static_rnn(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    cell = tf.nn.rnn_cell.MultiRNNCell(
        [tf.nn.rnn_cell.BasicRNNCell(4), tf.nn.rnn_cell.BasicLSTMCell(3)])
    ys, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
    with tf.control_dependencies([_set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, ys[-1]] + tf.gradients(ys[-1], x), {x: _SEQUENCE}


@_program
def element_types(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    types = [tf.float64, tf.int32, tf.int64, tf.uint8, tf.int16, tf.bool,
             tf.complex64, tf.half]
    big = tf.cast(tf.round(tf.abs(x) * 10), tf.int64)
    return [tf.cast(tf.abs(x) * 10, t) for t in types] + [
        big // 3, big % 4, tf.cast(big, tf.float64) / 7.0,
        tf.bitwise.bitwise_xor(big, tf.constant(5, tf.int64)),
        tf.saturate_cast(x * 1000, tf.int8)], {x: _A}


@_program
def strings(tf):
    s = tf.placeholder(tf.string, [None], name="s")
    return [tf.string_join([s, s], "-"), tf.strings.length(s),
            tf.string_to_hash_bucket_fast(s, 1000), tf.as_string([1, 2]),
            tf.substr(s, 0, 2), tf.equal(s, "one"),
            tf.regex_replace(s, "e", "E")], {s: ["one", "three", ""]}


@_program
def segments(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ids = tf.constant([0, 0, 2, 2])
    ys = [tf.segment_sum(x, ids), tf.segment_mean(x, ids),
          tf.unsorted_segment_sum(x, [2, 0, 2, 1], 3)]
    parts = tf.dynamic_partition(x, [1, 0, 1, 0], 2)
    back = tf.dynamic_stitch([[1, 3], [0, 2]], parts)
    return ys + parts + [back] + tf.gradients(ys + [back], x) + [
        tf.unique([3, 1, 3])[0], tf.invert_permutation([2, 0, 1]),
        tf.bincount([1, 1, 3])], {x: _A}


@_program
def sparse_tensors(tf):
    s = tf.SparseTensor([[0, 1], [2, 0]], [2.0, 3.0], [3, 4])
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.sparse_tensor_dense_matmul(s, x)
    return [y, tf.sparse_tensor_to_dense(s), tf.sparse_reduce_sum(s, 1)
            ] + tf.gradients(y, x), {x: _A}


@_program
def linear_algebra(tf):
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    a = tf.matmul(x, x, transpose_b=True) + tf.eye(3)
    l = tf.cholesky(a)
    i = tf.matrix_inverse(a)
    d = tf.matrix_determinant(a)
    return [l, i, d, tf.matrix_solve(a, x), tf.matrix_diag_part(a),
            tf.matrix_band_part(a, 0, -1), tf.trace(a)] + tf.gradients(
                [i, d], x), {x: _A[:3]}


@_program
def control_dependencies(tf):
    v = tf.Variable(1.0, name="v", use_resource=False)
    with tf.control_dependencies([v.assign(2.0)]):
        with tf.control_dependencies([v.assign_add(3.0)]):
            y = v.read_value() * 10.0
    return [y, tf.tuple([y, y + 1.0])[1]], {}


@_program
def checks(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    with tf.control_dependencies([
            tf.assert_less(x, 100.0), tf.assert_rank(x, 2),
            tf.Assert(tf.reduce_all(x > -100.0), [x])]):
        y = tf.identity(x)
    return [tf.check_numerics(y, "bad"), tf.stop_gradient(y)], {x: _A}


@_program
def gradient_options(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    h = tf.tanh(x)
    y = h * tf.stop_gradient(h) + x
    return tf.gradients(y, [x, h], grad_ys=x * 2.0) + tf.gradients(
        y, x, stop_gradients=[h]) + tf.gradients(
            y, [x], unconnected_gradients=tf.UnconnectedGradients.ZERO), {x: _A}


@_program
def clipping(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ys = [tf.clip_by_value(x, -0.5, 0.7), tf.clip_by_norm(x, 1.0),
          tf.clip_by_norm(x, 1.0, axes=[1]),
          tf.nn.l2_normalize(x, 1)] + list(
              tf.clip_by_global_norm([x, 2 * x], 1.5)[0])
    return ys + tf.gradients(ys, x), {x: _A}


@_program
def losses(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    labels = tf.constant(np.abs(np.sin(_A)))
    tf.losses.mean_squared_error(labels, x)
    tf.losses.huber_loss(labels, x, weights=[[1.0], [0.0], [2.0], [1.0]])
    tf.losses.absolute_difference(labels, x, weights=0.5)
    total = tf.losses.get_total_loss()
    return [total] + tf.gradients(total, x), {x: _A}


@_program
def learning_rates(tf):
    step = tf.placeholder(tf.int32, [], name="step")
    return [tf.train.exponential_decay(0.1, step, 10, 0.5),
            tf.train.exponential_decay(0.1, step, 10, 0.5, staircase=True),
            tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.1]),
            tf.train.polynomial_decay(0.1, step, 100),
            tf.train.cosine_decay(0.1, step, 100)], {step: 17}


@_program
def moving_averages(tf):
    v = tf.Variable(_A, name="v", use_resource=True)
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([v.assign_add(tf.ones_like(v))]):
        op = average.apply([v])
    with tf.control_dependencies([op]):
        return [average.average(v).read_value()], {}


@_program
def traced_functions(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    w = tf.Variable(_B, use_resource=True)

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
    return [made["sum"], y] + grads, {x: _A}
