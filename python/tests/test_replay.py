"""Recorded results of TensorFlow, compared with results of the client."""

import glob
import os
import sys

import numpy as np
import pytest

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(_HERE, "..", "tools"))

import replay_cases
import replay_ops

_FOLDER = os.path.join(_HERE, "..", "..", "tests", "cases")
_CASES = replay_cases.find_cases(_FOLDER)
_OPS = sorted(glob.glob(os.path.join(_FOLDER, "*_ops.txt")))


@pytest.mark.parametrize("case", _CASES, ids=os.path.basename)
def test_recorded_cases_match_tensorflow(case):
    assert replay_cases.replay(case) == []


def test_differing_case_is_detected(tmp_path):
    import json
    import shutil
    case = os.path.join(os.path.dirname(_CASES[0]), "adagrad_train")
    shutil.copytree(case, tmp_path / "c")
    with open(tmp_path / "c" / "meta.json", encoding="utf-8") as f:
        meta = json.load(f)
    for step in meta["steps"]:
        for desc in step["expect"]:
            if desc and "rtol" in desc:
                desc["rtol"] = desc["atol"] = 1e-30
    meta["steps"][0]["error"] = "InternalError"
    with open(tmp_path / "c" / "meta.json", "w", encoding="utf-8") as f:
        json.dump(meta, f)
    bad = replay_cases.replay(str(tmp_path / "c"))
    assert bad[0] == "step 0: expected InternalError, got values"
    assert any("times the tolerance" in line for line in bad)


@pytest.mark.parametrize("path", _OPS, ids=os.path.basename)
def test_op_functions_match_tensorflow(path):
    cases = replay_ops.read_cases(path)
    assert len(cases) > 100
    assert [line for case in cases for line in replay_ops.replay(case)] == []


def test_differing_op_case_is_detected(tmp_path):
    path = tmp_path / "a_ops.txt"
    path.write_text("case Cumsum\nin int32 [2] 1 2\nin int32 [] 0\n"
                    "out int32 [2] 1 4\n"
                    "case Neg\nin float [] 1\nout double [] -1\n"
                    "case Neg\nin float [] 1\nerror\n"
                    "case Cast DstT=tint8\nin float [] 1\nout int8 [] 1\n"
                    "case Reshape\nin float [2] 1 2\nin int32 [1] 3\n"
                    "out float [2] 1 2\n")
    bad = [replay_ops.replay(case) for case in replay_ops.read_cases(path)]
    assert "1: Cumsum: expected [1 4], got [1 3]" in bad[0]
    assert "5: Neg: expected float64 (), got float32 ()" in bad[1]
    assert bad[2] == [f"8: Neg: expected an error, got {[np.float32(-1)]}"]
    assert bad[3] == [] and "14: Reshape: " in bad[4][0]
