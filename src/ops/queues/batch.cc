#include "ops/queues/batch.h"

#include <algorithm>

#include "ops/common/elements.h"

namespace sluice::queues {

using array::At;
using array::DenseStrides;
using array::DimsOf;
using array::MakeShape;
using array::SpanOf;

namespace {

// Smaller rows cost less as copies.
constexpr size_t kLeastViewBytes = 256;

// Whether `t` keeps much more memory alive than its elements need. (Buffers are
// a little larger than asked for.)
bool KeepsMore(const Tensor& t) {
  return t.has_buffer() && t.buffer()->bytes() > 2 * t.bytes();
}

// The rows as one tensor of that shape, if they are consecutive in one buffer;
// else an invalid one.
Tensor Rejoined(const std::vector<Element>& elements, size_t c,
                const Shape& joined) {
  const Tensor& first = elements[0][c];
  const size_t bytes = first.bytes();
  if (bytes < kLeastViewBytes || !first.has_buffer() || first.borrowed() ||
      first.buffer()->bytes() > 2 * bytes * elements.size())
    return Tensor();
  const char* at = static_cast<const char*>(first.raw());
  for (const Element& e : elements) {
    if (!e[c].SharesBufferWith(first) || e[c].raw() != at) return Tensor();
    at += bytes;
  }
  first.buffer()->Ref();
  return Tensor(first.dtype(), joined, first.buffer(),
                const_cast<void*>(first.raw()));
}

}  // namespace

Status DetachRow(Tensor* component) {
  if (component->bytes() < kLeastViewBytes || !KeepsMore(*component))
    return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(*component, component->Clone());
  return OkStatus();
}

Result<std::vector<Element>> SplitBatch(const Element& batch,
                                        bool leave_in_order) {
  const int64_t count = batch[0].dim(0);
  std::vector<Element> elements(static_cast<size_t>(count));
  for (const Tensor& t : batch) {
    Dims row = DimsOf(t.shape());
    row.erase(row.begin());
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, MakeShape(row));
    if (count == 1) {
      SLUICE_ASSIGN_OR_RETURN(Tensor only, t.Reshaped(shape));
      elements[0].push_back(std::move(only));
      continue;
    }
    const bool views =
        leave_in_order && count > 0 && !KeepsMore(t) &&
        t.bytes() / static_cast<size_t>(count) >= kLeastViewBytes;
    for (int64_t i = 0; i < count; ++i) {
      void* const row =
          const_cast<void*>(At(t.dtype(), t.raw(), i * shape.num_elements()));
      if (views) {
        t.buffer()->Ref();
        elements[static_cast<size_t>(i)].emplace_back(t.dtype(), shape,
                                                      t.buffer(), row);
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(Tensor element, Tensor::Make(t.dtype(), shape));
      array::CopyRun(t.dtype(), row, element.raw(), shape.num_elements());
      elements[static_cast<size_t>(i)].push_back(std::move(element));
    }
  }
  return elements;
}

Result<Tensor> JoinComponent(const std::vector<Element>& elements, size_t c,
                             DType type, const PartialShape& shape, bool padded,
                             Allocator* allocator) {
  Dims extents;  // Of one element of the batch.
  if (elements.empty()) {
    for (int i = 0; shape.rank_known() && i < shape.rank(); ++i)
      extents.push_back(std::max<int64_t>(0, shape.dim(i)));
  } else {
    extents = DimsOf(elements[0][c].shape());
  }
  bool same = true;
  for (const Element& e : elements) {
    const Shape& s = e[c].shape();
    if (s == elements[0][c].shape()) continue;
    same = false;
    if (!padded || s.rank() != static_cast<int>(extents.size()))
      return InvalidArgument("component ", c, ": expected elements of shape ",
                             elements[0][c].shape().ToString(), ", got ",
                             s.ToString());
    for (int i = 0; i < s.rank(); ++i) {
      int64_t& extent = extents[static_cast<size_t>(i)];
      extent = std::max(extent, s.dim(i));
    }
  }
  Dims dims = extents;
  dims.insert(dims.begin(), static_cast<int64_t>(elements.size()));
  SLUICE_ASSIGN_OR_RETURN(const Shape joined, MakeShape(dims));
  if (same && !elements.empty())
    if (Tensor t = Rejoined(elements, c, joined); t.valid()) return t;
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(type, joined, allocator));
  const int64_t row =
      elements.empty()
          ? 0
          : joined.num_elements() / static_cast<int64_t>(elements.size());
  if (!same) array::ZeroRun(type, out.raw(), out.num_elements());
  const Dims strides = DenseStrides(SpanOf(extents));
  for (size_t i = 0; i < elements.size(); ++i) {
    const Tensor& t = elements[i][c];
    void* const to = At(type, out.raw(), static_cast<int64_t>(i) * row);
    if (same || t.rank() == 0) {
      array::CopyRun(type, t.raw(), to, t.num_elements());
      continue;
    }
    const Dims own = DimsOf(t.shape());
    array::CopyStrided(type, SpanOf(own), t.raw(),
                       SpanOf(DenseStrides(SpanOf(own))), to, SpanOf(strides));
  }
  return out;
}

}  // namespace sluice::queues
