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
