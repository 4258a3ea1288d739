"""Operations: creation, properties and changes."""

import copy
import inspect
import pickle
import pydoc
import threading

import numpy as np
import pytest

import sluice.compat.v1 as tf


def _names(ops):
    return [op.name for op in ops]


# ---- Device functions --------------------------------------------------------


def test_device_functions_see_complete_operations():
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    c = tf.constant([1, 2], name="c")
    seen = []

    def choose(op):
        seen.append((op.type, op.name, _names(op.inputs),
                     _names(op.control_inputs),
                     [o.shape.as_list() for o in op.outputs], op.device,
                     op.node_def.op, len(op.node_def.input)))
        wanted = op.type == "MatMul" and op.get_attr("T") == tf.float32
        return "/device:CPU:1" if wanted else ""

    with tf.device("/job:w"), tf.device(choose), tf.device("/cpu:0"):
        with tf.control_dependencies([c]):
            product, same = tf.matmul(x, x), tf.identity(c)
    assert seen == [
        ("MatMul", "MatMul", ["x:0", "x:0"], ["c"], [[2, 2]], "/device:CPU:0",
         "MatMul", 3),
        ("Identity", "Identity", ["c:0"], [], [[2]], "/device:CPU:0",
         "Identity", 1)]
    assert product.device == "/job:w/device:CPU:1" and same.device == "/job:w"
    # The function sees the same object as the program.
    with tf.device(lambda op: setattr(op, "mark", 1)):
        y = tf.identity(x)
    assert y.op.mark == 1


def test_device_functions_may_enter_scopes():
    def choose(op):
        with tf.device("/cpu:3"), tf.name_scope("else"):
            return "/cpu:1"

    with tf.device(choose), tf.device(choose):
        assert tf.constant(1, name="c").device == "/device:CPU:1"
        assert tf.constant(1, name="c").name == "c_1:0"


def test_replica_device_setter_reads_operations():
    sizes = []

    def largest_apart(op):
        sizes.append(op.outputs[0].shape.num_elements())
        return 1 if sizes[-1] > 10 else 0

    with tf.device(tf.train.replica_device_setter(
            2, worker_device="/job:worker/task:3", ps_strategy=largest_apart)):
        small = tf.Variable(tf.zeros([3]), use_resource=False)
        large = tf.Variable(tf.zeros([30]), use_resource=False)
        with tf.device("/cpu:0"):
            assert (small + 1.0).device == "/job:worker/task:3/device:CPU:0"
    assert sizes == [3, 30]
    assert small.device == "/job:ps/task:0"
    assert large.device == "/job:ps/task:1"
    kept = tf.train.replica_device_setter(1, merge_devices=False)
    with tf.device(kept), tf.device("/cpu:0"):
        assert tf.constant(1).device == "/device:CPU:0"
    assert kept(tf.NodeDef(op="VariableV2")) == "/job:ps/task:0"
    with pytest.raises(TypeError, match="must be callable"):
        tf.train.replica_device_setter(1, ps_strategy=3)


# ---- Control inputs ----------------------------------------------------------


def test_implied_control_inputs_are_omitted():
    a, b, c = (tf.constant(i, name=n) for i, n in enumerate("abc"))
    with tf.control_dependencies([a, a, b]):
        p = tf.identity(a, name="p")  # Its input implies a dependency on a.
        q = tf.identity(p)  # The input was made within the scope.
        r, t = tf.constant(1), p + c
        with tf.control_dependencies([p, c]):
            u = tf.identity(p)
            v = tf.no_op()
            w = tf.identity(u)
        with tf.control_dependencies(None):
            alone = tf.identity(c)
        after = tf.identity(alone)
    waits = [_names(getattr(o, "op", o).control_inputs)
             for o in (p, q, r, t, u, v, w, alone, after)]
    assert waits == [["b"], [], ["a", "b"], [], ["c"], ["a", "b", "p", "c"], [],
                     [], ["a", "b"]]


def test_omitted_control_inputs_still_order_execution(run):
    v = tf.Variable(1.0, use_resource=True)
    run(v.initializer)
    with tf.control_dependencies([v.assign_add(1.0).op]):
        read = v.read_value()
        y = tf.square(read) + tf.while_loop(
            lambda i: i < 3.0, lambda i: i + read, [0.0])
    assert y.op.control_inputs == []
    assert run(y) == 8.0 and run(y) == 12.0


# ---- Creation and changes of operations --------------------------------------


def test_create_op_accepts_attr_messages(run):
    graph = tf.get_default_graph()
    c = tf.constant([1, 2], name="c")
    made = graph.create_op(
        "Cast", [c], [tf.float32], name="to",
        attrs={"DstT": tf.AttrValue(type=1), "_mine": tf.AttrValue(i=7)})
    np.testing.assert_array_equal(run(made.outputs[0]), [1.0, 2.0])
    assert made.name == "to" and made.outputs[0].dtype is tf.float32
    assert made.get_attr("_mine") == made.node_def.attr["_mine"].i == 7
    with tf.name_scope("sc") as scope, tf.device("/cpu:1"):
        named = graph.create_op("Add", [c, c], [tf.int32], name=scope)
        assert (named.name, named.device) == ("sc", "/device:CPU:1")
        plain = graph.create_op("Add", [c, c], compute_device=False)
        assert (plain.name, plain.device) == ("sc/Add", "")
    v = tf.Variable([1, 2], use_resource=False)
    assign = graph.create_op("Assign", [v._ref(), c],
                             input_types=[tf.as_dtype("int32_ref"), tf.int32])
    assert run(assign.outputs[0]).tolist() == [1, 2]
    calls = [f.line for f in assign.traceback if f.filename == __file__]
    assert calls[-1].startswith('assign = graph.create_op("Assign"')
    for error, words, make in (
            (TypeError, "Input #1 is not a tensor: 3",
             lambda: graph.create_op("Add", [c, 3])),
            (TypeError, "are not compatible with expected types",
             lambda: graph.create_op("Add", [c, c], input_types=[
                 tf.float32, tf.int32])),
            (ValueError, "DstT", lambda: graph.create_op("Cast", [c])),
            (ValueError, "bad name",
             lambda: graph.create_op("Add", [c, c], name="bad name")),
            (RuntimeError, "Op type not registered 'Castt'",
             lambda: graph.create_op("Castt", [c]))):
        with pytest.raises(error, match=words):
            make()
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        graph.create_op("Add", [c, c])


def test_attributes_are_messages_like_tensorflow():
    x = tf.placeholder(tf.float32, [None, 3])
    assert [d.size for d in x.op.get_attr("shape").dim] == [-1, 3]
    assert tf.placeholder(tf.int32).op.get_attr("shape").unknown_rank
    value = tf.constant([1, 2]).op.get_attr("value")
    np.testing.assert_array_equal(tf.make_ndarray(value), [1, 2])
    nothing = tf.no_op()
    nothing._set_attr("_of_types", tf.AttrValue(
        list=tf.AttrValue.ListValue(type=[1, 3])))
    assert nothing.get_attr("_of_types") == [tf.float32, tf.int32]
    nothing._set_attr("_of_types", tf.AttrValue(s=b"else"))
    assert nothing.get_attr("_of_types") == b"else"
    assert nothing.node_def.attr["_of_types"].s == b"else"
    # Attributes that determine inputs or outputs, and kinds, cannot change.
    product = tf.matmul(tf.ones([1, 1]), tf.ones([1, 1])).op
    product._set_attr("transpose_a", tf.AttrValue(b=True))
    assert product.get_attr("transpose_a")
    for name, value in (("T", tf.AttrValue(type=18)),
                        ("transpose_a", tf.AttrValue(i=1))):
        with pytest.raises(ValueError, match=f"attribute '{name}': expected"):
            product._set_attr(name, value)


def test_op_defs_list_arguments():
    declared = tf.matmul(tf.ones([1, 1]), tf.ones([1, 1])).op.op_def
    assert declared.name == "MatMul"
    assert [a.name for a in declared.input_arg] == ["a", "b"]
    assert [a.type_attr for a in declared.output_arg] == ["T"]
    attrs = {a.name: a for a in declared.attr}
    assert attrs["transpose_a"].type == "bool"
    assert attrs["transpose_a"].default_value.WhichOneof("value") == "b"
    allowed = attrs["T"].allowed_values.list.type
    assert tf.float32.as_datatype_enum in allowed and 7 not in allowed
    graph = tf.get_default_graph()
    assert graph.op_def_for_type("VariableV2").output_arg[0].is_ref
    assert graph.op_def_for_type("RandomUniform").is_stateful
    concat = {a.name: a for a in graph.op_def_for_type("ConcatV2").attr}
    assert concat["N"].has_minimum and concat["N"].minimum == 2
    with pytest.raises(RuntimeError, match="Op type not registered 'Nope'"):
        graph.op_def_for_type("Nope")


def _make(x):
    return tf.add(x, 1.0)


def test_tracebacks_list_the_creating_calls():
    x = tf.placeholder(tf.float32)
    line = inspect.currentframe().f_lineno + 1
    y = _make(x)
    calls = [(f.name, f.lineno) for f in y.op.traceback
             if f.filename == __file__]
    assert calls == [
        ("test_tracebacks_list_the_creating_calls", line),
        ("_make", _make.__code__.co_firstlineno + 1)]
    names = [name for _, _, name, _ in y.op.traceback]
    assert names.index("_make") > names.index(calls[0][0])
    # Another operation, made at another line, has its own traceback.
    z = _make(x)
    again = [f.lineno for f in z.op.traceback if f.filename == __file__]
    assert again[0] > line and again[1:] == [calls[1][1]]
    gradient, = tf.gradients(z * z, x)
    assert any(f.lineno > again[0] for f in gradient.op.traceback
               if f.filename == __file__)
    text = "".join(y.op.traceback.format())
    assert "return tf.add(x, 1.0)" in text
    graph_def = y.graph.as_graph_def()
    with tf.Graph().as_default():
        add, = tf.import_graph_def(graph_def, return_elements=["Add"], name="")
    assert add.traceback[-1].lineno


# ---- Feeding and fetching ----------------------------------------------------


def test_graphs_report_feedable_and_fetchable(session):
    x = tf.placeholder(tf.float32, name="x")
    y = tf.square(x, name="y")
    z = y + 1.0
    graph = x.graph
    assert graph.is_feedable(x) and graph.is_fetchable(y)
    graph.prevent_feeding(y)
    graph.prevent_fetching(y.op)
    assert not graph.is_feedable(y) and graph.is_feedable(x)
    assert not graph.is_fetchable(y) and not graph.is_fetchable(y.op)
    assert graph.is_fetchable(z)
    assert session.run(z, {x: 2.0}) == 5.0
    for step in (lambda: session.run(z, {y: 2.0}),
                 lambda: session.make_callable(z, [y])(2.0),
                 lambda: session.partial_run_setup([z], [y])):
        with pytest.raises(ValueError, match="Tensor y:0 may not be fed"):
            step()
    for step in (lambda: session.run(y, {x: 2.0}),
                 lambda: session.run([z, {"a": y.op}], {x: 2.0}),
                 lambda: session.make_callable(y, [x])):
        with pytest.raises(ValueError, match="y has been marked as not fetch"):
            step()


def test_threads_start_with_shared_scopes():
    graph = tf.get_default_graph()
    made = []

    def build():
        with graph.as_default():
            made.append(tf.no_op())

    def in_thread():
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
        return made[-1]

    first = tf.no_op(name="first")
    with tf.device("/cpu:1"), tf.control_dependencies([first]), tf.name_scope(
            "here"):
        assert in_thread().device == ""
        graph.switch_to_thread_local()
        op = in_thread()
    assert (op.device, op.control_inputs) == ("/device:CPU:1", [first])
    assert "/" not in op.name
    assert in_thread().device == "/device:CPU:1"
    assert tf.no_op().device == ""


# ---- Op functions ------------------------------------------------------------


def test_op_functions_have_signatures_and_help():
    signature = inspect.signature(tf.nn.relu)
    assert list(signature.parameters) == ["features", "name"]
    assert signature.parameters["features"].annotation is tf.Tensor
    assert signature.parameters["name"].default is None
    assert signature.return_annotation is tf.Tensor
    parameters = inspect.signature(tf.raw_ops.Conv2D).parameters
    assert parameters["data_format"].default == "NHWC"
    assert parameters["strides"].annotation == list[int]
    top = inspect.signature(tf.raw_ops.TopKV2)
    assert top.return_annotation is tuple
    assert inspect.signature(tf.raw_ops.NoOp).return_annotation is tf.Operation
    text = pydoc.render_doc(tf.nn.relu, renderer=pydoc.plaintext)
    assert "relu(features: " in text and "max(features, 0), elementwise." in text
    assert "features: a Tensor of type T, one of float32" in text
    assert "activations: a Tensor of type T" in text
    assert "sorted: a bool; by default true" in tf.raw_ops.TopKV2.__doc__
    assert tf.nn.relu.__name__ == "relu"
    assert tf.raw_ops.Relu.__name__ == "Relu"


def test_results_of_an_op_are_of_one_class():
    one, two = tf.nn.top_k([1.0, 2.0]), tf.nn.top_k([3.0])
    assert type(one) is type(two) is type(tf.raw_ops.TopKV2(input=[1.0], k=1))
    assert type(one)._fields == ("values", "indices")


def test_op_functions_can_be_pickled_and_copied(run):
    class Net:
        activation = tf.nn.relu

    for op in (tf.nn.relu, tf.raw_ops.MatMul, tf.maximum, tf.exp):
        assert pickle.loads(pickle.dumps(op)) is op
        assert copy.deepcopy({"op": op})["op"] is op
    from sluice import _core
    private = pickle.loads(pickle.dumps(_core.op("Relu", "mine")))
    assert private(-1.0).op.name == "mine"
    assert run(Net().activation([-1.0, 2.0])).tolist() == [0.0, 2.0]
