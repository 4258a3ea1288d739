#include "deploy/signature.h"

#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

Status AddValue(const char* what, const std::string& key, const Output& value,
                std::map<std::string, TensorInfo>* to) {
  if (!value.valid() || value.dtype() == DType::kInvalid)
    return InvalidArgument("signature: expected an output of a node as ", what,
                           " '", key, "', got ",
                           value.valid() ? value.name() : "none");
  (*to)[key] = TensorInfo::Of(value);
  return OkStatus();
}

Status CheckType(const char* what, const Output& value, DType dtype) {
  if (!value.valid())
    return InvalidArgument("signature: expected an output of a node as ", what,
                           ", got none");
  if (RemoveRef(value.dtype()) != dtype)
    return InvalidArgument("signature: expected ", what, " of type ",
                           DTypeName(dtype), ", got ", DTypeName(value.dtype()),
                           "; '", value.name(), "'");
  return OkStatus();
}

// Whether all of these are allowed, with their types.
Status CheckValues(const std::string& method, const char* what,
                   const std::map<std::string, TensorInfo>& values,
                   const std::map<std::string, DType>& allowed) {
  if (values.empty())
    return InvalidArgument("signature for '", method, "': expected ", what,
                           ", got none");
  for (const auto& [key, info] : values) {
    const auto it = allowed.find(key);
    if (it == allowed.end() || it->second != info.dtype) {
      std::string names;
      for (const auto& [name, dtype] : allowed)
        absl::StrAppend(&names, names.empty() ? "" : " or ", "'", name,
                        "' of type ", DTypeName(dtype));
      return InvalidArgument("signature for '", method, "': expected as ", what,
                             " ", names, ", got '", key, "' of type ",
                             DTypeName(info.dtype));
    }
  }
  return OkStatus();
}

}  // namespace

TensorInfo TensorInfo::Of(const Output& o) {
  TensorInfo info;
  if (!o.valid()) return info;
  info.name = o.name();
  info.dtype = RemoveRef(o.dtype());
  info.shape = o.shape();
  return info;
}

std::vector<TensorInfo::Part> TensorInfo::Parts() const {
  if (composite) return composite->parts;
  if (!sparse) return {{"", name, dtype, shape}};
  return {
      {"/values", sparse->values, dtype, PartialShape({-1})},
      {"/indices", sparse->indices, DType::kInt64, PartialShape({-1, -1})},
      {"/dense_shape", sparse->dense_shape, DType::kInt64, PartialShape({-1})}};
}

std::string TensorInfo::ToString() const {
  if (composite)
    return absl::StrJoin(
        composite->parts, ", ", [](std::string* out, const Part& p) {
          absl::StrAppend(out, absl::StripPrefix(p.suffix, "/"), " ",
                          DTypeName(p.dtype), p.shape.ToString(), " ", p.name);
        });
  return absl::StrCat(DTypeName(dtype), shape.ToString(), " ",
                      sparse
                          ? absl::StrCat(sparse->values, " ", sparse->indices,
                                         " ", sparse->dense_shape, " (sparse)")
                          : name);
}

Result<Signature> PredictSignature(
    const std::map<std::string, Output>& inputs,
    const std::map<std::string, Output>& outputs) {
  Signature made;
  for (const auto& [key, value] : inputs)
    SLUICE_RETURN_IF_ERROR(AddValue("input", key, value, &made.inputs));
  for (const auto& [key, value] : outputs)
    SLUICE_RETURN_IF_ERROR(AddValue("output", key, value, &made.outputs));
  SLUICE_RETURN_IF_ERROR(CheckSignature(made));
  return made;
}

Result<Signature> ClassifySignature(const Output& examples,
                                    const Output& classes,
                                    const Output& scores) {
  Signature made;
  made.method = kClassifyMethod;
  SLUICE_RETURN_IF_ERROR(CheckType("examples", examples, DType::kString));
  made.inputs["inputs"] = TensorInfo::Of(examples);
  if (!classes.valid() && !scores.valid())
    return InvalidArgument(
        "signature: expected classes, scores or both, got none");
  if (classes.valid()) {
    SLUICE_RETURN_IF_ERROR(CheckType("classes", classes, DType::kString));
    made.outputs["classes"] = TensorInfo::Of(classes);
  }
  if (scores.valid()) {
    SLUICE_RETURN_IF_ERROR(CheckType("scores", scores, DType::kFloat));
    made.outputs["scores"] = TensorInfo::Of(scores);
  }
  return made;
}

Result<Signature> RegressSignature(const Output& examples,
                                   const Output& predictions) {
  Signature made;
  made.method = kRegressMethod;
  SLUICE_RETURN_IF_ERROR(CheckType("examples", examples, DType::kString));
  SLUICE_RETURN_IF_ERROR(CheckType("predictions", predictions, DType::kFloat));
  made.inputs["inputs"] = TensorInfo::Of(examples);
  made.outputs["outputs"] = TensorInfo::Of(predictions);
  return made;
}

Status CheckSignature(const Signature& s) {
  if (s.method == kPredictMethod) {
    if (!s.inputs.empty() && !s.outputs.empty()) return OkStatus();
    return InvalidArgument("signature for '", s.method, "': expected ",
                           s.inputs.empty() ? "inputs" : "outputs",
                           ", got none");
  }
  const bool classify = s.method == kClassifyMethod;
  if (!classify && s.method != kRegressMethod) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      CheckValues(s.method, "inputs", s.inputs, {{"inputs", DType::kString}}));
  if (classify)
    return CheckValues(
        s.method, "outputs", s.outputs,
        {{"classes", DType::kString}, {"scores", DType::kFloat}});
  return CheckValues(s.method, "outputs", s.outputs,
                     {{"outputs", DType::kFloat}});
}

}  // namespace sluice
