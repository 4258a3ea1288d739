#include "summary/event_digest.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/tensor_proto.h"
#include "io/records.h"
#include "summary/proto/summary.pb.h"

namespace sluice {
namespace {

// The only element of a numeric tensor.
std::optional<double> OnlyElement(const proto::TensorProto& p) {
  TensorProtoLimits limits{.expansion_bytes = 64};
  const Result<Tensor> t = TensorFromProto(p, &limits);
  if (!t.ok() || t->num_elements() != 1) return std::nullopt;
  switch (t->dtype()) {
    case DType::kFloat:
      return t->flat<float>()[0];
    case DType::kDouble:
      return t->flat<double>()[0];
    case DType::kInt32:
      return t->flat<int32_t>()[0];
    case DType::kInt64:
      return static_cast<double>(t->flat<int64_t>()[0]);
    default:
      return std::nullopt;
  }
}

std::string KindOf(const proto::Summary::Value& v) {
  const std::string& plugin = v.metadata().plugin_data().plugin_name();
  if (plugin == "scalars" || plugin == "histograms" || plugin == "images")
    return plugin.substr(0, plugin.size() - 1);
  if (!plugin.empty()) return plugin;
  switch (v.value_case()) {
    case proto::Summary::Value::kSimpleValue:
      return "scalar";
    case proto::Summary::Value::kHisto:
      return "histogram";
    case proto::Summary::Value::kImage:
      return "image";
    case proto::Summary::Value::kAudio:
      return "audio";
    case proto::Summary::Value::kTensor:
      return "tensor";
    default:
      return "unknown";
  }
}

void AddScalar(double x, TagDigest* to) {
  to->last = x;
  if (std::isnan(x)) {
    ++to->nans;
  } else if (std::isinf(x)) {
    ++to->infinities;
  } else {
    to->least = to->has_scalars ? std::min(to->least, x) : x;
    to->most = to->has_scalars ? std::max(to->most, x) : x;
    to->has_scalars = true;
  }
}

void AddValue(const proto::Event& event, const proto::Summary::Value& v,
              TagDigest* to) {
  // (Later values of a tag may omit the metadata.)
  if (to->count++ == 0) {
    to->kind = KindOf(v);
    to->first_step = to->last_step = event.step();
    to->first_time = to->last_time = event.wall_time();
  }
  to->first_step = std::min<int64_t>(to->first_step, event.step());
  to->last_step = std::max<int64_t>(to->last_step, event.step());
  to->first_time = std::min(to->first_time, event.wall_time());
  to->last_time = std::max(to->last_time, event.wall_time());
  if (v.value_case() == proto::Summary::Value::kSimpleValue)
    AddScalar(v.simple_value(), to);
  else if (to->kind == "scalar" && v.has_tensor())
    if (const std::optional<double> x = OnlyElement(v.tensor()))
      AddScalar(*x, to);
}

void AddEvent(const proto::Event& event, EventDigest* to) {
  if (to->events++ == 0) to->first_time = to->last_time = event.wall_time();
  to->first_time = std::min(to->first_time, event.wall_time());
  to->last_time = std::max(to->last_time, event.wall_time());
  switch (event.what_case()) {
    case proto::Event::kSummary:
      for (const proto::Summary::Value& v : event.summary().value())
        AddValue(event, v, &to->tags[v.tag()]);
      break;
    case proto::Event::kGraphDef:
    case proto::Event::kMetaGraphDef:
      ++to->graphs;
      break;
    case proto::Event::kLogMessage:
      ++to->logs;
      break;
    case proto::Event::kSessionLog:
      ++to->sessions;
      break;
    case proto::Event::kTaggedRunMetadata:
      ++to->profiles;
      break;
    default:
      break;
  }
}

}  // namespace

Result<EventDigest> DigestEvents(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const auto records, RecordReader::Open(path));
  EventDigest digest;
  for (;;) {
    const int64_t at = records->offset();
    std::string_view bytes;
    const Status s = records->Read(&bytes);
    digest.bytes = at;
    if (s.code() == StatusCode::kOutOfRange) return digest;
    if (!s.ok()) {
      digest.unfinished = records->ended_early();
      digest.damage = s;
      return digest;
    }
    proto::Event event;
    if (bytes.size() > INT32_MAX ||
        !event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      digest.damage = DataLoss("file '", path, "' at byte ", at,
                               ": expected an Event, got ", bytes.size(),
                               " malformed bytes");
      return digest;
    }
    AddEvent(event, &digest);
  }
}

}  // namespace sluice
