// Functions that build the measured networks. Layers and sizes are the
// published ones unless the options change them. The comments give the number
// of trainable parameters (weights and biases of all layers).
//
//   Network net = AlexNet({.batch = 16});
//   Node* step = net.Train(0.01);
#ifndef SLUICE_BENCH_NETWORKS_NETWORKS_H_
#define SLUICE_BENCH_NETWORKS_NETWORKS_H_

#include "bench/networks/layers.h"

namespace sluice::bench {

// 28 x 28 x 1: two convolutions with pooling, two dense layers. 1,663,370.
Network LeNet(const NetworkOptions& options = {});

// The four networks of Table 1 of the OSDI'16 paper, in the form of
// convnet-benchmarks (github.com/soumith/convnet-benchmarks), which the paper
// used: without local response normalisation and dropout. (There the last layer
// also has a ReLU; here it has none.)
//
// Krizhevsky (2014), "One weird trick": 224 x 224 x 3. 61,100,840.
Network AlexNet(const NetworkOptions& options = {});
// Sermanet et al. (2013), the fast model: 231 x 231 x 3. 145,920,872.
Network Overfeat(const NetworkOptions& options = {});
// Simonyan and Zisserman (2014), model A, "OxfordNet": 224 x 224 x 3.
// 132,863,336.
Network VggA(const NetworkOptions& options = {});
// Szegedy et al. (2014): 224 x 224 x 3, without the auxiliary classifiers.
// 6,998,552.
Network GoogLeNet(const NetworkOptions& options = {});

// Szegedy et al. (2015): 299 x 299 x 3. 23,834,568; 27,161,264 with the
// auxiliary classifier.
Network InceptionV3(const NetworkOptions& options = {});
// He et al. (2015), the stride of a block in its 3 x 3 convolution:
// 224 x 224 x 3. 25,557,032.
Network ResNet50(const NetworkOptions& options = {});

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_NETWORKS_NETWORKS_H_
