"""Embeddings, and losses that sample classes."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.ops import (
    array_ops, clip_ops, math_ops, nn, sparse_ops, segments as segment_ops)
from sluice.ops.partitioned import PartitionedVariable
from sluice.ops.random_ops import _seeds
from sluice.ops.variables import Variable

_op = _core.op


def _tables(params):
    many = isinstance(params, (PartitionedVariable, list, tuple))
    return [p if isinstance(p, Variable) else convert_to_tensor(p)
            for p in (params if many else [params])]


def _which(flat, tables, strategy):
    """Returns (table, row) of each id."""
    count = len(tables)
    if strategy == "mod":
        return math_ops.floormod(flat, count), math_ops.floordiv(flat, count)
    if strategy != "div":
        raise ValueError(f"Unrecognized partition strategy: {strategy}")
    # With a remainder, the first tables have one row more.
    sizes = [t.shape.as_list()[0] if t.shape.ndims else None for t in tables]
    total = math_ops.cast(
        sum(sizes) if None not in sizes else math_ops.add_n(
            [array_ops.shape(t)[0] for t in tables]), flat.dtype)
    each, over = total // count, total % count
    table = math_ops.maximum(flat // (each + 1), (flat - over) // each)
    row = array_ops.where(table < over, flat % (each + 1),
                          (flat - over) % each)
    return table, row


def embedding_lookup(params, ids, partition_strategy="mod", name=None,
                     validate_indices=True, max_norm=None):
    """Returns the rows of `params` with the given ids.

    Args:
      params: a table, or its shards as a list or a PartitionedVariable.
      ids: the ids of the rows.
      partition_strategy: how shards divide the rows: "mod" (round-robin) or
        "div" (contiguous blocks).
      max_norm: the maximum Euclidean norm of a row, or None.
    """
    tables = _tables(params)
    if not tables:
        raise ValueError("Need at least one param")
    with graphs.name_scope(name, "embedding_lookup", tables + [ids]) as scope:
        if len(tables) == 1:
            rows = array_ops.gather(tables[0], ids, name=scope)
        else:
            rows = _from_parts(tables, convert_to_tensor(ids, name="ids"),
                               partition_strategy)
        if max_norm is None:
            return rows
        n = convert_to_tensor(ids).shape.ndims
        return clip_ops.clip_by_norm(
            rows, max_norm, list(range(n, rows.shape.ndims)))


def _from_parts(tables, ids, strategy):
    flat = array_ops.reshape(ids, [-1])
    table, row = _which(flat, tables, strategy)
    table = math_ops.cast(table, dtypes.int32)
    count = len(tables)
    wanted = array_ops.dynamic_partition(row, table, count)
    places = array_ops.dynamic_partition(
        math_ops.range(array_ops.size(flat)), table, count)
    found = []
    for t, own in zip(tables, wanted):
        with graphs.colocate_with(t.op):
            found.append(array_ops.gather(t, own))
    joined = array_ops.dynamic_stitch(list(places), found)
    inner = tables[0].shape[1:]
    if inner.is_fully_defined():
        dims = inner.as_list()
    else:
        dims = array_ops.shape(tables[0])[1:]
    rows = array_ops.reshape(joined, array_ops.concat(
        [array_ops.shape(ids), convert_to_tensor(dims, dtypes.int32)], 0))
    rows.set_shape(ids.shape.concatenate(inner))
    return rows


def embedding_lookup_sparse(params, sp_ids, sp_weights,
                            partition_strategy="mod", name=None, combiner=None,
                            max_norm=None):
    """Looks up and combines the rows of `params` for each row of sparse ids.

    `combiner` is "sum", "mean" or "sqrtn", which divides the sum by the root
    of the sum of squared weights. Rows of half and bfloat16 are combined as
    floats.
    """
    combiner = combiner or "mean"
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', "
                         f"got {combiner}")
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError("sp_ids must be SparseTensor")
    if sp_weights is not None and not isinstance(sp_weights, SparseTensor):
        raise TypeError("sp_weights must be either None or SparseTensor")
    with graphs.name_scope(name, "embedding_lookup_sparse",
                           _tables(params) + [sp_ids]) as scope:
        segments = math_ops.cast(sp_ids.indices[:, 0], dtypes.int32)
        if sp_weights is None:
            ids, at = array_ops.unique(sp_ids.values)
        else:
            ids, at = sp_ids.values, None
        rows = embedding_lookup(params, ids, partition_strategy,
                                max_norm=max_norm)
        kind = rows.dtype
        if kind in (dtypes.float16, dtypes.bfloat16):
            rows = math_ops.cast(rows, dtypes.float32)
        if sp_weights is None:
            reduce = {"sum": segment_ops.sparse_segment_sum,
                      "mean": segment_ops.sparse_segment_mean,
                      "sqrtn": segment_ops.sparse_segment_sqrt_n}[combiner]
            return _as_kind(reduce, kind, rows, at, segments, name=scope)
        weights = math_ops.cast(sp_weights.values, rows.dtype)
        wide = array_ops.reshape(weights, array_ops.concat(
            [array_ops.shape(weights),
             array_ops.ones([array_ops.rank(rows) - 1], dtypes.int32)], 0))
        total = math_ops.segment_sum(rows * wide, segments)
        if combiner == "sum":
            return _as_kind(array_ops.identity, kind, total, name=scope)
        if combiner == "mean":
            by = math_ops.segment_sum(wide, segments)
        else:
            by = math_ops.sqrt(math_ops.segment_sum(wide * wide, segments))
        return _as_kind(math_ops.div_no_nan, kind, total, by, name=scope)


def _as_kind(function, kind, first, *rest, name):
    """Calls a function, whose result gets a type and the name."""
    if first.dtype == kind:
        return function(first, *rest, name=name)
    return math_ops.cast(function(first, *rest), kind, name=name)


def safe_embedding_lookup_sparse(embedding_weights, sparse_ids,
                                 sparse_weights=None, combiner=None,
                                 default_id=None, name=None,
                                 partition_strategy="div", max_norm=None,
                                 allow_fast_lookup=False):
    """Calls `embedding_lookup_sparse` without invalid ids and weights.

    Removes ids below 0 and, unless `combiner` is "sum", ids whose weight is
    not positive. An empty row becomes the row of `default_id`, or zeros. The
    ids may have more than two dimensions.
    """
    combiner = combiner or "mean"
    with graphs.name_scope(name, "embedding_lookup", _tables(
            embedding_weights) + [sparse_ids.values]):
        if sparse_weights is not None:
            kind = sparse_weights.dtype.base_dtype
            embedding_weights = [
                w if isinstance(w, Variable) and w.dtype.base_dtype is kind
                else convert_to_tensor(w, kind)
                for w in _tables(embedding_weights)]
        whole, known = sparse_ids.dense_shape, sparse_ids.shape
        ids = sparse_ops.sparse_reshape(sparse_ids, array_ops.stack(
            [math_ops.reduce_prod(whole[:-1]), whole[-1]]))
        keep, weights = ids.values >= 0, sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values,
                                   ids.dense_shape)
            if combiner != "sum":
                keep = math_ops.logical_and(keep, weights.values > 0)
            weights = sparse_ops.sparse_retain(weights, keep)
            weights, _ = sparse_ops.sparse_fill_empty_rows(weights, 1.0)
        ids, empty = sparse_ops.sparse_fill_empty_rows(
            sparse_ops.sparse_retain(ids, keep), default_id or 0)
        rows = embedding_lookup_sparse(
            embedding_weights, ids, weights, partition_strategy,
            combiner=combiner, max_norm=max_norm)
        if default_id is None:
            rows = array_ops.where_v2(array_ops.expand_dims(empty, 1),
                                      array_ops.zeros_like(rows), rows)
        made = array_ops.reshape(rows, array_ops.concat(
            [math_ops.cast(whole[:-1], dtypes.int32),
             array_ops.shape(rows)[1:]], 0))
        if known.ndims is not None:
            made.set_shape(known[:-1].concatenate(rows.shape[1:]))
        return made


# ---- Sampled classes ---------------------------------------------------------


def _sampler(kind, doc):
    def sample(true_classes, num_true, num_sampled, unique, range_max,
               seed=None, name=None):
        return _op(kind)(true_classes, num_true=num_true,
                         num_sampled=num_sampled, unique=unique,
                         range_max=range_max, name=name, **_seeds(seed))
    sample.__doc__ = doc + """

    Returns:
      (sampled classes, expected counts of the true and the sampled classes).
    """
    return sample


uniform_candidate_sampler = _sampler(
    "UniformCandidateSampler", "Samples classes uniformly.")
log_uniform_candidate_sampler = _sampler(
    "LogUniformCandidateSampler",
    "Samples classes log-uniformly, such as words sorted by frequency.")
learned_unigram_candidate_sampler = _sampler(
    "LearnedUnigramCandidateSampler",
    "Samples classes with their frequencies so far.")


def fixed_unigram_candidate_sampler(
        true_classes, num_true, num_sampled, unique, range_max, vocab_file="",
        distortion=1.0, num_reserved_ids=0, num_shards=1, shard=0, unigrams=(),
        seed=None, name=None):
    """Samples classes with probabilities proportional to given counts."""
    return _op("FixedUnigramCandidateSampler")(
        true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique,
        range_max=range_max, vocab_file=vocab_file, distortion=distortion,
        num_reserved_ids=num_reserved_ids, num_shards=num_shards, shard=shard,
        unigrams=list(unigrams), name=name, **_seeds(seed))


def all_candidate_sampler(true_classes, num_true, num_sampled, unique,
                          seed=None, name=None):
    """Returns all classes as a sample."""
    return _op("AllCandidateSampler")(
        true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique,
        name=name, **_seeds(seed))


def compute_accidental_hits(true_classes, sampled_candidates, num_true,
                            seed=None, name=None):
    """Finds sampled classes that are true classes.

    Returns:
      (rows, positions in the sample, lowest float for each).
    """
    return _op("ComputeAccidentalHits")(
        true_classes, sampled_candidates, num_true=num_true, name=name,
        **_seeds(seed))


def _compute_sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
        sampled_values=None, subtract_log_q=True, remove_accidental_hits=False,
        partition_strategy="mod", name=None, seed=None):
    """Returns (logits of the true and sampled classes, their labels)."""
    with graphs.name_scope(name, "compute_sampled_logits",
                           _tables(weights) + [biases, inputs, labels]):
        labels = math_ops.cast(labels, dtypes.int64)
        flat = array_ops.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(
                labels, num_true, num_sampled, True, num_classes, seed)
        sampled, of_true, of_sampled = (array_ops.stop_gradient(v)
                                        for v in sampled_values)
        sampled = math_ops.cast(sampled, dtypes.int64)
        n = array_ops.shape(flat)[0]
        ids = array_ops.concat([flat, sampled], 0)
        w = embedding_lookup(weights, ids, partition_strategy)
        b = embedding_lookup(biases, ids, partition_strategy)
        size = array_ops.shape(w)[1]
        true_w = array_ops.reshape(w[:n], [-1, num_true, size])
        true_logits = math_ops.reduce_sum(
            array_ops.expand_dims(inputs, 1) * true_w, 2) + array_ops.reshape(
                b[:n], [-1, num_true])
        logits = math_ops.matmul(inputs, w[n:], transpose_b=True) + b[n:]
        if remove_accidental_hits:
            rows, places, least = compute_accidental_hits(labels, sampled,
                                                          num_true)
            at = array_ops.stack([rows, math_ops.cast(places, dtypes.int32)],
                                 axis=1)
            logits += array_ops.sparse_to_dense(
                at, array_ops.stack([array_ops.shape(labels)[0], num_sampled]),
                math_ops.cast(least, logits.dtype), 0.0,
                validate_indices=False)
        if subtract_log_q:
            true_logits -= math_ops.cast(math_ops.log(of_true), logits.dtype)
            logits -= math_ops.cast(math_ops.log(of_sampled), logits.dtype)
        return (array_ops.concat([true_logits, logits], 1),
                array_ops.concat([array_ops.ones_like(true_logits) / num_true,
                                  array_ops.zeros_like(logits)], 1))


def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes,
             num_true=1, sampled_values=None, remove_accidental_hits=False,
             partition_strategy="mod", name="nce_loss"):
    """Computes the noise-contrastive estimation loss of each row.

    It speeds up training with many classes (Gutmann and Hyvarinen, 2010).
    """
    logits, targets = _compute_sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        sampled_values, True, remove_accidental_hits, partition_strategy, name)
    return math_ops.reduce_sum(nn.sigmoid_cross_entropy_with_logits(
        labels=targets, logits=logits, name="sampled_losses"), 1)


def sampled_softmax_loss(weights, biases, labels, inputs, num_sampled,
                         num_classes, num_true=1, sampled_values=None,
                         remove_accidental_hits=True, partition_strategy="mod",
                         name="sampled_softmax_loss", seed=None):
    """Computes the softmax cross-entropy over true and sampled classes.

    It speeds up training with many classes.
    """
    logits, targets = _compute_sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        sampled_values, True, remove_accidental_hits, partition_strategy, name,
        seed)
    return nn.softmax_cross_entropy_with_logits_v2(
        labels=array_ops.stop_gradient(targets), logits=logits)
