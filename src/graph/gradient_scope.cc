#include "graph/gradient_scope.h"

#include <utility>

namespace sluice {
namespace {

std::string& CurrentName() {
  thread_local std::string current = "gradients";
  return current;
}

}  // namespace

GradientScope::GradientScope(std::string name)
    : saved_(std::exchange(CurrentName(), std::move(name))) {}

GradientScope::~GradientScope() { CurrentName() = std::move(saved_); }

const std::string& CurrentGradientScope() { return CurrentName(); }

}  // namespace sluice
