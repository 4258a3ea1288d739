#include "cluster/services/step_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/tensor_proto.h"

namespace sluice {
namespace {

// Of TensorProtos in one message, if the others can be sent in parts.
constexpr size_t kMostTogether = size_t{256} << 20;

size_t BytesOfElements(const Tensor& t) {
  return static_cast<size_t>(t.num_elements()) * DTypeSize(t.dtype());
}

}  // namespace

Status SentValues::Add(
    std::span<const Tensor> values,
    google::protobuf::RepeatedPtrField<std::string>* message) {
  size_t together = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor& t = values[i];
    std::string& bytes = *message->Add();
    if (t.valid() && IsPlain(t.dtype())) {
      const size_t size = BytesOfElements(t);
      if (size > kPartBytes || (size > 0 && together + size > kMostTogether)) {
        values_.push_back({static_cast<uint32_t>(i), t});
        continue;
      }
    }
    SLUICE_ASSIGN_OR_RETURN(bytes, SerializeTensorProto(t));
    together += bytes.size();
  }
  return OkStatus();
}

bool SentValues::Next(proto::ValuePart* part) {
  if (values_.empty()) return false;
  Value& v = values_.front();
  part->set_value(v.number);
  if (v.sent == 0) {
    part->set_dtype(static_cast<int>(v.tensor.dtype()));
    for (int i = 0; i < v.tensor.rank(); ++i)
      part->add_dim(v.tensor.shape().dim(i));
  }
  const size_t size = BytesOfElements(v.tensor);
  const size_t count = std::min(kPartBytes, size - v.sent);
  part->set_elements(static_cast<const char*>(v.tensor.raw()) + v.sent, count);
  v.sent += count;
  if (v.sent == size) values_.pop_front();
  return true;
}

void ReceivedValues::Add(const proto::ValuePart& part) {
  if (failed_.ok()) failed_ = AddPart(part);
  if (!failed_.ok()) values_.clear();
}

Status ReceivedValues::AddPart(const proto::ValuePart& part) {
  Value& v = values_[part.value()];
  if (part.dtype() != 0) {
    if (v.tensor.valid())
      return InvalidArgument("value ", part.value(),
                             ": expected it once, got it again");
    SLUICE_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(part.dtype()));
    if (IsRef(dtype) || !IsPlain(dtype))
      return InvalidArgument("value ", part.value(),
                             ": expected plain elements in parts, got ",
                             DTypeName(dtype));
    SLUICE_ASSIGN_OR_RETURN(
        const Shape shape,
        Shape::Make({part.dim().data(), static_cast<size_t>(part.dim_size())}));
    SLUICE_ASSIGN_OR_RETURN(v.tensor, Tensor::Make(dtype, shape));
  }
  if (!v.tensor.valid())
    return InvalidArgument("value ", part.value(),
                           ": expected its shape in the first part, got none");
  const std::string& from = part.elements();
  if (from.empty() || from.size() > BytesOfElements(v.tensor) - v.received)
    return InvalidArgument("value ", part.value(), ": expected at most ",
                           BytesOfElements(v.tensor) - v.received,
                           " further bytes and at least one, got ",
                           from.size());
  char* const to = static_cast<char*>(v.tensor.raw()) + v.received;
  if (v.tensor.dtype() == DType::kBool)  // (Others than 0 and 1 are undefined.)
    std::transform(from.begin(), from.end(), to,
                   [](char c) { return static_cast<char>(c != 0); });
  else
    std::memcpy(to, from.data(), from.size());
  v.received += from.size();
  return OkStatus();
}

Result<std::vector<Tensor>> ReceivedValues::Take(
    const google::protobuf::RepeatedPtrField<std::string>& message) {
  auto in_parts = std::exchange(values_, {});
  SLUICE_RETURN_IF_ERROR(std::exchange(failed_, OkStatus()));
  std::vector<Tensor> values(static_cast<size_t>(message.size()));
  size_t used = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& bytes = message.Get(static_cast<int>(i));
    if (!bytes.empty()) {
      SLUICE_ASSIGN_OR_RETURN(values[i], ParseTensorProto(bytes));
      continue;
    }
    const auto it = in_parts.find(static_cast<uint32_t>(i));
    if (it == in_parts.end() ||
        it->second.received != BytesOfElements(it->second.tensor))
      return DataLoss("value ", i, ": expected all of its parts, got ",
                      it == in_parts.end() ? 0 : it->second.received, " bytes");
    values[i] = std::move(it->second.tensor);
    ++used;
  }
  if (used != in_parts.size())
    return InvalidArgument("values: expected parts of ", used, ", got of ",
                           in_parts.size());
  return values;
}

}  // namespace sluice
