"""Graphs: names, scopes, shapes, and properties of operations and tensors."""

import gc
from html.parser import HTMLParser
import re
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.framework import protos


def line_of_caller():
    import inspect
    return inspect.currentframe().f_back.f_lineno


def test_names_are_unique_and_scoped():
    assert tf.constant(1).name == "Const:0"
    assert tf.constant(1).name == "Const_1:0"
    assert tf.constant(1, name="a").name == "a:0"
    assert tf.constant(1, name="a").op.name == "a_1"
    with tf.name_scope("outer") as scope:
        assert scope == "outer/"
        assert tf.constant(1, name="a").name == "outer/a:0"
        with tf.name_scope("inner"):
            assert tf.constant(1, name="a").name == "outer/inner/a:0"
        with tf.name_scope(None):
            assert tf.constant(1, name="b").name == "b:0"
    with tf.name_scope("outer") as again:
        assert again == "outer_1/"
    with tf.name_scope(scope):
        assert tf.constant(1, name="a").name == "outer/a_1:0"
    with pytest.raises(ValueError, match="not a valid scope name"):
        with tf.name_scope("_bad name"):
            pass


def test_operators_name_their_constants_as_tensorflow_does():
    x = tf.placeholder(tf.float32, name="x")
    y = x + 1
    assert (y.name, y.op.type) == ("add:0", "AddV2")
    assert [t.name for t in y.op.inputs] == ["x:0", "add/y:0"]
    z = 2 * x
    assert [t.name for t in z.op.inputs] == ["mul/x:0", "x:0"]
    # Names that differ only in case count as equal.
    assert tf.add(x, 1.5).op.inputs[1].name == "Add_1/y:0"
    assert (x / 2).op.inputs[1].name == "truediv/y:0"
    assert (2 / x).op.inputs[0].name == "truediv_1/x:0"
    i = tf.constant([1, 2])
    assert (i / 2).dtype is tf.float64 and (i // 2).dtype is tf.int32
    with pytest.raises(TypeError, match="Expected int32, but got 1.5"):
        i + 1.5
    assert x[0].op.type == "StridedSlice"


def test_handles_are_unique_while_referenced():
    x = tf.placeholder(tf.float32, name="x")
    y = tf.identity(x)
    assert y.op.inputs[0] is x
    assert y.op.outputs[0] is y
    assert y.op is y.op.graph.get_operation_by_name("Identity")
    assert x.graph.get_tensor_by_name("x:0") is x
    assert {x: 1, y: 2}[x.op.outputs[0]] == 1
    assert x.consumers() == [y.op]


def test_finalized_graph_runs_and_cannot_grow():
    graph = tf.get_default_graph()
    x = tf.placeholder(tf.float32)
    y, v = x * x, tf.Variable(3.0)
    start = tf.global_variables_initializer()
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    other = tf.Graph()
    with other.as_default():
        tf.constant(1)
    size = len(graph.get_operations())
    graph.finalize()
    assert graph.finalized
    for grow in (
            lambda: tf.constant(1), lambda: x + 1.0, lambda: tf.square(x),
            lambda: tf.gradients(y, x), lambda: optimizer.minimize(v * 1.0),
            lambda: tf.cond(x > 1.0, lambda: x, lambda: y),
            lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [x]),
            lambda: tf.Variable(1.0), lambda: tf.placeholder(tf.float32),
            lambda: tf.Defun()(lambda: tf.constant(1))(),
            lambda: tf.import_graph_def(other.as_graph_def()),
            lambda: tf.add_to_collection("some", 1)):
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot"):
            grow()
    assert len(graph.get_operations()) == size
    with tf.name_scope("allowed"), tf.Session() as session:
        session.run(start)
        assert session.run([y, v], {x: 2.0}) == [4, 3]
    graph._unsafe_unfinalize()
    assert tf.constant(1).graph is graph


def test_an_attribute_outlives_the_handle():
    tf.placeholder(tf.float32, name="x").tag = "kept"
    gc.collect()
    assert tf.get_default_graph().get_tensor_by_name("x:0").tag == "kept"


def test_graphs_are_freed():
    def build():
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32)
            w = tf.Variable(tf.zeros([2]))
            x.tag = w
            tf.gradients(x * w, w)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
        return weakref.ref(graph)

    dead = build()
    gc.collect()
    assert dead() is None


def test_cycles_through_sessions_and_callables_are_freed():
    def build():
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32)
            x.op.users = [x]
            session = tf.Session()
            graph.add_to_collection("sessions", session)
            graph.step = session.make_callable({"x": x}, [x])
            assert graph.step(1.0) == {"x": 1.0}
            # This makes handles, which refer to the session.
            graph.kept = session.make_callable([tf.get_session_handle(x)], [x])
            session.close()
        return [weakref.ref(o) for o in (graph, x, session, graph.step,
                                         graph.kept)]

    dead = build()
    gc.collect()
    assert [ref() for ref in dead] == [None] * 5


def test_handles_cannot_be_constructed():
    x = tf.constant(1)
    with pytest.raises(TypeError, match="No constructor"):
        tf.Tensor()
    with pytest.raises(TypeError, match="missing 2 required"):
        tf.Operation()
    with pytest.raises(TypeError):
        type(x).__new__(type(x)).name


def test_device_functions():
    with tf.device(lambda op: "/cpu:0" if op.name == "a" else None):
        assert tf.constant(1, name="a").device == "/device:CPU:0"
        assert tf.constant(1, name="b").device == ""

    def breaks(op):
        raise ZeroDivisionError(op.name)

    with tf.device(breaks):
        with pytest.raises(ZeroDivisionError, match="^c$"):
            tf.constant(1, name="c")
    with tf.device(lambda op: 7):
        with pytest.raises(ValueError, match="expected a str.*got 7"):
            tf.constant(1)
    assert tf.constant(1).device == ""


def test_properties():
    with tf.device("/cpu:0"):
        x = tf.placeholder(tf.int32, [None, 3], name="x")
    assert x.dtype is tf.int32 and x.dtype == np.int32 and x.dtype == "int32"
    assert x.shape.as_list() == [None, 3] and x.get_shape().ndims == 2
    assert x.shape[1].value == 3 and x.shape[0].value is None
    assert int(x.shape[-1]) == 3
    assert str(x) == 'Tensor("x:0", shape=(?, 3), dtype=int32)'
    assert repr(x) == "<tf.Tensor 'x:0' shape=(?, 3) dtype=int32>"
    assert x.device == "/device:CPU:0"
    assert x.op.type == "Placeholder" and x.op.get_attr("dtype") is tf.int32
    assert x.value_index == 0 and x.op.outputs == [x]
    x.set_shape([5, None])
    assert x.shape == [5, 3]
    with pytest.raises(ValueError, match="expected"):
        x.set_shape([6, 3])
    node = tf.identity(x, name="y").op.node_def
    assert (node.name, node.op, node.input) == ("y", "Identity", ["x"])
    with pytest.raises(ValueError, match="no attr named 'nothing'"):
        x.op.get_attr("nothing")


def test_tensors_are_not_booleans_or_sequences():
    x = tf.placeholder(tf.bool, [3])
    with pytest.raises(TypeError, match="as a Python `bool` is not allowed"):
        if x:
            pass
    with pytest.raises(TypeError, match="iterable"):
        list(x)
    with pytest.raises(TypeError, match="len"):
        len(x)


def test_errors_name_the_line_of_the_user():
    a = tf.placeholder(tf.float32, [2, 3])
    line = line_of_caller() + 2
    with pytest.raises(ValueError) as caught:
        tf.matmul(a, a)
    assert f"test_graph.py:{line}" in str(caught.value)
    assert "MatMul" in str(caught.value)
    lines = line_of_caller()
    b = tf.nn.relu(a)
    c = tf.placeholder(tf.float32, [5, 6], name="c")
    with pytest.raises(ValueError, match="but are 3 and 5") as caught:
        tf.matmul(b, c)
    here = r"\S*test_graph.py:"
    assert re.search(
        rf"got \[2,3\] and \[5,6\]; node '\w+' \(MatMul\) at {here}{lines + 4}"
        rf"; inputs 'Relu' \(Relu\) \[2,3\] at {here}{lines + 1}, "
        rf"'c' \(Placeholder\) \[5,6\] at {here}{lines + 2}; TensorFlow: ",
        str(caught.value))
    line = line_of_caller() + 2
    with pytest.raises(TypeError) as caught:
        tf.add(a, tf.constant([1, 2, 3]))
    assert "that does not match type float32 of argument 'x'" in str(
        caught.value)
    assert f"test_graph.py:{line}" in str(caught.value)
    b = tf.constant(1.0)
    line = line_of_caller() - 1
    assert [f.lineno for f in b.op.traceback if f.filename == __file__] == [
        line]
    # The graph is unchanged.
    assert tf.add(b, b).shape == []


def test_wrong_name_error_suggests_nearest():
    with pytest.raises(AttributeError, match="nearest:.*reduce_sum"):
        tf.reduce_sun
    with pytest.raises(AttributeError, match="nearest:.*MatMul"):
        tf.raw_ops.MatMull
    with pytest.raises(KeyError, match="nearest: layer"):
        tf.constant(1, name="layer").graph.get_operation_by_name("layr")
    with pytest.raises(TypeError, match="nearest: transpose_"):
        tf.raw_ops.MatMul(a=1.0, b=2.0, transpos_a=True)


def test_graph_elements():
    x = tf.placeholder(tf.float32, name="x")
    g = x.graph
    assert g.as_graph_element("x:0") is x and g.as_graph_element("x") is x.op
    assert g.get_operations() == [x.op]
    with pytest.raises(KeyError, match="does not exist"):
        g.get_tensor_by_name("y:0")
    with pytest.raises(KeyError, match="only has 1 outputs"):
        g.get_tensor_by_name("x:1")
    with pytest.raises(ValueError, match="refers to an Operation"):
        g.get_tensor_by_name("x")
    with pytest.raises(ValueError, match="is not an element of this graph"):
        tf.Graph().as_graph_element(x)


def test_tensors_of_two_graphs_do_not_mix():
    a = tf.constant(1.0)
    with tf.Graph().as_default():
        b = tf.constant(2.0)
        with pytest.raises(ValueError, match="must be from the same graph"):
            tf.add(a, b)
        # An op is added to the graph of its inputs.
        assert (a + 1).graph is a.graph


def test_control_dependencies_and_collections():
    a = tf.constant(1, name="a")
    with tf.control_dependencies([a]):
        b = tf.constant(2, name="b")
        with tf.control_dependencies(None):
            c = tf.constant(3)
        with tf.control_dependencies([c.op]):
            d = tf.constant(4)
    assert b.op.control_inputs == [a.op] and c.op.control_inputs == []
    assert d.op.control_inputs == [a.op, c.op]
    tf.add_to_collection("mine", a)
    tf.add_to_collection("mine", b)
    assert tf.get_collection("mine") == [a, b]
    assert tf.get_collection("mine", "b") == [b]
    tf.get_collection("mine").clear()
    assert len(tf.get_collection("mine")) == 2
    tf.get_collection_ref("mine").clear()
    assert tf.get_collection("mine") == []


def test_get_collection_ref_creates_the_collection():
    graph = tf.get_default_graph()
    assert tf.get_collection("mine") == []
    assert "mine" not in graph.get_all_collection_keys()
    tf.get_collection_ref("mine")
    assert "mine" in graph.get_all_collection_keys()
    assert "mine" in graph.collections


def test_devices():
    with tf.device("/job:ps/task:1"):
        with tf.device("/cpu:0"):
            assert tf.constant(1).device == "/job:ps/task:1/device:CPU:0"
        with tf.device(None):
            assert tf.constant(1).device == ""
        with tf.device(lambda op: "/cpu:1" if op.type == "Const" else ""):
            assert tf.constant(1).device == "/job:ps/task:1/device:CPU:1"
            assert tf.no_op().device == "/job:ps/task:1"
    with pytest.raises(ValueError, match="device"):
        with tf.device("nonsense:::"):
            pass
    a = tf.constant(1, name="a")
    with tf.colocate_with(a):
        assert tf.no_op().colocation_groups() == [b"loc:@a"]
    with pytest.raises(ZeroDivisionError):
        with tf.device(lambda op: 1 / 0):
            tf.no_op()
    tf.no_op()


def test_threads_have_separate_scopes():
    graph = tf.get_default_graph()
    names = []

    def build():
        with graph.as_default(), tf.name_scope("thread"):
            for _ in range(50):
                names.append(tf.constant(1, name="c").name)

    with tf.name_scope("main"):
        threads = [threading.Thread(target=build) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert tf.constant(1, name="c").name == "main/c:0"
    assert len(set(names)) == 200
    assert all(n.startswith("thread") for n in names)


def test_graph_defs_round_trip(run):
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.multiply(x, 3.0, name="y")
    definition = x.graph.as_graph_def()
    assert 'name: "y"' in str(definition)
    again = tf.GraphDef.FromString(definition.SerializeToString())
    z = tf.constant([1.0, 2.0])
    y, = tf.import_graph_def(again, {"x": z}, ["y:0"], name="copy")
    assert y.name == "copy/y:0"
    np.testing.assert_array_equal(run(y), [3, 6])


def test_import_errors_name_missing_nodes():
    with tf.Graph().as_default() as graph:
        tf.add(tf.placeholder(tf.float32, name="x"), 1.0, name="y")
    definition = graph.as_graph_def()
    c = tf.constant(2.0)
    for key, told in (("nope", "nope:0"), ("x:1", "x:1"), ("^no", r"\^no")):
        with pytest.raises(ValueError, match=r"Attempted to map inputs that "
                           rf"were not found in graph_def: \[{told}\]"):
            tf.import_graph_def(definition, {key: c, "x": c})
    for element in ("nope", "nope:0"):
        with pytest.raises(ValueError, match="not found in graph def"):
            tf.import_graph_def(definition, return_elements=[element])
    with pytest.raises(ValueError, match="y:1"):
        tf.import_graph_def(definition, return_elements=["y:1"])
    y, = tf.import_graph_def(definition, {"x:0": c, "y": c, "^y": c},
                             return_elements=["y"])
    assert y.inputs[0] is c


def test_trailing_slash_makes_name_the_import_prefix():
    with tf.Graph().as_default() as graph:
        tf.constant(1, name="y")
    definition = graph.as_graph_def()
    import_as = lambda name: tf.import_graph_def(  # noqa: E731
        definition, name=name, return_elements=["y"])[0].name
    assert import_as("m/") == "m/y"
    with tf.name_scope("sc") as scope:
        assert import_as(scope) == "sc/y"
        assert import_as("in") == "sc/in/y"


def test_op_functions_have_names_and_documentation():
    op = tf.raw_ops.MatMul
    assert op.__name__ == "MatMul"
    assert "transpose_a" in op.__doc__ and "Args:" in op.__doc__
    assert "MatMul" in dir(tf.raw_ops)
    with pytest.raises(TypeError, match="missing a required argument: 'b'"):
        op(1.0)
    values, indices = tf.raw_ops.TopKV2(input=[1.0, 3.0, 2.0], k=2)
    assert values.dtype is tf.float32 and indices.dtype is tf.int32


def test_argument_constants_do_not_use_operation_names():
    x = tf.constant(1.0, name="x")
    v = tf.Variable(2.0, name="v")
    made = [tf.multiply(x, 2.0), tf.multiply(x, v), tf.multiply(3.0, x),
            tf.multiply(x, 4.0, name="by"), tf.multiply(x, 5.0, name="by")]
    assert [t.op.name for t in made] == ["Mul", "Mul_1", "Mul_2", "by", "by_1"]
    assert [t.op.inputs[1].op.name for t in made[::3]] == ["Mul/y", "by/y"]
    with tf.name_scope("s"):
        assert [(x * 2.0).op.name for _ in range(2)] == ["s/mul", "s/mul_1"]

    class Squared:  # Its conversion function gets the name.
        pass

    tf.register_tensor_conversion_function(
        Squared, lambda value, **unused: tf.multiply(x, x, name="new"))
    both = tf.multiply(x, Squared(), name="new")
    assert [both.op.inputs[1].op.name, both.op.name] == ["new", "new_1"]


def test_gc_may_run_while_first_handles_are_created():
    program = """if True:
        import gc
        gc.set_threshold(1)
        import sluice.compat.v1 as tf
        x = tf.Variable(1.0)
        with tf.Session() as session:
            session.run(x.initializer)
            assert session.run(x + 1.0) == 2.0
        print(x.op.name)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True,
                          text=True)
    assert done.stdout == "Variable\n", done


def test_graph_is_displayed_with_boxes():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.name_scope("scope"):
        y = tf.while_loop(
            lambda v: v < 10.0,
            lambda v: tf.cond(v > 5.0, lambda: tf.square(v, name="squared"),
                              lambda: v + x, name="choice"), [x], name="loop")
    tf.Defun(tf.float32, func_name="Half")(lambda t: t / 2.0)(y)
    html = tf.get_default_graph()._repr_html_()
    boxes = re.findall(r'<div class="box (\w+)"><div class="title">([^<]*)',
                       html)
    assert [kind for kind, _ in boxes] == ["graph", "loop", "branch", "branch",
                                           "call"]
    titles = [title for _, title in boxes]
    assert titles[1].startswith("while scope/loop ")
    predicate = "scope/loop/choice/pred_id:0   (scope/loop/choice)"
    assert {f"if {predicate}", f"if not {predicate}"} == set(titles[2:4])
    assert titles[4].startswith("call Half(t float[])")
    assert "http" not in html and "<script" not in html
    # Tags are balanced and all text is escaped.
    assert html.count("<div") == html.count("</div>")
    parsed = []
    parser = HTMLParser()
    parser.handle_data = parsed.append
    parser.feed(html)
    assert "squared " in parsed and "Square" in parsed


def test_gradients_are_displayed_folded():
    x = tf.placeholder(tf.float32, [], name="x")
    tf.gradients(tf.tanh(tf.square(x)), x)
    html = tf.get_default_graph()._repr_html_()
    details = re.findall(r'<details class="box gradients">'
                         r'<summary class="title">([^<]*)', html)
    assert len(details) == 1 and re.match(r"gradients   \(\d+ nodes\)",
                                          details[0])
    assert "TanhGrad" in html[html.index("<details"):html.index("</details>")]
    assert html.count("<div") == html.count("</div>")


def test_display_names_are_distinct_and_short():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.name_scope("an_outer_scope/with_a_long_name/and_a_longer_one"):
        far = tf.identity(x, name="far")
        y = tf.while_loop(
            lambda v: v < 10.0, lambda v: tf.cond(
                v > 5.0, lambda: v + 1.0, lambda: v * far, name="a"),
            [x], name="loop")
    tf.add_n([tf.identity(y) for _ in range(9)])
    html = tf.get_default_graph()._repr_html_()
    nodes = re.findall(r'<div class="node[^>]*>(.*?)</div>', html)
    assert "a/Merge<div class=\"from\">a/mul, a/add" in nodes
    assert ("a/mul/Enter<div class=\"from\">"
            "…/with_a_long_name/and_a_longer_one/far") in nodes
    assert ("AddN<div class=\"from\">Identity, Identity_1, Identity_2, "
            "Identity_3, 5 more") in nodes
    assert "/loop/a" not in "".join(nodes)
    # No fixed black or white is used, because the page may be light or dark.
    assert "color:#fff" not in html and "background:#" not in html


def test_a_huge_graph_shows_its_first_operations():
    graph = tf.get_default_graph()
    x = tf.placeholder(tf.float32, [])
    for _ in range(3000):
        x = tf.identity(x)
    html = graph._repr_html_()
    assert "3,001 operations" in html and "2,001 more operations" in html
    assert len(html) < 400_000


def test_numbers_of_operations_are_registered():
    from sluice.compat.internals import registries

    @registries.RegisterStatistics("Square", "squares")
    def _squares(graph, node):
        return registries.OpStats("squares", graph.get_tensor_by_name(
            node.name + ":0").shape.num_elements())

    y = tf.square(tf.ones([2, 3]))
    total = registries.get_stats_for_node_def(y.graph, y.op.node_def, "squares")
    total += registries.get_stats_for_node_def(
        y.graph, tf.abs(y).op.node_def, "squares")
    assert total.value == 6
    with pytest.raises(KeyError, match="Registering two"):
        registries.RegisterStatistics("Square", "squares")(_squares)


def test_unused_names_are_reissued():
    graph = tf.get_default_graph()
    tf.constant(1, name="a")
    assert graph.unique_name("a", mark_as_used=False) == "a_1"
    assert graph.unique_name("a") == "a_1"
    assert graph.unique_name("a") == "a_2"
    definition = graph.as_graph_def()
    for name in ("b", "b_1", "b_2"):
        tf.import_graph_def(definition, name="b")
        assert graph.get_operations()[-1].name == name + "/a"


def test_device_functions_apply_to_other_objects(fresh_graph):
    class Captured:
        device = None

        def _set_device(self, device):
            self.device = device

    def here():
        captured = Captured()
        fresh_graph._apply_device_functions(captured)
        return captured.device

    assert here() is None
    with tf.device("/job:ps"), tf.device("/gpu:1"):
        found = here()
        assert (found.job, found.device_type, found.device_index) == (
            "ps", "GPU", 1)
    with tf.device(lambda op: "/cpu:0"):
        assert here().device_type == "CPU"


def test_graph_is_found_from_inputs():
    from sluice.framework.graph import _get_graph_from_inputs
    here, op = tf.get_default_graph(), tf.constant(1)
    assert _get_graph_from_inputs([1, op]) is here
    with tf.Graph().as_default() as other:
        assert _get_graph_from_inputs([1]) is other
        assert _get_graph_from_inputs([op]) is here
        there = tf.constant(1)
        with pytest.raises(ValueError, match="must be from the same graph as"):
            _get_graph_from_inputs([op, there])
    with pytest.raises(ValueError, match="not from the passed-in graph"):
        _get_graph_from_inputs([op], other)
    with pytest.raises(TypeError, match="needs to be a Graph"):
        _get_graph_from_inputs([op], "graph")


def test_arg_scopes():
    framework = tf.contrib.framework

    @framework.add_arg_scope
    def f(x, a=1, b=2):
        """Its text."""
        return x, a, b

    @framework.add_arg_scope
    def g(*, c=3):
        return c

    def plain():
        pass

    with framework.arg_scope([f, g], a=5), framework.arg_scope([f], b=6) as at:
        assert f(0) == (0, 5, 6) and f(0, a=7) == (0, 7, 6)
        assert framework.current_arg_scope() == at
    assert f(0) == (0, 1, 2) and f.__doc__ == "Its text."
    with framework.arg_scope(at):
        assert f(0) == (0, 5, 6)
    assert framework.arg_scoped_arguments(f) == ("a", "b")
    assert framework.arg_scoped_arguments(g) == ("c",)
    assert not framework.has_arg_scope(plain)
    for error, make in (
            (TypeError, lambda: framework.arg_scope(f, a=1)),
            (ValueError, lambda: framework.arg_scope([plain], a=1)),
            (ValueError, lambda: framework.arg_scope(at, a=1))):
        with pytest.raises(error), make():
            pass
    with pytest.raises(AssertionError, match="not decorated"):
        framework.arg_scoped_arguments(plain)


def test_graphs_can_be_imported_again_and_again():
    with tf.Graph().as_default() as first:
        tf.identity(tf.constant(1.0, name="a"), name="b")
    definition = first.as_graph_def()
    for suffix in ("", "_1", "_2"):
        b, = tf.import_graph_def(definition, return_elements=["b"], name="")
        assert (b.name, b.inputs[0].name) == ("b" + suffix, f"a{suffix}:0")
    with tf.name_scope("c"):
        tf.constant(0)
    definition.node[1].name = "c"
    c, = tf.import_graph_def(definition, return_elements=["c"], name="")
    assert c.name == "c_1"


def test_imported_nodes_are_placed_by_the_scopes():
    with tf.Graph().as_default() as first:
        a = tf.constant(1.0, name="a")
        with tf.device("/cpu:1"):
            tf.identity(a, name="b")
        with tf.colocate_with(a):
            tf.identity(a, name="c")
    seen = []

    def choose(op):
        seen.append((op.name, len(op.inputs)))
        return op.device or "/job:ps"

    with tf.device(choose), tf.device("/task:3"):
        a, b, c = tf.import_graph_def(first.as_graph_def(), name="",
                                      return_elements=["a", "b", "c"])
    assert seen == [("a", 0), ("b", 1)]
    assert (a.device, b.device, c.device) == (
        "/task:3", "/task:3/device:CPU:1", "/task:3")


def test_imports_drop_unknown_producer_defaults():
    with tf.Graph().as_default() as first:
        tf.identity(tf.constant(1.0, name="a"), name="b")
    definition = first.as_graph_def()
    definition.node[1].attr["new"].i = 5
    producer = protos.OpList()
    op = producer.op.add(name="Identity")
    attr = op.attr.add(name="new", type="int")
    attr.default_value.i = 5
    b, = tf.import_graph_def(definition, return_elements=["b"],
                             producer_op_list=producer)
    with pytest.raises(ValueError, match="no attr named 'new'"):
        b.get_attr("new")
    attr.default_value.i = 6
    b, = tf.import_graph_def(definition, return_elements=["b"],
                             producer_op_list=producer)
    assert b.get_attr("new") == 5


def test_variable_updates_are_colocated():
    with tf.device("/job:ps"):
        v = tf.Variable([1.0, 2.0], name="v", use_resource=False)
    change = tf.scatter_update(v, [0], [3.0]).op
    assert change.colocation_groups() == [b"loc:@v"]
    assert change.device == "/job:ps"


def test_generated_names_differ_in_more_than_case(fresh_graph):
    x = tf.constant(1.0)
    assert tf.add(x, x).op.name == "Add"
    assert (x + x).op.name == "add_1"
    with tf.name_scope("Layer") as first, tf.name_scope("inner"):
        pass
    with tf.name_scope("layer") as second:
        pass
    assert (first, second) == ("Layer/", "layer_1/")
    names = [tf.get_variable(n, [1]).name for n in "wW"]
    assert names == ["w:0", "W_1:0"]
    assert fresh_graph.unique_name("CONST") == "CONST_1"


def _a_loop_and_a_sum():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.device("/cpu:0"):
            y = tf.constant(2.0, name="y")
        tf.while_loop(lambda i: i < 5.0, lambda i: i + y, [x], name="loop")
        tf.add(x, y, name="z")
    return graph.as_graph_def()


def test_imports_rename_existing_names(fresh_graph, run):
    given = _a_loop_and_a_sum()
    results = [tf.import_graph_def(given, name="", return_elements=[
        "loop/Exit:0", "x:0", "z"]) for _ in range(2)]
    (first, x, z), (second, other_x, other_z) = results
    assert (z.name, other_z.name) == ("z", "z_1")
    assert other_z.inputs[0] is other_x
    # The two loops remain separate.
    assert run([first, second], {x: 0.0, other_x: 1.0}) == [6.0, 5.0]
    in_scope, = tf.import_graph_def(given, name="a/", return_elements=["z"])
    again, = tf.import_graph_def(given, name="a/", return_elements=["z"])
    assert (in_scope.name, again.name) == ("a/z", "a/z_1")


def test_imports_return_mapped_outputs():
    x = tf.constant(5.0)
    found = tf.import_graph_def(_a_loop_and_a_sum(), {"x": x},
                                ["x:0", "x", "z:0"])
    assert found[0] is x and found[1].name == "import/x"
    assert found[2].op.inputs[0] is x


def test_imports_are_placed_and_ordered_by_the_scopes_around_them():
    before = tf.no_op()
    given = _a_loop_and_a_sum()
    with tf.device("/job:worker"), tf.control_dependencies([before]):
        y, z = tf.import_graph_def(given, return_elements=["y", "z"])
    assert y.device == "/job:worker/device:CPU:0"
    assert z.device == "/job:worker"
    assert y.control_inputs == [before] and z.inputs[1].op is y
    seen = []

    def place(op):
        seen.append(op.name)
        return "/device:CPU:1" if op.type == "AddV2" else ""
    with tf.device(place):
        z, = tf.import_graph_def(given, return_elements=["z"], name="again")
    assert z.device == "/device:CPU:1" and len(seen) == len(given.node)

    def fails(op):
        raise KeyError(op.name)
    with pytest.raises(KeyError), tf.device(fails):
        tf.import_graph_def(given)


def test_control_dependency_on_variable_does_not_read_it(run):
    v = tf.Variable(1.0, name="v")
    with tf.control_dependencies([v]):
        ready = tf.no_op()
    assert ready.control_inputs == [v.op]
    run(ready)  # This works although v is uninitialized.
    assert isinstance(v.assign(2.0, read_value=False), tf.Operation)


def test_invalid_scopes_and_elements_are_errors(fresh_graph):
    with pytest.raises(ValueError, match="reset colocation"):
        tf.colocate_with(None)
    with pytest.raises(ValueError, match="at least one Tensor"):
        tf.tuple([])
    with pytest.raises(ValueError, match="looks a like a Tensor name"):
        fresh_graph.as_graph_element("a:0:0")
    with pytest.raises(TypeError, match="valid indices"):
        tf.constant([1, 2])[tf.constant([1])]
    with pytest.raises(TypeError, match="not in list of allowed values"):
        tf.constant(1.0) & 1
    with pytest.raises(TypeError, match="a tensor among them"):
        tf.constant([tf.constant(1), 2])
    fresh_graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        fresh_graph.clear_collection("c")


def _doubled():
    with tf.Graph().as_default() as graph:
        tf.multiply(tf.placeholder(tf.float32, [], name="x"), 2.0, name="y")
    return graph.as_graph_def()


def test_imports_work_inside_loops_and_branches(run):
    given = _doubled()

    def double(x):
        return tf.import_graph_def(given, {"x": x}, ["y:0"])[0]
    x = tf.constant(1.0)
    end = tf.while_loop(lambda i: double(i) < 20.0, lambda i: double(i), [x])
    assert run([end, tf.gradients(end, x)]) == [16.0, [16.0]]
    choice = tf.placeholder(tf.bool, [])
    either = tf.cond(choice, lambda: double(x), lambda: x)
    assert run([either, tf.gradients(either, x)], {choice: True}) == [2, [2]]
    assert run([either, tf.gradients(either, x)], {choice: False}) == [1, [1]]


def test_sums_of_gradients_are_within_their_scope(run):
    x = tf.constant(3.0)
    total, = tf.gradients([x * x, x * 2.0], x)
    assert total.op.name == "gradients/AddN" and run(total) == 8.0


def test_nothing_waits_for_removed_checks():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.control_dependencies([tf.check_numerics(x, "nan", name="check")]):
            y = tf.identity(x, name="y")
            z = tf.negative(x, name="z")
        tf.add(y, z, name="sum")
        tf.no_op(name="last")
    made = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    assert [(n.name, list(n.input)) for n in made.node] == [
        ("x", []), ("z", ["x"]), ("sum", ["x", "z"]), ("last", [])]
    with tf.Graph().as_default():
        tf.import_graph_def(made)  # It is whole.
