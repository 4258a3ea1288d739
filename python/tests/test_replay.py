"""What TensorFlow answered, recorded, against what comes through Python."""

import os
import sys

import pytest

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(_HERE, "..", "tools"))

import replay_cases

_CASES = replay_cases.find_cases(os.path.join(_HERE, "..", "..", "tests",
                                              "cases"))


@pytest.mark.parametrize("case", _CASES, ids=os.path.basename)
def test_recorded_cases_are_as_tensorflow_answered(case):
    assert replay_cases.replay(case) == []


def test_a_case_that_differs_is_seen(tmp_path):
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
