#include "tools/sluice/replay_case.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/npy.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::json;

// These throw nlohmann's exceptions for missing fields and wrong types;
// LoadCase converts them to a Status.
ArrayDesc ParseDesc(const Json& j) {
  ArrayDesc d;
  d.key = j.at("key").get<std::string>();
  const auto dtype = j.at("dtype").get<std::string>();
  // An unknown dtype compares unequal to all known ones.
  d.dtype = ParseDType(dtype).value_or(DType::kInvalid);
  const auto dims = j.at("shape").get<std::vector<int64_t>>();
  if (Result<Shape> s = Shape::Make(dims); s.ok()) d.shape = *s;
  d.exact = !j.contains("rtol");
  d.rtol = j.value("rtol", 0.0);
  d.atol = j.value("atol", 0.0);
  return d;
}

FeedValue ParseFeed(const Json& j) {
  FeedValue v;
  if (j.contains("$tmp")) {
    v.kind = FeedValue::kTmpPath;
    v.path = j.at("$tmp").get<std::string>();
  } else if (j.contains("$case")) {
    v.kind = FeedValue::kCasePath;
    v.path = j.at("$case").get<std::string>();
  } else {
    v.array = ParseDesc(j);
  }
  return v;
}

RunStep ParseRun(const Json& j) {
  RunStep s;
  s.run = j.at("run").get<std::vector<std::string>>();
  for (const auto& [name, value] : j.at("feeds").items())
    s.feeds.emplace_back(name, ParseFeed(value));
  s.error = j.value("error", std::string());
  s.timeout_ms = j.value("timeout_ms", int64_t{0});
  s.expect.resize(s.run.size());
  if (s.error.empty()) {
    const Json& expect = j.at("expect");
    for (size_t i = 0; i < s.run.size(); ++i)
      if (!expect.at(i).is_null()) s.expect[i] = ParseDesc(expect.at(i));
  }
  return s;
}

CaseStep ParseStep(const Json& j) {
  CaseStep s;
  for (const char* kind : {"parallel", "partial"}) {
    if (!j.contains(kind)) continue;
    for (const Json& sub : j.at(kind)) s.steps.push_back(ParseRun(sub));
    s.kind = kind == std::string("partial") ? CaseStep::kPartial
                                            : CaseStep::kParallel;
  }
  if (s.kind == CaseStep::kRun) s.steps.push_back(ParseRun(j));
  if (s.kind == CaseStep::kPartial) {
    s.setup_fetches =
        j.at("setup").at("fetches").get<std::vector<std::string>>();
    s.setup_feeds = j.at("setup").at("feeds").get<std::vector<std::string>>();
  }
  return s;
}

WrittenCheckpoint ParseCheckpoint(const Json& j) {
  WrittenCheckpoint w;
  w.path = j.at("tmp").get<std::string>();
  w.after_step = j.at("after_step").get<size_t>();
  w.equals_step = j.at("equals_fetches_of_step").get<size_t>();
  w.names = j.at("names").get<std::vector<std::string>>();
  return w;
}

RecordedModel ParseModel(const Json& j) {
  using Names = std::map<std::string, std::string>;
  RecordedModel m;
  m.dir = j.at("dir").get<std::string>();
  m.signature = j.at("signature").get<std::string>();
  m.tags = j.at("tags").get<std::vector<std::string>>();
  m.like_step = j.at("expected_like_step").get<size_t>();
  m.inputs = j.at("inputs").get<Names>();
  m.outputs = j.at("outputs").get<Names>();
  return m;
}

// How many of a step's results are compared.
auto Compared(const RunStep& step) {
  return std::count_if(step.expect.begin(), step.expect.end(),
                       [](const ArrayDesc& d) { return !d.key.empty(); });
}

// The steps that the checks name are steps of the case, of the right kind, and
// expect something to compare with.
Status CheckStepsOfChecks(const RecordedCase& c) {
  const auto is_run = [&](size_t i) {
    return i < c.steps.size() && c.steps[i].kind == CaseStep::kRun;
  };
  if (const auto& w = c.writes_checkpoint; w.has_value()) {
    if (!is_run(w->after_step) || !is_run(w->equals_step) ||
        c.steps[w->equals_step].steps[0].expect.size() != w->names.size())
      return InvalidArgument(
          "meta.json: writes_checkpoint: expected the numbers of two steps and "
          "as many names as fetches of the second, got ",
          w->after_step, ", ", w->equals_step, " and ", w->names.size(),
          " names");
    if (Compared(c.steps[w->equals_step].steps[0]) == 0)
      return InvalidArgument(
          "meta.json: writes_checkpoint: expected a step with results to "
          "compare with, got step ",
          w->equals_step, ", which has none");
  }
  if (const auto& m = c.saved_model; m.has_value()) {
    if (!is_run(m->like_step))
      return InvalidArgument(
          "meta.json: saved_model: expected the number of a step, got ",
          m->like_step);
    const RunStep& like = c.steps[m->like_step].steps[0];
    const bool compares = std::any_of(
        m->outputs.begin(), m->outputs.end(), [&](const auto& output) {
          const auto at =
              std::find(like.run.begin(), like.run.end(), output.second);
          return at != like.run.end() &&
                 !like.expect[static_cast<size_t>(at - like.run.begin())]
                      .key.empty();
        });
    if (!compares)
      return InvalidArgument(
          "meta.json: saved_model: expected outputs of which step ",
          m->like_step, " has results, got none");
  }
  return OkStatus();
}

Status ParseMeta(const std::string& text, RecordedCase* c) {
  try {
    const Json meta = Json::parse(text);
    c->optional = meta.value("optional", false);
    c->devices = meta.value("devices", 1);
    c->graphs = {"graph.pb"};
    if (meta.contains("alt_graphs"))
      for (const auto& [file, note] : meta.at("alt_graphs").items())
        c->graphs.push_back(file);
    if (meta.contains("writes_checkpoint"))
      c->writes_checkpoint = ParseCheckpoint(meta.at("writes_checkpoint"));
    if (meta.contains("saved_model"))
      c->saved_model = ParseModel(meta.at("saved_model"));
    for (const Json& step : meta.at("steps"))
      c->steps.push_back(ParseStep(step));
  } catch (const Json::exception& e) {
    return InvalidArgument("meta.json: ", e.what());
  }
  return CheckStepsOfChecks(*c);
}

// String arrays are stored as their concatenated bytes and the length of each.
Result<Tensor> DecodeStrings(const std::map<std::string, Tensor>& arrays,
                             const ArrayDesc& desc) {
  const auto bytes = arrays.find(desc.key + "__bytes");
  const auto lens = arrays.find(desc.key + "__lens");
  if (bytes == arrays.end() || lens == arrays.end() ||
      bytes->second.dtype() != DType::kUint8 ||
      lens->second.dtype() != DType::kInt64 ||
      lens->second.num_elements() != desc.shape.num_elements())
    return InvalidArgument("array '", desc.key,
                           "': expected __bytes and __lens "
                           "for ",
                           desc.shape.num_elements(), " strings");
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(DType::kString, desc.shape));
  const auto* data = bytes->second.raw<char>();
  int64_t at = 0;
  const int64_t end = bytes->second.num_elements();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t n = lens->second.data<int64_t>()[i];
    if (n < 0 || n > end - at)
      return InvalidArgument("array '", desc.key, "': expected lengths within ",
                             end, " bytes, got ", n, " at ", at);
    t.data<std::string>()[i].assign(data + at, static_cast<size_t>(n));
    at += n;
  }
  return t;
}

}  // namespace

Result<RecordedCase> LoadCase(const std::string& dir) {
  RecordedCase c;
  c.dir = dir;
  while (c.dir.size() > 1 && c.dir.back() == '/') c.dir.pop_back();
  c.name = c.dir.substr(c.dir.rfind('/') + 1);
  SLUICE_ASSIGN_OR_RETURN(const std::string meta, ReadFile(dir + "/meta.json"));
  SLUICE_RETURN_IF_ERROR(ParseMeta(meta, &c));
  SLUICE_ASSIGN_OR_RETURN(c.feeds, ReadNpz(dir + "/feeds.npz"));
  SLUICE_ASSIGN_OR_RETURN(c.expected, ReadNpz(dir + "/expected.npz"));
  return c;
}

Result<Tensor> DecodeArray(const std::map<std::string, Tensor>& arrays,
                           const ArrayDesc& desc) {
  if (desc.dtype == DType::kString) return DecodeStrings(arrays, desc);
  const auto it = arrays.find(desc.key);
  if (it == arrays.end())
    return InvalidArgument("array '", desc.key,
                           "': expected it in the archive");
  Tensor t = it->second;
  // bfloat16 is stored as its bits.
  if (desc.dtype == DType::kBfloat16 && t.dtype() == DType::kUint16)
    t = t.BitcastTo(DType::kBfloat16);
  if (t.dtype() != desc.dtype)
    return InvalidArgument("array '", desc.key, "': expected ",
                           DTypeName(desc.dtype), ", got ",
                           DTypeName(t.dtype()));
  return t.Reshaped(desc.shape);
}

std::string PythonErrorName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "no error";
    case StatusCode::kCancelled:
      return "CancelledError";
    case StatusCode::kUnknown:
      return "UnknownError";
    case StatusCode::kInvalidArgument:
      return "InvalidArgumentError";
    case StatusCode::kDeadlineExceeded:
      return "DeadlineExceededError";
    case StatusCode::kNotFound:
      return "NotFoundError";
    case StatusCode::kAlreadyExists:
      return "AlreadyExistsError";
    case StatusCode::kPermissionDenied:
      return "PermissionDeniedError";
    case StatusCode::kUnauthenticated:
      return "UnauthenticatedError";
    case StatusCode::kResourceExhausted:
      return "ResourceExhaustedError";
    case StatusCode::kFailedPrecondition:
      return "FailedPreconditionError";
    case StatusCode::kAborted:
      return "AbortedError";
    case StatusCode::kOutOfRange:
      return "OutOfRangeError";
    case StatusCode::kUnimplemented:
      return "UnimplementedError";
    case StatusCode::kInternal:
      return "InternalError";
    case StatusCode::kUnavailable:
      return "UnavailableError";
    case StatusCode::kDataLoss:
      return "DataLossError";
    default:
      return "UnknownError";
  }
}

}  // namespace sluice::cli
