#!/usr/bin/env python3
"""Records the project's own cases with TensorFlow.

  tests/cases/record.py [CASE...]     all cases, or those named

The folders it writes are kept in the repository, so that running them does not
need TensorFlow: sluice replay tests/cases
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import data_flow_cases  # noqa: F401 (It registers its cases.)
from recorder import CASES, Recorder, case, np, save, tf
from tensorflow.python.framework.function import Defun

ANY = tf.TensorShape(None)


def weighted(c, y):
    """A scalar that depends on each element of y differently."""
    shape = y.shape.as_list()
    weights = np.linspace(-1.3, 1.7, int(np.prod(shape))).reshape(shape)
    return tf.reduce_sum(y * tf.constant(weights, y.dtype))


@case("control_deps variable")
def control_order(c):
    x = c.input("x", np.array([2.0, 3.0], np.float32))
    v = tf.Variable([1.0, 1.0], name="v", use_resource=False)
    before = tf.add(v, 0.0, name="before")
    with tf.control_dependencies([before]):
        add = tf.assign_add(v, x)
    with tf.control_dependencies([add]):
        scale = tf.assign(v, v.read_value() * 10.0)
    with tf.control_dependencies([scale]):
        after = tf.identity(v.read_value(), name="after")
    group = tf.group(scale, name="group")
    c.init()
    c.step([after])
    c.step([group])
    c.step([before, after], {x: [0.5, -0.5]})
    c.step([v.read_value()], default=False)


@case("conv grad")
def conv_strided(c):
    x = c.input("x", c.values(2, 7, 6, 3))
    w = c.input("w", c.values(3, 2, 3, 4))
    d = c.input("d", c.values(3, 3, 3, 2))
    fetches = []
    for y, filters in (
            (tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME"), w),
            (tf.nn.conv2d(x, w, [1, 1, 2, 1], "VALID"), w),
            (tf.nn.conv2d(x, d, 1, "SAME"), d),
            (tf.nn.conv2d(x, w, 1, [[0, 0], [2, 1], [0, 2], [0, 0]]), w)):
        fetches += [y] + tf.gradients(weighted(c, y), [x, filters])
    one = tf.nn.conv2d(x, c.values(1, 1, 3, 5), 1, "SAME")
    # TensorFlow has no CPU kernel for the gradient of a dilated convolution.
    dilated = tf.nn.conv2d(x, d, 1, "SAME", dilations=[1, 2, 2, 1])
    c.step(fetches + [dilated, one] + tf.gradients(weighted(c, one), x))


@case("conv pool")
def pools(c):
    x = c.input("x", c.values(2, 5, 7, 2))
    fetches = []
    for pool in (tf.nn.max_pool2d, tf.nn.avg_pool2d):
        for size, stride, padding in ((2, 2, "VALID"), (3, 2, "SAME"),
                                      ([1, 3], [2, 1], "VALID")):
            y = pool(x, size, stride, padding)
            fetches += [y] + tf.gradients(weighted(c, y), x)
    c.step(fetches)


def unary_case(c, dtype):
    x = c.input("x", np.concatenate([
        c.values(9, low=-2.5, high=2.5),
        np.array([0.0, -0.0, 1.0, -1.0, 30.0, -30.0])]).astype(dtype))
    p = c.input("p", c.values(7, low=0.05, high=0.95).astype(dtype))
    fetches = []
    for f in (tf.abs, tf.exp, tf.expm1, tf.negative, tf.sigmoid, tf.sin, tf.cos,
              tf.tanh, tf.sign, tf.square, tf.nn.softplus, tf.nn.relu,
              tf.nn.elu, tf.math.erf, tf.sinh, tf.atan, tf.asinh):
        y = f(x)
        fetches += [y] + tf.gradients(weighted(c, y), x)
    for f in (tf.log, tf.log1p, tf.sqrt, tf.rsqrt, tf.reciprocal, tf.tan,
              tf.acos, tf.asin, tf.atanh):
        y = f(p)
        (g,) = tf.gradients(weighted(c, y), p)
        fetches += [y, g] + tf.gradients(weighted(c, g), p)
    c.step(fetches + [f(x) for f in (tf.floor, tf.ceil, tf.round)])


@case("math grad")
def unary_float(c):
    unary_case(c, np.float32)


@case("math grad")
def unary_double(c):
    unary_case(c, np.float64)


@case("math broadcast grad")
def binary_broadcast(c):
    a = c.input("a", c.values(2, 1, 3, low=0.3, high=2.0), [None, 1, 3])
    b = c.input("b", c.values(4, 1, low=0.3, high=2.0), [4, None])
    fetches = []
    for f in (tf.add, tf.subtract, tf.multiply, tf.divide, tf.maximum,
              tf.minimum, tf.pow, tf.squared_difference, tf.floormod):
        y = f(a, b)
        y.set_shape([2, 4, 3])
        fetches += [y] + tf.gradients(weighted(c, y), [a, b])
    fetches += [tf.less(a, b), tf.equal(a, a), tf.greater_equal(a, b)]
    c.step(fetches)
    c.step(fetches[:3], {b: c.values(4, 3, low=0.3, high=2.0)})


@case("random grad")
def dropout_fed(c):
    x = c.input("x", c.values(4, 6))
    keep = c.input("keep", np.float32(0.7))
    mask = tf.random_uniform([4, 6], name="mask")
    y = x / keep * tf.floor(keep + mask)
    (g,) = tf.gradients(weighted(c, y), x)
    drawn = tf.random_normal([3, 2], name="drawn")
    c.step([y, g, tf.shape(drawn)], {mask: c.values(4, 6, low=0, high=1)})
    c.step([y, g], {mask: c.values(4, 6, low=0, high=1), keep: 1.0})
    c.step([tf.reduce_all(mask < 1.0), tf.reduce_all(mask >= 0.0)])


@case("grad")
def odd_gradients(c):
    x = c.input("x", c.values(3, 2))
    z = c.input("z", c.values(2))
    parts = tf.unstack(x, axis=1)
    y = tf.stack([parts[0] * parts[0], tf.stop_gradient(parts[1]) * parts[0]])
    unused = tf.gradients(y, [x, z], unconnected_gradients="zero")
    seeded = tf.gradients([y, x * z], [x, z],
                          [tf.fill([2, 3], 2.0), tf.ones_like(x) * 0.5])
    stopped = tf.gradients(x * z + x, [x], stop_gradients=[z])
    twice = tf.gradients(tf.gradients(tf.exp(x) * z, z)[0] * z, [x, z])
    summed = tf.gradients([tf.reduce_sum(x)] * 3, x)
    clipped = tf.gradients(tf.clip_by_value(x, -0.4, 0.4), x)
    c.step([y] + unused + seeded + stopped + twice + summed + clipped)


@case("graph devices")
def colocation(c):
    x = c.input("x", c.values(2, 3))
    with tf.device("/cpu:0"):
        a = tf.tanh(x, name="a")
    with tf.colocate_with(a):
        b = tf.square(a, name="b")
    with tf.name_scope("outer"), tf.name_scope("inner"):
        d = tf.identity(b + x, name="d")
    d.op._set_attr("_note", tf.AttrValue(s=b"kept"))
    grads = tf.gradients(d, x, colocate_gradients_with_ops=True)
    c.step([b, d] + grads)


@case("control_flow devices grad")
def loop_devices(c):
    x = c.input("x", c.values(3, 4))
    n = c.input("n", np.array(4, np.int32))

    def body(i, a, out):
        with tf.device("/cpu:1"):
            b = tf.tanh(a) * 1.5
            b = tf.cond(tf.reduce_sum(b) > 0.5, lambda: b - 0.25,
                        lambda: tf.sin(b))
        with tf.device("/cpu:0"):
            return i + 1, b + x, out.write(i, tf.reduce_sum(b, 0))

    with tf.device("/cpu:0"):
        out = tf.TensorArray(tf.float32, 0, dynamic_size=True,
                             element_shape=[4])
    _, y, out = tf.while_loop(lambda i, *_: i < n, body, [0, x, out])
    with tf.device("/cpu:1"):
        rows = out.stack()
    loss = weighted(c, y) + tf.reduce_sum(rows * rows)
    c.step([y, rows, loss] + tf.gradients(loss, x))
    c.step([y] + tf.gradients(loss, x), {n: np.array(0, np.int32)})


@case("train devices")
def train_devices(c):
    x, y = c.input("x", c.values(4, 3)), c.input("y", c.values(4, 1))
    with tf.device("/cpu:0"):
        w = tf.Variable(c.values(3, 2), name="w", use_resource=True)
        step = tf.train.get_or_create_global_step()
    with tf.device("/cpu:1"):
        v = tf.Variable(c.values(2, 1), name="v", use_resource=False)
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) @ v - y))
        rate = tf.train.exponential_decay(0.3, step, 2, 0.5)
    train = tf.train.AdagradDAOptimizer(
        rate, step, l2_regularization_strength=0.01).minimize(loss, step)
    # (The global step waits for the updates only through its constant.)
    with tf.device("/cpu:1"):
        steps = tf.Variable(0.0, name="steps", use_resource=False)
        with tf.control_dependencies([train]):
            look = tf.assign_add(steps, tf.cast(step, tf.float32))
        with tf.control_dependencies([look]):
            later = steps + 0.5  # (So does this, for `look`.)
    reads = [tf.identity(v) for v in (w, v, steps, step)]
    c.init()
    for _ in range(5):
        c.step([loss, later])
        c.step(reads)


@case("half grad")
def half_types(c):
    fetches = []
    for dtype in (tf.float16, tf.bfloat16):
        x = tf.cast(c.input(f"x_{dtype.name}", c.values(3, 4)), dtype)
        w = tf.cast(c.input(f"w_{dtype.name}", c.values(4, 2)), dtype)
        y = tf.tanh(tf.matmul(x, w)) * 2 - tf.reduce_max(x)
        g = tf.gradients(tf.reduce_sum(y * y), [x, w])
        fetches += [y, tf.cast(y, tf.float32), tf.cast(y > 0, tf.int32),
                    tf.reduce_sum(x, 1), tf.nn.relu(x), tf.exp(x),
                    tf.concat([x, x], 0), tf.transpose(w)] + g
    fetches.append(tf.cast(c.input("raw", np.array([0.1, 65504.0, -1e-7, 3e5],
                                                   np.float32)), tf.float16))
    c.step(fetches)


@case("stress grad")
def many_ops(c):
    x = c.input("x", c.values(3))
    nodes = [x]
    for i in range(90):
        a, b = nodes[-1], nodes[(i * 7) % len(nodes)]
        nodes.append([tf.tanh(a + b), a * 0.9 - b * 0.1, tf.add_n([a, b, x]) / 3,
                      tf.sin(a) * b][i % 4])
    y = tf.reduce_sum(nodes[-1])
    c.step([nodes[-1], y] + tf.gradients(y, x))


@case("feed fetch")
def feed_any_edge(c):
    x = c.input("x", np.float32(3.0))
    default = tf.placeholder_with_default(tf.constant([1.0, 2.0]), [None],
                                          name="default")
    a = tf.multiply(x, 2.0, name="a")
    b = tf.add(a, default, name="b")
    left, right = tf.split(tf.range(6, dtype=tf.int32) * 2, 2, name="halves")
    c.step([a, b, x, left, right])
    c.step([b], {a: 10.0}, default=False)
    c.step([b, b, default], {default: [5.0]})
    c.step([b, right], {right: [7, 8, 9], b: [1.5, 2.5]}, default=False)
    c.step([b], default=False, error="InvalidArgumentError")


@case("partial_run")
def stages(c):
    a = tf.placeholder(tf.float32, [2], name="a")
    b = tf.placeholder(tf.float32, [2], name="b")
    d = tf.placeholder(tf.float32, [], name="d")
    first = a * 2.0
    second = first + b
    third = tf.reduce_sum(second) * d
    c.partial([first, second, third], [a, b, d],
              ([first], {a: np.array([1, 2], np.float32)}),
              ([second], {b: np.array([10, 20], np.float32)}),
              ([third], {d: np.float32(0.5)}))
    c.partial([second, third], [a, b, d],
              ([second], {a: np.array([0, 1], np.float32),
                          b: np.array([3, 4], np.float32)}),
              ([third], {d: np.float32(-1)}))


@case("embedding sparse train")
def sparse_train(c):
    words, size, batch = 12, 5, 4
    center = c.input("center", c.indices(words, batch))
    context = c.input("context", c.indices(words, batch, 1, dtype=np.int64))
    noise = c.input("noise", c.indices(words, 3, dtype=np.int64))
    table = tf.Variable(c.values(words, size), name="table", use_resource=False)
    out = tf.Variable(c.values(words, size), name="out", use_resource=False)
    bias = tf.Variable(tf.zeros([words]), name="bias", use_resource=False)
    h = tf.gather(table, center)
    good = tf.reduce_sum(h * tf.gather(out, context[:, 0]), 1)
    bad = tf.matmul(h, tf.gather(out, noise), transpose_b=True)
    bad += tf.gather(bias, noise)
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.ones_like(good), logits=good)
        + tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.zeros_like(bad), logits=bad), 1))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    c.init()
    for _ in range(3):
        c.step([train], {center: c.indices(words, batch),
                         noise: c.indices(words, 3, dtype=np.int64)})
    c.step([loss, table, out, bias])


@case("train")
def adagrad_train(c):
    x = c.input("x", c.values(6, 4))
    labels = c.input("labels", np.eye(3, dtype=np.float32)[c.indices(3, 6)])
    w1 = tf.Variable(c.values(4, 8) * 0.5, name="w1", use_resource=False)
    b1 = tf.Variable(tf.zeros([8]), name="b1", use_resource=False)
    w2 = tf.Variable(c.values(8, 3) * 0.5, name="w2", use_resource=False)
    logits = tf.matmul(tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w1), b1)), w2)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(
        labels=labels, logits=logits))
    right = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
    train = tf.train.AdagradOptimizer(0.2).minimize(loss)
    c.init()
    for _ in range(4):
        c.step([train])
    c.step([loss, w1, b1, w2, tf.reduce_mean(tf.cast(right, tf.float32))])


@case("array grad")
def slices(c):
    x = c.input("x", c.values(4, 5, 3), [None, 5, 3])
    n = c.input("n", np.int32(2))
    fetches = []
    for y in (x[1:3, ::2], x[:, -1], x[..., tf.newaxis, 1:], x[::-1, 3:0:-2],
              tf.slice(x, [0, 1, 0], [2, -1, 2]),
              tf.reverse(x, [1]), tf.pad(x, [[1, 0], [0, 2], [1, 1]]),
              tf.gather(x, [3, 0, 3]), tf.concat([x, x * 2.0], 2),
              tf.tile(x, [1, 2, 1]), tf.transpose(x, [2, 0, 1]),
              tf.expand_dims(x[0], 1), tf.squeeze(x[1:2], [0])):
        fetches += [y] + tf.gradients(tf.reduce_sum(y * y), x)
    fetches += [x[n], x[:n, n:], tf.shape(x), tf.shape(x[n:]), tf.size(x),
                tf.where(x[0] > 0), tf.stack([x[0], x[1]], 1),
                tf.one_hot([0, 2, -1], 3), tf.reshape(x, [-1, 3])]
    c.step(fetches)
    c.step(fetches[:4], {x: c.values(3, 5, 3)})
    c.step([x[n]], {n: 9}, error="InvalidArgumentError")


@case("reduce grad")
def reductions(c):
    x = c.input("x", c.values(3, 4, 2))
    e = c.input("e", np.zeros([0, 3], np.float32))
    fetches = []
    for f in (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min,
              tf.reduce_prod):
        for axis, keep in ((None, False), ([1], True), ([0, -1], False)):
            y = f(x, axis, keep)
            fetches += [y] + tf.gradients(tf.reduce_sum(y * y), x)
        fetches.append(f(e, 0))
    fetches += [tf.argmax(x, 1), tf.argmin(x, 0, output_type=tf.int32),
                tf.reduce_any(x > 0.9, 1), tf.reduce_all(x < 0.9),
                tf.nn.softmax(x), tf.nn.log_softmax(x),
                tf.nn.softmax_cross_entropy_with_logits(
                    labels=tf.nn.softmax(x[0]), logits=x[1]),
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=[1, 0, 1, 1], logits=x[2])]
    c.step(fetches)


@case("variable ref")
def variable_reference(c):
    x = c.input("x", np.array([1, 2, 3], np.int32))
    v = tf.Variable([0, 0, 0], name="v", use_resource=False)
    late = tf.Variable(tf.zeros([2]), name="late", use_resource=False)
    ready = tf.is_variable_initialized(late)
    c.step([v], default=False, error="FailedPreconditionError")
    c.step([v.initializer], default=False)
    c.step([ready, tf.is_variable_initialized(v)], default=False)
    c.step([tf.assign_add(v, x)])
    c.step([tf.assign_sub(v, x * 3)])
    c.step([tf.assign(v, [7, 8], validate_shape=False)], default=False)
    c.step([tf.shape_n([v._ref()])[0], v], default=False)
    c.step([late], default=False, error="FailedPreconditionError")


@case("variable resource")
def variable_handle(c):
    x = c.input("x", c.values(2, 3))
    v = tf.get_variable("v", initializer=tf.ones([4, 3]), use_resource=True)
    rows = tf.constant([3, 1])
    read = v.read_value()
    c.step([read], error="FailedPreconditionError")
    c.step([tf.is_variable_initialized(v)])
    c.init()
    c.step([tf.is_variable_initialized(v), read, v[1:3]])
    c.step([v.assign_add(tf.ones([4, 3]) * 2.0).op, ])
    c.step([v.scatter_update(tf.IndexedSlices(x, rows)).op])
    c.step([v.scatter_add(tf.IndexedSlices(x, [0, 0])).op])
    c.step([read, tf.gather(v, [0, 3, 0])])
    c.step([v.scatter_sub(tf.IndexedSlices(x, [1, 9])).op],
           error="InvalidArgumentError")
    (g,) = tf.gradients(tf.reduce_sum(tf.gather(v, [2, 2, 0]) ** 2), v)
    c.step([g])


@case("variable scatter")
def variable_scatters(c):
    i = c.input("i", np.array([2, 0, 2], np.int32))
    u = c.input("u", c.values(3, 2, low=0.5, high=2))
    v = tf.Variable(c.values(4, 2), name="v", use_resource=False)
    c.init()
    for f in (tf.scatter_add, tf.scatter_sub, tf.scatter_mul, tf.scatter_div,
              tf.scatter_max, tf.scatter_min):
        c.step([f(v, i, u)])
    c.step([tf.scatter_update(v, [1, 3], u[:2])])
    c.step([tf.scatter_nd_update(v, [[0, 1], [3, 0]], u[0])])
    c.step([tf.scatter_nd_add(v, [[1], [1]], u[1:])])
    c.step([v], default=False)
    # Last, since TensorFlow keeps the updates before the bad index.
    c.step([tf.scatter_add(v, i, u)], {i: [0, 4, 1]},
           error="InvalidArgumentError")


@case("integer bool string")
def other_types(c):
    a = c.input("a", np.array([7, -7, 100, -128], np.int8))
    b = c.input("b", np.array([2, 3, 100, -1], np.int8))
    s = c.input("s", np.array(["ab", "", "xyz\u00e9"], object))
    k = c.input("k", np.array([2**40, -5, 17], np.int64))
    u = c.input("u", np.array([0, 1, 2**32 - 1], np.uint32))
    z = c.input("z", (c.values(3) + 1j * c.values(3)).astype(np.complex64))
    flags = tf.constant([True, False, True])
    c.step([a + b, a * b, a // b, tf.floormod(a, b), tf.truncatediv(a, b),
            tf.abs(a), tf.minimum(a, b), tf.cast(a, tf.uint8),
            tf.cast(k, tf.float32), tf.cast(k, tf.int32), tf.cast(flags, tf.half),
            tf.logical_and(flags, k > 0), tf.logical_not(flags),
            s, tf.identity(s), tf.equal(s, "ab"), tf.concat([s, s[:1]], 0),
            tf.where(flags, k, -k), u + u, u // tf.constant([1, 2, 3], tf.uint32),
            z * tf.conj(z), tf.abs(z), tf.exp(z)])
    c.step([a // b], {b: np.array([1, 0, 1, 1], np.int8)},
           error="InvalidArgumentError")


@case("tensor_list")
def tensor_lists(c):
    r, kind = tf.raw_ops, dict(element_dtype=tf.float32)
    row = dict(element_shape=[2], **kind)
    x = c.input("x", c.values(3, 2))
    rows = r.TensorListFromTensor(tensor=x, element_shape=[2])
    more = r.TensorListPushBack(input_handle=rows, tensor=x[0] * 2.0)
    fewer, last = r.TensorListPopBack(input_handle=more, **row)
    placed = r.TensorListSetItem(input_handle=rows, index=1, item=x[2])
    fifth = r.TensorListScatterV2(tensor=x, indices=[3, 0, 4],
                                  element_shape=[2], num_elements=-1)
    into = r.TensorListScatterIntoExistingList(
        input_handle=fifth, tensor=x[:2], indices=[1, 2])
    parts = r.TensorListSplit(tensor=x, element_shape=[-1, 2],
                              lengths=np.array([1, 2]))
    both = r.TensorListConcatLists(input_a=rows, input_b=more, **kind)
    reserved = r.TensorListReserve(element_shape=[2], num_elements=2, **kind)
    resized = r.TensorListResize(input_handle=reserved, size=4)
    empty = r.EmptyTensorList(element_shape=[2], max_num_elements=3, **kind)
    batch = r.TensorListPushBackBatch(input_handles=tf.stack([rows, empty]),
                                      tensor=x[:2])

    def stacked(handle):
        return r.TensorListStack(input_handle=handle, **row)

    c.step([last, stacked(fewer), stacked(placed), stacked(into),
            stacked(both), stacked(resized), stacked(batch[0]),
            stacked(batch[1]), stacked(empty),
            stacked(r.TensorListScatter(tensor=x, indices=[2, 0, 1],
                                        element_shape=[2])),
            r.TensorListGetItem(input_handle=placed, index=1, **row),
            r.TensorListGather(input_handle=more, indices=[3, 0], **row),
            r.TensorListConcat(input_handle=parts, **kind)[0],
            *r.TensorListConcatV2(input_handle=parts, element_shape=[-1, 2],
                                  leading_dims=np.zeros([0], np.int64),
                                  **kind),
            r.TensorListLength(input_handle=both),
            r.TensorListElementShape(input_handle=parts,
                                     shape_type=tf.int64)])
    c.step([r.TensorListGetItem(input_handle=rows, index=3, **row)],
           error="InvalidArgumentError")


@case("tensor_array")
def tensor_arrays(c):
    r = tf.raw_ops
    x = c.input("x", c.values(5, 2))
    rows = tf.TensorArray(tf.float32, 3, infer_shape=False,
                          clear_after_read=False).split(x, [2, 0, 3])
    pair = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(x[:2])
    grown = r.TensorArrayGradWithShape(
        handle=pair.handle, flow_in=pair.flow, shape_to_prepend=[3],
        source="wide")
    wide = r.TensorArrayWriteV3(handle=grown[0], index=0, flow_in=grown[1],
                                value=tf.stack([x[0], x[1], x[2]]))
    c.step([rows.concat(), rows.read(1), pair.stack(), pair.size(),
            r.TensorArrayReadV3(handle=grown[0], index=0, flow_in=wide,
                                dtype=tf.float32)] +
           tf.gradients(weighted(c, tf.reshape(rows.concat(), [5, 2])), x))
    done = tf.TensorArray(tf.float32, 2).unstack(x[:2])
    with tf.control_dependencies([done.close()]):
        c.step([tf.identity(x)])


@case("stack")
def stacks(c):
    r = tf.raw_ops
    x = c.input("x", c.values(2))
    new = r.StackV2(max_size=-1, elem_type=tf.float32)
    first = r.StackPushV2(handle=new, elem=x)
    with tf.control_dependencies([first]):
        second = r.StackPushV2(handle=new, elem=x * 2.0)
    with tf.control_dependencies([second]):
        popped = r.StackPopV2(handle=new, elem_type=tf.float32)
    with tf.control_dependencies([popped]):
        closed = r.StackCloseV2(handle=new)
    c.step([first, second, popped, closed])
    old = r.Stack(elem_type=tf.float32)
    kept = r.StackPush(handle=old, elem=x)
    with tf.control_dependencies([kept]):
        back = r.StackPop(handle=old, elem_type=tf.float32)
    with tf.control_dependencies([back]):
        c.step([back, r.StackClose(handle=old)])


@case("control")
def passed_on(c):
    r = tf.raw_ops
    x = c.input("x", c.values(2, 2))
    loose = c.input("loose", c.values(2, 2), [None, None])
    yes = c.input("yes", np.array(True))
    v = r.Variable(shape=[2, 2], dtype=tf.float32)
    v2 = r.VariableV2(shape=[2, 2], dtype=tf.float32)
    start = tf.group(r.Assign(ref=v, value=x).op,
                     r.Assign(ref=v2, value=-x).op)
    c.step([start])
    false, true = r.RefSwitch(data=v, pred=yes)
    merged = r.RefMerge(inputs=[r.RefIdentity(input=false),
                                r.RefIdentity(input=true)])
    chosen = r.RefSelect(index=1, inputs=[v, v2])
    with tf.control_dependencies([r.Assert(condition=yes, data=[x])]):
        held = tf.identity(x)
    printed = r.Print(input=x, data=[yes], message="")
    c.step([*r.IdentityN(input=[x, yes]), r.CheckNumerics(tensor=x, message=""),
            r.CheckNumericsV2(tensor=x, message=""),
            r.EnsureShape(input=x, shape=[None, 2]), r.GuaranteeConst(input=x),
            r.PreventGradient(input=x), r.Snapshot(input=x),
            r.StopGradient(input=x), r.DeepCopy(x=x), r.ToBool(input=x[0, 0]),
            r.ToBool(input="a"), r.ToBool(input=x), held, printed,
            tf.identity(merged[0]), merged[1], tf.identity(chosen)])
    c.step([r.CheckNumerics(tensor=x / 0.0, message="quotient")],
           error="InvalidArgumentError")
    c.step([r.EnsureShape(input=loose, shape=[3, 2])],
           error="InvalidArgumentError")
    c.step([held], {yes: np.array(False)}, error="InvalidArgumentError")
    with tf.control_dependencies([r.PrintV2(input="")]):
        c.step([tf.identity(x, name="behind")])
    made = r.OptionalFromValue(components=[x, yes])
    kinds = dict(output_types=[tf.float32, tf.bool],
                 output_shapes=[[2, 2], []])
    c.step([*r.OptionalGetValue(optional=made, **kinds),
            r.OptionalHasValue(optional=made),
            r.OptionalHasValue(optional=r.OptionalNone())])

    def entered(value):
        return r.Enter(data=value, frame_name="grow", is_constant=True)

    enter = r.RefEnter(data=v2, frame_name="grow")
    merge = r.RefMerge(inputs=[enter, enter])[0]
    less = r.Less(x=r.Sum(input=merge, axis=entered([0, 1])), y=entered(9.0))
    left, right = r.RefSwitch(data=merge, pred=r.LoopCond(input=less))
    grown = r.AssignAdd(ref=right, value=entered(np.ones([2, 2], np.float32)))
    merge.op._update_input(1, r.RefNextIteration(data=grown))
    c.step([tf.identity(r.RefExit(data=left))])
    t = r.TemporaryVariable(shape=[2, 2], dtype=tf.float32, var_name="t")
    t = r.AssignAdd(ref=r.Assign(ref=t, value=x), value=x)
    c.step([r.DestroyTemporaryVariable(ref=t, var_name="t")])
    lock = r.MutexLock(mutex=r.MutexV2())
    with tf.control_dependencies([r.ConsumeMutexLock(mutex_lock=lock)]):
        c.step([tf.identity(x, name="locked")])
    h = r.VarHandleOp(dtype=tf.float32, shape=[2, 2], shared_name="h")
    with tf.control_dependencies([r.AssignVariableOp(resource=h, value=x)]):
        plain = r.DisableCopyOnRead(resource=h)
    with tf.control_dependencies([plain]):
        read = r.ReadVariableOp(resource=h, dtype=tf.float32)
    with tf.control_dependencies([read]):
        gone = r.DestroyResourceOp(resource=h, ignore_lookup_error=False)
    with tf.control_dependencies([gone]):
        there = r.VarIsInitializedOp(resource=h)
    c.step([read, there])


@case("function")
def calls(c):
    r = tf.raw_ops
    x = c.input("x", np.float32(1.5))
    n = c.input("n", np.int32(3))

    @Defun(tf.float32)
    def twice(a):
        return a * 2.0

    @Defun(tf.float32)
    def less(a):
        return a - 1.0

    @Defun(tf.float32)
    def small(a):
        return a < 10.0

    @Defun(tf.int32, tf.float32)
    def body(i, a):
        return a + tf.cast(i, tf.float32)

    one = dict(Tout=[tf.float32])
    branches = dict(cond=x > 0.0, input=[x], then_branch=twice,
                    else_branch=less, **one)
    loop = dict(input=[x], cond=small, body=twice)
    cases = dict(branch_index=n, input=[x], branches=[twice, less], **one)
    c.step([*r.PartitionedCall(args=[x], f=twice, **one),
            *r.StatefulPartitionedCall(args=[x], f=less, **one),
            *r.If(**branches), *r.StatelessIf(**branches), *r.While(**loop),
            *r.StatelessWhile(**loop), *r.Case(**cases),
            *r.StatelessCase(**cases),
            *r.For(start=0, limit=n, delta=1, input=[x], body=body),
            *r.SymbolicGradient(input=[x, x * 3.0], f=twice, **one),
            *r.RemoteCall(target="/device:CPU:0", args=[x], f=twice, **one)])
    c.step([*r.If(**branches), *r.Case(**cases)],
           {x: np.float32(-2), n: np.int32(0)})


@case("sparse")
def sparse_maps(c):
    r = tf.raw_ops
    values = c.input("values", c.values(3))
    three = dict(sparse_indices=np.array([[0, 1], [0, 2], [1, 0]]),
                 sparse_values=values, sparse_shape=np.array([2, 4]))
    many = r.AddManySparseToTensorsMap(shared_name="kept", **three)
    with tf.control_dependencies([many]):
        one = r.AddSparseToTensorsMap(
            sparse_indices=np.array([[3]]), sparse_values=values[:1],
            sparse_shape=np.array([4]), shared_name="kept")
    with tf.control_dependencies([one]):
        back = r.TakeManySparseFromTensorsMap(
            sparse_handles=tf.concat([many, [one]], 0), dtype=tf.float32,
            shared_name="kept")
    c.step([*back])

@case("table")
def static_tables(c):
    keys = c.input("keys", np.array([[b"a", b"z"], [b"b", b""]], object),
                   [None, None])
    other = c.input("other", np.array(7, np.int64), ANY)
    raw = tf.raw_ops
    fetches, starts = [], []
    for make, init, find in (
            (raw.HashTable, raw.InitializeTable, raw.LookupTableFind),
            (raw.HashTableV2, raw.InitializeTableV2, raw.LookupTableFindV2)):
        table = make(key_dtype=tf.string, value_dtype=tf.int64)
        starts.append(init(table_handle=table, keys=[b"a", b"b", b"c", b"a"],
                           values=tf.constant([1, -2, 1 << 40, 1], tf.int64)))
        fetches.append(find(table_handle=table, keys=keys,
                            default_value=other))
    sizes = [raw.LookupTableSize(table_handle=fetches[0].op.inputs[0]),
             raw.LookupTableSizeV2(table_handle=fetches[1].op.inputs[0])]
    static = fetches[1].op.inputs[0]
    again = raw.InitializeTableV2(table_handle=static, keys=[b"x", b"y", b"z"],
                                  values=tf.constant([1, 2, 3], tf.int64))
    more = raw.InitializeTableV2(table_handle=static, keys=[b"x"],
                                 values=tf.constant([1], tf.int64))
    twice = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    clash = raw.InitializeTableV2(table_handle=twice, keys=[b"a", b"a"],
                                  values=tf.constant([1, 2], tf.int64))
    no_insert = raw.LookupTableInsertV2(table_handle=static, keys=[b"q"],
                                        values=tf.constant([1], tf.int64))
    no_remove = raw.LookupTableRemoveV2(table_handle=static, keys=[b"a"])
    c.step(fetches[1], error="FailedPreconditionError")
    c.step(sizes)
    c.step(raw.LookupTableExportV2(table_handle=static, Tkeys=tf.string,
                                   Tvalues=tf.int64),
           error="AbortedError")
    c.step(starts)
    c.step(fetches + sizes)
    c.step(fetches, {other: np.array([[1, 2], [3, 4]], np.int64)})
    c.step(fetches[1], {other: np.array([1, 2], np.int64)},
           error="InvalidArgumentError")
    c.step([again])
    c.step([more], error="FailedPreconditionError")
    c.step([clash], error="FailedPreconditionError")
    c.step([no_insert], error="UnimplementedError")
    c.step([no_remove], error="UnimplementedError")
    c.step(fetches + sizes)


@case("table")
def mutable_tables(c):
    keys = c.input("keys", np.array([5, 6, 7], np.int64), ANY)
    values = c.input("values", np.array([1.5, -2.5, 3.5], np.float32), ANY)
    raw = tf.raw_ops
    old = raw.MutableHashTable(key_dtype=tf.int64, value_dtype=tf.float32)
    new = raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)
    insert = [raw.LookupTableInsert(table_handle=old, keys=keys, values=values),
              raw.LookupTableInsertV2(table_handle=new, keys=keys,
                                      values=values)]
    replace = [raw.LookupTableImport(table_handle=old, keys=keys,
                                     values=values),
               raw.LookupTableImportV2(table_handle=new, keys=keys,
                                       values=values)]
    remove = raw.LookupTableRemoveV2(table_handle=new, keys=keys)
    read = [raw.LookupTableFind(table_handle=old, keys=keys, default_value=9.0),
            raw.LookupTableFindV2(table_handle=new, keys=keys,
                                  default_value=9.0),
            raw.LookupTableSize(table_handle=old),
            raw.LookupTableSizeV2(table_handle=new)]
    exported = [raw.LookupTableExport(table_handle=old, Tkeys=tf.int64,
                                      Tvalues=tf.float32),
                raw.LookupTableExportV2(table_handle=new, Tkeys=tf.int64,
                                        Tvalues=tf.float32)]
    # (In which order is not promised.)
    sums = [f(tf.cast(t, tf.float32)) for pair in exported for t in pair
            for f in (tf.reduce_sum, tf.size)]
    init = raw.InitializeTableV2(table_handle=new, keys=keys, values=values)
    c.step(read + sums)
    c.step(insert)
    c.step(read + sums)
    c.step(insert, {keys: np.array([7, 8, 8], np.int64)})
    c.step(read + sums)
    c.step(read, {keys: np.array([[8, 9], [1, 7]], np.int64)})
    c.step([remove], {keys: np.array([5, 99, 5], np.int64)})
    c.step(read + sums)
    c.step(insert, {keys: np.array([5], np.int64)},
           error="InvalidArgumentError")
    c.step([init], error="InvalidArgumentError")
    c.step(replace, {keys: np.array([1, 2, 1], np.int64)})
    c.step(read + sums, {keys: np.array([1, 2, 5], np.int64)})


@case("table")
def tensor_tables(c):
    keys = c.input("keys", np.array([b"a", b"b"], object), ANY)
    values = c.input("values", np.array([[1, 2, 3], [4, 5, 6]], np.int32), ANY)
    other = c.input("other", np.array([7, 8, 9], np.int32), ANY)
    raw = tf.raw_ops
    kind = dict(key_dtype=tf.string, value_dtype=tf.int32, value_shape=[3])
    old = raw.MutableHashTableOfTensors(**kind)
    new = raw.MutableHashTableOfTensorsV2(**kind)
    insert = [raw.LookupTableInsert(table_handle=old, keys=keys, values=values),
              raw.LookupTableInsertV2(table_handle=new, keys=keys,
                                      values=values)]
    remove = raw.LookupTableRemoveV2(table_handle=new, keys=keys)
    read = [raw.LookupTableFind(table_handle=old, keys=keys,
                                default_value=other),
            raw.LookupTableFindV2(table_handle=new, keys=keys,
                                  default_value=other),
            raw.LookupTableSizeV2(table_handle=new)]
    scalar = raw.MutableHashTableOfTensorsV2(key_dtype=tf.string,
                                             value_dtype=tf.int32)
    c.step(read)
    c.step(insert)
    c.step(read, {keys: np.array([b"b", b"c", b"a"], object)})
    c.step(read, {keys: np.array([[b"b"], [b"c"]], object),
                  other: np.arange(6, dtype=np.int32).reshape(2, 1, 3)})
    c.step(read, {keys: np.array(b"b", object)})
    c.step(insert, {keys: np.array(b"k", object),
                    values: np.array([9, 9, 9], np.int32)})
    c.step(read, {keys: np.array([b"k"], object)})
    c.step(read[1], {other: np.array(1, np.int32)},
           error="InvalidArgumentError")
    c.step(insert[1], {values: np.array([[1, 2]], np.int32)},
           error="InvalidArgumentError")
    c.step([remove], {keys: np.array([b"a"], object)})
    c.step(read)
    c.step([raw.LookupTableSizeV2(table_handle=scalar)],
           error="InvalidArgumentError")


@case("table")
def dense_tables(c):
    keys = c.input("keys", np.array([11, 12, 15, 27], np.int64), ANY)
    values = c.input("values", np.array([1, 2, 3, 4], np.int64), ANY)
    raw = tf.raw_ops
    table = raw.MutableDenseHashTableV2(
        empty_key=tf.constant(0, tf.int64),
        deleted_key=tf.constant(-1, tf.int64),
        value_dtype=tf.int64, initial_num_buckets=4)
    insert = raw.LookupTableInsertV2(table_handle=table, keys=keys,
                                     values=values)
    remove = raw.LookupTableRemoveV2(table_handle=table, keys=keys)
    read = [raw.LookupTableFindV2(table_handle=table, keys=keys,
                                  default_value=tf.constant(5, tf.int64)),
            raw.LookupTableSizeV2(table_handle=table)]
    exported = list(raw.LookupTableExportV2(
        table_handle=table, Tkeys=tf.int64, Tvalues=tf.int64))
    wide = raw.MutableDenseHashTableV2(
        empty_key=tf.constant([0, 0], tf.int32),
        deleted_key=tf.constant([1, 1], tf.int32), value_dtype=tf.float32,
        value_shape=[3], initial_num_buckets=8, max_load_factor=0.5)
    pairs = c.input("pairs", np.array([[1, 2], [3, 4]], np.int32), ANY)
    rows = c.input("rows", np.array([[1, 2, 3], [4, 5, 6]], np.float32), ANY)
    insert_rows = raw.LookupTableInsertV2(table_handle=wide, keys=pairs,
                                          values=rows)
    read_rows = [raw.LookupTableFindV2(table_handle=wide, keys=pairs,
                                       default_value=[7.0, 8.0, 9.0]),
                 raw.LookupTableSizeV2(table_handle=wide)]
    exported_rows = list(raw.LookupTableExportV2(
        table_handle=wide, Tkeys=tf.int32, Tvalues=tf.float32))
    names = raw.MutableDenseHashTableV2(
        empty_key="", deleted_key="-", value_dtype=tf.int64,
        initial_num_buckets=8)
    words = c.input("words", np.array([b"one", b"two", b"a longer one"], object),
                    ANY)
    insert_words = raw.LookupTableInsertV2(
        table_handle=names, keys=words, values=tf.constant([1, 2, 3], tf.int64))
    exported_words = list(raw.LookupTableExportV2(
        table_handle=names, Tkeys=tf.string, Tvalues=tf.int64))
    same = raw.MutableDenseHashTableV2(empty_key=1, deleted_key=1,
                                       value_dtype=tf.int32)
    odd = raw.MutableDenseHashTableV2(empty_key=1, deleted_key=2,
                                      value_dtype=tf.int32,
                                      initial_num_buckets=3)
    c.step(read + exported)
    c.step([insert])
    c.step(read + exported)
    c.step([remove], {keys: np.array([12, 99], np.int64)})
    c.step(read)
    c.step([insert], {keys: np.array([2, 11, 40, 41], np.int64)})
    c.step(read + exported)
    for bad in (0, -1):
        c.step([insert], {keys: np.array([1, bad, 2, 3], np.int64)},
               error="InvalidArgumentError")
        c.step(read, {keys: np.array([bad], np.int64)},
               error="InvalidArgumentError")
        c.step([remove], {keys: np.array([bad], np.int64)},
               error="InvalidArgumentError")
    c.step([insert_rows])
    c.step(read_rows + exported_rows)
    c.step(read_rows, {pairs: np.array([[[3, 4]], [[4, 3]]], np.int32)})
    c.step([insert_words])
    c.step(exported_words)
    c.step([raw.LookupTableSizeV2(table_handle=same)],
           error="InvalidArgumentError")
    c.step([raw.LookupTableSizeV2(table_handle=odd)],
           error="InvalidArgumentError")


def main(names):
    here = os.path.dirname(os.path.abspath(__file__))
    unknown = [n for n in names if n not in CASES]
    if unknown:
        sys.exit(f"record.py: expected cases among {', '.join(CASES)}; "
                 f"got {', '.join(unknown)}")
    for name in names or CASES:
        build, tags = CASES[name]
        recorder = Recorder(name, tags)
        graph = tf.Graph()
        with graph.as_default():
            build(recorder)
        nodes, steps = save(recorder, graph, os.path.join(here, name))
        print(f"{name}: {nodes} nodes, {steps} steps")


if __name__ == "__main__":
    main(sys.argv[1:])
