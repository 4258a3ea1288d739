#include "kernels/dnn/matmul_bf16.h"

#include <compare>
#include <dnnl.hpp>
#include <map>

#include "kernels/dnn/threads.h"

namespace sluice::dnn {
namespace {

constexpr auto kBf16 = dnnl::memory::data_type::bf16;
// A call costs 3 us at least.
constexpr int64_t kWorthACall = 48 * 48 * 48;
// The number of shapes whose primitives a thread keeps.
constexpr size_t kKept = 64;

bool HasInstructions() {
  static const bool yes = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    constexpr auto kWanted =
        static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
    return (isa & kWanted) == kWanted;
  }();
  return yes;
}

// Never destroyed: threads may end after static objects are destroyed.
const dnnl::engine& Engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

struct Key {
  int64_t m, n, k;
  bool turned_a, turned_b, accumulate;
  int threads;
  auto operator<=>(const Key&) const = default;
};

// A primitive and its operands, whose pointers are set for each execution.
struct Product {
  explicit Product(const Key& s) {
    using Desc = dnnl::memory::desc;
    using Dims = dnnl::memory::dims;
    const Desc a_desc({s.m, s.k}, kBf16,
                      s.turned_a ? Dims{1, s.m} : Dims{s.k, 1});
    const Desc b_desc({s.k, s.n}, kBf16,
                      s.turned_b ? Dims{1, s.k} : Dims{s.n, 1});
    const Desc c_desc({s.m, s.n}, kBf16, Dims{s.n, 1});
    dnnl::primitive_attr attr;
    if (s.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attr.set_post_ops(sum);
    }
    primitive = dnnl::matmul({{a_desc, b_desc, c_desc}, attr, Engine()});
    a = dnnl::memory(a_desc, Engine(), nullptr);
    b = dnnl::memory(b_desc, Engine(), nullptr);
    c = dnnl::memory(c_desc, Engine(), nullptr);
  }

  dnnl::matmul primitive;
  dnnl::memory a, b, c;
  dnnl::stream stream{Engine()};
};

}  // namespace

bool GemmByBf16(const GemmShape& s, const bfloat16* a, const bfloat16* b,
                bfloat16* c) {
  if (s.m * s.n * s.k < kWorthACall || !HasInstructions()) return false;
  const Key key = {s.m,
                   s.n,
                   s.k,
                   s.trans_a != Trans::kNone,
                   s.trans_b != Trans::kNone,
                   s.accumulate,
                   UseIntraOpThreads()};
  thread_local std::map<Key, Product> kept;
  try {
    auto at = kept.find(key);
    if (at == kept.end()) {
      if (kept.size() == kKept) kept.clear();
      at = kept.emplace(key, Product(key)).first;
    }
    Product& p = at->second;
    p.a.set_data_handle(const_cast<bfloat16*>(a));
    p.b.set_data_handle(const_cast<bfloat16*>(b));
    p.c.set_data_handle(c);
    p.primitive.execute(
        p.stream,
        {{DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, p.b}, {DNNL_ARG_DST, p.c}});
    p.stream.wait();
    return true;
  } catch (const dnnl::error&) {
    return false;  // Out of memory, for example; nothing was written yet.
  }
}

}  // namespace sluice::dnn
