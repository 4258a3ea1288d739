"""A generative adversarial network (Goodfellow et al., 2014) learns a circle.

The generator makes points of random numbers, and the discriminator learns to
tell them from points of the circle. examples/gan.cc is the same in C++.

  python3 gan.py [STEPS]
"""

import math
import sys

import sluice as sl

BATCH = 256
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1500


def layers(scope, x, outputs):
    with sl.variable_scope(scope, reuse=sl.AUTO_REUSE):
        h = sl.layers.dense(x, 64, sl.nn.leaky_relu)
        h = sl.layers.dense(h, 64, sl.nn.leaky_relu)
        return sl.layers.dense(h, outputs)


def trained(loss, scope):
    variables = sl.trainable_variables(scope)
    return sl.train.AdamOptimizer(1e-3, beta1=0.5).minimize(
        loss, var_list=variables)


sl.set_random_seed(1)
angle = sl.random_uniform([BATCH, 1], 0, 2 * math.pi)
real = sl.concat([sl.cos(angle), sl.sin(angle)], 1)
made = layers("generator", sl.random_normal([BATCH, 8]), 2)
of_real = layers("discriminator", real, 1)
of_made = layers("discriminator", made, 1)
cross_entropy = sl.losses.sigmoid_cross_entropy
tells = (cross_entropy(sl.ones([BATCH, 1]), of_real) +
         cross_entropy(sl.zeros([BATCH, 1]), of_made))
fools = cross_entropy(sl.ones([BATCH, 1]), of_made)
step = sl.group(trained(tells, "discriminator"), trained(fools, "generator"))

# How far the points are from the circle, and their shares of its quadrants.
off = sl.reduce_mean(sl.abs(sl.norm(made, axis=1) - 1))
positive = sl.cast(made > 0, sl.float32)
x, y = positive[:, 0], positive[:, 1]
shares = sl.stack([sl.reduce_mean(x * y), sl.reduce_mean(x * (1 - y)),
                   sl.reduce_mean((1 - x) * y),
                   sl.reduce_mean((1 - x) * (1 - y))])

with sl.Session() as session:
    session.run(sl.global_variables_initializer())
    for i in range(1, STEPS + 1):
        session.run(step)
        if i % (STEPS // 5) == 0:
            distance, parts = session.run([off, shares])
            print(f"step {i:4}: distance {distance:.3f}, quadrants",
                  *(f"{p:.2f}" for p in parts))
