// Of convolutions and pooling: windows over images. Internal.
#ifndef SLUICE_CLIENT_NN_WINDOWS_H_
#define SLUICE_CLIENT_NN_WINDOWS_H_

#include <string>
#include <vector>

#include "client/nn/convolutions.h"

namespace sluice {

// `e` for n spatial dimensions; empty, with the error recorded, unless it has 1
// or n sizes, which are positive.
std::vector<int64_t> EachOf(const char* layer, const char* what,
                            const Extents& e, int n);
// Sizes for the dimensions of an image, 1 for batch and channels.
std::vector<int64_t> WithBatchAndChannels(std::vector<int64_t> spatial,
                                          DataFormat format);
// "NHWC" and the like, for n spatial dimensions.
std::string FormatName(DataFormat format, int n);
const char* PaddingName(Padding padding);
inline int ChannelAxis(DataFormat format) {
  return format == DataFormat::kChannelsFirst ? 1 : -1;
}
inline int FirstSpatialAxis(DataFormat format) {
  return format == DataFormat::kChannelsFirst ? 2 : 1;
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_WINDOWS_H_
