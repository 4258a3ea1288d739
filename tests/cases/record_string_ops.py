#!/usr/bin/env python3
"""Records TensorFlow's results for strings and encodings.

  record_string_ops.py > string_ops.txt     (needs TensorFlow; seeded)

src/ops/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import gzip
import zlib

import numpy as np

from op_cases import case, tf

R = np.random.RandomState(20181210)


def s(*v):
    """A vector of strings, or any shape from one list."""
    return np.array(v[0] if len(v) == 1 and isinstance(v[0], list) else v,
                    dtype=object)


def words(*shape):
    n = int(np.prod(shape))
    made = [bytes(R.choice(list(b"ab ,.1-\xc3\xa9"), R.randint(0, 9)))
            for _ in range(n)]
    return np.array(made, dtype=object).reshape(shape)


def one(v):
    return np.array(v, dtype=object)


def i32(*v):
    return np.array(v[0] if len(v) == 1 else v, np.int32)


def i64(*v):
    return np.array(v[0] if len(v) == 1 else v, np.int64)


# ---- Numbers
FRACTIONS = ["0x1p3", "1e400", "-1e400", "+1.5", "infinity", "Inf", "NaN",
             " 1 ", "1_000", "1.", ".5", "1e", "", "-", "-0", "1e-400", "1e-45",
             "0x10", "1d", "\t1\n", "1 2", "1e+5", "1E5", ".", "3.4028236e38",
             "0X1P-2", "infin", "-inf", "0.1", "123456789.123456789", "+-1",
             "--1", "0x", "0x-1", "16777217", "2.2250738585072011e-308"]
INTS = ["+5", " 5 ", "-5", "2147483648", "-2147483648", "4294967296", "5.0",
        "0x10", "", "-", "- 5", "5 6", "00000000000000000000000005", "-0",
        "9223372036854775808", "-9223372036854775808", "18446744073709551615",
        "18446744073709551616", "1e3"]
for t in (tf.float32, tf.float64):
    for v in FRACTIONS:
        case("StringToNumber", [("string_tensor", s(v))], out_type=t)
for t in (tf.int32, tf.int64, tf.uint32, tf.uint64):
    for v in INTS:
        case("StringToNumber", [("string_tensor", s(v))], out_type=t)
case("StringToNumber", [("string_tensor", s([["1", "2"], ["3", "4"]]))])
case("StringToNumber", [("string_tensor", np.zeros([0, 2], object))])

# ---- Parts
for text in (" a  b ", "", "a,b,,c", "  ", ",", ",,a", "a\tb\nc"):
    for sep in ("", ",", ",,", " "):
        for most in (-1, 0, 1, 2):
            case("StringSplitV2", [("input", s(text, "x,y")), ("sep", one(sep))],
                 maxsplit=most)
        for skip in (True, False):
            case("StringSplit", [("input", s(text, "x,y")),
                                 ("delimiter", one(sep))], skip_empty=skip)
case("StringSplit", [("input", s("a b,c")), ("delimiter", one(" ,"))])
case("StringSplitV2", [("input", one("a b")), ("sep", one(""))])
case("StringSplitV2", [("input", s("a b")), ("sep", s("a"))])
case("StringSplitV2", [("input", np.zeros([0], object)), ("sep", one(""))])
case("StringSplit", [("input", s("a b")), ("delimiter", s("a"))])
for unit in ("BYTE", "UTF8_CHAR"):
    for p, n in ((0, -1), (-2, 1), (3, 1), (4, 1), (5, 1), (-3, 5), (-4, 1),
                 (-5, 1), (1, -1), (0, 0), (1, 2)):
        case("Substr", [("input", s("h\u00e9y")), ("pos", i32([p])),
                        ("len", i32([n]))], unit=unit)
    case("StringLength", [("input", s(b"\xff\x80\x80a\x80", "h\u00e9y", ""))],
         unit=unit)
    case("Substr", [("input", s(b"\xff\x80\x80a")), ("pos", i64([1])),
                    ("len", i64([1]))], unit=unit)
    case("Substr", [("input", s("")), ("pos", i64([0])), ("len", i64([1]))],
         unit=unit)
for text, p in ((s("hey", "abc"), [[1], [2]]), (one("hey"), [[1], [2]]),
                (s([["hey"]]), [1, 2]), (s([[["hey"]]]), [[[1]]]),
                (s("hey", "you"), 1), (s("hey", "a"), [1, 1, 1])):
    case("Substr", [("input", text), ("pos", i32(p)),
                    ("len", np.ones_like(i32(p)))])
case("Substr", [("input", s("hey")), ("pos", i32(0)), ("len", i32([1]))])
for op in ("StringLower", "StringUpper"):
    for encoding in ("", "utf-8", "utf8"):
        case(op, [("input", s("H\u00c9y \u0130 \u03a3\u0391\u03a3 \u00df \ufb01",
                              "\u1e9e \u01c4", b"A\xffb", "", "\U00010400 i"))],
             encoding=encoding)
case("StringStrip", [("input", s(" \t\v\f\r\na b ", "", "  "))])

# ---- Expressions
for pattern, rewrite in (("(b)", "[\\1\\1]"), ("(b)", "\\2"), ("(b", "x"),
                         ("", "-"), ("x*", "-"), (".", "<\\0>"), ("^a|c$", ""),
                         ("b", "\\x"), ("[[:alpha:]]+", "w"), ("\\bb", "!"),
                         ("(?i)B", "\\\\")):
    text = s([["abc", ""], ["a\u00e9b c", b"a\xffb"]])
    for many in (True, False):
        case("RegexReplace", [("input", text), ("pattern", one(pattern)),
                              ("rewrite", one(rewrite))], replace_global=many)
        case("StaticRegexReplace", [("input", text)], pattern=pattern,
             rewrite=rewrite, replace_global=many)
for pattern in ("a.c", ".*", "", "a(", "a\u00e9b c", "a.b"):
    case("RegexFullMatch", [("input", text), ("pattern", one(pattern))])
    case("StaticRegexFullMatch", [("input", text)], pattern=pattern)
case("RegexFullMatch", [("input", text), ("pattern", s("a"))])
case("RegexReplace", [("input", text), ("pattern", s("a")),
                      ("rewrite", one("a"))])

# ---- Joins
square = s([["a", "b"], ["c", "d"]])
for axes in ([0], [1], [0, 1], [1, 0], [], [-1], [2], [-3], [0, 0], 0, [[0]]):
    for keep in (False, True):
        case("ReduceJoin", [("inputs", square), ("reduction_indices", i32(axes))],
             keep_dims=keep, separator="-")
for axes in ([2, 0], [0, 2], [1], [2, 1, 0], [-1, -3]):
    case("ReduceJoin", [("inputs", words(2, 3, 2)),
                        ("reduction_indices", i32(axes))])
case("ReduceJoin", [("inputs", np.zeros([0, 2], object)),
                    ("reduction_indices", i32([0]))])
case("ReduceJoin", [("inputs", one("a")), ("reduction_indices", i32([0]))])
for ids, n in (([1, 0, 1], 2), ([1, 0, 2], 2), ([-1, 0, 1], 2), ([1, 0], 2),
               ([[1], [0], [1]], 2), (0, 2), ([0, 0, 0], 0), ([0, 0, 0], -1),
               ([0, 0, 0], [2])):
    case("UnsortedSegmentJoin", [("inputs", s("a", "b", "c")),
                                 ("segment_ids", i32(ids)),
                                 ("num_segments", i32(n))], separator=":")
for ids in ([0, 0], [[0, 1], [1, 1]], [2, 1]):
    case("UnsortedSegmentJoin", [("inputs", square), ("segment_ids", i64(ids)),
                                 ("num_segments", i64(3))])
for splits in ([0, 4, 6], [0, 4, 4, 6], [0, 0, 6], [0, 4, 5], [1, 4, 6],
               [0, 7, 6], [0, 4, 3, 6], [0, 5, 6]):
    for widths, pad, keep in (([2], 0, False), ([3, 1], -1, False), ([3], 1, False),
                              ([5], 0, True), ([5, 2], 0, True), ([], 0, True),
                              ([], -1, True), ([0], 0, False), ([2], 5, False),
                              ([4], -1, True)):
        case("StringNGrams", [("data", s("a", "bb", "", "d", "e", "f")),
                              ("data_splits", i64(splits))],
             separator="|", ngram_widths=widths, left_pad="L", right_pad="R",
             pad_width=pad, preserve_short_sequences=keep)
for data, splits in (([], [0, 0]), ([], [0]), ([], [])):
    case("StringNGrams", [("data", np.array(data, object)),
                          ("data_splits", i32(splits))],
         separator="", ngram_widths=[2], left_pad="L", right_pad="R",
         pad_width=1, preserve_short_sequences=False)

# ---- Text
for value in (np.arange(1, 10), np.array([[1.5, 2.25], [1e10, 0.1]]),
              s([[["a", "b"], ["c", "d\n\"x"]]]), np.array([True, False, True]),
              np.float32(1), np.zeros((0, 2), np.float32),
              np.zeros((2, 0), np.float32), np.arange(64).reshape(8, 8),
              np.array([1e-5, 123456.7, 1234567.8, np.nan, np.inf, -0.0, np.pi],
                       np.float32), np.array([1 / 3, 1e100, 1e15, 1e16]),
              np.array([1 + 2j, 3, 4], np.complex64), np.float16(0.1),
              np.array([1, 255], np.uint8), np.array([-1], np.int8), one("s"),
              np.arange(27).reshape(3, 3, 3), np.array([2**64 - 1], np.uint64)):
    for n in (3, 1, -1, 0):
        a = np.asarray(value)
        case("StringFormat", [("inputs", [a])], template="<%s>", summarize=n,
             T=[tf.as_dtype(a.dtype) if a.dtype != object else tf.string])
for text, n in (("{} and {}", 2), ("{} and", 2), ("{} and {}", 1), ("x", 0)):
    case("StringFormat", [("inputs", [i32([1, 2])] * n)], template=text,
         placeholder="{}", T=(tf.int32,) * n)

# ---- Hashes
long = s(*[bytes(R.randint(0, 256, n).astype(np.uint8))
           for n in list(range(34)) + [63, 64, 65, 127, 128, 200]])
for buckets in (1, 7, 1 << 62):
    case("StringToHashBucket", [("string_tensor", long)], num_buckets=buckets)
    case("StringToHashBucketFast", [("input", long)], num_buckets=buckets)
    case("StringToHashBucketStrong", [("input", long)], num_buckets=buckets,
         key=[123, -456])
case("StringToHashBucketStrong", [("input", long)], num_buckets=3, key=[1])
for data in (s("ab", "c"), square, i32([[1, 2], [3, 4]]), i32(1),
             np.zeros((0, 2), np.int32), np.array([True, False]),
             R.randn(3, 2, 2)):
    case("Fingerprint", [("data", data), ("method", one("farmhash64"))])
case("Fingerprint", [("data", s("a")), ("method", one("x"))])
case("Fingerprint", [("data", s("a")), ("method", s("farmhash64"))])

# ---- Bytes
for text in (s("ab", "cd"), s("ab", "cde"), s("abc"), np.zeros([0], object),
             s(""), one("abcd"), s("", "ab"), s([["ab"], ["cd"]])):
    for little in (True, False):
        case("DecodeRaw", [("bytes", text)], out_type=tf.int16,
             little_endian=little)
        for n in (2, 4, 3, 0, -2):
            case("DecodePaddedRaw", [("input_bytes", text),
                                     ("fixed_length", i32(n))],
                 out_type=tf.int16, little_endian=little)
for t in (tf.float16, tf.float32, tf.float64, tf.int32, tf.uint16, tf.uint8,
          tf.int8, tf.int64, tf.complex64, tf.complex128, tf.bfloat16):
    for little in (True, False):
        text = s(bytes(R.randint(0, 60, 16).astype(np.uint8)))
        case("DecodeRaw", [("bytes", text)], out_type=t, little_endian=little)
case("DecodeRaw", [("bytes", s(b"\0\1\2\0"))], out_type=tf.bool)
for text in ("YQ", "YQ==", "YQ=", "YWI", "YWI=", "YWJj", "Y", "-_-_", "+/+/",
             "Y Q", "YQ\n", "YR", "YQ=a", "====", "", "=", "YWJjZ", "YWJjZA",
             "YWJjZB==", "Y*", "YWJ=YWJj", "Y...", "YQ..", "="):
    case("DecodeBase64", [("input", s(text))])
for pad in (False, True):
    case("EncodeBase64", [("input", s("", "a", "ab", "abc", b"\xff\xfe\xfb"))],
         pad=pad)
z, g = zlib.compress(b"hello" * 9), gzip.compress(b"hello" * 9, mtime=0)
for kind, text in (("ZLIB", z), ("GZIP", g), ("", z), ("ZLIB", b"abc"),
                   ("ZLIB", z[:-3]), ("ZLIB", z + b"junk"), ("GZIP", g + g),
                   ("GZIP", z), ("ZLIB", g), ("ZLIB", b""), ("GZIP", b""),
                   ("BZ", b""), ("ZLIB", z + z), ("GZIP", g[:-2]),
                   ("ZLIB", z[:4] + b"xxxxx"), ("GZIP", g[:5])):
    case("DecodeCompressed", [("bytes", s(text))], compression_type=kind)


# ---- Tables
def csv(records, defaults, **attrs):
    kinds = {np.dtype(object): tf.string}
    case("DecodeCSV", [("records", s(*records)), ("record_defaults", defaults)],
         OUT_TYPE=[kinds.get(d.dtype) or tf.as_dtype(d.dtype)
                   for d in defaults], **attrs)


none = np.zeros([0], np.float32)
csv(["1,2.5,x", "3,4,\"a,\"\"b\"\"\""], [i32([0]), none, s("d")])
csv(["1,,x", ",4,"], [i32([7]), none + 0, s("d")])
csv(["1,5,", ",4,"], [i32([7]), none + 0, s("d")])
csv(["1,2"], [i32([7])])
csv(["1", "2,3"], [i32([7])])
csv(["a"], [i32([7])])
csv(["NA;2"], [i32([7]), i64([1])], field_delim=";", na_value="NA")
csv(["1,2,3,4", "5,6,7,8"], [i32([7]), i64([1])], select_cols=[1, 3])
csv(["1,2,3,", "5,6,7,8"], [i32([7]), i64([1])], select_cols=[1, 3])
csv(["1,2,3"], [i32([7]), i64([1])], select_cols=[3, 1])
csv(["1,2,3"], [i32([7]), i64([1])], select_cols=[1])
csv(["1,2,3"], [i32([7])], select_cols=[-1])
csv(["1,2,3"], [i32([7])], select_cols=[5])
csv(["\"a,b"], [s("d")])
csv(["\"a\"b"], [s("d")])
csv(["a\"b"], [s("d")])
csv(["a\"b"], [s("d")], use_quote_delim=False)
csv(["\"a\"\n"], [s("d")])
csv(["\r\na"], [s("d")])
csv(["a\n"], [s("d")])
csv([""], [s("d")])
csv([","], [s("d"), s("e")])
csv(["\"\",\"\"\"\""], [s("d"), s("e")])
csv(["1,2"], [i32([1, 2]), i32([1])])
csv(["1"], [i32([[1]])])
csv(["1"], [i32(3)])
csv(["1"], [i32([1])], field_delim=",,")
csv(["2147483648"], [i32([1])])
csv([" 1 "], [np.array([1.5])])

# ---- Messages
for value in (i32([[1, 2], [3, 4]]), np.float32(1.5), s("a", "bc"),
              np.array([True, False]), np.array([1, 2], np.float16),
              np.zeros([0, 3]), np.array([1 + 2j]), np.array([1, 1], np.uint8),
              i64(7), one("x")):
    case("SerializeTensor", [("tensor", value)])
    t = tf.io.serialize_tensor(value).numpy()
    case("ParseTensor", [("serialized", one(t))],
         out_type=tf.convert_to_tensor(value).dtype)
    case("ParseTensor", [("serialized", one(t))], out_type=tf.qint8)
case("ParseTensor", [("serialized", s(t))], out_type=tf.string)
case("ParseTensor", [("serialized", one(b"\xff\xff"))], out_type=tf.int32)

# ---- Names of files
for shard, shards in ((0, 1), (3, 10), (12345, 123456), (-3, -1)):
    case("ShardedFilename", [("basename", one("m/x")), ("shard", i32(shard)),
                             ("num_shards", i32(shards))])
    case("ShardedFilespec", [("basename", one("m/x")),
                             ("num_shards", i32(shards))])
case("ShardedFilespec", [("basename", s("m")), ("num_shards", i32(1))])
