"""Bodies that are placed when they run."""

import numpy as np
import pytest

import sluice
import sluice.compat.v1 as tf

DEVICES = [f"/device:EMU:{i}" for i in range(3)]


def session():
    return tf.Session(config=tf.ConfigProto(
        device_count={"EMU": 3}, emulated_device="kernel_us=1,copy_us=1"))


def test_bodies_run_on_several_devices_and_have_gradients():
    with tf.Graph().as_default(), session() as sess:
        x = tf.placeholder(tf.float32, [None, 2])

        def expert(rows, factor):
            with tf.variable_scope("expert", reuse=tf.AUTO_REUSE):
                w = tf.get_variable("w", [2, 2])
            return {"y": tf.tanh(tf.matmul(rows, w)) * factor}

        ys = [sluice.scheduled(DEVICES, [x, float(i + 1)], expert,
                               policy="least_loaded")["y"] for i in range(3)]
        (w,) = tf.global_variables()
        assert w.device == "/device:CPU:0"
        plain = [expert(x, float(i + 1))["y"] for i in range(3)]
        sess.run(tf.global_variables_initializer())
        feeds = {x: np.arange(6).reshape(3, 2) / 6}
        metadata = tf.RunMetadata()
        got, want = sess.run(
            [ys + tf.gradients(tf.add_n(ys), [x, w]),
             plain + tf.gradients(tf.add_n(plain), [x, w])], feeds,
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=metadata)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        labels = [n.timeline_label for d in metadata.step_stats.dev_stats
                  for n in d.node_stats if "= Schedule:" in n.timeline_label]
        assert len(labels) == 3
        assert len({label.split(" -> ")[1].split(";")[0]
                    for label in labels}) == 3
        assert all("least_loaded: 3 rows" in label for label in labels)


def test_parts_are_put_together_in_order():
    with tf.Graph().as_default(), session() as sess:
        x = tf.placeholder(tf.float32, [None, 2])
        y = sluice.scheduled(DEVICES, x, lambda rows: rows * 2,
                             rows_per_part=2)
        for rows in (0, 1, 5):
            value = np.arange(2 * rows).reshape(rows, 2)
            np.testing.assert_array_equal(sess.run(y, {x: value}), value * 2)


def test_iterations_decide_anew():
    with tf.Graph().as_default(), session() as sess:
        _, y = tf.while_loop(
            lambda i, v: i < 5,
            lambda i, v: (i + 1, sluice.scheduled(DEVICES, v, tf.sin)),
            [0, tf.constant([1.0])])
        want = 1.0
        for _ in range(5):
            want = np.sin(want)
        np.testing.assert_allclose(sess.run(y), [want], rtol=1e-5)


def test_layers_of_all_devices_share_their_variables():
    with tf.Graph().as_default(), session() as sess:
        x = tf.placeholder(tf.float32, [None, 2])

        def expert(rows):
            hidden = tf.layers.dense(rows, 4, activation=tf.tanh)
            with tf.variable_scope("out"):
                w = tf.get_variable("w", [4, 3])
            return tf.layers.dense(tf.matmul(hidden, w), 3)

        ys = [sluice.scheduled(DEVICES, x, expert, policy="least_loaded")]
        assert [v.op.name for v in tf.global_variables()] == [
            "dense/kernel", "dense/bias", "out/w", "dense_1/kernel",
            "dense_1/bias"]
        ys.append(tf.layers.dense(x, 3))
        assert tf.global_variables()[-1].op.name == "dense_2/bias"
        with tf.variable_scope("parts"):
            ys.append(sluice.scheduled(DEVICES, x, expert, rows_per_part=2))
        assert len(tf.global_variables()) == 12
        assert tf.global_variables()[-1].op.name == "parts/dense_1/bias"
        # Not within, again:
        with pytest.raises(ValueError, match="out/w already exists"):
            sluice.scheduled(DEVICES, x, expert)
        load = sluice.scheduled(DEVICES, x, tf.sin, policy="least_loaded")
        sess.run(tf.global_variables_initializer())
        feeds = {x: np.ones((5, 2))}
        first = sess.run(ys, feeds)
        for _ in range(4):
            for a, b in zip(sess.run([load] + ys, feeds)[1:], first):
                np.testing.assert_allclose(a, b, rtol=1e-5)


def test_other_variables_of_a_body_are_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=r"'.*Variable_1'.*EMU:1"):
            sluice.scheduled(DEVICES, tf.ones([2]),
                             lambda rows: rows * tf.Variable(2.0))


def test_parts_keep_their_static_shape():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        y = sluice.scheduled(DEVICES, x, lambda rows: rows * 2,
                             rows_per_part=2)
        assert y.shape.as_list() == [None, 3]
        assert tf.layers.dense(y, 4).shape.as_list() == [None, 4]


def test_wrong_arguments():
    with tf.Graph().as_default():
        x = tf.constant([1.0])

        def expect(error, match, devices=DEVICES, **kwargs):
            with pytest.raises(error, match=match):
                sluice.scheduled(devices, x, tf.sin, **kwargs)

        expect(TypeError, "list of names, got '/device:EMU:0'",
               devices="/device:EMU:0")
        expect(TypeError, "'rows_per_part' must be an integer, got 1.5",
               rows_per_part=1.5)
        expect(ValueError, "from 0 to 2147483647", rows_per_part=2**70)
        expect(ValueError, "from 0 to 2147483647, got -1", rows_per_part=-1)
        expect(TypeError, "'policy' must be a str, got 3", policy=3)
        expect(TypeError, "'home' must be a str, got None", home=None)
        expect(ValueError, "ns_per_row", ns_per_row=float("inf"))
        calls = []

        def changing(rows):
            calls.append(rows)
            return rows if len(calls) == 1 else tf.cast(rows, tf.int32)

        with pytest.raises(ValueError, match=r"\(float\).*\(int32\).*EMU:1"):
            sluice.scheduled(DEVICES, x, changing)


def test_errors():
    with tf.Graph().as_default(), session() as sess:
        x = tf.constant([1.0])
        with pytest.raises(TypeError, match="callable"):
            sluice.scheduled(DEVICES, x, 3)
        with pytest.raises(ValueError, match="at least one device"):
            sluice.scheduled([], x, tf.sin)
        with pytest.raises(tf.errors.NotFoundError, match="least_loaded"):
            sess.run(sluice.scheduled(DEVICES, x, tf.sin, policy="last_loaded"))
        with pytest.raises(tf.errors.InvalidArgumentError, match="EMU:9"):
            sess.run(sluice.scheduled(["/device:EMU:9", "/device:EMU:0"], x,
                                      tf.sin))
