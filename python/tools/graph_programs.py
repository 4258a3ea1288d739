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


@_program
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


@_program
def string_functions(tf):
    words = tf.placeholder(tf.string, [None], name="words")
    numbers = tf.placeholder(tf.string, [2], name="numbers")
    parts = tf.string_split(words, " ")
    return [tf.string_to_hash_bucket_fast(words, 1000),
            tf.strings.length(words), tf.substr(words, 1, 2),
            tf.regex_replace(words, "[aeiou]+", "*"),
            tf.string_to_number(numbers), tf.strings.lower(words),
            tf.reduce_join(words, 0, separator="+"),
            tf.sparse_tensor_to_dense(parts, ""),
            tf.as_string(tf.constant([1.5, -2.0]), precision=2),
            tf.encode_base64(words), tf.decode_raw(words[:1], tf.uint8),
            tf.strings.strip(words), tf.equal(words, "the fox")], {
                words: np.array([b"the fox", b" jumps over a", b"Dog"], object),
                numbers: np.array([b"1.25", b"-3e2"], object)}


@_program
def sparse_products(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    values = tf.placeholder(tf.float32, [4], name="values")
    s = tf.SparseTensor([[0, 1], [1, 0], [1, 3], [2, 2]], values, [3, 4])
    y = tf.sparse_tensor_dense_matmul(s, x)
    z = tf.sparse_reduce_sum(s, 1)
    dense = tf.sparse_tensor_to_dense(tf.sparse_add(s, s))
    soft = tf.sparse_softmax(s).values
    joined = tf.sparse_concat(0, [s, s])
    parts = tf.sparse_split(sp_input=s, num_split=2, axis=1)
    turned = tf.sparse_transpose(tf.sparse_reorder(s))
    return ([y, z, dense, soft, joined.indices, parts[1].values,
             turned.indices, turned.values,
             tf.sparse_tensor_to_dense(tf.sparse_reshape(s, [2, 6]))]
            + tf.gradients([y, z, dense, soft], [x, values])), {
                x: _A, values: _A[0:4, 0]}


@_program
def sparse_embeddings(tf):
    table = tf.get_variable("table", [6, 3])
    ids = tf.placeholder(tf.int64, [5], name="ids")
    weights = tf.placeholder(tf.float32, [5], name="weights")
    where = [[0, 0], [0, 1], [2, 0], [2, 2], [3, 0]]
    sp_ids = tf.SparseTensor(where, ids, [4, 3])
    sp_weights = tf.SparseTensor(where, weights, [4, 3])
    ys = [tf.nn.embedding_lookup_sparse(table, sp_ids, sp_weights,
                                        combiner=c)
          for c in ("sum", "mean", "sqrtn")]
    ys.append(tf.nn.embedding_lookup_sparse(table, sp_ids, None,
                                            combiner="mean"))
    grad, = tf.gradients(ys, table)
    _set_weights(tf)
    return ys + [grad] + tf.gradients(ys, weights), {
        ids: np.array([0, 5, 2, 2, 1]), weights: np.arange(5) * 0.5 + 0.1}


@_program
def partitioned_tables(tf):
    tables = tf.get_variable("tables", [7, 2],
                             partitioner=tf.fixed_size_partitioner(3))
    ids = tf.placeholder(tf.int32, [4], name="ids")
    y = tf.nn.embedding_lookup(tables, ids, partition_strategy="div")
    _set_weights(tf)
    parts = list(tables)
    grads = [tf.convert_to_tensor(g) for g in tf.gradients(y, parts)]
    return [y, tf.convert_to_tensor(tables)] + grads, {
        ids: np.array([0, 6, 3, 3])}


@_program
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
    _set_weights(tf, 0.5)
    with tf.control_dependencies([y]):
        return [y, count.read_value()] + grads, {x: _A[:2]}


@_program
def references_in_loops(tf):
    w = tf.Variable(_A[:3], name="w", use_resource=False)
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
    return [y, seen] + tf.gradients(y, [w, x]), {x: _A[:2]}


@_program
def variables_of_many_updates(tf):
    r = tf.Variable(_A, name="r", use_resource=True)
    v = tf.Variable(_A, name="v", use_resource=False)
    grow = tf.Variable([1.0, 2.0], name="grow", use_resource=True,
                       validate_shape=False)
    ones = np.ones([2, 3], np.float32)
    ups = [tf.scatter_add(r, [0, 2], ones), tf.scatter_sub(v, [3, 1], ones)]
    with tf.control_dependencies(ups):
        more = [tf.scatter_update(v, [0], ones[:1] * 7.0),
                tf.scatter_nd_update(v, [[3, 2]], [9.0]),
                r[1:3, 0].assign([5.0, 6.0]),
                tf.scatter_mul(r, [3], ones[:1] * 2.0)]
    with tf.control_dependencies(more):
        return [r.read_value(), v.read_value() + 0.0,
                tf.gather(r, [3, 1]), grow.read_value()], {}


@_program
def initializers_that_read(tf):
    a = tf.Variable(tf.constant(_A), name="a")
    b = tf.Variable(a.initialized_value() * 2.0, name="b")
    with tf.variable_scope("scope", use_resource=True):
        c = tf.get_variable("c", initializer=tf.constant(3.0))
        with tf.variable_scope("inner", reuse=tf.AUTO_REUSE):
            d = tf.get_variable("d", [2], initializer=tf.ones_initializer())
            d = tf.get_variable("d", [2])
    return [b + c, d * 1.0], {}


@_program
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
    return [y, s, z, w] + tf.gradients([y, s, w], x), {x: _A}


def _defun(tf):
    if hasattr(tf, "Defun"):
        return tf.Defun
    from tensorflow.python.framework import function
    return function.Defun


@_program
def defined_gradients(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")

    @_defun(tf)(tf.float32, tf.float32)
    def gradient(v, g):
        return g * 3.0 * v

    @_defun(tf)(tf.float32, grad_func=gradient)
    def square(v):
        return v * v
    y = square(x)
    return [y] + tf.gradients(y, x), {x: _A}


@_program
def custom_gradients(tf):
    @tf.custom_gradient
    def clipped(v):
        def grad(g):
            return tf.clip_by_value(g, -0.2, 0.2)
        return tf.identity(v * 3.0), grad
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = clipped(x) * x
    return [y] + tf.gradients(y, x), {x: _A}


@_program
def functions_in_functions(tf):
    w = tf.Variable(_A[:3], use_resource=True, name="w")
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
    return [y, z] + tf.gradients([y * y, z * z], [x, w]), {x: _A}


@_program
def functions_that_assign(tf):
    v = tf.Variable(1.0, use_resource=True, name="v")

    @tf.function
    def step(x):
        v.assign_add(x)
        v.assign(v * 2.0)
        return v.read_value() + x
    return [step(tf.constant(3.0))], {}


@_program
def conditionals_of_state(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.Variable(_A, name="v", use_resource=True)
    w = tf.Variable(2.0, name="w", use_resource=True)
    done = tf.cond(p, lambda: tf.group(v.assign_add(v * w), w.assign(5.0)),
                   lambda: tf.no_op())
    y = tf.cond(p, lambda: tf.reduce_sum(v * w), lambda: 0.0)
    grads = tf.gradients(y, [v, w])
    with tf.control_dependencies([done] + [y] + grads):
        return [w.read_value()], {p: True}


@_program
def gradients_of_conditionals_of_slices(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    ids = tf.placeholder(tf.int32, [3], name="ids")
    table = tf.Variable(_A, name="table", use_resource=True)
    y = tf.cond(p, lambda: tf.gather(table, ids),
                lambda: tf.gather(table, ids + 1) * 2.0)
    z = tf.while_loop(lambda i, _: i < 3,
                      lambda i, s: (i + 1, s + tf.reduce_sum(
                          tf.gather(table, ids[i]))), [0, 0.0])[1]
    return [y, z] + [tf.convert_to_tensor(g) for g in tf.gradients(
        [y * y, z * z], [table])], {p: False, ids: np.array([0, 2, 0])}


@_program
def switches_of_many_branches(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.switch_case(n, {2: lambda: x * x, 0: lambda: x, 1: lambda: x + 1.0},
                       default=lambda: tf.sin(x))
    z = tf.switch_case(n - 1, [lambda: x * 2.0, lambda: tf.exp(x)])
    return [y, z] + tf.gradients([y, z], x), {n: 2, x: _A}


@_program
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
    return [y] + tf.gradients(y, x), {n: 5, x: _A[0]}


@_program
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
    return flat + tf.gradients([flat[0], flat[2]], x), {x: _A[0]}


@_program
def loops_that_capture_much(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.constant(_B)
    ys = tf.map_fn(lambda v: (tf.reduce_sum(v), v[tf.newaxis] @ w),
                   x, dtype=(tf.float32, tf.float32), parallel_iterations=3)
    both = tf.map_fn(lambda v: v[0] * v[1], (x, x + 1.0), dtype=tf.float32)
    nested = tf.map_fn(lambda v: tf.map_fn(lambda e: e * v[0], v), x)
    turned = tf.scan(lambda a, v: (a[0] + v, a[1] * v), x,
                     initializer=(tf.zeros([3]), tf.ones([3])), reverse=True)
    outs = list(ys) + [both, nested] + list(turned)
    return outs + tf.gradients(outs, x), {x: _A}


@_program
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
    return ys + tf.gradients(ys[:4], x), {x: _A.reshape(6, 2)}


@_program
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
    return [y] + tf.gradients(y * y, x), {x: _A}


@_program
def hessians(tf):
    x = tf.placeholder(tf.float32, [3], name="x")
    y = tf.reduce_sum(tf.sin(x) * x[::-1] ** 2)
    return tf.hessians(y, x) + tf.gradients(
        tf.gradients(y, x)[0] ** 2, x), {x: _A[0]}


@_program
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
    _set_weights(tf)
    return [y, state.c, state.h] + tf.gradients(y, [x] + (
        tf.trainable_variables())), {
            x: _SEQUENCE, length: np.array([3, 5])}


@_program
def wrapped_cells(tf):
    x = tf.placeholder(tf.float32, [2, 5, 3], name="x")
    length = tf.placeholder(tf.int32, [2], name="length")
    cell = tf.nn.rnn_cell.MultiRNNCell([
        tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(3), 1.0),
        tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.BasicRNNCell(3))])
    y, state = tf.nn.dynamic_rnn(cell, x, length, dtype=tf.float32)
    _set_weights(tf)
    return [y] + list(state) + tf.gradients([y, state[1]], x), {
        x: _SEQUENCE, length: np.array([2, 5])}


@_program
def devices_and_colocation(tf):
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        v = tf.Variable(_B, name="v")
    with tf.device(lambda op: "/cpu:0"), tf.colocate_with(v.op):
        y = tf.matmul(x, v)
    with tf.control_dependencies([y.op, v.initializer]):
        z = tf.identity(y)
    return [z] + tf.gradients(z, v, colocate_gradients_with_ops=True), {x: _A}


@_program
def defaults_and_partial_shapes(tf):
    x = tf.placeholder_with_default(_A, [None, 3], name="x")
    y = tf.placeholder(tf.float32, name="y")
    n = tf.placeholder_with_default(2, [], name="n")
    z = tf.reshape(y, [n, -1])
    return [x * 2.0, z, tf.shape(z), tf.rank(y), tf.size(y),
            tf.fill([n, 2], 7.0), tf.zeros_like(y), tf.tile(x, [n, 1]),
            tf.broadcast_to(x[0], [n, 3])], {y: _A}


@_program
def rows_that_are_chosen(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    values, rows = tf.nn.top_k(x, 2)
    parts = tf.dynamic_partition(x, [0, 1, 0, 1], 2)
    stitched = tf.dynamic_stitch([[3, 1], [0, 2]], parts)
    ys = [values, stitched, tf.boolean_mask(x, x[:, 0] > 0.0),
          tf.gather_nd(x, [[0, 1], [3, 2]]), tf.where(x > 0.0, x, -x),
          tf.scatter_nd([[1], [3], [1]], x[:3], [5, 3]),
          tf.reverse_sequence(x, [1, 3, 2, 0], 1), tf.gather(x, [2, 0], axis=1),
          tf.batch_gather(x, rows), tf.reverse(x, [0]), tf.roll(x, 1, 1)]
    unique, at = tf.unique([3, 1, 3, 2])
    return ys + [rows, unique, at, tf.where(x > 0.0), tf.nn.in_top_k(
        x, [0, 1, 2, 0], 1), tf.one_hot([1, 2], 3), tf.sequence_mask(
            [1, 3], 4), tf.invert_permutation([2, 0, 1]), tf.setdiff1d(
                [1, 2, 3], [2])[0], tf.bincount([1, 1, 4]), tf.diag_part(
                    x[:3])] + tf.gradients(ys, x), {x: _A}


@_program
def convolutions_of_all_kinds(tf):
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    w = tf.constant(np.sin(np.arange(3 * 3 * 3 * 2)).reshape(
        3, 3, 3, 2).astype(np.float32))
    cube = tf.reshape(x, [2, 4, 4, 4, 3])
    ys = [tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
          tf.nn.conv2d(x, w, [1, 2, 2, 1], "VALID", dilations=[1, 1, 1, 1]),
          tf.nn.conv2d_transpose(x[..., :2], w, [2, 16, 16, 3], [1, 2, 2, 1]),
          tf.nn.conv3d(cube, tf.reshape(w, [1, 3, 3, 3, 2]), [1, 1, 1, 1, 1],
                       "SAME"),
          tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"),
          tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
          tf.nn.lrn(x, 2), tf.space_to_depth(x, 2),
          tf.batch_to_space_nd(tf.space_to_batch_nd(
              x, [2, 2], [[0, 0], [0, 0]]), [2, 2], [[1, 1], [0, 2]]),
          tf.extract_image_patches(x, [1, 3, 3, 1], [1, 2, 2, 1],
                                   [1, 1, 1, 1], "VALID"),
          tf.nn.separable_conv2d(x, w, tf.ones([1, 1, 6, 2]), [1, 1, 1, 1],
                                 "SAME"),
          tf.nn.conv1d(x[:, 0], w[0], 1, "SAME"),
          tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], "REFLECT")]
    # (TensorFlow has no gradient of holes on a CPU.)
    return ys + [tf.nn.conv2d(x, w, 1, "SAME", dilations=2)] + tf.gradients(
        [tf.reduce_sum(y * y) for y in ys], x), {x: _IMAGE}


@_program
def training_by_others(tf):
    return _trained(tf, [
        tf.train.AdadeltaOptimizer(0.5), tf.train.FtrlOptimizer(
            0.1, l1_regularization_strength=0.01),
        tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
        tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        tf.train.ProximalGradientDescentOptimizer(0.1, 0.01),
        tf.train.ProximalAdagradOptimizer(0.1)])


def _trained(tf, optimizers):
    """What each makes of a variable of both kinds, whose gradients are sums of
    dense ones and of rows."""
    outs = []
    for i, optimizer in enumerate(optimizers):
        for resource in (False, True):
            v = tf.Variable(_A, name=f"v{i}{resource:d}",
                            use_resource=resource)
            loss = tf.reduce_sum(tf.gather(v, [0, 2, 0]) ** 2) + (
                tf.reduce_sum(v * 0.3))
            with tf.control_dependencies([optimizer.minimize(
                    loss, var_list=[v])]):
                outs.append(v.read_value() + 0.0)
    return outs, {}


@_program
def quantized_values(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.quantization.fake_quant_with_min_max_args(x, -1.0, 1.0)
    z = tf.quantization.fake_quant_with_min_max_vars(x, -0.5, 1.5, num_bits=4)
    q, low, high = tf.quantization.quantize(x, -2.0, 2.0, tf.quint8)
    return [y, z, tf.quantization.dequantize(q, low, high)] + tf.gradients(
        [y, z], x), {x: _A}


@_program
def complex_numbers(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    c = tf.complex(x, x[::-1])
    f = tf.signal.fft(c)
    r = tf.signal.rfft(tf.pad(x, [[0, 0], [0, 1]]))
    y = tf.abs(f) + tf.real(tf.conj(c) * c)
    return [f, r, y, tf.angle(c), tf.signal.irfft(r), tf.imag(
        tf.matmul(c, c, adjoint_b=True))] + tf.gradients(
            [y, tf.abs(r) ** 2], x), {x: _A}


@_program
def decompositions(tf):
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    a = tf.matmul(x, x, transpose_b=True) + tf.eye(3)
    c = tf.cholesky(a)
    ys = [c, tf.matrix_inverse(a), tf.matrix_determinant(a),
          tf.matrix_solve(a, x), tf.matrix_triangular_solve(c, x),
          tf.self_adjoint_eig(a)[0], tf.svd(a, compute_uv=False),
          tf.linalg.logdet(a), tf.einsum("ij,kj->ik", x, a),
          tf.tensordot(x, a, [[0], [1]]), tf.linalg.band_part(x, 1, 0)]
    return ys + tf.gradients(ys, x), {x: _A[:3]}


@_program
def random_numbers_of_seeds(tf):
    return [tf.random.stateless_uniform([3, 4], [1, 2]),
            tf.random.stateless_normal([5], [3, 4]),
            tf.random.stateless_truncated_normal([5], [3, 4]),
            tf.random_uniform([7], seed=3), tf.random_normal([7], seed=3),
            tf.random_uniform([5], 0, 10, tf.int32, seed=4)], {}


@_program
def small_types(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ys = []
    for dtype in (tf.float16, tf.bfloat16, tf.float64):
        y = tf.cast(x, dtype)
        y = tf.nn.relu(y * y - tf.cast(0.5, dtype))
        ys.append(tf.cast(y, tf.float32))
    ints = tf.cast(x * 50.0, tf.int8)
    return ys + [tf.cast(ints // 3, tf.int32), tf.bitcast(x, tf.int32),
                 tf.cast(tf.cast(tf.abs(x), tf.uint8), tf.int64),
                 tf.saturate_cast(x * 1000.0, tf.uint8),
                 tf.bitwise.bitwise_and(tf.cast(x * 9.0, tf.int32), 5)
                 ] + tf.gradients(ys, x), {x: _A}


@_program
def losses_of_sequences(tf):
    x = tf.placeholder(tf.float32, [5, 2, 4], name="x")
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 1, 2]),
                             [2, 2])
    ctc = tf.nn.ctc_loss(labels, x, [5, 4])
    decoded, score = tf.nn.ctc_greedy_decoder(x, [5, 4])
    dense = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=[[0, 1], [2, 3], [0, 0], [1, 1], [3, 3]], logits=x)
    weighted = tf.nn.weighted_cross_entropy_with_logits(
        tf.nn.sigmoid(x), x * 0.5, 2.0)
    return [ctc, decoded[0].values, score, dense, weighted,
            tf.nn.log_softmax(x)] + tf.gradients(
                [ctc, dense, weighted], x), {x: np.sin(np.arange(
                    40)).reshape(5, 2, 4).astype(np.float32)}


@_program
def colours_and_crops(tf):
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    y = tf.sigmoid(x)
    return [tf.image.flip_left_right(y), tf.image.rot90(y, 3),
            tf.image.rgb_to_grayscale(y), tf.image.central_crop(y, 0.5),
            tf.image.adjust_brightness(y, 0.1),
            tf.image.resize_image_with_crop_or_pad(y, 5, 12),
            tf.image.per_image_standardization(y[0]),
            tf.image.crop_to_bounding_box(y, 1, 2, 3, 4)], {x: _IMAGE}
