#include "tools/board/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/tensor_proto.h"
#include "tools/board/graph_view.h"
#include "tools/board/projection.h"
#include "tools/board/timeline.h"

namespace sluice::board {
namespace {

using nlohmann::json;

constexpr int kBuckets = 60;        // Of a drawn histogram.
constexpr size_t kMostCells = 400;  // Of a text.
constexpr size_t kMostCellBytes = 100'000;

// Of all tensors of an answer, beyond the bytes of their records: a few bytes
// may describe a large tensor of one repeated value.
constexpr TensorProtoLimits kTensorLimits{.expansion_bytes = int64_t{64} << 20};

struct Bucket {
  double low, high, count;
};

// The buckets of a histogram, empty ones at its ends left out. The first and
// the last bucket of a HistogramProto reach far beyond its values.
Result<std::vector<Bucket>> BucketsOf(const proto::Summary::Value& v,
                                      TensorProtoLimits* limits) {
  std::vector<Bucket> buckets;
  if (v.has_tensor()) {  // [buckets, 3]: low, high, count.
    SLUICE_ASSIGN_OR_RETURN(const Tensor t,
                            TensorFromProto(v.tensor(), limits));
    if (t.shape().rank() != 2 || t.shape().dim(1) != 3 ||
        (t.dtype() != DType::kDouble && t.dtype() != DType::kFloat))
      return InvalidArgument("tag '", v.tag(),
                             "': expected a histogram double[n,3], got ",
                             DTypeName(t.dtype()), t.shape().ToString());
    for (int64_t i = 0; i < t.shape().dim(0); ++i) {
      double row[3];
      for (int64_t c = 0; c < 3; ++c)
        row[c] = t.dtype() == DType::kDouble ? t.flat<double>()[3 * i + c]
                                             : t.flat<float>()[3 * i + c];
      buckets.push_back({row[0], row[1], row[2]});
    }
  } else {
    const proto::HistogramProto& h = v.histo();
    if (h.bucket_size() != h.bucket_limit_size())
      return InvalidArgument("tag '", v.tag(),
                             "': expected as many buckets as "
                             "limits, got ",
                             h.bucket_size(), " and ", h.bucket_limit_size());
    double low = h.min();
    for (int i = 0; i < h.bucket_size(); ++i) {
      const double high = std::min(h.bucket_limit(i), h.max());
      if (h.bucket(i) > 0)
        buckets.push_back(
            {std::max(low, h.min()), std::max(low, high), h.bucket(i)});
      low = h.bucket_limit(i);
    }
  }
  std::erase_if(buckets, [](const Bucket& b) {
    return !std::isfinite(b.low) || !std::isfinite(b.high) || !(b.count > 0) ||
           b.high < b.low;
  });
  return buckets;
}

// Adds the count of each bucket to those of equal width that it overlaps.
std::vector<double> Spread(const std::vector<Bucket>& buckets, double low,
                           double high) {
  std::vector<double> counts(kBuckets, 0);
  // How many widths a value is above `low`. (The difference of two numbers may
  // overflow, that of their halves cannot. If the width underflows, the
  // quotient is infinite or NaN.)
  const double half_width = (high / 2 - low / 2) / kBuckets;
  const auto position = [&](double v) {
    const double p = (v / 2 - low / 2) / half_width;
    return p > 0 ? std::min<double>(p, kBuckets) : 0.0;
  };
  const auto index = [](double p) {
    return std::min(static_cast<int>(p), kBuckets - 1);
  };
  for (const Bucket& b : buckets) {
    const double from = position(b.low), to = position(b.high);
    const int first = index(from), last = index(to);
    if (first == last) {
      counts[static_cast<size_t>(first)] += b.count;
      continue;
    }
    for (int i = first; i <= last; ++i) {
      const double begin = std::max<double>(from, i);
      const double end = i == last ? to : i + 1;
      counts[static_cast<size_t>(i)] += b.count * ((end - begin) / (to - from));
    }
  }
  return counts;
}

// The type of known files; others, which might be active, are not shown.
std::string TypeOf(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("GIF8")) return "image/gif";
  if (bytes.starts_with("BM")) return "image/bmp";
  if (bytes.starts_with("RIFF")) return "audio/wav";
  if (bytes.starts_with("OggS")) return "audio/ogg";
  if (bytes.starts_with("fLaC")) return "audio/flac";
  if (bytes.starts_with("ID3")) return "audio/mpeg";
  return "application/octet-stream";
}

// The encoded images or sounds of a value.
Result<std::vector<std::string>> FilesOf(const proto::Summary::Value& v,
                                         TensorProtoLimits* limits) {
  std::vector<std::string> files;
  if (v.has_image()) {
    files.push_back(v.image().encoded_image_string());
  } else if (v.has_audio()) {
    files.push_back(v.audio().encoded_audio_string());
  } else {
    SLUICE_ASSIGN_OR_RETURN(const Tensor t,
                            TensorFromProto(v.tensor(), limits));
    if (t.dtype() != DType::kString)
      return InvalidArgument("tag '", v.tag(), "': expected strings, got ",
                             DTypeName(t.dtype()));
    // Images are [width, height, image...], sounds [n, 2] with a label each.
    const auto strings = t.flat<std::string>();
    if (t.shape().rank() == 2)
      for (int64_t i = 0; i < t.num_elements(); i += t.shape().dim(1))
        files.push_back(strings[i]);
    else
      for (int64_t i = 2; i < t.num_elements(); ++i)
        files.push_back(strings[i]);
  }
  return files;
}

Result<StoredValue> ValueAt(const EventLog& log, TagKind kind,
                            const std::string& run, const std::string& tag,
                            size_t index) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StoredValue> values,
                          log.Values(kind, run, tag));
  if (index >= values.size())
    return InvalidArgument("index: expected less than ", values.size(),
                           ", got ", index);
  return values[index];
}

json StepJson(const StoredValue& v) {
  return {{"step", v.step}, {"wall", NumberJson(v.wall_time)}};
}

Result<Tensor> TensorOf(const StoredValue& at, const std::string& tag) {
  Tensor tensor;
  TensorProtoLimits limits = kTensorLimits;
  SLUICE_RETURN_IF_ERROR(ReadEvents(
      {at}, [&](const StoredValue&, const proto::Event& e) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const proto::Summary::Value* v,
                                FindValue(e, tag));
        SLUICE_ASSIGN_OR_RETURN(tensor, TensorFromProto(v->tensor(), &limits));
        return OkStatus();
      }));
  return tensor;
}

// What the tensor's elements are called: strings, integers.
std::vector<std::string> LabelsOf(const Tensor& t) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (t.dtype() == DType::kString)
      labels.push_back(t.flat<std::string>()[i].substr(0, 100));
    else if (t.dtype() == DType::kInt32)
      labels.push_back(absl::StrCat(t.flat<int32_t>()[i]));
    else if (t.dtype() == DType::kInt64)
      labels.push_back(absl::StrCat(t.flat<int64_t>()[i]));
  }
  return labels;
}

}  // namespace

json NumberJson(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

json StateJson(const EventLog& log) {
  const LogState state = log.State();
  json runs = json::array();
  for (const RunState& r : state.runs) {
    json tags = json::object();
    for (const TagState& t : r.tags) {
      json tag = {{"version", t.version}, {"values", t.values}};
      if (!t.display_name.empty()) tag["name"] = t.display_name;
      if (!t.description.empty()) tag["description"] = t.description;
      tags[TagKindName(t.kind)][t.name] = std::move(tag);
    }
    runs.push_back({{"name", r.name},
                    {"files", r.files},
                    {"first_wall", NumberJson(r.first_wall_time)},
                    {"last_wall", NumberJson(r.last_wall_time)},
                    {"last_step", r.last_step},
                    {"graph", r.graph_version},
                    {"tags", std::move(tags)},
                    {"problems", r.problems}});
  }
  return {{"version", state.version},
          {"folder", log.folder()},
          {"loading", state.loading},
          {"problem", state.problem},
          {"runs", std::move(runs)}};
}

Result<json> ScalarsJson(const EventLog& log, const std::string& tag,
                         const std::vector<std::string>& runs) {
  json found = json::object();
  Status last = InvalidArgument("run: expected at least one, got none");
  for (const std::string& run : runs) {
    const Result<std::vector<Scalar>> points = log.Scalars(run, tag);
    if (!points.ok()) {
      last = points.status();
      continue;
    }
    json steps = json::array(), walls = json::array(), values = json::array();
    for (const Scalar& p : *points) {
      steps.push_back(p.step);
      walls.push_back(NumberJson(p.wall_time));
      values.push_back(NumberJson(p.value));
    }
    found[run] = {{"step", std::move(steps)},
                  {"wall", std::move(walls)},
                  {"value", std::move(values)}};
  }
  if (found.empty()) return last;
  return json{{"runs", std::move(found)}};
}

Result<json> HistogramsJson(const EventLog& log, const std::string& run,
                            const std::string& tag) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StoredValue> values,
                          log.Values(TagKind::kHistograms, run, tag));
  std::vector<std::vector<Bucket>> all;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  TensorProtoLimits limits = kTensorLimits;
  SLUICE_RETURN_IF_ERROR(ReadEvents(
      values, [&](const StoredValue&, const proto::Event& e) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const proto::Summary::Value* v,
                                FindValue(e, tag));
        SLUICE_ASSIGN_OR_RETURN(all.emplace_back(), BucketsOf(*v, &limits));
        for (const Bucket& b : all.back()) {
          low = std::min(low, b.low);
          high = std::max(high, b.high);
        }
        return OkStatus();
      }));
  if (!(low <= high)) low = high = 0;  // All are empty.
  if (!(high > low)) {
    const double around = std::max(std::abs(low) * 1e-3, 1e-12);
    low -= around;
    high += around;
  }
  json rows = json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    json row = StepJson(values[i]);
    row["counts"] = Spread(all[i], low, high);
    rows.push_back(std::move(row));
  }
  return json{{"low", low}, {"high", high}, {"rows", std::move(rows)}};
}

Result<json> ValuesJson(const EventLog& log, TagKind kind,
                        const std::string& run, const std::string& tag) {
  if (kind == TagKind::kScalars)
    return InvalidArgument("kind: expected another than scalars");
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StoredValue> values,
                          log.Values(kind, run, tag));
  const bool files = kind == TagKind::kImages || kind == TagKind::kAudio;
  json list = json::array();
  TensorProtoLimits limits = kTensorLimits;
  if (!files) {
    for (const StoredValue& v : values) list.push_back(StepJson(v));
    return json{{"values", std::move(list)}};
  }
  SLUICE_RETURN_IF_ERROR(ReadEvents(
      values, [&](const StoredValue& at, const proto::Event& e) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const proto::Summary::Value* v,
                                FindValue(e, tag));
        SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                                FilesOf(*v, &limits));
        json value = StepJson(at);
        value["parts"] = parts.size();
        if (v->has_image()) {
          value["width"] = v->image().width();
          value["height"] = v->image().height();
        }
        if (v->has_audio()) {
          value["rate"] = NumberJson(v->audio().sample_rate());
          value["frames"] = v->audio().length_frames();
        }
        list.push_back(std::move(value));
        return OkStatus();
      }));
  return json{{"values", std::move(list)}};
}

Result<Blob> BlobOf(const EventLog& log, TagKind kind, const std::string& run,
                    const std::string& tag, size_t index, size_t part) {
  if (kind != TagKind::kImages && kind != TagKind::kAudio)
    return InvalidArgument("kind: expected images or audio, got ",
                           TagKindName(kind));
  SLUICE_ASSIGN_OR_RETURN(const StoredValue at,
                          ValueAt(log, kind, run, tag, index));
  Blob blob;
  TensorProtoLimits limits = kTensorLimits;
  SLUICE_RETURN_IF_ERROR(ReadEvents(
      {at}, [&](const StoredValue&, const proto::Event& e) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const proto::Summary::Value* v,
                                FindValue(e, tag));
        SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> parts,
                                FilesOf(*v, &limits));
        if (part >= parts.size())
          return InvalidArgument("part: expected less than ", parts.size(),
                                 ", got ", part);
        blob.bytes = std::move(parts[part]);
        return OkStatus();
      }));
  blob.type = TypeOf(blob.bytes);
  return blob;
}

Result<json> TextJson(const EventLog& log, const std::string& run,
                      const std::string& tag) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StoredValue> values,
                          log.Values(TagKind::kText, run, tag));
  json list = json::array();
  TensorProtoLimits limits = kTensorLimits;
  SLUICE_RETURN_IF_ERROR(ReadEvents(
      values, [&](const StoredValue& at, const proto::Event& e) -> Status {
        SLUICE_ASSIGN_OR_RETURN(const proto::Summary::Value* v,
                                FindValue(e, tag));
        SLUICE_ASSIGN_OR_RETURN(const Tensor t,
                                TensorFromProto(v->tensor(), &limits));
        if (t.dtype() != DType::kString)
          return InvalidArgument("tag '", tag, "': expected strings, got ",
                                 DTypeName(t.dtype()));
        json value = StepJson(at);
        value["shape"] = json::array();
        for (int i = 0; i < t.shape().rank(); ++i)
          value["shape"].push_back(t.shape().dim(i));
        value["cells"] = json::array();
        const auto n =
            std::min<size_t>(kMostCells, static_cast<size_t>(t.num_elements()));
        for (size_t i = 0; i < n; ++i)
          value["cells"].push_back(
              t.flat<std::string>()[static_cast<int64_t>(i)].substr(
                  0, kMostCellBytes));
        list.push_back(std::move(value));
        return OkStatus();
      }));
  return json{{"values", std::move(list)}};
}

Result<json> ProjectionJson(const EventLog& log, const std::string& run,
                            const std::string& tag, size_t index) {
  SLUICE_ASSIGN_OR_RETURN(const StoredValue at,
                          ValueAt(log, TagKind::kTensors, run, tag, index));
  SLUICE_ASSIGN_OR_RETURN(const Tensor t, TensorOf(at, tag));
  SLUICE_ASSIGN_OR_RETURN(const Projection p, ProjectRows(t));
  std::vector<std::string> labels;
  for (const TagKind kind : {TagKind::kText, TagKind::kTensors}) {
    const std::string name = absl::StrCat(tag, "/labels");
    const Result<std::vector<StoredValue>> found = log.Values(kind, run, name);
    if (!found.ok() || found->empty()) continue;
    const Result<Tensor> names = TensorOf(found->back(), name);
    if (names.ok() && names->num_elements() == t.shape().dim(0))
      labels = LabelsOf(*names);
    labels.resize(std::min(labels.size(), p.x.size()));
  }
  return json{{"x", p.x},
              {"y", p.y},
              {"variance", {p.x_variance, p.y_variance}},
              {"rows_left_out", p.rows_left_out},
              {"columns", t.shape().dim(1)},
              {"labels", std::move(labels)}};
}

Result<json> GraphJson(const EventLog& log, const std::string& run) {
  SLUICE_ASSIGN_OR_RETURN(const std::string graph, log.Graph(run));
  SLUICE_ASSIGN_OR_RETURN(const GraphView view, ViewGraph(graph));
  json boxes = json::array(), nodes = json::array(), edges = json::array();
  for (const ViewBox& b : view.boxes)
    boxes.push_back({{"outer", b.outer},
                     {"kind", b.kind},
                     {"label", b.label},
                     {"title", b.title}});
  for (const ViewNode& n : view.nodes)
    nodes.push_back({{"box", n.box},
                     {"name", n.name},
                     {"op", n.op},
                     {"device", n.device},
                     {"kind", n.kind},
                     {"line", n.line}});
  for (const ViewEdge& e : view.edges)
    edges.push_back({{"from", e.from},
                     {"to", e.to},
                     {"control", e.control},
                     {"back", e.back},
                     {"value", e.value}});
  return json{{"boxes", std::move(boxes)},
              {"nodes", std::move(nodes)},
              {"edges", std::move(edges)},
              {"left_out", view.left_out}};
}

Result<json> TimelineJson(const EventLog& log, const std::string& run,
                          const std::string& tag, size_t index) {
  SLUICE_ASSIGN_OR_RETURN(const StoredValue at,
                          ValueAt(log, TagKind::kProfiles, run, tag, index));
  Timeline t;
  SLUICE_RETURN_IF_ERROR(ReadEvents(
      {at}, [&](const StoredValue&, const proto::Event& e) -> Status {
        SLUICE_ASSIGN_OR_RETURN(
            t, TimelineOf(e.tagged_run_metadata().run_metadata()));
        return OkStatus();
      }));
  json rows = json::array();
  for (const TimelineRow& r : t.rows) {
    json bars = json::array();
    for (const TimelineBar& b : r.bars)
      bars.push_back({b.start_us, b.us, b.node, b.op, b.output_bytes});
    rows.push_back({{"device", r.device},
                    {"thread", r.thread},
                    {"bars", std::move(bars)}});
  }
  return json{{"us", t.us},
              {"step", at.step},
              {"rows", std::move(rows)},
              {"left_out", t.left_out}};
}

}  // namespace sluice::board
