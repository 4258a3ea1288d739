"""Functions that create variables: variable_creator_scope."""

import threading

import sluice.compat.v1 as tf


def test_creators_see_every_new_variable(run):
    seen = []

    def outer(next_creator, **kwargs):
        seen.append(("outer", kwargs["name"], kwargs["use_resource"]))
        return next_creator(**kwargs)

    def inner(next_creator, **kwargs):
        seen.append(("inner", kwargs["name"], kwargs["trainable"]))
        kwargs.update(trainable=False, use_resource=True)
        return next_creator(**kwargs)

    with tf.variable_creator_scope(outer), tf.variable_creator_scope(inner):
        v = tf.Variable([1.0], name="v")
        w = tf.get_variable("w", [2])
        with tf.Graph().as_default():
            tf.Variable(0.0, name="elsewhere")
    tf.Variable(0.0, name="after")
    assert seen == [("inner", "v", None), ("outer", "v", True),
                    ("inner", "w", True), ("outer", "w", True)]
    assert not v.trainable and w.dtype is tf.float32
    run(tf.global_variables_initializer())
    assert run(v).tolist() == [1.0]


def test_creators_are_thread_local():
    seen, graph = [], tf.get_default_graph()

    def creator(next_creator, **kwargs):
        seen.append(kwargs["name"])
        return next_creator(**kwargs)

    def elsewhere():
        with graph.as_default():
            tf.Variable(0.0, name="elsewhere")
            with tf.variable_creator_scope(creator):
                entered.set()
                left.wait(10)
                tf.Variable(0.0, name="within")

    entered, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=elsewhere)
    with tf.variable_creator_scope(creator):
        thread.start()
        assert entered.wait(10)
    left.set()
    thread.join()
    tf.Variable(0.0, name="after")
    assert seen == ["within"]


def test_creators_may_be_removed_in_any_order():
    seen = []

    def named(name):
        def creator(next_creator, **kwargs):
            seen.append(name)
            return next_creator(**kwargs)
        return tf.variable_creator_scope(creator)

    first, second = named("first"), named("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    tf.Variable(0.0)
    second.__exit__(None, None, None)
    tf.Variable(0.0)
    assert seen == ["second"]


def test_creators_see_the_variables_of_functions():
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(kwargs["name"])
        return next_creator(**kwargs)

    def body(x):
        a = tf.Variable(1.0, name="a")
        with tf.variable_creator_scope(creator):
            b = tf.get_variable("b", [])
        return x + a + b

    with tf.variable_creator_scope(creator):
        tf.wrap_function(body, [tf.TensorSpec([], tf.float32)])
    assert seen == ["a", "b", "b"]
