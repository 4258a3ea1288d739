// Shared by the kernels of the state ops: names of resources, handles that are
// looked up once, and the variable behind an input.
#ifndef SLUICE_OPS_STATE_LOOKUP_H_
#define SLUICE_OPS_STATE_LOOKUP_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/shape_context.h"

namespace sluice::state {

// The reason why ops that update a variable have no gradient.
inline constexpr const char* kUpdates =
    "changes a variable; gradients flow through its values";

// The container and name from a node's attributes: shared_name, or else the
// name of the node.
struct ResourceName {
  explicit ResourceName(const Node& n);
  std::string container, name;
};

// A scalar resource tensor.
Tensor MakeHandle(const ResourceName& name, std::shared_ptr<Resource> resource);

// A handle that is created in the first step and reused afterwards, until its
// resource manager removes a resource. Owned by a kernel's state; Get is
// thread-safe.
class CachedHandle {
 public:
  // find(ResourceManager*) -> Result<std::shared_ptr<Resource>>.
  template <typename Find>
  Result<Tensor> Get(const KernelContext& ctx, const ResourceName& name,
                     Find&& find) {
    ResourceManager* manager = ctx.step().resources;
    if (manager == nullptr)
      return FailedPrecondition("resource '", name.name,
                                "': expected a session that keeps resources, "
                                "got none");
    std::lock_guard<std::mutex> lock(mu_);
    // Read before the look-up: if a resource is removed in between, the next
    // step looks it up again.
    const uint64_t generation = manager->generation();
    if (generation != generation_) {
      SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Resource> r, find(manager));
      handle_ = MakeHandle(name, std::move(r));
      generation_ = generation;
    }
    return handle_;
  }

 private:
  std::mutex mu_;
  uint64_t generation_ = 0;  // GUARDED_BY(mu_); 0: not looked up yet.
  Tensor handle_;            // GUARDED_BY(mu_)
};

// The handle that a node gives out to a resource R that nodes of one name
// share: the first of them that runs makes it. Owned by a kernel's state.
template <typename R>
class SharedHandle {
 public:
  explicit SharedHandle(const Node& n) : name_(n) {}
  const std::string& name() const { return name_.name; }

  // make() -> std::shared_ptr<R>; check(const R&) -> Status: InvalidArgument if
  // it is not what this node declares.
  template <typename Make, typename Check>
  Result<Tensor> Get(const KernelContext& ctx, Make&& make, Check&& check) {
    return handle_.Get(
        ctx, name_,
        [&](ResourceManager* m) -> Result<std::shared_ptr<Resource>> {
          SLUICE_ASSIGN_OR_RETURN(
              std::shared_ptr<R> r,
              m->LookupOrCreate<R>(name_.container, name_.name, make));
          SLUICE_RETURN_IF_ERROR(check(*r));
          return r;
        });
  }

 private:
  const ResourceName name_;
  CachedHandle handle_;
};

// The shape of a handle that is output 0: of a reference what reading it gives,
// the container and the name; else a scalar.
Status HandleShape(ShapeContext& c);
// InvalidArgument unless input i may have the shape of a handle.
Status RequireHandle(ShapeContext& c, int i);

// The variable behind a resource or reference input; lives at least as long as
// the context. With a type: InvalidArgument if the variable has a different
// type.
Result<Variable*> VariableInput(const KernelContext& ctx, int i);
Result<Variable*> VariableInput(const KernelContext& ctx, int i, DType dtype);
// The status of an op that used or changed the variable behind input 0. To
// TensorFlow a handle's variable without a value does not exist: NotFound. (Not
// for ReadVariableOp, nor for references.)
Status OfUse(const KernelContext& ctx, const Status& status);

// Forwards input 0 if the op returns the reference that it was given.
inline void ForwardReference(KernelContext& ctx) {
  if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.input(0));
}

// The shape of the variable that input i refers to, through a handle or a
// reference edge.
PartialShape VariableShapeOf(ShapeContext& c, int i);

// The elements of an int32 or int64 tensor.
std::vector<int64_t> ToInt64s(const Tensor& t);

// ToInt64s, or InvalidArgument "indices[1] = 7 is not in [0, 4)".
Result<std::vector<int64_t>> CheckedIndices(const Tensor& indices,
                                            int64_t limit);

}  // namespace sluice::state

#endif  // SLUICE_OPS_STATE_LOOKUP_H_
