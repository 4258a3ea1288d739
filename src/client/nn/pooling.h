// Pooling layers, which have no variables.
//
//   Output h = MaxPooling(images, 2);  // Half the height and width.
//   h = AveragePooling(h, 3, {.strides = 1, .padding = Padding::kSame});
//   Output features = GlobalAveragePooling(h);  // [batch, channels].
//
// Images have 1, 2 or 3 spatial dimensions beside batch and channels.
#ifndef SLUICE_CLIENT_NN_POOLING_H_
#define SLUICE_CLIENT_NN_POOLING_H_

#include "client/nn/convolutions.h"

namespace sluice {

struct PoolingOptions {
  Extents strides = {};  // {}: the size of the window.
  Padding padding = Padding::kValid;
  DataFormat format = DataFormat::kChannelsLast;
};

// The largest element of each window, and its mean, without what is padded.
Output MaxPooling(const Operand& x, const Extents& window,
                  const PoolingOptions& options = {},
                  SourceLoc loc = CallerLoc());
Output AveragePooling(const Operand& x, const Extents& window,
                      const PoolingOptions& options = {},
                      SourceLoc loc = CallerLoc());

// The largest element of each channel, and its mean: [batch, channels].
Output GlobalMaxPooling(const Operand& x,
                        DataFormat format = DataFormat::kChannelsLast,
                        SourceLoc loc = CallerLoc());
Output GlobalAveragePooling(const Operand& x,
                            DataFormat format = DataFormat::kChannelsLast,
                            SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_POOLING_H_
