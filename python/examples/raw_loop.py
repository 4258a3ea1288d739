"""A loop from the five control-flow ops: Euclid's greatest common divisor.

  python3 raw_loop.py
"""

import sluice.compat.v1 as tf
from sluice import raw_ops as ops

x, y = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])


def open_merge(value):
    """Returns a loop variable that starts as `value`.

    The second input is set later to the value of the next iteration.
    """
    enter = ops.Enter(value, frame_name="gcd")
    return ops.Merge([enter, enter]).output


# Two tokens circulate: Enter brings them into the frame, Merge starts an
# iteration, Switch sends them on or out, and NextIteration sends them back.
a, b = open_merge(x), open_merge(y)
go_on = ops.LoopCond(tf.not_equal(b, 0))
a_out, a_in = ops.Switch(a, go_on)
b_out, b_in = ops.Switch(b, go_on)
a.op._update_input(1, ops.NextIteration(b_in))
b.op._update_input(1, ops.NextIteration(a_in % b_in))
gcd = ops.Exit(a_out)

with tf.Session() as sess:
    for p, q in ((48, 18), (17, 5), (0, 7), (1071, 462)):
        print("gcd(%d, %d) = %d" % (p, q, sess.run(gcd, {x: p, y: q})))
