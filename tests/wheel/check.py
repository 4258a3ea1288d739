"""Checks the installed wheels, from inside a clean virtual environment.

  check.py FOLDER     FOLDER: empty, for what it builds

Prints one line, with the versions and the time of an import.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import time

work = pathlib.Path(sys.argv[1])
binaries = pathlib.Path(sys.executable).parent


def output(*command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True,
                            text=True, check=False, **more)
    assert result.returncode == 0, (command, result.stdout, result.stderr)
    return result.stdout


import numpy as np

started = time.perf_counter()
import sluice as sl
import sluice.compat.v1 as tf
import_seconds = time.perf_counter() - started
assert not importlib.util.find_spec("pybind11"), "not a clean environment"

# A graph with a loop, its gradient, and arrays in both directions.
x = tf.placeholder(tf.float32, [])
_, power = tf.while_loop(lambda i, p: i < 5, lambda i, p: (i + 1, p * x), [0, 1.0])
slope = tf.gradients(power, x)[0]
w = tf.Variable(np.ones([3, 2], np.float32))
y = tf.matmul(tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3)), w)
step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y * y))
large = tf.matmul(tf.ones([200, 300]), tf.ones([300, 200]))  # (By oneDNN.)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    assert session.run([power, slope], {x: 2.0}) == [32.0, 80.0]
    session.run(step)
    got = session.run([w, large])
    np.testing.assert_allclose(got[0], [[-6.2] * 2, [-9.2] * 2, [-12.2] * 2],
                               rtol=1e-5)
    assert (got[1] == 300).all()
    # Letters outside ASCII, whose cases ICU knows without its data.
    upper = session.run(tf.strings.upper(["stra\u00dfe \u03c3\u03b1\u03c2 \u01c6"],
                                         encoding="utf-8"))
    lower = session.run(tf.strings.lower(["\u00c0\u0130\u03a3 \u0410"],
                                         encoding="utf-8"))
    assert upper[0].decode() == "STRASSE \u03a3\u0391\u03a3 \u01c4", upper
    assert lower[0].decode() == "\u00e0i\u0307\u03c2 \u0430", lower
message = tf.get_default_graph().as_graph_def()
assert len(message.node) > 10

# The command.
assert output(binaries / "sluice", "--version").startswith("sluice 0."), "version"
assert "MatMul" in output(binaries / "sluice", "ops", "--names")

# The C API, by the options of sluice.sysconfig and by CMake.
source = work / "program.c"
source.write_text("""
#include <sluice/c_api.h>
#include <stdio.h>
#include <tensorflow/c/c_api.h>
int main(void) { return printf("%s %s\\n", sl_version(), TF_Version()) < 0; }
""")


def options(*words):
    return output(sys.executable, "-m", "sluice.sysconfig", *words).split()


output("cc", source, "-o", work / "program", *options("--cflags", "--libs"))
version = output(work / "program")
assert version.strip(), version
(work / "CMakeLists.txt").write_text("""
cmake_minimum_required(VERSION 3.16)
project(Program LANGUAGES C)
find_package(Sluice REQUIRED)
add_executable(by_cmake program.c)
target_link_libraries(by_cmake PRIVATE Sluice::c)
""")
output("cmake", "-S", work, "-B", work / "build",
       f"-DSluice_DIR={options('--cmake-dir')[0]}")
output("cmake", "--build", work / "build")
assert output(work / "build" / "by_cmake") == version

# Clusters, if that wheel is installed; otherwise an error that says so.
have_cluster = importlib.util.find_spec("sluice").submodule_search_locations[0]
have_cluster = os.path.exists(os.path.join(have_cluster, "libsluice_cluster.so.0"))
if have_cluster:
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        assert session.run(tf.constant(2) * 3) == 6
else:
    try:
        tf.train.Server.create_local_server()
        raise AssertionError("a server without the library for clusters")
    except tf.errors.UnimplementedError as error:
        assert "libsluice_cluster" in str(error), error

print(f"Python {sys.version.split()[0]}, numpy {np.__version__}, "
      f"{'with' if have_cluster else 'without'} sluice-cluster: ok, "
      f"import {import_seconds:.3f} s after numpy's")
