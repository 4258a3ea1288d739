"""Initial values from matrices of a checkpoint with other vocabularies."""

import math

from sluice import _core
from sluice.framework import dtypes
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, init_ops, math_ops

_op = _core.op


def _check_files(old, new, what):
    """Returns whether there are vocabularies, which come in pairs."""
    if bool(old) != bool(new):
        raise ValueError(f"old_{what}_vocab_file and new_{what}_vocab_file "
                         f"must both be specified or left unspecified. "
                         f"old_{what}_vocab_file='{old}', "
                         f"new_{what}_vocab_file='{new}'")
    return bool(old)


def load_and_remap_matrix(
        ckpt_path, old_tensor_name, new_row_vocab_offset, num_rows_to_load,
        new_col_vocab_size, initializer, old_row_vocab_size=-1,
        old_row_vocab_file=None, new_row_vocab_file=None,
        old_col_vocab_file=None, new_col_vocab_file=None,
        num_row_oov_buckets=0, num_col_oov_buckets=0, max_rows_in_memory=-1):
    """Loads a matrix whose rows, columns or both have new vocabularies.

    A vocabulary is a file of words, one a line, of a row or column each. Rows
    and columns of words that the old vocabulary lacks are new.

    Args:
      ckpt_path: the checkpoint.
      old_tensor_name: the name of the matrix there.
      new_row_vocab_offset: the line of the new vocabulary to begin with.
      num_rows_to_load: the number of rows, without those of unknown words.
      new_col_vocab_size: the number of columns, without those.
      initializer: a function of a shape, for what is new.
      old_row_vocab_size: how many lines of the old vocabulary count; -1: all.
      old_row_vocab_file, new_row_vocab_file: the vocabularies of rows, or None.
      old_col_vocab_file, new_col_vocab_file: those of columns, or None.
      num_row_oov_buckets, num_col_oov_buckets: how many rows and columns for
        unknown words follow.
      max_rows_in_memory: has no effect: only the rows that are needed are read.

    Returns:
      A float matrix.
    """
    for what, number in (("num_row_oov_buckets", num_row_oov_buckets),
                         ("num_col_oov_buckets", num_col_oov_buckets)):
        if number < 0:
            raise ValueError(f"{what} must be >= 0, but received {number}")
    new_rows = _check_files(old_row_vocab_file, new_row_vocab_file, "row")
    new_cols = _check_files(old_col_vocab_file, new_col_vocab_file, "col")
    if not new_rows and not new_cols:
        raise ValueError("Must provide either row or column vocab files. If no "
                         "remapping is necessary, consider using "
                         "`tf.train.init_from_checkpoint` instead.")
    rows_present, cols_present = num_rows_to_load, new_col_vocab_size
    if new_rows:
        rows, rows_present = _op("GenerateVocabRemapping")(
            new_row_vocab_file, old_row_vocab_file,
            new_vocab_offset=new_row_vocab_offset,
            num_new_vocab=num_rows_to_load, old_vocab_size=old_row_vocab_size)
    else:
        rows = math_ops.range(new_row_vocab_offset,
                              new_row_vocab_offset + num_rows_to_load,
                              dtype=dtypes.int64)
    if new_cols:
        cols, cols_present = _op("GenerateVocabRemapping")(
            new_col_vocab_file, old_col_vocab_file, new_vocab_offset=0,
            num_new_vocab=new_col_vocab_size)
    else:
        cols = convert_to_tensor([], dtypes.int64)
    new_values = initializer([
        num_rows_to_load * new_col_vocab_size - rows_present * cols_present, 1])
    matrix = _op("LoadAndRemapMatrix")(
        ckpt_path, old_tensor_name, rows, cols, new_values,
        num_rows=num_rows_to_load, num_cols=new_col_vocab_size,
        max_rows_in_memory=max_rows_in_memory)
    if num_row_oov_buckets > 0:
        matrix = array_ops.concat([matrix, convert_to_tensor(initializer(
            [num_row_oov_buckets, new_col_vocab_size]))], 0)
    if num_col_oov_buckets > 0:
        matrix = array_ops.concat([matrix, convert_to_tensor(initializer(
            [num_rows_to_load + num_row_oov_buckets, num_col_oov_buckets]))], 1)
    return matrix


def load_and_remap_matrix_initializer(
        ckpt_path, old_tensor_name, new_row_vocab_size, new_col_vocab_size,
        old_row_vocab_size=-1, old_row_vocab_file=None, new_row_vocab_file=None,
        old_col_vocab_file=None, new_col_vocab_file=None,
        num_row_oov_buckets=0, num_col_oov_buckets=0, initializer=None,
        max_rows_in_memory=-1):
    """Returns an initializer of `load_and_remap_matrix`.

    It is also one of partitioned variables. What is new is zero by default.

    Raises:
      TypeError: if `initializer` is not a function.
    """
    if initializer is None:
        initializer = init_ops.Zeros()
    if not callable(initializer):
        raise TypeError(f"initializer must be callable, instead of being "
                        f"{initializer} of type {type(initializer)}.")

    def make(shape, dtype=dtypes.float32, partition_info=None):
        shape = [int(n) for n in shape]
        whole = [new_row_vocab_size + num_row_oov_buckets,
                 new_col_vocab_size + num_col_oov_buckets]
        offset = 0
        if partition_info is not None:
            offset = partition_info.single_offset(shape)
        elif shape != whole:
            raise ValueError(f"For {old_tensor_name}: expected a variable of "
                             f"shape {whole}, got {shape}")
        if offset + shape[0] > whole[0]:
            raise ValueError(f"For {old_tensor_name}: trying to initialize "
                             f"rows {offset} to {offset + shape[0]} of "
                             f"{whole[0]}")
        if offset >= new_row_vocab_size:  # All rows are of unknown words.
            return initializer(shape)
        unknown = max(offset + shape[0] - new_row_vocab_size, 0)
        return load_and_remap_matrix(
            ckpt_path, old_tensor_name, offset, shape[0] - unknown,
            new_col_vocab_size, initializer, old_row_vocab_size,
            old_row_vocab_file, new_row_vocab_file, old_col_vocab_file,
            new_col_vocab_file, unknown, num_col_oov_buckets,
            max_rows_in_memory)

    return make


def load_embedding_initializer(
        ckpt_path, embedding_tensor_name, new_vocab_size, embedding_dim,
        old_vocab_file, new_vocab_file, old_vocab_size=-1, num_oov_buckets=0,
        initializer=None, max_rows_in_memory=-1):
    """Returns an initializer of a table of embeddings, a row for each word.

    See `load_and_remap_matrix`. New rows are truncated normal by default, with
    a standard deviation of 1 / sqrt(embedding_dim).
    """
    if initializer is None:
        initializer = init_ops.TruncatedNormal(
            stddev=1.0 / math.sqrt(embedding_dim))
    return load_and_remap_matrix_initializer(
        ckpt_path, embedding_tensor_name, new_vocab_size, embedding_dim,
        old_vocab_size, old_vocab_file, new_vocab_file,
        num_row_oov_buckets=num_oov_buckets, initializer=initializer,
        max_rows_in_memory=max_rows_in_memory)


def load_linear_multiclass_bias_initializer(
        ckpt_path, bias_tensor_name, new_class_vocab_size, old_class_vocab_file,
        new_class_vocab_file, num_class_oov_buckets=0, initializer=None,
        max_rows_in_memory=-1):
    """Returns an initializer of [classes, 1] biases; new ones are zero.

    See `load_and_remap_matrix`.
    """
    return load_and_remap_matrix_initializer(
        ckpt_path, bias_tensor_name, new_class_vocab_size, 1,
        old_row_vocab_file=old_class_vocab_file,
        new_row_vocab_file=new_class_vocab_file,
        num_row_oov_buckets=num_class_oov_buckets, initializer=initializer,
        max_rows_in_memory=max_rows_in_memory)


def load_variable_slot_initializer(primary_partition_info, *args, **kwargs):
    """Returns an initializer of an optimizer's slot.

    Args:
      primary_partition_info: the PartitionInfo of the part of the variable that
        the slot belongs to.
      args, kwargs: as of `load_and_remap_matrix_initializer`.
    """
    of_whole = load_and_remap_matrix_initializer(*args, **kwargs)

    def make(shape, dtype=dtypes.float32, partition_info=None):
        del partition_info  # A slot is not partitioned itself.
        return of_whole(shape, dtype, primary_partition_info)

    return make
