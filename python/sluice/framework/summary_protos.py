"""TensorFlow's messages of summaries, and of the events of a log."""

from sluice.framework.messages import Enumeration, Message, enumerate_in
from sluice.framework.protos import TensorProto


class SummaryDescription(Message):
    """What kind a summary is of."""


class HistogramProto(Message):
    """How many of some numbers are in which range, and what they sum up to."""


class SummaryMetadata(Message):
    """How a summary is to be shown."""

    class PluginData(Message):
        """What a plugin knows of it."""


class Summary(Message):
    """Values under their tags."""

    class Image(Message):
        """A picture, encoded."""

    class Audio(Message):
        """A sound, encoded."""

    class Value(Message):
        """A tag, and one of the kinds of values."""


class LogMessage(Message):
    """A line of a log."""


class SessionLog(Message):
    """That a session began, saved or ended."""


class TaggedRunMetadata(Message):
    """What was measured in a step, in its binary form."""


class SourceMetadata(Message):
    """What wrote a log."""


class Event(Message):
    """What happened at a time, in a step."""


SummaryDescription._declare(("type_hint", 1, "string"))
HistogramProto._declare(
    ("min", 1, "double"), ("max", 2, "double"), ("num", 3, "double"),
    ("sum", 4, "double"), ("sum_squares", 5, "double"),
    ("bucket_limit", 6, ["double"]), ("bucket", 7, ["double"]))
SummaryMetadata.PluginData._declare(("plugin_name", 1, "string"),
                                    ("content", 2, "bytes"))
SummaryMetadata._declare(
    ("plugin_data", 1, SummaryMetadata.PluginData),
    ("display_name", 2, "string"), ("summary_description", 3, "string"),
    ("data_class", 4, Enumeration({
        "DATA_CLASS_UNKNOWN": 0, "DATA_CLASS_SCALAR": 1,
        "DATA_CLASS_TENSOR": 2, "DATA_CLASS_BLOB_SEQUENCE": 3})))
Summary.Image._declare(
    ("height", 1, "int32"), ("width", 2, "int32"), ("colorspace", 3, "int32"),
    ("encoded_image_string", 4, "bytes"))
Summary.Audio._declare(
    ("sample_rate", 1, "float"), ("num_channels", 2, "int64"),
    ("length_frames", 3, "int64"), ("encoded_audio_string", 4, "bytes"),
    ("content_type", 5, "string"))
Summary.Value._declare(
    ("tag", 1, "string"), ("simple_value", 2, "float"),
    ("obsolete_old_style_histogram", 3, "bytes"), ("image", 4, Summary.Image),
    ("histo", 5, HistogramProto), ("audio", 6, Summary.Audio),
    ("node_name", 7, "string"), ("tensor", 8, TensorProto),
    ("metadata", 9, SummaryMetadata),
    value=("simple_value", "obsolete_old_style_histogram", "image", "histo",
           "audio", "tensor"))
Summary._declare(("value", 1, [Summary.Value]))
LogMessage._declare(
    ("level", 1, enumerate_in(LogMessage, "Level", UNKNOWN=0, DEBUGGING=10,
                              INFO=20, WARN=30, ERROR=40, FATAL=50)),
    ("message", 2, "string"))
SessionLog._declare(
    ("status", 1, enumerate_in(SessionLog, "SessionStatus",
                               STATUS_UNSPECIFIED=0, START=1, STOP=2,
                               CHECKPOINT=3)),
    ("checkpoint_path", 2, "string"), ("msg", 3, "string"))
TaggedRunMetadata._declare(("tag", 1, "string"), ("run_metadata", 2, "bytes"))
SourceMetadata._declare(("writer", 1, "string"))
Event._declare(
    ("wall_time", 1, "double"), ("step", 2, "int64"),
    ("file_version", 3, "string"), ("graph_def", 4, "bytes"),
    ("summary", 5, Summary), ("log_message", 6, LogMessage),
    ("session_log", 7, SessionLog),
    ("tagged_run_metadata", 8, TaggedRunMetadata),
    ("meta_graph_def", 9, "bytes"), ("source_metadata", 10, SourceMetadata),
    what=("file_version", "graph_def", "summary", "log_message", "session_log",
          "tagged_run_metadata", "meta_graph_def"))
