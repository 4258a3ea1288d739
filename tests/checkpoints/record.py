#!/usr/bin/env python3
"""Writes the checkpoints beside this file with TensorFlow.

    tests/checkpoints/record.py

src/checkpoint/recorded_test.cc reads them, and writes the same ones.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf

raw = tf.raw_ops
FOLDER = os.path.dirname(os.path.abspath(__file__))
NUMBERS = ["float32", "float64", "int32", "uint8", "int16", "int8", "complex64",
           "int64", "bfloat16", "uint16", "complex128", "float16", "uint32",
           "uint64"]
# What version 1 has.
OLD_NUMBERS = ["float32", "float64", "int32", "uint8", "int16", "int8",
               "complex64", "int64", "complex128", "float16"]
STRINGS = ["", "a", "two\0parts", "x" * 300, "\xff\xfe", "last"]


def count(dtype, shape):
    """1, 2, 3, ... (for complex numbers, with the negated imaginary part)."""
    n = 1
    for d in shape:
        n *= d
    values = tf.range(1, n + 1, dtype=tf.float64)
    if tf.as_dtype(dtype).is_complex:
        return tf.reshape(tf.cast(tf.complex(values, -values), dtype), shape)
    return tf.reshape(tf.cast(values, dtype), shape)


def common():
    return [("bool", tf.constant([True, False, True])),
            ("empty", tf.zeros([0, 3])),
            ("scalar", tf.constant(7, tf.int64)),
            ("string_scalar", tf.constant("hello")),
            ("strings", tf.reshape(tf.constant([s.encode("latin-1") for s in STRINGS]), [2, 3])),
            ("no_strings", tf.zeros([0], tf.string))]


def parts():
    """A matrix of 5 x 4 in four parts, and a vector in two."""
    whole = count("float32", [5, 4])
    vector = count("int32", [7])
    return [("matrix", "5 4 0,2:0,1", whole[0:2, 0:1]),
            ("matrix", "5 4 0,2:1,3", whole[0:2, 1:4]),
            ("matrix", "5 4 2,3:0,2", whole[2:5, 0:2]),
            ("matrix", "5 4 2,3:2,2", whole[2:5, 2:4]),
            ("vector", "7 0,3", vector[0:3]),
            ("vector", "7 3,4", vector[3:7]),
            ("whole", "2 3 0,2:-", count("float64", [2, 3]))]


class Objects(tf.Module):
    """Two of its variables have one name."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(count("float32", [2, 3]), name="dense/kernel")
        self.bias = tf.Variable(count("float32", [3]), name="dense/bias")
        self.first = tf.Variable(1.0, name="twin")
        self.second = tf.Variable(2.0, name="twin")


def objects():
    """Of tf.train.Checkpoint."""
    model, step = Objects(), tf.Variable(7, name="global_step", dtype=tf.int64)
    tf.train.Checkpoint(model=model, step=step).write(
        os.path.join(FOLDER, "objects"))


def save(name, tensors):
    raw.SaveV2(prefix=os.path.join(FOLDER, name), tensor_names=[t[0] for t in tensors],
               shape_and_slices=[t[1] for t in tensors],
               tensors=[t[2] for t in tensors])


def main():
    numbers = [(d, count(d, [2, 3])) for d in NUMBERS]
    save("types", [(n, "", t) for n, t in numbers + common()])
    save("parts", parts())
    # One in two data files, as several devices write it.
    temporary = [os.path.join(FOLDER, f"temporary{i}") for i in range(2)]
    save("temporary0", [t for t in parts() if t[0] != "whole"][:2] + parts()[4:5])
    save("temporary1", parts()[2:4] + parts()[5:])
    raw.MergeV2Checkpoints(checkpoint_prefixes=temporary,
                           destination_prefix=os.path.join(FOLDER, "merged"),
                           delete_old_dirs=False)
    objects()
    old = [(d, count(d, [2, 3])) for d in OLD_NUMBERS] + common()
    raw.Save(filename=os.path.join(FOLDER, "old_types"), tensor_names=[t[0] for t in old],
             data=[t[1] for t in old])
    raw.SaveSlices(filename=os.path.join(FOLDER, "old_parts"),
                   tensor_names=[t[0] for t in parts()],
                   shapes_and_slices=[t[1] for t in parts()],
                   data=[t[2] for t in parts()])


if __name__ == "__main__":
    main()
