"""Batches of elements of similar lengths: `tf.contrib.training.bucket`."""

import functools

from sluice.framework import (
    dtypes, errors, graph as graphs, tensor_shape)
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.ops import array_ops, control_flow, math_ops, queues
from sluice.training import input as inputs
from sluice.training.queue_runner import QueueRunner, add_queue_runner

_ENDED = (errors.OutOfRangeError, errors.CancelledError)


def bucket(tensors, which_bucket, batch_size, num_buckets, num_threads=1,
           capacity=32, bucket_capacities=None, shapes=None, dynamic_pad=False,
           allow_smaller_final_batch=False, keep_input=True, shared_name=None,
           name=None):
    """Collects elements into batches, each of elements of one bucket.

    There is a queue for each bucket, and one for the batches of all.

    Args:
      tensors: the components of an element; see `tf.train.batch`.
      which_bucket: the bucket of the element, an int32 scalar.
      batch_size: the number of elements of a batch, or a list with one for
        each bucket.
      num_buckets: the number of buckets.
      num_threads: the number of threads that compute elements.
      capacity: the number of batches that wait.
      bucket_capacities: the capacity of each bucket; defaults to `capacity`.
      shapes: the shapes of the components; inferred by default.
      dynamic_pad: whether components are padded to the largest of the batch.
      allow_smaller_final_batch: whether the last batch of a bucket may be
        smaller.
      keep_input: a boolean scalar: whether to use the element.
      shared_name: the name under which sessions share the queues.
      name: the name of the scope.

    Returns:
      (the batch's bucket, the batch in the form of `tensors`).

    Raises:
      ValueError: if the numbers of batch sizes or capacities are not that of
        the buckets, or if shapes are not known.
    """
    several_sizes = isinstance(batch_size, (list, tuple))
    if several_sizes and len(batch_size) != num_buckets:
        raise ValueError(
            "If batch_size is a list it must have num_buckets elements")
    sizes = list(batch_size) if several_sizes else [batch_size] * num_buckets
    if bucket_capacities is None:
        bucket_capacities = [capacity] * num_buckets
    if len(bucket_capacities) != num_buckets:
        raise ValueError(
            f"The list bucket_capacities ({bucket_capacities}) must have "
            f"exactly num_buckets ({num_buckets}) elements.")
    tensor_list = inputs.as_tensor_list(tensors)
    with graphs.name_scope(name, "bucket", list(tensor_list)):
        tensor_list = inputs.convert_all(tensor_list, "bucket")
        keep_input = inputs.as_keep_input(keep_input, False)
        tensor_list, where = inputs.store_sparse(tensor_list, False, keep_input)
        types = inputs.types_of([tensor_list])
        shapes = inputs.shapes_of([tensor_list], shapes, False, dynamic_pad)
        which_bucket = convert_to_tensor(which_bucket, dtypes.int32,
                                         name="which_bucket")
        make_queue = inputs.queue_class(dynamic_pad)
        buckets = [
            make_queue(bucket_capacities[i], types, shapes,
                       shared_name=shared_name and f"{shared_name}_{i}",
                       name=f"bucket_queue_{i}") for i in range(num_buckets)]
        rows = None
        if not several_sizes and not allow_smaller_final_batch:
            rows = constant_value(convert_to_tensor(batch_size, dtypes.int32))
        rows = tensor_shape.TensorShape([None if rows is None else int(rows)])
        top = queues.PaddingFIFOQueue(
            capacity, [dtypes.int32] + types,
            [[]] + [rows.concatenate(shape) for shape in buckets[0].shapes],
            shared_name=shared_name, name="top_queue")

        def enqueue():
            return control_flow.group(*(control_flow.cond(
                math_ops.equal(which_bucket, i),
                functools.partial(queue.enqueue, tensor_list),
                control_flow.no_op) for i, queue in enumerate(buckets)),
                name="group_enqueues")

        element = control_flow.smart_cond(keep_input, enqueue,
                                          control_flow.no_op)
        to_top = []
        for i, (queue, size) in enumerate(zip(buckets, sizes)):
            dequeue = (queue.dequeue_up_to if allow_smaller_final_batch else
                       queue.dequeue_many)
            batch = dequeue(size, name=f"read_bucket_{i}")
            if not isinstance(batch, list):
                batch = [batch]
            to_top.append(top.enqueue([array_ops.constant(i)] + batch,
                                      name=f"enqueue_from_bucket_{i}"))

        def close_buckets(cancel):
            return control_flow.group(*(q.close(cancel) for q in buckets))

        # The threads of the buckets end when these are closed, and the last one
        # closes the top queue. Those of elements close the buckets.
        add_queue_runner(QueueRunner(
            buckets[0], to_top, close_op=top.close(),
            cancel_op=top.close(cancel_pending_enqueues=True),
            queue_closed_exception_types=_ENDED))
        add_queue_runner(QueueRunner(
            top, [element] * num_threads, close_op=close_buckets(False),
            cancel_op=close_buckets(True),
            queue_closed_exception_types=_ENDED))
        which, *batch = top.dequeue(name="dequeue_top")
        batch = inputs.restore_sparse(batch[0] if len(batch) == 1 else batch,
                                      where)
        return which, inputs.as_original_type(tensors, batch)


def bucket_by_sequence_length(
        input_length, tensors, batch_size, bucket_boundaries, num_threads=1,
        capacity=32, bucket_capacities=None, shapes=None, dynamic_pad=False,
        allow_smaller_final_batch=False, keep_input=True, shared_name=None,
        name=None):
    """Collects elements into batches of similar lengths.

    Args:
      input_length: the length of the element, an int32 scalar.
      tensors: the components of an element; see `tf.train.batch`.
      batch_size: the number of elements of a batch, or a list with one for each
        bucket, of which there is one more than boundaries.
      bucket_boundaries: increasing lengths; each begins a bucket.
      num_threads, capacity, bucket_capacities, shapes, dynamic_pad: see
        `bucket`.
      allow_smaller_final_batch, keep_input, shared_name, name: see `bucket`.

    Returns:
      (lengths, the batch in the form of `tensors`).

    Raises:
      TypeError: if the boundaries are not a list of ints.
      ValueError: if they do not increase.
    """
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError(f"bucket_boundaries must be a list or tuple, but "
                        f"received: {bucket_boundaries}")
    if not bucket_boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    for a, b in zip(bucket_boundaries, bucket_boundaries[1:]):
        if not isinstance(a, int) or not isinstance(b, int):
            raise TypeError(f"bucket boundaries must be integers, but saw: {a} "
                            f"and {b}")
        if a >= b:
            raise ValueError(f"Buckets must contain sequential increasing "
                             f"lengths, but saw: {a} before {b}")
    tensor_list = list(inputs.as_tensor_list(tensors))
    with graphs.name_scope(name, "bucket_by_sequence_length",
                           [input_length] + tensor_list):
        length = convert_to_tensor(input_length, dtypes.int32,
                                   name="input_length")
        which = math_ops.reduce_sum(math_ops.cast(math_ops.less_equal(
            list(bucket_boundaries), length), dtypes.int32))
        if shapes is not None:
            shapes = [tensor_shape.scalar()] + list(shapes)
        _, batch = bucket(
            [length] + tensor_list, which, batch_size,
            len(bucket_boundaries) + 1, num_threads, capacity,
            bucket_capacities, shapes, dynamic_pad, allow_smaller_final_batch,
            keep_input, shared_name)
        return batch[0], inputs.as_original_type(tensors, batch[1:])
