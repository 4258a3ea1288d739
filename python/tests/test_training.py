"""Optimizers, learning rates, moving averages, regularizers, templates."""

import threading
import time

import numpy as np
import pytest
import sluice.compat.v1 as tf


def near(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(got, expected, rtol, atol)


# ---- Optimizers --------------------------------------------------------------


def soft(x, by):
    return np.sign(x) * np.maximum(abs(x) - by, 0)


def adadelta(w, g, s):
    a, u = s.get("a", 0), s.get("u", 0)
    a = 0.9 * a + 0.1 * g * g
    step = np.sqrt(u + 1e-4) / np.sqrt(a + 1e-4) * g
    s["a"], s["u"] = a, 0.9 * u + 0.1 * step * step
    return w - 0.5 * step


def ftrl(w, g, s, l1=0.02, l2=0.1, lr=0.5, shrinkage=0.0, beta=0.0):
    n, z = s.get("n", 0.1), s.get("z", 0)
    shrunk = g + 2 * shrinkage * w
    n2 = n + g * g
    z = z + shrunk - (np.sqrt(n2) - np.sqrt(n)) / lr * w
    s["n"], s["z"] = n2, z
    return np.where(abs(z) > l1, -(z - np.sign(z) * l1) / (
        (beta + np.sqrt(n2)) / lr + 2 * l2), 0)


def proximal(w, g, s):
    return soft(w - 0.5 * g, 0.5 * 0.02) / (1 + 0.5 * 0.1)


def proximal_adagrad(w, g, s):
    s["n"] = s.get("n", 0.1) + g * g
    rate = 0.5 / np.sqrt(s["n"])
    return soft(w - rate * g, rate * 0.02) / (1 + rate * 0.1)


def adagrad_da(w, g, s):
    s["g"], s["n"] = s.get("g", 0) + g, s.get("n", 0.1) + g * g
    s["t"] = s.get("t", 0) + 1
    t = s["t"]
    return -np.sign(s["g"]) * 0.5 * np.maximum(
        abs(s["g"]) - 0.02 * t, 0) / (0.1 * t * 0.5 + np.sqrt(s["n"]))


def centered(w, g, s):
    ms, mg, mom = s.get("ms", 1), s.get("mg", 0), s.get("mom", 0)
    ms, mg = 0.9 * ms + 0.1 * g * g, 0.9 * mg + 0.1 * g
    mom = 0.3 * mom + 0.5 * g / np.sqrt(ms - mg * mg + 0.01)
    s.update(ms=ms, mg=mg, mom=mom)
    return w - mom


LASSO = dict(l1_regularization_strength=0.02, l2_regularization_strength=0.1)
OPTIMIZERS = {
    "Adadelta": (lambda step: tf.train.AdadeltaOptimizer(0.5, 0.9, 1e-4),
                 adadelta, ["Adadelta", "Adadelta_1"]),
    "Ftrl": (lambda step: tf.train.FtrlOptimizer(0.5, **LASSO), ftrl,
             ["Ftrl", "Ftrl_1"]),
    "FtrlV2": (lambda step: tf.train.FtrlOptimizer(
        0.5, **LASSO, l2_shrinkage_regularization_strength=0.05),
               lambda w, g, s: ftrl(w, g, s, shrinkage=0.05),
               ["Ftrl", "Ftrl_1"]),
    "FtrlBeta": (lambda step: tf.train.FtrlOptimizer(0.5, **LASSO, beta=0.3),
                 lambda w, g, s: ftrl(w, g, s, beta=0.3),
                 ["Ftrl", "Ftrl_1"]),
    "ProximalGradientDescent": (
        lambda step: tf.train.ProximalGradientDescentOptimizer(0.5, **LASSO),
        proximal, []),
    "ProximalAdagrad": (
        lambda step: tf.train.ProximalAdagradOptimizer(0.5, **LASSO),
        proximal_adagrad, ["ProximalAdagrad"]),
    "AdagradDA": (
        lambda step: tf.train.AdagradDAOptimizer(0.5, step, **LASSO),
        adagrad_da, ["AdagradDA", "AdagradDA_1"]),
    "CenteredRMSProp": (
        lambda step: tf.train.RMSPropOptimizer(0.5, 0.9, 0.3, 0.01,
                                               centered=True),
        centered, ["RMSProp", "RMSProp_1", "RMSProp_2"])}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_of_optimizers(run, name, resource):
    make, expected, slots = OPTIMIZERS[name]
    start = np.array([1.0, -2.0, 0.1], np.float32)
    grads = [np.array(g, np.float32) for g in ([0.3, 0.1, 0.05],
                                               [-0.2, 0.4, 0.0])]
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    w = tf.Variable(start, name="w", use_resource=resource)
    g = tf.placeholder(tf.float32, [3])
    optimizer = make(step)
    train = optimizer.apply_gradients([(g, w)], global_step=step)
    assert [v.op.name for v in tf.global_variables()] == ["step", "w"] + [
        "w/" + s for s in slots]
    assert [v.op.name for v in optimizer.variables()] == sorted(
        "w/" + s for s in slots)
    run(tf.global_variables_initializer())
    state, value = {}, start.astype(float)
    for grad in grads:
        run(train, {g: grad})
        value = expected(value, grad, state)
        near(run(w), value, 1e-4)
    assert run(step) == 2


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sparse_updates_match_dense_updates(run, name, resource):
    make, expected, _ = OPTIMIZERS[name]
    table = np.array([[1.0, -2.0], [0.5, 0.5], [3.0, 0.1]], np.float32)
    w = tf.Variable(table, use_resource=resource)
    step = tf.constant(0, tf.int64)
    loss = tf.reduce_sum(tf.gather(w, [2, 0]) * [[0.3, 0.1], [-0.2, 0.4]])
    train = make(step).minimize(loss)
    run(tf.global_variables_initializer())
    run(train)
    got = run(w)
    near(got[1], table[1])
    near(got[2], expected(table[2].astype(float), np.array([0.3, 0.1]), {}),
         1e-4)
    near(got[0], expected(table[0].astype(float), np.array([-0.2, 0.4]), {}),
         1e-4)


@pytest.mark.parametrize("resource", [False, True])
def test_adam_for_rows_moves_all_rows(run, resource):
    start = np.array([[1.0, -2.0], [0.5, 0.5], [3.0, 0.1]], np.float32)
    w = tf.Variable(start, use_resource=resource)
    dense = tf.Variable(start, use_resource=resource)
    rows = tf.placeholder(tf.int32, [3])
    values = tf.constant([[0.3, 0.1], [-0.2, 0.4], [0.5, 0.5]])
    # (Their gradients are the same, the first of them as rows.)
    loss = tf.reduce_sum(tf.gather(w, rows) * values) + tf.reduce_sum(
        tf.matmul(tf.one_hot(rows, 3), dense) * values)
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    run(tf.global_variables_initializer())
    for chosen in ([2, 0, 2], [1, 1, 1], [0, 2, 0]):  # Repeated ones add up.
        run(train, {rows: chosen})
        near(run(w), run(dense))


@pytest.mark.parametrize("resource", [False, True])
def test_rows_are_updated_by_tensorflows_ops_that_run_as_one(session,
                                                             resource):
    w = tf.Variable([[1.0], [2.0], [3.0]], use_resource=resource)
    train = tf.train.AdamOptimizer(0.1).minimize(
        tf.reduce_sum(tf.gather(w, [2, 0, 2])))
    ours = {"SparseApplyAdam", "ResourceSparseApplyAdam"}
    assert not ours & {op.type for op in w.graph.get_operations()}
    session.run(tf.global_variables_initializer())
    metadata = tf.RunMetadata()
    session.run(train, options=tf.RunOptions(output_partition_graphs=True),
                run_metadata=metadata)
    run = [node.op for graph in metadata.partition_graphs
           for node in graph.node]
    assert len(ours & set(run)) == 1
    assert not {"ScatterAdd", "ResourceScatterAdd", "Unique"} & set(run)


def test_a_slot_of_a_part_is_a_part_of_the_slot():
    w = tf.get_variable("w", [5, 2],
                        partitioner=tf.fixed_size_partitioner(2))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(
        tf.reduce_sum(tf.nn.embedding_lookup(w, [1, 2])))
    slots = [v for v in tf.global_variables() if "Momentum" in v.op.name]
    assert [(v._save_slice_info.full_name, v._save_slice_info.spec)
            for v in slots] == [("w/Momentum", "5 2 0,3:0,2"),
                                ("w/Momentum", "5 2 3,2:0,2")]


def test_a_slot_of_rows_is_saved_as_a_part_of_the_slot(tmp_path):
    from sluice.training import slot_creator

    def slots(parts):
        w = tf.get_variable("w", [5, 2],
                            partitioner=tf.fixed_size_partitioner(parts))
        made = [slot_creator.create_slot(v, tf.zeros([v.shape[0]]), "rows")
                for v in w]
        single = [slot_creator.create_slot(v, tf.constant(1.0), "single")
                  for v in w]
        assert all(v._save_slice_info is None for v in single)
        return made

    with tf.Graph().as_default(), tf.Session() as session:
        one, two = slots(2)
        assert (one._save_slice_info.full_name, one._save_slice_info.spec) == (
            "w/rows", "5 0,3")
        session.run([one.assign([1, 2, 3]).op, two.assign([4, 5]).op])
        path = tf.train.Saver([one, two]).save(session, str(tmp_path / "w"))
    with tf.Graph().as_default(), tf.Session() as session:
        parts = slots(3)
        tf.train.Saver(parts).restore(session, path)
        assert [v.tolist() for v in session.run(parts)] == [
            [1, 2], [3, 4], [5]]


@pytest.mark.parametrize("resource", [False, True])
def test_overridden_steps_use_the_others_of_the_library(run, resource):
    calls = []

    class Own(tf.train.MomentumOptimizer):
        def _create_slots(self, var_list):
            super()._create_slots(var_list)
            for v in var_list:
                self._zeros_slot(v, "count", "Count")

        def _resource_apply_dense(self, grad, var):
            calls.append("resource")
            counted = self.get_slot(var, "count").assign_add(tf.ones([2]))
            with tf.control_dependencies([counted]):
                return super()._resource_apply_dense(grad * 2.0, var)

        def _apply_dense(self, grad, var):
            calls.append("reference")
            counted = self.get_slot(var, "count").assign_add(tf.ones([2]))
            with tf.control_dependencies([counted]):
                return super()._apply_dense(grad * 2.0, var)

        def _finish(self, update_ops, name_scope):
            calls.append(name_scope)
            return super()._finish(update_ops, name_scope)

    w = tf.Variable([1.0, 2.0], name="w", use_resource=resource)
    optimizer = Own(0.5, 0.9)
    train = optimizer.minimize(tf.reduce_sum(w))
    assert calls == ["resource" if resource else "reference", "Momentum/"]
    assert optimizer.get_slot_names() == ["count", "momentum"]
    assert [v.op.name for v in optimizer.variables()] == ["w/Count",
                                                          "w/Momentum"]
    run(tf.global_variables_initializer())
    run(train)
    near(run(w), [0, 1])
    near(run(optimizer.get_slot(w, "count")), [1, 1])
    near(run(optimizer.get_slot(w, "momentum")), [2, 2])


def test_an_optimizer_keeps_only_its_last_graph():
    import gc
    import weakref
    optimizer = tf.train.AdamOptimizer(0.1)
    seen = []
    for _ in range(3):
        with tf.Graph().as_default() as graph:
            optimizer.minimize(tf.Variable(1.0, name="v") * 2.0)
            assert len(optimizer.variables()) == 4
        seen.append(weakref.ref(graph))
    del graph
    gc.collect()
    assert [g() is None for g in seen] == [True, True, False]
    assert optimizer.get_slot_names() == ["m", "v"]


def test_adam_subclasses_get_distinct_rows(run):
    seen = []

    class Recording(tf.train.AdamOptimizer):
        def _apply_sparse(self, grad, var):
            seen.append(grad.indices)
            return super()._apply_sparse(grad, var)

    w = tf.Variable([1.0, 2.0, 3.0], use_resource=False)
    train = Recording(0.1).minimize(tf.reduce_sum(tf.gather(w, [2, 2, 0])))
    run(tf.global_variables_initializer())
    run(train)
    assert sorted(run(seen[0])) == [0, 2]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("name", ["train", None])
def test_named_train_op_runs_the_whole_step(run, name, counted,
                                                     resource):
    with tf.variable_scope("s", use_resource=resource):
        v = tf.get_variable("v", initializer=1.0,
                            constraint=lambda x: x * 0.5)
        step = tf.train.get_or_create_global_step() if counted else None
    optimizer = tf.train.AdamOptimizer(0.1)
    train = optimizer.minimize(v * v, global_step=step, name=name)
    name = name or "Adam"
    assert train.name == name
    assert v.graph.get_operation_by_name(name + "/learning_rate")
    run(tf.global_variables_initializer())
    for _ in range(3):
        run(v.graph.get_operation_by_name(name))
    power = next(p for p in optimizer.variables() if "beta1" in p.name)
    near(run([power, v]), [0.6561, 0.0494752])
    assert not counted or run(step) == 3


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("make", [
    lambda: tf.train.GradientDescentOptimizer(1.0),
    lambda: tf.train.AdamOptimizer(3.0)])
def test_constraints_hold_after_each_step(run, make, resource):
    with tf.variable_scope("s", use_resource=resource):
        w = tf.get_variable("w", initializer=[1.0, -2.0],
                            constraint=lambda x: tf.clip_by_value(x, 0.0, 2.5))
        free = tf.get_variable("free", initializer=[0.0])
    step = tf.train.create_global_step()
    loss = tf.reduce_sum(w * [-1.0, 4.0]) + free[0]
    train = make().minimize(loss, global_step=step)
    run(tf.global_variables_initializer())
    for i in range(3):
        run(train)
        got = run(w)
        assert got[1] == 0 and 1 < got[0] <= 2.5
        assert run(free)[0] < -i
    assert got[0] == 2.5 and run(step) == 3


def test_constraints_of_rows_are_refused():
    w = tf.Variable([[1.0], [2.0]], constraint=tf.abs)
    loss = tf.reduce_sum(tf.gather(w, [1]))
    with pytest.raises(RuntimeError, match="sparse variable"):
        tf.train.GradientDescentOptimizer(1.0).minimize(loss)


def test_var_list_may_be_dict_values(run):
    w = {"a": tf.Variable(1.0), "b": tf.Variable(2.0)}
    loss = w["a"] * 3.0 + w["b"] * 5.0
    grads = tf.gradients(loss, w.values())
    train = tf.train.GradientDescentOptimizer(1.0).minimize(
        loss, var_list=w.values())
    run(tf.global_variables_initializer())
    assert run(grads) == [3.0, 5.0]
    run(train)
    assert run(w) == {"a": -2.0, "b": -3.0}


def test_optimizer_may_be_used_in_several_graphs():
    optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
    slots = []
    for _ in range(2):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            w = tf.Variable(1.0, name="w")
            assert optimizer.get_slot(w, "momentum") is None
            train = optimizer.minimize(w * 2.0)
            session.run(tf.global_variables_initializer())
            session.run(train)
            assert session.run(w) == 0
            slots.append(optimizer.get_slot(w, "momentum"))
            assert slots[-1].graph is graph
            assert optimizer.variables() == slots[-1:]
    assert optimizer.variables() == []


def test_optimizers_reject_invalid_hyperparameters():
    with pytest.raises(ValueError, match="negative or zero"):
        tf.train.FtrlOptimizer(0.1, learning_rate_power=1.0)
    with pytest.raises(ValueError, match="l1_regularization_strength"):
        tf.train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0)
    with pytest.raises(ValueError, match="must be positive"):
        tf.train.ProximalAdagradOptimizer(0.1, 0.0)


# ---- Learning rates ----------------------------------------------------------


def test_learning_rates(run):
    step = tf.placeholder(tf.int32, [])
    T = tf.train
    cosine = lambda p: 0.5 * (1 + np.cos(np.pi * p))  # noqa: E731
    cases = [
        (T.exponential_decay(1.0, step, 10, 0.5), lambda s: 0.5 ** (s / 10)),
        (T.exponential_decay(1.0, step, 10, 0.5, True),
         lambda s: 0.5 ** (s // 10)),
        (T.natural_exp_decay(1.0, step, 10, 0.5),
         lambda s: np.exp(-0.5 * s / 10)),
        (T.inverse_time_decay(1.0, step, 10, 0.5, True),
         lambda s: 1 / (1 + 0.5 * (s // 10))),
        (T.polynomial_decay(1.0, step, 20, 0.1, 2.0),
         lambda s: 0.9 * (1 - min(s, 20) / 20) ** 2 + 0.1),
        (T.polynomial_decay(1.0, step, 20, 0.1, cycle=True),
         lambda s: 0.9 * (1 - s / (20 * max(1, -(-s // 20)))) + 0.1),
        (T.cosine_decay(1.0, step, 20, 0.2),
         lambda s: 0.8 * cosine(min(s, 20) / 20) + 0.2),
        (T.linear_cosine_decay(1.0, step, 20),
         lambda s: (1 - min(s, 20) / 20) * cosine(min(s, 20) / 20) + 0.001),
        (T.cosine_decay_restarts(1.0, step, 10, t_mul=1.0, m_mul=0.5),
         lambda s: 0.5 ** (s // 10) * cosine(s % 10 / 10)),
        (T.cosine_decay_restarts(1.0, step, 10),
         lambda s: cosine(s / 10 if s < 10 else (s - 10) / 20 if s < 30
                          else (s - 30) / 40)),
        (T.piecewise_constant(step, [5, 25], [1.0, 0.5, 0.1]),
         lambda s: 1.0 if s <= 5 else 0.5 if s <= 25 else 0.1)]
    for rate, expected in cases:
        for s in (0, 3, 10, 17, 28, 45):
            near(run(rate, {step: s}), expected(s), 1e-4, 1e-5)
    with pytest.raises(ValueError, match="global_step is required"):
        T.polynomial_decay(1.0, None, 10)


@pytest.mark.parametrize("make, name", [
    (lambda step: tf.train.exponential_decay(0.1, step, 10, 0.5),
     "ExponentialDecay"),
    (lambda step: tf.train.natural_exp_decay(0.1, step, 10, 0.5, name="rate"),
     "rate"),
    (lambda step: tf.train.inverse_time_decay(0.1, step, 10, 0.5),
     "InverseTimeDecay"),
    (lambda step: tf.train.polynomial_decay(0.1, step, 10), "PolynomialDecay"),
    (lambda step: tf.train.cosine_decay(0.1, step, 10), "CosineDecay/mul_3"),
    (lambda step: tf.train.cosine_decay_restarts(0.1, step, 10), "SGDRDecay"),
    (lambda step: tf.train.linear_cosine_decay(0.1, step, 10),
     "LinearCosineDecay"),
    (lambda step: tf.train.noisy_linear_cosine_decay(0.1, step, 10),
     "NoisyLinearCosineDecay")])
def test_learning_rates_have_tensorflows_names(make, name):
    step = tf.placeholder(tf.int64, [])
    with tf.name_scope("outer"):
        rate, again = make(step), make(step)
    assert rate.op.name == "outer/" + name
    scope, _, last = name.partition("/")
    assert again.op.name == "outer/" + scope + "_1" + (last and "/" + last)
    names = [op.name for op in tf.get_default_graph().get_operations()]
    assert names.count("outer/" + scope + "/learning_rate") == 1


def test_learning_rates_take_tensors_for_numbers(run):
    step, half, two = tf.constant(5), tf.constant(0.5), tf.constant(2.0)
    T = tf.train
    for of_tensors, of_numbers in [
            (T.exponential_decay(1.0, step, 10, half),
             T.exponential_decay(1.0, step, 10, 0.5)),
            (T.polynomial_decay(1.0, step, 10, half, two),
             T.polynomial_decay(1.0, step, 10, 0.5, 2)),
            (T.cosine_decay(1.0, step, 10, half),
             T.cosine_decay(1.0, step, 10, 0.5)),
            (T.cosine_decay_restarts(1.0, step, 3, two, half, half),
             T.cosine_decay_restarts(1.0, step, 3, 2, 0.5, 0.5)),
            (T.linear_cosine_decay(1.0, step, 10, two, half, half),
             T.linear_cosine_decay(1.0, step, 10, 2, 0.5, 0.5))]:
        near(*run([of_tensors, of_numbers]))


def test_rates_of_doubles_decay_as_tensorflows(run):
    # TensorFlow converts 0.9 to a float, and that to a double.
    rate = tf.train.exponential_decay(tf.constant(1.0, tf.float64), 2, 1, 0.9)
    near(run(rate), float(np.float32(0.9)) ** 2, rtol=1e-15, atol=0)


# ---- Moving averages ---------------------------------------------------------


def test_moving_averages_of_variables(run):
    w = tf.Variable(10.0, name="w")
    other = tf.Variable(1.0, name="other", trainable=False)
    ema = tf.train.ExponentialMovingAverage(0.9)
    update = ema.apply()
    average = ema.average(w)
    assert average.op.name == "w/ExponentialMovingAverage"
    assert not average.trainable
    assert ema.average_name(w) == average.op.name
    assert ema.average(other) is None
    assert tf.moving_average_variables() == [w]
    assert ema.variables_to_restore() == {
        "w/ExponentialMovingAverage": w, "other": other}
    run(tf.global_variables_initializer())
    run(w.assign(20.0))
    run(update)
    near(run(average), 0.9 * 10 + 0.1 * 20)
    n = tf.placeholder(tf.int32, [])
    early = tf.train.ExponentialMovingAverage(0.9, num_updates=n, name="early")
    update = early.apply([w])
    run(early.average(w).initializer)
    run(w.assign(0.0))
    run(update, {n: 2})
    near(run(early.average(w)), 20.0 * 3 / 12)
    with pytest.raises(TypeError, match="half, float, or double"):
        ema.apply([tf.Variable(1)])


def test_moving_averages_of_tensors(run):
    x = tf.placeholder(tf.float32, [])
    y = tf.identity(x, name="y")
    plain = tf.train.ExponentialMovingAverage(0.5)
    fair = tf.train.ExponentialMovingAverage(0.5, zero_debias=True,
                                             name="fair")
    one, two = plain.apply([y]), fair.apply([y])
    assert plain.average(y).op.name == "y/ExponentialMovingAverage"
    run(tf.global_variables_initializer(), {x: 0.0})
    seen = []
    for v in (4.0, 8.0):
        run([one, two], {x: v})
        seen.append((run(plain.average(y)), run(fair.average(y))))
    near(seen, [(2, 4), (5, 5 / 0.75)])


# ---- Regularizers, templates, custom gradients -------------------------------


def test_regularizers(run):
    w = tf.constant([1.0, -2.0])
    R = tf.contrib.layers
    near(run(R.l1_regularizer(0.5)(w)), 1.5)
    near(run(R.l2_regularizer(0.5)(w)), 1.25)
    near(run(R.l1_l2_regularizer(0.5, 0.5)(w)), 2.75)
    assert R.l2_regularizer(0.0)(w) is None
    assert R.sum_regularizer([]) is None
    for wrong in (-1.0, 1):
        with pytest.raises(ValueError, match="scale"):
            R.l1_regularizer(wrong)
    near(run(R.apply_regularization(R.l2_regularizer(1.0), [w, w])), 5)
    with tf.variable_scope("s", regularizer=R.l2_regularizer(2.0)):
        v = tf.get_variable("v", [3], initializer=tf.ones_initializer())
        tf.layers.dense(tf.ones([1, 2]), 1, name="d", use_bias=False)
    run(v.initializer)
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(losses) == 3
    near(run(losses[1]), 3)


def test_templates_share_their_variables(run):
    def scaled(x, by):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(2.0))
        return x * w * by

    template = tf.make_template("scale", scaled, by=3.0)
    one, two = template(1.0), template(2.0)
    other = tf.make_template("scale", scaled, by=1.0)(1.0)
    assert [v.op.name for v in tf.global_variables()] == ["scale/w",
                                                          "scale_1/w"]
    run(tf.global_variables_initializer())
    assert run([one, two, other]) == [6, 12, 2]
    assert template.variable_scope_name == "scale"
    assert template.trainable_variables == tf.trainable_variables()[:1]
    early = tf.make_template("early", scaled, create_scope_now_=True)
    assert early.variable_scope_name == "early"


def test_functions_may_define_gradients(run):
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    x = tf.constant(100.0)
    y = log1pexp(x)
    assert run(tf.gradients(y, x)[0]) == 1.0

    @tf.custom_gradient
    def pair(a, b):
        return (a * b, a + b), lambda da, db: (da * 10.0, db * 100.0)

    a, b = tf.constant(2.0), tf.constant(3.0)
    product, total = pair(a, b)
    assert run([product, total]) == [6, 5]
    assert run(tf.gradients(product + total, [a, b])) == [10, 100]

    @tf.custom_gradient
    def short(a, b):
        return a + b, lambda d: d

    with pytest.raises(ValueError, match="expected 2 gradients"):
        tf.gradients(short(a, b), a)


@pytest.mark.parametrize("resource", [False, True])
def test_custom_gradients_cover_variables(run, resource):
    w = tf.Variable(3.0, use_resource=resource)

    @tf.custom_gradient
    def silent(x):
        return x * w, lambda dy: dy

    with pytest.raises(TypeError, match="must accept a 'variables' keyword"):
        silent(tf.constant(2.0))

    @tf.custom_gradient
    def scaled(x):
        def grad(dy, variables=None):
            assert variables == [w]
            return dy * 10.0, [dy * 100.0]
        return x * w, grad

    x = tf.constant(2.0)
    y = scaled(x)
    run(tf.global_variables_initializer())
    assert run([y] + tf.gradients(y, [x, w])) == [6, 10, 100]

    @tf.custom_gradient
    def few(x):
        return x * w, lambda dy, variables: (dy, [])

    with pytest.raises(ValueError, match="gradient for each variable"):
        tf.gradients(few(x), x)


# ---- Threads -----------------------------------------------------------------


def test_threads_end_together():
    coord = tf.train.Coordinator()
    counts = [0, 0]

    def count(i):
        while not coord.should_stop():
            counts[i] += 1
            time.sleep(0.001)
            if counts[0] > 5:
                coord.request_stop()

    threads = [threading.Thread(target=count, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    coord.join(threads)
    assert coord.joined and not any(t.is_alive() for t in threads)
    coord.clear_stop()
    assert not coord.should_stop()


def test_errors_of_threads_are_raised_by_join():
    coord = tf.train.Coordinator()

    def fail():
        with coord.stop_on_exception():
            raise ZeroDivisionError("in a thread")

    thread = threading.Thread(target=fail)
    coord.register_thread(thread)
    thread.start()
    with pytest.raises(ZeroDivisionError, match="in a thread"):
        coord.join()
    clean = tf.train.Coordinator()
    with clean.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "the end")
    clean.join()
    stuck = tf.train.Coordinator()
    never = threading.Event()
    thread = threading.Thread(target=never.wait, daemon=True)
    thread.start()
    stuck.request_stop()
    with pytest.raises(RuntimeError, match="still running"):
        stuck.join([thread], stop_grace_period_secs=0.05)
    never.set()


def test_threads_that_loop():
    coord = tf.train.Coordinator()
    seen = []
    looper = tf.train.LooperThread.loop(coord, 0.001, seen.append, args=(1,))
    while len(seen) < 5:
        time.sleep(0.001)
    coord.request_stop()
    coord.join()
    assert not looper.is_alive()
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread(None, 1)


def test_a_loss_may_be_a_function():
    v = tf.Variable(3.0)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(lambda: v * v)
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(train)
        assert session.run(v) == 0


@pytest.mark.parametrize("shape, dtype, words", [
    ([], tf.float32, "integer type"), ([2], tf.int64, "not scalar")])
def test_invalid_global_step_is_refused(shape, dtype, words):
    tf.get_variable("step", shape, dtype, tf.zeros_initializer(),
                    trainable=False, collections=[tf.GraphKeys.GLOBAL_STEP])
    with pytest.raises(TypeError, match=words):
        tf.train.get_global_step()


def test_slots_are_named_after_their_variables(session):
    from sluice.training import slot_creator
    v = tf.Variable([[-3.0], [0.25]], name="layer/weights")
    slot = slot_creator.create_slot(v, v.initialized_value() * 2.0, "velocity")
    zeros = slot_creator.create_zeros_slot(v, "sums", tf.float64)
    assert slot.op.name == "layer/weights/velocity"
    assert zeros.op.name == "layer/weights/sums"
    session.run(tf.global_variables_initializer())
    near(session.run(slot), [[-6], [0.5]])
    assert session.run(zeros).dtype == np.float64
    assert slot not in tf.trainable_variables()


def test_noisy_rates_stay_near_exact_rates(session):
    step = tf.placeholder(tf.int32, [])
    noisy = tf.train.noisy_linear_cosine_decay(0.1, step, 10,
                                               initial_variance=1e-6)
    plain = tf.train.linear_cosine_decay(0.1, step, 10)
    for at in (0, 4, 12):
        a, b = session.run([noisy, plain], {step: at})
        assert abs(a - b) < 1e-3 and (a != b or at == 12)


def test_piecewise_rates_have_one_type():
    with pytest.raises(ValueError, match="same dtype as x"):
        tf.train.piecewise_constant(tf.constant(1), [1.5], [0.1, 0.2])
    with pytest.raises(ValueError, match="all with the same dtype"):
        tf.train.piecewise_constant(tf.constant(1), [1], [0.1, 2])


def test_weighted_averages_decay(session):
    from sluice.training import moving_averages
    value = tf.placeholder(tf.float32, [])
    weight = tf.placeholder(tf.float32, [])
    average = moving_averages.weighted_moving_average(value, 0.5, weight)
    session.run(tf.global_variables_initializer())
    near(session.run(average, {value: 4, weight: 1}), 4)
    near(session.run(average, {value: 7, weight: 2}), (4 * 0.5 + 14) / 2.5)


def test_manual_global_step_is_found(session):
    v = tf.Variable(3, trainable=False, name="global_step")
    assert tf.train.get_global_step() is v


def test_templates_reject_duplicate_trainable_variables():
    def body(trainable):
        tf.Variable(0.0, trainable=trainable)
        return tf.get_variable("w", [])

    once = tf.make_template("once", body, trainable=True)
    once()
    with pytest.raises(ValueError, match="meant tf.get_variable"):
        once()
    often = tf.make_template("often", body, trainable=False)
    often()
    often()


def test_template_operations_are_named_in_its_scope():
    template = tf.make_template("foo", lambda: tf.constant(1, name="c"),
                                create_scope_now_=True)
    assert [template().name, template().name] == ["foo/c:0", "foo_1/c:0"]


def test_averages_are_named_within_the_creating_scope():
    from sluice.training.moving_averages import assign_moving_average
    with tf.variable_scope("one"):
        v = tf.Variable(1.0, name="v")
        for _ in range(2):
            assign_moving_average(v, 0.0, 0.9)
    with tf.variable_scope("two"):
        average = tf.train.ExponentialMovingAverage(0.9, name="avg")
        assert average.average_name(v) == "two/one/v/avg"
        average.apply([v])
    assert average.average(v).op.name == average.average_name(v)
    names = {x.op.name for x in tf.global_variables()}
    assert {"one/one/v/biased", "one/one/v/biased_1", "one/one/v/local_step",
            "one/one/v/local_step_1", "two/one/v/avg"} < names


def test_gradients_may_be_taken_by_tensors(run):
    x = tf.constant(3.0)
    (g, of), = tf.train.GradientDescentOptimizer(1.0).compute_gradients(
        x * x, [x])
    assert run(g) == 6 and of is x


def test_gate_graph_orders_gradients_by_tensors():
    x, y = tf.constant(3.0), tf.constant(4.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    for gate, waits in ((optimizer.GATE_NONE, False),
                        (optimizer.GATE_GRAPH, True)):
        (gx, _), (gy, _) = optimizer.compute_gradients(x * y, [x, y], gate)
        assert bool(gx.op.control_inputs and gy.op.control_inputs) == waits


def test_custom_gradients_receive_the_given_tensors():
    x, seen = tf.constant(2.0), []

    @tf.custom_gradient
    def f(a, b):
        seen.append(a)
        return a * b, lambda dy: (dy * 3.0, dy * 5.0)

    dx, = tf.gradients(f(x, 4.0), x)
    assert seen == [x]
    with tf.Session() as session:
        assert session.run(dx) == 3.0


def test_averages_are_colocated_with_variables():
    with tf.device("/job:ps"):
        v = tf.Variable(1.0, name="v")
    x = v * 2.0
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.device("/job:worker"):
        average.apply([v, x])
    assert average.average(v).device == "/job:ps"
    assert average.average(x).device == "/job:worker"


def test_slots_are_named_within_the_scopes_around_minimize():
    with tf.variable_scope("outer"):
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        optimizer = tf.train.AdamOptimizer(0.1)
        optimizer.minimize(tf.reduce_sum(v * v))
    assert [x.op.name for x in optimizer.variables()] == [
        "outer/beta1_power", "outer/beta2_power", "outer/outer/v/Adam",
        "outer/outer/v/Adam_1"]


def test_slots_are_created_for_all_variables_together():
    seen = []

    class Own(tf.train.GradientDescentOptimizer):

        def _create_slots(self, var_list):
            seen.append([v.op.name for v in var_list])

    v, w, unused = (tf.get_variable(n, initializer=1.0) for n in "vwu")
    with tf.control_dependencies([tf.no_op(name="before")]):
        Own(0.1).minimize(v * w, var_list=[v, w, unused])
    assert seen == [["v", "w"]]


def test_a_variable_of_unknown_shape_has_slots(run):
    v = tf.Variable(tf.placeholder_with_default([1.0, 2.0], [None]),
                    validate_shape=False)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    train = optimizer.minimize(tf.reduce_sum(v * v))
    run(tf.global_variables_initializer())
    run(train)
    np.testing.assert_allclose(run(optimizer.get_slot(v, "momentum")), [2, 4])


def test_gradients_are_converted_to_tensors(run):
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    train = tf.train.GradientDescentOptimizer(0.5).apply_gradients(
        [(np.ones(2, np.float32), v)])
    run(v.initializer)
    run(train)
    assert run(v).tolist() == [0.5, 1.5]
    with pytest.raises(TypeError, match="must be convertible to a Tensor"):
        tf.train.GradientDescentOptimizer(0.5).apply_gradients([(object(), v)])


def test_global_norm_of_nothing_is_zero(run):
    clipped, norm = tf.clip_by_global_norm([None], 1.0)
    assert clipped == [None] and run(norm) == 0.0
    clipped, _ = tf.clip_by_global_norm([tf.constant([3.0, 4.0])], 1.0)
    assert clipped[0].op.name == (
        "clip_by_global_norm_1/clip_by_global_norm_1/_0")


def test_clipped_slices_keep_their_indices_and_shape(run):
    indices, shape = tf.constant([0, 3]), (4,)
    slices = tf.IndexedSlices(tf.constant([3.0, 4.0]), indices, shape)
    (of_all,), norm = tf.clip_by_global_norm([slices], 1.0)
    for clipped in (of_all, tf.clip_by_norm(slices, 1.0),
                    tf.clip_by_value(slices, 0.0, 1.0)):
        assert clipped.indices is indices and clipped.dense_shape == shape
    near(run(of_all.values), [0.6, 0.8])
    assert run(norm) == 5.0


@pytest.mark.parametrize("clip", [
    lambda: tf.clip_by_value(tf.constant(1.0), [0.0, 0.0], 2.0),
    lambda: tf.clip_by_norm(tf.constant(1.0), [1.0, 2.0])])
def test_limits_that_enlarge_a_tensor_are_refused(clip):
    with pytest.raises(ValueError, match="broadcast to the shape"):
        clip()


def test_the_name_of_an_average_is_within_the_scope():
    v = tf.get_variable("v", initializer=1.0)
    averages = tf.train.ExponentialMovingAverage(0.9)
    with tf.name_scope("scope"):
        assert averages.average_name(v) == (
            "scope/v/ExponentialMovingAverage")


def test_adam_subclasses_see_hyperparameters_as_tensors(session):
    class Slower(tf.train.AdamOptimizer):
        def _prepare(self):
            super()._prepare()
            assert {t.dtype for t in (self._beta1_t, self._beta2_t,
                                      self._epsilon_t)} == {tf.float32}
            self._lr_t = self._lr_t / 10

    v = tf.Variable(1.0)
    train = Slower(0.5).minimize(3 * v)
    session.run(tf.global_variables_initializer())
    session.run(train)
    near(session.run(v), 0.95)


def test_hyperparameters_may_be_numbers(session):
    class Rate(tf.train.GradientDescentOptimizer):
        def _prepare(self):
            self._learning_rate_tensor = 0.5

    class Epsilon(tf.train.AdamOptimizer):
        def _prepare(self):
            super()._prepare()
            self._epsilon_t = 1e-3

    class Betas(tf.train.AdamOptimizer):
        def _prepare(self):
            super()._prepare()
            self._beta1_t, self._lr_t = 0.9, 1

    steps = {}
    for make in (Rate, Epsilon, Betas):
        for resource in (False, True):
            v = tf.Variable(1.0, use_resource=resource)
            steps[v] = make(0.1).minimize(3 * v)
    session.run(tf.global_variables_initializer())
    session.run(list(steps.values()))
    root = 3 * 0.001 ** 0.5  # Of the slot "v".
    near(session.run(list(steps)),
         [-0.5] * 2 + [1 - 0.1 * root / (root + 1e-3)] * 2 + [0.0] * 2,
         1e-4, 1e-4)


def test_slot_dicts_are_those_of_the_optimizer(session):
    class Counting(tf.train.GradientDescentOptimizer):
        def _create_slots(self, var_list):
            for v in var_list:
                slots, key = self._slot_dict("count"), (v.graph, v.op.name)
                if key not in slots:
                    slots[key] = tf.Variable(7.0, trainable=False)

    v = tf.Variable(1.0)
    optimizer = Counting(0.1)
    optimizer.minimize(v)
    optimizer.minimize(v)
    slot = optimizer.get_slot(v, "count")
    session.run(tf.global_variables_initializer())
    assert session.run(slot) == 7
    assert optimizer.get_slot_names() == ["count"]
    assert list(optimizer._slot_dict("count").values()) == [slot]
    assert optimizer.variables() == [slot]
