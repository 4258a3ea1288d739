// Checkpoints that TensorFlow wrote (tests/checkpoints/record.py): they are
// read, and the same ones are written, byte for byte where the format has no
// freedom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <complex>
#include <filesystem>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/version1.h"
#include "io/file.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string Recorded(const std::string& name) {
  return "tests/checkpoints/" + name;
}

// As count() of record.py.
template <typename T>
Tensor Counted(const Shape& shape) {
  Tensor t(DTypeOf<T>(), shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const auto x = static_cast<double>(i + 1);
    if constexpr (std::is_same_v<T, complex64> ||
                  std::is_same_v<T, complex128>) {
      t.data<T>()[i] = T(static_cast<typename T::value_type>(x),
                         static_cast<typename T::value_type>(-x));
    } else if constexpr (std::is_same_v<T, half> ||
                         std::is_same_v<T, bfloat16>) {
      t.data<T>()[i] = T(static_cast<float>(x));
    } else {
      t.data<T>()[i] = static_cast<T>(x);
    }
  }
  return t;
}

using Named = std::vector<std::pair<std::string, Tensor>>;

Named OldNumbers() {
  const Shape s({2, 3});
  return {
      {"float32", Counted<float>(s)},         {"float64", Counted<double>(s)},
      {"int32", Counted<int32_t>(s)},         {"uint8", Counted<uint8_t>(s)},
      {"int16", Counted<int16_t>(s)},         {"int8", Counted<int8_t>(s)},
      {"complex64", Counted<complex64>(s)},   {"int64", Counted<int64_t>(s)},
      {"complex128", Counted<complex128>(s)}, {"float16", Counted<half>(s)}};
}
Named Numbers() {
  const Shape s({2, 3});
  Named all = OldNumbers();
  all.insert(all.begin() + 8, {{"bfloat16", Counted<bfloat16>(s)},
                               {"uint16", Counted<uint16_t>(s)}});
  all.emplace_back("uint32", Counted<uint32_t>(s));
  all.emplace_back("uint64", Counted<uint64_t>(s));
  return all;
}
Named Common() {
  return {{"bool", Tensor::Vector<bool>({true, false, true})},
          {"empty", Tensor(DType::kFloat, Shape({0, 3}))},
          {"scalar", Tensor::Scalar<int64_t>(7)},
          {"string_scalar", Tensor::Scalar<std::string>("hello")},
          {"strings",
           Tensor::Of<std::string>(
               Shape({2, 3}), {"", "a", std::string("two\0parts", 9),
                               std::string(300, 'x'), "\xff\xfe", "last"})},
          {"no_strings", Tensor(DType::kString, Shape({0}))}};
}
Named Both(Named a, const Named& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Named Wholes() {
  return {{"matrix", Counted<float>(Shape({5, 4}))},
          {"vector", Counted<int32_t>(Shape({7}))},
          {"whole", Counted<double>(Shape({2, 3}))}};
}

// The parts of record.py.
struct Part {
  std::string name, text;
};
std::vector<Part> Parts() {
  return {{"matrix", "5 4 0,2:0,1"}, {"matrix", "5 4 0,2:1,3"},
          {"matrix", "5 4 2,3:0,2"}, {"matrix", "5 4 2,3:2,2"},
          {"vector", "7 0,3"},       {"vector", "7 3,4"},
          {"whole", "2 3 0,2:-"}};
}
Tensor WholeOf(const std::string& name) {
  for (const auto& [n, t] : Wholes())
    if (n == name) return t;
  return Tensor();
}
// Cut out element by element, to compare with.
Tensor Cut(const Tensor& whole, const ShapeAndSlice& part) {
  Tensor out(whole.dtype(), part.slice_shape);
  const size_t size = DTypeSize(whole.dtype());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = whole.rank() - 1; d >= 0; --d) {
      const int64_t x = rest % part.slice_shape.dim(d);
      rest /= part.slice_shape.dim(d);
      at += (part.slice.extents()[static_cast<size_t>(d)].start + x) * stride;
      stride *= whole.dim(d);
    }
    std::memcpy(out.raw<char>() + static_cast<size_t>(i) * size,
                whole.raw<char>() + static_cast<size_t>(at) * size, size);
  }
  return out;
}

void ExpectContents(const std::string& prefix, const Named& want, int version) {
  const auto reader = CheckpointReader::Open(prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->version(), version);
  EXPECT_EQ(reader->tensors().size(), want.size());
  EXPECT_TRUE(reader->Verify().ok()) << reader->Verify();
  for (const auto& [name, tensor] : want) {
    const Result<Tensor> got = reader->Read(name);
    ASSERT_TRUE(got.ok()) << prefix << ": " << got.status();
    EXPECT_TRUE(got->Identical(tensor))
        << prefix << " " << name << ": expected " << tensor.ToString()
        << ", got " << got->ToString();
  }
}

class RecordedCheckpoints : public ::testing::Test {
 protected:
  RecordedCheckpoints()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_recorded_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~RecordedCheckpoints() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  void ExpectSameFile(const std::string& name) const {
    const auto want = ReadFile(Recorded(name));
    const auto got = ReadFile(Path(name));
    ASSERT_TRUE(want.ok() && got.ok()) << name << " " << got.status();
    EXPECT_TRUE(*want == *got) << name << " is not as TensorFlow writes it";
  }

  const std::filesystem::path folder_;
};

TEST_F(RecordedCheckpoints, AllTypesOfTensorFlowAreRead) {
  ExpectContents(Recorded("types"), Both(Numbers(), Common()), 2);
}

TEST_F(RecordedCheckpoints, PartsOfTensorFlowArePutTogether) {
  ExpectContents(Recorded("parts"), Wholes(), 2);
  ExpectContents(Recorded("merged"), Wholes(), 2);
}

TEST_F(RecordedCheckpoints, TypesOfVersion1AreRead) {
  ExpectContents(Recorded("old_types"), Both(OldNumbers(), Common()), 1);
}

TEST_F(RecordedCheckpoints, VariablesOfObjectsAreFoundByTheirFullNames) {
  const auto reader = CheckpointReader::Open(Recorded("objects"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->Verify().ok());
  const std::string kernel = "model/kernel/.ATTRIBUTES/VARIABLE_VALUE";
  const auto names = reader->FullNames();
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), 3u);
  EXPECT_EQ(names->at("dense/kernel"), kernel);
  const Tensor want = Counted<float>(Shape({2, 3}));
  for (const std::string& name : {kernel, std::string("dense/kernel")}) {
    EXPECT_TRUE(reader->Has(name)) << name;
    const Result<Tensor> got = reader->Read(name);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->Identical(want)) << got->ToString();
    int64_t bytes = 0;
    EXPECT_TRUE(reader
                    ->ForEachPiece(name,
                                   [&](std::string_view piece) {
                                     bytes +=
                                         static_cast<int64_t>(piece.size());
                                     return OkStatus();
                                   })
                    .ok());
    EXPECT_EQ(bytes, 24);
  }
  EXPECT_EQ(reader->Read("global_step")->scalar<int64_t>(), 7);
  EXPECT_FALSE(reader->Has("twin"));
  const Status twin = reader->Read("twin").status();
  EXPECT_EQ(twin.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(twin.message(), HasSubstr("'twin', which 2 have"));
  EXPECT_FALSE(reader->Has("dense/kerne"));
  EXPECT_THAT(reader->Read("dense/kerne").status().message(),
              HasSubstr("nearest: 'dense/kernel'"));
}

TEST_F(RecordedCheckpoints, ObjectsThatCannotBeReadAreDataLoss) {
  for (const Tensor& objects :
       {Tensor::Scalar<std::string>("\x0a\xff"), Tensor::Scalar(1.0f),
        Tensor::Vector<std::string>({""})}) {
    auto writer = *BundleWriter::Open(Path("bad"));
    ASSERT_TRUE(writer->Add("_CHECKPOINTABLE_OBJECT_GRAPH", objects).ok());
    ASSERT_TRUE(writer->Add("a", Tensor::Scalar(1.0f)).ok());
    ASSERT_TRUE(writer->Finish().ok());
    const auto reader = CheckpointReader::Open(Path("bad"));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(reader->Read("a").ok());  // It needs no objects.
    EXPECT_FALSE(reader->Has("b"));
    EXPECT_EQ(reader->Read("b").status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(reader->FullNames().status().code(), StatusCode::kDataLoss);
  }
}

TEST_F(RecordedCheckpoints, PartsOfVersion1ArePutTogether) {
  ExpectContents(Recorded("old_parts"), Wholes(), 1);
}

TEST_F(RecordedCheckpoints, AnySliceOfAnyPartsIsRead) {
  for (const char* const name : {"parts", "merged", "old_parts"}) {
    const auto reader = CheckpointReader::Open(Recorded(name));
    ASSERT_TRUE(reader.ok()) << reader.status();
    const Tensor whole = WholeOf("matrix");
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t rows = 1; r + rows <= 5; ++rows)
        for (int64_t c = 0; c < 4; ++c)
          for (int64_t cols = 1; c + cols <= 4; ++cols) {
            const auto part = ParseShapeAndSlice(
                absl::StrCat("5 4 ", r, ",", rows, ":", c, ",", cols));
            ASSERT_TRUE(part.ok());
            const auto got = reader->ReadSlice("matrix", part->slice);
            ASSERT_TRUE(got.ok()) << got.status();
            EXPECT_TRUE(got->Identical(Cut(whole, *part)))
                << name << " " << part->slice.ToString();
          }
  }
}

TEST_F(RecordedCheckpoints, TheIndexKnowsTypesShapesAndSlices) {
  const auto reader = CheckpointReader::Open(Recorded("parts"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto found = reader->Find("matrix");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->dtype, DType::kFloat);
  EXPECT_EQ((*found)->shape, Shape({5, 4}));
  std::vector<std::string> slices;
  for (const TensorSlice& s : (*found)->slices) slices.push_back(s.ToString());
  EXPECT_THAT(slices, ElementsAre("0,2:0,1", "0,2:1,3", "2,3:0,2", "2,3:2,2"));
}

TEST_F(RecordedCheckpoints, FilesOfVersion2AreWrittenAsByTensorFlow) {
  {
    const auto writer = BundleWriter::Open(Path("types"));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [name, tensor] : Both(Numbers(), Common()))
      ASSERT_TRUE((*writer)->Add(name, tensor).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  ExpectSameFile("types.index");
  ExpectSameFile("types.data-00000-of-00001");
  const auto save = [&](const std::string& name,
                        const std::vector<size_t>& which) {
    const auto writer = BundleWriter::Open(Path(name));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const size_t i : which) {
      const Part p = Parts()[i];
      const auto part = ParseShapeAndSlice(p.text);
      ASSERT_TRUE(part.ok()) << part.status();
      const Status s = (*writer)->AddSlice(p.name, part->shape, part->slice,
                                           Cut(WholeOf(p.name), *part));
      ASSERT_TRUE(s.ok()) << s;
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  };
  save("parts", {0, 1, 2, 3, 4, 5, 6});
  ExpectSameFile("parts.index");
  ExpectSameFile("parts.data-00000-of-00001");
  save("temporary0", {0, 1, 4});
  save("temporary1", {2, 3, 5, 6});
  const Status merged =
      MergeBundles({Path("temporary0"), Path("temporary1")}, Path("merged"));
  ASSERT_TRUE(merged.ok()) << merged;
  ExpectSameFile("merged.index");
  ExpectSameFile("merged.data-00000-of-00002");
  ExpectSameFile("merged.data-00001-of-00002");
}

TEST_F(RecordedCheckpoints, WhatIsWrittenInVersion1IsReadAgain) {
  std::vector<Version1Tensor> tensors;
  for (const auto& [name, t] : Both(OldNumbers(), Common()))
    tensors.push_back({name, t.shape(), TensorSlice(t.rank()), t});
  ASSERT_TRUE(WriteVersion1(Path("old_types"), tensors).ok());
  ExpectContents(Path("old_types"), Both(OldNumbers(), Common()), 1);
  tensors.clear();
  for (const Part& p : Parts()) {
    const auto part = ParseShapeAndSlice(p.text);
    tensors.push_back(
        {p.name, part->shape, part->slice, Cut(WholeOf(p.name), *part)});
  }
  ASSERT_TRUE(WriteVersion1(Path("old_parts"), tensors).ok());
  ExpectContents(Path("old_parts"), Wholes(), 1);
}

}  // namespace
}  // namespace sluice
