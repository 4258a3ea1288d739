// The orders in which the elements of queues leave.
#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "kernels/random/philox.h"
#include "ops/queues/queue.h"

namespace sluice::queues {
namespace {

class FifoStore final : public ElementStore {
 public:
  int64_t size() const override {
    return static_cast<int64_t>(elements_.size());
  }
  void Push(Element element) override {
    elements_.push_back(std::move(element));
  }
  Element Pop() override {
    Element first = std::move(elements_.front());
    elements_.pop_front();
    return first;
  }
  void PopTo(int64_t count, std::vector<Element>* to) override {
    const auto end = elements_.begin() + count;
    to->insert(to->end(), std::make_move_iterator(elements_.begin()),
               std::make_move_iterator(end));
    elements_.erase(elements_.begin(), end);
  }
  bool in_order() const override { return true; }
  void PutBack(std::vector<Element> elements) override {
    elements_.insert(elements_.begin(),
                     std::make_move_iterator(elements.begin()),
                     std::make_move_iterator(elements.end()));
  }

 private:
  std::deque<Element> elements_;
};

// Draws as TensorFlow's RandomShuffleQueue does, so that a program that
// enqueues and dequeues in the same order sees the same elements: the last
// element takes the place of the one that leaves.
class ShuffleStore final : public ElementStore {
 public:
  ShuffleStore(int64_t min_after_dequeue, int64_t seed, int64_t seed2)
      : min_after_dequeue_(min_after_dequeue),
        seed_(seed),
        seed2_(seed2),
        generator_(random::GuardedPhilox(seed, seed2).ReserveBlocks(0)) {}

  int64_t size() const override {
    return static_cast<int64_t>(elements_.size());
  }
  int64_t available(bool closed) const override {
    return closed ? size() : std::max<int64_t>(0, size() - min_after_dequeue_);
  }
  void Push(Element element) override {
    elements_.push_back(std::move(element));
  }
  Element Pop() override {
    const size_t i = (*words_)() % elements_.size();
    Element drawn = std::move(elements_[i]);
    if (i + 1 < elements_.size()) elements_[i] = std::move(elements_.back());
    elements_.pop_back();
    return drawn;
  }
  void PutBack(std::vector<Element> elements) override {
    // (In this order, so that the next draws are TensorFlow's.)
    std::move(elements.rbegin(), elements.rend(),
              std::back_inserter(elements_));
  }
  void BeginEpoch(int64_t number) override {
    if (seed_ == 0 && seed2_ == 0) return;
    // (The golden ratio's bits: epochs of neighbouring seeds differ. The key of
    // epoch 0 is TensorFlow's.)
    const uint64_t key = static_cast<uint64_t>(seed2_) +
                         static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15;
    // (Both 0 would be seeded at random.)
    generator_ =
        random::GuardedPhilox(
            seed_, static_cast<int64_t>(seed_ == 0 && key == 0 ? 1 : key))
            .ReserveBlocks(0);
    words_.emplace(&generator_);
  }

 private:
  const int64_t min_after_dequeue_, seed_, seed2_;
  random::Philox generator_;
  std::optional<random::SingleSamples> words_{&generator_};
  std::vector<Element> elements_;
};

class PriorityStore final : public ElementStore {
 public:
  bool by_priority() const override { return true; }
  int64_t size() const override { return static_cast<int64_t>(heap_.size()); }
  void Push(Element element) override {
    Insert(std::move(element), next_number_++);
  }
  Element Pop() override {
    std::pop_heap(heap_.begin(), heap_.end(), LeavesLater);
    Element first = std::move(heap_.back().element);
    heap_.pop_back();
    return first;
  }
  void PutBack(std::vector<Element> elements) override {
    for (auto e = elements.rbegin(); e != elements.rend(); ++e)
      Insert(std::move(*e), --first_number_);
  }

 private:
  struct Entry {
    int64_t priority;
    int64_t number;  // Ascending; negative for those that were put back.
    Element element;
  };
  static bool LeavesLater(const Entry& a, const Entry& b) {
    return std::pair(a.priority, a.number) > std::pair(b.priority, b.number);
  }
  void Insert(Element element, int64_t number) {
    const int64_t priority = element[0].raw_scalar<int64_t>();
    heap_.push_back({priority, number, std::move(element)});
    std::push_heap(heap_.begin(), heap_.end(), LeavesLater);
  }

  std::vector<Entry> heap_;
  int64_t next_number_ = 0, first_number_ = 0;
};

}  // namespace

std::unique_ptr<ElementStore> MakeFifoStore() {
  return std::make_unique<FifoStore>();
}
std::unique_ptr<ElementStore> MakeShuffleStore(int64_t min_after_dequeue,
                                               int64_t seed, int64_t seed2) {
  return std::make_unique<ShuffleStore>(min_after_dequeue, seed, seed2);
}
std::unique_ptr<ElementStore> MakePriorityStore() {
  return std::make_unique<PriorityStore>();
}

}  // namespace sluice::queues
