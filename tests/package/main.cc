// What a user's first program looks like to the build: found by find_package,
// compiled against the installed headers, linked to the installed library.
#include <cstdio>
#include <string>

#include "tensor/dtype.h"

int main() {
  const std::string name(sluice::DTypeName(sluice::DType::kFloat));
  std::printf("%s\n", name.c_str());
  return name == "float" ? 0 : 1;
}
