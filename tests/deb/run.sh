#!/usr/bin/env bash
# Unpacks the Debian packages into a folder, and builds and runs programs with
# them: C++ and C by pkg-config, C++ by CMake, the command, Python, a cluster.
#   tests/deb/run.sh PACKAGES
# What the packages depend on has to be installed (scripts/setup package).
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
packages=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for package in "$packages"/*.deb; do
  dpkg-deb -x "$package" root
done
lib=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
export LD_LIBRARY_PATH=$lib PKG_CONFIG_PATH=$lib/pkgconfig

printf 'float[] 17\nfloat[3] 2 4 6\n' >expected.txt
# shellcheck disable=SC2046
c++ "$source/tests/package/main.cc" -o by_pkg_config \
  $(pkg-config --cflags --libs sluice)
diff expected.txt <(./by_pkg_config)
cmake -S "$source/tests/package" -B build \
  -DCMAKE_PREFIX_PATH="$work/root/usr" >/dev/null
cmake --build build >/dev/null
diff expected.txt <(build/my_program)
# shellcheck disable=SC2046
c++ "$source/tests/package/cluster.cc" -o cluster_by_pkg_config \
  $(pkg-config --cflags --libs sluice_cluster)
for program in ./cluster_by_pkg_config build/cluster_program; do
  [[ $($program) == "float[] 36" ]]
done
for program in c_api native_c_api; do
  # shellcheck disable=SC2046
  cc -std=c11 "$source/examples/$program.c" -o "$program" \
    $(pkg-config --cflags --libs sluice_c)
  "./$program" >/dev/null
done

[[ $(root/usr/bin/sluice --version) == sluice\ 0.* ]]
root/usr/bin/sluice ops --names | grep -qx MatMul
PYTHONPATH=$work/root/usr/lib/python3/dist-packages /usr/bin/python3 - <<'END'
import os
import sluice.compat.v1 as tf

assert tf.__file__.startswith(os.environ["PYTHONPATH"]), tf.__file__
server = tf.train.Server.create_local_server()  # (libsluice_cluster.)
for target in "", server.target:
    with tf.Session(target) as session:
        assert session.run(tf.constant(2) * 3) == 6
END

# What dpkg-shlibdeps reads: the C API keeps its symbols, C++ may change with each
# minor version.
dpkg-deb -e "$packages"/libsluice0_*.deb control
grep -q '^ TF_NewGraph@SLUICE_C_1 ' control/symbols
grep -q '^ sl_version@SLUICE_C_1 ' control/symbols
grep -q '^libsluice 0 libsluice0 (>= 0[.].*(<< 0[.]' control/shlibs
echo "the packages work: C++, C, pkg-config, CMake, the command, Python, a cluster"
