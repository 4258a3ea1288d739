"""Hyperparameters."""

import json

import pytest

import sluice.compat.v1 as tf

HParams = tf.contrib.training.HParams


def test_parameters_are_typed_attributes():
    p = HParams(rate=0.1, units=[3, 4], name="a", deep=False, any=None)
    assert p.rate == 0.1 and "rate" in p and "other" not in p
    p.set_hparam("rate", 2)  # An int is accepted for a float.
    assert type(p.rate) is float
    p.set_hparam("units", [5])
    p.set_hparam("any", object)
    for name, wrong in (("rate", "1"), ("rate", True), ("units", 3),
                        ("units", [0.5]), ("deep", 1), ("name", 1),
                        ("rate", [0.1])):
        with pytest.raises(ValueError):
            p.set_hparam(name, wrong)
    with pytest.raises(KeyError):
        p.set_hparam("other", 1)
    with pytest.raises(ValueError, match="reserved: parse"):
        p.add_hparam("parse", 1)
    with pytest.raises(ValueError, match="cannot be empty"):
        p.add_hparam("none", [])
    p.add_hparam("more", 7)
    p.del_hparam("any")
    assert p.values() == {"rate": 2.0, "units": [5], "name": "a",
                          "deep": False, "more": 7}
    assert p.get("more") == 7 and p.get("other", 8) == 8
    with pytest.raises(ValueError, match="incompatible with default"):
        p.get("more", "text")


def test_parameters_are_parsed_from_text():
    p = HParams(rate=0.1, units=[3, 4], name="a", deep=False)
    assert p.parse("rate=1e-3, units=[7,8,9],name=b_c,deep=true") is p
    assert p.values() == {"rate": 1e-3, "units": [7, 8, 9], "name": "b_c",
                          "deep": True}
    q = HParams(rate=0.5, units=[1], name="", deep=True)
    q.parse_json(p.to_json())
    assert q.values() == p.values()
    assert json.loads(HParams(a=1, f=[len, 2]).to_json()) == {"a": 1, "f": [2]}
    for wrong, told in (("rate=x", "Could not parse hparam 'rate'"),
                        ("rate", "Malformed"), ("other=1", "Unknown"),
                        ("rate=1,rate=2", "Multiple assignments"),
                        ("units[0]=1,units[0]=2", "Multiple assignments"),
                        ("units[0]=[1]", "list to a list index")):
        with pytest.raises(ValueError, match=told):
            p.parse(wrong)


def test_text_may_set_list_items():
    read = tf.contrib.training.parse_values
    assert read("x=5,L=[1,2],arr[1]=3", dict.fromkeys(
        ["x", "L", "arr"], int)) == {"x": 5, "L": [1, 2], "arr": {1: 3}}
    assert read("x=5,y=1", {"y": int}, ignore_unknown=True) == {"y": 1}
