#!/usr/bin/env bash
# Installs the wheels in clean virtual environments, with numpy 1 and 2, and runs
# check.py in them.
#   tests/wheel/run.sh WHEELS PYTHON...    interpreters, of 3.9 to 3.13
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheels=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for python in "$@"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  wheel=$(ls "$wheels"/sluice-*-"$tag"-*.whl)
  for numpy in 'numpy<2' 'numpy>=2'; do
    # (numpy 1 has no wheels for Python 3.13.)
    [[ $tag != cp313 || $numpy != 'numpy<2' ]] || continue
    rm -rf "${work:?}"/*
    "$python" -m venv "$work/env"
    "$work/env/bin/pip" -q --disable-pip-version-check install \
      --only-binary :all: "$numpy" "$wheel"
    mkdir "$work/alone" "$work/both"
    (cd "$work" && env/bin/python "$here/check.py" "$work/alone")
    "$work/env/bin/pip" -q --disable-pip-version-check install \
      --only-binary :all: "$wheels"/sluice_cluster-*.whl
    (cd "$work" && env/bin/python "$here/check.py" "$work/both")
    [[ $("$work/env/bin/pip" list --format=freeze | grep -c '^sluice') == 2 ]]
  done
done
