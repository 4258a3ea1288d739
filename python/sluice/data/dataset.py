"""Datasets: descriptions of input pipelines.

    images = (tf.data.TFRecordDataset(files)
              .map(decode, num_parallel_calls=8)
              .shuffle(10000).repeat().batch(64).prefetch(2))
    batch = images.make_one_shot_iterator().get_next()

A dataset is compiled to loops and queues of the graph when an iterator is made
(docs/design/034-pipelines.md). Then its functions are called, once or, where a
dataset is part of several others, once for each of them.
"""

import functools

from sluice import _core
from sluice.data import batching, elements, generators, iterator, lowering
from sluice.data.elements import Elements
from sluice.data.lowering import (
    Build, Shapes, call, mapped, missing, number, through_queue)
from sluice.data.options import Options
from sluice.framework import (
    dtypes, errors, graph as graphs, tensor_shape)
from sluice.framework.conversion import (
    SparseTensor, constant_value, convert_to_tensor)
from sluice.framework.elements import Tensor
from sluice.ops import array_ops, control_flow, math_ops, random_ops

AUTOTUNE = lowering.AUTOTUNE
_PARALLEL = 16  # How many elements a map with AUTOTUNE processes at once.

_op = functools.lru_cache(None)(_core.op)


class Dataset:
    """A sequence of elements: nested tuples and dicts of tensors.

    A function of an element gets a tuple's parts as arguments, and a dict or a
    single tensor as the one argument. Arguments that determine the pipeline
    (counts, sizes) are numbers, or tensors that are constants.

    The methods raise TypeError or ValueError for wrong arguments. Errors in a
    function are raised when an iterator is made. Errors of a pipeline that
    runs are raised by the steps that take its elements.
    """

    def _lower(self, build):
        """Returns this as a _core.Dataset, and its Elements."""
        raise NotImplementedError(f"{type(self).__name__}._lower")

    # ---- Sources.

    @staticmethod
    def range(*args):
        """Returns a dataset of int64 scalars: range(limit), range(start,
        limit) or range(start, limit, step)."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Dataset.range: expected 1 to 3 arguments, got "
                             f"{len(args)}")
        return _Range(*(convert_to_tensor(a, dtypes.int64) for a in args))

    @staticmethod
    def from_tensors(tensors):
        """Returns a dataset whose one element is a structure of tensors."""
        return _FromTensors(elements.convert(tensors))

    @staticmethod
    def from_tensor_slices(tensors):
        """Returns a dataset of the rows of a structure of tensors.

        Raises ValueError unless all tensors have the same first dimension.
        """
        tensors = elements.convert(tensors)
        leaves = elements.flatten(tensors)
        if not leaves:
            raise ValueError("from_tensor_slices: expected a tensor, got none")
        rows = tensor_shape.Dimension(None)
        for leaf in leaves:
            if isinstance(leaf, SparseTensor):
                raise missing("from_tensor_slices of a sparse tensor",
                              "map sparse tensors out of dense ones")
            if leaf.shape.ndims == 0:
                raise ValueError(f"from_tensor_slices: expected tensors of at "
                                 f"least one dimension, got {leaf!r}")
            if leaf.shape.ndims is not None:
                rows = rows.merge_with(leaf.shape[0])
        return _Slices(tensors)

    @staticmethod
    def from_queue(queue):
        """Returns a dataset of what others enqueue, until the queue is closed.

        tf.data has no such method. The pipeline takes elements ahead of the
        steps that need them.

        Args:
          queue: a queue, such as a FIFOQueue. Its elements are tensors, tuples
            of its components, or with names dicts.
        """
        ref = getattr(queue, "queue_ref", None)
        if not isinstance(ref, _core.Tensor) or ref.dtype != dtypes.resource:
            raise TypeError(f"from_queue: expected a queue, got {queue!r}")
        return _FromQueue(queue)

    @staticmethod
    def from_generator(generator, output_types, output_shapes=None, args=None):
        """Returns a dataset of what a Python generator yields.

        A new generator is made whenever the dataset starts or is repeated. It
        runs on a thread of the pipeline, ahead of the steps that take its
        elements.

        Args:
          generator: a function that returns an iterable of elements.
          output_types: a structure of dtypes.
          output_shapes: a structure of shapes; None: unknown ones.
          args: a tuple of tensors, whose values `generator` gets as arguments.

        An element of another structure, type or shape is an
        InvalidArgumentError, an exception in the generator that which
        `py_func` makes of it.
        """
        return _Lowered(generators.Source(generator, output_types,
                                          output_shapes, args).lower)

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None):
        """Returns a dataset of the names of matching files: string scalars.

        They are looked up when the dataset starts; if there are none, that is
        an InvalidArgumentError.

        Args:
          file_pattern: a pattern, or a vector of patterns.
          shuffle: whether in random order (the default), or sorted.
          seed: makes the order the same in each program.
        """
        pattern = convert_to_tensor(file_pattern, dtypes.string)

        def files(pattern):
            names = _op("MatchingFiles")(pattern)
            found = control_flow.Assert(
                array_ops.size(names) > 0,
                ["list_files: No files matched pattern: ", pattern])
            with graphs.control_dependencies([found]):
                names = array_ops.identity(names)
            if shuffle or shuffle is None:
                names = random_ops.random_shuffle(names, seed=seed)
            return Dataset.from_tensor_slices(names)

        # (Inside a function, so that each repetition looks again.)
        return _FlatMap(_FromTensors(pattern), files)

    @staticmethod
    def zip(datasets):
        """Returns a dataset of structures of elements, one of each dataset.

        It has as many elements as the shortest of them.

        Args:
          datasets: a nested structure (tuples, dicts) of datasets.
        """
        for dataset in elements.flatten(datasets):
            if not isinstance(dataset, Dataset):
                raise TypeError(f"zip: expected a nested structure (tuples, "
                                f"dicts) of datasets, got {dataset!r}")
        return _Zip(datasets)

    # ---- Elements.

    def map(self, map_func, num_parallel_calls=None, deterministic=None):
        """Returns a dataset of what a function makes of each element.

        Args:
          map_func: a function of an element that returns a structure of what
            can be converted to tensors.
          num_parallel_calls: how many elements may be in the function at once;
            AUTOTUNE: the library's choice. They stay in order. None: one at a
            time, if no other function between the same two queues (of shuffle,
            batch, prefetch) has more.
          deterministic: ignored: the order is always that of the elements.
        """
        if not callable(map_func):
            raise TypeError(f"map: expected a function, got {map_func!r}")
        parallel = 1 if num_parallel_calls is None else number(
            num_parallel_calls, "num_parallel_calls")
        if parallel == AUTOTUNE:
            parallel = _PARALLEL
        if parallel < 1:
            raise ValueError(f"num_parallel_calls: expected at least 1, got "
                             f"{num_parallel_calls}")
        return _Map(self, functools.partial(call, map_func), parallel)

    map_with_legacy_function = map

    def filter(self, predicate):
        """Returns a dataset of the elements for which a predicate is true.

        Args:
          predicate: a function of an element that returns a boolean scalar.
        """
        return _Filter(self, "filter", predicate)

    filter_with_legacy_function = filter

    def flat_map(self, map_func):
        """Returns the elements of the datasets that a function returns.

        These datasets cannot have stages with queues of their own: shuffle,
        batch and zip raise InvalidArgumentError when the iterator is made.

        Args:
          map_func: a function of an element that returns a Dataset.
        """
        return _FlatMap(self, functools.partial(call, map_func))

    def interleave(self, map_func, cycle_length=AUTOTUNE, block_length=1,
                   num_parallel_calls=None, deterministic=None):
        """Returns the elements of several datasets at a time, mixed.

        Unlike TensorFlow's, the order is that in which elements are ready, so
        it varies, unless `cycle_length` is 1. The elements of each dataset
        keep their order. The datasets are as those of `flat_map`.

        Args:
          map_func: a function of an element that returns a Dataset.
          cycle_length: how many of these datasets are read at a time;
            AUTOTUNE: 4.
          block_length: ignored, but must be positive.
          num_parallel_calls: ignored: each dataset of the cycle is read
            concurrently.
          deterministic: ignored.
        """
        cycle = number(cycle_length, "cycle_length")
        if cycle == AUTOTUNE:
            cycle = 4
        if cycle < 1 or number(block_length, "block_length") < 1:
            raise ValueError(f"interleave: expected positive lengths, got "
                             f"cycle_length {cycle_length}, block_length "
                             f"{block_length}")
        return _FlatMap(self, functools.partial(call, map_func), cycle)

    def enumerate(self, start=0):
        """Returns a dataset of pairs: an int64 number, and the element."""
        start = convert_to_tensor(start, dtypes.int64)
        pairs = _Enumerate(self)
        if constant_value(start) == 0:
            return pairs
        return _WithTensors(pairs, [start], lambda first, pair: (
            pair[0] + first, pair[1]))

    def shard(self, num_shards, index):
        """Returns every `num_shards`-th element, beginning with `index`."""
        n, i = (convert_to_tensor(v, dtypes.int64) for v in (num_shards, index))
        known = [constant_value(v) for v in (n, i)]
        if None not in known and not 0 <= known[1] < known[0]:
            raise errors.InvalidArgumentError(
                None, None, f"shard: expected 0 <= index < num_shards, got "
                f"index {known[1]} of {known[0]}")
        mine = _WithTensors(_Enumerate(self), [n, i],
                            lambda n, i, pair: (
                                math_ops.equal(pair[0] % n, i), pair[1]))
        return _Map(_Filter(mine, "shard", lambda wanted, _: wanted),
                    lambda pair: pair[1])

    def unbatch(self):
        """Returns a dataset of the rows of each element."""
        return _FlatMap(self, Dataset.from_tensor_slices)

    # ---- Sequences.

    def repeat(self, count=None):
        """Returns the dataset `count` times; None or -1: without end."""
        return _Same(self, "repeat",
                     -1 if count is None else number(count, "count"))

    def take(self, count):
        """Returns the first `count` elements; -1: all."""
        count = number(count, "count")
        return self if count < 0 else _Same(self, "take", count)

    def skip(self, count):
        """Returns all but the first `count` elements; -1: none."""
        count = number(count, "count")
        return _Same(self, "take", 0) if count < 0 else _Same(self, "skip",
                                                              count)

    def concatenate(self, dataset):
        """Returns the elements of this dataset, then those of another.

        They must have the same structure and types, or making the iterator
        raises an error. Where static shapes differ, they are unknown.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate: expected a dataset, got {dataset!r}")
        return _Concatenate(self, dataset)

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=None):
        """Draws each element from the next `buffer_size` ones.

        The order for a seed is not TensorFlow's. Without any seed, there may
        be an eighth of `buffer_size` and 16 elements more to draw from.

        Args:
          buffer_size: at least 1.
          seed: together with the graph's seed determines the order.
          reshuffle_each_iteration: None or True; False raises
            UnimplementedError, since each repetition has an order of its own.
        """
        if reshuffle_each_iteration is not None and (
                not reshuffle_each_iteration):
            raise missing("shuffle: reshuffle_each_iteration=False")
        size = number(buffer_size, "buffer_size")
        if size < 1:
            raise errors.InvalidArgumentError(
                None, None, f"buffer_size must be greater than zero, got "
                f"{size}")
        return self if size == 1 else _Same(self, "shuffle", size, _seed(seed))

    def batch(self, batch_size, drop_remainder=False):
        """Stacks elements of equal shapes along a new first dimension.

        Args:
          batch_size: how many make a batch.
          drop_remainder: whether to drop the elements that are left at the
            end. Batches then have a static size.
        """
        size = _batch_size(batch_size)
        return _Lowered(lambda build: batching.batch(
            *self._lower(build), size, bool(drop_remainder)))

    def padded_batch(self, batch_size, padded_shapes=None, padding_values=None,
                     drop_remainder=False):
        """Stacks elements of different shapes, padded at their ends.

        Args:
          batch_size: how many make a batch.
          padded_shapes: a structure of shapes. An unknown size (None or -1) is
            that of the largest of the batch. None: all are unknown.
          padding_values: a structure of scalars, of which None is 0 or "".
          drop_remainder: as for `batch`.

        An element larger than its padded shape is an InvalidArgumentError.
        """
        size = _batch_size(batch_size)
        padding = batching.Padding(padded_shapes, padding_values)
        return _Lowered(lambda build: padding.around(
            *self._lower(build), size if drop_remainder else None,
            lambda pipeline: pipeline.batch(size, bool(drop_remainder), True)))

    def prefetch(self, buffer_size):
        """Keeps up to `buffer_size` elements ready.

        What comes before and what comes after runs concurrently. 0 and
        AUTOTUNE: 2. Ignored in functions of `flat_map`.
        """
        size = number(buffer_size, "buffer_size")
        return _Prefetch(self, size if size > 0 else 2)

    # ---- The whole.

    def apply(self, transformation_func):
        """Returns transformation_func(self), a dataset."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(f"`transformation_func` must return a Dataset, got "
                            f"{made!r}")
        return made

    def with_options(self, options):
        """Returns this dataset. The options are ignored."""
        if not isinstance(options, Options):
            raise TypeError(f"with_options: expected tf.data.Options, got "
                            f"{options!r}")
        return self

    def options(self):
        """Returns the default options."""
        return Options()

    def cache(self, filename=""):
        """Raises UnimplementedError: elements are not kept between epochs."""
        raise missing("Dataset.cache")

    def reduce(self, initial_state, reduce_func):
        """Raises UnimplementedError: `scan` gives the intermediate states."""
        raise missing("Dataset.reduce", "take what tf.data.experimental.scan "
                      "gives for the last element")

    def window(self, size, shift=None, stride=1, drop_remainder=False):
        """Raises UnimplementedError: there are no datasets of datasets."""
        raise missing("Dataset.window", "use batch, if windows do not overlap, "
                      "or tf.data.experimental.scan")

    def make_one_shot_iterator(self):
        """Returns an Iterator that starts by itself in each session."""
        return iterator.Iterator(self, one_shot=True)

    def make_initializable_iterator(self, shared_name=None, saved=False):
        """Returns an Iterator that starts when its `initializer` is run.

        Args:
          shared_name: ignored.
          saved: whether savers save its position (of SAVEABLE_OBJECTS). Its
            initializer sets it to the beginning; once a saver has restored it,
            the pipeline starts with exactly the elements that followed, whether
            or not the initializer was run before. What was taken is made again
            and dropped, except for whole epochs of a `repeat` that only `map`,
            `batch` and `prefetch` follow. `shuffle` needs a seed, and functions
            must not draw random numbers from a state (tf.random.stateless_*
            do not); an iterator of another dataset is an error.
        """
        return iterator.Iterator(self, one_shot=False, saved=saved)

    _make_one_shot_iterator = make_one_shot_iterator
    _make_initializable_iterator = make_initializable_iterator

    def __iter__(self):
        raise RuntimeError("__iter__() is only supported inside of tf.function "
                           "or when eager execution is enabled; use "
                           "make_one_shot_iterator().get_next().")

    @property
    def element_spec(self):
        """A structure of the TensorSpecs of an element.

        The pipeline is built in a graph of its own, for which its functions
        are called. Raises ValueError if a function refers to tensors of
        another graph: then only an iterator knows the types.
        """
        if not hasattr(self, "_spec"):
            self._spec = _spec_of(self)
        return self._spec

    @property
    def output_types(self):
        """The structure of the dtypes; see `element_spec`."""
        return elements.map_structure(lambda s: s.dtype, self.element_spec)

    @property
    def output_shapes(self):
        """The structure of the static shapes; see `element_spec`."""
        return elements.map_structure(lambda s: s.shape, self.element_spec)

    @property
    def output_classes(self):
        """The structure of Tensor and SparseTensor; see `element_spec`."""
        return elements.map_structure(lambda s: s.value_type,
                                      self.element_spec)

    def __repr__(self):
        return f"<{type(self).__name__.lstrip('_')} dataset>"


def _seed(seed):
    """Returns the library's seed for TensorFlow's; 0: a random one."""
    of_graph, of_op = graphs.get_seed(seed)
    if not of_graph and not of_op:
        return 0
    mixed = (of_graph or 0) * 0x9e3779b97f4a7c15 + (of_op or 0)
    return mixed % (2**63 - 1) + 1


def _batch_size(batch_size):
    size = number(batch_size, "batch_size")
    if size < 1:
        raise errors.InvalidArgumentError(
            None, None, f"Batch size must be greater than zero, got {size}")
    return size


def _spec_of(dataset):
    scratch = graphs.Graph()
    try:
        with scratch.as_default():
            pipeline, like = dataset._lower(Build(scratch))
            shapes = Shapes()
            tensors = pipeline.map(shapes.seen, 1).make_iterator(
                "spec", False).next()
            return elements.spec_of(like.pack(shapes.restored(tensors)))
    except ValueError as e:
        if "graph" not in str(e):
            raise
        raise ValueError(
            "the types of a dataset: expected functions that use no tensors "
            "from outside; hint: ask the iterator for them, which knows them "
            f"in any case ({e})") from e


class _Lowered(Dataset):
    """A dataset that is what a function does for a Build."""

    def __init__(self, lower):
        self._lower = lower


# ---- Sources -----------------------------------------------------------------


class _Range(Dataset):

    def __init__(self, start, limit=None, step=None):
        self._start, self._limit, self._step = (
            (None, start, None) if limit is None else (start, limit, step))
        if step is not None and constant_value(step) == 0:
            raise errors.InvalidArgumentError(
                None, None, "step must be a non-zero integer.")

    def _lower(self, build):
        limit, like = build.source(self._limit), Elements(Tensor)
        if self._start is None:
            return _core.Dataset.range(math_ops.maximum(
                limit, convert_to_tensor(0, dtypes.int64))), like
        start = build.source(self._start)
        step = (convert_to_tensor(1, dtypes.int64) if self._step is None
                else build.source(self._step))
        count = -((start - limit) // step)
        count = math_ops.maximum(count, convert_to_tensor(0, dtypes.int64))
        return mapped(_core.Dataset.range(count), like,
                      lambda i: start + i * step)


class _FromTensors(Dataset):

    def __init__(self, tensors):
        self._tensors = tensors

    def _lower(self, build):
        like = Elements()
        tensors = [build.source(t) for t in like.unpack(self._tensors)]
        one = _core.Dataset.range(convert_to_tensor(1, dtypes.int64))
        return one.map(lambda _: [array_ops.identity(t) for t in tensors],
                       1), like


class _Slices(Dataset):

    def __init__(self, tensors):
        self._tensors = tensors

    def _lower(self, build):
        like = Elements()
        return _core.Dataset.rows([
            build.source(t) for t in like.unpack(self._tensors)]), like


class _FromQueue(Dataset):

    def __init__(self, queue):
        self._queue = queue

    def _lower(self, build):
        queue, like = self._queue, Elements()

        def structured(tensors):
            if queue.names:
                return like.unpack(dict(zip(queue.names, tensors)))
            return like.unpack(
                tuple(tensors) if len(tensors) > 1 else tensors[0])

        pipeline = _core.Dataset.from_queue(
            build.source(queue.queue_ref),
            [(t.base_dtype, s) for t, s in zip(queue.dtypes, queue.shapes)])
        return pipeline.map(structured, 1), like


class _Zip(Dataset):

    def __init__(self, datasets):
        self._datasets = datasets

    def _lower(self, build):
        lowered = [d._lower(build) for d in elements.flatten(self._datasets)]
        if not lowered:
            raise ValueError("zip: expected a dataset, got none")
        # (The library reads the second of two datasets from a queue.)
        pipeline = lowered[0][0]
        for other, _ in lowered[1:]:
            pipeline = _zipped(pipeline, other)
        return pipeline, Elements(lambda: elements.pack(
            self._datasets, [like.structure for _, like in lowered]))


def _zipped(first, second):
    counts, shapes = [0], Shapes()

    def counted(tensors):
        counts[0] = len(tensors)
        return tensors

    def restored(tensors):
        shapes.restored(tensors[counts[0]:])
        return tensors

    return _core.Dataset.zip(first.map(counted, 1),
                             second.map(shapes.seen, 1)).map(restored, 1)


# ---- Transformations ---------------------------------------------------------


class _Map(Dataset):

    def __init__(self, upstream, fn, parallel=1):
        self._upstream, self._fn, self._parallel = upstream, fn, parallel

    def _lower(self, build):
        return mapped(*self._upstream._lower(build), self._fn, self._parallel)


class _WithTensors(Dataset):
    """fn(*tensors, element) of each element, with tensors from outside."""

    def __init__(self, upstream, tensors, fn):
        self._upstream, self._tensors, self._fn = upstream, tensors, fn

    def _lower(self, build):
        tensors = [build.source(t) for t in self._tensors]
        return mapped(*self._upstream._lower(build),
                      lambda element: self._fn(*tensors, element))


class _Filter(Dataset):
    """filter and take_while: `method` of the library's datasets."""

    def __init__(self, upstream, method, predicate):
        self._upstream, self._predicate = upstream, predicate
        self._what, self._method = method, (
            "filter" if method == "shard" else method)

    def _lower(self, build):
        pipeline, like = self._upstream._lower(build)

        def wanted(tensors):
            value = convert_to_tensor(call(self._predicate, like.pack(tensors)))
            if value.dtype.base_dtype != dtypes.bool_ or not (
                    value.shape.is_compatible_with([])):
                raise TypeError(f"`predicate` of {self._what} must return a "
                                f"scalar boolean tensor, got {value!r}")
            return [value]

        return getattr(pipeline, self._method)(wanted), like


class _FlatMap(Dataset):
    """flat_map; with a cycle: interleave."""

    def __init__(self, upstream, fn, cycle=1):
        self._upstream, self._fn, self._cycle = upstream, fn, cycle

    def _lower(self, build):
        pipeline, like = self._upstream._lower(build)
        made, within = Elements(), build.within()

        def inner(tensors):
            dataset = self._fn(like.pack(tensors))
            if not isinstance(dataset, Dataset):
                raise TypeError(f"`map_func` must return a Dataset object, got "
                                f"{dataset!r}")
            lowered, of_inner = dataset._lower(within)
            made.follow(of_inner)
            return lowered

        # (A function's datasets have no queues, which interleaving needs.)
        if self._cycle == 1 or build.inside:
            return pipeline.flat_map(inner), made
        shapes = Shapes()

        def noted(tensors):
            return inner(tensors).map(shapes.seen, 1)

        return pipeline.interleave(noted, self._cycle).map(
            shapes.restored, 1), made


class _Enumerate(Dataset):

    def __init__(self, upstream):
        self._upstream = upstream

    def _lower(self, build):
        pipeline, like = self._upstream._lower(build)
        return pipeline.enumerate(), Elements(lambda: (Tensor, like.structure))


class _Same(Dataset):
    """A method of the library's datasets that leaves elements as they are."""

    def __init__(self, upstream, method, *args):
        self._upstream, self._method, self._args = upstream, method, args

    def _lower(self, build):
        pipeline, like = self._upstream._lower(build)
        return through_queue(pipeline, lambda p: getattr(
            p, self._method)(*self._args)), like


class _Prefetch(Dataset):

    def __init__(self, upstream, size):
        self._upstream, self._size = upstream, size

    def _lower(self, build):
        pipeline, like = self._upstream._lower(build)
        if not build.inside:
            pipeline = through_queue(pipeline,
                                     lambda p: p.prefetch(self._size))
        return pipeline, like


class _Concatenate(Dataset):

    def __init__(self, first, second):
        self._first, self._second = first, second

    def _lower(self, build):
        (first, like), (second, other) = (
            d._lower(build) for d in (self._first, self._second))

        # (What comes after is built for the first, then for the second.)
        def checked(tensors):
            packed = elements.spec_of(other.pack(tensors))
            known = elements.map_structure(lambda s: s.value_type, packed)
            if known != like.structure:
                raise TypeError(f"Two datasets to concatenate have different "
                                f"classes {like.structure} and {known}")
            return tensors

        return first.concatenate(second.map(checked, 1)), like
