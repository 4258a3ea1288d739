"""The cases of record.py with queues, what is built like them, and readers."""

import gzip
import tempfile
import zlib

from recorder import TmpPath, case, np, tf


def all_of_a_queue(c, make, suffix, elements, types, rest=9):
    """Steps with each op on a queue of either spelling."""
    r = tf.raw_ops

    def op(name, **inputs):
        return getattr(r, name + suffix)(handle=queue, **inputs)

    queue = make(suffix)
    size, closed = op("QueueSize"), op("QueueIsClosed")
    put = op("QueueEnqueue", components=[e[0] for e in elements])
    put_many = op("QueueEnqueueMany", components=elements)
    take = op("QueueDequeue", component_types=types)
    many = op("QueueDequeueMany", n=3, component_types=types)
    rest = op("QueueDequeueUpTo", n=rest, component_types=types)
    c.step([put])
    c.step([put_many])
    c.step([size, closed])
    c.step([*take])
    c.step([*many])
    c.step([put_many])
    c.step([op("QueueClose", cancel_pending_enqueues=False)])
    c.step([put], error="CancelledError")
    c.step([*rest])
    c.step([size, closed])
    c.step([*rest], error="OutOfRangeError")
    c.step([op("QueueClose", cancel_pending_enqueues=True)])


@case("queue")
def queues(c):
    r = tf.raw_ops
    x = c.input("x", c.values(4, 2))
    words = c.input("words", np.array([b"d", b"", b"c", b"ab"]))
    order = c.input("order", np.array([3, -1, 2, 5], np.int64))
    for suffix in ("V2", ""):
        for name, priority, more in (
                ("FIFOQueue", [], {}), ("PaddingFIFOQueue", [], {}),
                ("RandomShuffleQueue", [], {"seed": 5, "seed2": 8,
                                            "min_after_dequeue": 1}),
                ("PriorityQueue", [order], {})):
            def make(suffix, name=name, more=more):
                return getattr(r, name + suffix)(
                    component_types=[tf.float32, tf.string],
                    shapes=[[2], []], capacity=12, **more)
            all_of_a_queue(c, make, suffix, priority + [x, words],
                           [p.dtype for p in priority] +
                           [tf.float32, tf.string],
                           # (TensorFlow's priority queue fails if there are
                           # fewer.)
                           rest=5 if priority else 9)


@case("queue padding")
def queue_padding(c):
    r = tf.raw_ops
    x = c.input("x", c.values(2, 3), [None, None])
    words = c.input("words", np.array([b"a", b"b"]), [None])
    q = r.PaddingFIFOQueueV2(component_types=[tf.float32, tf.string],
                             shapes=[[None, None], [None]])
    put = r.QueueEnqueueV2(handle=q, components=[x, words])
    many = r.QueueDequeueManyV2(handle=q, n=3,
                                component_types=[tf.float32, tf.string])
    for rows, columns in ((1, 4), (3, 0), (2, 2)):
        c.step([put], {x: c.values(rows, columns),
                       words: np.array([b"w"] * rows)})
    c.step([*many])


@case("barrier")
def barriers(c):
    r = tf.raw_ops
    b = r.Barrier(component_types=[tf.float32, tf.int64], shapes=[[2], []])
    sizes = [r.BarrierReadySize(handle=b), r.BarrierIncompleteSize(handle=b)]

    def insert(keys, component, values):
        return r.BarrierInsertMany(handle=b, keys=keys, values=values,
                                   component_index=component)

    def take(n, small=False):
        taken = r.BarrierTakeMany(handle=b, num_elements=n,
                                  component_types=[tf.float32, tf.int64],
                                  allow_small_batch=small)
        return [taken.indices, taken.keys, *taken.values]

    c.step([insert(["a"], 0, c.values(1, 2))])
    c.step([insert(["b", "c"], 0, c.values(2, 2))])
    c.step([insert(["d"], 1, np.array([4]))])
    c.step([insert(["c", "a"], 1, np.array([3, 1]))])
    c.step(sizes)
    c.step([insert(["a"], 1, np.array([7]))])
    c.step([insert(["a"], 1, np.array([7]))], error="InvalidArgumentError")
    c.step(take(2))
    c.step([insert(["b"], 1, np.array([2]))])
    c.step([r.BarrierClose(handle=b, cancel_pending_enqueues=False)])
    c.step([insert(["e"], 1, np.array([2]))], error="CancelledError")
    c.step([insert(["d"], 0, c.values(1, 2))])
    c.step(sizes)
    c.step(take(9), error="OutOfRangeError")
    c.step(take(9, small=True))
    c.step(take(1, small=True), error="OutOfRangeError")


@case("staging")
def staging_areas(c):
    r = tf.raw_ops
    x = c.input("x", c.values(2, 2))
    kinds = dict(dtypes=[tf.float32, tf.string])
    area = dict(shared_name="area", **kinds)
    put = r.Stage(values=[x, "first"], shared_name="area")
    c.step([put])
    c.step([r.Stage(values=[-x, "second"], shared_name="area")])
    c.step([r.StageSize(**area)])
    c.step([*r.StagePeek(index=1, **area)])
    c.step([*r.Unstage(**area)])
    c.step([r.StageClear(**area)])
    c.step([r.StageSize(**area)])
    for name in ("Map", "OrderedMap"):
        area = dict(shared_name=name, **kinds)

        def op(what, **inputs):
            return getattr(r, name + what)(**inputs, **area)

        sizes = [op("Size"), op("IncompleteSize")]
        c.step([op("Stage", key=np.int64(3), indices=[0, 1],
                   values=[x, "three"])])
        c.step([op("Stage", key=np.int64(7), indices=[1], values=["seven"])])
        c.step(sizes)
        c.step([op("Stage", key=np.int64(7), indices=[1], values=["again"])],
               error="InvalidArgumentError")
        c.step([op("Stage", key=np.int64(7), indices=[0], values=[x * 2.0])])
        c.step(sizes)
        c.step([*op("Peek", key=np.int64(7), indices=[0, 1])])
        c.step([*op("Unstage", key=np.int64(7), indices=[0, 1])])
        taken = op("UnstageNoKey", indices=[0, 1])
        c.step([taken.key, *taken.values])
        c.step([op("Stage", key=np.int64(3), indices=[0, 1],
                   values=[x, "three"])])
        c.step([op("Clear")])
        c.step(sizes)


@case("accumulator")
def gradient_accumulators(c):
    r = tf.raw_ops
    x = c.input("x", c.values(3))
    step = c.input("step", np.int64(0))
    for prefix in ("", "Resource"):
        for reduction in ("MEAN", "SUM"):
            a = getattr(r, prefix + "ConditionalAccumulator")(
                dtype=tf.float32, shape=[None], reduction_type=reduction,
                shared_name=prefix + reduction)

            def op(what, **inputs):
                return getattr(r, prefix + "Accumulator" + what)(handle=a,
                                                                 **inputs)

            add = op("ApplyGradient", local_step=step, gradient=x)
            count = op("NumAccumulated")
            take = op("TakeGradient", num_required=2, dtype=tf.float32)
            c.step([add])
            c.step([add], {x: c.values(3)})
            c.step([add], {x: c.values(3)})
            c.step([count])
            c.step([take])
            c.step([add])
            c.step([count])
            c.step([op("SetGlobalStep", new_global_step=np.int64(5))])
            c.step([add], {step: np.int64(4)})
            c.step([count])
            c.step([add], {step: np.int64(5)})
            c.step([count])
    for reduction in ("MEAN", "SUM"):
        a = r.SparseConditionalAccumulator(
            dtype=tf.float32, shape=[None, 2], reduction_type=reduction,
            shared_name="Sparse" + reduction)
        rows = tf.placeholder(tf.int64, [None], name="rows" + reduction)
        values = tf.placeholder(tf.float32, [None, None],
                                name="values" + reduction)
        add = r.SparseAccumulatorApplyGradient(
            handle=a, local_step=step, gradient_indices=rows,
            gradient_values=values, gradient_shape=np.array([9, 2]),
            has_known_shape=True)
        take = r.SparseAccumulatorTakeGradient(handle=a, num_required=3,
                                               dtype=tf.float32)
        for indices in ([0, 4], [1, 4, 8], [0, 8]):
            c.step([add], {rows: np.array(indices),
                           values: c.values(len(indices), 2)})
        c.step([add], {rows: np.array([1]), values: c.values(1, 3)},
               error="InvalidArgumentError")
        c.step(list(take))
        c.step([r.AccumulatorNumAccumulated(handle=a)])


def paths(*files):
    """The feeds of files that a case writes (Recorder.tmp)."""
    return {f: TmpPath(f.op.name) for f in files if isinstance(f, tf.Tensor)}


def all_of_a_reader(c, suffix, reader, files, reads, many=False):
    """Steps with a reader of either spelling: of files, or of strings."""
    r = tf.raw_ops

    def op(name, **inputs):
        return getattr(r, name + suffix)(reader_handle=reader, **inputs)

    queue = getattr(r, "FIFOQueue" + suffix)(component_types=[tf.string],
                                             shapes=[[]])
    for f in files:
        c.step([getattr(r, "QueueEnqueue" + suffix)(handle=queue,
                                                    components=[f])],
               paths(f))
    if many:
        got = op("ReaderReadUpTo", queue_handle=queue,
                 num_records=np.int64(many))
        key, value = got.keys, got.values
    else:
        key, value = op("ReaderRead", queue_handle=queue)
    # (Without the folder.)
    key = r.RegexReplace(input=key, pattern="^.*/", rewrite="")
    counts = [op("ReaderNumRecordsProduced"),
              op("ReaderNumWorkUnitsCompleted")]
    c.step(counts)
    for _ in range(reads):
        c.step([key, value])
        c.step(counts)
    c.step([getattr(r, "QueueClose" + suffix)(handle=queue)])
    c.step([key, value], error="OutOfRangeError")
    c.step(counts)
    c.step([op("ReaderReset")])
    c.step(counts)


def records_of(records, compression=""):
    """The bytes of a TFRecord file."""
    with tempfile.NamedTemporaryFile() as f:
        with tf.io.TFRecordWriter(f.name, compression) as w:
            for record in records:
                w.write(record)
        return f.read()


def allow_old_ops():
    """Makes the default graph one of an old producer, as stored graphs are."""
    old = tf.GraphDef()
    old.versions.producer = 25
    old.node.add(name="old", op="NoOp")
    tf.import_graph_def(old, name="")


@case("reader queue")
def readers(c):
    r = tf.raw_ops
    allow_old_ops()
    contents = {
        "text": b"one\r\ntwo\rx\n\n\rthree\nfour", "empty": b"",
        "line": b"only\n\r", "header": b"HHaabbccddFFF",
        "left": b"HHaabbccdFFF", "records": records_of([b"first", b"", b"x"]),
        "zlib": zlib.compress(b"HHaabbFFF"), "gzip": gzip.compress(b"HHaabbFFF", mtime=0),
        "records_zlib": records_of([b"first", b"last"], "ZLIB"),
        "records_gzip": records_of([b"first", b"last"], "GZIP"),
    }
    files = {name: c.tmp(name) for name in contents}
    for name, value in contents.items():
        c.step([r.WriteFile(filename=files[name], contents=value)],
               paths(files[name]))
    texts = [files[name] for name in ("text", "empty", "line")]
    for suffix in ("V2", ""):
        def reader(kind, **attrs):
            return getattr(r, kind + suffix)(**attrs)

        def fixed(**attrs):
            return reader("FixedLengthRecordReader", **attrs)

        ends = dict(header_bytes=2, footer_bytes=3)
        all_of_a_reader(c, suffix, reader("TextLineReader"), texts, 6)
        all_of_a_reader(c, suffix, reader("TextLineReader"), texts, 3, many=4)
        all_of_a_reader(c, suffix, reader("TextLineReader",
                                          skip_header_lines=2), texts, 3)
        all_of_a_reader(c, suffix, reader("WholeFileReader"), texts, 3)
        all_of_a_reader(c, suffix, reader("WholeFileReader"), texts, 3, many=2)
        all_of_a_reader(c, suffix, reader("IdentityReader"), ["a", "b"], 2)
        all_of_a_reader(c, suffix, reader("TFRecordReader"),
                        [files["records"]], 3)
        for compression in ("ZLIB", "GZIP"):
            all_of_a_reader(c, suffix, reader(
                "TFRecordReader", compression_type=compression),
                            [files["records_" + compression.lower()]], 1,
                            many=9)
        if not suffix:
            continue  # (TensorFlow's kernel fails without "encoding".)
        lefts = [files["header"], files["left"]]
        all_of_a_reader(c, suffix, fixed(record_bytes=2, **ends), lefts, 7)
        for hop in (1, 4, 7, 100):
            all_of_a_reader(c, suffix, fixed(record_bytes=3, hop_bytes=hop,
                                             **ends), lefts, 2, many=99)
    for encoding in ("ZLIB", "GZIP"):
        all_of_a_reader(c, "V2", r.FixedLengthRecordReaderV2(
            record_bytes=2, encoding=encoding, **ends),
                        [files[encoding.lower()]], 2)


@case("reader queue")
def reader_states(c):
    r = tf.raw_ops
    allow_old_ops()
    state = c.input("state", np.array(b"\x08\x01\x10\x02\x18\x07\"\x01z"))
    missing, bad = c.tmp("missing"), c.tmp("bad")
    corrupt = bytearray(records_of([b"first", b"second"]))
    corrupt[-5] ^= 1
    c.step([r.WriteFile(filename=bad, contents=bytes(corrupt))], paths(bad))
    for suffix in ("V2", ""):
        def op(name, **inputs):
            return getattr(r, name + suffix)(**inputs)

        def queue_of(*items):
            queue = op("FIFOQueue", component_types=[tf.string], shapes=[[]])
            for item in items:
                c.step([op("QueueEnqueue", handle=queue, components=[item])],
                       paths(item))
            return queue

        reader = op("IdentityReader")
        queue = queue_of("u", "vw", "x")
        save = op("ReaderSerializeState", reader_handle=reader)
        restore = op("ReaderRestoreState", reader_handle=reader, state=state)
        read = op("ReaderRead", reader_handle=reader, queue_handle=queue)
        counts = [op("ReaderNumRecordsProduced", reader_handle=reader),
                  op("ReaderNumWorkUnitsCompleted", reader_handle=reader)]
        c.step([save])
        c.step([*read])
        c.step([*read])
        c.step([save])
        c.step([restore])
        c.step([save, *counts])
        c.step([*read])
        c.step([save, *counts])
        for broken in (b"\xff", b"\x08\x02\x10\x01", b"\"\x05z",
                       b"\x08" + b"\xff" * 9 + b"\x01"):
            c.step([restore])
            c.step([restore], {state: np.array(broken)},
                   error="InvalidArgumentError")
            c.step([save, *counts])
        c.step([restore], {state: np.array(b"\x08\x01\x10\x01(\x05")})
        c.step([save])
        # A file that does not exist is passed over.
        lines = op("TextLineReader")
        read = op("ReaderRead", reader_handle=lines,
                  queue_handle=queue_of(missing, bad))
        c.step([*read], error="NotFoundError")
        records = op("TFRecordReader")
        read = op("ReaderReadUpTo", reader_handle=records,
                  queue_handle=queue_of(bad), num_records=np.int64(1))
        c.step([read.values])
        c.step([read.values], error="DataLossError")
        # A queue of something else.
        other = op("FIFOQueue", component_types=[tf.string, tf.string],
                   shapes=[[], []])
        c.step([op("QueueEnqueue", handle=other, components=["a", "b"])])
        c.step([op("ReaderRead", reader_handle=reader,
                   queue_handle=other).key], error="InvalidArgumentError")
