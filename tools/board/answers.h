// The answers of the board's server, as JSON.
#ifndef SLUICE_TOOLS_BOARD_ANSWERS_H_
#define SLUICE_TOOLS_BOARD_ANSWERS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/board/event_log.h"

namespace sluice::board {

// Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
nlohmann::json NumberJson(double value);

nlohmann::json StateJson(const EventLog& log);
// {"runs": {run: {"step": [], "wall": [], "value": []}}} of the runs that have
// the tag; NotFound if none has.
Result<nlohmann::json> ScalarsJson(const EventLog& log, const std::string& tag,
                                   const std::vector<std::string>& runs);
// {"low", "high", "rows": [{"step", "wall", "counts": []}]}: the counts of
// equal buckets from low to high, the same for all steps.
Result<nlohmann::json> HistogramsJson(const EventLog& log,
                                      const std::string& run,
                                      const std::string& tag);
// {"values": [{"step", "wall"}]}, for images with "parts".
Result<nlohmann::json> ValuesJson(const EventLog& log, TagKind kind,
                                  const std::string& run,
                                  const std::string& tag);
// {"values": [{"step", "wall", "shape": [], "cells": []}]}.
Result<nlohmann::json> TextJson(const EventLog& log, const std::string& run,
                                const std::string& tag);
// {"x": [], "y": [], "variance": [x, y], "labels": []}; the labels are the rows
// of the tag "<tag>/labels", if that is a tensor or text of as many.
Result<nlohmann::json> ProjectionJson(const EventLog& log,
                                      const std::string& run,
                                      const std::string& tag, size_t index);
Result<nlohmann::json> GraphJson(const EventLog& log, const std::string& run);
Result<nlohmann::json> TimelineJson(const EventLog& log, const std::string& run,
                                    const std::string& tag, size_t index);

struct Blob {
  std::string bytes;
  std::string type;  // Of an image or a sound, by its first bytes.
};
// The encoded image or sound of a value. `part` counts the images of one event.
Result<Blob> BlobOf(const EventLog& log, TagKind kind, const std::string& run,
                    const std::string& tag, size_t index, size_t part);

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_ANSWERS_H_
