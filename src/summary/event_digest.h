// What is in an event file, tag by tag.
#ifndef SLUICE_SUMMARY_EVENT_DIGEST_H_
#define SLUICE_SUMMARY_EVENT_DIGEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

namespace sluice {

// The values of one tag.
struct TagDigest {
  // "scalar", "histogram", "image", "audio", "text", "tensor", or what the
  // summary's metadata calls it.
  std::string kind;
  int64_t count = 0;
  int64_t first_step = 0, last_step = 0;  // The least and the greatest.
  double first_time = 0, last_time = 0;   // Seconds since 1970.
  // Of scalars: of those that are finite, the last one, and how many are not.
  bool has_scalars = false;
  double least = 0, most = 0, last = 0;
  int64_t nans = 0, infinities = 0;
};

struct EventDigest {
  std::map<std::string, TagDigest> tags;
  int64_t events = 0;
  int64_t graphs = 0, logs = 0, sessions = 0, profiles = 0;  // Other events.
  double first_time = 0, last_time = 0;
  int64_t bytes = 0;  // That were read.
  // Of the first record that could not be read, with file and offset; OK if the
  // file is whole. A file that ends within a record, as one that is still being
  // written does, has `unfinished`.
  Status damage;
  bool unfinished = false;
};

// Reads the whole file. NotFound if there is none.
Result<EventDigest> DigestEvents(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_SUMMARY_EVENT_DIGEST_H_
