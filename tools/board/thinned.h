// A bounded selection of the points of a curve that grows for ever.
#ifndef SLUICE_TOOLS_BOARD_THINNED_H_
#define SLUICE_TOOLS_BOARD_THINNED_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::board {

// Keeps evenly spaced points, and always the last one. Once `capacity` points
// are kept, every second one is dropped, and from then on only every second
// point is added. So between half of the capacity and the capacity plus one are
// kept of a long sequence, and the same ones whenever they are read.
// Point: a struct with a member `step`. Not thread-safe.
template <typename Point>
class Thinned {
 public:
  // REQUIRES: capacity >= 2.
  explicit Thinned(size_t capacity) : capacity_(capacity) {}

  void Add(const Point& p) {
    last_ = p;
    last_is_kept_ = seen_++ % stride_ == 0;
    if (!last_is_kept_) return;
    kept_.push_back(p);
    if (kept_.size() < capacity_) return;
    size_t n = 0;
    for (size_t i = 0; i < kept_.size(); i += 2) kept_[n++] = kept_[i];
    last_is_kept_ = kept_.size() % 2 == 1;
    kept_.resize(n);
    stride_ *= 2;
  }

  // Drops the points of this step and of later ones.
  void DropFrom(int64_t step) {
    if (seen_ > 0 && !last_is_kept_ && last_.step < step)
      kept_.push_back(last_);
    std::erase_if(kept_, [&](const Point& p) { return p.step >= step; });
    if (kept_.empty()) stride_ = 1;
    seen_ = static_cast<int64_t>(kept_.size()) * stride_;
    last_is_kept_ = true;
    if (!kept_.empty()) last_ = kept_.back();
  }

  // In the order in which they were added.
  std::vector<Point> Points() const {
    std::vector<Point> points = kept_;
    if (seen_ > 0 && !last_is_kept_) points.push_back(last_);
    return points;
  }
  // How many points there were, of which Points() is a selection.
  int64_t seen() const { return seen_; }
  // Null if there is none.
  const Point* last() const { return seen_ > 0 ? &last_ : nullptr; }

 private:
  const size_t capacity_;
  std::vector<Point> kept_;
  Point last_{};  // Also in kept_, if last_is_kept_.
  bool last_is_kept_ = true;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_THINNED_H_
