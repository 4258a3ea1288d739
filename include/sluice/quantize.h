// Trained graphs for inference: frozen, and in int8.
#ifndef SLUICE_QUANTIZE_H_
#define SLUICE_QUANTIZE_H_

#include "session/quantize.h"  // Freeze, Quantize

#endif  // SLUICE_QUANTIZE_H_
