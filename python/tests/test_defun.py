"""Functions of a graph that Python defines: tf.Defun."""

import gc
import weakref

import numpy as np
import pytest

import sluice.compat.v1 as tf


def run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


@tf.Defun(tf.float32, tf.float32)
def weighted(x, w):
    """Returns x and w * x."""
    return x, w * x


def test_call_is_a_node_named_after_the_function():
    same, times = weighted([1.0, 2.0], 3.0)
    assert same.op.type == weighted.name
    assert same.op.type.startswith("weighted_")
    assert same.op.name == "weighted"
    assert weighted(1.0, 1.0, name="mine")[0].op.name == "mine"
    with tf.name_scope("outer"):
        assert weighted(1.0, 1.0)[0].op.name == "outer/weighted"
    np.testing.assert_array_equal(run([same, times]), [[1, 2], [3, 6]])


def test_argument_types_may_come_from_the_call():
    @tf.Defun()
    def half(x):
        return x / 2

    values = run([half(tf.constant(1, tf.float32)),
                  half(tf.constant(3, tf.float64))])
    assert [v.dtype for v in values] == [np.float32, np.float64]
    assert values == [0.5, 1.5]


def test_wrong_definitions_and_calls_are_refused():
    with pytest.raises(ValueError, match="more arguments than the number"):
        tf.Defun(tf.float32)(lambda a, b: a)
    with pytest.raises(ValueError, match="fewer arguments than the number"):
        tf.Defun(tf.float32, tf.float32)(lambda a: a)
    with pytest.raises(ValueError, match="are not supported"):
        tf.Defun()(lambda a=1: a)
    with pytest.raises(TypeError, match="nearest: func_name"):
        tf.Defun(funcname="F")
    with pytest.raises(ValueError, match="arguments: 2, received: 1"):
        weighted(1.0)
    with pytest.raises(ValueError, match="Unknown keyword arguments"):
        weighted(1.0, 2.0, device="/cpu:0")
    with pytest.raises(ValueError, match="can not return None"):
        tf.Defun()(lambda: (None, None))()
    with pytest.raises(tf.errors.InvalidArgumentError, match="names size = 2"):
        tf.Defun(tf.float32, out_names=["a", "b"])(lambda x: x)(1.0)


def test_outer_tensors_and_variables_are_captured():
    w = tf.Variable([[2.0]])
    b = tf.get_variable("b", initializer=[1.0], use_resource=True)
    c = tf.placeholder(tf.float32)

    @tf.Defun(tf.float32)
    def outer(x):
        @tf.Defun(tf.float32)
        def inner(y):
            return y + b + c

        return inner(tf.matmul(w, x))

    y = outer([[10.0]])
    assert len(outer.captured_inputs) == len(y.op.inputs) - 1 == 3
    grads = tf.gradients(y, [w, b, c])
    assert [np.sum(v) for v in run([y] + grads, {c: 4.0})] == [25, 10, 1, 1]


def test_loops_and_branches_capture_outer_values():
    one = tf.constant(1)

    @tf.Defun(tf.bool)
    def count(up):
        n = tf.while_loop(lambda i: i < 10, lambda i: i + one, [0])
        return tf.cond(up, lambda: n + one, lambda: one)

    assert run([count(True), count(False)]) == [11, 1]


def test_inner_variables_belong_to_the_outer_graph():
    @tf.Defun(tf.float32)
    def layer(x):
        with tf.variable_scope("layer"):
            w = tf.get_variable("w", [2, 2],
                                initializer=tf.ones_initializer())
        with tf.variable_scope("layer", reuse=True):
            assert tf.get_variable("w", [2, 2]) is w
        return tf.matmul(x, w)

    with tf.variable_scope("first"):
        y = layer([[1.0, 2.0]])
    with tf.variable_scope("second"):
        z = layer([[1.0, 2.0]])
    assert [v.name for v in tf.trainable_variables()] == ["first/layer/w:0"]
    np.testing.assert_array_equal(run([y, z]), [[[3, 3]]] * 2)


def test_captured_by_value_is_a_copy():
    w = tf.constant([2.0])

    @tf.Defun(tf.float32, capture_by_value=True)
    def f(x):
        return x * w

    y = f(3.0)
    assert f.captured_inputs == [] and len(y.op.inputs) == 1
    assert run(y) == [6]
    v = tf.Variable(1.0)
    with pytest.raises(ValueError, match=r"stateful node \(name:Variable, .* by value"):
        tf.Defun(capture_by_value=True)(lambda: v + 1.0)()


def test_a_declared_function_calls_itself():
    factorial = tf.Declare("Fac", [("n", tf.int32)], [("result", tf.int32)])

    @tf.Defun(tf.int32, func_name="Fac", out_names=["result"])
    def defined(n):
        return tf.cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))

    assert run(defined(10)) == 3628800


def test_a_function_that_calls_itself_passes_on_what_it_captures():
    next_of = tf.placeholder(tf.int32, [None])
    w = tf.Variable(3.0)
    v = tf.get_variable("v", initializer=2.0, use_resource=True)
    power = tf.Declare("Power", [("n", tf.int32)], [("result", tf.float32)])

    @tf.Defun(tf.int32, func_name="Power", out_names=["result"])
    def defined(n):
        after = tf.gather(next_of, n)

        def multiplied():
            rest = tf.while_loop(lambda i, x: i < 1, lambda i, x: (
                i + 1, x * tf.reshape(power(after), [])), [0, 1.0])[1]
            return w * v * rest

        return tf.cond(after < 0, lambda: 1.0, multiplied)

    y = defined(2)
    grads = tf.gradients(y, [w, v])
    values = run([y] + grads, {next_of: [-1, 0, 3, 1]})
    np.testing.assert_allclose(values, [216, 3 * 72, 3 * 108])
    assert len(defined.captured_inputs) == 3
    # From now on calls by the declaration pass the captures, too.
    assert run(power(2), {next_of: [-1, 0, 3, 1]}) == 216


def test_early_calls_of_a_declared_function_with_captures_are_refused():
    w = tf.Variable(3.0)
    other = tf.Declare("Other", [("n", tf.int32)], [("result", tf.float32)])
    early = other(1)

    @tf.Defun(tf.int32, func_name="Other", out_names=["result"])
    def defined_later(n):
        return tf.cond(n < 1, lambda: w + 0, lambda: other(n - 1))

    with pytest.raises(ValueError, match=f"earlier call '{early.op.name}'"):
        defined_later(2)


def test_bodies_that_call_a_declared_function_with_captures_come_after_it():
    w = tf.Variable(3.0)
    odd = tf.Declare("Odd", [("n", tf.int32)], [("result", tf.float32)])

    @tf.Defun(tf.int32, func_name="Even")
    def even(n):
        return tf.cond(n < 1, lambda: 1.0, lambda: odd(n - 1))

    def odd_body(n):
        return tf.cond(n < 1, lambda: 0.0, lambda: w * even(n - 1))

    with pytest.raises(ValueError, match="one in the function 'Even'"):
        tf.Defun(tf.int32, func_name="Odd", out_names=["result"])(odd_body)(3)


def test_bodies_have_the_shapes_of_the_first_call():
    seen = []

    @tf.Defun(tf.float32, tf.float32)
    def product(x, w):
        seen.append((x.shape.as_list() if x.shape.ndims is not None else None,
                     w.shape.as_list()))
        return tf.matmul(x, w)

    x = tf.ones([2, 3])
    y = product(x, tf.ones([3, 4]))
    assert y.shape.as_list() == [2, 4]
    product(tf.zeros([2, 3]), tf.zeros([3, 4]))
    assert seen == [([2, 3], [3, 4])]
    assert [n.op for n in product.definition.node_def] == ["MatMul"]
    # Another shape needs a more general body.
    z = product(tf.ones([5, 3]), tf.ones([3, 4]))
    assert z.shape.as_list() == [5, 4]
    product(tf.ones([7, 3]), tf.ones([3, 4]))
    assert seen == [([2, 3], [3, 4]), ([None, 3], [3, 4])]
    np.testing.assert_array_equal(run(y), np.full([2, 4], 3))
    np.testing.assert_array_equal(run(z), np.full([5, 4], 3))


def test_more_general_bodies_share_the_variables():
    @tf.Defun(tf.float32, func_name="Scaled")
    def scaled(x):
        return x * tf.get_variable("scale", initializer=2.0)

    one, two = scaled([1.0]), scaled([1.0, 2.0])
    assert len(tf.global_variables()) == 1
    np.testing.assert_array_equal(run(one), [2])
    np.testing.assert_array_equal(run(two), [2, 4])


def test_declared_functions_have_the_given_shapes():
    tree = tf.Declare("Tree", [("n", tf.int32), ("x", tf.float32)],
                      [("state", tf.float32, [1, 4])])
    w = tf.get_variable("w", [4, 4], initializer=tf.ones_initializer())
    ops = set()

    @tf.Defun(tf.int32, tf.float32, func_name="Tree", out_names=["state"],
              input_shapes=[[], [1, 4]])
    def defined(n, x):
        def inner():
            product = tf.matmul(tree(n - 1, x), w)
            ops.add(product.op.type)
            return product
        y = tf.cond(n < 1, lambda: x, inner)
        assert y.shape.as_list() == [1, 4]
        return y

    y = defined(2, tf.ones([1, 4]))
    assert ops == {"MatMul"} and y.shape.as_list() == [1, 4]
    np.testing.assert_array_equal(run(y), np.full([1, 4], 16))
    with pytest.raises(ValueError, match=r"shape \(1, 4\), got \(1, 5\)"):
        defined(2, tf.ones([1, 5]))
    with pytest.raises(ValueError, match="expected 2 shapes"):
        tf.Defun(tf.int32, tf.float32, input_shapes=[None])(lambda n, x: x)


def test_gradients_default_to_the_body():
    x = tf.placeholder(tf.float32)

    @tf.Defun(tf.float32)
    def plain(x):
        return tf.reduce_sum(tf.tanh(x) ** 2)

    @tf.Defun(tf.float32, tf.float32)
    def twice(x, dy):
        return 2.0 * dy

    @tf.Defun(tf.float32, grad_func=twice)
    def declared(x):
        return tf.exp(x)

    @tf.Defun(tf.float32,
              python_grad_func=lambda op, dy: 3.0 * dy * op.inputs[0])
    def built(x):
        return tf.exp(x)

    @tf.Defun(tf.float32)
    def around(x):
        return declared(x) + built(x)

    grads = [tf.gradients(f(x), x)[0] for f in (plain, declared, built)]
    second = tf.gradients(tf.gradients(plain(x), x)[0], x)[0]
    t = np.tanh(0.5)
    np.testing.assert_allclose(
        run(grads + [second], {x: 0.5}),
        [2 * t * (1 - t * t), 2, 1.5, 2 * (1 - t * t) * (1 - 3 * t * t)],
        rtol=1e-5)
    assert run(tf.gradients(around(x), x)[0], {x: 0.5}) == 3.5
    library = tf.get_default_graph().as_graph_def().library
    assert (declared.name, twice.name) in [
        (g.function_name, g.gradient_func) for g in library.gradient]


def test_gradient_functions_return_one_gradient_for_each_argument():
    @tf.Defun(tf.float32, tf.float32, tf.float32)
    def too_many(x, dy, dz):
        return x, dy + dz

    @tf.Defun(tf.float32, grad_func=too_many)
    def twice(x):
        return x, x

    x = tf.constant(2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=(
            r"expected 'too_many_.*' to return 1 results, one for each "
            r"argument, got 2.*SymGrad expects to return 1 .*but get 2 ")):
        run(tf.gradients(tf.add_n(twice(x)), x))


def test_gradients_do_not_leak_between_graphs():
    # Each graph is freed before the next, which may have the same address.
    for n in range(20):
        with tf.Graph().as_default() as graph:
            @tf.Defun(tf.float32,
                      python_grad_func=lambda op, dy, n=n: float(n) * dy)
            def scaled(x):
                return tf.exp(x)

            x = tf.constant(0.0)
            dx, = tf.gradients(scaled(x), x)
            assert run(dx) == n
        del scaled, x, dx, graph
        gc.collect()


def test_graph_defs_carry_functions():
    @tf.Defun(tf.float32, func_name="Plus", out_names=["sum"], noinline=True)
    def plus(x):
        """Adds one."""
        return x + 1.0

    plus(1.0, name="call")
    graph_def = tf.get_default_graph().as_graph_def()
    function, = graph_def.library.function
    assert function == plus.definition
    signature = function.signature
    assert (signature.name, signature.description) == ("Plus", "Adds one.")
    assert [a.name for a in signature.input_arg] == ["x"]
    assert [a.name for a in signature.output_arg] == ["sum"]
    assert function.attr["_noinline"] and not signature.is_stateful
    with tf.Graph().as_default():
        y, = tf.import_graph_def(graph_def, return_elements=["call:0"])
        with tf.Session() as session:
            assert session.run(y) == 2


def test_functions_with_random_numbers_are_stateful():
    @tf.Defun()
    def numbers():
        return tf.random_uniform([4])

    assert numbers.definition.signature.is_stateful
    a, b = run([numbers(), numbers()])
    assert (a != b).any()


def test_assertions_run_only_in_taken_branches():
    @tf.Defun(tf.int32)
    def fails(x):
        with tf.control_dependencies([tf.Assert(False, [x])]):
            return tf.identity(x)

    x, p = tf.placeholder(tf.int32), tf.placeholder(tf.bool)
    y = tf.cond(p, lambda: x + 1, lambda: fails(x))
    assert run(y, {p: True, x: 3}) == 4
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion"):
        run(y, {p: False, x: 3})


def test_definition_serves_many_graphs_without_keeping_them():
    def use():
        with tf.Graph().as_default() as graph:
            v = tf.Variable(2.0)
            scaled = tf.Defun(tf.float32)(lambda x: x * v)
            assert run(tf.gradients(scaled(3.0) + weighted(1.0, 1.0)[1],
                                    v)[0]) == 3
            return weakref.ref(graph)

    graphs = [use(), use()]
    gc.collect()
    assert [g() for g in graphs] == [None, None]


def test_any_outer_value_may_be_captured():
    x = tf.constant(3.0)
    y, p = x * x, x > 1.0
    one = tf.Defun(tf.float32)(lambda t: t + 1.0)

    def outer_gradient():
        return tf.gradients(y, x)[0]

    def inner_gradient():
        return tf.gradients(x * 5.0, x, grad_ys=x)[0]

    for body, value in (
            (lambda: y, 9), (lambda: one(y), 10), (outer_gradient, 6),
            (inner_gradient, 15),
            (lambda: tf.cond(p, lambda: y, lambda: x), 9),
            (lambda: tf.while_loop(lambda v: v < 20.0, lambda v: v + x, [y]),
             21),
            (lambda: tf.map_fn(lambda t: t + x, tf.stack([x, y]))[1], 12)):
        assert run(tf.Defun()(body)()) == value
    with pytest.raises(ValueError, match="not an element of this graph"):
        def waits():
            with tf.control_dependencies([x]):
                return tf.constant(1)
        tf.Defun()(waits)()
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="same graph"):
            tf.Defun()(lambda: y)()


def test_results_have_static_shapes_of_body():
    v = tf.Variable([[1.0, 2.0]], use_resource=True)

    @tf.Defun(tf.float32)
    def f(x):
        return v * 2.0, x, tf.reduce_sum(x)

    assert [t.shape for t in f([1.0])] == [[1, 2], [1], []]
    one = tf.Variable(1.0, use_resource=True)
    more = tf.Defun(tf.float32)(lambda x: x + one)
    total = tf.while_loop(lambda x: x < 5.0, lambda x: more(x) * one, [0.0])
    assert run([total, tf.gradients(total, one)[0]]) == [5, 20]


def test_functional_op_wrappers(run):
    from sluice.ops import functional

    @tf.Defun(tf.float32)
    def twice(x):
        return x * 2.0

    @tf.Defun(tf.float32)
    def cube(x):
        return x * x * x

    @tf.Defun(tf.float32)
    def whole(x):
        return tf.cast(x, tf.int32)

    x = tf.placeholder(tf.float32, [])
    y, = functional.If(x > 0, [x], twice, cube)
    assert run(y, {x: 3}) == 6 and run(y, {x: -3}) == -27
    with pytest.raises(ValueError, match="of the same types"):
        functional.If(x > 0, [x], twice, whole)
    dx, = functional.Gradient([x, 1.0], cube)
    assert run(dx, {x: 2}) == 12
    assert run(functional.partitioned_call([x], twice), {x: 2}) == [4]


def test_call_keeps_control_dependencies_of_arguments():
    v = tf.Variable(1., use_resource=True)
    p = tf.placeholder(tf.bool)

    @tf.Defun(tf.float32)
    def after(x):
        return v.read_value()  # Does not depend on x.

    with tf.control_dependencies([v.assign_add(1., read_value=False)]):
        called = after(tf.identity(3.))
        branch = tf.cond(p, lambda: tf.identity(v.read_value()), lambda: -1.)
    with tf.Session() as sess:
        for i in range(20):
            sess.run(v.initializer)
            assert sess.run(called) == 2
            sess.run(v.initializer)
            assert sess.run(branch, {p: True}) == 2


def test_compile_hints_change_nothing(run):
    @tf.Defun(tf.float32, compiled=True, separate_compiled_gradients=True)
    def doubled(x):
        return 2 * x

    assert run(doubled(3.0)) == run(doubled(3.0, compiled=False)) == 6


def test_stateful_operations_are_copied_by_name(run):
    t = tf.random_uniform([100], maxval=10, dtype=tf.int32)
    x = tf.placeholder(tf.int32)
    with pytest.raises(ValueError, match="Cannot capture a stateful node"):
        tf.Defun(capture_by_value=True)(lambda: t + 3)()
    with pytest.raises(ValueError, match="Cannot capture a placeholder"):
        tf.Defun(capture_by_value=True)(lambda: x + 1)()

    y = tf.Defun(capture_by_value=True,
                 whitelisted_stateful_ops={t.op})(lambda: t + 3)()
    assert run(y).min() >= 3


def test_gradients_are_defined_once():
    @tf.Defun(tf.float32, tf.float32)
    def gradient(x, dy):
        return dy * x

    @tf.Defun(tf.float32, grad_func=gradient,
              python_grad_func=lambda op, dy: dy)
    def f(x):
        return x * x

    with pytest.raises(ValueError, match="Gradient defined twice for function"):
        f(tf.constant(1.0))
