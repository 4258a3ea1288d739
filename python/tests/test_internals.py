"""What programs take from TensorFlow's insides (`tensorflow.python...`)."""

import pytest

import sluice.compat.v1 as tf
from sluice import logging
from sluice.framework import deprecation, introspection, registries


def test_decorators_can_be_told_and_unwrapped():
    def plus_one(target):
        return introspection.make_decorator(
            target, lambda *args: target(*args) + 1)

    @plus_one
    @plus_one
    def f(x, y=2):
        """Adds."""
        return x + y

    decorators, target = introspection.unwrap(f)
    assert [d.decorator_name for d in decorators] == ["plus_one"] * 2
    assert (f(1), target(1), f.__doc__) == (5, 3, "Adds.")
    assert introspection.getargspec(f).args == ["x", "y"]
    assert introspection.getcallargs(f, 5) == {"x": 5, "y": 2}
    assert introspection.isfunction(introspection.TFDecorator("name", f))
    spec = introspection.ArgSpec(["a"], None, None, (3,))
    other = introspection.TFDecorator("", f, "Says.", spec)
    assert introspection.getargspec(other) == spec
    assert other.__doc__ == "Says." and other(1) == 5

    @introspection.contextmanager
    def block(a):
        yield a
    assert introspection.getargspec(block).args == ["a"]

    class C:
        def method(self, a):
            return a
    c = C()
    assert introspection.getcallargs(c.method, a=1) == {"self": c, "a": 1}


def test_what_will_go_says_so_in_its_documentation(monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda *args: told.append(args))

    @deprecation.deprecated("2020-01-01", "Use g.")
    def f():
        """Does it.

        Returns: nothing.
        """

    assert f.__doc__ == (
        "Does it. (deprecated)\n\nTHIS FUNCTION IS DEPRECATED. It will be "
        "removed after 2020-01-01.\nInstructions for updating:\nUse g.\n\n"
        "Returns: nothing.")
    with deprecation.silence():
        f()
    assert not told
    f()
    assert {"after 2020-01-01", "Use g."} <= set(told[0])

    @deprecation.deprecated_arg_values(None, "Not 2.", warn_once=False, a=2)
    def g(a=2):
        return a
    assert g.__doc__.startswith("DEPRECATED FUNCTION ARGUMENTS\n\nSOME ARG")
    g(1)
    assert len(told) == 1
    g()
    assert len(told) == 2 and "a=2" in told[1]
    for fails, words in (
            (lambda: deprecation.deprecated("01-01-2020", "x"), "YYYY-MM-DD"),
            (lambda: deprecation.deprecated(None, ""), "instructions"),
            (lambda: deprecation.deprecated(None, "x")(3), "not a function"),
            (lambda: deprecation.deprecated_args(None, "x"), "argument"),
            (lambda: deprecation.deprecated_args(None, "x", "b")(g), "not pres")):
        with pytest.raises(ValueError, match=words):
            fails()


def test_registries_hold_each_name_once():
    registry = registries.Registry("things")
    registry.register(tf.add)
    registry.register(len, "size")
    assert sorted(registry.list()) == ["add", "size"]
    assert registry.lookup("size") is len
    with pytest.raises(KeyError, match="test_internals.py"):
        registry.register(max, "size")
    with pytest.raises(LookupError, match="things registry has no entry"):
        registry.lookup("other")
