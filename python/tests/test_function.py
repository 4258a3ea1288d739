"""Python functions as functions of the graph: tf.function."""

import gc

import numpy as np
import pytest

import sluice.compat.v1 as tf


def run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


def test_functions_take_and_return_structures():
    @tf.function
    def both(x, pair, scale=2.0, *, more=None):
        """Some of both."""
        return {"x": x * scale, "rest": (pair[0] - pair[1], more, None)}

    a = tf.constant([1.0, 2.0])
    made = both(a, (a, np.float32(1)), more=np.ones(2, np.float32))
    assert made["rest"][2] is None and both.__doc__ == "Some of both."
    assert made["x"].op.type.startswith("__inference_both_")
    x, rest, more = run([made["x"], *made["rest"][:2]])
    np.testing.assert_array_equal([x, rest, more], [[2, 4], [0, 1], [1, 1]])


def test_bodies_are_traced_once_per_signature():
    calls = []

    @tf.function
    def traced(x, how="a"):
        calls.append((x.shape.as_list(), how))
        return x + 1

    one, two = tf.zeros([1]), tf.zeros([2])
    for x, how in ((one, "a"), (one, "a"), (two, "a"), (one, "b"),
                   (one + 1.0, "a")):
        traced(x, how)
    assert calls == [([1], "a"), ([2], "a"), ([1], "b")]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def signed(x):
        calls.append(x)
        return tf.reduce_sum(x)

    del calls[:]
    assert run([signed([1, 2]), signed(one + 3.0)]) == [3, 3]
    assert len(calls) == 1
    with pytest.raises(ValueError, match="expected the shape"):
        signed([[1.0]])


def test_unhashable_arguments_are_distinguished():
    @tf.function
    def counted(x, which):
        return x * len(which)

    # Each set is freed before the next, which may have the same address.
    found = []
    for n in range(9):
        found.append(counted(1.0, set(range(n))))
        gc.collect()
    assert run(found) == list(range(9))


def test_updates_run_in_program_order():
    v = tf.Variable(1.0, use_resource=True)

    @tf.function
    def step(by):
        before = v.read_value()
        v.assign_add(by)
        between = v.read_value()
        v.assign(v * 2.0)
        return before, between, v.read_value()

    with tf.Session() as session:
        session.run(v.initializer)
        made = step(tf.constant(3.0))
        assert session.run(made) == (1, 4, 8)
        assert session.run(made[1]) == 11
        assert session.run(v) == 22


def _add_one_in_a_loop(v):
    def body(i):
        v.assign_add(1.0)
        return i + 1

    tf.while_loop(lambda i: i < 5, body, [0])
    return v.read_value()


def _read_in_a_loop(v):
    v.assign(5.0)
    _, total = tf.while_loop(lambda i, t: i < 3,
                             lambda i, t: (i + 1, t + v.read_value()),
                             [0, 0.0])
    v.assign(7.0)
    return total


def _read_in_a_branch(v):
    v.assign(5.0)
    doubled = tf.cond(v.read_value() > 1.0, lambda: v.read_value() * 2.0,
                      lambda: 0.0)
    v.assign(7.0)
    return doubled


def _change_in_branches(v):
    first = v.read_value()
    tf.cond(first > 0.0, lambda: v.assign_add(10.0), lambda: v.assign(0.0))
    second = v.read_value()
    tf.cond(second < 0.0, lambda: v.assign(0.0), lambda: v.assign_add(10.0))
    third = v.read_value()
    v.assign(v * 2.0)
    return tf.stack([first, second, third, v.read_value()])


def _several_in_a_branch(v):
    def taken():
        v.assign(3.0)
        v.assign(v * 2.0)
        found = v.read_value()
        v.assign(0.0)
        return found

    return tf.cond(v.read_value() > 0.0, taken, lambda: -1.0)


def _loops_in_branches_in_a_loop(v):
    def double(j):
        v.assign(v * 2.0)
        return j + 1

    def grow(j):
        v.assign_add(1.0)
        return j + 1

    def body(i):
        tf.cond(tf.equal(i % 2, 0),
                lambda: tf.while_loop(lambda j: j < 2, double, [0]),
                lambda: tf.while_loop(lambda j: j < 1, grow, [0]))
        v.assign(v + 100.0)
        return i + 1

    tf.while_loop(lambda i: i < 4, body, [0])
    last = v.read_value()
    v.assign(0.0)
    return last


@pytest.mark.parametrize("program, result, after", [
    (_add_one_in_a_loop, 6, 6), (_read_in_a_loop, 15, 7),
    (_read_in_a_branch, 10, 7), (_change_in_branches, [1, 11, 21, 42], 42),
    (_several_in_a_branch, 6, 0), (_loops_in_branches_in_a_loop, 1021, 0)],
                         ids=lambda p: getattr(p, "__name__", None))
def test_loops_and_branches_run_in_program_order(program, result, after):
    v = tf.Variable(1.0, use_resource=True)
    made = tf.function(lambda: program(v))()
    with tf.Session() as session:
        for _ in range(5):
            session.run(v.initializer)
            np.testing.assert_array_equal(session.run(made), result)
            assert session.run(v) == after


def test_python_functions_run_in_program_order():
    seen = []

    def note(x, what):
        tf.py_func(lambda x: seen.append((what, float(x))), [x], [])

    @tf.function
    def inner(x):
        note(x, "inner")

    v = tf.Variable(1.0, use_resource=True)

    @tf.function
    def outer(x):
        for i in range(5):
            note(x, i)
        inner(x)
        v.assign_add(1.0)
        inner(v)
        note(x, "last")
        return x

    run(outer(tf.constant(7.0)))
    assert seen == [(i, 7) for i in (0, 1, 2, 3, 4, "inner")] + [
        ("inner", 2), ("last", 7)]


def test_methods_variables_and_gradients():
    class Layer:
        def __init__(self):
            self.w = None

        @tf.function
        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable(3.0, use_resource=True)
            return x * self.w

    layer = Layer()
    x = tf.placeholder(tf.float32)
    y = layer(x) + layer(x)
    assert [v.graph for v in tf.global_variables()] == [x.graph]
    grads = tf.gradients(y, [x, layer.w])
    assert run([y] + grads, {x: 2.0}) == [12, 6, 4]

    @tf.function
    def makes(x):
        return x + tf.Variable(1.0, use_resource=True)

    makes(tf.zeros([1]))
    with pytest.raises(ValueError, match="variables on non-first call"):
        makes(tf.zeros([2]))


def test_functions_may_contain_loops_and_branches():
    @tf.function
    def collatz(n):
        return tf.while_loop(
            lambda n, i: n > 1,
            lambda n, i: (tf.cond(tf.equal(n % 2, 0), lambda: n // 2,
                                  lambda: 3 * n + 1), i + 1), (n, 0))[1]

    assert run([collatz(6), collatz(7)]) == [8, 16]
    assert run(collatz(tf.constant(6))) == 8


def test_operations_of_bodies_run_after_outer_ones():
    v = tf.Variable(1.0, use_resource=True)
    changed = v.assign(5.0)

    @tf.function
    def after(x):
        @tf.function
        def inner():
            with tf.control_dependencies([changed.op]):
                return v.read_value()
        with tf.control_dependencies([changed]):
            now = v.read_value()
        return inner() + 10.0 * now + x

    y = after(1.0)
    looped = tf.while_loop(lambda i, _: i < 2,
                           lambda i, s: (i + 1, s + after(1.0)), [0, 0.0])[1]
    with tf.Session() as session:
        for fetch, want in ((y, 56), (looped, 112)):
            session.run(v.initializer)
            assert session.run(fetch) == want
    with tf.Graph().as_default():
        elsewhere = tf.no_op()

    @tf.function
    def wrong():
        with tf.control_dependencies([elsewhere]):
            return tf.constant(1)

    with pytest.raises(ValueError, match="is not an element of this graph"):
        wrong()


@pytest.mark.parametrize("define", [tf.Defun(tf.float32), tf.function])
def test_bodies_may_define_custom_gradients(define):
    @tf.custom_gradient
    def squared(x):
        doubled = x + x  # Only the gradient uses it.
        return x * x, lambda dy: 10.0 * dy * doubled

    @define
    def once(x):
        return squared(x)

    @define
    def twice(x):
        return tf.while_loop(lambda i, _: i < 2,
                             lambda i, x: (i + 1, squared(once(x))),
                             [0, x])[1]

    @define
    def inside(x):
        return tf.gradients(squared(x), x)[0]

    x = tf.constant(3.0)
    y = once(x)
    dx, = tf.gradients(y, x)
    gc.collect()
    assert run([y, dx] + tf.gradients(dx, x)) == [9, 60, 20]
    one = tf.constant(1.0)
    assert run(tf.gradients(twice(one), one)) == [20.0 ** 4]
    assert run(inside(x)) == 60


@pytest.mark.parametrize("resource", [False, True])
def test_custom_gradients_in_bodies_cover_variables(resource):
    w = tf.Variable(3.0, use_resource=resource)

    @tf.custom_gradient
    def scaled(x, n):
        def grad(dy, d_n, variables=None):
            assert variables == [w] and d_n is None
            return [dy * 10.0, None], [dy * 100.0]
        return (x * w, n), grad

    x = tf.constant(2.0)
    y, n = tf.function(scaled)(x, tf.constant(7))
    assert run([y, n] + tf.gradients(y, [x, w])) == [6, 7, 10, 100]
    assert tf.gradients(y, n) == [None]


def test_custom_gradients_of_structures_have_their_leaves():
    @tf.custom_gradient
    def split(pair, rest):
        assert type(pair) is tuple and rest["none"] == []

        def grad(*dys):
            assert len(dys) == 2
            return [dys[0] * 10.0, (dys[1] * 100.0,)], tf.constant(7.0)
        return {"sum": pair[0] + pair[1][0], "more": [(), rest["x"] * 2.0]}, grad

    x, y, z = (tf.constant(v) for v in (1.0, 2.0, 3.0))
    made = split((x, [y]), {"x": z, "none": []})
    assert set(made) == {"sum", "more"} and made["more"][0] == ()
    # (The leaves of a dictionary are in the order of its keys.)
    grads = tf.gradients([made["more"][1], made["sum"]], [x, y, z], [3.0, 1.0])
    assert run([made["sum"], made["more"][1], *grads]) == [3, 6, 30, 100, 7]


def test_methods_may_have_custom_gradients():
    class Model:
        factor = 3.0

        @tf.custom_gradient
        def scaled(self, x):
            """Scales."""
            return x * self.factor, lambda dy: dy * 10.0 * self.factor

    x = tf.constant(2.0)
    y = Model().scaled(x)
    assert run([y] + tf.gradients(y, x)) == [6, 30]
    assert Model.scaled.__doc__ == "Scales."


@pytest.mark.parametrize("define", [tf.Defun(), tf.function])
@pytest.mark.parametrize("first", [True, False])
def test_templates_share_variables_with_bodies(define, first):
    made = []

    def model(x):
        made.append(tf.get_variable("w", [], use_resource=True,
                                    initializer=tf.ones_initializer()))
        return x * made[-1]

    with tf.variable_scope("around"):
        template = tf.make_template("f", model, create_scope_now_=True)
    uses = [define(lambda x: template(x)), template]
    with tf.variable_scope("elsewhere"):
        x = tf.constant(2.0)
        ys = [use(x) for use in (uses if first else uses[::-1])]
    assert made[0] is made[1] and made[0].name == "around/f/w:0"
    assert tf.global_variables() == made[:1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(ys + tf.gradients(ys, made[0])) == [2, 2, 4]


def test_graph_defs_do_not_carry_custom_gradients():
    x = tf.constant(3.0)
    y = tf.custom_gradient(lambda x: (x * x, lambda dy: dy))(x)
    definition = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        x, y = tf.import_graph_def(definition, return_elements=[x.name, y.name])
        with pytest.raises(LookupError, match="custom_gradient: expected .* got"
                           " none; node 'import/IdentityN'"):
            tf.gradients(y, x)


@pytest.mark.parametrize("returned", [
    lambda x: x * 2.0, lambda x: (x, x), lambda x: (x, x, lambda dy: dy)])
def test_a_function_with_a_gradient_returns_a_pair(returned):
    with pytest.raises(TypeError, match=r"custom_gradient: expected a pair "
                       r"\(result, function of its gradients\) of .*, got .*"
                       "Tensor"):
        tf.custom_gradient(returned)(tf.constant(1.0))


def test_a_function_without_results_is_an_operation():
    v = tf.Variable(1.0, use_resource=True)
    op = tf.function(lambda: v.assign(5.0, read_value=False))()
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(op)
        assert session.run(v) == 5


def test_functions_call_each_other():
    @tf.function
    def square(x):
        return x * x

    @tf.function
    def more(x):
        return square(x) + square(x + 1.0)

    assert run(more(tf.constant(2.0))) == 13.0


# ---- Wrapped graphs ----------------------------------------------------------


def _updates(x, do_add):
    v = tf.Variable(5.0, name="v")
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    tf.print("never", output_stream="file:///nowhere/at/all")
    op = v.assign_add(x) if do_add else v.assign_sub(x)
    tf.no_op(name="nothing")
    with tf.control_dependencies([op]):
        return {"v": v.read_value(), "xw": tf.multiply(x, w, name="xw"),
                "w": w, "none": None}


def test_graphs_are_wrapped_as_functions(session):
    add = tf.wrap_function(_updates, [tf.TensorSpec((), tf.float32), True])
    subtract = tf.wrap_function(_updates, [tf.TensorSpec((), tf.float32),
                                           False], name="less")
    assert [v.op.name for v in add.variables] == ["v", "w"]
    assert [v.op.name for v in subtract.variables] == ["v_1", "w_1"]
    assert add.graph.get_collection("variables") == list(add.variables)
    assert [t.dtype for t in add.inputs] == [tf.float32, tf.resource,
                                             tf.resource]
    assert len(add.captured_inputs) == 2 and len(add.outputs) == 3
    assert add.structured_outputs["none"] is None
    session.run(tf.global_variables_initializer())
    made = add(2.0)
    assert made["none"] is None
    assert session.run([made["v"], made["xw"], made["w"]]) == [7.0, 2.0, 1.0]
    assert session.run(subtract(1.0)["v"]) == 4.0
    assert session.run(add.variables[0]) == 7.0
    with pytest.raises(ValueError, match=r"Expected shape \(\), but got"):
        add([1.0, 2.0])
    with pytest.raises(NotImplementedError, match="Keyword arguments"):
        add(x=1.0)
    with pytest.raises(TypeError, match="expected 1 arguments, got 0"):
        add()
    with pytest.raises(TypeError, match="got the operation 'NoOp'"):
        tf.wrap_function(lambda: tf.no_op(), [])


def test_wrapped_graphs_can_be_pruned_to_functions(session):
    add = tf.wrap_function(_updates, [tf.TensorSpec((), tf.float32, "x"), True])
    session.run(tf.global_variables_initializer())
    product = add.prune("x:0", "xw:0")
    assert session.run(product(tf.constant(4.0))) == 4.0
    assert session.run(product(x=3.0)) == 3.0
    # The read still waits for the assignment.
    assert session.run(add.variables[0]) == 12.0
    assert product.structured_outputs.name == "xw:0"
    whole = add.prune(add.inputs, {"all": add.outputs})
    assert session.run(whole(1.0)["all"]) == [13.0, 1.0, 1.0]
    again = whole.prune(whole.inputs, whole.outputs[2])
    assert session.run(again(2.0)) == 2.0
    gradient, = tf.gradients(product(5.0), add.variables[1])
    assert session.run(gradient) == 5.0
    nothing = add.prune([], add.graph.get_operation_by_name("nothing"))
    assert nothing() is None
    for error, words, prune in (
            (KeyError, "nope", lambda: add.prune("nope:0", "xw:0")),
            (ValueError, "must be tensors",
             lambda: add.prune("nothing", "xw:0")),
            (ValueError, "not an element of this graph",
             lambda: add.prune(tf.constant(1), "xw:0")),
            (ValueError, "Unable to lift.*'x', which is not fed",
             lambda: add.prune([], "xw:0"))):
        with pytest.raises(error, match=words):
            prune()


def test_pruned_functions_may_start_at_inner_tensors(run):
    def build(pair):
        with tf.control_dependencies([pair["x"]]):
            doubled = tf.multiply(pair["x"], 2.0, name="doubled")
        values, _ = tf.nn.top_k(doubled, 2, name="top")
        return tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0,
                             lambda v: v * pair["y"], [values])

    whole = tf.wrap_function(build, [{
        "x": tf.TensorSpec([None], tf.float32),
        "y": tf.TensorSpec([], tf.float32)}])
    top = whole.graph.get_tensor_by_name("top:0")
    np.testing.assert_array_equal(
        run(whole({"x": [1.0, 5.0, 3.0], "y": 2.0})), [80, 48])
    late = whole.prune([top, whole.inputs[1]], whole.outputs)
    np.testing.assert_array_equal(run(late([30.0, 10.0], 3.0)[0]), [90, 30])
    early = whole.prune(whole.inputs[0], [top, "top:1", top.op])
    values, places, none = early([1.0, 5.0, 3.0])
    assert none is None and early.outputs == [top, top.op.outputs[1]]
    np.testing.assert_array_equal(run(values), [10, 6])
    np.testing.assert_array_equal(run(places), [1, 2])
    from sluice.framework.protos import TensorInfo
    named = whole.prune(whole.inputs[0], TensorInfo(name="top:0"))
    np.testing.assert_array_equal(run(named([7.0, 8.0])), [16, 14])


def test_wrapped_graphs_without_captures_run_in_any_graph():
    square = tf.wrap_function(lambda x: x * x,
                              [tf.TensorSpec([], tf.float32)])
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(square(3.0)) == 9.0
        # Functions can be called in functions, too.
        again = tf.function(lambda x: square(x) + 1.0)
        assert session.run(again(tf.constant(2.0))) == 5.0


@pytest.mark.parametrize("wrap", [
    tf.function,
    lambda f: tf.wrap_function(f, [tf.TensorSpec([2], tf.float32)])])
def test_functions_return_composite_tensors(wrap):
    def both(x):
        return {"rows": tf.IndexedSlices(x * 2.0, tf.constant([0, 2])),
                "all": [tf.SparseTensor([[1], [2]], x, [3]), None, x + 1.0,
                        tf.IndexedSlices(x, tf.constant([1, 0]), [2])]}

    made = wrap(both)(tf.constant([1.0, 2.0]))
    sparse, none, more, last = made["all"]
    assert none is None and made["rows"].dense_shape is None
    assert isinstance(last, tf.IndexedSlices)
    values = run([made["rows"].values, made["rows"].indices, sparse, more,
                  tf.convert_to_tensor(last)])
    assert [v.tolist() for v in (*values[:2], *values[3:])] == [
        [2.0, 4.0], [0, 2], [2.0, 3.0], [2.0, 1.0]]
    assert values[2].values.tolist() == [1.0, 2.0]


def test_functions_with_side_effects_are_differentiable(session):
    x = tf.placeholder(tf.float32, [2, 3])
    w = tf.Variable(2 * np.eye(3, dtype=np.float32), use_resource=True)

    @tf.function
    def changed(v):
        def grown():
            w.assign_add(np.eye(3, dtype=np.float32))
            return tf.cond(tf.reduce_sum(v) > 100.0, lambda: v,
                           lambda: tf.matmul(v, v, transpose_b=True)[:, :1] * v)
        return tf.cond(tf.reduce_sum(v) > 0.0, grown, lambda: v)

    @tf.function
    def read(v):
        return tf.cond(tf.reduce_sum(v) > 0.0, lambda: tf.matmul(v, w),
                       lambda: v)

    y, z = changed(x) + 1.0, read(x) + 1.0
    of_y, of_z = tf.gradients(y, x)[0], tf.gradients(z, x)[0]
    session.run(w.initializer)
    ones = np.ones([2, 3])
    assert session.run([z, of_z], {x: ones})[1].tolist() == (
        2 * ones).tolist()
    assert session.run([y, of_y], {x: -ones})[1].tolist() == ones.tolist()
    assert session.run([z, of_z], {x: -ones})[1].tolist() == ones.tolist()
    assert session.run(w)[0].tolist() == [2, 0, 0]
    assert session.run(y, {x: ones}).tolist() == (4 * ones).tolist()
    assert session.run(w)[0].tolist() == [3, 0, 0]


def test_loops_in_a_function_differentiate_the_variables_that_calls_read():
    v = tf.Variable([1.0, 2.0, 3.0, 4.0], dtype=tf.float64, use_resource=True)
    zero = tf.constant(0.0, tf.float64)

    @tf.function
    def some(x, v):
        return x + tf.reduce_sum(tf.gather(v, [1, 3]))

    @tf.function
    def nested(x, v):
        return some(x, v)

    @tf.function
    def loop_within(x, v):
        return tf.while_loop(lambda j, _: j < 3,
                             lambda j, y: (j + 1, some(y, v)), [0, x])[1]

    def gradient_of(step):
        @tf.function
        def whole(v):
            r = tf.while_loop(lambda i, _: i < 2,
                              lambda i, x: (i + 1, step(x, v)), [0, zero])[1]
            return tf.convert_to_tensor(tf.gradients(r, v)[0])
        return whole(v)

    assert run([gradient_of(f).op.outputs[0] for f in (
        some, nested, loop_within)])[0].tolist() == [0, 2, 0, 2]
    assert run(gradient_of(nested)).tolist() == [0, 2, 0, 2]
    assert run(gradient_of(loop_within)).tolist() == [0, 6, 0, 6]
    assert run(gradient_of(some)).dtype == np.float64


def test_calls_in_loops_of_functions_may_hold_constants():
    @tf.function
    def scaled(x):
        return x * tf.reduce_sum(tf.gather([1.0, 2.0, 3.0], [0, 1]))

    @tf.function
    def loop(x):
        return tf.while_loop(lambda j, _: j < 2,
                             lambda j, y: (j + 1, scaled(y)), [0, x])[1]

    def nested(x):
        return tf.while_loop(lambda i, _: i < 2,
                             lambda i, y: (i + 1, loop(y)), [0, x])[1]

    x = tf.constant(2.0)
    for f, factor in ((loop, 9), (nested, 81), (tf.function(nested), 81)):
        assert run(f(x)) == 2 * factor
        assert run(tf.gradients(f(x), x)[0]) == factor


def test_function_differentiates_sparse_read_in_conditional():
    v = tf.Variable([[1.0, 1.0]] * 3, use_resource=True)

    @tf.function
    def gradient():
        r = tf.cond(tf.constant(True), lambda: tf.gather(v, [1, 2]),
                    lambda: tf.zeros([2, 2]))
        return tf.convert_to_tensor(tf.gradients(r, v)[0])

    assert run(gradient()).tolist() == [[0, 0], [1, 1], [1, 1]]


def test_functions_know_shapes_of_captured_variables():
    v = tf.Variable([[1.0, 2.0]] * 3, use_resource=True)
    shapes = []

    @tf.function
    def f():
        shapes.extend([v.read_value().shape.as_list(),
                       tf.gather(v, [0]).shape.as_list()])
        return v + 1.0

    f()
    assert shapes == [[3, 2], [1, 2]]
    definition = v.graph.as_graph_def().library.function[0]
    told = definition.arg_attr[0].attr  # TensorFlow's attributes.
    assert list(told["_handle_dtypes"].list.type) == [1]
    assert [d.size for d in told["_handle_shapes"].list.shape[0].dim] == [3, 2]


# ---- Gradients in a body with respect to outer tensors.


def _nested_sibling(x):
    y = x * 3.0
    return tf.function(lambda: tf.gradients(y + x, x)[0])()


def _nested_twice(x):
    a = tf.sin(x)

    @tf.function
    def outer():
        b = a * x

        @tf.function
        def inner():
            return tf.gradients(a * b * tf.exp(x), x)[0] * b
        return inner()
    return outer()


def _through_loop(x):
    y = tf.while_loop(lambda i, a: i < 3,
                      lambda i, a: (i + 1, tf.sin(a) * x), [0, x])[1]
    return tf.function(lambda k: tf.gradients(y * x * k, x)[0])(x)


def _through_arrays(x):
    y = tf.scan(lambda a, e: a * e + tf.sin(e), tf.stack([x, x * x, x]))
    return tf.function(
        lambda: tf.gradients(tf.reduce_sum(y * x), x)[0])()


def _through_cond(x):
    y = tf.cond(x < 1.0, lambda: x * x, lambda: tf.sin(x))
    return tf.function(lambda: tf.gradients(y * y * x, x)[0])()


def _in_loop(x):
    y = tf.sin(x)

    def body(i, a):
        b = a * y
        g = tf.function(lambda: tf.gradients(tf.cos(b) * y + a * x, [y, x]))()
        return i + 1, a + g[0] * g[1]
    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


def _in_cond(x):
    y = tf.sin(x)

    def yes():
        b = y * y
        return tf.function(lambda: tf.gradients(b * y, x)[0])()
    return tf.cond(x < 1.0, yes, lambda: x)


def _second_order(x):
    y = tf.exp(x)

    @tf.function
    def inner():
        return tf.gradients(tf.gradients(y * x * x, x)[0], x)[0]
    return inner()


# Their values at 0.7, and those of their derivatives, in TensorFlow 2.21.
_OF_TENSORFLOW = {
    _nested_sibling: [4, 0],
    _nested_twice: [1.2671199207650599, 7.590847886538887],
    _through_loop: [0.6800827296002983, 4.231138509694621],
    _through_arrays: [7.751575892392074, 23.6915249616266],
    _through_cond: [1.2005, 6.86],
    _in_cond: [0.9522662189132594, 1.4590578095316982],
    _second_order: [10.652751822518821, 21.527016442859395],
}


@pytest.mark.parametrize("program", _OF_TENSORFLOW)
def test_gradients_go_on_through_captured_tensors(program):
    x = tf.placeholder_with_default(np.float64(0.7), [])
    inside = tf.function(lambda v: program(v) * 1.0)(x)
    fetches = [program(x), inside]
    fetches += [tf.gradients(f, x, unconnected_gradients="zero")[0]
                for f in fetches]
    with tf.Session() as session:
        flat, inside, of_flat, of_inside = session.run(fetches)
        moved = [session.run(fetches[1], {x: 0.7 + d}) for d in (1e-5, -1e-5)]
    value, derivative = _OF_TENSORFLOW[program]
    np.testing.assert_allclose([flat, inside], value, rtol=1e-12)
    np.testing.assert_allclose([of_flat, of_inside], derivative, rtol=1e-9)
    np.testing.assert_allclose((moved[0] - moved[1]) / 2e-5, derivative,
                               rtol=1e-6)


def test_gradients_through_captures_may_be_in_loops():
    x = tf.constant(0.7, tf.float64)
    np.testing.assert_allclose(run([
        _in_loop(x), tf.function(lambda v: _in_loop(v) * 1.0)(x)
    ]), 1.4741185826157226)


def test_gradients_in_bodies_reach_variables_and_arguments():
    for resource in (True, False):
        v = tf.Variable([1.0, 2.0], use_resource=resource)
        y = v * v
        grad = tf.function(
            lambda k: tf.gradients(tf.reduce_sum(y * v * k), v)[0])(3.0)
        np.testing.assert_array_equal(run(grad), [9, 36])
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]], use_resource=True)
    rows = tf.gather(table, [1, 1, 0])
    grad = tf.function(lambda: tf.gradients(rows * rows, table)[0])()
    np.testing.assert_array_equal(run(grad), [[2, 4], [12, 16]])

    x = tf.placeholder_with_default(np.float64(1.1), [])
    s = tf.sin(x)

    @tf.function
    def own(z):
        g = tf.gradients(s * z * z, x)[0]
        return [g, *tf.gradients(g * x, [z, x])]
    # (The argument z is not x, although x is passed.)
    np.testing.assert_allclose(
        run(own(x)), [np.cos(1.1) * 1.21, 2 * np.cos(1.1) * 1.21,
                      (np.cos(1.1) - 1.1 * np.sin(1.1)) * 1.21])


def test_gradients_in_bodies_reach_captured_tensors():
    x, w = tf.constant([1.0, 2.0]), tf.constant(1.0)
    y = x * x

    @tf.function
    def f():
        found = tf.gradients(y * 2.0, [x, w])
        assert found[1] is None
        zero = tf.gradients(y, [y, w], unconnected_gradients="zero")[1]
        return found[0], tf.gradients(y * y, y)[0], zero, tf.gradients(
            y * x, x, stop_gradients=[y])[0], tf.gradients(
                y, x, grad_ys=w * [1.0, 3.0])[0]
    dx, dy, zero, stopped, given = run(f())
    np.testing.assert_array_equal([dx, dy, stopped, given],
                                  [[4, 8], [2, 8], [1, 4], [2, 12]])
    assert zero == 0


def test_tapes_in_bodies_record_no_captured_tensors():
    x = tf.constant(1.1, tf.float64)
    y = tf.sin(x)

    @tf.function
    def f():
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = y * x * x
        return tape.gradient(z, x)
    np.testing.assert_allclose(run(f()), np.sin(1.1) * 2.2)  # TensorFlow's.

    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        z = tf.sin(x) * x
        grad = tf.function(lambda: outer.gradient(z, x) * x)()
    np.testing.assert_allclose(run(grad),
                               (np.cos(1.1) * 1.1 + np.sin(1.1)) * 1.1)


def test_custom_gradients_in_bodies_may_use_what_they_computed():
    @tf.custom_gradient
    def doubled(a):
        y = tf.sin(a) * a
        return y, lambda dy: 2.0 * tf.gradients(y, a, dy)[0]

    x = tf.constant(1.1, tf.float64)
    for out in (tf.function(lambda z: doubled(z * z) * z)(x),
                tf.function(lambda: doubled(x * x) * x)()):
        np.testing.assert_allclose(
            run([out, tf.gradients(out, x)[0]]), [
                np.sin(1.21) * 1.331, np.sin(1.21) * 1.21 + 4 * 1.21 * (
                    np.sin(1.21) + 1.21 * np.cos(1.21))])


def test_gradients_through_captures_need_an_inlined_call():
    x = tf.constant(1.0)
    y = tf.sin(x)

    @tf.Defun(tf.float32, python_grad_func=lambda op, dy: list(op.inputs))
    def f(a):
        return a * tf.gradients(y * x, x)[0]
    with pytest.raises(Exception, match="pass what they go through"):
        f(x)


def test_gradients_may_pass_through():
    x = tf.constant([0.2, 1.7])
    y = tf.grad_pass_through(tf.round)(x) * 3.0
    v = tf.Variable(1.0, use_resource=True)
    z = tf.constant(3.0)
    assigned = tf.grad_pass_through(v.assign)(z ** 2)
    np.testing.assert_array_equal(
        run([y, tf.gradients(y, x)[0]]), [[0, 6], [3, 3]])
    assert run([assigned, tf.gradients(assigned, z)[0]]) == [9, 6]
    inside = tf.function(lambda a: tf.grad_pass_through(tf.floor)(a) * a)(x)
    np.testing.assert_allclose(run(tf.gradients(inside, x)[0]), [0.2, 2.7])


@pytest.mark.parametrize("in_function, resource", [
    (False, True), (False, False), (True, True), (True, False)])
def test_gradients_may_compute_their_function_again(in_function, resource):
    ran = []

    @tf.recompute_grad
    def layer(x):
        ran.append(x)
        w = tf.get_variable("w", [2], use_resource=resource,
                            initializer=tf.constant_initializer([2.0, 3.0]))
        return tf.sin(x * w)

    x = tf.constant([0.3, 0.5])
    with tf.variable_scope("layer"):
        y = (tf.function(layer) if in_function else layer)(x)
    w, = tf.trainable_variables()
    grads = tf.gradients(y, [x, w])
    assert len(ran) == 2
    cos = np.cos([0.6, 1.5])
    np.testing.assert_allclose(run(grads), [cos * [2, 3], cos * [0.3, 0.5]],
                               rtol=1e-6)
    assert w.op.name == "layer/w"
