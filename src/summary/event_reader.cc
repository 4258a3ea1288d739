#include "summary/event_reader.h"

#include <utility>

namespace sluice {

Status EventReader::Read(std::string_view* event) {
  SLUICE_RETURN_IF_ERROR(failed_);
  if (records_ == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(records_, RecordReader::Open(path_));
    const Status s = records_->SkipTo(offset_);
    if (!s.ok()) {
      records_ = nullptr;
      return s;
    }
  }
  const Status s = records_->Read(event);
  if (s.ok()) {
    offset_ = records_->offset();
    return s;
  }
  const bool ended =
      s.code() == StatusCode::kOutOfRange || records_->ended_early();
  records_ = nullptr;
  if (ended)
    return OutOfRange("file '", path_, "': expected an event, got the end");
  failed_ = s;
  return s;
}

}  // namespace sluice
