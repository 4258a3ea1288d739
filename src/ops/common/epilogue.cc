#include "ops/common/epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/parallel.h"
#include "exec/core/error_attribution.h"
#include "graph/hidden_attributes.h"
#include "kernels/dnn/batch_norm.h"

namespace sluice {
namespace {

using simd::BinaryOp;
using simd::Operands;
using simd::UnaryOp;

// The size of a block that is processed while it is in the first-level cache.
constexpr int64_t kBlockBytes = 16 << 10;
// Rows with fewer channels are repeated until they are worth a call.
constexpr int64_t kShortRow = 512;

int64_t ExpectedArgs(const std::string& norm, bool add) {
  return (norm == "BiasAdd" ? 1 : norm.empty() ? 0 : 4) + (add ? 1 : 0);
}

}  // namespace

std::optional<UnaryOp> FusedActivation(const std::string& op) {
  static constexpr std::pair<const char*, UnaryOp> kAll[] = {
      {"Relu", UnaryOp::kRelu},         {"Relu6", UnaryOp::kRelu6},
      {"Elu", UnaryOp::kElu},           {"Selu", UnaryOp::kSelu},
      {"Sigmoid", UnaryOp::kSigmoid},   {"Tanh", UnaryOp::kTanh},
      {"Softplus", UnaryOp::kSoftplus}, {"Softsign", UnaryOp::kSoftsign},
  };
  for (const auto& [name, unary] : kAll)
    if (op == name) return unary;
  return std::nullopt;
}

Result<Epilogue> Epilogue::Read(const Node& n) {
  Epilogue e;
  using Strings = AttrValue::Strings;
  const auto ops = n.AttrOr<Strings>("fused_ops", {});
  size_t i = 0;
  if (i < ops.size() && (ops[i] == "BiasAdd" || ops[i] == "FusedBatchNorm"))
    e.norm_ = ops[i++];
  if (i < ops.size() && ops[i] == "Add") e.add_ = true, ++i;
  e.type_ = n.input_type(0);
  if (i < ops.size() && ops[i] == "LeakyRelu") {
    e.leaky_ = true, ++i;
  } else if (i < ops.size()) {
    if (const auto op = FusedActivation(ops[i])) {
      e.activation_ = simd::GetUnary(*op, e.type_);
      if (!e.activation_) return NoKernelFor(n, e.type_);
      ++i;
    }
  }
  if (i < ops.size())
    return Unimplemented(
        "fused_ops: expected [BiasAdd or FusedBatchNorm], [Add], [one of Relu, "
        "Relu6, Elu, Selu, LeakyRelu, Sigmoid, Tanh, Softplus, Softsign], got ",
        absl::StrJoin(ops, ", "));
  e.num_args_ = n.num_inputs() - 2;
  if (n.IntAttr("num_args") != e.num_args_ ||
      e.num_args_ != ExpectedArgs(e.norm_, e.add_))
    return InvalidArgument("num_args: expected ", ExpectedArgs(e.norm_, e.add_),
                           " for fused_ops [", absl::StrJoin(ops, ", "),
                           "], got ", n.IntAttr("num_args"), " and ",
                           e.num_args_, " inputs");
  if (e.norm_ == "FusedBatchNorm" && e.type_ != DType::kFloat)
    return NoKernelFor(n, e.type_);
  for (int a = 2; a < n.num_inputs(); ++a)
    if (RemoveRef(n.input_type(a)) != RemoveRef(e.type_))
      return InvalidArgument("args[", a - 2, "]: expected type ",
                             DTypeName(e.type_), ", got ",
                             DTypeName(n.input_type(a)));
  e.epsilon_ = n.AttrOr<float>("epsilon", 1e-4f);
  e.alpha_ = n.AttrOr<float>("leakyrelu_alpha", 0.2f);
  e.plus_ = simd::GetBinary(BinaryOp::kAdd, e.type_);
  e.minus_ = simd::GetBinary(BinaryOp::kSub, e.type_);
  e.times_ = simd::GetBinary(BinaryOp::kMul, e.type_);
  if (!e.plus_) return NoKernelFor(n, e.type_);
  e.size_ = DTypeSize(e.type_);
  e.grain_ =
      std::max(1, e.activation_ ? std::min(e.plus_.grain, e.activation_.grain)
                                : e.plus_.grain);
  e.from_ = n.AttrOr<Strings>(kFusedFromAttr, {});
  return e;
}

Status Epilogue::Attribute(Status s, size_t op) const {
  return op < from_.size() ? AttributedTo(std::move(s), from_[op]) : s;
}

Status Epilogue::Check(KernelContext& ctx, const Shape& shape,
                       int64_t channels) const {
  SLUICE_RETURN_IF_ERROR(Attribute(CheckVectors(ctx, channels), 1));
  if (add_ && ctx.input(1 + num_args_).shape() != shape)
    return Attribute(
        InvalidArgument("sum: expected the product's shape ", shape.ToString(),
                        ", got ", ctx.input(1 + num_args_).shape().ToString()),
        norm_.empty() ? 1 : 2);
  return OkStatus();
}

Status Epilogue::CheckVectors(KernelContext& ctx, int64_t channels) const {
  for (int a = 0; a < num_args_ - (add_ ? 1 : 0); ++a) {
    const Tensor& v = ctx.input(2 + a);
    if (v.rank() == 1 && v.dim(0) == channels) continue;
    return InvalidArgument(
        norm_ == "BiasAdd" ? "bias" : absl::StrCat("input ", a + 1),
        ": expected a vector of ", channels,
        " elements, one a channel, got shape ", v.shape().ToString());
  }
  return OkStatus();
}

void Epilogue::Run(KernelContext& ctx, int64_t before, int64_t channels,
                   int64_t after) const {
  if (empty() || before * channels * after == 0) return;
  Operations ops;
  std::optional<Statistics> statistics;
  std::vector<float> slope;
  if (norm_ == "BiasAdd") {
    ops.push_back({plus_, ctx.input(2).raw()});
  } else if (!norm_.empty()) {
    const float* scale = ctx.input(2).raw<float>();
    const float* variance = ctx.input(5).raw<float>();
    slope.resize(static_cast<size_t>(channels));
    for (size_t c = 0; c < slope.size(); ++c)
      slope[c] = scale[c] / std::sqrt(variance[c] + epsilon_);
    statistics = {ctx.input(4).raw<float>(), slope.data(),
                  ctx.input(3).raw<float>()};
  }
  const auto* side =
      add_ ? static_cast<const char*>(ctx.input(1 + num_args_).raw()) : nullptr;
  auto* out = static_cast<char*>(ctx.output(0).raw());
  // (As in ops/nn/norm.cc, to give the same bits.)
  if (after == 1) {
    RunRows(ops, statistics ? &*statistics : nullptr, side, before, channels,
            out);
    return;
  }
  if (statistics) {
    ops.push_back({minus_, statistics->mean});
    ops.push_back({times_, statistics->slope});
    ops.push_back({plus_, statistics->offset});
  }
  RunPlanes(ops, side, before * channels, channels, after, out);
}

// Applies the remaining operations to n consecutive elements.
void Epilogue::Finish(char* out, const char* side, int64_t n) const {
  if (side != nullptr) plus_.fn(Operands::kVectorVector, out, side, out, n);
  if (leaky_)
    simd::LeakyRelu(type_, alpha_, out, out, n);
  else if (activation_)
    activation_.fn(out, out, n);
}

void Epilogue::RunRows(const Operations& ops, const Statistics* statistics,
                       const char* side, int64_t rows, int64_t channels,
                       char* out) const {
  const auto size = static_cast<int64_t>(size_);
  const int64_t repeats = std::clamp<int64_t>(kShortRow / channels, 1, rows);
  const auto row_bytes = static_cast<size_t>(channels * size);
  std::vector<std::vector<char>> repeated;
  std::vector<const void*> values;
  for (const PerChannel& op : ops) {
    values.push_back(op.values);
    if (repeats == 1) continue;
    std::vector<char>& r =
        repeated.emplace_back(row_bytes * static_cast<size_t>(repeats));
    for (int64_t i = 0; i < repeats; ++i)
      std::memcpy(&r[static_cast<size_t>(i) * row_bytes], op.values, row_bytes);
    values.back() = r.data();
  }
  const int64_t block =
      std::max(repeats, kBlockBytes / (channels * size) / repeats * repeats);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += block) {
      const int64_t last = std::min(end, row + block);
      const int64_t offset = row * channels * size;
      if (statistics != nullptr) {
        auto* at = reinterpret_cast<float*>(out + offset);
        dnn::Normalize({last - row, channels}, at, statistics->mean,
                       statistics->slope, statistics->offset, at);
      }
      for (size_t i = 0; i < ops.size(); ++i)
        for (int64_t r = row; r < last; r += repeats) {
          char* at = out + r * channels * size;
          ops[i].op.fn(Operands::kVectorVector, at, values[i], at,
                       std::min(repeats, last - r) * channels);
        }
      Finish(out + offset, side == nullptr ? nullptr : side + offset,
             (last - row) * channels);
    }
  };
  ParallelFor(rows, std::max<int64_t>(1, grain_ / channels), run);
}

void Epilogue::RunPlanes(const Operations& ops, const char* side,
                         int64_t planes, int64_t channels, int64_t after,
                         char* out) const {
  const auto size = static_cast<int64_t>(size_);
  const int64_t block = kBlockBytes / size;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t value = plane % channels * size;
      for (int64_t i = 0; i < after; i += block) {
        const int64_t offset = (plane * after + i) * size;
        const int64_t n = std::min(block, after - i);
        for (const PerChannel& op : ops)
          op.op.fn(Operands::kVectorScalar, out + offset,
                   static_cast<const char*>(op.values) + value, out + offset,
                   n);
        Finish(out + offset, side == nullptr ? nullptr : side + offset, n);
      }
    }
  };
  ParallelFor(planes, std::max<int64_t>(1, grain_ / after), run);
}

}  // namespace sluice
