#include "checkpoint/version1.h"

#include <map>
#include <set>

#include "checkpoint/pending_file.h"
#include "checkpoint/proto/checkpoint.pb.h"
#include "checkpoint/saved_parts.h"
#include "checkpoint/stored_slice.h"
#include "checkpoint/table.h"
#include "graph/tensor_proto.h"

namespace sluice {
namespace {

// TensorFlow's number of the format.
constexpr int kVersion1Producer = 1;
constexpr int64_t kMaxMessageBytes = (int64_t{1} << 31) - (1 << 20);

Status TooLarge(const std::string& name) {
  return InvalidArgument("Tensor slice is too large to serialize: tensor '",
                         name, "' (SaveV2 has no such limit)");
}

// TensorFlow reads the elements of these files from the lists of values, not
// from tensor_content.
template <typename T, typename List>
void FillList(const Tensor& t, List* list) {
  const std::span<const T> from = t.raw_flat<T>();
  list->Reserve(static_cast<int>(from.size()));
  for (const T& x : from) {
    if constexpr (std::is_class_v<T>)
      list->Add(x.value);
    else
      list->Add(x);
  }
}

// The type of parts of complex numbers, as a tensor of twice the elements.
template <typename T, typename List>
void FillComplex(const Tensor& t, List* list) {
  for (const std::complex<T>& x : t.raw_flat<std::complex<T>>()) {
    list->Add(x.real());
    list->Add(x.imag());
  }
}

Status FillValues(const Version1Tensor& from, proto::TensorProto* to) {
  const Tensor& t = from.value;
  // Each number takes a byte at least, and a list counts them in an int.
  if (t.num_elements() > kMaxMessageBytes / (IsComplex(t.dtype()) ? 2 : 1))
    return TooLarge(from.name);
  switch (t.dtype()) {
    case DType::kFloat:
      FillList<float>(t, to->mutable_float_val());
      break;
    case DType::kDouble:
      FillList<double>(t, to->mutable_double_val());
      break;
    case DType::kInt32:
      FillList<int32_t>(t, to->mutable_int_val());
      break;
    case DType::kUint8:
      FillList<uint8_t>(t, to->mutable_int_val());
      break;
    case DType::kInt16:
      FillList<int16_t>(t, to->mutable_int_val());
      break;
    case DType::kUint16:
      FillList<uint16_t>(t, to->mutable_int_val());
      break;
    case DType::kInt8:
      FillList<int8_t>(t, to->mutable_int_val());
      break;
    case DType::kQint8:
      FillList<qint8>(t, to->mutable_int_val());
      break;
    case DType::kQuint8:
      FillList<quint8>(t, to->mutable_int_val());
      break;
    case DType::kQint32:
      FillList<qint32>(t, to->mutable_int_val());
      break;
    case DType::kInt64:
      FillList<int64_t>(t, to->mutable_int64_val());
      break;
    case DType::kBool:
      FillList<bool>(t, to->mutable_bool_val());
      break;
    case DType::kComplex64:
      FillComplex<float>(t, to->mutable_scomplex_val());
      break;
    case DType::kComplex128:
      FillComplex<double>(t, to->mutable_dcomplex_val());
      break;
    case DType::kHalf:
    case DType::kBfloat16:
      for (const uint16_t bits : t.raw_flat<uint16_t>()) to->add_half_val(bits);
      break;
    case DType::kString:
      for (const std::string& s : t.raw_flat<std::string>())
        to->add_string_val(s);
      break;
    default:
      return InvalidArgument("tensor '", from.name,
                             "': expected a type that "
                             "checkpoints of version 1 have, got ",
                             DTypeName(t.dtype()), " (SaveV2 writes it)");
  }
  to->set_dtype(static_cast<proto::DataType>(t.dtype()));
  ShapeToProto(t.shape(), to->mutable_tensor_shape());
  return OkStatus();
}

class Version1Files final : public SavedFiles {
 public:
  Status Open(const std::vector<std::string>& paths, SavedParts* found);

  bool HasBytes(DType) const override { return false; }
  Status CheckPart(const std::string& name,
                   const SavedPart& part) const override;
  Status ReadBytes(const std::string& name, const SavedPart&, int64_t, size_t,
                   char*) const override {
    return Internal("tensor '", name, "': version 1 is read in whole parts");
  }
  Result<Tensor> ReadPart(const std::string& name, DType dtype,
                          const SavedPart& part) const override;
  std::string FileOf(const SavedPart& part) const override {
    return tables_[static_cast<size_t>(part.file)]->name();
  }

 private:
  Status Corrupt(const std::string& name, const SavedPart& part,
                 const std::string& what) const {
    return DataLoss("file '", FileOf(part), "', tensor '", name, "': expected ",
                    what, " (corrupted checkpoint)");
  }
  std::vector<std::unique_ptr<Table>> tables_;
};

Status Version1Files::Open(const std::vector<std::string>& paths,
                           SavedParts* found) {
  struct Whole {
    SavedTensor tensor;
    std::vector<SavedPart> parts;
    std::string file;
  };
  std::map<std::string, Whole> all;
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(auto table, Table::Open(path));
    SLUICE_ASSIGN_OR_RETURN(const auto value, table->Lookup(""));
    const std::string at = absl::StrCat("file '", path, "'");
    proto::SavedTensorSlices message;
    if (!value.has_value() || !message.ParseFromString(*value))
      return DataLoss(at,
                      ": expected a description of tensors, got none "
                      "(corrupted checkpoint)");
    if (message.meta().versions().min_consumer() > kVersion1Producer)
      return Unimplemented(at, ": expected a format of version 1 at most, got ",
                           message.meta().versions().min_consumer());
    const auto file = static_cast<int>(tables_.size());
    for (const auto& meta : message.meta().tensor()) {
      const Status s = [&]() -> Status {
        Whole read;
        SLUICE_ASSIGN_OR_RETURN(read.tensor.dtype, DTypeFromProto(meta.type()));
        SLUICE_ASSIGN_OR_RETURN(const PartialShape shape,
                                ShapeFromProto(meta.shape()));
        SLUICE_ASSIGN_OR_RETURN(read.tensor.shape, shape.ToShape());
        const auto [it, is_new] = all.try_emplace(meta.name(), std::move(read));
        Whole& whole = it->second;
        if (is_new) whole.file = path;
        if (!is_new && (whole.tensor.dtype != read.tensor.dtype ||
                        !(whole.tensor.shape == *shape.ToShape())))
          return DataLoss(
              "expected the same type and shape in all files, got "
              "others");
        for (const auto& p : meta.slice()) {
          SLUICE_ASSIGN_OR_RETURN(TensorSlice slice, SliceFromProto(p));
          SavedPart part;
          SLUICE_ASSIGN_OR_RETURN(part.shape,
                                  slice.ShapeOf(whole.tensor.shape));
          part.file = file;
          part.key = SliceKey(meta.name(), slice);
          whole.parts.push_back(std::move(part));
          whole.tensor.slices.push_back(std::move(slice));
        }
        return OkStatus();
      }();
      SLUICE_RETURN_IF_ERROR(
          Annotate(s, absl::StrCat(at, ", tensor '", meta.name(), "'")));
    }
    tables_.push_back(std::move(table));
  }
  for (auto& [name, whole] : all)
    SLUICE_RETURN_IF_ERROR(AddTensor(whole.file, name, std::move(whole.tensor),
                                     std::move(whole.parts), found));
  return OkStatus();
}

// An element takes a byte of the table's entries at least, or one of those that
// TensorFromProto may add.
Status Version1Files::CheckPart(const std::string& name,
                                const SavedPart& part) const {
  const int64_t size = tables_[static_cast<size_t>(part.file)]->size();
  const int64_t most = size * static_cast<int64_t>(Table::kMaxExpansion + 1);
  if (part.shape.num_elements() <= most) return OkStatus();
  return Corrupt(name, part,
                 absl::StrCat(part.shape.num_elements(),
                              " elements, got a file of ", size, " bytes"));
}

Result<Tensor> Version1Files::ReadPart(const std::string& name, DType dtype,
                                       const SavedPart& part) const {
  const Table& table = *tables_[static_cast<size_t>(part.file)];
  const auto value = table.Lookup(part.key);
  SLUICE_RETURN_IF_ERROR(
      Annotate(value.status(), absl::StrCat("tensor '", name, "'")));
  proto::SavedTensorSlices message;
  if (!value->has_value() || !message.ParseFromString(**value))
    return Corrupt(name, part, "the elements of a slice, got none");
  proto::TensorProto& data = *message.mutable_data()->mutable_data();
  // (TensorFlow writes neither type nor shape here.)
  data.set_dtype(static_cast<proto::DataType>(dtype));
  ShapeToProto(part.shape, data.mutable_tensor_shape());
  TensorProtoLimits limits;
  limits.expansion_bytes = table.size();
  Result<Tensor> out = TensorFromProto(data, &limits);
  if (!out.ok())
    return Corrupt(
        name, part,
        absl::StrCat("the elements of a slice, got: ", out.status().message()));
  return out;
}

}  // namespace

Result<std::unique_ptr<SavedFiles>> OpenVersion1(
    const std::vector<std::string>& paths, SavedParts* found) {
  auto files = std::make_unique<Version1Files>();
  SLUICE_RETURN_IF_ERROR(files->Open(paths, found));
  return files;
}

Status WriteVersion1(const std::string& path,
                     const std::vector<Version1Tensor>& tensors) {
  std::map<std::string, std::string> entries;
  proto::SavedTensorSlices meta;
  std::map<std::string, proto::SavedSliceMeta*> known;
  meta.mutable_meta()->mutable_versions()->set_producer(kVersion1Producer);
  for (const Version1Tensor& t : tensors) {
    SLUICE_RETURN_IF_ERROR(t.value.status());
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, t.slice.ShapeOf(t.shape));
    if (!(shape == t.value.shape()))
      return InvalidArgument("tensor '", t.name, "', slice '",
                             t.slice.ToString(), "': expected shape ",
                             shape.ToString(), ", got ",
                             t.value.shape().ToString());
    proto::SavedSliceMeta*& of = known[t.name];
    if (of == nullptr) {
      of = meta.mutable_meta()->add_tensor();
      of->set_name(t.name);
      ShapeToProto(t.shape, of->mutable_shape());
      of->set_type(static_cast<proto::DataType>(t.value.dtype()));
    }
    proto::TensorShapeProto whole;
    ShapeToProto(t.shape, &whole);
    if (of->shape().SerializeAsString() != whole.SerializeAsString() ||
        of->type() != static_cast<proto::DataType>(t.value.dtype()))
      return InvalidArgument("tensor '", t.name,
                             "': expected slices of one "
                             "type and shape, got others");
    SliceToProto(t.slice, of->add_slice());
    proto::SavedTensorSlices data;
    data.mutable_data()->set_name(t.name);
    SliceToProto(t.slice, data.mutable_data()->mutable_slice());
    SLUICE_RETURN_IF_ERROR(FillValues(t, data.mutable_data()->mutable_data()));
    if (static_cast<int64_t>(data.ByteSizeLong()) > kMaxMessageBytes)
      return TooLarge(t.name);
    if (!entries.emplace(SliceKey(t.name, t.slice), data.SerializeAsString())
             .second)
      return InvalidArgument("Adding duplicate key: ", t.name);
  }
  entries[""] = meta.SerializeAsString();
  SLUICE_ASSIGN_OR_RETURN(const std::string table,
                          MakeTable(entries, TableCompression::kSnappy));
  return ReplaceFile(path, table);
}

}  // namespace sluice
