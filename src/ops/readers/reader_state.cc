#include "ops/readers/reader_state.h"

#include "base/wire.h"

namespace sluice::readers {
namespace {

// Fields. The first four are TensorFlow's, the others our own; all are in
// states that programs keep.
enum StateField : uint32_t {
  kWorkStarted = 1,
  kWorkFinished = 2,
  kRecordsProduced = 3,
  kCurrentWork = 4,
  kOffset = 101,
  kNumber = 102,
};

void AppendStateVarint(uint64_t v, std::string* out) {
  for (; v >= 0x80; v >>= 7) out->push_back(static_cast<char>(v | 0x80));
  out->push_back(static_cast<char>(v));
}
void AppendStateTag(StateField field, WireType type, std::string* out) {
  AppendStateVarint(field << 3 | static_cast<uint32_t>(type), out);
}

}  // namespace

std::string ReaderState::Serialize() const {
  std::string out;
  const auto append = [&out](StateField field, int64_t v, bool always = false) {
    if (v == 0 && !always) return;
    AppendStateTag(field, WireType::kVarint, &out);
    AppendStateVarint(static_cast<uint64_t>(v), &out);
  };
  append(kWorkStarted, work_started);
  append(kWorkFinished, work_finished);
  append(kRecordsProduced, records_produced);
  if (!current_work.empty()) {
    AppendStateTag(kCurrentWork, WireType::kBytes, &out);
    AppendStateVarint(current_work.size(), &out);
    out += current_work;
  }
  if (position) {
    append(kOffset, position->offset, /*always=*/true);
    append(kNumber, position->number);
  }
  return out;
}

std::optional<ReaderState> ReaderState::Parse(std::string_view bytes) {
  ReaderState state;
  FieldReader r(bytes);
  WireTag tag;
  while (r.ReadTag(&tag)) {
    uint64_t number = 0;
    std::string_view text;
    if (tag.type == WireType::kVarint) {
      if (!r.ReadVarint(&number)) return std::nullopt;
    } else if (tag.type == WireType::kBytes) {
      if (!r.ReadBytes(&text)) return std::nullopt;
    } else if (!r.Skip(tag)) {
      return std::nullopt;
    }
    const auto v = static_cast<int64_t>(number);
    const auto position = [&state]() -> FilePosition& {
      return state.position ? *state.position : state.position.emplace();
    };
    if (tag.Is(kWorkStarted, WireType::kVarint)) state.work_started = v;
    if (tag.Is(kWorkFinished, WireType::kVarint)) state.work_finished = v;
    if (tag.Is(kRecordsProduced, WireType::kVarint)) state.records_produced = v;
    if (tag.Is(kCurrentWork, WireType::kBytes)) state.current_work = text;
    if (tag.Is(kOffset, WireType::kVarint)) position().offset = v;
    if (tag.Is(kNumber, WireType::kVarint)) position().number = v;
  }
  if (!r.done()) return std::nullopt;
  return state;
}

}  // namespace sluice::readers
