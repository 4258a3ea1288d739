#include "exec/devices/late_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/core/stream_allocator.h"

namespace sluice {
namespace {

constexpr char kPoison = '\xff';
// Of blocks that were never written: a kernel that writes zeros changes them.
constexpr char kNew = '\xa5';

}  // namespace

// Owns one block of the allocator of the computed bytes.
class LateMemory::Block final : public Buffer {
 public:
  Block(Buffer* computed, std::shared_ptr<Contents> contents)
      : Buffer(computed->data(), computed->bytes(),
               Traits{.host_memory = false}),
        computed_(computed),
        contents_(std::move(contents)) {}
  const std::shared_ptr<Contents>& contents() const { return contents_; }

 private:
  ~Block() override {
    contents_->computed = nullptr;
    computed_->Unref();
  }
  Buffer* const computed_;
  const std::shared_ptr<Contents> contents_;
};

LateMemory::LateMemory(int64_t max_bytes)
    : Allocator(/*host_memory=*/false), computed_(max_bytes, 0) {}

Result<Buffer*> LateMemory::Allocate(size_t bytes) {
  SLUICE_ASSIGN_OR_RETURN(Buffer * computed, computed_.Allocate(bytes));
  std::memset(computed->data(), kNew, computed->bytes());
  auto contents = std::make_shared<Contents>();
  contents->computed = static_cast<const char*>(computed->data());
  contents->now.assign(computed->bytes(), kPoison);
  contents->issued = std::make_shared<const Bytes>(computed->bytes(), kNew);
  std::erase_if(blocks_, [](const auto& block) { return block.expired(); });
  blocks_.push_back(contents);
  return new Block(computed, std::move(contents));
}

std::shared_ptr<LateMemory::Contents> LateMemory::Of(const Tensor& t,
                                                     size_t* offset) {
  const StreamBuffer* const buffer = StreamBuffer::Of(t);
  const auto* const block =
      buffer == nullptr ? nullptr : dynamic_cast<Block*>(buffer->raw());
  if (block == nullptr) return nullptr;
  *offset = static_cast<size_t>(t.raw<char>() - block->contents()->computed);
  return block->contents();
}

bool LateMemory::Contents::Changed() {
  if (computed == nullptr ||
      std::memcmp(computed, issued->data(), issued->size()) == 0)
    return false;
  issued = std::make_shared<const Bytes>(computed, computed + now.size());
  return true;
}

bool LateMemory::Read(const Tensor& from, Tensor* to) {
  size_t offset;
  const std::shared_ptr<Contents> block = Of(from, &offset);
  if (block == nullptr) return false;
  std::memcpy(to->raw(), block->now.data() + offset, from.bytes());
  return true;
}

// ---- Work -------------------------------------------------------------------

bool LateWork::Part::intact() const {
  return std::equal(bytes->data() + begin, bytes->data() + end,
                    block->now.data() + begin);
}

void LateWork::Reads(const Tensor& t) {
  size_t offset;
  if (auto block = LateMemory::Of(t, &offset)) {
    auto bytes = block->issued;
    reads_.push_back(
        {std::move(block), std::move(bytes), offset, offset + t.bytes()});
  }
}

void LateWork::Writes(const Tensor& t) {
  size_t offset;
  if (const auto block = LateMemory::Of(t, &offset)) {
    block->Changed();
    AddWrite(block);
  }
}

void LateWork::WritesWhatChanged(LateMemory& memory) {
  for (const auto& weak : memory.blocks_)
    if (const auto block = weak.lock(); block != nullptr && block->Changed())
      AddWrite(block);
}

void LateWork::AddWrite(const std::shared_ptr<Contents>& block) {
  for (const Part& w : writes_)
    if (w.block == block) return;
  writes_.push_back({block, block->issued, 0, block->now.size()});
}

bool LateWork::ReadsFrom(const Contents* block) const {
  return std::any_of(reads_.begin(), reads_.end(),
                     [block](const Part& r) { return r.block.get() == block; });
}

void LateWork::Enqueue(EmulatedClock& clock, int64_t start, int64_t end) && {
  const auto work = std::make_shared<LateWork>(std::move(*this));
  const auto intact = std::make_shared<bool>(true);
  const auto check = [work, intact] {
    for (const Part& r : work->reads_) *intact = *intact && r.intact();
  };
  clock.At(start, [work, check] {
    check();
    for (const Part& w : work->writes_)
      if (!work->ReadsFrom(w.block.get()))
        std::fill(w.block->now.begin(), w.block->now.end(), kPoison);
  });
  clock.At(end, [work, check, intact] {
    check();
    for (const Part& w : work->writes_) {
      if (*intact)
        w.block->now = *w.bytes;
      else
        std::fill(w.block->now.begin(), w.block->now.end(), kPoison);
    }
  });
}

}  // namespace sluice
