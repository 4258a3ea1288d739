"""Internal names of TensorFlow (`tensorflow.python...`) that programs use."""

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.compat import imports, logging
from sluice.compat.internals import (
    context, deprecation, introspection, private_names, registries, resources,
    subscribe)
from sluice.ops import control_flow, gradients, partitioned, variable_scope


def test_decorators_can_be_listed_and_unwrapped():
    def plus_one(target):
        return introspection.make_decorator(
            target, lambda *args: target(*args) + 1)

    @plus_one
    @plus_one
    def f(x, y=2):
        """Adds."""
        return x + y

    decorators, target = introspection.unwrap(f)
    assert [d.decorator_name for d in decorators] == ["plus_one"] * 2
    assert (f(1), target(1), f.__doc__) == (5, 3, "Adds.")
    assert introspection.getargspec(f).args == ["x", "y"]
    assert introspection.getcallargs(f, 5) == {"x": 5, "y": 2}
    assert introspection.isfunction(introspection.TFDecorator("name", f))
    spec = introspection.ArgSpec(["a"], None, None, (3,))
    other = introspection.TFDecorator("", f, "Says.", spec)
    assert introspection.getargspec(other) == spec
    assert other.__doc__ == "Says." and other(1) == 5

    @introspection.contextmanager
    def block(a):
        yield a
    assert introspection.getargspec(block).args == ["a"]

    class C:
        def method(self, a):
            return a
    c = C()
    assert introspection.getcallargs(c.method, a=1) == {"self": c, "a": 1}


def test_deprecations_are_documented(monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda *args: told.append(args))

    @deprecation.deprecated("2020-01-01", "Use g.")
    def f():
        """Does it.

        Returns: nothing.
        """

    assert f.__doc__ == (
        "Does it. (deprecated)\n\nTHIS FUNCTION IS DEPRECATED. It will be "
        "removed after 2020-01-01.\nInstructions for updating:\nUse g.\n\n"
        "Returns: nothing.")
    with deprecation.silence():
        f()
    assert not told
    f()
    assert {"after 2020-01-01", "Use g."} <= set(told[0])

    @deprecation.deprecated_arg_values(None, "Not 2.", warn_once=False, a=2)
    def g(a=2):
        return a
    assert g.__doc__.startswith("DEPRECATED FUNCTION ARGUMENTS\n\nSOME ARG")
    g(1)
    assert len(told) == 1
    g()
    assert len(told) == 2 and "a=2" in told[1]
    for fails, words in (
            (lambda: deprecation.deprecated("01-01-2020", "x"), "YYYY-MM-DD"),
            (lambda: deprecation.deprecated(None, ""), "instructions"),
            (lambda: deprecation.deprecated(None, "x")(3), "not a function"),
            (lambda: deprecation.deprecated_args(None, "x"), "argument"),
            (lambda: deprecation.deprecated_args(None, "x", "b")(g),
             "not present")):
        with pytest.raises(ValueError, match=words):
            fails()


def test_registries_reject_duplicate_names():
    registry = registries.Registry("things")
    registry.register(tf.add)
    registry.register(len, "size")
    assert sorted(registry.list()) == ["add", "size"]
    assert registry.lookup("size") is len
    with pytest.raises(KeyError, match="test_internals.py"):
        registry.register(max, "size")
    with pytest.raises(LookupError, match="things registry has no entry"):
        registry.lookup("other")


def test_operations_can_be_built_from_node_defs():
    graph = tf.Graph()
    x = tf.Operation(private_names._NodeDef("NoOp", "x", device="/cpu:0"), graph)
    assert (x.name, x.type, x.graph) == ("x", "NoOp", graph)
    assert x.device == "/device:CPU:0"
    with graph.as_default():
        one = tf.constant(1.0)
    attr = tf.AttrValue()
    attr.type = int(tf.float32)
    y = tf.Operation(private_names._NodeDef("Identity", "y", attrs={"T": attr}), graph,
                     [one], control_inputs=[x])
    assert list(y.inputs) == [one] and y.control_inputs == [x]
    assert y.outputs[0].value_index == 0
    y._set_device(tf.DeviceSpec(job="a"))
    assert y.device == "/job:a" and x._control_outputs == [y]
    y._remove_all_control_inputs()
    assert y.control_inputs == []
    for name in ("", "_x", "-x", "x:0"):
        with pytest.raises(ValueError, match="not a valid node name"):
            tf.Operation(private_names._NodeDef("NoOp", name), graph)


def test_inputs_can_be_replaced_by_compatible_ones():
    a, b = tf.constant(2), tf.constant(3)
    y = tf.multiply(a, a)
    assert a.consumers() == [y.op, y.op]
    y.op._update_input(1, b)
    assert (a.consumers(), b.consumers()) == ([y.op], [y.op])
    with tf.Session() as session:
        assert session.run(y) == 6
    with tf.Graph().as_default():
        other = tf.constant(1)
    for error, index, to in (
            (ValueError, 0, other), (TypeError, 0, tf.constant(1.0)),
            (tf.errors.InvalidArgumentError, 0, tf.constant([1, 2])),
            (tf.errors.OutOfRangeError, 2, a)):
        with pytest.raises(error):
            y.op._update_input(index, to)


def test_gradient_functions_are_found():
    name = "SeventimesOf" + __name__

    @tf.RegisterGradient(name)
    def seven_times(op, grad):
        return grad * 7.0
    x = tf.constant(3.0)
    with tf.get_default_graph().gradient_override_map({"Square": name}):
        y = tf.square(x)
    with tf.get_default_graph().gradient_override_map({"Square": "nothing"}):
        z = tf.square(x)
    assert gradients.get_gradient_function(y.op) is seven_times
    with pytest.raises(LookupError, match="nothing"):
        gradients.get_gradient_function(z.op)
    square = tf.square(x)
    grad, = gradients.get_gradient_function(square.op)(square.op, 2.0)
    product, = private_names._hessian_vector_product(x * x * x, [x], [2.0])
    with tf.Session() as session:
        assert session.run([grad, product]) == [12, 36]
    assert gradients.get_gradient_function(tf.no_op()) is None


def test_name_scope_requires_name_and_one_graph():
    a = tf.constant(1)
    with tf.Graph().as_default():
        b = tf.constant(1)
    for error, args in ((ValueError, (None, None, [a])),
                        (TypeError, ("n", [a])),
                        (ValueError, ("n", None, [a, b]))):
        with pytest.raises(error):
            with tf.name_scope(*args):
                pass
    with tf.name_scope("n", None, [b]):
        assert tf.get_default_graph() is b.graph


def test_variable_store_is_accessible(fresh_graph):
    store = variable_scope._get_default_variable_store()
    with tf.variable_scope("s"):
        v = tf.get_variable("v", [2])
    assert store._vars == {"s/v": v}
    assert store.get_variable("s/v", [2]) is v
    with pytest.raises(ValueError, match="exist"):
        store.get_variable("other", [2], reuse=True)


def test_partition_info_gives_offsets(fresh_graph):
    info = partitioned.PartitionInfo([9, 3], [4, 0])
    assert info.single_slice_dim([2, 3]) == 0
    assert info.single_offset([2, 3]) == 4
    for shape in ([1, 2, 3], [6, 3], [1, 1]):
        with pytest.raises(ValueError):
            info.single_slice_dim(shape)
    with pytest.raises(TypeError):
        partitioned.PartitionInfo("foo", [0])
    with pytest.raises(ValueError):
        partitioned.PartitionInfo([1, 1], [0, 1])
    parts = [tf.Variable([float(i)]) for i in range(2)]
    with pytest.raises(ValueError, match="save_slice_info"):
        partitioned.PartitionedVariable("p", [2], tf.float32, parts, [2])
    for i, part in enumerate(parts):
        part._set_save_slice_info(tf.Variable.SaveSliceInfo("p", [2], [i], [1]))
    whole = partitioned.PartitionedVariable("p", [2], tf.float32, parts[::-1],
                                            [2])
    assert list(whole) == parts
    made = tf.MetaGraphDef.FromString(
        tf.train.export_meta_graph().SerializeToString())
    with tf.Graph().as_default():
        tf.train.import_meta_graph(made)
        again = tf.global_variables()[1]._save_slice_info
        assert (again.full_name, again.var_offset) == ("p", [1])
    with pytest.raises(ValueError, match="Partitioner"):
        tf.get_variable("v", [2], partitioner=lambda **_: [3])
    with pytest.raises(ValueError, match="initial value"):
        tf.create_partitioned_variables([2, 2], [1, 1], tf.zeros([3, 2]))


def test_clusters_are_messages_too():
    spec = tf.train.ClusterSpec({"ps": ["a:1"], "worker": {2: "b:2"}})
    made = spec.as_cluster_def()
    assert [job.name for job in made.job] == ["ps", "worker"]
    assert dict(made.job[1].tasks) == {2: "b:2"}
    assert tf.train.ClusterSpec(made) == spec


def test_resources_are_created_and_reported(run):
    there = tf.Variable(False, name="there")
    handle = tf.Variable(0, name="handle")
    resources.register_resource(handle, there.assign(True).op, there,
                                is_shared=False)
    run(tf.global_variables_initializer())
    missing = resources.report_uninitialized_resources()
    assert run(missing).tolist() == [b"handle:0"]
    run(resources.initialize_resources(resources.local_resources()))
    assert run(missing).tolist() == []
    assert run(resources.report_uninitialized_resources([])).tolist() == []
    assert resources.shared_resources() == []
    v = tf.Variable(3.0, use_resource=True)
    run(resources.initialize_resources([v]))
    assert run(v) == 3.0


def test_trace_without_kernels_names_device(session):
    metadata = tf.RunMetadata()
    one = tf.constant(1.0)
    session.run(one, run_metadata=metadata)
    assert not metadata.HasField("step_stats")
    session.run(one, run_metadata=metadata,
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
    assert len(metadata.step_stats.dev_stats) == 1


def test_sparse_feeds_may_omit_known_shape(run):
    x = tf.sparse_placeholder(tf.float32, [2, 2])
    dense = tf.sparse_tensor_to_dense(x)
    fed = run(dense, {x: ([[0, 1]], [3.0])})
    assert fed.tolist() == [[0, 3], [0, 0]]
    y = tf.sparse_placeholder(tf.float32)
    with pytest.raises(ValueError, match="expected 3 values"):
        run(tf.sparse_tensor_to_dense(y), {y: ([[0, 1]], [3.0])})


def test_side_effects_can_subscribe_to_tensors(run):
    seen = []

    def sees(t):
        return tf.py_func(lambda v: (seen.append(v.tolist()), v)[1], [t],
                          [t.dtype])
    x = tf.constant(2)
    y = tf.multiply(x, x)
    with tf.control_dependencies([x]):
        z = tf.constant(3)
    one, two = tf.split([4, 5], 2)
    with tf.control_dependencies([one, two]):
        w = tf.constant(6)
    read = subscribe.subscribe({"x": [x]}, sees)["x"][0]
    assert subscribe._is_subscribed_identity(read)
    assert not subscribe._is_subscribed_identity(y)
    assert list(y.op.inputs) == [read, read]
    assert z.op.control_inputs == [read.op]
    assert run([y, z, read]) == [4, 3, 2] and seen == [2]
    # Subscribing again returns the same identity.
    assert subscribe.subscribe(read, [sees]) is read
    assert subscribe.subscribe(x, sees) is read
    assert run(z) == 3 and seen == [2, 2, 2, 2]
    seen.clear()
    subscribe.subscribe((one, two), sees)
    assert run(w) == 6 and sorted(seen) == [[4], [5]]
    with pytest.raises(TypeError, match="has invalid type"):
        subscribe.subscribe("x:0", sees)


def test_subscriptions_run_in_branch_of_tensor(run):
    seen = []
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: tf.constant(1.0, name="then"),
                lambda: tf.constant(2.0))
    then = tf.get_default_graph().get_tensor_by_name("cond/then:0")
    subscribe.subscribe(then, lambda t: tf.py_func(
        lambda v: (seen.append(float(v)), v)[1], [t], [t.dtype]))
    assert run(y, {p: False}) == 2.0 and seen == []
    assert run(y, {p: True}) == 1.0 and seen == [1.0]


def test_group_adds_a_node_per_device(fresh_graph):
    with tf.device("/task:0"):
        a, b = tf.constant(0, name="a"), tf.constant(0, name="b")
    with tf.device("/task:1"):
        c = tf.constant(0, name="c")
    one = tf.group(a, b, name="one")
    assert one.device == "/task:0" and len(one.control_inputs) == 2
    with tf.device("/task:2"):
        root = tf.group(a.op, [b, c], name="root")
    assert (root.name, root.device) == ("root", "/task:2")
    assert [(op.name, op.device, [i.name for i in op.control_inputs])
            for op in root.control_inputs] == [
                ("root/NoOp", "/task:0", ["a", "b"]),
                ("root/NoOp_1", "/task:1", ["c"])]
    assert tf.group(name="empty").control_inputs == []


def test_loop_constant_enters_are_recognized():
    for constant in (False, True):
        enter = tf.raw_ops.Enter(1, frame_name="f", is_constant=constant).op
        assert context.IsLoopEnter(enter)
        assert context.IsLoopConstantEnter(enter) is constant
    assert not context.IsLoopConstantEnter(tf.no_op())


def test_composite_tensors_and_references_enter_frames(session):
    sparse = tf.SparseTensor([[0, 5]], ["x"], [10, 10])
    rows = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
    outside = [private_names._Identity(control_flow.exit(
        private_names._Enter(value, "f"))) for value in (sparse, rows)]
    same, same_rows = session.run(outside)
    assert same.indices.tolist() == [[0, 5]] and same.values == [b"x"]
    assert same_rows.values.tolist() == [[1]] and same_rows.indices == [3]
    v = tf.Variable(7, use_resource=False)
    nine = private_names._Enter(9, "g", is_constant=True)
    entered = private_names._Enter(v, "g", is_constant=True)
    assigned = control_flow.exit(tf.assign(entered, nine))
    session.run(v.initializer)
    assert session.run(assigned) == 9 and session.run(v) == 9
    assert not private_names._Enter(v, "g", use_ref=False).dtype._is_ref_dtype
    assert session.run(tf.assign(private_names._Identity(v), 5)) == 5


def test_gradient_check_accepts_scalars_given_as_vectors(session):
    x = tf.constant([[1.0, 2.0]])
    y = tf.reduce_sum(x * x)
    assert tf.test.compute_gradient_error(x, [1, 2], y, [1]) < 1e-2
    z = tf.reshape(x * x, [2, 1])
    assert tf.test.compute_gradient_error(x, [1, 2], z, [1, 2]) < 1e-2


def test_stacked_shape_is_partly_known():
    n = tf.placeholder(tf.int32)
    assert tf.zeros(tf.stack([16, n])).shape.as_list() == [16, None]


def test_input_errors_are_worded_by_context(run):
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 modulo 4"):
        run(tf.decode_base64(b"AAAAA"))
    definition = tf.GraphDef()
    node = definition.node.add(name="B", op="NoOp")
    for text in ("^A", "A:B:0"):
        node.input[:] = [text]
        with pytest.raises(ValueError, match=r"Node 'B': Unknown input node"):
            tf.import_graph_def(definition)


def test_private_names_exist_in_every_module():
    module = imports._Finder._find("tensorflow.python.ops.some_ops")
    own = [name for name, value in vars(private_names).items()
           if getattr(value, "__module__", "") == private_names.__name__]
    assert {"softmax_v2", "merge_device", "_NodeDef"} <= set(own)
    for name in own:
        assert getattr(module, name) is getattr(private_names, name)
    assert module.softmax is not None
    with pytest.raises(AttributeError, match="no attribute 'sofmax_v2'"):
        module.sofmax_v2


def test_gradients_of_functions_of_tensors_are_checked(session):
    from sluice.compat.testing import gradient_checker_v2
    x = tf.constant(np.arange(256, dtype=np.float32))
    with session.as_default():
        by_gradients, by_differences = gradient_checker_v2.compute_gradient(
            lambda x: x * 3.0, [x])
    np.testing.assert_array_equal(by_gradients[0], 3 * np.eye(256))
    # Steps are powers of two, so that differences of large values are exact.
    np.testing.assert_array_equal(by_differences[0], 3 * np.eye(256))
