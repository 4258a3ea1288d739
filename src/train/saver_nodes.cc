#include "train/saver_nodes.h"

#include <map>
#include <random>

#include "graph/builder.h"
#include "graph/device_name.h"
#include "graph/device_scope.h"

namespace sluice {
namespace {

using Items = std::vector<const ItemToSave*>;

Output Strings(const std::vector<std::string>& values,
               const std::string& name) {
  return Constant(Tensor::Vector<std::string>(values), name);
}

// In the scope of the op that takes them.
struct NamesAndSlices {
  Output names, slices;
};
NamesAndSlices NamesOf(const Items& items,
                       const char* slices_name = "shape_and_slices") {
  std::vector<std::string> names, slices;
  for (const ItemToSave* item : items) {
    for (const TensorToSave& t : item->tensors) {
      names.push_back(t.name);
      slices.push_back(t.shape_and_slice);
    }
  }
  return {Strings(names, "tensor_names"), Strings(slices, slices_name)};
}

// Returns the path, once the items are saved there.
Output AddSave(const Output& path, const Items& items, bool old_format) {
  std::vector<Output> values;
  std::vector<DType> dtypes;
  for (const ItemToSave* item : items) {
    for (const TensorToSave& t : item->tensors) {
      values.push_back(t.value());
      dtypes.push_back(t.dtype);
    }
  }
  Node* save = nullptr;
  {
    const NameScope scope(old_format ? "save" : "SaveV2");
    const NamesAndSlices of =
        old_format ? NamesOf(items, "shapes_and_slices") : NamesOf(items);
    std::vector<Output> inputs = {path, of.names, of.slices};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const std::string whole = scope.prefix() + "/";
    save = old_format
               ? BuildNode("SaveSlices", inputs, {{"T", dtypes}}, whole)
               : BuildNode("SaveV2", inputs, {{"dtypes", dtypes}}, whole);
  }
  if (save == nullptr) return CurrentGraph().Failure();
  const ColocateWith beside_path(path.node);
  const ControlDependencies after({save});
  return Build("Identity", {path}, {}, "control_dependency");
}

// The CPU of the task that a device belongs to: there its files are.
std::string CpuBeside(const std::string& device) {
  Result<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok()) return device;
  name->type = "CPU";
  name->number = 0;
  return name->ToString();
}

// What restores the items.
std::vector<Node*> AddRestore(const Output& path, const Items& items) {
  std::vector<DType> dtypes;
  for (const ItemToSave* item : items)
    for (const TensorToSave& t : item->tensors) dtypes.push_back(t.dtype);
  Node* restore = nullptr;
  {
    const DeviceScope on_cpu("/device:CPU:0");
    const NameScope scope("RestoreV2");
    const NamesAndSlices of = NamesOf(items);
    restore = BuildNode("RestoreV2", {path, of.names, of.slices},
                        {{"dtypes", dtypes}}, scope.prefix() + "/");
  }
  if (restore == nullptr) return {nullptr};
  std::vector<Node*> restored;
  int next = 0;
  for (const ItemToSave* item : items) {
    std::vector<Output> saved;
    for (size_t i = 0; i < item->tensors.size(); ++i)
      saved.emplace_back(restore, next++);
    restored.push_back(item->restore(saved));
  }
  return restored;
}

// A node that runs after these; on several devices, by one node on each.
Node* GroupOf(const std::vector<Node*>& nodes, const std::string& name) {
  std::map<std::string, std::vector<Node*>> by_device;
  for (Node* n : nodes) {
    if (n == nullptr) return nullptr;
    by_device[n->device()].push_back(n);
  }
  const NameScope scope(name);
  const auto after = [](const std::vector<Node*>& deps,
                        const std::string& device, const std::string& called) {
    const DeviceScope on(device);
    const ControlDependencies order(deps);
    return BuildNode("NoOp", {}, {}, called);
  };
  const std::string whole = scope.prefix() + "/";
  if (by_device.size() == 1)
    return after(nodes, by_device.begin()->first, whole);
  std::vector<Node*> of_devices;
  for (const auto& [device, deps] : by_device)
    of_devices.push_back(after(deps, device, ""));
  return after(of_devices, "", whole);
}

std::string RandomHex() {
  std::random_device random;
  std::string out;
  for (int i = 0; i < 32; ++i) out.push_back("0123456789abcdef"[random() % 16]);
  return out;
}

void AddSharded(const Items& items, const SaverNodeOptions& options,
                SaverNodes* nodes) {
  std::map<std::string, Items> by_device;
  for (const ItemToSave* item : items) by_device[item->device].push_back(item);
  Output prefix = nodes->filename;
  if (!options.old_format) {
    nodes->temporary_suffix = absl::StrCat("_temp_", RandomHex());
    prefix = Build("StringJoin",
                   {prefix, Constant(Tensor::Scalar<std::string>(absl::StrCat(
                                         nodes->temporary_suffix, "/part")),
                                     "StringJoin/inputs_1")},
                   {{"N", int64_t{2}}}, "StringJoin");
  }
  const Output count = Constant(
      Tensor::Scalar(static_cast<int32_t>(by_device.size())), "num_shards");
  std::vector<Output> parts;
  std::vector<Node*> saves;
  int shard = 0;
  std::string last_device;
  for (const auto& [device, group] : by_device) {
    last_device = CpuBeside(device);
    const DeviceScope on(last_device);
    {
      const NameScope scope("ShardedFilename");
      parts.push_back(
          Build("ShardedFilename",
                {prefix, Constant(Tensor::Scalar(shard++), "shard"), count}, {},
                scope.prefix() + "/"));
    }
    const Output saved = AddSave(parts.back(), group, options.old_format);
    saves.push_back(saved.node);
  }
  if (options.old_format) {
    const ControlDependencies after(saves);
    nodes->save_tensor = Build("ShardedFilespec", {prefix, count}, {});
  } else {
    const DeviceScope on(last_device);
    const ControlDependencies after(saves);
    const Output all = Build("Pack", parts,
                             {{"N", static_cast<int64_t>(parts.size())},
                              {"T", DType::kString},
                              {"axis", int64_t{0}}},
                             "MergeV2Checkpoints/checkpoint_prefixes");
    Node* const merge =
        BuildNode("MergeV2Checkpoints", {all, nodes->filename},
                  {{"delete_old_dirs", true}}, "MergeV2Checkpoints");
    const ControlDependencies merged({merge});
    nodes->save_tensor = Build("Identity", {nodes->filename}, {}, "Identity");
  }
  std::vector<Node*> shards;
  for (const auto& [device, group] : by_device) {
    const DeviceScope on(device);
    shards.push_back(
        GroupOf(AddRestore(nodes->filename, group), "restore_shard"));
  }
  nodes->restore = GroupOf(shards, "restore_all");
}

// Assigns a saved value to a variable.
Node* AddAssign(const Var& v, Output value, bool reshape) {
  const ColocateWith same_device(v.handle().node);
  const PartialShape shape = v.shape();
  if (reshape && shape.fully_known()) {
    const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    value =
        Build("Reshape",
              {value, Constant(Tensor::Vector<int64_t>(dims), "Reshape/shape")},
              {}, "Reshape");
  }
  if (v.is_reference())
    return BuildNode("Assign", {v.handle(), value},
                     {{"validate_shape", shape.fully_known()}}, "Assign");
  value = Build("Identity", {value}, {}, "Identity");
  return BuildNode("AssignVariableOp", {v.handle(), value},
                   {{"dtype", v.dtype()}}, "AssignVariableOp");
}

}  // namespace

SaverNodes AddSaverNodes(const std::vector<ItemToSave>& given,
                         const SaverNodeOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(options.name.empty() ? "save" : options.name);
  Items items;
  for (const ItemToSave& item : given) items.push_back(&item);
  SaverNodes nodes;
  const auto with_default = [](const Output& value, const std::string& name) {
    return Build("PlaceholderWithDefault", {value},
                 {{"shape", PartialShape::Scalar()}}, name);
  };
  nodes.filename = with_default(
      with_default(Constant(Tensor::Scalar<std::string>(options.filename),
                            "filename/input"),
                   "filename"),
      "Const");
  if (options.sharded) {
    AddSharded(items, options, &nodes);
  } else {
    nodes.save_tensor = AddSave(nodes.filename, items, options.old_format);
    nodes.restore = GroupOf(AddRestore(nodes.filename, items), "restore_all");
  }
  return nodes;
}

SaverNodes AddSaverNodes(const std::vector<SavedVariable>& variables,
                         const SaverOptions& options, SourceLoc loc) {
  std::vector<ItemToSave> items;
  for (const SavedVariable& v : variables) {
    const Var& var = v.variable;
    items.push_back({.tensors = {{v.name, v.shape_and_slice, var.dtype(),
                                  [&var] {
                                    return var.is_reference() ? var.handle()
                                                              : var.value();
                                  }}},
                     .device = var.handle().node->device(),
                     .restore = [&var, reshape = options.reshape](
                                    const std::vector<Output>& saved) {
                       return AddAssign(var, saved[0], reshape);
                     }});
  }
  const NoControlDependencies alone;
  SaverNodes nodes = AddSaverNodes(
      items, {.name = options.name, .sharded = options.sharded}, loc);
  for (const SavedVariable& v : variables)
    nodes.values.push_back(v.variable.value());
  return nodes;
}

}  // namespace sluice
