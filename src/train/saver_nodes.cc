#include "train/saver_nodes.h"

#include <map>
#include <random>

#include "graph/builder.h"
#include "graph/device_name.h"
#include "graph/device_scope.h"

namespace sluice {
namespace {

// What a save op takes: of a reference variable, the reference.
Output SavedValue(const Var& v) {
  return v.is_reference() ? v.handle() : v.value();
}

Output Strings(const std::vector<std::string>& values,
               const std::string& name) {
  return Constant(Tensor::Vector<std::string>(values), name);
}

struct NamesAndSlices {
  Output names, slices;
};
NamesAndSlices NamesOf(const std::vector<SavedVariable>& variables,
                       const std::string& op) {
  std::vector<std::string> names, slices;
  for (const SavedVariable& v : variables) {
    names.push_back(v.name);
    slices.push_back(v.shape_and_slice);
  }
  return {Strings(names, op + "/tensor_names"),
          Strings(slices, op + "/shape_and_slices")};
}

// Returns the path, once the variables are saved there.
Output AddSave(const Output& path,
               const std::vector<SavedVariable>& variables) {
  const NamesAndSlices of = NamesOf(variables, "SaveV2");
  std::vector<Output> inputs = {path, of.names, of.slices};
  std::vector<DType> dtypes;
  for (const SavedVariable& v : variables) {
    inputs.push_back(SavedValue(v.variable));
    dtypes.push_back(v.variable.dtype());
  }
  Node* const save =
      BuildNode("SaveV2", inputs, {{"dtypes", dtypes}}, "SaveV2");
  if (save == nullptr) return CurrentGraph().Failure();
  const ControlDependencies after({save});
  return Build("Identity", {path}, {}, "control_dependency");
}

// The assignments of the saved values.
std::vector<Node*> AddRestore(const Output& path,
                              const std::vector<SavedVariable>& variables,
                              bool reshape) {
  const NamesAndSlices of = NamesOf(variables, "RestoreV2");
  std::vector<DType> dtypes;
  for (const SavedVariable& v : variables) dtypes.push_back(v.variable.dtype());
  Node* const restore = BuildNode("RestoreV2", {path, of.names, of.slices},
                                  {{"dtypes", dtypes}}, "RestoreV2");
  std::vector<Node*> assigns;
  if (restore == nullptr) return {nullptr};
  for (size_t i = 0; i < variables.size(); ++i) {
    const Var& v = variables[i].variable;
    Output value(restore, static_cast<int>(i));
    const ColocateWith same_device(v.handle().node);
    const PartialShape shape = v.shape();
    if (reshape && shape.fully_known()) {
      const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
      value = Build(
          "Reshape",
          {value, Constant(Tensor::Vector<int64_t>(dims), "Reshape/shape")}, {},
          "Reshape");
    }
    if (v.is_reference()) {
      assigns.push_back(BuildNode("Assign", {v.handle(), value},
                                  {{"validate_shape", shape.fully_known()}},
                                  "Assign"));
    } else {
      value = Build("Identity", {value}, {}, "Identity");
      assigns.push_back(BuildNode("AssignVariableOp", {v.handle(), value},
                                  {{"dtype", v.dtype()}}, "AssignVariableOp"));
    }
  }
  return assigns;
}

Node* GroupOf(const std::vector<Node*>& nodes, const std::string& name) {
  const ControlDependencies after(nodes);
  return BuildNode("NoOp", {}, {}, name);
}

// The CPU of the task that a device belongs to: there its files are.
std::string CpuBeside(const std::string& device) {
  Result<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok()) return device;
  name->type = "CPU";
  name->number = 0;
  return name->ToString();
}

std::string RandomHex() {
  std::random_device random;
  std::string out;
  for (int i = 0; i < 32; ++i) out.push_back("0123456789abcdef"[random() % 16]);
  return out;
}

void AddSharded(const std::vector<SavedVariable>& variables, bool reshape,
                SaverNodes* nodes) {
  std::map<std::string, std::vector<SavedVariable>> by_device;
  for (const SavedVariable& v : variables)
    by_device[v.variable.handle().node->device()].push_back(v);
  nodes->temporary_suffix = absl::StrCat("_temp_", RandomHex());
  const Output prefix =
      Build("StringJoin",
            {nodes->filename, Constant(Tensor::Scalar<std::string>(absl::StrCat(
                                           nodes->temporary_suffix, "/part")),
                                       "StringJoin/inputs_1")},
            {{"N", int64_t{2}}}, "StringJoin");
  const Output count = Constant(
      Tensor::Scalar(static_cast<int32_t>(by_device.size())), "num_shards");
  std::vector<Output> parts;
  std::vector<Node*> saves;
  int shard = 0;
  std::string last_device;
  for (const auto& [device, group] : by_device) {
    last_device = CpuBeside(device);
    const DeviceScope on(last_device);
    const Output part = Build(
        "ShardedFilename",
        {prefix, Constant(Tensor::Scalar(shard++), "ShardedFilename/shard"),
         count},
        {}, "ShardedFilename");
    const Output saved = AddSave(part, group);
    parts.push_back(saved);
    saves.push_back(saved.node);
  }
  {
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
    const DeviceScope on(CpuBeside(device));
    shards.push_back(
        GroupOf(AddRestore(nodes->filename, group, reshape), "restore_shard"));
  }
  nodes->restore = GroupOf(shards, "restore_all");
}

}  // namespace

SaverNodes AddSaverNodes(const std::vector<SavedVariable>& variables,
                         const SaverOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NoControlDependencies alone;
  const NameScope scope(options.name.empty() ? "save" : options.name);
  SaverNodes nodes;
  const auto with_default = [](const Output& value, const std::string& name) {
    return Build("PlaceholderWithDefault", {value},
                 {{"shape", PartialShape::Scalar()}}, name);
  };
  nodes.filename = with_default(
      with_default(
          Constant(Tensor::Scalar<std::string>("model"), "filename/input"),
          "filename"),
      "Const");
  for (const SavedVariable& v : variables)
    nodes.values.push_back(v.variable.value());
  if (options.sharded) {
    AddSharded(variables, options.reshape, &nodes);
  } else {
    nodes.save_tensor = AddSave(nodes.filename, variables);
    nodes.restore = GroupOf(
        AddRestore(nodes.filename, variables, options.reshape), "restore_all");
  }
  return nodes;
}

}  // namespace sluice
