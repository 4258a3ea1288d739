// One op per step, at three sizes: its time, the GFLOP/s or GB/s, and the share
// of this machine's peak. The calls are in op_calls.tsv, which op_peers.py also
// runs in the peers.
#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench.h"
#include "peaks.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr char kCalls[] =
#include "bench/op_calls.inc"
    ;

struct OpCall {
  std::string name, op, attrs, inputs;
};

// The time and work of one call.
struct OpTime {
  double seconds = 0;
  double flops = 0;  // 0: bound by `bytes`.
  double bytes = 0;
};

// "3", "[1,2]", "[[1,1],[2,2]]", "0.5": a constant.
Result<Tensor> ParseConstant(const std::string& text) {
  std::string digits;
  int64_t rows = 0, depth = 0, deepest = 0;
  for (const char c : text) {
    if (c == '[') {
      deepest = std::max(deepest, ++depth);
      rows += depth == 2;
    } else if (c == ']') {
      --depth;
      digits += ',';
    } else {
      digits += c;
    }
  }
  std::vector<double> values;
  for (const auto& field : absl::StrSplit(digits, ',', absl::SkipEmpty())) {
    double v = 0;
    if (!absl::SimpleAtod(field, &v))
      return InvalidArgument("op_calls: expected a number, got '", text, "'");
    values.push_back(v);
  }
  const auto n = static_cast<int64_t>(values.size());
  if (text.find('.') != std::string::npos)
    return Tensor::Scalar(static_cast<float>(values[0]));
  const Shape shape = deepest == 0   ? Shape()
                      : deepest == 1 ? Shape({n})
                                     : Shape({rows, n / rows});
  return Tensor::Of<int32_t>(
      shape, std::vector<int32_t>(values.begin(), values.end()));
}

// "f[16,64]", "f[8]+", "i[4096]<512", "=[0,1]".
Result<Tensor> MakeInput(const std::string& text, std::mt19937* random) {
  if (text[0] == '=') return ParseConstant(text.substr(1));
  const size_t end = text.find(']');
  Dims dims;
  for (const auto& d :
       absl::StrSplit(text.substr(2, end - 2), ',', absl::SkipEmpty())) {
    int64_t v = 0;
    if (!absl::SimpleAtoi(d, &v))
      return InvalidArgument("op_calls: expected a shape, got '", text, "'");
    dims.push_back(v);
  }
  const Shape shape({dims.data(), dims.size()});
  const std::string rest = text.substr(end + 1);
  const float low = rest == "+" ? 0.5f : -1.f;
  std::uniform_real_distribution<float> real(low, low + (rest == "+" ? 1 : 2));
  int64_t bound = 1 << 20;
  if (!rest.empty() && rest[0] == '<' &&
      !absl::SimpleAtoi(rest.substr(1), &bound))
    return InvalidArgument("op_calls: expected a bound, got '", text, "'");
  switch (text[0]) {
    case 'i': {
      Tensor t(DType::kInt32, shape);
      for (int32_t& v : t.flat<int32_t>())
        v = static_cast<int32_t>((*random)() % static_cast<uint64_t>(bound));
      return t;
    }
    case 'b': {
      Tensor t(DType::kBool, shape);
      for (bool& v : t.flat<bool>()) v = real(*random) > 0;
      return t;
    }
    case 'h': {
      Tensor t(DType::kBfloat16, shape);
      for (bfloat16& v : t.flat<bfloat16>()) v = bfloat16(real(*random));
      return t;
    }
    default: {
      Tensor t(DType::kFloat, shape);
      for (float& v : t.flat<float>()) v = real(*random);
      return t;
    }
  }
}

// "padding=SAME strides=[1,1,1,1] transpose_b=true DstT=int32".
Result<AttrMap> ParseAttrs(const std::string& text, const OpDef& op) {
  AttrMap attrs;
  for (const auto& field : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::string pair(field);
    const size_t eq = pair.find('=');
    const std::string name = pair.substr(0, eq), value = pair.substr(eq + 1);
    const AttrDef* a = op.FindAttr(name);
    if (a == nullptr)
      return InvalidArgument("op_calls: expected an attribute of ", op.name,
                             ", got '", name, "'");
    if (a->kind == AttrKind::kString) {
      attrs[name] = value;
    } else if (a->kind == AttrKind::kBool) {
      attrs[name] = value == "true";
    } else if (a->kind == AttrKind::kType) {
      const std::optional<DType> t = ParseDType(value);
      if (!t)
        return InvalidArgument("op_calls: expected a type, got '", value, "'");
      attrs[name] = *t;
    } else {
      SLUICE_ASSIGN_OR_RETURN(const Tensor t, ParseConstant(value));
      if (a->is_list)
        attrs[name] = AttrValue::Ints(t.data<int32_t>(),
                                      t.data<int32_t>() + t.num_elements());
      else
        attrs[name] = int64_t{t.scalar<int32_t>()};
    }
  }
  return attrs;
}

// Additions and multiplications; 0 for ops that mainly move data.
double Flops(const std::string& op, const std::vector<Tensor>& in,
             const Tensor& out) {
  const auto size = [](const Tensor& t) {
    return static_cast<double>(t.num_elements());
  };
  const auto last = [](const Tensor& t, int from_end) {
    return static_cast<double>(t.dim(t.rank() - from_end));
  };
  if (op == "MatMul" || op == "BatchMatMulV2")
    return 2 * size(out) * size(in[0]) /
           (size(out) / last(out, 1));  // Rows of in[0] are rows of out.
  if (op == "Conv2D") return 2 * size(out) * size(in[1]) / last(in[1], 1);
  if (op == "DepthwiseConv2dNative")
    return 2 * size(out) * size(in[1]) / last(out, 1);
  if (op == "Conv2DBackpropInput")
    return 2 * size(in[2]) * size(in[1]) / last(in[1], 1);
  if (op == "Conv2DBackpropFilter")
    return 2 * size(in[2]) * size(out) / last(out, 1);
  return 0;
}

Result<OpTime> MeasureCall(const OpCall& call) {
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op,
                          OpRegistry::Global()->Lookup(call.op));
  SLUICE_ASSIGN_OR_RETURN(AttrMap attrs, ParseAttrs(call.attrs, *op));
  Graph g;
  WithGraph use(g);
  std::mt19937 random(7);
  std::vector<Tensor> in, fed;
  std::vector<Output> args, feeds;
  OpTime m;
  for (const auto& field :
       absl::StrSplit(call.inputs, ' ', absl::SkipEmpty())) {
    const std::string text(field);
    SLUICE_ASSIGN_OR_RETURN(Tensor t, MakeInput(text, &random));
    m.bytes += static_cast<double>(t.num_elements()) *
               static_cast<double>(DTypeSize(t.dtype()));
    if (text[0] == '=') {
      args.push_back(Constant(t));
    } else {
      args.push_back(
          Build("Placeholder", {},
                {{"dtype", t.dtype()}, {"shape", PartialShape(t.shape())}}));
      feeds.push_back(args.back());
      fed.push_back(t);
    }
    in.push_back(std::move(t));
  }
  Node* n = BuildNode(call.op, args, attrs);
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable(feeds, {Output(n, 0)}));
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, step.Run(fed));
  m.bytes += static_cast<double>(out[0].num_elements()) *
             static_cast<double>(DTypeSize(out[0].dtype()));
  m.flops = Flops(call.op, in, out[0]);
  out.clear();
  int times = 1;  // Enough to take 5 ms.
  for (;; times *= 4) {
    const int64_t start = NowNs();
    for (int i = 0; i < times; ++i)
      SLUICE_RETURN_IF_ERROR(step.Run(fed).status());
    if (NowNs() - start > 5'000'000) break;
  }
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(7, [&]() -> Status {
                            for (int i = 0; i < times; ++i)
                              SLUICE_RETURN_IF_ERROR(step.Run(fed).status());
                            return OkStatus();
                          }));
  m.seconds = s / times;
  return m;
}

// Measures each call once, for all of its figures.
Result<OpTime> TimeOf(const OpCall& call) {
  static std::map<std::string, OpTime> known;
  const auto it = known.find(call.name);
  if (it != known.end()) return it->second;
  SLUICE_ASSIGN_OR_RETURN(const OpTime m, MeasureCall(call));
  known[call.name] = m;
  return m;
}

double PerSecond(const OpTime& m) {
  return (m.flops > 0 ? m.flops : m.bytes) / m.seconds;
}

void RegisterCall(const OpCall& call) {
  const std::string name = "ops." + call.name;
  Benches().push_back({name + ".us", [call]() -> Result<double> {
                         SLUICE_ASSIGN_OR_RETURN(const OpTime m, TimeOf(call));
                         return m.seconds * 1e6;
                       }});
  const bool computes = absl::StrContains(call.op, "MatMul") ||
                        absl::StrContains(call.op, "Conv2");
  Benches().push_back({name + (computes ? ".gflop_per_s" : ".gb_per_s"),
                       [call]() -> Result<double> {
                         SLUICE_ASSIGN_OR_RETURN(const OpTime m, TimeOf(call));
                         return PerSecond(m) * 1e-9;
                       }});
  Benches().push_back(
      {name + ".share_of_peak_per_s", [call]() -> Result<double> {
         SLUICE_ASSIGN_OR_RETURN(const OpTime m, TimeOf(call));
         const double peak =
             m.flops > 0 ? PeakFlopsPerSecond() : CopyBytesPerSecond();
         return PerSecond(m) / peak;
       }});
}

const bool op_calls_registered = [] {
  Benches().push_back({"ops.peak.gflop_per_s", []() -> Result<double> {
                         return PeakFlopsPerSecond() * 1e-9;
                       }});
  Benches().push_back({"ops.peak.copy_gb_per_s", []() -> Result<double> {
                         return CopyBytesPerSecond() * 1e-9;
                       }});
  for (const auto& line : absl::StrSplit(kCalls, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> f = absl::StrSplit(line, '\t');
    const char* sizes[] = {"small", "medium", "large"};
    for (size_t i = 0; i < 3 && f.size() == 6; ++i)
      RegisterCall({f[0] + "." + sizes[i], f[1], f[2], f[3 + i]});
  }
  return true;
}();

}  // namespace
}  // namespace sluice::bench
