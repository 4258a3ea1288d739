#include "graph/gradient_scope.h"

#include <utility>

namespace sluice {
namespace {

std::string& Current() {
  thread_local std::string current = "gradients";
  return current;
}

}  // namespace

GradientScope::GradientScope(std::string name)
    : saved_(std::exchange(Current(), std::move(name))) {}

GradientScope::~GradientScope() { Current() = std::move(saved_); }

const std::string& CurrentGradientScope() { return Current(); }

}  // namespace sluice
