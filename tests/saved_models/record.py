#!/usr/bin/env python3
"""Writes the saved models and the meta graphs beside this file with TensorFlow.

    tests/saved_models/record.py

src/deploy/saved_model_test.cc and python/tests/test_saved_models.py read them.
"""

import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
FOLDER = os.path.dirname(os.path.abspath(__file__))
WORDS = ["one", "two", "three"]


def fresh(name):
    path = os.path.join(FOLDER, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def old(name, as_text):
    """Of TensorFlow 1: both kinds of variables, a table from an asset."""
    words = os.path.join("/tmp", "words.txt")
    with open(words, "w") as f:
        f.write("\n".join(WORDS) + "\n")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=np.float32([[1, 2, 3], [4, 5, 6]]),
                            use_resource=True)
        b = v1.get_variable("b", initializer=np.float32([10, 20, 30]), use_resource=False)
        y = tf.add(tf.matmul(x, w), b, name="y")
        path = tf.constant(words, name="words")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, path)
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
        keys = v1.placeholder(tf.string, [None], name="keys")
        ids = tf.identity(table.lookup(keys), name="ids")
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.utils.build_tensor_info
        build = v1.saved_model.signature_def_utils.build_signature_def
        predict = v1.saved_model.signature_constants.PREDICT_METHOD_NAME
        builder = v1.saved_model.builder.SavedModelBuilder(fresh(name))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {
                "serving_default": build({"x": info(x)}, {"y": info(y)}, predict),
                "ids": build({"keys": info(keys)}, {"ids": info(ids)}, predict)},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer())
        builder.add_meta_graph(["eval", "gpu"], {"scores": build(
            {"x": info(x)}, {"y": info(y)}, predict)})
        builder.save(as_text)


class Module(tf.Module):
    """With a loop, a conditional and a table in a function."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(np.float32([[1, 2], [3, 4]]), name="w")
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(WORDS, tf.range(3, dtype=tf.int64)), -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"),
                                  tf.TensorSpec([], tf.int32, "n")])
    def powers(self, x, n):
        for _ in tf.range(n):
            x = tf.matmul(x, self.w)
        if tf.reduce_sum(x) > 100:
            x = x / 2
        return {"y": x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "keys")])
    def ids(self, keys):
        return {"ids": self.table.lookup(keys)}


def new(name):
    module = Module()
    tf.saved_model.save(module, fresh(name), {"powers": module.powers, "ids": module.ids})
    os.remove(os.path.join(FOLDER, name, "fingerprint.pb"))


def sparse(name):
    """Of TensorFlow 1: a sparse input, a sparse and a dense output."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.sparse_placeholder(tf.float32, [None, 4], name="x")
        twice = tf.SparseTensor(x.indices, x.values * 2.0, x.dense_shape)
        total = v1.sparse_reduce_sum(x, 1)
        info = v1.saved_model.utils.build_tensor_info
        builder = v1.saved_model.builder.SavedModelBuilder(fresh(name))
        builder.add_meta_graph_and_variables(session, ["serve"], {
            "serving_default": v1.saved_model.signature_def_utils.build_signature_def(
                {"x": info(x)}, {"twice": info(twice), "total": info(total)},
                v1.saved_model.signature_constants.PREDICT_METHOD_NAME)})
        builder.save()


class Composites(tf.Module):
    """Ragged and sparse values in and out."""

    @tf.function(input_signature=[
        tf.RaggedTensorSpec([None, None, None], tf.float32, ragged_rank=2),
        tf.SparseTensorSpec([None, 4], tf.float32)])
    def twice(self, r, s):
        return {"ragged": r * 2.0,
                "sparse": tf.SparseTensor(s.indices, s.values * 3.0, s.dense_shape)}


def composites(name):
    module = Composites()
    tf.saved_model.save(module, fresh(name), {"serving_default": module.twice})
    os.remove(os.path.join(FOLDER, name, "fingerprint.pb"))


def model():
    """Loops and conditionals in each other: x and z."""
    x = v1.placeholder(tf.float32, [], name="x")

    def inner(i, a):
        return i + 1, tf.cond(a > 3.0, lambda: a * x, lambda: a * a + x)

    def outer(i, a):
        _, a = tf.while_loop(lambda j, b: j < 2, inner, (0, a), name="inner")
        return i + 1, tf.sin(a)

    _, y = tf.while_loop(lambda i, a: i < 3, outer, (0, x), name="outer",
                         parallel_iterations=3, maximum_iterations=5)
    z = tf.cond(x > 1.0, lambda: tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, a * x), (0, y), name="last",
        swap_memory=True)[1], lambda: y * 2.0)
    return x, tf.identity(z, name="z")


def conditionals():
    """Conditionals of one predicate, in each other and around a loop: x and z."""
    x = v1.placeholder(tf.float32, [], name="x")
    large = x > 1.0
    a = tf.cond(large, lambda: x * 2.0, lambda: x + 1.0)
    b = tf.cond(large, lambda: tf.cond(x > 2.0, lambda: a * x, lambda: tf.sin(a)),
                lambda: tf.cond(large, lambda: x, lambda: a), name="other")

    def twice():
        return tf.while_loop(
            lambda i, c: i < 2, lambda i, c: (i + 1, tf.cond(
                c > 4.0, lambda: c + b, lambda: c * x)), (0, a))[1]

    z = tf.cond(b < 3.0, twice, lambda: tf.cond(large, lambda: x * x * b, lambda: b))
    return x, tf.identity(z, name="z")


def meta_graph(name, build):
    """A model, and its values and gradients at some points."""
    with tf.Graph().as_default():
        build()
        v1.train.export_meta_graph(os.path.join(FOLDER, name + ".meta"))
    with tf.Graph().as_default(), v1.Session() as session, (
            open(os.path.join(FOLDER, name + ".txt"), "w")) as f:
        x, z = build()
        gradient = tf.gradients(z, x)[0]
        for point in [0.5, 1.5, 2.5]:
            value, slope = session.run([z, gradient], {x: point})
            f.write(f"{point} {float(value)!r} {float(slope)!r}\n")


if __name__ == "__main__":
    new("v2")
    composites("composites")
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    old("v1", False)
    old("v1_text", True)
    sparse("sparse")
    meta_graph("loops", model)
    meta_graph("conditionals", conditionals)
