// The state of a reader as bytes: TensorFlow's message ReaderBaseState.
#ifndef SLUICE_OPS_READERS_READER_STATE_H_
#define SLUICE_OPS_READERS_READER_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::readers {

// A place between two records of a file.
struct FilePosition {
  int64_t offset = 0;  // In bytes, decompressed.
  int64_t number = 0;  // Of the lines or records before it.
};

struct ReaderState {
  int64_t work_started = 0, work_finished = 0, records_produced = 0;
  std::string current_work;  // The last that was begun.
  // Where it is read, if it is not finished. Not in TensorFlow's message, whose
  // readers have a state only between two files.
  std::optional<FilePosition> position;

  std::string Serialize() const;
  // Nullopt if the bytes are not a message. Unknown fields are left out.
  static std::optional<ReaderState> Parse(std::string_view bytes);
};

}  // namespace sluice::readers

#endif  // SLUICE_OPS_READERS_READER_STATE_H_
