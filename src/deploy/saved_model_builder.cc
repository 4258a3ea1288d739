#include "deploy/saved_model_builder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "absl/strings/str_join.h"
#include "checkpoint/pending_file.h"
#include "deploy/meta_graph_messages.h"
#include "graph/builder.h"
#include "io/file.h"

namespace sluice {
namespace fs = std::filesystem;
namespace {

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status CheckFree(const std::string& folder) {
  std::error_code error;
  if (folder.empty())
    return InvalidArgument(
        "saved model: expected the path of a folder, got ''");
  if (!fs::exists(folder, error)) return OkStatus();
  if (fs::is_directory(folder, error) && fs::is_empty(folder, error) && !error)
    return OkStatus();
  return AlreadyExists("saved model: expected a folder '", folder,
                       "' that does not exist or is empty, got one that "
                       "already exists, and isn't empty");
}

// Whether no other folder can take its name: a link or a mount point.
bool CannotBeReplaced(const std::string& folder) {
  struct statx s = {};
  return statx(AT_FDCWD, folder.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &s) ==
             0 &&
         (S_ISLNK(s.stx_mode) ||
          (s.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0);
}

// False if one of them cannot be read.
bool SameContents(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::file_size(a, error) != fs::file_size(b, error) || error) return false;
  std::ifstream x(a, std::ios::binary), y(b, std::ios::binary);
  std::string p(size_t{1} << 20, '\0'), q = p;
  do {
    x.read(p.data(), static_cast<std::streamsize>(p.size()));
    y.read(q.data(), static_cast<std::streamsize>(q.size()));
    if (x.gcount() != y.gcount() || x.bad() || y.bad() ||
        !std::equal(p.begin(), p.begin() + x.gcount(), q.begin()))
      return false;
  } while (x && y);
  return true;
}

// A piece at a time.
Status CopyFile(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::is_regular_file(from, error))
    return NotFound("asset: expected a file '", from, "', got none");
  std::ifstream in(from, std::ios::binary);
  if (!in) return FileError("reading", from);
  SLUICE_ASSIGN_OR_RETURN(const auto out, PendingFile::Create(to, true));
  std::string piece(size_t{1} << 20, '\0');
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    SLUICE_RETURN_IF_ERROR(out->Append(
        std::string_view(piece.data(), static_cast<size_t>(in.gcount()))));
  }
  if (in.bad()) return FileError("reading", from);
  SLUICE_RETURN_IF_ERROR(out->Flush());
  return out->CommitTo(to);
}

}  // namespace

class SavedModelBuilder::Impl {
 public:
  explicit Impl(std::string folder)
      : folder_(WithoutSlashes(LocalPath(folder))) {
    status_ = CheckFree(folder_);
    std::random_device random;
    in_place_ = status_.ok() && CannotBeReplaced(folder_);
    aside_ = in_place_ ? folder_
                       : absl::StrCat(folder_, ".tempstate",
                                      (uint64_t{random()} << 32) | random());
  }
  ~Impl() {
    std::error_code ignored;
    if (saved_ || !status_.ok()) return;
    if (!in_place_) {
      fs::remove_all(aside_, ignored);
      return;
    }
    for (const char* const part : {"assets", "variables"})
      fs::remove_all(fs::path(folder_) / part, ignored);
  }

  Status Add(Session* session, Graph& graph, const SavedMetaGraph& what);
  Result<std::string> Save(bool text);
  Result<std::string> VariablesPath() {
    SLUICE_ASSIGN_OR_RETURN(const std::string folder, Folder());
    std::error_code error;
    const std::string path = SavedVariablesPath(folder);
    fs::create_directories(FolderOf(path), error);
    if (error)
      return FailedPrecondition("creating '", FolderOf(path),
                                "': ", error.message());
    return path;
  }
  Result<std::string> AddAsset(const std::string& path);
  Status AddMetaGraphDef(std::string_view bytes) {
    SLUICE_RETURN_IF_ERROR(status_);
    proto::MetaGraphDef def;
    SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "MetaGraphDef", &def));
    return Append(std::move(def));
  }

 private:
  // Where files are written.
  Result<std::string> Folder() {
    SLUICE_RETURN_IF_ERROR(status_);
    return saved_ ? folder_ : aside_;
  }
  Status Append(proto::MetaGraphDef def) {
    const auto& tags = def.meta_info_def().tags();
    const std::set<std::string> these(tags.begin(), tags.end());
    for (const proto::MetaGraphDef& other : model_.meta_graphs()) {
      const auto& has = other.meta_info_def().tags();
      if (std::set<std::string>(has.begin(), has.end()) == these)
        return AlreadyExists(
            "saved model: expected each set of tags once, got {",
            absl::StrJoin(these, ", "), "} twice");
    }
    *model_.add_meta_graphs() = std::move(def);
    return OkStatus();
  }

  const std::string folder_;
  bool in_place_ = false;  // Files are written where they stay.
  std::string aside_;
  Status status_;
  proto::SavedModel model_;
  bool saved_ = false;
  std::map<std::string, std::string> assets_;  // Names by path.
  std::set<std::string> names_;                // Of assets.
};

Result<std::string> SavedModelBuilder::Impl::AddAsset(
    const std::string& given) {
  const std::string path = LocalPath(given);
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, Folder());
  const auto known = assets_.find(path);
  if (known != assets_.end()) return known->second;
  const fs::path file = fs::path(path).filename();
  if (file.empty() || file == "." || file == "..")
    return InvalidArgument("asset: expected the path of a file, got '", path,
                           "'");
  std::string name = file.string();
  // (Files of different folders may have one name, and may be copies.)
  const auto in_folder = [&](const std::string& of) {
    return (fs::path(folder) / "assets" / of).string();
  };
  for (int i = 1; names_.count(name) > 0; ++i) {
    if (SameContents(path, in_folder(name))) return assets_[path] = name;
    name = absl::StrCat(file.string(), "_", i);
  }
  SLUICE_RETURN_IF_ERROR(CopyFile(path, in_folder(name)));
  names_.insert(name);
  assets_[path] = name;
  return name;
}

Status SavedModelBuilder::Impl::Add(Session* session, Graph& graph,
                                    const SavedMetaGraph& what) {
  SLUICE_RETURN_IF_ERROR(status_);
  if (session != nullptr && model_.meta_graphs_size() > 0)
    return FailedPrecondition(
        "saved model: expected AddMetaGraphAndVariables once and first, got it "
        "after another meta graph");
  MetaGraph about;
  about.tags = what.tags;
  about.signatures = what.signatures;
  about.collections = what.collections;
  for (const Output& o : what.assets) {
    const Tensor path = o.valid() && o.node->op().role == OpRole::kConst
                            ? o.node->AttrOr<Tensor>("value", Tensor())
                            : Tensor();
    if (o.graph() != &graph || !path.valid() ||
        path.dtype() != DType::kString || path.num_elements() != 1)
      return InvalidArgument(
          "asset: expected a constant string scalar of the graph, got ",
          o.valid() ? o.node->Describe() : "none");
    SLUICE_ASSIGN_OR_RETURN(const std::string name,
                            AddAsset(path.data<std::string>()[0]));
    about.assets.push_back({o.name(), name});
  }
  if (what.initializer != nullptr) {
    if (what.initializer->graph() != &graph)
      return InvalidArgument(
          "initializer: expected a node of the graph, got one of another; ",
          what.initializer->Describe());
    about.collections[kMainOpKey].nodes = {what.initializer->name()};
  }
  std::unique_ptr<Saver> made;
  Saver* saver = what.saver;
  if (saver == nullptr) {
    const WithGraph use(graph);
    if (!GlobalVariables().empty()) {
      made = std::make_unique<Saver>(
          SaverOptions{.max_to_keep = 0, .detect_other_runs = false});
      saver = made.get();
    }
  }
  if (saver != nullptr) {
    SLUICE_RETURN_IF_ERROR(saver->status());
    about.saver = SaverInfo::Of(*saver);
  }
  // (It checks names, before variables are written.)
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ExportMetaGraph(graph, about, what.options, &def));
  if (saver != nullptr && session != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const std::string path, VariablesPath());
    SLUICE_RETURN_IF_ERROR(
        saver->Save(*session, path, SaveOptions{.write_state = false})
            .status());
  }
  return Append(std::move(def));
}

Result<std::string> SavedModelBuilder::Impl::Save(bool text) {
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, Folder());
  if (model_.meta_graphs_size() == 0)
    return FailedPrecondition(
        "saved model: expected a meta graph to save, got none");
  model_.set_saved_model_schema_version(1);
  const std::string name = text ? "saved_model.pbtxt" : "saved_model.pb";
  SLUICE_ASSIGN_OR_RETURN(
      const std::string bytes,
      text ? PrintTextMessage(model_) : SerializeProto(model_));
  SLUICE_RETURN_IF_ERROR(
      ReplaceFile((fs::path(folder) / name).string(), bytes));
  if (in_place_) {
    saved_ = true;
  } else if (!saved_) {
    SLUICE_RETURN_IF_ERROR(CheckFree(folder_));
    // (Fails if there is something in the folder by now.)
    if (std::rename(aside_.c_str(), folder_.c_str()) != 0)
      return FileError("renaming", aside_);
    saved_ = true;
    SLUICE_RETURN_IF_ERROR(SyncFolderOf(folder_));
  }
  return (fs::path(folder_) / name).string();
}

SavedModelBuilder::SavedModelBuilder(std::string folder)
    : impl_(std::make_unique<Impl>(std::move(folder))) {}
SavedModelBuilder::~SavedModelBuilder() = default;

Status SavedModelBuilder::AddMetaGraphAndVariables(Session& session,
                                                   const SavedMetaGraph& what) {
  return impl_->Add(&session, session.graph(), what);
}
Status SavedModelBuilder::AddMetaGraph(Graph& graph,
                                       const SavedMetaGraph& what) {
  return impl_->Add(nullptr, graph, what);
}
Result<std::string> SavedModelBuilder::Save(bool text) {
  return impl_->Save(text);
}
Result<std::string> SavedModelBuilder::VariablesPath() {
  return impl_->VariablesPath();
}
Result<std::string> SavedModelBuilder::AddAsset(const std::string& path) {
  return impl_->AddAsset(path);
}
Status SavedModelBuilder::AddMetaGraphDef(std::string_view bytes) {
  return impl_->AddMetaGraphDef(bytes);
}

}  // namespace sluice
