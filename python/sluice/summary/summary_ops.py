"""Operations that make summaries: named values that TensorBoard shows.

    tf.summary.scalar("loss", loss)
    merged = tf.summary.merge_all()
    with tf.summary.FileWriter("logs", session.graph) as writer:
        writer.add_summary(session.run(merged), step)
"""

import contextlib
import logging
import re

from sluice import _core
from sluice.framework import dtypes, graph as graphs, protos
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import GraphKeys

_log = logging.getLogger("sluice")
_op = _core.op


def _clean(name):
    """Returns a tag with "_" for the characters that a name must not have."""
    if name is None:
        return None
    cleaned = re.sub(r"[^-/\w\.]", "_", name).lstrip("/")
    if cleaned != name:
        _log.info("Summary name %s is illegal; using %s instead.", name,
                     cleaned)
    return cleaned


@contextlib.contextmanager
def _scope(name, family=None, values=None):
    """Enters the name scope of a summary; returns its tag and the scope."""
    name, family = _clean(name), _clean(family)
    scope_name = name if family is None else f"{family}/{name}"
    with graphs.name_scope(scope_name, None, values) as scope:
        tag = scope.rstrip("/")
        # The part before the first "/" is the group in which it is shown.
        yield (tag if family is None else f"{family}/{tag}"), scope


def _collect(summary, collections, default=GraphKeys.SUMMARIES):
    keys = [default] if collections is None else collections
    for key in keys:
        graphs.add_to_collection(key, summary)
    return summary


def scalar(name, tensor, collections=None, family=None):
    """Makes a summary of a number.

    Args:
      name: the tag, made unique by the name scopes it is in.
      tensor: a scalar of a real type.
      collections: the collections to add it to, instead of
        `GraphKeys.SUMMARIES`.
      family: the group in which it is shown.

    Returns:
      A string scalar: the serialised Summary.
    """
    with _scope(name, family, [tensor]) as (tag, scope):
        made = _op("ScalarSummary")(tag, tensor, name=scope)
    return _collect(made, collections)


def histogram(name, values, collections=None, family=None):
    """Makes a summary of how the elements of a tensor are distributed.

    A step fails if an element is not finite. See `scalar`.
    """
    with _scope(name, family, [values]) as (tag, scope):
        made = _op("HistogramSummary")(tag, values, name=scope)
    return _collect(made, collections)


def image(name, tensor, max_outputs=3, collections=None, family=None):
    """Makes a summary of images.

    Args:
      tensor: [batch, height, width, channels] with 1, 3 or 4 channels, of
        uint8 or floats, which are scaled for each image.
      max_outputs: the number of images of the batch that are shown.

    See `scalar`.
    """
    with _scope(name, family, [tensor]) as (tag, scope):
        made = _op("ImageSummary")(tag, tensor, max_images=max_outputs,
                   name=scope)
    return _collect(made, collections)


def audio(name, tensor, sample_rate, max_outputs=3, collections=None,
          family=None):
    """Makes a summary of sounds.

    Args:
      tensor: float32, [batch, frames, channels] or [batch, frames], from -1
        to 1.
      sample_rate: in hertz.
      max_outputs: the number of sounds of the batch that can be played.

    See `scalar`.
    """
    with _scope(name, family, [tensor]) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtype=dtypes.float32,
                                 name="sample_rate")
        made = _op("AudioSummaryV2")(tag, tensor, rate, max_outputs=max_outputs,
                   name=scope)
    return _collect(made, collections)


def tensor_summary(name, tensor, summary_description=None, collections=None,
                   summary_metadata=None, family=None, display_name=None):
    """Makes a summary of any tensor.

    Args:
      summary_description: a text about it, in Markdown.
      summary_metadata: a SummaryMetadata, which says what shows it.
      display_name: the name that is shown instead of the tag.

    See `scalar`.
    """
    metadata = protos.SummaryMetadata()
    if summary_metadata is not None:
        metadata.MergeFromString(summary_metadata.SerializeToString())
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with _scope(name, family, [tensor]) as (tag, scope):
        made = _op("TensorSummaryV2")(tag, tensor,
                   metadata.SerializeToString(), name=scope)
    return _collect(made, collections)


def text(name, tensor, collections=None):
    """Makes a summary of strings, shown as Markdown. See `scalar`.

    Raises:
      ValueError: if `tensor` does not hold strings.
    """
    tensor = convert_to_tensor(tensor)
    if tensor.dtype != dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, "
                         f"got {tensor.dtype}")
    metadata = protos.SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    return tensor_summary(name, tensor, summary_metadata=metadata,
                          collections=collections)


def merge(inputs, collections=None, name=None):
    """Merges summaries into one.

    A step fails if two of them have the same tag.

    Args:
      inputs: string tensors: serialised Summaries.
      collections: the collections to add it to; none by default.
    """
    inputs = list(inputs)
    with graphs.name_scope(_clean(name), "Merge", inputs):
        made = _op("MergeSummary")(inputs, name=_clean(name))
    return _collect(made, [] if collections is None else collections)


def merge_all(key=GraphKeys.SUMMARIES, scope=None, name=None):
    """Merges the summaries of a collection; returns None if there are none.

    Args:
      key: the collection.
      scope: a pattern that their names must match at the start, or None.
    """
    found = graphs.get_collection(key, scope=scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def):
    """Returns the SummaryDescription of a node that TensorSummary made.

    Raises:
      ValueError: if it is another operation.
    """
    if node_def.op != "TensorSummary":
        raise ValueError("Can't get_summary_description on %s" % node_def.op)
    from google.protobuf import json_format
    description = protos.SummaryDescription()
    json_format.Parse(node_def.attr["description"].s.decode(), description)
    return description
