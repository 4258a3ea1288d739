"""Transformations of datasets, as functions for `Dataset.apply`."""

from sluice.data import batching, elements
from sluice.data.dataset import AUTOTUNE, _Filter, _Lowered
from sluice.data.elements import Elements
from sluice.data.lowering import call, missing, through_queue


def shuffle_and_repeat(buffer_size, count=None, seed=None):
    """Shuffles and repeats: see `Dataset.shuffle` and `Dataset.repeat`."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(map_func, batch_size, num_parallel_batches=None,
                  drop_remainder=False, num_parallel_calls=None):
    """Maps and batches: see `Dataset.map` and `Dataset.batch`.

    Args:
      map_func: a function of an element.
      batch_size: how many elements make a batch.
      num_parallel_batches: for how many batches elements are processed at
        once; at most one of this and `num_parallel_calls`.
      drop_remainder: whether to drop the elements left at the end.
      num_parallel_calls: how many elements are processed at once.
    """
    if num_parallel_batches is not None:
        if num_parallel_calls is not None:
            raise ValueError("The `num_parallel_batches` and "
                             "`num_parallel_calls` arguments are mutually "
                             "exclusive.")
        num_parallel_calls = int(batch_size) * num_parallel_batches
    return lambda dataset: dataset.map(
        map_func, num_parallel_calls or AUTOTUNE).batch(batch_size,
                                                        drop_remainder)


def unbatch():
    """Takes elements apart: see `Dataset.unbatch`."""
    return lambda dataset: dataset.unbatch()


def enumerate_dataset(start=0):
    """Numbers the elements: see `Dataset.enumerate`."""
    return lambda dataset: dataset.enumerate(start)


def parallel_interleave(map_func, cycle_length, block_length=1, sloppy=False,
                        buffer_output_elements=None,
                        prefetch_input_elements=None):
    """Reads several datasets at a time: see `Dataset.interleave`.

    The order varies, as with `sloppy`. The last two arguments are ignored.
    """
    return lambda dataset: dataset.interleave(map_func, cycle_length,
                                              block_length)


def take_while(predicate):
    """Returns the elements before the first for which a predicate is false."""
    return lambda dataset: _Filter(dataset, "take_while", predicate)


def ignore_errors():
    """Drops elements for which maps and filters right before this fail.

    These elements are processed one after the other.
    """
    def transformed(dataset):
        def lowered(build):
            pipeline, like = dataset._lower(build)
            return through_queue(pipeline, lambda p: p.ignore_errors()), like
        return _Lowered(lowered)
    return transformed


def scan(initial_state, scan_func):
    """Maps elements with a state that goes from each to the next.

    Args:
      initial_state: a structure of tensors.
      scan_func: fn(state, element) returns the next state, of the same types
        and shapes, and what takes the element's place.
    """
    state = elements.convert(initial_state)

    def transformed(dataset):
        def lowered(build):
            pipeline, like = dataset._lower(build)
            of_state, made = Elements(), Elements()
            first = [build.source(t) for t in of_state.unpack(state)]

            def following(tensors, element):
                new, value = scan_func(of_state.pack(tensors),
                                       like.pack(element))
                return _as_state(new, state) + made.unpack(
                    tuple(value) if isinstance(value, list) else value)

            return pipeline.scan(first, following), made
        return _Lowered(lowered)
    return transformed


def _as_state(new, state):
    """Returns the tensors of a state; TypeError if they do not fit."""
    new = elements.convert(new)
    try:
        fit = [a.dtype.base_dtype == b.dtype.base_dtype for a, b in zip(
            elements.flatten_up_to(state, new), elements.flatten(state))]
    except (TypeError, ValueError):
        fit = [False]
    if not all(fit):
        raise TypeError(f"The element types for the new state must match the "
                        f"initial state. Expected {state}; got {new}.")
    return elements.tensors_of(new)


def bucket_by_sequence_length(element_length_func, bucket_boundaries,
                              bucket_batch_sizes, padded_shapes=None,
                              padding_values=None,
                              pad_to_bucket_boundary=False, no_padding=False,
                              drop_remainder=False):
    """Batches elements with others of similar length, padded.

    Args:
      element_length_func: a function of an element that returns its length, an
        integer scalar.
      bucket_boundaries: the lengths at which a bucket begins, but the first.
      bucket_batch_sizes: the batch size of each bucket: one more than there
        are boundaries.
      padded_shapes: as for `Dataset.padded_batch`.
      padding_values: likewise.
      pad_to_bucket_boundary: False; True raises UnimplementedError.
      no_padding: whether all elements of a batch have equal shapes anyway.
      drop_remainder: whether to drop the elements left at the end.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal "
                         "len(bucket_boundaries) + 1")
    if pad_to_bucket_boundary:
        raise missing("bucket_by_sequence_length: pad_to_bucket_boundary",
                      "use padded_shapes")
    padding = batching.Padding(None if no_padding else padded_shapes,
                               padding_values)

    def transformed(dataset):
        def lowered(build):
            pipeline, like = dataset._lower(build)
            # (The length goes along: padding changes the element before it is
            # put into a bucket.)
            whole = Elements()
            pairs = pipeline.map(lambda tensors: whole.unpack((
                call(element_length_func, like.pack(tensors)),
                like.pack(tensors))), 1)
            wider = batching.Padding(
                None if padding._shapes is None else (None, padding._shapes),
                None if padding._values is None else (None, padding._values))
            batches, made = wider.around(
                pairs, whole, None, lambda p: p.bucket_by_length(
                    lambda tensors: tensors[:1], list(bucket_boundaries),
                    list(bucket_batch_sizes), bool(drop_remainder)))
            found = Elements()
            return batches.map(lambda tensors: found.unpack(
                made.pack(tensors)[1]), 1), found
        return _Lowered(lowered)
    return transformed
