"""Updates of rows and slices of variables."""

import numpy as np
import pytest

import sluice.compat.v1 as tf


@pytest.mark.parametrize("resource", [True, False])
def test_scatters_update_rows_by_slices(run, resource):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], use_resource=resource)
    run(v.initializer)
    for change, want in (
            ("mul", [2.0, 4.0]), ("add", [4.0, 6.0]), ("div", [2.0, 3.0]),
            ("max", [2.0, 3.0]), ("min", [2.0, 2.0]), ("sub", [0.0, 0.0]),
            ("update", [2.0, 2.0])):
        changed = getattr(v, "scatter_" + change)(
            tf.IndexedSlices([[2.0, 2.0]], [0]))
        np.testing.assert_array_equal(run(changed), [want, [3.0, 4.0]])
    with pytest.raises(TypeError, match="is not IndexedSlices"):
        v.scatter_mul([[1.0, 1.0]])
    # The ops have TensorFlow's names.
    assert tf.scatter_add(v, [0], [[1.0, 1.0]]).graph.get_operations()[
        -1 if not resource else -2].type == (
            "ResourceScatterAdd" if resource else "ScatterAdd")


def test_scatters_work_outside_the_variables_graph():
    with tf.Graph().as_default() as graph:
        v = tf.Variable([1.0, 2.0], use_resource=True)
        slices = tf.IndexedSlices(tf.constant([5.0]), tf.constant([1]))
    changed = v.scatter_add(slices)
    with tf.Session(graph=graph) as session:
        session.run(v.initializer)
        assert session.run(changed).tolist() == [1, 7]


@pytest.mark.parametrize("resource", [True, False])
def test_batch_scatter_updates_each_batch(run, resource):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], use_resource=resource)
    run(v.initializer)
    made = v.batch_scatter_update(tf.IndexedSlices([[7.0], [8.0]], [[1], [0]]))
    np.testing.assert_array_equal(run(made), [[1, 7], [8, 4]])
    cube = tf.Variable(tf.zeros([2, 2, 3, 2]), use_resource=resource)
    run(cube.initializer)
    indices = np.array([[[0, 2], [1, 0]], [[2, 1], [1, 2]]], np.int64)
    rows = np.arange(16.0).reshape([2, 2, 2, 2])
    want = np.zeros([2, 2, 3, 2])
    for at in np.ndindex(indices.shape):
        want[at[:2] + (indices[at],)] = rows[at]
    np.testing.assert_array_equal(
        run(tf.batch_scatter_update(cube, indices, rows)), want)
    with pytest.raises(ValueError, match="unknown shape"):
        tf.batch_scatter_update(v, tf.placeholder(tf.int32), [[1.0]])
