"""String operations and formatting."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import (
    SparseTensor, convert_to_tensor, parts)
from sluice.ops import array_ops, math_ops

_op = _core.op

string_join = _op("StringJoin")
as_string = _op("AsString")
regex_replace = _op("RegexReplace")
regex_full_match = _op("RegexFullMatch")
string_strip = _op("StringStrip")
string_lower = _op("StringLower")
string_upper = _op("StringUpper")
encode_base64 = _op("EncodeBase64")
decode_base64 = _op("DecodeBase64")
unsorted_segment_join = _op("UnsortedSegmentJoin")
_substr = _op("Substr")
_HOLE = "\1"  # A placeholder for a value, which does not occur in text.


def substr(input, pos, len, name=None, unit="BYTE"):
    """Extracts a substring of each string, given its start and length."""
    return _substr(input, pos, len, unit=unit, name=name)


def string_length(input, name=None, unit="BYTE"):
    """Returns the lengths of strings."""
    return _op("StringLength")(input, unit=unit, name=name)


def string_split(source=None, sep=None, skip_empty=True, delimiter=None,
                 result_type="SparseTensor", name=None, input=None):
    """Splits each string of a vector at delimiters into a sparse matrix."""
    source = input if source is None else source
    delimiter = sep if delimiter is None else delimiter
    delimiter = " " if delimiter is None else delimiter
    if result_type != "SparseTensor":
        raise NotImplementedError(f"string_split: expected result_type "
                                  f"'SparseTensor', got {result_type!r}")
    return SparseTensor(*_op("StringSplit")(source, delimiter,
                                            skip_empty=skip_empty, name=name))


def strings_split(input=None, sep=None, maxsplit=-1,
                  result_type="SparseTensor", source=None, name=None):
    """Splits each string of a vector like `str.split` into a sparse matrix."""
    if result_type != "SparseTensor":
        raise NotImplementedError(f"strings.split: expected result_type "
                                  f"'SparseTensor', got {result_type!r}")
    return SparseTensor(*_op("StringSplitV2")(
        source if input is None else input, sep or "", maxsplit=maxsplit,
        name=name))


def reduce_join(inputs, axis=None, keep_dims=None, separator="", name=None,
                reduction_indices=None, keepdims=None):
    """Joins strings along dimensions; by default along all."""
    inputs = convert_to_tensor(inputs, name="inputs")
    axis = reduction_indices if axis is None else axis
    keep = bool(keep_dims if keepdims is None else keepdims)
    if axis is None:
        # The last dimension comes first, to keep the order of the elements.
        n = inputs.shape.ndims
        axis = math_ops.range(array_ops.rank(inputs) - 1, -1, -1) if (
            n is None) else list(range(n))[::-1]
    return _op("ReduceJoin")(inputs, axis, keep_dims=keep, separator=separator,
                             name=name)


def string_to_number(string_tensor=None, out_type=dtypes.float32, name=None,
                     input=None):
    """Parses strings as numbers."""
    return _op("StringToNumber")(
        input if string_tensor is None else string_tensor, out_type=out_type,
        name=name)


def string_to_hash_bucket(string_tensor=None, num_buckets=None, name=None,
                          input=None):
    """Hashes each string to a number below `num_buckets`."""
    return _op("StringToHashBucket")(
        input if string_tensor is None else string_tensor,
        num_buckets=num_buckets, name=name)


def string_to_hash_bucket_fast(input, num_buckets, name=None):
    """Hashes each string to a number below `num_buckets` with a fast hash."""
    return _op("StringToHashBucketFast")(input, num_buckets=num_buckets,
                                         name=name)


def string_to_hash_bucket_strong(input, num_buckets, key, name=None):
    """Hashes each string to a number below `num_buckets` with a keyed hash."""
    return _op("StringToHashBucketStrong")(input, num_buckets=num_buckets,
                                           key=list(key), name=name)


def string_format(template, inputs, placeholder="{}", summarize=3, name=None):
    """Replaces the placeholders in a template by the values of inputs."""
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    if template.count(placeholder) != len(inputs):
        raise ValueError(
            f"{template.count(placeholder)} placeholder(s) in template does "
            f"not match {len(inputs)} tensor(s) provided as input: "
            f"{template!r}")
    return _op("StringFormat")([convert_to_tensor(x) for x in inputs],
                               template=template, placeholder=placeholder,
                               summarize=summarize, name=name)


def _printed(x, tensors):
    """Returns the text of a structure with a hole for each of its tensors.

    Appends the tensors to a list.
    """
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {_printed(x[k], tensors)}"
                               for k in sorted(x)) + "}"
    if isinstance(x, (list, tuple)):
        inner = ", ".join(_printed(part, tensors) for part in x)
        if isinstance(x, list):
            return f"[{inner}]"
        return f"({inner}{',' if len(x) == 1 else ''})"
    if isinstance(x, SparseTensor):
        tensors += parts(x)
        return (f"'SparseTensor(indices={_HOLE}, values={_HOLE}, "
                f"shape={_HOLE})'")
    if isinstance(x, (str, bytes, int, float, type(None))):
        return repr(x)
    tensors.append(convert_to_tensor(x))
    return _HOLE


def tf_print(*inputs, **kwargs):
    """Returns an operation that prints values like Python's `print`.

    Keyword arguments: `output_stream` (default sys.stderr), `summarize`
    (default 3), `sep`, `end`, `name`.
    """
    import sys
    stream = kwargs.pop("output_stream", sys.stderr)
    summarize = kwargs.pop("summarize", 3)
    sep, end = kwargs.pop("sep", " "), kwargs.pop("end", "\n")
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: "
                         f"{', '.join(kwargs)}")
    where = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}.get(
        id(stream), stream)
    if not isinstance(where, str):
        raise ValueError(f"Unsupported output stream: {stream}")
    with graphs.name_scope(name, "print", None) as scope:
        tensors = []
        pieces = [x if isinstance(x, str) else _printed(x, tensors)
                  for x in inputs]
        if not tensors:
            text = convert_to_tensor(sep.join(pieces))
        elif pieces == [_HOLE] and tensors[0].dtype.base_dtype == (
                dtypes.string) and tensors[0].shape.ndims == 0:
            text = tensors[0]
        else:
            text = string_format(sep.join(pieces), tensors, _HOLE, summarize)
        return _op("PrintV2")(text, output_stream=where, end=end, name=scope)
