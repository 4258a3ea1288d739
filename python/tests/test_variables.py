"""Variables, their scopes, and training."""

import os
import runpy
import threading

import numpy as np
import pytest

import sluice.compat.v1 as tf


@pytest.mark.parametrize("resource", [False, True])
def test_variables(run, resource):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=resource)
    assert v.name == "v:0" and v.op.name == "v" and v.shape == [2]
    assert v.dtype.base_dtype is tf.float32
    assert v.dtype is (tf.float32 if resource else tf.float32._as_ref)
    assert v.initializer.name == "v/Assign"
    assert v.initial_value.name == (
        "v/Initializer/initial_value:0" if resource else "v/initial_value:0")
    assert tf.global_variables() == [v] == tf.trainable_variables()
    w = tf.Variable(lambda: tf.zeros([3]), trainable=False,
                    use_resource=resource)
    assert w.name == "Variable:0" and tf.trainable_variables() == [v]
    uninitialised = tf.report_uninitialized_variables()
    assert sorted(run(uninitialised)) == [b"Variable", b"v"]
    run(tf.global_variables_initializer())
    assert list(run(uninitialised)) == []
    np.testing.assert_array_equal(run(v + 1.0), [2, 3])
    np.testing.assert_array_equal(run(2.0 * v), [2, 4])
    np.testing.assert_array_equal(run(v[1:]), [2])
    np.testing.assert_array_equal(run(v.assign([5.0, 6.0])), [5, 6])
    np.testing.assert_array_equal(run(tf.assign_add(v, [1.0, 1.0])), [6, 7])
    np.testing.assert_array_equal(run(v.assign_sub([1.0, 0.0])), [5, 7])
    np.testing.assert_array_equal(run(tf.scatter_update(v, [1], [0.0])),
                                  [5, 0])
    np.testing.assert_array_equal(run(v), [5, 0])
    np.testing.assert_array_equal(run("v:0") if not resource else run(v),
                                  [5, 0])
    np.testing.assert_array_equal(run(tf.gather(v, [1, 0])), [0, 5])
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(tf.placeholder(tf.float32))


def test_variables_in_loops_and_conditionals(run):
    def body(i):
        tf.Variable(1.0, name="inside")
        return i + 1

    assert run(tf.while_loop(lambda i: i < 3, body, [0])) == 3
    inside, = tf.global_variables()
    run(inside.initializer)
    assert run(inside) == 1.0


def test_load_and_eval():
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(v.initializer)
        before = v.graph.version
        v.load([3.0, 4.0], session)
        np.testing.assert_array_equal(v.eval(), [3, 4])
        assert v.graph.version == before


def test_get_variable_shares_by_name(run):
    with tf.variable_scope("a") as scope:
        w = tf.get_variable("w", [2, 3])
        assert w.name == "a/w:0" and scope.name == "a"
        with pytest.raises(ValueError, match=r"a/w already exists.*"
                                             r"test_variables.py:"):
            tf.get_variable("w", [2, 3])
        with tf.variable_scope("b"):
            assert tf.get_variable("w", []).name == "a/b/w:0"
            assert tf.constant(1, name="c").name == "a/b/c:0"
    with tf.variable_scope("a", reuse=True):
        assert tf.get_variable("w", [2, 3]) is w
        assert tf.get_variable("w") is w
        with pytest.raises(ValueError, match="specified shape"):
            tf.get_variable("w", [3, 3])
        with pytest.raises(ValueError, match="nearest: a/w"):
            tf.get_variable("ww", [])
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        assert tf.get_variable("w", [2, 3]) is w
        assert tf.get_variable("new", []).name == "a/new:0"
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        assert tf.constant(1, name="c").name == "a_3/c:0"
    for expected in ("layer", "layer_1"):
        with tf.variable_scope(None, "layer"):
            assert tf.get_variable("w", []).op.name == expected + "/w"


def test_initializers(run):
    tf.set_random_seed(7)
    with tf.variable_scope("s", initializer=tf.constant_initializer(3.0)):
        a = tf.get_variable("a", [2])
        b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
        c = tf.get_variable("c", initializer=tf.constant([9.0]))
    d = tf.get_variable("d", [100, 100])
    i = tf.get_variable("i", [2], tf.int32)
    u = tf.get_variable("u", [1000],
                        initializer=tf.random_uniform_initializer(2, 3))
    n = tf.get_variable("n", [3000],
                        initializer=tf.truncated_normal_initializer(5.0, 0.1))
    run(tf.global_variables_initializer())
    np.testing.assert_array_equal(run(a), [3, 3])
    np.testing.assert_array_equal(run(b), [0, 0])
    np.testing.assert_array_equal(run(c), [9])
    limit = np.sqrt(6.0 / 200)
    assert np.abs(run(d)).max() <= limit and np.abs(run(d)).max() > 0.9 * limit
    np.testing.assert_array_equal(run(i), [0, 0])
    assert 2 <= run(u).min() < 2.1 and 2.9 < run(u).max() < 3
    assert np.abs(run(n) - 5).max() <= 0.2 and abs(run(n).mean() - 5) < 0.02


@pytest.mark.parametrize("make", [
    lambda: tf.zeros_initializer(tf.int32), lambda: tf.ones_initializer(),
    lambda: tf.constant_initializer([1.0, 2.0]),
    lambda: tf.random_uniform_initializer(-1.0, 2.0, seed=1),
    lambda: tf.random_normal_initializer(1.0, 2.0, seed=3),
    lambda: tf.truncated_normal_initializer(1.0, 2.0, dtype=tf.float64),
    lambda: tf.variance_scaling_initializer(2.0, "fan_out", "uniform"),
    lambda: tf.glorot_uniform_initializer(4),
    lambda: tf.glorot_normal_initializer(4),
    lambda: tf.orthogonal_initializer(2.0, 5),
    lambda: tf.uniform_unit_scaling_initializer(3.0)])
def test_initializers_round_trip_through_configs(make):
    one = make()
    config = one.get_config()
    two = type(one).from_config(config)
    assert two.get_config() == config and vars(two) == vars(one)
    assert config["dtype"] == one.dtype.name


def test_configs_of_initializers_name_their_arguments():
    assert tf.random_uniform_initializer(-1.0, 2.0, seed=1).get_config() == {
        "minval": -1.0, "maxval": 2.0, "seed": 1, "dtype": "float32"}
    assert tf.glorot_uniform_initializer(4).get_config() == {
        "seed": 4, "dtype": "float32"}


def test_invalid_scope_name_keeps_default_graph():
    before = tf.get_default_graph()
    other = tf.Graph()
    with other.as_default():
        value = tf.constant(1.0)
    with pytest.raises(ValueError, match="not a valid scope name"):
        with tf.variable_scope("a b", values=[value]):
            pass
    assert tf.get_default_graph() is before


def test_regularizers_and_custom_getters(run):
    asked = []

    def getter(original, name, *args, **kwargs):
        asked.append(name)
        return original(name, *args, **kwargs)

    with tf.variable_scope("s", custom_getter=getter,
                           regularizer=tf.nn.l2_loss):
        tf.get_variable("w", initializer=tf.constant([2.0, 4.0]))
    assert asked == ["s/w"]
    loss, = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    run(tf.global_variables_initializer())
    assert run(loss) == 10.0


def test_custom_getters_receive_keyword_arguments():
    def getter(getter, *args, **kwargs):
        asked.append((args, kwargs))
        return getter(**dict(kwargs, name=kwargs["name"] + "_"))

    asked = []
    with tf.variable_scope("s", custom_getter=getter):
        v = tf.get_variable("v", [2])
        tf.get_variable("w", [2], trainable=False,
                        aggregation=tf.VariableAggregation.SUM)
        tf.get_variable("x", [2],
                        synchronization=tf.VariableSynchronization.ON_READ)
    assert v.name == "s/v_:0"
    assert all(args == () for args, _ in asked)
    assert [k["trainable"] for _, k in asked] == [True, False, False]
    kinds, when = tf.VariableAggregation, tf.VariableSynchronization
    assert [k["aggregation"] for _, k in asked] == [
        kinds.NONE, kinds.SUM, kinds.NONE]
    assert [k["synchronization"] for _, k in asked] == [
        when.AUTO, when.AUTO, when.ON_READ]
    assert {k["reuse"] for _, k in asked} == {False}


@pytest.mark.parametrize("resource", [False, True])
def test_variables_are_updated_and_read_at_coordinates(run, resource):
    v = tf.Variable(np.zeros([2, 2], np.float32), use_resource=resource)
    run(v.initializer)
    assert run(v.scatter_nd_add([[0, 1], [1, 1]], [3.0, 5.0])).tolist() == [
        [0, 3], [0, 5]]
    assert run(v.scatter_nd_sub([[1]], [[1.0, 1.0]])).tolist() == [
        [0, 3], [-1, 4]]
    assert run(v.scatter_nd_update([[0, 0]], [7.0])).tolist() == [
        [7, 3], [-1, 4]]
    assert run(v.gather_nd([[1, 1], [0, 0]])).tolist() == [4, 7]


@pytest.mark.parametrize("resource", [False, True])
def test_variables_report_aggregation_and_synchronization(resource):
    kinds, when = tf.VariableAggregation, tf.VariableSynchronization
    v = tf.Variable(1.0, use_resource=resource)
    assert (v.aggregation, v.synchronization) == (kinds.NONE, when.AUTO)
    w = tf.get_variable("w", [], use_resource=resource, aggregation=kinds.SUM,
                        synchronization=when.ON_READ)
    assert (w.aggregation, w.synchronization) == (kinds.SUM, when.ON_READ)
    assert not w.trainable and w not in tf.trainable_variables()
    assert tf.Variable.from_proto(v.to_proto()).aggregation is kinds.NONE


def test_references_to_the_same_object_are_equal():
    v, x = tf.Variable(1.0), tf.constant(1)
    assert {v.ref(): 1}[v.experimental_ref()] == 1
    assert x.ref() == x.ref() and x.ref() != v.ref()
    assert x.ref().deref() is x and v.ref().deref() is v


def test_threads_have_separate_variable_scopes():
    graph = tf.get_default_graph()
    within, done = threading.Event(), threading.Event()

    def build():
        with graph.as_default(), tf.variable_scope("t"):
            within.set()
            done.wait(10)
            tf.get_variable("v", [])

    thread = threading.Thread(target=build)
    thread.start()
    within.wait(10)
    try:
        assert tf.get_variable("m", []).name == "m:0"
        with tf.variable_scope(None, "t") as scope:
            assert scope.name == "t"
    finally:
        done.set()
        thread.join()
    with tf.variable_scope("t", reuse=True):
        assert tf.get_variable("v").name == "t/v:0"


def test_initializers_may_receive_partition_info():
    def asks(shape, dtype, partition_info):
        told.append(partition_info and partition_info.var_offset)
        return tf.zeros(shape, dtype)

    told = []
    tf.get_variable("a", [4], initializer=asks)
    tf.get_variable("b", [4], initializer=asks,
                    partitioner=tf.fixed_size_partitioner(2))
    tf.get_variable("c", [4], partitioner=tf.fixed_size_partitioner(2),
                    initializer=lambda shape, **k: tf.zeros(shape, **k))
    assert told == [None, [0], [2]]


def test_missing_shape_is_an_error():
    with pytest.raises(ValueError, match="Variable x did not get an "
                       "initializer, so its `shape` argument must be "
                       "specified."):
        tf.get_variable("x")
    with pytest.raises(ValueError, match="initializer passed is not valid"):
        tf.get_variable("x", initializer=tf.zeros_initializer())
    made = tf.get_variable("x", initializer=lambda: [1.0, 2.0])
    assert made.shape.as_list() == [2]


def test_reuse_is_false_by_default():
    with tf.variable_scope("a") as scope:
        assert scope.reuse is False
    with tf.variable_scope(tf.get_variable_scope()) as scope:
        assert scope.reuse is False
    with tf.variable_scope("a", reuse=True):
        with tf.variable_scope("b", reuse=tf.AUTO_REUSE) as scope:
            assert scope.reuse is tf.AUTO_REUSE
        with tf.variable_scope("b", reuse=False) as scope:
            assert scope.reuse is True


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", ["GradientDescent", "Adagrad"])
def test_optimizers_follow_their_formula(run, kind, resource):
    w = tf.Variable([1.0, 2.0], name="w", use_resource=resource)
    table = tf.Variable(np.ones([3, 2], np.float32), name="table",
                        use_resource=resource)
    loss = tf.reduce_sum(w * w) + tf.reduce_sum(
        tf.nn.embedding_lookup(table, [0, 2, 0]) * 3.0)
    step = tf.train.get_or_create_global_step()
    optimizer = getattr(tf.train, kind + "Optimizer")(0.5)
    assert optimizer.minimize(loss, name="other").name == "other"
    train = optimizer.minimize(loss, global_step=step)
    run(tf.global_variables_initializer())
    got, value = run([train, loss])
    assert got is None and value == 5.0 + 18.0
    run(train)
    w0, acc = np.array([1.0, 2.0]), np.full(2, 0.1)
    t0, tacc = np.ones([3, 2]), np.full([3, 2], 0.1)
    rows = np.array([[6.0], [0.0], [3.0]])
    for _ in range(2):
        if kind == "Adagrad":
            acc = acc + (2 * w0) ** 2
            w0 = w0 - 0.5 * 2 * w0 / np.sqrt(acc)
            tacc = tacc + rows ** 2
            t0 = t0 - 0.5 * rows / np.sqrt(tacc)
        else:
            w0 = w0 - 0.5 * 2 * w0
            t0 = t0 - 0.5 * rows
    np.testing.assert_allclose(run(w), w0, rtol=1e-6)
    np.testing.assert_allclose(run(table), t0, rtol=1e-6)
    assert run(step) == 2
    if kind == "Adagrad":
        slot = optimizer.get_slot(w, "accumulator")
        assert slot.name == "w/Adagrad:0" and slot in tf.global_variables()
        assert optimizer.get_slot_names() == ["accumulator"]
        np.testing.assert_allclose(run(slot), acc, rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", ["Momentum", "RMSProp", "Adam"])
def test_fused_optimizers_follow_their_formula(run, kind, resource):
    w = tf.Variable([1.0, 2.0], name="w", use_resource=resource)
    table = tf.Variable(np.ones([3, 2], np.float32), name="table",
                        use_resource=resource)
    loss = tf.reduce_sum(w * w) + tf.reduce_sum(
        tf.nn.embedding_lookup(table, [0, 2]) * 3.0)
    step = tf.train.get_or_create_global_step()
    optimizer = {"Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
                 "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1, 0.8),
                 "Adam": lambda: tf.train.AdamOptimizer(0.1)}[kind]()
    train = optimizer.minimize(loss, global_step=step)
    run(tf.global_variables_initializer())
    x = [np.array([1.0, 2.0]), np.ones([3, 2])]
    a = [np.full_like(v, 1.0 if kind == "RMSProp" else 0.0) for v in x]
    b = [np.zeros_like(v) for v in x]
    touched = [np.ones(2), np.array([[1.0], [0], [1]])]
    for t in range(1, 4):
        run(train)
        grads = [2 * x[0], 3.0 * touched[1] * np.ones([3, 2])]
        for i, g in enumerate(grads):
            on = touched[i]
            if kind == "Momentum":
                a[i] = np.where(on, 0.9 * a[i] + g, a[i])
                x[i] = x[i] - 0.1 * a[i] * on
            elif kind == "RMSProp":
                a[i] = np.where(on, 0.8 * a[i] + 0.2 * g * g, a[i])
                x[i] = x[i] - 0.1 * g / np.sqrt(a[i] + 1e-10)
            else:
                a[i] = 0.9 * a[i] + 0.1 * g
                b[i] = 0.999 * b[i] + 0.001 * g * g
                rate = 0.1 * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
                x[i] = x[i] - rate * a[i] / (np.sqrt(b[i]) + 1e-8)
    np.testing.assert_allclose(run(w), x[0], rtol=1e-5)
    np.testing.assert_allclose(run(table), x[1], rtol=1e-5)
    assert run(step) == 3


def test_clipping_and_learning_rates(run):
    x = tf.constant([3.0, 4.0])
    np.testing.assert_array_equal(run(tf.clip_by_value(x, 0.0, 3.5)), [3, 3.5])
    np.testing.assert_allclose(run(tf.clip_by_norm(x, 1.0)), [0.6, 0.8])
    (a, none, b), norm = tf.clip_by_global_norm([x, None, x * 0.0], 2.5)
    assert none is None and run(norm) == 5.0
    np.testing.assert_allclose(run(a), [1.5, 2.0])
    np.testing.assert_array_equal(run(b), [0, 0])
    step = tf.placeholder(tf.int32, [])
    rate = tf.train.exponential_decay(1.0, step, 10, 0.5, staircase=True)
    assert run(rate, {step: 9}) == 1.0 and run(rate, {step: 20}) == 0.25
    rate = tf.train.piecewise_constant(step, [5, 10], [1.0, 0.5, 0.1])
    got = [run(rate, {step: s}) for s in (5, 6, 11)]
    np.testing.assert_allclose(got, [1.0, 0.5, 0.1])


def test_gradients_may_be_changed_before_applying(run):
    w = tf.Variable(4.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    grads = optimizer.compute_gradients(w * w, [w])
    train = optimizer.apply_gradients([(g * 0.5, v) for g, v in grads])
    run(tf.global_variables_initializer())
    run(train)
    assert run(w) == 0.0
    with pytest.raises(ValueError, match="No gradients provided"):
        optimizer.minimize(tf.constant(1.0))
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="No variables"):
            optimizer.minimize(tf.constant(1.0))


def test_user_defined_optimizer(run):
    class Signed(tf.train.Optimizer):
        def __init__(self, rate):
            super().__init__(False, "Signed")
            self._rate_value = rate

        def _apply_dense(self, grad, var):
            return var.assign_sub(self._rate_value * tf.sign(grad))

    w = tf.Variable([3.0, -3.0])
    train = Signed(0.25).minimize(tf.reduce_sum(w * w))
    run(tf.global_variables_initializer())
    run(train)
    np.testing.assert_array_equal(run(w), [2.75, -2.75])


def test_invalid_optimizer_updates_are_errors(run):
    class Wrong(tf.train.Optimizer):
        def __init__(self, update):
            super().__init__(False, "Wrong")
            self._update = update

        def _apply_dense(self, grad, var):
            return self._update()

    w = tf.Variable(1.0)
    with pytest.raises(TypeError, match="expected an Operation or a Tensor"):
        Wrong(lambda: 5).minimize(w * w)
    with pytest.raises(ZeroDivisionError):
        Wrong(lambda: 1 / 0).minimize(w * w)
    assert run(tf.constant(1)) == 1  # The failure leaves nothing behind.


def test_figure_1_of_the_paper_runs():
    example = os.path.join(os.path.dirname(__file__), "..", "examples",
                           "figure1.py")
    tf.set_random_seed(1)
    result = runpy.run_path(example)
    assert np.isfinite(result["value"]).all()


def test_reentered_scope_keeps_its_reuse():
    with tf.variable_scope("a") as a:
        pass
    with tf.variable_scope("b", reuse=True):
        with tf.variable_scope(a):
            assert tf.get_variable("new", []).op.name == "a/new"
        with pytest.raises(ValueError, match="does not exist"):
            with tf.variable_scope("c"):
                tf.get_variable("new", [])


@pytest.mark.parametrize("use_resource", [False, True])
def test_parts_of_variables_are_assigned(run, use_resource):
    v = tf.Variable([[1, 2, 3], [4, 5, 6]], use_resource=use_resource)
    run(v.initializer)
    np.testing.assert_array_equal(run(v[0, 1:].assign([20, 30])),
                                  [[1, 20, 30], [4, 5, 6]])
    run(v[:, 0].assign(v[:, 2] * 2))
    np.testing.assert_array_equal(run(v), [[60, 20, 30], [12, 5, 6]])
    with pytest.raises(tf.errors.InvalidArgumentError if use_resource
                       else (ValueError, tf.errors.InvalidArgumentError)):
        run(v[0].assign([1, 2]))


def test_a_variable_has_the_type_of_its_first_value():
    assert tf.get_variable("i", initializer=1).dtype.base_dtype is tf.int32
    assert tf.get_variable("d", initializer=tf.constant(
        1.0, tf.float64)).dtype.base_dtype is tf.float64
    f = tf.get_variable("f", dtype=tf.float32, initializer=1)
    assert f.dtype.base_dtype is tf.float32
    with pytest.raises(ValueError, match="explicit dtype .* don't match"):
        tf.get_variable("e", dtype=tf.float32, initializer=tf.constant(1))


def test_variables_are_asserted_to_be_initialized(run):
    v, w = tf.Variable([1, 2]), tf.Variable(3)
    checked = tf.assert_variables_initialized([v])
    run(w.initializer)
    with pytest.raises(tf.errors.FailedPreconditionError, match="Variable"):
        run(checked)
    run(v.initializer)
    assert run(checked) == [1]
    assert run(tf.is_variable_initialized(v._ref()))


def test_scopes_and_collections_list_variables():
    with tf.variable_scope("s", caching_device="/job:worker") as scope:
        v = tf.get_variable("v", [])
        local = tf.get_local_variable("l", [], collections=["more"])
    assert v.value().device == "/job:worker" and v.device == ""
    assert scope.local_variables() == [local] == tf.get_collection("more")
    assert v._shared_name == "s/v"
    with pytest.raises(ValueError, match="custom_getter which is not callable"):
        tf.get_variable("w", [], custom_getter=3)
    with pytest.raises(TypeError, match="auxiliary_name_scope"):
        tf.variable_scope("s", auxiliary_name_scope="no")
    again = tf.Variable(variable_def=v.to_proto())
    assert again.name == v.name and again.initializer is v.initializer


def test_existing_partitions_are_reused():
    half = tf.fixed_size_partitioner(2)
    with tf.variable_scope("s", partitioner=half):
        v = tf.get_variable("v", [3, 2])
        w = tf.get_variable("w", initializer=np.arange(3, dtype=np.int32))
    assert v.as_tensor().name == "s/v:0"
    assert [p._save_slice_info.spec for p in v] == [
        "3 2 0,2:0,2", "3 2 2,1:0,2"]
    assert [p.dtype.base_dtype for p in w] == [tf.int32] * 2
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("v") is v
        assert tf.get_variable("v", [3, 2], partitioner=half) is v
        with pytest.raises(ValueError, match="found partitions"):
            tf.get_variable("v", [3, 2],
                            partitioner=tf.fixed_size_partitioner(3))


def test_references_convert_to_their_value_type():
    v = tf.Variable(1.0)
    assert tf.convert_to_tensor(v._ref(), tf.float32) is v._ref()
    with pytest.raises(ValueError, match="conversion requested"):
        tf.convert_to_tensor(v._ref(), tf.int32)


def test_random_initializers_require_floats():
    for initializer in (tf.random_normal_initializer,
                        tf.truncated_normal_initializer,
                        tf.orthogonal_initializer,
                        tf.uniform_unit_scaling_initializer,
                        tf.variance_scaling_initializer):
        with pytest.raises(ValueError, match="Expected floating point type"):
            initializer(dtype=tf.string)
    with pytest.raises(TypeError, match="Invalid type for initial value"):
        tf.constant_initializer(tf.constant(1))


def test_raw_reference_variables(run):
    from sluice.ops import variables
    v = variables.variable_op_v2([2], tf.float32)
    assert run(tf.assign(v, [1.0, 2.0])).tolist() == [1, 2]
    assert run(tf.assign_add(v, [1.0, 1.0])).tolist() == [2, 3]
    unknown = variables.variable_op([2], tf.float32, set_shape=False)
    assert unknown.shape.ndims is None


def test_optimizer_variables_belong_to_the_current_graph():
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.minimize(tf.Variable(1.0, name="v") * 2.0)
    with tf.Graph().as_default():
        assert optimizer.variables() == []
        optimizer.minimize(tf.Variable(1.0, name="w") * 2.0)
        assert [v.name for v in optimizer.variables()] == ["w/Momentum:0"]
    assert [v.name for v in optimizer.variables()] == ["v/Momentum:0"]


def test_variables_of_half_floats_are_trained_by_raw_ops(run):
    v, a = (tf.Variable(np.ones(2, np.float16)) for _ in range(2))
    run([v.initializer, a.initializer])
    out = run(tf.raw_ops.ApplyAdagrad(var=v, accum=a, lr=np.float16(1),
                                      grad=np.ones(2, np.float16)))
    assert out.dtype == np.float16 and (out < 1).all()


def test_default_names_continue_after_unnamed_scopes():
    def name():
        with tf.variable_scope(None, "layer") as scope:
            return scope.name

    with tf.variable_scope(""):
        assert name() == "layer"
    assert name() == "layer_1"
    with tf.variable_scope("a") as a:
        assert name() == "a/layer"
        with tf.variable_scope(a):
            assert name() == "a/layer_1"
        assert name() == "a/layer_1"
    with tf.variable_scope(a):
        assert name() == "a/layer"
    with tf.variable_scope("a"):
        assert name() == "a/layer"


def test_sum_on_read_variables_are_not_trainable():
    on_read = tf.VariableSynchronization.ON_READ
    assert not tf.get_variable("v", [], synchronization=on_read).trainable
    # As in TensorFlow, an explicit argument takes precedence.
    assert tf.get_variable("w", [], trainable=True,
                           synchronization=on_read).trainable


def test_initial_values_may_depend_on_other_variables():
    v = tf.Variable(2.0, name="v")
    w = tf.Variable(v * 3.0, name="w")
    x = tf.get_variable("x", initializer=lambda: w + v)
    assert x.initial_value.op.type.startswith("Add")
    with tf.Session() as session:  # Initializers run in any order.
        session.run(tf.global_variables_initializer())
        assert session.run([v, w, x]) == [2, 6, 8]
    with tf.Session() as session:
        session.run(x.initializer)
        assert session.run(x) == 8
        assert list(session.run(tf.report_uninitialized_variables())) == [
            b"v", b"w"]
    with tf.Session() as session:  # Existing values take precedence.
        session.run(v.initializer)
        session.run(v.assign(10.0))
        session.run(w.initializer)
        assert session.run(w) == 30


def test_resources_use_initial_values_of_other_variables():
    v = tf.Variable(2.0, name="v")
    w = tf.Variable(v * 3.0, name="w", use_resource=True)
    with tf.Session() as session:
        session.run(w.initializer)
        assert session.run(w) == 6
        session.run(v.initializer)
        session.run(v.assign(10.0))
        session.run(w.initializer)
        assert session.run(w) == 30


def test_independent_initial_values_are_not_copied():
    v = tf.Variable(tf.random_normal([2]), name="v")
    assert v.initializer.inputs[1] is v.initial_value
    w = tf.Variable(v.initialized_value(), name="w")
    assert w.initializer.inputs[1] is w.initial_value


def test_scope_or_program_selects_resource_variables():
    assert not tf.resource_variables_enabled()
    with tf.variable_scope("a", use_resource=True):
        assert tf.Variable(1.0).dtype is tf.float32
        assert tf.Variable(1.0, use_resource=False).dtype._is_ref_dtype
    tf.enable_resource_variables()
    try:
        assert tf.resource_variables_enabled()
        assert tf.Variable(1.0).dtype is tf.float32
        assert tf.get_variable("b", []).dtype is tf.float32
        with tf.variable_scope("c", use_resource=False):
            assert tf.get_variable("d", []).dtype._is_ref_dtype
    finally:
        tf.disable_resource_variables()
    assert tf.Variable(1.0).dtype._is_ref_dtype


def test_resource_variables_have_their_own_class():
    made = [tf.Variable(1.0, use_resource=True),
            tf.get_variable("x", [], use_resource=True)]
    assert {type(v).__name__ for v in made} == {"ResourceVariable"}
    assert type(tf.Variable(1.0)) is tf.Variable


def test_custom_getters_may_leave_open_whether_a_variable_exists():
    def suffixed(getter, name, *args, **kwargs):
        getter(name, *args, **kwargs)
        kwargs["reuse"] = None
        return getter(name + "_more", *args, **kwargs)

    for reuse in (None, True):
        with tf.variable_scope("a", custom_getter=suffixed, reuse=reuse):
            assert tf.get_variable("x", []).op.name == "a/x_more"
    with pytest.raises(ValueError, match="already exists"):
        with tf.variable_scope("a", custom_getter=suffixed):
            tf.get_variable("x", [])
    assert len(tf.global_variables()) == 2


def test_an_empty_regularizer_is_none():
    tf.get_variable("x", [], regularizer={})
    assert not tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)


def test_optimizers_have_optimizer_as_their_base():
    """Programs check `__base__`."""
    for name in dir(tf.train):
        made = getattr(tf.train, name, None)
        if name.endswith("Optimizer") and made is not tf.train.Optimizer:
            assert made.__base__ is tf.train.Optimizer, name


def test_global_steps_are_asserted():
    assert_global_step = tf.train.assert_global_step
    assert_global_step(tf.constant(1))
    assert_global_step(tf.train.create_global_step())
    for wrong, words in ((1, "must be a Variable or Tensor"),
                         (tf.constant(1.0), "integer type"),
                         (tf.constant([1]), "not scalar")):
        with pytest.raises(TypeError, match=words):
            assert_global_step(wrong)


def test_partitioned_variable_requires_partitions():
    from sluice.ops.partitioned import PartitionedVariable
    v = tf.Variable([0.0])
    for parts, partitions, error, words in (
            ([], [], ValueError, "may not be empty"),
            ([v], [0], ValueError, "must be positive"),
            (v, [1], TypeError, "variable_list is not a list"),
            ([v], 1, TypeError, "partitions is not a list")):
        with pytest.raises(error, match=words):
            PartitionedVariable("v", [1], tf.float32, parts, partitions)


def test_resource_variables_may_have_any_initial_shape(session):
    zeros = tf.placeholder_with_default(tf.zeros([2, 3]), shape=None)
    v = tf.Variable(zeros, use_resource=True)
    assert v.shape.ndims is None
    session.run(v.initializer)
    assert session.run(v).shape == (2, 3)
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(zeros, use_resource=False)


def test_resource_has_static_shape_of_initial_value():
    vector = tf.placeholder(tf.float32, [None])
    for validate in (True, False):
        v = tf.Variable(vector, validate_shape=validate, use_resource=True)
        assert v.shape.as_list() == [None]
    with pytest.raises(ValueError, match="must have a shape"):
        tf.Variable(vector)


def test_caching_device_places_resource_reads(run):
    v = tf.Variable(1.0, caching_device="/cpu:0", use_resource=True)
    assert v.value() is v.value() and v.value().device == "/device:CPU:0"
    with pytest.raises(TypeError):
        bool(v)
    assert not run(v.is_initialized())
    run(v.initializer)
    assert run(v.is_initialized()) and run(v + 1.0) == 2.0


def test_initializer_must_return_requested_shape():
    def wrong(shape, dtype=None, partition_info=None):
        return tf.zeros([3])
    with pytest.raises(ValueError, match="gives shape"):
        tf.get_variable("v", [2], initializer=wrong)


def test_constraints_are_not_inherited_by_inner_scopes():
    with tf.variable_scope("a", constraint=tf.abs):
        assert tf.get_variable("v", [1]).constraint is tf.abs
        with tf.variable_scope("b"):
            assert tf.get_variable("v", [1]).constraint is None


def test_invalid_reuse_and_partitioners_are_errors():
    with pytest.raises(ValueError, match="reuse"):
        tf.variable_scope("a", reuse="yes")
    with pytest.raises(ValueError, match="name_or_scope"):
        tf.variable_scope(None, "a", reuse=True)
    for partitioner, error in ((3, "callable"),
                               (lambda shape, dtype: 3, "sequence"),
                               (lambda shape, dtype: [3], "for axis 0")):
        with pytest.raises(ValueError, match=error):
            tf.get_variable("v", [2], partitioner=partitioner)


def test_initial_values_may_be_read_in_a_branch(session):
    # A branch gets the variable as a reference.
    v = tf.Variable(tf.random_uniform([2]))
    w = tf.Variable(tf.cond(tf.is_variable_initialized(v), v.read_value,
                            lambda: v.initial_value))
    session.run(tf.global_variables_initializer())
    v, w = session.run([v, w])
    assert (v == w).all()


def test_initial_value_functions_run_on_the_variables_device(run):
    seen = []

    def choose(op):
        seen.append(op.type)
        return "/device:CPU:0" if op.type == "VariableV2" else ""
    with tf.device(choose):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    assert seen[0] == "VariableV2" and v.device == "/device:CPU:0"
    first = v.initial_value.op
    assert first.name.startswith("v/Initializer/") and not first.device
    assert first.colocation_groups() == [b"loc:@v"]
    assert run(v.initial_value).tolist() == [1, 1]
    run(v.initializer)
    assert run(v).tolist() == [1, 1]


def test_partitioned_variables_are_assigned_per_partition(session):
    v, w = (tf.get_variable(name, initializer=np.float32([first, first + 1]),
                            partitioner=tf.fixed_size_partitioner(2))
            for name, first in (("v", 1), ("w", 5)))
    session.run(tf.global_variables_initializer())
    session.run(v.assign([tf.constant([7.0]), tf.constant([8.0])]))
    assert session.run(tf.convert_to_tensor(v)).tolist() == [7, 8]
    session.run(v.assign_add(w))
    assert session.run(tf.convert_to_tensor(v)).tolist() == [12, 14]
    with pytest.raises(ValueError, match="expected a list of 2, one a part"):
        v.assign([tf.constant([7.0])])


def test_parts_are_read_without_control_dependencies():
    v = tf.get_variable("v", [4], partitioner=tf.fixed_size_partitioner(2))
    graph = tf.get_default_graph()
    with tf.control_dependencies([tf.no_op(name="before")]):
        for read, waits in ((v.as_tensor, False), (v._concat, True)):
            known = len(graph.get_operations())
            read()
            made = graph.get_operations()[known:]
            assert made and any(op.control_inputs for op in made) == waits
