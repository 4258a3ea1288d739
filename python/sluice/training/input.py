"""Input pipelines of queues: producers of strings and slices, and batches.

Each function adds a queue, and a QueueRunner that fills it, which
`tf.train.start_queue_runners` starts.
"""

import collections

from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, convert_to_tensor,
    convert_to_tensor_or_sparse_tensor)
from sluice.framework.graph import GraphKeys
from sluice.ops import (
    array_ops, control_flow, files, math_ops, queues, random_ops, sparse_ops)
from sluice.ops.variables import Variable
from sluice.training.queue_runner import QueueRunner, add_queue_runner

# ---- Producers ---------------------------------------------------------------


def match_filenames_once(pattern, name=None):
    """Makes a local variable with the names of files that match a pattern.

    The files are looked for when the variable is initialized.

    Args:
      pattern: a glob pattern, or several of them.
      name: the name of the variable.

    Returns:
      The variable, a vector of strings.
    """
    with graphs.name_scope(name, "matching_filenames", [pattern]) as scope:
        return Variable(files.matching_files(pattern), trainable=False,
                        validate_shape=False, name=scope.rstrip("/"),
                        collections=[GraphKeys.LOCAL_VARIABLES])


def limit_epochs(tensor, num_epochs=None, name=None):
    """Returns a tensor that can be read `num_epochs` times.

    Later reads fail with OutOfRangeError. The local variable that counts must
    be initialized (`tf.local_variables_initializer`).

    Args:
      tensor: the tensor.
      num_epochs: the number of reads; None for no limit.
      name: the name of the operation.

    Raises:
      ValueError: if `num_epochs` is not positive.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with graphs.name_scope(name, "limit_epochs", [tensor]) as scope:
        count = Variable(array_ops.constant(0, dtypes.int64), name="epochs",
                         trainable=False,
                         collections=[GraphKeys.LOCAL_VARIABLES])
        with graphs.control_dependencies([count.count_up_to(num_epochs)]):
            return array_ops.identity(tensor, name=scope)


def input_producer(input_tensor, element_shape=None, num_epochs=None,
                   shuffle=True, seed=None, capacity=32, shared_name=None,
                   summary_name=None, name=None, cancel_op=None):
    """Makes a queue of the rows of a tensor, repeated.

    Args:
      input_tensor: the tensor.
      element_shape: the shape of a row, if the tensor's is not known.
      num_epochs: how often the rows come; None for no limit. Needs
        `tf.local_variables_initializer`.
      shuffle: whether to shuffle the rows, anew each time.
      seed: the seed of the order.
      capacity: the capacity of the queue.
      shared_name: the name under which sessions share the queue.
      summary_name: ignored: there are no summaries.
      name: the name of the queue.
      cancel_op: closes the queue and cancels enqueues; see QueueRunner.

    Returns:
      A FIFOQueue.

    Raises:
      ValueError: if the shape of a row is not known.
    """
    with graphs.name_scope(name, "input_producer", [input_tensor]):
        input_tensor = convert_to_tensor(input_tensor, name="input_tensor")
        shape = input_tensor.shape[1:].merge_with(element_shape)
        if not shape.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined "
                             "shape or `element_shape` must be specified")
        if shuffle:
            input_tensor = random_ops.random_shuffle(input_tensor, seed=seed)
        input_tensor = limit_epochs(input_tensor, num_epochs)
        queue = queues.FIFOQueue(
            capacity, [input_tensor.dtype.base_dtype], [shape],
            shared_name=shared_name, name=name or "fifo_queue")
        enqueue = queue.enqueue_many([input_tensor])
        add_queue_runner(QueueRunner(queue, [enqueue], cancel_op=cancel_op))
        return queue


def string_input_producer(string_tensor, num_epochs=None, shuffle=True,
                          seed=None, capacity=32, shared_name=None, name=None,
                          cancel_op=None):
    """Makes a queue of strings, such as the names of files.

    Args:
      string_tensor: a vector of strings. A step that reads from the queue fails
        if it is empty.
      num_epochs: how often the strings come; None for no limit. Needs
        `tf.local_variables_initializer`.
      shuffle: whether to shuffle the strings, anew each time.
      seed: the seed of the order.
      capacity: the capacity of the queue.
      shared_name: the name under which sessions share the queue.
      name: the name of the scope.
      cancel_op: closes the queue and cancels enqueues; see QueueRunner.

    Returns:
      A FIFOQueue of scalars.

    Raises:
      ValueError: if the vector is known to be empty.
    """
    empty = "string_input_producer requires a non-null input tensor"
    if not hasattr(string_tensor, "op") and not len(string_tensor):
        raise ValueError(empty)
    with graphs.name_scope(name, "input_producer", [string_tensor]) as scope:
        string_tensor = convert_to_tensor(string_tensor, dtypes.string)
        check = control_flow.Assert(
            math_ops.greater(array_ops.size(string_tensor), 0), [empty])
        with graphs.control_dependencies([check]):
            string_tensor = array_ops.identity(string_tensor)
        return input_producer(
            string_tensor, [], num_epochs, shuffle, seed, capacity, shared_name,
            name=scope, cancel_op=cancel_op)


def range_input_producer(limit, num_epochs=None, shuffle=True, seed=None,
                         capacity=32, shared_name=None, name=None):
    """Makes a queue of the numbers from 0 to `limit` - 1.

    Args:
      limit: the number of numbers, a scalar int32.
      num_epochs: how often they come; None for no limit. Needs
        `tf.local_variables_initializer`.
      shuffle: whether to shuffle them, anew each time.
      seed: the seed of the order.
      capacity: the capacity of the queue.
      shared_name: the name under which sessions share the queue.
      name: the name of the scope.

    Returns:
      A FIFOQueue of scalars.
    """
    with graphs.name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            math_ops.range(limit), [], num_epochs, shuffle, seed, capacity,
            shared_name, name=scope)


def slice_input_producer(tensor_list, num_epochs=None, shuffle=True, seed=None,
                         capacity=32, shared_name=None, name=None):
    """Returns a row of each tensor, the same row of all.

    Args:
      tensor_list: tensors with the same first dimension.
      num_epochs: how often the rows come; None for no limit. Needs
        `tf.local_variables_initializer`.
      shuffle: whether to shuffle the rows, anew each time.
      seed: the seed of the order.
      capacity: the capacity of the queue of row numbers.
      shared_name: the name under which sessions share the queue.
      name: the name of the scope.

    Returns:
      A list of tensors of one rank less.

    Raises:
      ValueError: if there are no tensors.
    """
    with graphs.name_scope(name, "input_producer", tensor_list):
        tensors = [convert_to_tensor(t) for t in tensor_list]
        if not tensors:
            raise ValueError(
                "Expected at least one tensor in slice_input_producer().")
        queue = range_input_producer(
            array_ops.shape(tensors[0])[0], num_epochs, shuffle, seed, capacity,
            shared_name)
        row = queue.dequeue()
        return [array_ops.gather(t, row) for t in tensors]


# ---- What batches consist of -------------------------------------------------


def as_tensor_list(tensors):
    """Returns the tensors of a list, or of a dict in the order of its keys."""
    if isinstance(tensors, dict):
        return [tensors[k] for k in sorted(tensors, key=str)]
    return tensors


def as_original_type(original, tensors):
    """Returns the tensors of a batch in the form of the original ones."""
    if not isinstance(original, dict):
        return tensors
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    return {k: tensors[i] for i, k in enumerate(sorted(original, key=str))}


def convert_all(tensors, function):
    """Converts a list to tensors and sparse tensors.

    Raises:
      ValueError: if the list is empty; `function` is named in the message.
    """
    converted = [t if isinstance(t, IndexedSlices) else
                 convert_to_tensor_or_sparse_tensor(t) for t in tensors]
    if not converted:
        raise ValueError(f"Expected at least one tensor in {function}().")
    return converted


def as_keep_input(keep_input, enqueue_many):
    """Converts `keep_input` to a tensor.

    Raises:
      ValueError: if its rank is not known, or neither 0 nor, for several
        elements at once, 1.
    """
    keep = convert_to_tensor(keep_input)
    if keep.shape.ndims is None:
        raise ValueError(
            "`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and keep.shape.ndims == 1:
        raise ValueError(
            "`keep_input` cannot be a vector when `enqueue_many=False`.")
    if keep.shape.ndims > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep


# Where a sparse component is kept while its keys are in the queue: the
# operation that stored it, and the rank of an element.
_Stored = collections.namedtuple("_Stored", "map_op rank")


def _store(tensor, enqueue_many, keep_input, earlier):
    """Replaces a sparse tensor by keys, which a queue can hold.

    Args:
      tensor: a tensor, which is returned as it is, or a SparseTensor.
      enqueue_many: whether its rows are elements.
      keep_input: a boolean tensor: what is kept.
      earlier: the _Stored whose map to share, or None.

    Returns:
      (tensor, _Stored or None).
    """
    if not isinstance(tensor, SparseTensor):
        return tensor, None
    made = []  # The operation that stores, which may be within a branch.
    if enqueue_many and keep_input.shape.ndims == 1:
        tensor = sparse_ops.sparse_retain(
            tensor, array_ops.gather(keep_input, tensor.indices[:, 0]))

    def kept():
        add = (sparse_ops._add_many_sparse_to_tensors_map if enqueue_many else
               sparse_ops._add_sparse_to_tensors_map)
        keys = add(tensor, shared_name=earlier and earlier.map_op.name)
        made.append(keys.op)
        return keys

    def dropped():
        if enqueue_many:
            return -array_ops.ones(tensor.dense_shape[:1], dtypes.int64)
        return array_ops.constant(-1, dtypes.int64)

    if keep_input.shape.ndims == 1:
        keys = kept()
    else:
        keys = control_flow.smart_cond(keep_input, kept, dropped)
    if enqueue_many:
        keys.set_shape([None])
    rank = tensor.dense_shape.shape.with_rank(1)[0]
    if enqueue_many:
        rank -= 1
    # With keep_input=False nothing is stored, and nothing will be restored.
    map_op = earlier.map_op if earlier else made[0] if made else keys.op
    return array_ops.expand_dims(keys, -1), _Stored(map_op, rank)


def store_sparse(tensors, enqueue_many, keep_input, earlier=None):
    """Replaces the sparse tensors of a list by keys.

    Returns:
      (tensors, [None for a dense tensor, or where the sparse one is kept]).

    Raises:
      ValueError: if `earlier`, the same of another list, is not alike.
    """
    if earlier is None:
        earlier = [None] * len(tensors)
    elif [e is None for e in earlier] != [
            not isinstance(t, SparseTensor) for t in tensors]:
        raise ValueError(f"Inconsistent SparseTensors list: {tensors}")
    stored, where = [], []
    for tensor, before in zip(tensors, earlier):
        keys, at = _store(tensor, enqueue_many, keep_input, before)
        if before is not None and not before.rank.is_compatible_with(at.rank):
            raise ValueError(f"Inconsistent SparseTensors list: expected rank "
                             f"{before.rank}, got {at.rank}")
        stored.append(keys)
        where.append(at)
    return stored, where


def restore_sparse(tensors, where):
    """Takes stored sparse tensors out again, by the keys that were dequeued.

    Args:
      tensors: a tensor, or a list of tensors.
      where: the list that `store_sparse` returned.
    """
    several = isinstance(tensors, (list, tuple))
    restored = [
        value if at is None else sparse_ops._take_many_sparse_from_tensors_map(
            at.map_op, array_ops.squeeze(value, [1]),
            tensor_shape.dimension_value(at.rank + 1))
        for value, at in zip(tensors if several else [tensors], where)]
    if any(at is not None for at in where):
        # A step that reads one component must take the others out of the maps.
        first = [t.values if isinstance(t, SparseTensor) else t
                 for t in restored]

        def after_all(value):
            return control_flow.with_dependencies(first, value)

        restored = [
            SparseTensor(*map(after_all, (t.indices, t.values, t.dense_shape)))
            if isinstance(t, SparseTensor) else after_all(t) for t in restored]
    return restored if several else restored[0]


def types_of(lists):
    """Returns the types of the components of lists of tensors.

    Raises:
      TypeError: if the lists differ.
    """
    first, *others = [[t.dtype.base_dtype for t in tensors]
                      for tensors in lists]
    for other in others:
        if other != first:
            raise TypeError(
                f"Expected types to be consistent: "
                f"{', '.join(t.name for t in first)} vs. "
                f"{', '.join(t.name for t in other)}.")
    return first


def shapes_of(lists, shapes, enqueue_many, dynamic_pad):
    """Returns the shapes of the components of lists of tensors.

    A size that only some lists know is known for all, or, if elements may
    differ in size, for none.

    Args:
      lists: the lists.
      shapes: their shapes, or None to infer them.
      enqueue_many: whether the first dimension is that of elements.
      dynamic_pad: whether elements may differ in size.

    Raises:
      ValueError: if a rank is not known, or if the lists differ.
    """
    if shapes is not None:
        return shapes
    found = []
    for column in zip(*lists):
        merged = common = None
        for tensor in column:
            shape = tensor.shape
            if shape.ndims is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
            if enqueue_many:
                shape = shape.with_rank_at_least(1)[1:]
            merged = shape if merged is None else merged.merge_with(shape)
            common = shape if common is None else (
                common.most_specific_compatible_shape(shape))
        found.append(common if dynamic_pad else merged)
    return found


def queue_class(dynamic_pad):
    """Returns the class of the queue that holds elements of a batch."""
    return queues.PaddingFIFOQueue if dynamic_pad else queues.FIFOQueue


# ---- Batches -----------------------------------------------------------------


def _batched(tensors_list, function, name, make_queue, batch_size, keep_input,
             threads, enqueue_many, shapes, allow_smaller_final_batch,
             dynamic_pad=False):
    """Adds a queue that lists of tensors fill; dequeues batches from it.

    Args:
      tensors_list: lists (or dicts) of tensors, each with its own threads.
      function: the name of the function that the program called.
      name: the name that the program gave, or None.
      make_queue: a function of (types, shapes) that makes the queue.
      threads: the number of threads for each list.
      batch_size, keep_input, enqueue_many, shapes, allow_smaller_final_batch,
        dynamic_pad: as for `batch`.
    """
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    original = tensors_list[0]
    if isinstance(original, dict) and any(
            set(tensors) != set(original) for tensors in tensors_list):
        raise ValueError(
            "All dictionaries in tensors_list must have the same keys")
    lists = [list(as_tensor_list(tensors)) for tensors in tensors_list]
    values = [value for tensors in lists for value in tensors]
    with graphs.name_scope(name, function, values + [keep_input]) as scope:
        lists = [convert_all(tensors, "batch_join" if len(lists) > 1 else
                             "batch") for tensors in lists]
        keep_input = as_keep_input(keep_input, enqueue_many)
        where = None
        for i, tensors in enumerate(lists):
            lists[i], at = store_sparse(tensors, enqueue_many, keep_input,
                                        where)
            where = at if where is None else where
        types = types_of(lists)
        queue = make_queue(types, shapes_of(lists, shapes, enqueue_many,
                                            dynamic_pad))
        enqueue = queue.enqueue_many if enqueue_many else queue.enqueue
        if keep_input.shape.ndims == 1:
            which = math_ops.cast(keep_input, dtypes.int32)
            operations = [enqueue([array_ops.dynamic_partition(x, which, 2)[1]
                                   for x in tensors]) for tensors in lists]
        else:
            operations = [control_flow.smart_cond(
                keep_input, lambda tensors=tensors: enqueue(tensors),
                control_flow.no_op) for tensors in lists]
        add_queue_runner(QueueRunner(
            queue, [op for op in operations for _ in range(threads)]))
        dequeue = (queue.dequeue_up_to if allow_smaller_final_batch else
                   queue.dequeue_many)
        batches = restore_sparse(dequeue(batch_size, name=scope), where)
        return as_original_type(original, batches)


def _shuffling_queue(capacity, min_after_dequeue, seed, shared_name):
    """Returns a function that makes a RandomShuffleQueue."""
    if capacity <= min_after_dequeue:
        raise ValueError(f"capacity {capacity} must be bigger than "
                         f"min_after_dequeue {min_after_dequeue}.")
    return lambda types, shapes: queues.RandomShuffleQueue(
        capacity, min_after_dequeue, types, shapes, seed=seed,
        shared_name=shared_name)


def _ordered_queue(capacity, dynamic_pad, shared_name):
    """Returns a function that makes a FIFOQueue or a PaddingFIFOQueue."""
    return lambda types, shapes: queue_class(dynamic_pad)(
        capacity, types, shapes, shared_name=shared_name)


def batch(tensors, batch_size, num_threads=1, capacity=32, enqueue_many=False,
          shapes=None, dynamic_pad=False, allow_smaller_final_batch=False,
          shared_name=None, name=None):
    """Collects elements into batches.

    Args:
      tensors: the components of an element, a list or a dict of tensors or
        SparseTensors; they are computed once for each element.
      batch_size: the number of elements of a batch, an int or a scalar tensor.
      num_threads: the number of threads that compute elements. The order of
        elements is arbitrary if there are several.
      capacity: the capacity of the queue.
      enqueue_many: whether `tensors` have several elements, along their first
        dimension.
      shapes: the shapes of the components of an element; inferred by default.
      dynamic_pad: whether components of different sizes are padded with zeros
        to the largest of the batch.
      allow_smaller_final_batch: whether the last batch may be smaller; then the
        first dimension is unknown.
      shared_name: the name under which sessions share the queue.
      name: the name of the operation.

    Returns:
      Batches, in the form of `tensors`.

    Raises:
      ValueError: if shapes are neither given nor known.
    """
    return _batched(
        [tensors], "batch", name,
        _ordered_queue(capacity, dynamic_pad, shared_name), batch_size, True,
        num_threads, enqueue_many, shapes, allow_smaller_final_batch,
        dynamic_pad)


def maybe_batch(tensors, keep_input, batch_size, num_threads=1, capacity=32,
                enqueue_many=False, shapes=None, dynamic_pad=False,
                allow_smaller_final_batch=False, shared_name=None, name=None):
    """Collects the elements that `keep_input` selects into batches.

    Args:
      tensors: the components of an element; see `batch`.
      keep_input: a boolean scalar: whether to use the element; with
        `enqueue_many` it may be a vector with an entry for each.
      batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad: see
        `batch`.
      allow_smaller_final_batch, shared_name, name: see `batch`.
    """
    return _batched(
        [tensors], "batch", name,
        _ordered_queue(capacity, dynamic_pad, shared_name), batch_size,
        keep_input, num_threads, enqueue_many, shapes,
        allow_smaller_final_batch,
        dynamic_pad)


def batch_join(tensors_list, batch_size, capacity=32, enqueue_many=False,
               shapes=None, dynamic_pad=False, allow_smaller_final_batch=False,
               shared_name=None, name=None):
    """Collects elements from several sources into batches.

    Args:
      tensors_list: a list of lists (or dicts) of tensors. Each has a thread
        that computes its elements.
      batch_size, capacity, enqueue_many, shapes, dynamic_pad: see `batch`.
      allow_smaller_final_batch, shared_name, name: see `batch`.

    Returns:
      Batches, in the form of `tensors_list[0]`.

    Raises:
      TypeError, ValueError: if the sources differ in types, shapes or keys.
    """
    return _batched(
        tensors_list, "batch_join", name,
        _ordered_queue(capacity, dynamic_pad, shared_name), batch_size, True, 1,
        enqueue_many, shapes, allow_smaller_final_batch,
        dynamic_pad)


def maybe_batch_join(tensors_list, keep_input, batch_size, capacity=32,
                     enqueue_many=False, shapes=None, dynamic_pad=False,
                     allow_smaller_final_batch=False, shared_name=None,
                     name=None):
    """Works like `batch_join` for the elements that `keep_input` selects.

    Args:
      tensors_list: see `batch_join`.
      keep_input: see `maybe_batch`.
      batch_size, capacity, enqueue_many, shapes, dynamic_pad: see `batch`.
      allow_smaller_final_batch, shared_name, name: see `batch`.
    """
    return _batched(
        tensors_list, "batch_join", name,
        _ordered_queue(capacity, dynamic_pad, shared_name), batch_size,
        keep_input, 1, enqueue_many, shapes, allow_smaller_final_batch,
        dynamic_pad)


def shuffle_batch(tensors, batch_size, capacity, min_after_dequeue,
                  num_threads=1, seed=None, enqueue_many=False, shapes=None,
                  allow_smaller_final_batch=False, shared_name=None, name=None):
    """Collects elements into batches in random order.

    Args:
      tensors: the components of an element; see `batch`.
      batch_size: the number of elements of a batch.
      capacity: the capacity of the queue, above `min_after_dequeue`.
      min_after_dequeue: the number of elements that stay in the queue to be
        mixed with later ones.
      num_threads: the number of threads that compute elements.
      seed: the seed of the order.
      enqueue_many, shapes, allow_smaller_final_batch, shared_name, name: see
        `batch`.

    Raises:
      ValueError: if `capacity` is too small, or if shapes are not known.
    """
    return _batched(
        [tensors], "shuffle_batch", name,
        _shuffling_queue(capacity, min_after_dequeue, seed, shared_name),
        batch_size, True, num_threads, enqueue_many, shapes,
        allow_smaller_final_batch)


def maybe_shuffle_batch(tensors, batch_size, capacity, min_after_dequeue,
                        keep_input, num_threads=1, seed=None,
                        enqueue_many=False, shapes=None,
                        allow_smaller_final_batch=False, shared_name=None,
                        name=None):
    """Works like `shuffle_batch` for the elements that `keep_input` selects.

    Args:
      tensors, batch_size, capacity, min_after_dequeue, num_threads, seed: see
        `shuffle_batch`.
      keep_input: see `maybe_batch`.
      enqueue_many, shapes, allow_smaller_final_batch, shared_name, name: see
        `batch`.
    """
    return _batched(
        [tensors], "shuffle_batch", name,
        _shuffling_queue(capacity, min_after_dequeue, seed, shared_name),
        batch_size, keep_input, num_threads, enqueue_many, shapes,
        allow_smaller_final_batch)


def shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue,
                       seed=None, enqueue_many=False, shapes=None,
                       allow_smaller_final_batch=False, shared_name=None,
                       name=None):
    """Collects elements from several sources into batches, in random order.

    Args:
      tensors_list: see `batch_join`.
      batch_size, capacity, min_after_dequeue, seed: see `shuffle_batch`.
      enqueue_many, shapes, allow_smaller_final_batch, shared_name, name: see
        `batch`.
    """
    return _batched(
        tensors_list, "shuffle_batch_join", name,
        _shuffling_queue(capacity, min_after_dequeue, seed, shared_name),
        batch_size, True, 1, enqueue_many, shapes, allow_smaller_final_batch)


def maybe_shuffle_batch_join(tensors_list, batch_size, capacity,
                             min_after_dequeue, keep_input, seed=None,
                             enqueue_many=False, shapes=None,
                             allow_smaller_final_batch=False, shared_name=None,
                             name=None):
    """Works like `shuffle_batch_join` for elements that `keep_input` selects.

    Args:
      tensors_list: see `batch_join`.
      batch_size, capacity, min_after_dequeue, seed: see `shuffle_batch`.
      keep_input: see `maybe_batch`.
      enqueue_many, shapes, allow_smaller_final_batch, shared_name, name: see
        `batch`.
    """
    return _batched(
        tensors_list, "shuffle_batch_join", name,
        _shuffling_queue(capacity, min_after_dequeue, seed, shared_name),
        batch_size, keep_input, 1, enqueue_many, shapes,
        allow_smaller_final_batch)
