"""Variables that start from another model's checkpoint."""

import collections
import logging
import re

from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops.partitioned import PartitionedVariable
from sluice.training.checkpoint_readers import (
    _path_of, _starts_from, init_from_checkpoint)

_log = logging.getLogger("sluice")


class VocabInfo(collections.namedtuple("VocabInfo", [
        "new_vocab", "new_vocab_size", "num_oov_buckets", "old_vocab",
        "old_vocab_size", "backup_initializer", "axis"])):
    """How the words change that the rows of a matrix stand for.

    Args:
      new_vocab: the file of the new vocabulary, a word in each line.
      new_vocab_size: how many words of it count.
      num_oov_buckets: the number of rows behind those, for other words.
      old_vocab: the file of the checkpoint's vocabulary.
      old_vocab_size: how many words of it count; -1 for all.
      backup_initializer: makes the values of what is not in the checkpoint,
        instead of zeros.
      axis: 0 if words are rows, 1 if they are columns.
    """

    __slots__ = ()

    def __new__(cls, new_vocab, new_vocab_size, num_oov_buckets, old_vocab,
                old_vocab_size=-1, backup_initializer=None, axis=0):
        if axis not in (0, 1):
            raise ValueError(f"The only supported values for the axis argument "
                             f"are 0 and 1.  Provided axis: {axis}")
        return super().__new__(cls, new_vocab, new_vocab_size, num_oov_buckets,
                               old_vocab, old_vocab_size, backup_initializer,
                               axis)


def _described(vocab):
    """Returns what `_core.saved_value` takes."""
    initializer = vocab.backup_initializer
    return (vocab.new_vocab, vocab.new_vocab_size, vocab.num_oov_buckets,
            vocab.old_vocab, vocab.old_vocab_size, vocab.axis,
            initializer and (lambda shape, dtype: convert_to_tensor(
                initializer(shape, dtype=dtype))))


def _matching(key, patterns):
    return [v for v in graphs.get_collection(key)
            if any(re.match(p, name) for p in patterns
                   for name in (v.op.name, v.name))]


def _wanted(variables, vocabs):
    """Returns the variables to start; parts are separate ones."""
    if variables is None:
        return [v for v in graphs.get_collection(GraphKeys.TRAINABLE_VARIABLES)
                if _name_of(v) in vocabs]
    if isinstance(variables, str):
        return _matching(GraphKeys.TRAINABLE_VARIABLES, [variables])
    if all(isinstance(v, str) for v in variables):
        return _matching(GraphKeys.GLOBAL_VARIABLES, variables)
    found = []
    for v in variables:
        found += list(v) if isinstance(v, (list, tuple,
                                           PartitionedVariable)) else [v]
    if not all(hasattr(v, "initializer") for v in found):
        raise ValueError(f"vars_to_warm_start must be a regular expression, a "
                         f"list of these or of variables, or None, got "
                         f"{variables!r}")
    return found


def _name_of(variable):
    info = variable._save_slice_info
    return variable.op.name if info is None else info.full_name


def warm_start(ckpt_to_initialize_from, vars_to_warm_start=".*",
               var_name_to_vocab_info=None, var_name_to_prev_var_name=None):
    """Makes variables start with the values of another model's checkpoint.

    Their initializers read it; call this before the operations that run all
    initializers are made.

    Args:
      ckpt_to_initialize_from: the checkpoint, or a folder with checkpoints.
      vars_to_warm_start: a regular expression for the start of the names of
        trainable variables ("v", or "v:0"); a list of those for all global
        variables; a list of variables; or None for the trainable variables in
        `var_name_to_vocab_info`.
      var_name_to_vocab_info: a dict from names of variables (of wholes, not of
        parts) to the `VocabInfo`s of those whose words change.
      var_name_to_prev_var_name: a dict from names of variables to their names
        in the checkpoint, where these are others.

    Raises:
      ValueError: if a dict has names that are not used, if the checkpoint does
        not have a variable, or if a shape does not fit.
    """
    vocabs = var_name_to_vocab_info or {}
    names = var_name_to_prev_var_name or {}
    parts = {}
    for v in _wanted(vars_to_warm_start, vocabs):
        parts.setdefault(_name_of(v), []).append(v)
    for what, given in (("var_name_to_prev_var_name", names),
                        ("var_name_to_vocab_info", vocabs)):
        unused = set(given) - set(parts)
        if unused:
            raise ValueError(f"You provided the following variables in {what} "
                             f"that were not used: {unused}.  Perhaps you "
                             f"misspelled them?  Here is the list of viable "
                             f"variable names: {list(parts)}")
    path = _path_of(ckpt_to_initialize_from)
    as_they_are = []
    for name, variables in parts.items():
        old = names.get(name, name)
        if name in vocabs:
            _starts_from(variables, path, old, _described(vocabs[name]))
        else:
            as_they_are.append((old, variables if variables[0]._save_slice_info
                                else variables[0]))
    if as_they_are:
        init_from_checkpoint(path, as_they_are)
    _log.info("Warm-started %d variables.", len(parts))
