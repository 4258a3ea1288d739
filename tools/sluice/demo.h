// `sluice demo`: trains two networks on real images and shows the results.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_H_
#define SLUICE_TOOLS_SLUICE_DEMO_H_

namespace sluice {

// argv[0] is the command's name. Returns the exit code: 2 for a mistake in the
// options, 1 if the data is missing or the networks do not learn.
int DemoMain(int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SLUICE_DEMO_H_
