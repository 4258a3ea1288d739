"""Programs with TensorFlow 1's arrays, layers, training and state.

See `program_kit.py`.
"""

import numpy as np

from program_kit import A, B, IMAGE, program, set_weights


@program
def arithmetic(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = (x + 1.0) * x / (2.0 - x) ** 2 - 3.0 * -x
    return [y, tf.floordiv(x, 0.3), tf.mod(x, 0.7), abs(x), x > 0.0,
            tf.maximum(x, tf.minimum(0.5, 2 * x))], {x: A}


@program
def elementwise(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    p = tf.abs(x) + 0.1
    return [tf.exp(x), tf.log(p), tf.sqrt(p), tf.rsqrt(p), tf.tanh(x),
            tf.sigmoid(x), tf.sin(x), tf.atan2(x, p), tf.erf(x), tf.lgamma(p),
            tf.square(x), tf.sign(x), tf.floor(x), tf.round(x),
            tf.log1p(p), tf.expm1(x), tf.pow(p, x)], {x: A}


@program
def reductions(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    return [tf.reduce_sum(x), tf.reduce_mean(x, 0),
            tf.reduce_max(x, [1], keepdims=True), tf.reduce_prod(x, -1),
            tf.reduce_logsumexp(x, 1), tf.reduce_any(x > 1, 0),
            tf.argmax(x, 1), tf.cumsum(x, 1, exclusive=True, reverse=True),
            tf.norm(x), tf.count_nonzero(x > 0)], {x: A}


@program
def products(tf):
    a = tf.placeholder(tf.float32, [None, 3], name="a")
    b = tf.constant(B)
    c = tf.matmul(a, b)
    grads = tf.gradients(tf.reduce_sum(c * c), [a, b])
    return [c, tf.matmul(c, b, transpose_b=True), tf.tensordot(a, b, [[1], [0]])
            ] + grads, {a: A}


@program
def shapes(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    s = tf.shape(x)
    return [s, tf.reshape(x, [-1]), tf.reshape(x, tf.stack([s[1], s[0]])),
            tf.transpose(x), tf.expand_dims(x, 1), tf.size(x), tf.rank(x),
            tf.tile(x, [2, 1]), tf.zeros_like(x), tf.fill([2, s[1]], 7.0),
            tf.pad(x, [[1, 0], [0, 2]], constant_values=9.0),
            tf.reverse(x, [1]), tf.squeeze(x[:, None, :1])], {x: A}


@program
def slicing(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    return [x[1], x[:, 1], x[::-1, 1:], x[..., tf.newaxis], x[-2:, ::2],
            tf.slice(x, [1, 0], [2, -1]), tf.strided_slice(x, [0], [4], [2]),
            tf.gather(x, [2, 0, 2]), tf.gather_nd(x, [[0, 1], [3, 2]]),
            tf.boolean_mask(x, [True, False, True, True])], {x: A}


@program
def joins(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    parts = tf.split(x, [1, 2], 1) + tf.split(x, 2)
    return parts + [tf.concat([x, x], 1), tf.stack([x, 2 * x], 1)] + (
        tf.unstack(x, axis=1)) + [tf.one_hot([1, 3], 4), tf.where(
            x > 0, x, -x), tf.where(x > 0)], {x: A}


@program
def gradients_of_shapes(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.concat([x[1:], tf.tile(x[:1], [2, 1])], 0)
    y = tf.transpose(tf.pad(y, [[0, 1], [1, 0]])) * tf.reverse(
        tf.transpose(tf.pad(y, [[1, 0], [0, 1]])), [0])
    z = tf.gather(tf.reshape(y, [-1]), [3, 1, 4, 1, 5])
    return tf.gradients([y, tf.unstack(z)[2]], x), {x: A}


@program
def second_derivatives(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.reduce_sum(tf.tanh(x) * tf.exp(-x * x))
    first, = tf.gradients(y, x)
    second, = tf.gradients(first, x)
    return [first, second] + tf.hessians(tf.reduce_sum(x ** 3), [x]), {x: A}


@program
def sparse_gradients(tf):
    table = tf.get_variable("table", initializer=A)
    ids = tf.placeholder(tf.int32, [None], name="ids")
    y = tf.nn.embedding_lookup(table, ids)
    grad, = tf.gradients(tf.reduce_sum(y * y), [table])
    return [y, grad.values, grad.indices,
            tf.convert_to_tensor(grad)], {ids: [3, 0, 3]}


@program
def dense_layers(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    h = tf.layers.dense(x, 7, tf.nn.relu)
    y = tf.layers.dense(h, 2, name="out")
    with tf.control_dependencies([set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, y] + tf.gradients(y, tf.trainable_variables()), {x: A}


@program
def training_by_gradient_descent(tf):
    return _training(tf, tf.train.GradientDescentOptimizer(0.1))


@program
def training_by_momentum(tf):
    return _training(tf, tf.train.MomentumOptimizer(0.1, 0.9,
                                                    use_nesterov=True))


@program
def training_by_adam(tf):
    return _training(tf, tf.train.AdamOptimizer(0.01))


@program
def training_by_adagrad(tf):
    return _training(tf, tf.train.AdagradOptimizer(0.1))


@program
def training_by_rmsprop(tf):
    return _training(tf, tf.train.RMSPropOptimizer(0.01, momentum=0.5))


def _training(tf, optimizer):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", initializer=B)
    b = tf.Variable(tf.zeros([5]), name="b")
    loss = tf.reduce_mean(tf.squared_difference(tf.matmul(x, w) + b, 1.0))
    grads = optimizer.compute_gradients(loss)
    clipped, norm = tf.clip_by_global_norm([g for g, _ in grads], 1.0)
    train = optimizer.apply_gradients(
        zip(clipped, [v for _, v in grads]),
        tf.train.get_or_create_global_step())
    with tf.control_dependencies([train]):
        after = [v.read_value() for v in (w, b)]
    return [norm] + after, {x: A}


@program
def resource_variables(tf):
    v = tf.get_variable("v", initializer=A, use_resource=True)
    with tf.control_dependencies([v.assign_add(tf.ones_like(v))]):
        read = v.read_value()
        grad, = tf.gradients(tf.reduce_sum(v * v), [v])
    return [read, grad], {}


@program
def reference_variables(tf):
    v = tf.Variable(A, name="v", use_resource=False)
    up = tf.assign_add(v, tf.ones_like(v))
    return [up * 2.0, tf.scatter_add(
        tf.Variable(A, name="w", use_resource=False), [1, 1],
        tf.ones([2, 3]))], {}


@program
def convolutions(tf):
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    k = tf.constant(np.sin(np.arange(3 * 3 * 3 * 4)).reshape(
        3, 3, 3, 4).astype(np.float32))
    y = tf.nn.relu(tf.nn.conv2d(x, k, [1, 2, 2, 1], "SAME"))
    z = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    w = tf.nn.avg_pool(y, [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    d = tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "VALID")
    t = tf.nn.conv2d_transpose(y, k, [2, 8, 8, 3], [1, 2, 2, 1], "SAME")
    return [y, z, w, d, t] + tf.gradients([z, w, d, t], [x, k]), {x: IMAGE}


@program
def convolutional_layers(tf):
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    y = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu)
    y = tf.layers.max_pooling2d(y, 2, 2)
    y = tf.layers.flatten(tf.layers.average_pooling2d(y, 2, 2))
    y = tf.layers.dense(y, 3)
    with tf.control_dependencies([set_weights(tf)]):
        ready = tf.identity(1.0)
    return [ready, y] + tf.gradients(y, tf.trainable_variables()), {x: IMAGE}


@program
def batch_normalization(tf):
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    y = tf.layers.batch_normalization(x, training=True)
    z = tf.layers.batch_normalization(x, training=False)
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    w = tf.nn.batch_normalization(x, mean, variance, 0.1, 1.5, 1e-3)
    return [y, z, w] + tf.gradients([y * y, w * x], x), {x: IMAGE}


@program
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
            ] + tf.gradients([a, b, c], x), {x: A, labels: [0, 2, 1, 1]}


@program
def activations(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ys = [f(x) for f in (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu,
                         tf.nn.softplus, tf.nn.softsign, tf.nn.leaky_relu,
                         tf.nn.swish)]
    return ys + tf.gradients(ys, x), {x: A}


@program
def element_types(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    types = [tf.float64, tf.int32, tf.int64, tf.uint8, tf.int16, tf.bool,
             tf.complex64, tf.half]
    big = tf.cast(tf.round(tf.abs(x) * 10), tf.int64)
    return [tf.cast(tf.abs(x) * 10, t) for t in types] + [
        big // 3, big % 4, tf.cast(big, tf.float64) / 7.0,
        tf.bitwise.bitwise_xor(big, tf.constant(5, tf.int64)),
        tf.saturate_cast(x * 1000, tf.int8)], {x: A}


@program
def strings(tf):
    s = tf.placeholder(tf.string, [None], name="s")
    return [tf.string_join([s, s], "-"), tf.strings.length(s),
            tf.string_to_hash_bucket_fast(s, 1000), tf.as_string([1, 2]),
            tf.substr(s, 0, 2), tf.equal(s, "one"),
            tf.regex_replace(s, "e", "E")], {s: ["one", "three", ""]}


@program
def segments(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ids = tf.constant([0, 0, 2, 2])
    ys = [tf.segment_sum(x, ids), tf.segment_mean(x, ids),
          tf.unsorted_segment_sum(x, [2, 0, 2, 1], 3)]
    parts = tf.dynamic_partition(x, [1, 0, 1, 0], 2)
    back = tf.dynamic_stitch([[1, 3], [0, 2]], parts)
    return ys + parts + [back] + tf.gradients(ys + [back], x) + [
        tf.unique([3, 1, 3])[0], tf.invert_permutation([2, 0, 1]),
        tf.bincount([1, 1, 3])], {x: A}


@program
def sparse_tensors(tf):
    s = tf.SparseTensor([[0, 1], [2, 0]], [2.0, 3.0], [3, 4])
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.sparse_tensor_dense_matmul(s, x)
    return [y, tf.sparse_tensor_to_dense(s), tf.sparse_reduce_sum(s, 1)
            ] + tf.gradients(y, x), {x: A}


@program
def linear_algebra(tf):
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    a = tf.matmul(x, x, transpose_b=True) + tf.eye(3)
    l = tf.cholesky(a)
    i = tf.matrix_inverse(a)
    d = tf.matrix_determinant(a)
    return [l, i, d, tf.matrix_solve(a, x), tf.matrix_diag_part(a),
            tf.matrix_band_part(a, 0, -1), tf.trace(a)] + tf.gradients(
                [i, d], x), {x: A[:3]}


@program
def checks(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    with tf.control_dependencies([
            tf.assert_less(x, 100.0), tf.assert_rank(x, 2),
            tf.Assert(tf.reduce_all(x > -100.0), [x])]):
        y = tf.identity(x)
    return [tf.check_numerics(y, "bad"), tf.stop_gradient(y)], {x: A}


@program
def gradient_options(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    h = tf.tanh(x)
    y = h * tf.stop_gradient(h) + x
    return tf.gradients(y, [x, h], grad_ys=x * 2.0) + tf.gradients(
        y, x, stop_gradients=[h]) + tf.gradients(
            y, [x], unconnected_gradients=tf.UnconnectedGradients.ZERO), {x: A}


@program
def clipping(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    ys = [tf.clip_by_value(x, -0.5, 0.7), tf.clip_by_norm(x, 1.0),
          tf.clip_by_norm(x, 1.0, axes=[1]),
          tf.nn.l2_normalize(x, 1)] + list(
              tf.clip_by_global_norm([x, 2 * x], 1.5)[0])
    return ys + tf.gradients(ys, x), {x: A}


@program
def losses(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    labels = tf.constant(np.abs(np.sin(A)))
    tf.losses.mean_squared_error(labels, x)
    tf.losses.huber_loss(labels, x, weights=[[1.0], [0.0], [2.0], [1.0]])
    tf.losses.absolute_difference(labels, x, weights=0.5)
    total = tf.losses.get_total_loss()
    return [total] + tf.gradients(total, x), {x: A}


@program
def learning_rates(tf):
    step = tf.placeholder(tf.int32, [], name="step")
    return [tf.train.exponential_decay(0.1, step, 10, 0.5),
            tf.train.exponential_decay(0.1, step, 10, 0.5, staircase=True),
            tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.1]),
            tf.train.polynomial_decay(0.1, step, 100),
            tf.train.cosine_decay(0.1, step, 100)], {step: 17}


@program
def moving_averages(tf):
    v = tf.Variable(A, name="v", use_resource=True)
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([v.assign_add(tf.ones_like(v))]):
        op = average.apply([v])
    with tf.control_dependencies([op]):
        return [average.average(v).read_value()], {}


@program
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


@program
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
                x: A, values: A[0:4, 0]}


@program
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
    set_weights(tf)
    return ys + [grad] + tf.gradients(ys, weights), {
        ids: np.array([0, 5, 2, 2, 1]), weights: np.arange(5) * 0.5 + 0.1}


@program
def partitioned_tables(tf):
    tables = tf.get_variable("tables", [7, 2],
                             partitioner=tf.fixed_size_partitioner(3))
    ids = tf.placeholder(tf.int32, [4], name="ids")
    y = tf.nn.embedding_lookup(tables, ids, partition_strategy="div")
    set_weights(tf)
    parts = list(tables)
    grads = [tf.convert_to_tensor(g) for g in tf.gradients(y, parts)]
    return [y, tf.convert_to_tensor(tables)] + grads, {
        ids: np.array([0, 6, 3, 3])}


@program
def variables_of_many_updates(tf):
    r = tf.Variable(A, name="r", use_resource=True)
    v = tf.Variable(A, name="v", use_resource=False)
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


@program
def initializers_that_read(tf):
    a = tf.Variable(tf.constant(A), name="a")
    b = tf.Variable(a.initialized_value() * 2.0, name="b")
    with tf.variable_scope("scope", use_resource=True):
        c = tf.get_variable("c", initializer=tf.constant(3.0))
        with tf.variable_scope("inner", reuse=tf.AUTO_REUSE):
            d = tf.get_variable("d", [2], initializer=tf.ones_initializer())
            d = tf.get_variable("d", [2])
    return [b + c, d * 1.0], {}


@program
def hessians(tf):
    x = tf.placeholder(tf.float32, [3], name="x")
    y = tf.reduce_sum(tf.sin(x) * x[::-1] ** 2)
    return tf.hessians(y, x) + tf.gradients(
        tf.gradients(y, x)[0] ** 2, x), {x: A[0]}


@program
def devices_and_colocation(tf):
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        v = tf.Variable(B, name="v")
    with tf.device(lambda op: "/cpu:0"), tf.colocate_with(v.op):
        y = tf.matmul(x, v)
    with tf.control_dependencies([y.op, v.initializer]):
        z = tf.identity(y)
    return [z] + tf.gradients(z, v, colocate_gradients_with_ops=True), {x: A}


@program
def defaults_and_partial_shapes(tf):
    x = tf.placeholder_with_default(A, [None, 3], name="x")
    y = tf.placeholder(tf.float32, name="y")
    n = tf.placeholder_with_default(2, [], name="n")
    z = tf.reshape(y, [n, -1])
    return [x * 2.0, z, tf.shape(z), tf.rank(y), tf.size(y),
            tf.fill([n, 2], 7.0), tf.zeros_like(y), tf.tile(x, [n, 1]),
            tf.broadcast_to(x[0], [n, 3])], {y: A}


@program
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
                    x[:3])] + tf.gradients(ys, x), {x: A}


@program
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
    # TensorFlow has no gradient of dilated convolutions on a CPU.
    return ys + [tf.nn.conv2d(x, w, 1, "SAME", dilations=2)] + tf.gradients(
        [tf.reduce_sum(y * y) for y in ys], x), {x: IMAGE}


@program
def training_by_others(tf):
    return _trained(tf, [
        tf.train.AdadeltaOptimizer(0.5), tf.train.FtrlOptimizer(
            0.1, l1_regularization_strength=0.01),
        tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
        tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        tf.train.ProximalGradientDescentOptimizer(0.1, 0.01),
        tf.train.ProximalAdagradOptimizer(0.1)])


def _trained(tf, optimizers):
    """Returns the results of training variables of both kinds.

    Their gradients are sums of dense and sparse gradients.
    """
    outs = []
    for i, optimizer in enumerate(optimizers):
        for resource in (False, True):
            v = tf.Variable(A, name=f"v{i}{resource:d}",
                            use_resource=resource)
            loss = tf.reduce_sum(tf.gather(v, [0, 2, 0]) ** 2) + (
                tf.reduce_sum(v * 0.3))
            with tf.control_dependencies([optimizer.minimize(
                    loss, var_list=[v])]):
                outs.append(v.read_value() + 0.0)
    return outs, {}


@program
def quantized_values(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    y = tf.quantization.fake_quant_with_min_max_args(x, -1.0, 1.0)
    z = tf.quantization.fake_quant_with_min_max_vars(x, -0.5, 1.5, num_bits=4)
    q, low, high = tf.quantization.quantize(x, -2.0, 2.0, tf.quint8)
    return [y, z, tf.quantization.dequantize(q, low, high)] + tf.gradients(
        [y, z], x), {x: A}


@program
def complex_numbers(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    c = tf.complex(x, x[::-1])
    f = tf.signal.fft(c)
    r = tf.signal.rfft(tf.pad(x, [[0, 0], [0, 1]]))
    y = tf.abs(f) + tf.real(tf.conj(c) * c)
    return [f, r, y, tf.angle(c), tf.signal.irfft(r), tf.imag(
        tf.matmul(c, c, adjoint_b=True))] + tf.gradients(
            [y, tf.abs(r) ** 2], x), {x: A}


@program
def decompositions(tf):
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    a = tf.matmul(x, x, transpose_b=True) + tf.eye(3)
    c = tf.cholesky(a)
    ys = [c, tf.matrix_inverse(a), tf.matrix_determinant(a),
          tf.matrix_solve(a, x), tf.matrix_triangular_solve(c, x),
          tf.self_adjoint_eig(a)[0], tf.svd(a, compute_uv=False),
          tf.linalg.logdet(a), tf.einsum("ij,kj->ik", x, a),
          tf.tensordot(x, a, [[0], [1]]), tf.linalg.band_part(x, 1, 0)]
    return ys + tf.gradients(ys, x), {x: A[:3]}


@program
def random_numbers_of_seeds(tf):
    return [tf.random.stateless_uniform([3, 4], [1, 2]),
            tf.random.stateless_normal([5], [3, 4]),
            tf.random.stateless_truncated_normal([5], [3, 4]),
            tf.random_uniform([7], seed=3), tf.random_normal([7], seed=3),
            tf.random_uniform([5], 0, 10, tf.int32, seed=4)], {}


@program
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
                 ] + tf.gradients(ys, x), {x: A}


@program
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


@program
def colours_and_crops(tf):
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
    y = tf.sigmoid(x)
    return [tf.image.flip_left_right(y), tf.image.rot90(y, 3),
            tf.image.rgb_to_grayscale(y), tf.image.central_crop(y, 0.5),
            tf.image.adjust_brightness(y, 0.1),
            tf.image.resize_image_with_crop_or_pad(y, 5, 12),
            tf.image.per_image_standardization(y[0]),
            tf.image.crop_to_bounding_box(y, 1, 2, 3, 4)], {x: IMAGE}
