"""Adds TensorFlow's wording to error messages.

Programs and tests search for it. A table maps the start of a message to the
words.
"""

import re

from sluice.version import VERSION

_NODE = re.compile(r"node '([^']*)' \((\w+)\)")


def _op(found):
    """Returns the op named in a message, or ""."""
    node = _NODE.search(found.string)
    return node[2] if node else ""


def _dims(shape):
    return shape.split(",") if shape else []


def _tuple(shape):
    dims = _dims(shape)
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def _rank(found, least=""):
    node = _NODE.search(found.string)
    where = f" for '{node[1]}' (op: '{node[2]}')" if node else ""
    words = (f"Shape must be {least}rank {found['rank']} but is rank "
             f"{len(_dims(found['shape']))}{where}")
    if least == "at least ":
        words += (f"; input must be at least {found['rank']}-dim, received "
                  f"shape: [{found['shape']}]")
    return words


def _unequal(found):
    """Returns words for the last pair of dimensions that do not match."""
    a, b = _dims(found["a"]), _dims(found["b"])
    differ = next(((x, y) for x, y in zip(reversed(a), reversed(b))
                   if x != y and "1" not in (x, y)), ("?", "?"))
    return (f"Incompatible shapes: [{found['a']}] vs. [{found['b']}]; "
            f"Dimensions must be equal, but are {differ[0]} and {differ[1]}")


def _different(found):
    a, b = _dims(found["a"]), _dims(found["b"])
    if len(a) != len(b):
        words = f"Shapes must be equal rank, but are {len(a)} and {len(b)}"
        if set(b) == {"?"}:
            words += (f"; Shape must be rank {len(b)} but is rank {len(a)} "
                      f"(must be rank {len(b)}, but is rank {len(a)})")
        return words
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), 0)
    return (f"Dimension {at} in both shapes must be equal, but are "
            f"{a[at] if a else '?'} and {b[at] if b else '?'}")


_REDUCTIONS = {"Sum", "Mean", "Prod", "Min", "Max", "All", "Any", "ReduceJoin",
               "EuclideanNorm"}


def _axis(found):
    op, got = _op(found), found["got"]
    within = f"[{found['low']}, {found['high']})"
    if op in _REDUCTIONS:
        return (f"Invalid reduction dimension {got} for input with "
                f"{found['high']} dimension(s)")
    if op == "ConcatOffset":
        return f"Concat dim is out of range: {got} vs. {found['high']}"
    if op in ("Pack", "Unpack"):
        return f"axis = {got} not in {within}"
    if op == "Roll":
        return f"axis {got} is out of range"
    if op == "ReverseV2":
        return (f"axis = {got} is out of valid range [0, "
                f"{int(found['high']) - 1}]")
    if op in ("GatherV2", "Gather"):
        needed = int(got) + 1 if int(got) >= 0 else -int(got)
        return (f"Expected axis in the range {within}, but got {got}; Shape "
                f"must be at least rank {needed} but is rank {found['high']}")
    if op.startswith("Concat"):
        return (f"Expected concatenating dimensions in the range {within}, but "
                f"got {got}")
    return f"Expected dimension in the range {within}, but got {got}"


def _offsets(found):
    one, two = found["a"].split(), found["b"].split()
    if len(one) != len(two):
        return f"input 1 should contain {len(one)} elements, but got {len(two)}"
    return (f"All dimensions except {found['axis']} must match. Input 1 has "
            f"shape [{found['b']}] and doesn't match input 0 with shape "
            f"[{found['a']}].")


def _reshaped(found):
    known = 1
    for d in _dims(found["shape"]):
        known *= 1 if d == "?" else int(d)
    if "?" in found["shape"]:
        return (f"Dimension size must be evenly divisible by {known} but is "
                f"{found['n']}")
    return (f"Cannot reshape a tensor with {found['n']} elements to shape "
            f"[{found['shape']}] ({known} elements)")


def _requested(found):
    count = 1
    for d in found["shape"].split():
        count *= int(d)
    return (f"Input to reshape is a tensor with {found['n']} values, but the "
            f"requested shape has {count}")


def _row(found):
    """Returns words for a row of indices that is out of range."""
    place, shape, got = found["place"], found["shape"], found["got"]
    if _op(found).startswith("ScatterNd"):
        flat = place.replace("]", ",0]" if place != "[]" else "0]")
        return (f"Invalid indices: {flat} = {got} does not index into "
                f"[{shape}]; indices{place} = {got} does not index into shape "
                f"[{shape}]")
    if "0" in _dims(shape):
        return "Requested more than 0 entries, but params is empty."
    return (f"flat indices[{found['row']}, :] = {got} does not index into "
            f"param (shape: [{shape}]); indices{place} = {got} does not index "
            f"into param shape [{shape}]")


def _updates(found):
    want, got = _dims(found["want"]), _dims(found["got"])
    rows = _dims(found["rows"])[:-1]
    if got[:len(rows)] != rows:
        return (f"The outer {len(rows)} dimensions of indices.shape="
                f"[{found['rows']}] must match the outer {len(rows)} "
                f"dimensions of updates.shape=[{found['got']}]")
    inner = len(want) - len(rows)
    return (f"The inner {inner} dimensions of input.shape=[{found['into']}] "
            f"must match the inner {len(got) - len(rows)} dimensions of "
            f"updates.shape=[{found['got']}]")


def _segment(found):
    """Returns words for a segment id that is out of range or order."""
    n, got = int(found["n"]), int(found["got"])
    if n <= 0:
        return "segment ids must be >= 0"
    if 0 <= got < n:
        return "segment ids are not increasing"
    if got >= n and _op(found).endswith("NumSegments"):
        return "segment ids must be < num_segments"
    return (f"Segment id {got} out of range [0, {n}), possibly because "
            f"'segment_ids' input is not sorted.")


def _segment_of_gradient(found):
    words = f"Segment id {found['got']} out of range [0, {found['n']})"
    if int(found["got"]) > int(found["n"]):
        words += "; Invalid number of segments"
    return words


def _sparse_row(found):
    if "Grad" in _op(found):
        return f"Index {found['got']} out of range {found['range']}"
    return (f"indices{found['at']} == {found['got']} out of range "
            f"{found['range']}")


def _outside(found):
    """Returns words for a pair of indices that is out of bounds."""
    i, column, k = found["i"], found["column"], found["k"]
    if 0 <= int(column) < int(k):
        return (f"invalid index; m ({found['row']}) from index[{i},0] out of "
                f"bounds (>={found['n']})")
    return (f"invalid index; k ({column}) from index[{i},1] out of bounds "
            f"(>={k})")


def _serialized(found):
    """Returns words for a part of a serialized sparse tensor.

    It consists of three parts.
    """
    which, part = divmod(int(found["i"]), 3)
    part = ("indices", "values", "shape")[part]
    return (f"Requested SparseTensor of type {found['a']} but "
            f"SparseTensor[{which}].{part}.dtype() == {found['b']}")


def _list_element(found):
    does = "access" if _op(found) == "TensorListGetItem" else "modify"
    return (f"Trying to {does} element {found['got']} in a list with "
            f"{found['n']} elements.")


def _where(found):
    """Returns the name of an Example, as messages begin with it."""
    return f"Name: {found['name']}, " if found["name"] else ""


def _stride(found):
    kind = "bytes" if found["type"] == "string" else found["type"]
    return (f"{_where(found)}Key: {found['key']}, Index: {found['i'] or 0}.  "
            f"Number of {kind} values is not a multiple of stride length.")


def _cancelled(found):
    """Returns words for an operation that waited in a session that ended."""
    op = _op(found)
    for part, what in (("Dequeue", "Dequeue"), ("Enqueue", "Enqueue"),
                       ("TakeGradient", "TakeGrad"), ("TakeMany", "Dequeue")):
        if part in op:
            return f"{what} operation was cancelled"
    return "Step was cancelled by an explicit call to `Session::Close()`."


def _format(found):
    """Returns words for an image file of another format."""
    op, got = _op(found), found["got"]
    if op == "DecodeAndCropJpeg":
        return (f"DecodeAndCropJpeg operation can run on JPEG only, but "
                f"detected {got}.")
    if op == "DecodeBmp":
        return f"Trying to decode {got} format using DecodeBmp op."
    return (f"Trying to decode {got} format using a wrong op. Use "
            f"`decode_{got.lower()}` or `decode_image` instead. Op used: {op}")


def _vector(found):
    what, op, shape = found["what"], _op(found), found["shape"]
    if op == "Reshape":
        return f"sizes input must be 1-D, not shape {shape}"
    if op in ("Slice", "StridedSlice"):
        return (f"Expected begin and size arguments to be 1-D tensors, but got "
                f"shape {shape}")
    if op == "Tile":
        return f"Expected {what} to be 1-D, but got shape {shape}"
    if op == "TensorListSplit":
        return f"Expected {what} to be a vector, received shape: {shape}"
    must = "should" if op.startswith("Sparse") else "must"
    return f"{what} {must} be a vector, got shape {shape}"


def _incompatible(found):
    words = (f"Matrix size-incompatible: In[0]: [{found['a']}], In[1]: "
             f"[{found['b']}]")
    a, b = _dims(found["a"])[-1], _dims(found["b"])[-2]
    if a == b or "?" in (a, b):  # Other messages are about transposes.
        return words
    return f"{words}; Dimensions must be equal, but are {a} and {b}"


def _base64(found):
    if len(found["text"].rstrip("=")) % 4 == 1:
        return "Base64 string length cannot be 1 modulo 4."
    return "Invalid character found in base64."


def _seq_dim(found):
    rank, seq, batch = (int(found[k]) for k in ("rank", "seq", "batch"))
    if seq >= rank:
        return f"seq_dim must be < input rank ({seq} vs. {rank})"
    if batch >= rank:
        return f"batch_dim must be < input rank ({batch} vs. {rank})"
    return f"batch_dim == seq_dim == {seq}"


def _uninitialized(found):
    words = f"Attempting to use uninitialized value {found['name']}"
    if _op(found) == "ReadVariableOp":
        words += (f"; Error while reading resource variable {found['name']}: "
                  f"Resource localhost/{found['name']}/ does not exist.")
    return words


def _grown(found):
    def shape(text):
        return _tuple(text.strip("[]"))

    merge = f"Merge_{found['i']}" if int(found["i"]) else "Merge"
    return (f"The shape for {found['loop']}/{merge}:0 is not an invariant for "
            f"the loop. It enters the loop with shape {shape(found['a'])}, but "
            f"has shape {shape(found['b'])} after one iteration. Provide shape "
            f"invariants using either the `shape_invariants` argument of "
            f"tf.while_loop or set_shape() on the loop variables. Input tensor "
            f"'{found['name']}' enters the loop with shape "
            f"{shape(found['a'])}, but has shape {shape(found['b'])} after one "
            f"iteration. To allow the shape to vary across iterations, use the "
            f"`shape_invariants` argument of tf.while_loop to specify a "
            f"less-specific shape.")


def _of_loop(found):
    node, name = _NODE.search(found.string), found["name"].split(":")[0]
    into = f" to '{node[1]}'" if node else ""
    if node and node[2].startswith("Assign"):
        return (f"Initializer for variable {node[1].rpartition('/')[0]}/ is "
                f"from inside a control-flow construct, such as a loop or "
                f"conditional. When creating a variable inside a loop or "
                f"conditional, use a lambda as the initializer.")
    if found["own"]:
        return (f"Cannot use '{name}' as input{into} because they are in "
                f"different while loops. See info log for more details.")
    return (f"Cannot use '{name}' as input{into} because '{name}' is in a "
            f"while loop. See info log for more details.")


def _rolled(found):
    for what in ("shift", "axis"):
        if len(_dims(found[what])) > 1:
            return f"{what} must be a scalar or a 1-D vector"
    return "shift and axis must have the same size"


def _unlike(found):
    """Returns words for list items with different shapes."""
    a, b = _dims(found["a"]), _dims(found["b"])
    if len(a) != len(b):
        return (f"Incompatible ranks during merge: {len(a)} vs. {len(b)}; "
                f"Incompatible shapes during merge: [{found['a']}] vs. "
                f"[{found['b']}]")
    return (f"Incompatible shapes during merge: [{found['a']}] vs. "
            f"[{found['b']}]")


def _unset(found):
    """Returns words for a list without items and element shape."""
    op, shape = _op(found), found["shape"]
    if op == "TensorListStack":
        return (f"Tried to stack list which only contains uninitialized "
                f"tensors and has a non-fully-defined element_shape: {shape}")
    if op == "TensorListGather":
        return (f"Tried to gather uninitialized tensors from a list with "
                f"non-fully-defined element_shape: {shape}")
    return ("Trying to concat list with only uninitialized tensors but "
            "element_shape_except_first_dim_ is not fully defined; All except "
            "the first dimension must be fully defined when concating an empty "
            "tensor list")


def _unparsed(found):
    return (f"Field {found['field']} in record {found['record']} is not a "
            f"valid {found['type']}: {found['text']}")


def _unlike_saved(found):
    """Returns words for a variable that is not as in its checkpoint."""
    if found["type"] != found["saved"]:
        return (f"tensor_name = {found['name']}; expected dtype "
                f"{found['type']} does not equal original dtype "
                f"{found['saved']}")
    return (f"Assign requires shapes of both tensors to match. lhs shape= "
            f"{found['a']} rhs shape= {found['b']}")


def _unfed(found):
    """Returns words for a wrong number of inputs."""
    types = re.findall(r": (?:Ref\()?(\w+)", found["inputs"])
    return (f"NodeDef expected inputs '{', '.join(types)}' do not match "
            f"{found['got']} inputs specified")


_UNRESTORED = (r"(?s:Restoring from checkpoint failed.*?Differences:\n  ')"
               r"(?P<name>[^']*)")
_SHAPES = r"\[(?P<a>[\d,?]*)\] and \[(?P<b>[\d,?]*)\]"
_EXAMPLE = r"serialized(?:\[(?P<i>\d+)\])?(?: \(name '(?P<name>.*?)'\))?: "
_GOT = r"got (?P<got>-?\d+)"
_WORDS = [(re.compile(pattern), words) for pattern, words in (
    (r"variable '(?P<name>.*?)': expected a value, got an uninit",
     _uninitialized),
    (r"\w+(?: \d+)?: expected rank (?P<rank>\d+), got "
     r"shape \[(?P<shape>[\d,?]*)\]", _rank),
    (r"\w+(?: \d+)?: expected rank at least (?P<rank>\d+), got "
     r"shape \[(?P<shape>[\d,?]*)\]", lambda m: _rank(m, "at least ")),
    (r"\w+(?: \d+)?: expected rank at most (?P<rank>\d+), got "
     r"shape \[(?P<shape>[\d,?]*)\]", lambda m: _rank(m, "at most ")),
    (r"input: expected rank at least 1, got a scalar; node '[^']*' \(Roll\)",
     lambda m: "input must be 1-D or higher"),
    (r"shape: expected a vector of dimensions, got shape \[(?P<shape>[\d,]*)\]",
     lambda m: f"Shape must be rank 1 but is rank {len(_dims(m['shape']))}"),
    (r"attribute '(?P<name>\w+)': expected one of \{(?P<known>[^}]*)\}, got "
     r"'(?P<got>.*?)'; node",
     lambda m: f"Attr '{m['name']}' of '{_op(m)}' Op passed string "
               f"'{m['got']}' not in: " + ", ".join(
                   f'"{k}"' for k in m["known"].split(","))),
    (r"attribute '(?P<name>\w+)': expected a value, got none; node",
     lambda m: f"NodeDef missing attr '{m['name']}' from Op<name={_op(m)}"),
    (r"input: expected rank (?P<rank>\d) or more, got a scalar",
     lambda m: f"Input must be >= {m['rank']}-D, got shape []"),
    # Imported graphs.
    (r"duplicate node: expected each name once, got '(?P<name>[^']*)'",
     lambda m: f"Node '{m['name']}' is not unique"),
    (r"input (?P<i>\d+) \('\w+'\): expected (?P<want>\w+), got (?P<got>\w+) "
     r"from '(?P<source>[^']*)'; node '(?P<node>[^']*)'",
     lambda m: f"Input {m['i']} of node {m['node']} was passed {m['got']} from "
               f"{m['source']} incompatible with expected {m['want']}."),
    (r"inputs: expected (?:at least )?\d+ for \w+\((?P<inputs>.*?)\) -> .*, "
     r"got (?P<got>\d+); node", _unfed),
    (r"input: expected (?:'node'|a node of the GraphDef).*?, got '"
     r"(?P<input>[^']*)'(?:; nearest: [^;]*)?; node '(?P<node>[^']*)'",
     lambda m: f"Node '{m['node']}': Unknown input node '{m['input']}'"),
    (r"input (?P<i>\d+): expected output 0 (?:to (?P<last>\d+)|\(the op has "
     r"one output\)) of '"
     r"(?P<source>[^']*)', got (?P<got>\d+); node '(?P<node>[^']*)'",
     lambda m: f"Node '{m['node'].rpartition('/')[2]}': Connecting to invalid "
               f"output {m['got']} of source node "
               f"{m['source'].rpartition('/')[2]} which has "
               f"{int(m['last'] or 0) + 1} outputs"),
    (r"_update_input: expected an index below (?P<n>\d+), got (?P<got>-?\d+)",
     lambda m: f"Cannot update edge. Input index [{m['got']}] is greater than "
               f"the number of total inputs [{m['n']}]."),
    (r"_update_input: expected the shape (?P<old>\S+), got (?P<new>[^\s;]+)",
     lambda m: f"Cannot update edge, incompatible shapes: {m['new']} and "
               f"{m['old']}"),
    (r"return element: expected (?:(?P<none>no output)|output 0)(?: to "
     r"(?P<last>\d+)| \(the op has [a-z ]+\)) of .*, got "
     r"'(?P<node>[^':]*):(?P<got>\d+)'",
     lambda m: f"Invalid return output {m['got']} of node '{m['node']}', which "
               f"has {0 if m['none'] else int(m['last'] or 0) + 1} output(s)"),
    (r"GraphDef: expected a minimal consumer of at most (?P<ours>\d+), got "
     r"(?P<got>\d+)",
     lambda m: f"GraphDef min consumer version {m['got']} above current "
               f"version {m['ours']} for TensorFlow {VERSION}.  Please upgrade "
               f"TensorFlow."),
    (r"GraphDef: expected a producer version of at least 0, got (?P<got>-\d+)",
     lambda m: f"GraphDef producer version {m['got']} below min producer 0 "
               f"supported by TensorFlow {VERSION}.  Please regenerate your "
               f"graph."),
    (r"diagonal: expected shape \[[\d,?]*\], got \[\]",
     lambda m: "Shape must be at least rank 1 but is rank 0"),
    (r"(broadcast: expected dimensions that are equal or 1, got shapes|"
     r"shapes: expected two that broadcast together, got) " + _SHAPES,
     _unequal),
    (r"shapes: expected dimensions that are equal or 1, got \[(?P<a>[\d ]*)\] "
     r"and \[(?P<b>[\d ]*)\]",
     lambda m: "Incompatible shapes: [{}] vs. [{}]".format(
         *(m[k].replace(" ", ",") for k in "ab"))),
    (r"matrices: expected inner dimensions that agree, got " + _SHAPES,
     _incompatible),
    (r"\w+: expected labels and predictions of one shape, got " + _SHAPES,
     lambda m: f"Shapes {_tuple(m['b'])} and {_tuple(m['a'])} are "
               f"incompatible"),
    (r"weights: expected a number, or a tensor with the rank of the values and "
     r"sizes that are 1 or equal to theirs, got \[(?P<a>[\d,?]*)\] for values "
     r"\[(?P<b>[\d,?]*)\]",
     lambda m: f"weights can not be broadcast to values. values.rank="
               f"{len(_dims(m['b']))}. weights.rank={len(_dims(m['a']))}. "
               f"values.shape={_tuple(m['b'])}. weights.shape={_tuple(m['a'])}."),
    (r"shapes " + _SHAPES + " are not compatible", _different),
    (r"(?P<what>\w+): expected a vector, got shape (?P<shape>\[[\d,?]*\])",
     _vector),
    (r"lengths: expected a vector of int64, got int64(?P<shape>\[[\d,]*\])",
     lambda m: f"Expected lengths to be a vector, received shape: "
               f"{m['shape']}"),
    (r"split_dim: expected a scalar",
     lambda m: "split_dim_tensor must have exactly one element."),
    (r"(?P<what>\w+): expected a scalar, got shape (?P<shape>\[[\d,?]*\])",
     lambda m: f"{m['what']} must be a scalar, got shape {m['shape']}"),
    # Axes and sizes.
    (r"axis: expected a value in \[(?P<low>-?\d+), (?P<high>\d+)\), " + _GOT,
     _axis),
    (r"reduction axis: expected one in \[-?\d+, (?P<high>\d+)\), " + _GOT,
     lambda m: f"Invalid reduction dimension {m['got']} for input with "
               f"{m['high']} dimension(s)"),
    (r"reduction_indices: expected different axes, got axis (?P<got>\d+)",
     lambda m: f"Duplicate reduction dimension {m['got']}"),
    (r"dimension (?P<d>\d+): expected one that is not empty, got shape "
     r"(?P<shape>\[[\d,]*\])",
     lambda m: f"Reduction axis {m['d']} is empty in shape {m['shape']}"),
    (r"seq_dim and batch_dim: expected two dimensions in \[0, (?P<rank>\d+)\), "
     r"got (?P<seq>-?\d+) and (?P<batch>-?\d+)", _seq_dim),
    (r"shape: expected shapes that differ only in dimension (?P<axis>\d+), got "
     r"\[(?P<a>[\d ]*)\] and \[(?P<b>[\d ]*)\]", _offsets),
    (r"shape: expected (?P<n>\d+) elements, as the input of shape \[[\d,?]*\] "
     r"has, got shape \[(?P<shape>[\d,?]*)\]", _reshaped),
    (r"shape: expected one of (?P<n>\d+) elements, as the input of shape "
     r"\[[\d,]*\] has, got \[(?P<shape>[-\d ]*)\]", _requested),
    (r"value: expected dimension (?P<d>\d+) to be a multiple of (?P<n>\d+), "
     r"got shape \[(?P<shape>[\d,?]*)\]",
     lambda m: f"Dimension size must be evenly divisible by {m['n']} but is "
               f"{_dims(m['shape'])[int(m['d'])]}; Number of ways to split "
               f"should evenly divide the split dimension"),
    (r"squeeze_dims: expected dimension (?P<d>\d+) of size 1, got shape "
     r"\[(?P<shape>[\d,?]*)\]",
     lambda m: f"Can not squeeze dim[{m['d']}], expected a dimension of 1, got "
               f"{_dims(m['shape'])[int(m['d'])]}"),
    (r"input: expected a last dimension of \d+, got shape",
     lambda m: "Cannot bitcast due to shape"),
    (r"paddings: expected shape \[(?P<rank>\d+),2\], got",
     lambda m: "The first dimension of paddings must be the rank of inputs"),
    (r"n: expected a value >= 0, " + _GOT,
     lambda m: f"Need n >= 0, got {m['got']}; must be non-negative but is "
               f"{m['got']}"),
    (r"n: expected a value below (?P<columns>\d+).*?" + _GOT,
     lambda m: f"Input must have at least n+1 columns; must have last "
               f"dimension > n = {m['got']} but is {m['columns']}"),
    (r"k: expected (?:at most|a value in \[0,) (?P<n>\d+).*?" + _GOT,
     lambda m: f"Need k >= 0, got {m['got']}" if m["got"][0] == "-" else
     f"input must have last dimension >= k = {m['got']} but is {m['n']}"),
    (r"k: expected a value >= 0, " + _GOT,
     lambda m: f"Need k >= 0, got {m['got']}"),
    (r"num_segments: expected a value >= 0, " + _GOT,
     lambda m: f"Cannot specify a negative value for num_segments: "
               f"{m['got']}"),
    (r"inputs: expected a shape \[time, batch, classes\] without zeros, got "
     r"\[\d+,0,", lambda m: "batch_size must not be 0"),
    (r"top_paths: expected at most the beam_width",
     lambda m: "requested more paths than the beam width."),
    # Positions.
    (r"(?P<at>indices(\[[\d,]+\])?): expected a value in (?P<range>\[.*?\)), "
     + _GOT, lambda m: f"{m['at']} = {m['got']} is not in {m['range']}"),
    (r"partitions: expected values in (?P<range>\[.*?\)), " + _GOT +
     r" at (?P<at>\[[\d,]*\])",
     lambda m: f"partitions{m['at'] if m['at'] != '[]' else ''} = "
               f"{m['got']} is not in {m['range']}"),
    (r"indices: expected row (?P<row>\d+) \((?P<place>\[[\d,]*\])\) to index "
     r"into shape \[(?P<shape>[\d,]*)\], got (?P<got>\[[\d,-]*\])", _row),
    (r"updates: expected shape \[(?P<want>[\d,?]*)\] for indices of shape "
     r"\[(?P<rows>[\d,?]*)\] into \[(?P<into>[\d,?]*)\], got "
     r"\[(?P<got>[\d,?]*)\]", _updates),
    (r"shape: expected elements to scatter into, got",
     lambda m: "Indices and updates specified for empty output"),
    (r"segment_ids: expected ids that are not decreasing, in "
     r"\[0, (?P<n>-?\d+)\), " + _GOT, _segment),
    (r"segment_ids: expected ids in \[0, (?P<n>\d+)\), " + _GOT,
     _segment_of_gradient),
    (r"segment_ids: expected ids below (?P<n>\d+), " + _GOT +
     r" at (?P<at>\[[\d,]*\])",
     lambda m: f"segment_ids{m['at']} = {m['got']} is out of range "
               f"[0, {m['n']})"),
    (r"indices: expected rows in (?P<range>\[.*?\)), " + _GOT +
     r" at (?P<at>\[\d+\])", _sparse_row),
    (r"indices: expected increasing order, got (?P<a>\S+) after (?P<b>[^\s;]+)",
     lambda m: f"indices {m['a']} is out of order, after {m['b']}"),
    (r"gradient of node .*?: gradient: expected no request through",
     lambda m: "Gradient explicitly disabled."),
    # Feeds and fetches.
    (r"placeholder '(?P<name>.*?)': expected a fed value of (?P<type>\w+)"
     r"(?P<shape>\[[\d,?]+\])?",
     lambda m: f"You must feed a value for placeholder tensor '{m['name']}' "
               f"with dtype {m['type']}"
               f"{' and shape ' + m['shape'] if m['shape'] else ''}"),
    (r"partial run: expected each edge fed once, got '(?P<name>.*?)'",
     lambda m: f"The feed {m['name']} has already been fed."),
    (r"partial run: expected each edge fetched once, got '(?P<name>.*?)'",
     lambda m: f"Tensor {m['name']} has already been fetched."),
    (r"partial run: expected a declared fetch, got '(?P<name>.*?)'",
     lambda m: f"Tensor {m['name']} was not specified in "
               f"partial_run_setup."),
    (r"partial run: expected a declared feed, got '(?P<name>.*?)'",
     lambda m: f"The feed {m['name']} was not specified in "
               f"partial_run_setup."),
    (r"fetch: expected a value, got none from '(?P<name>.*?)'",
     lambda m: "Retval[0] does not have value"),
    (r"frames: expected all inputs from one frame",
     lambda m: "has inputs from different frames"),
    (r"assertion failed: \[(?:More than one condition evaluated|None of the "
     r"conditions evaluated)", lambda m: "Input error: exactly one condition "
     "must be true"),
    # Lists of tensors.
    (r"list: expected items of (?:one )?shape (?:but for the first dimension, "
     r"got )?\[(?P<a>[\d,?]*)\],? (?:got|and) \[(?P<b>[\d,?]*)\]", _unlike),
    (r"list: expected an item that was set, or .*?, got none and "
     r"(?P<shape>[^;]+)", _unset),
    (r"item: expected one that was set, or a fully known element_shape, got an "
     r"item that was not set and (?P<shape>[^;]+)",
     lambda m: f"Trying to read an uninitialized tensor but element_shape is "
               f"not fully defined: {m['shape']}"),
    (r"item (?P<i>\d+): expected one that was set, or its length in "
     r"leading_dims",
     lambda m: f"List contains uninitialized tensor at index {m['i']}"),
    (r"list: expected an item to pop",
     lambda m: "Trying to pop from an empty list."),
    (r"list: expected items of rank at least 1, got scalars",
     lambda m: "Concat requires elements to be at least vectors, found scalars "
               "instead."),
    (r"list: expected at most (?P<n>\d+) items \(max_num_elements\)",
     lambda m: f"Tried to push item into a full list; list size: {m['n']} "
               f"max_num_elements: {m['n']}"),
    (r"item: expected a shape that fits the list's, (?P<a>\[.*?\]|<unknown>), "
     r"got (?P<b>\[.*?\])",
     lambda m: f"Tried to append a tensor with incompatible shape to a list. "
               f"Op element shape: {m['b']} list shape: {m['a']}"),
    (r"indices: expected none below 0",
     lambda m: "Indices in TensorListScatter must all be non-negative."),
    (r"num_elements: expected at least -1, " + _GOT,
     lambda m: f"TensorListScatter expects num_elements >= -1, found: "
               f"{m['got']}"),
    (r"tensor: expected a row per index, (?P<n>\d+), " + _GOT,
     lambda m: f"Invalid number of rows in input tensor. Expected: {m['n']} "
               f"Actual: {m['got']}"),
    (r"indices: expected values in \[0, (?P<n>\d+)\), " + _GOT +
     r"; node '[^']*' \(TensorListScatter",
     lambda m: f"TensorListScatter: Trying to scatter at index {m['got']} in "
               f"list with size {m['n']}"),
    (r"index: expected one in \[0, (?P<n>\d+)\), " + _GOT, _list_element),
    (r"size: expected at least 0, " + _GOT + r"; node '[^']*' \(TensorList",
     lambda m: f"TensorListSlice expects size to be non-negative. Got: "
               f"{m['got']}"),
    (r"size: expected at least 0, " + _GOT,
     lambda m: f"size ({m['got']}) must be non-negative"),
    (r"tensor: expected rank at least 1, got a scalar",
     lambda m: "Tensor must be at least a vector, but saw shape: []"),
    (r"lengths: expected values >= 0, " + _GOT,
     lambda m: f"Invalid value in lengths: {m['got']}"),
    # Checkpoints.
    (r"checkpoint '(?P<name>.*?)': expected a file '",
     lambda m: f"Unsuccessful TensorSliceReader constructor: Failed to find "
               f"any matching files for {m['name']}"),
    (_UNRESTORED + r"' is not in the checkpoint",
     lambda m: f"Key {m['name']} not found in checkpoint"),
    (_UNRESTORED + r"': expected (?P<type>\w+)(?P<a>\S*), got "
     r"(?P<saved>\w+)(?P<b>\S*)", _unlike_saved),
    # Records and bytes.
    (r"records: expected (?P<type>\w+) in field (?P<field>\d+) of record "
     r"(?P<record>\d+), got '(?P<text>.*?)'", _unparsed),
    (r"records: expected (?P<n>\d+) fields in record (?P<i>\d+), got "
     r"(?P<k>\d+)",
     lambda m: f"Expect {m['n']} fields but have {m['k']} in record {m['i']}"),
    (r"records: expected field (?P<f>\d+), which has no default, in record "
     r"(?P<i>\d+)",
     lambda m: f"Field {m['f']} is required but missing in record {m['i']}!"),
    (r"records: record \d+: expected no quote",
     lambda m: "Unquoted fields cannot have quotes/CRLFs inside"),
    (r"records: record \d+: expected a quote at the end",
     lambda m: "Quoted field has to end with quote followed by delim, CRLF, or "
               "EOF"),
    (r"bytes: expected a multiple of (?P<n>\d+), the size of (?P<type>\w+), "
     + _GOT, lambda m: f"Input to DecodeRaw has length {m['got']} that is not "
     f"a multiple of {m['n']}, the size of {m['type']}"),
    (r"bytes: expected strings of one length, got (?P<a>\d+) and, as element "
     r"(?P<i>\d+), (?P<b>\d+)",
     lambda m: f"DecodeRaw requires input strings to all be the same size, but "
               f"element {m['i']} has size {m['a']} != {m['b']}"),
    (r"pattern: expected a regular expression of RE2, got '(?P<text>.*?)': "
     r"(?P<why>[^;]*)",
     lambda m: f"Invalid pattern: {m['text']}, error: {m['why']}"),
    # Sparse tensors.
    (r"indices: expected index (?P<i>\d+) within \[(?P<n>\d+),(?P<k>\d+)\], "
     r"got \[(?P<row>-?\d+),(?P<column>-?\d+)\]", _outside),
    (r"reverse_index_map: expected places in (?P<range>\[.*?\)), " + _GOT,
     lambda m: f"Elements in reverse index must be in {m['range']} but got "
               f"{m['got']}"),
    (r"shapes: expected shapes that differ in dimension",
     lambda m: "Input shapes must match"),
    (r"new_shape: expected (?P<n>\d+) elements, " + _GOT,
     lambda m: f"Input to reshape is a tensor with {m['n']} dense values, but "
               f"the requested shape has {m['got']}"),
    (r"new_shape: expected dimensions that divide (?P<n>\d+) elements beside "
     r"-1, got a product of (?P<k>\d+)",
     lambda m: f"Input to reshape is a SparseTensor with {m['n']} dense "
               f"values, but the requested shape requires a multiple of "
               f"{m['k']}"),
    (r"new_shape: expected dimensions >= 0 and at most one of -1",
     lambda m: "only one output dimension may be -1"),
    (r"serialized_sparse: expected sparse tensors of one rank, got (?P<a>\d+) "
     r"and (?P<b>\d+)",
     lambda m: f"Inconsistent shape across SparseTensors: ranks {m['a']} and "
               f"{m['b']}"),
    (r"serialized_sparse: expected (?P<a>\w+) at place (?P<i>\d+), got "
     r"(?P<b>\w+)", _serialized),
    (r"TensorProto: expected a serialised message",
     lambda m: "Could not parse serialized proto; Could not parse "
               "`serialized` as TensorProto"),
    (r"sparse_values: expected a scalar or a vector of (?P<n>\d+), got shape "
     r"(?P<shape>\[[\d,]*\])",
     lambda m: f"sparse_values has incorrect shape {m['shape']}, should be [] "
               f"or [{m['n']}]"),
    (r"sparse_indices: expected index (?P<i>\d+) within (?P<shape>\[[\d,]*\]), "
     + _GOT, lambda m: f"indices[{m['i']}] = [{m['got']}] is out of bounds: "
     f"need 0 <= index < {m['shape']}"),
    (r"labels: expected classes in (?P<range>\[.*?\)), " + _GOT,
     lambda m: f"Received a label value of {m['got']} which is outside the "
               f"valid range of {m['range']}."),
    (r"labels: expected a vector of \d+, one a row, got shape "
     r"(?P<shape>\[[\d,]*\])",
     lambda m: f"labels must be 1-D, but got shape {m['shape']}"),
    (r"dimensions: expected equal sizes, got (?P<a>\d+) and (?P<b>\d+)",
     lambda m: f"Dimensions must be equal, but are {m['a']} and {m['b']}; "
               f"Dimension must be {m['b']} but is {m['a']}"),
    # Numbers.
    (r"shift and axis: expected scalars or vectors of one length, got shapes "
     r"\[(?P<shift>[\d,]*)\] and \[(?P<axis>[\d,]*)\]", _rolled),
    (r"axis: expected each dimension at most once, got (?P<d>\d+) twice",
     lambda m: f"axis {m['d']} specified more than once."),
    (r"nbins: expected a value > 0, " + _GOT,
     lambda m: f"Requires nbins > 0, got {m['got']}"),
    (r"shape of '(?P<name>[^']*)': expected (?P<a>\[[\d,?]*\]), got "
     r"(?P<b>\[[\d,]*\]); node '[^']*' \(EnsureShape\)",
     lambda m: f"Shape of tensor {m['name']} {m['b']} is not compatible with "
               f"expected shape {m['a']}."),
    (r"paddings: expected amounts >= 0",
     lambda m: "Paddings must be non-negative"),
    (r"Input is not invertible: expected pivots",
     lambda m: "Input matrix is not invertible."),
    (r"perm: expected (?P<n>\d+) entries, one per dimension, got (?P<k>\d+)",
     lambda m: f"perm should be a vector of size {m['n']}, got {m['k']}"),
    (r"boundaries: expected ascending", lambda m: "Expected sorted boundaries"),
    # Devices.
    (r"device: expected one of (?P<all>.*?), got '(?P<got>[^']*)'; node "
     r"'(?P<name>[^']*)'",
     lambda m: f"Cannot assign a device for operation {m['name']}: node "
               f"{m['name']} was explicitly assigned to {m['got']} but "
               f"available devices are [ {m['all']} ]. Make sure the device "
               f"specification refers to a valid device."),
    # Loops.
    (r"loop '(?P<loop>.*?)': loop variable (?P<i>\d+): expected shape "
     r"(?P<a>\S+) after every iteration, as (?:it|'(?P<name>[^']*)') enters the "
     r"loop, got (?P<b>\S+) from", _grown),
    (r"loop '.*?': loop variable \d+: expected an initial value that fits its "
     r"shape invariant (?P<a>\S+), got shape (?P<b>\S+)",
     lambda m: f"The shape invariant {m['a']} is not compatible with the "
               f"initial shape {m['b']}"),
    (r"input: expected one from outside of loops(?P<own> or of loop '.*?' or "
     r"around it)?.*?, got '(?P<name>.*?)' of loop", _of_loop),
    # Arrays of tensors.
    (r"TensorArray '.*?': read of index (?P<i>\d+): expected an element that "
     r"was not cleared",
     lambda m: f"Could not read index {m['i']} twice because it was cleared "
               f"after a previous read (perhaps try setting clear_after_read "
               f"= false?)"),
    (r"TensorArray '.*?': read of index (?P<i>-?\d+): expected one in "
     r"\[0, (?P<n>\d+)\)",
     lambda m: f"Tried to read from index {m['i']} but array size is: "
               f"{m['n']}"),
    (r"TensorArray '.*?': split: expected lengths whose sum is the number of "
     r"rows, (?P<n>\d+), " + _GOT,
     lambda m: f"Expected sum of lengths to be equal to values.shape[0], but "
               f"sum of lengths is {m['got']} and value's shape is: "
               f"[{m['n']}]"),
    (r"TensorArray '.*?': write to index (?P<i>\d+): expected an element that "
     r"was not written",
     lambda m: f"Could not write to TensorArray index {m['i']} because it has "
               f"already been written to."),
    (r"TensorArray '.*?': expected elements of type (?P<a>\w+), got "
     r"(?P<b>\w+)", lambda m: f"TensorArray dtype is {m['a']} but Op " + (
         f"is trying to write dtype {m['b']}." if "Write" in _op(m) else
         f"requested dtype {m['b']}.")),
    (r"TensorArray '.*?': joining: expected elements of rank at least 1, got a "
     r"scalar at index (?P<i>\d+)",
     lambda m: f"Concat saw a scalar shape at index {m['i']} but requires at "
               f"least vectors."),
    (r"TensorArray '.*?': stacking no elements",
     lambda m: "TensorArray has size zero, but element shape <unknown> is not "
               "fully defined. Currently only static shapes are supported when "
               "packing zero-size TensorArrays."),
    (r"slice: expected at most one ellipsis",
     lambda m: "Multiple ellipses in slice spec not allowed"),
    (r"slice: expected at most (?P<n>\d+) indices",
     lambda m: f"Index out of range using input dim {m['n']}; input has only "
               f"{m['n']} dims"),
    (r"values: expected rank at least 1 \(join scalars",
     lambda m: "Can't concatenate scalars (use tf.stack instead)"),
    (r"values: expected equal shapes, got \[(?P<a>[\d,]*)\] and "
     r"\[(?P<b>[\d,]*)\]",
     lambda m: f"Shapes of all inputs must match: [{m['a']}] != [{m['b']}]"),
    # Images.
    (r"contents: expected (?:a|an|a PNG, JPEG or) (?:PNG|JPEG|GIF|BMP), got a "
     r"(?P<got>PNG|JPEG|GIF|BMP);", _format),
    (r"contents: expected one frame .*?, got a GIF of (?P<n>\d+)",
     lambda m: f"Got {m['n']} frames, but animated gifs can only be decoded by "
               f"tf.image.decode_gif or tf.image.decode_image"),
    (r"JPEG: expected a window within",
     lambda m: "Invalid JPEG data or crop window"),
    # Parsing.
    (_EXAMPLE + r"feature '(?P<key>.*?)': expected \d+ (?P<type>\w+) values, "
     r"got none \(it is required",
     lambda m: f"{_where(m)}Feature: {m['key']} (data type: {m['type']}) is "
               f"required but could not be found."),
    (_EXAMPLE + r"feature '(?P<key>.*?)': expected \d+ (?P<type>\w+) values "
     r"for shape (?P<shape>\[[\d,]*\]), " + _GOT,
     lambda m: f"{_where(m)}Key: {m['key']}, Index: {m['i'] or 0}.  Number of "
               f"{m['type']} values != expected.  Values size: {m['got']} but "
               f"output shape: {m['shape']}" + (
                   "; Can't parse serialized Example."
                   if _op(m) == "ParseSingleExample" else "")),
    (_EXAMPLE + r"feature '(?P<key>.*?)': expected a multiple of \d+ "
     r"(?P<type>\w+) values", _stride),
    (_EXAMPLE + r"feature list '(?P<key>.*?)': frame (?P<at>\d+): expected "
     r"type (?P<a>\w+), got (?P<b>\w+)",
     lambda m: f"{_where(m)}Feature list: {m['key']}, Index: {m['at']}.  Data "
               f"types don't match. Expected type: {m['a']}  Feature is: "
               f"{m['b']}_list"),
    (_EXAMPLE + r"feature list '(?P<key>.*?)': frame (?P<at>\d+): expected "
     r"\d+ (?P<type>\w+) values for shape (?P<shape>\[[\d,]*\]), " + _GOT,
     lambda m: f"{_where(m)}Key: {m['key']}, Index: {m['at']}.  Number of "
               f"{m['type']} values != expected.  values size: {m['got']} but "
               f"output shape: {m['shape']}"),
    (_EXAMPLE + r"feature list '(?P<key>.*?)': expected a list, got none",
     lambda m: f"{_where(m)}Feature list '{m['key']}' is required but could "
               f"not be found.  Did you mean to include it in "
               f"feature_list_dense_missing_assumed_empty or "
               f"feature_list_dense_defaults?"),
    (r"json_examples: expected an Example as JSON",
     lambda m: "Error while parsing JSON"),
    (r"serialized: expected a tensor of (?P<a>\w+), got one of (?P<b>\w+)",
     lambda m: f"Type mismatch between parsed tensor ({m['b']}) and dtype "
               f"({m['a']})"),
    # Tables.
    (r"table '.*?': expected an initialised table",
     lambda m: "Table not initialized"),
    (r"vocab_size: expected (?P<n>-?\d+) lines in file '(?P<file>.*?)', "
     + _GOT, lambda m: f"Invalid vocab_size in {m['file']}: expected {m['n']} "
     f"but got {m['got']}"),
    (r"file '(?P<file>.*?)' line (?P<line>\d+): expected at least "
     r"(?P<n>\d+) columns, " + _GOT,
     lambda m: f"Invalid number of columns in {m['file']} line {m['line']}: "
               f"expected {m['n']} got {m['got']}"),
    (r"file '(?P<file>.*?)' line (?P<line>\d+): expected a valid "
     r"(?P<type>\w+), got '(?P<text>.*?)'",
     lambda m: f"Field {m['text']} in line {m['line']} is not a valid "
               f"{m['type']}."),
    (r"deleted_key: expected another key than empty_key",
     lambda m: "Empty and deleted keys cannot be equal"),
    (r"value_shape: expected a vector's, got",
     lambda m: "Default value must be a vector"),
    (r"default_value: expected shape (?P<a>\[[\d,]*\] or \[[\d,]*\]), got "
     r"(?P<b>\[[\d,]*\])",
     lambda m: f"Expected shape {m['a']} for default value, got {m['b']}"),
    (r"values: expected shape \[(?P<a>[\d,]*)\], one value for each key, got "
     r"\[(?P<b>[\d,]*)\]",
     lambda m: f"Expected shape [{m['a']}] for value, got [{m['b']}]"),
    # What waits.
    (r"\w+Queue '(?:[^']*/)?pipeline/[^']*' is closed and has insufficient",
     lambda m: "End of sequence"),
    (r"step: expected to end before its deadline",
     lambda m: "Timed out waiting for notification"),
    (r"step: expected an open session", _cancelled),
    (r"sparse_handles: expected handles that were added and not yet taken, "
     + _GOT, lambda m: f"Unable to find SparseTensor: {m['got']}"),
    # Lists of tensors.
    (r"sum: expected lists of one length",
     lambda m: "Trying to add two lists of tensors with different lengths"),
    (r"lengths: expected the sum (?P<n>\d+), the number of rows, " + _GOT,
     lambda m: f"Attempting to slice [0, {m['got']}] from tensor with length "
               f"{m['n']}"),
    (r"dense: expected a shape that can be broadcast to that of the sparse "
     r"tensor",
     lambda m: "SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
               "incompatible shapes"),
    (r".*?gradient of function '[^']*': expected '[^']*' to return "
     r"(?P<want>\d+) results.*?, got (?P<got>\d+)",
     lambda m: f"SymGrad expects to return {m['want']} output(s), but get "
               f"{m['got']} values instead."),
    # Strings.
    (r"scientific, shortest: expected at most one",
     lambda m: "Cannot select both scientific and shortest notation"),
    (r"scientific, shortest, precision: expected none of them for (?P<t>\w+)",
     lambda m: f"scientific and shortest format not supported for datatype "
               f"{m['t']}; precision not supported for datatype {m['t']}"),
    (r"fill: expected at most one character",
     lambda m: "Fill string must be one or fewer characters"),
    (r"fill: expected one of", lambda m: "Fill argument not supported"),
    (r"key: expected two integers", lambda m: "Key must have 2 elements"),
    (r"string_tensor: expected \w+ as text, got '(?P<text>.*?)'",
     lambda m: f"StringToNumberOp could not correctly convert string: "
               f"{m['text']}"),
    (r"input: expected base64 with.*?, got '(?P<text>.*?)'", _base64),
)]


def add(message):
    """Returns a message with TensorFlow's words added, if there are any."""
    for pattern, words in _WORDS:
        found = pattern.match(message)
        if found:
            return f"{message}; TensorFlow: {words(found)}"
    return message
