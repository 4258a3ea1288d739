// Losses that keep weights small.
//
//   Output h = Dense(x, 100, {.kernel_regularizer = L2Regularizer(1e-4)});
//   Output loss = MeanSquaredError(y, h) + RegularizationLoss();
#ifndef SLUICE_CLIENT_NN_REGULARIZERS_H_
#define SLUICE_CLIENT_NN_REGULARIZERS_H_

#include "client/variables.h"

namespace sluice {

// The formulas are Keras's: scale times the sum of |w|, or of w^2 (of which
// TensorFlow's older l2_regularizer took half). InvalidArgument, when they are
// used, unless the scales are finite and not negative.
Regularizer L1Regularizer(double scale);
Regularizer L2Regularizer(double scale);
// The sum of the two.
Regularizer L1L2Regularizer(double l1, double l2);

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_REGULARIZERS_H_
