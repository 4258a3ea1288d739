"""Eight LSTM layers, each on its own device, in one loop (EuroSys'18, 6.4).

The loop is partitioned over all devices, forward and backward. A layer works on
an element while the next layer works on the previous element, and the optimizer
updates run where the weights are. The devices are emulated: each takes 300 us
for a product, independent of this machine.

  python3 model_parallel_lstm.py [STEPS]
"""

import sys

import numpy as np

import sluice.compat.v1 as tf

LAYERS, LENGTH, BATCH, UNITS = 8, 12, 16, 16
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 101


def train(devices, steps):
    """Trains the network to draw a wave with the height of its first input.

    Prints the loss; returns the milliseconds of the last step.
    """
    def accelerator(layer):
        return "/device:EMU:%d" % (layer * devices // LAYERS)

    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [LENGTH, BATCH, 1])
        wanted = tf.placeholder(tf.float32, [LENGTH, BATCH, 1])
        cell = tf.nn.rnn_cell
        layers = cell.MultiRNNCell([
            cell.DeviceWrapper(cell.LSTMCell(UNITS), accelerator(i))
            for i in range(LAYERS)])
        outputs, _ = tf.nn.dynamic_rnn(layers, x, time_major=True,
                                       dtype=tf.float32)
        with tf.device(accelerator(LAYERS - 1)):
            error = tf.layers.dense(outputs, 1) - wanted
            loss = tf.reduce_mean(error ** 2)
        train = tf.train.AdagradOptimizer(0.1).minimize(
            loss, colocate_gradients_with_ops=True)

        config = tf.ConfigProto(
            device_count={"EMU": devices},
            emulated_device="MatMul_us=300,MatMulAdd_us=300")
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            rng = np.random.RandomState(1)
            metadata = tf.RunMetadata()
            times = np.arange(LENGTH)[:, None, None]
            for step in range(steps):
                height = rng.uniform(0.5, 1.5, [1, BATCH, 1])
                value, _ = sess.run(
                    [loss, train], {x: np.where(times == 0, height, 0),
                                    wanted: height * np.sin(0.5 * times)},
                    run_metadata=metadata)
                if step % 20 == 0:
                    print("step %3d: loss %.4f" % (step, value))
            return metadata.wall_nanos * 1e-6


one, eight = train(1, 3), train(LAYERS, STEPS)
print("a step takes %.0f ms on one device, %.0f ms on %d" % (one, eight,
                                                             LAYERS))
