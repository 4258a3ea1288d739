"""TensorFlow's words for errors of the library: programs and tests look for
them. They are added to a message that begins as on the left."""

import re


def _dims(shape):
    return shape.split(",") if shape else []


def _rank(found, least=""):
    return (f"Shape must be {least}rank {found['rank']} but is rank "
            f"{len(_dims(found['shape']))}")


def _unequal(found):
    """Which dimensions, from the last on, do not fit each other."""
    a, b = _dims(found["a"]), _dims(found["b"])
    differ = next(((x, y) for x, y in zip(reversed(a), reversed(b))
                   if x != y and "1" not in (x, y)), ("?", "?"))
    return (f"Incompatible shapes: [{found['a']}] vs. [{found['b']}]; "
            f"Dimensions must be equal, but are {differ[0]} and {differ[1]}")


def _different(found):
    a, b = _dims(found["a"]), _dims(found["b"])
    if len(a) != len(b):
        return (f"Shapes must be equal rank, but are {len(a)} and {len(b)}")
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), 0)
    return (f"Dimension {at} in both shapes must be equal, but are "
            f"{a[at] if a else '?'} and {b[at] if b else '?'}")


_SHAPES = r"\[(?P<a>[\d,?]*)\] and \[(?P<b>[\d,?]*)\]"
_WORDS = [(re.compile(pattern), words) for pattern, words in (
    (r"variable '(?P<name>.*?)': expected a value, got an uninit",
     lambda m: f"Attempting to use uninitialized value {m['name']}"),
    (r"\w+(?: \d+)?: expected rank (?P<rank>\d+), got "
     r"shape \[(?P<shape>[\d,?]*)\]", _rank),
    (r"\w+(?: \d+)?: expected rank at least (?P<rank>\d+), got "
     r"shape \[(?P<shape>[\d,?]*)\]", lambda m: _rank(m, "at least ")),
    (r"(broadcast: expected dimensions that are equal or 1, got shapes|"
     r"shapes: expected two that broadcast together, got) " + _SHAPES,
     _unequal),
    (r"matrices: expected inner dimensions that agree, got " + _SHAPES,
     lambda m: f"Matrix size-incompatible: In[0]: [{m['a']}], In[1]: "
               f"[{m['b']}]; Dimensions must be equal, but are "
               f"{_dims(m['a'])[-1]} and {_dims(m['b'])[0]}"),
    (r"shapes " + _SHAPES + " are not compatible", _different),
    (r"(?P<at>indices\[[\d,]*\]): expected a value in (?P<range>\[.*?\)), "
     r"got (?P<got>-?\d+)",
     lambda m: f"{m['at']} = {m['got']} is not in {m['range']}"),
    (r"partitions: expected values in (?P<range>\[.*?\)), got (?P<got>-?\d+)",
     lambda m: f"partitions = {m['got']} is not in {m['range']}"),
    (r"indices: expected row (?P<row>\d+) to index into shape "
     r"\[(?P<shape>[\d,]*)\], got (?P<got>\[[\d,-]*\])",
     lambda m: f"indices[{m['row']}] = {m['got']} does not index into "
               f"(param) shape [{m['shape']}]"),
    (r"placeholder '(?P<name>.*?)': expected a fed value of (?P<type>\w+)",
     lambda m: f"You must feed a value for placeholder tensor '{m['name']}' "
               f"with dtype {m['type']}"),
    (r"partial run: expected each edge fed once, got '(?P<name>.*?)'",
     lambda m: f"The feed {m['name']} has already been fed."),
    (r"partial run: expected a declared fetch that has not been fetched, got "
     r"'(?P<name>.*?)'",
     lambda m: f"Edge {m['name']} has already been fetched, or was not "
               f"specified in partial_run_setup."),
    (r"partial run: expected a declared feed, got '(?P<name>.*?)'",
     lambda m: f"The feed {m['name']} was not specified in "
               f"partial_run_setup."),
    (r"fetch: expected a value, got none from '(?P<name>.*?)'",
     lambda m: "Retval[0] does not have value"),
    (r"frames: expected all inputs from one frame",
     lambda m: "has inputs from different frames"),
    (r"paddings: expected amounts >= 0",
     lambda m: "Paddings must be non-negative"),
    (r"Input is not invertible: expected pivots",
     lambda m: "Input matrix is not invertible"),
    (r"perm: expected (?P<n>\d+) entries, one per dimension, got (?P<k>\d+)",
     lambda m: f"perm should be a vector of size {m['n']}, got {m['k']}"),
    (r"loop '(?P<loop>.*?)': loop variable \d+: expected shape (?P<a>\S+) "
     r"after every iteration, as it enters the loop, got (?P<b>\S+) from",
     lambda m: f"The shape for a variable of {m['loop']} is not an invariant "
               f"for the loop. It enters the loop with shape {m['a']}, but has "
               f"shape {m['b']} after one iteration. Provide shape invariants "
               f"using either the `shape_invariants` argument of "
               f"tf.while_loop or set_shape() on the loop variables."),
    (r"loop '.*?': loop variable \d+: expected an initial value that fits its "
     r"shape invariant (?P<a>\S+), got shape (?P<b>\S+)",
     lambda m: f"The shape invariant {m['a']} is not compatible with the "
               f"initial shape {m['b']}"),
    (r"input: expected one from outside of loops.*?, got '(?P<name>.*?)' of "
     r"loop", lambda m: f"Cannot use '{m['name'].split(':')[0]}' as input "
     f"because it is in a while loop"),
    (r"TensorArray '.*?': read of index (?P<i>\d+): expected an element that "
     r"was not cleared",
     lambda m: f"Could not read index {m['i']} twice because it was cleared "
               f"after a previous read (perhaps try setting clear_after_read "
               f"= false?)"),
    (r"TensorArray '.*?': write to index (?P<i>\d+): expected an element that "
     r"was not written",
     lambda m: f"Could not write to TensorArray index {m['i']} because it has "
               f"already been written to"),
    (r"TensorArray '.*?': stacking no elements",
     lambda m: "TensorArray has size zero, but element shape <unknown> is not "
               "fully defined. Currently only static shapes are supported when "
               "packing zero-size TensorArrays."),
    (r"slice: expected at most one ellipsis",
     lambda m: "Multiple ellipses in slice spec not allowed"),
    (r"boundaries: expected ascending", lambda m: "Expected sorted boundaries"),
    (r"values: expected rank at least 1 \(join scalars",
     lambda m: "Can't concatenate scalars (use tf.stack instead)"),
    (r"values: expected equal shapes, got \[(?P<a>[\d,]*)\] and "
     r"\[(?P<b>[\d,]*)\]",
     lambda m: f"Shapes of all inputs must match: [{m['a']}] != [{m['b']}]"),
)]


def add(message):
    """The message, with TensorFlow's words if there are any."""
    for pattern, words in _WORDS:
        found = pattern.match(message)
        if found:
            return f"{message}; TensorFlow: {words(found)}"
    return message
