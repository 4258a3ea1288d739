// What happens to checkpoints: bytes change, files end early, the disk is full,
// a saving process dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/failpoint.h"
#include "base/sanitizers.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/ordered_code.h"
#include "checkpoint/pending_file.h"
#include "checkpoint/proto/checkpoint.pb.h"
#include "checkpoint/stored_slice.h"
#include "checkpoint/table.h"
#include "checkpoint/version1.h"
#include "io/crc32c.h"
#include "io/file.h"

namespace sluice {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_checkpoint_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~CheckpointTest() override {
    DisableFailpoints();
    std::filesystem::remove_all(folder_);
  }
  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(folder_))
      out.push_back(e.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

  const std::filesystem::path folder_;
};

// Every element is `value`.
Tensor Filled(float value, int64_t elements) {
  Tensor t(DType::kFloat, Shape({elements}));
  for (float& x : t.flat<float>()) x = value;
  return t;
}

Status SaveTwo(const std::string& prefix, float value, int64_t elements = 100) {
  SLUICE_ASSIGN_OR_RETURN(auto writer, BundleWriter::Open(prefix));
  SLUICE_RETURN_IF_ERROR(writer->Add("a", Filled(value, elements)));
  SLUICE_RETURN_IF_ERROR(writer->Add("b", Filled(value + 1, elements)));
  return writer->Finish();
}

// The value that SaveTwo was called with; -1 if the checkpoint is not whole.
float ValueOf(const std::string& prefix) {
  const auto reader = CheckpointReader::Open(prefix);
  if (!reader.ok()) return -1;
  const auto read = reader->ReadMany({{.name = "a"}, {.name = "b"}});
  if (!read.ok()) return -1;
  const float a = (*read)[0].data<float>()[0];
  for (const Tensor& t : *read)
    for (const float x : t.flat<float>())
      if (x != a && x != a + 1) return -1;
  return a;
}

// Opens and reads everything. OK only if nothing is wrong.
Status Load(const std::string& prefix) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(prefix));
  std::vector<CheckpointReader::Request> all;
  for (const auto& [name, tensor] : reader.tensors())
    all.push_back({.name = name});
  SLUICE_RETURN_IF_ERROR(reader.ReadMany(all).status());
  return reader.Verify();
}

Status SaveSmall(const std::string& prefix) {
  SLUICE_ASSIGN_OR_RETURN(auto writer, BundleWriter::Open(prefix));
  SLUICE_RETURN_IF_ERROR(writer->Add("layer/weights", Filled(3, 5)));
  SLUICE_RETURN_IF_ERROR(
      writer->Add("words", Tensor::Vector<std::string>({"one", "", "three"})));
  SLUICE_RETURN_IF_ERROR(writer->AddSlice(
      "part", Shape({4}), *TensorSlice::Parse("0,2"), Filled(1, 2)));
  SLUICE_RETURN_IF_ERROR(writer->AddSlice(
      "part", Shape({4}), *TensorSlice::Parse("2,2"), Filled(2, 2)));
  return writer->Finish();
}

// ---- Corruption -------------------------------------------------------------

TEST_F(CheckpointTest, EveryFlippedBitIsFound) {
  ASSERT_TRUE(SaveSmall(Path("m")).ok());
  ASSERT_TRUE(Load(Path("m")).ok());
  ASSERT_TRUE(WriteVersion1(Path("old"),
                            {{"v", Shape({5}), TensorSlice(1), Filled(3, 5)}})
                  .ok());
  ASSERT_TRUE(Load(Path("old")).ok());
  const std::pair<std::string, std::string> files[] = {
      {"m.index", "m"}, {"m.data-00000-of-00001", "m"}, {"old", "old"}};
  for (const auto& [file, prefix] : files) {
    const std::string good = *ReadFile(Path(file));
    // (One bit of each byte where everything takes ten times as long.)
    const int step = kSanitized ? 8 : 1;
    for (size_t i = 0; i < good.size(); ++i)
      for (int bit = kSanitized ? static_cast<int>(i % 8) : 0; bit < 8;
           bit += step) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
        ASSERT_TRUE(WriteFile(Path(file), bad).ok());
        const Status s = Load(Path(prefix));
        ASSERT_FALSE(s.ok()) << file << " byte " << i << " bit " << bit;
        EXPECT_THAT(std::string(s.message()), HasSubstr(Path(file)))
            << "byte " << i << " bit " << bit;
        if (file == "m.data-00000-of-00001") {
          EXPECT_THAT(std::string(s.message()),
                      AnyOf(HasSubstr("'layer/weights'"), HasSubstr("'part'"),
                            HasSubstr("'words'")));
        }
      }
    ASSERT_TRUE(WriteFile(Path(file), good).ok());
  }
}

TEST_F(CheckpointTest, EveryTruncationIsFound) {
  ASSERT_TRUE(SaveSmall(Path("m")).ok());
  ASSERT_TRUE(WriteVersion1(Path("old"),
                            {{"v", Shape({5}), TensorSlice(1), Filled(3, 5)}})
                  .ok());
  const std::pair<std::string, std::string> files[] = {
      {"m.index", "m"}, {"m.data-00000-of-00001", "m"}, {"old", "old"}};
  for (const auto& [file, prefix] : files) {
    const std::string good = *ReadFile(Path(file));
    for (size_t n = 0; n < good.size(); ++n) {
      ASSERT_TRUE(WriteFile(Path(file), good.substr(0, n)).ok());
      const Status s = Load(Path(prefix));
      ASSERT_EQ(s.code(), StatusCode::kDataLoss) << file << " " << n;
      EXPECT_THAT(std::string(s.message()), HasSubstr(Path(file)));
    }
    ASSERT_TRUE(WriteFile(Path(file), good).ok());
  }
}

TEST_F(CheckpointTest, AMissingDataFileIsNamedWithTheTensor) {
  ASSERT_TRUE(SaveSmall(Path("m")).ok());
  std::filesystem::remove(Path("m.data-00000-of-00001"));
  const Status s = Load(Path("m"));
  EXPECT_EQ(s.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(s.message()), HasSubstr("m.data-00000-of-00001"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("layer/weights"));
}

TEST_F(CheckpointTest, AMissingTensorIsReportedWithTheNearest) {
  ASSERT_TRUE(SaveSmall(Path("m")).ok());
  const auto reader = CheckpointReader::Open(Path("m"));
  ASSERT_TRUE(reader.ok());
  const Status s = reader->Read("layer/weight").status();
  EXPECT_EQ(s.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("Key layer/weight not found in checkpoint"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("'layer/weights'"));
  EXPECT_EQ(CheckpointReader::Open(Path("nothing")).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(CheckpointReader::Open("").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CheckpointTest, AMissingPartIsAnError) {
  {
    auto writer = *BundleWriter::Open(Path("m"));
    ASSERT_TRUE(writer
                    ->AddSlice("v", Shape({10}), *TensorSlice::Parse("0,4"),
                               Filled(1, 4))
                    .ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto reader = CheckpointReader::Open(Path("m"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->ReadSlice("v", *TensorSlice::Parse("1,3")).ok());
  const Status s = reader->Read("v").status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("4 of 10 elements"));
}

// An index of one tensor "t" of `elements` in `size` bytes.
Status WriteIndex(const std::string& prefix, DType dtype, int64_t elements,
                  int64_t size, bool other_order) {
  proto::BundleHeaderProto header;
  header.set_num_shards(1);
  if (other_order) header.set_endianness(proto::BundleHeaderProto::BIG);
  proto::BundleEntryProto entry;
  entry.set_dtype(static_cast<proto::DataType>(dtype));
  entry.mutable_shape()->add_dim()->set_size(elements);
  entry.set_size(size);
  SLUICE_ASSIGN_OR_RETURN(const std::string table,
                          MakeTable({{"", header.SerializeAsString()},
                                     {"t", entry.SerializeAsString()}},
                                    TableCompression::kNone));
  return WriteFile(BundleIndexName(prefix), table);
}

// What an index claims is not allocated before the file is known to have it.
TEST_F(CheckpointTest, ClaimsOfMoreThanTheFileHasAreErrors) {
  const std::string data = BundleDataName(Path("m"), 0, 1);
  const int64_t large = int64_t{1} << 33;
  const auto read = [&](DType dtype, int64_t elements, int64_t size,
                        bool other_order) {
    EXPECT_TRUE(WriteIndex(Path("m"), dtype, elements, size, other_order).ok());
    const auto reader = CheckpointReader::Open(Path("m"));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader->Read("t").status();
  };
  ASSERT_TRUE(WriteFile(data, "1234").ok());
  Status s = read(DType::kString, large, large, false);
  EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("a file that ends at 4"));
  for (const bool other_order : {false, true}) {
    s = read(DType::kFloat, large, 4 * large, other_order);
    EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  }
  std::filesystem::remove(data);
  s = read(DType::kString, 1, int64_t{1} << 62, false);
  EXPECT_EQ(s.code(), StatusCode::kNotFound) << s;

  proto::SavedTensorSlices message;
  auto* const meta = message.mutable_meta()->add_tensor();
  meta->set_name("t");
  meta->set_type(static_cast<proto::DataType>(DType::kFloat));
  meta->mutable_shape()->add_dim()->set_size(large);
  SliceToProto(TensorSlice(1), meta->add_slice());
  const auto table =
      MakeTable({{"", message.SerializeAsString()}}, TableCompression::kSnappy);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(WriteFile(Path("old"), *table).ok());
  s = Load(Path("old"));
  EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("got a file of"));
}

TEST_F(CheckpointTest, WhatIsNoFileIsAnErrorAndDoesNotHang) {
  ASSERT_EQ(mkfifo(Path("m.index").c_str(), 0666), 0);
  EXPECT_EQ(CheckpointReader::Open(Path("m")).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_FALSE(CheckpointExists(Path("m")));
  ASSERT_TRUE(SaveTwo(Path("n"), 1).ok());
  std::filesystem::remove(Path("n.data-00000-of-00001"));
  ASSERT_EQ(mkfifo(Path("n.data-00000-of-00001").c_str(), 0666), 0);
  EXPECT_EQ(Load(Path("n")).code(), StatusCode::kFailedPrecondition);
  std::filesystem::create_directory(Path("folder"));
  EXPECT_FALSE(CheckpointExists(Path("folder")));
  EXPECT_TRUE(CheckpointExists(Path("n")));
}

// ---- Writing ----------------------------------------------------------------

TEST_F(CheckpointTest, ATensorCanHaveAnyName) {
  auto writer = *BundleWriter::Open(Path("m"));
  ASSERT_TRUE(writer->Add("any", Filled(7, 2)).ok());
  const Status s = writer->Finish();
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(writer->Finish().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckpointReader::Open(Path("m"))->Read("any")->data<float>()[1],
            7);
}

// Which files are in use is not known: none is replaced.
TEST_F(CheckpointTest, AnIndexThatCannotBeReadKeepsItsDataFiles) {
  const std::string index = Path("m.index"), aside = Path("aside");
  ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
  std::filesystem::rename(index, aside);
  std::filesystem::create_directory(index);
  const auto before = Files();
  EXPECT_EQ(SaveTwo(Path("m"), 2).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Files(), before);
  std::filesystem::remove(index);
  std::filesystem::rename(aside, index);
  EXPECT_EQ(ValueOf(Path("m")), 1);
  // A corrupt index is replaced, but until then keeps its files too.
  const std::string good = *ReadFile(index);
  ASSERT_TRUE(WriteFile(index, "corrupt").ok());
  ASSERT_TRUE(EnableFailpoints("checkpoint.rename=error(full)@1*1").ok());
  EXPECT_FALSE(SaveTwo(Path("m"), 2).ok());
  DisableFailpoints();
  ASSERT_TRUE(WriteFile(index, good).ok());
  EXPECT_EQ(ValueOf(Path("m")), 1);
  ASSERT_TRUE(WriteFile(index, "corrupt").ok());
  const Status s = SaveTwo(Path("m"), 3);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(ValueOf(Path("m")), 3);
}

TEST_F(CheckpointTest, MisuseOfAWriterIsAnError) {
  const auto fails = [&](auto&& misuse) {
    auto writer = *BundleWriter::Open(Path("m"));
    EXPECT_TRUE(writer->Add("a", Filled(1, 3)).ok());
    const Status s = misuse(*writer);
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(writer->Finish(), s);  // Nothing is written after an error.
    EXPECT_FALSE(std::filesystem::exists(Path("m.index")));
    return s;
  };
  EXPECT_EQ(
      fails([](BundleWriter& w) { return w.Add("", Filled(1, 1)); }).code(),
      StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(fails([](BundleWriter& w) {
                            return w.Add("a", Filled(1, 1));
                          }).message()),
              HasSubstr("duplicate key: a"));
  EXPECT_EQ(fails([](BundleWriter& w) {
              return w.Add("v", *Tensor::Make(DType::kVariant, Shape()));
            }).code(),
            StatusCode::kUnimplemented);
  EXPECT_FALSE(
      fails([](BundleWriter& w) { return w.Add("x", Tensor()); }).ok());
  EXPECT_EQ(fails([](BundleWriter& w) {
              return w.AddSlice("x", Shape({3}), *TensorSlice::Parse("2,2"),
                                Filled(1, 2));
            }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(fails([](BundleWriter& w) {
              Status s = w.BeginTensor("x", DType::kFloat, Shape({3}));
              if (s.ok()) s = w.AppendBytes("1234");
              return s.ok() ? w.EndTensor() : s;
            }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(Files().empty()) << Files()[0];
}

TEST_F(CheckpointTest, ATensorCanBeWrittenAndReadInPieces) {
  const std::string bytes(1 << 20, 'q');
  constexpr int kPieces = 5;
  auto writer = *BundleWriter::Open(Path("m"));
  ASSERT_TRUE(writer
                  ->BeginTensor("big", DType::kUint8,
                                Shape({kPieces, int64_t{1} << 20}))
                  .ok());
  for (int i = 0; i < kPieces; ++i)
    ASSERT_TRUE(writer->AppendBytes(bytes).ok());
  ASSERT_TRUE(writer->EndTensor().ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = CheckpointReader::Open(Path("m"));
  size_t total = 0, largest = 0;
  ASSERT_TRUE(reader
                  ->ForEachPiece("big",
                                 [&](std::string_view piece) {
                                   total += piece.size();
                                   largest = std::max(largest, piece.size());
                                   return OkStatus();
                                 })
                  .ok());
  EXPECT_EQ(total, bytes.size() * kPieces);
  EXPECT_LT(largest, bytes.size());
  EXPECT_EQ(reader->Read("big")->num_elements(), 5 << 20);
}

TEST_F(CheckpointTest, LargeTensorsAreReadInPartsOnSeveralThreads) {
  std::mt19937 random(7);
  auto writer = *BundleWriter::Open(Path("m"));
  std::vector<Tensor> want;
  std::vector<CheckpointReader::Request> all;
  for (const int64_t n : {3'000'000, 1, 0, 5'000'001, 70'000}) {
    Tensor t(DType::kInt32, Shape({n}));
    for (int32_t& x : t.flat<int32_t>()) x = static_cast<int32_t>(random());
    all.push_back({.name = absl::StrCat("v", n)});
    ASSERT_TRUE(writer->Add(all.back().name, t).ok());
    want.push_back(std::move(t));
  }
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = CheckpointReader::Open(Path("m"));
  ASSERT_TRUE(reader.ok());
  for (const int threads : {1, 2, 7}) {
    const auto got = reader->ReadMany(all, threads);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE((*got)[i].Identical(want[i])) << i;
  }
}

TEST_F(CheckpointTest, AReaderReadsOnWhatWasReplaced) {
  ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
  const auto reader = CheckpointReader::Open(Path("m"));
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(SaveTwo(Path("m"), 5).ok());
  EXPECT_EQ(reader->Read("a")->data<float>()[0], 1);
  EXPECT_EQ(ValueOf(Path("m")), 5);
}

TEST_F(CheckpointTest, ReplacingLeavesNoOldFiles) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(SaveTwo(Path("m"), static_cast<float>(i)).ok());
    EXPECT_EQ(ValueOf(Path("m")), static_cast<float>(i));
    if (i % 2 == 0)
      EXPECT_THAT(Files(), ElementsAre("m.data-00000-of-00001", "m.index"));
    else
      EXPECT_THAT(Files(), ElementsAre("m.data-00000-of-00002",
                                       "m.data-00001-of-00002", "m.index"));
  }
}

TEST_F(CheckpointTest, MergingReplacesAtOnceToo) {
  for (int i = 0; i < 3; ++i) {
    for (const char* const part : {"p0", "p1"}) {
      auto writer = *BundleWriter::Open(Path(part));
      ASSERT_TRUE(writer->Add(part, Filled(static_cast<float>(i), 9)).ok());
      ASSERT_TRUE(writer->Finish().ok());
    }
    const Status s = MergeBundles({Path("p0"), Path("p1")}, Path("m"));
    ASSERT_TRUE(s.ok()) << s;
    const auto reader = CheckpointReader::Open(Path("m"));
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const char* const part : {"p0", "p1"})
      EXPECT_EQ(reader->Read(part)->data<float>()[8], static_cast<float>(i));
    EXPECT_FALSE(std::filesystem::exists(Path("p0.index")));
  }
  ASSERT_TRUE(SaveTwo(Path("p0"), 1).ok());
  ASSERT_TRUE(SaveTwo(Path("p1"), 1).ok());
  EXPECT_THAT(
      std::string(MergeBundles({Path("p0"), Path("p1")}, Path("m")).message()),
      HasSubstr("Duplicate tensor keyed by a encountered"));
  EXPECT_EQ(MergeBundles({Path("none")}, Path("m")).code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(
      MergeBundles({Path("none"), Path("p0")}, Path("other"), true).ok());
  for (const auto& parts : {std::vector<std::string>(), {Path("none")}})
    EXPECT_EQ(MergeBundles(parts, Path("m"), true).code(),
              StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckpointReader::Open(Path("m"))->Has("p1"));
}

// ---- Faults -----------------------------------------------------------------

TEST_F(CheckpointTest, AFailedMergeCanBeTriedAgain) {
  ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
  for (const char* const part : {"p0", "p1"}) {
    auto writer = *BundleWriter::Open(Path(part));
    ASSERT_TRUE(writer->Add(part, Filled(5, 9)).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto before = Files();
  // While the second part is renamed, and when the index is written.
  for (const char* const fault : {"checkpoint.rename=error(full)@1*1",
                                  "checkpoint.rename=error(full)@2*1",
                                  "checkpoint.write=error(full)*1"}) {
    ASSERT_TRUE(EnableFailpoints(fault).ok());
    EXPECT_FALSE(MergeBundles({Path("p0"), Path("p1")}, Path("m")).ok())
        << fault;
    DisableFailpoints();
    EXPECT_EQ(Files(), before) << fault;
    EXPECT_EQ(ValueOf(Path("m")), 1) << fault;
  }
  const Status s = MergeBundles({Path("p0"), Path("p1")}, Path("m"));
  ASSERT_TRUE(s.ok()) << s;
  const auto reader = CheckpointReader::Open(Path("m"));
  for (const char* const part : {"p0", "p1"})
    EXPECT_EQ(reader->Read(part)->data<float>()[8], 5) << part;
}

// At each failpoint, each time it is reached, a failed save leaves the previous
// checkpoint, at the same path and at another, whole, and none of its files.
TEST_F(CheckpointTest, FailedSavesLeaveThePreviousCheckpoint) {
  ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
  for (const char* const point :
       {"checkpoint.write", "checkpoint.flush", "checkpoint.rename",
        "checkpoint.flush_folder"}) {
    int failures = 0;
    for (int skip = 0; skip < 50; ++skip) {
      const auto before = Files();
      ASSERT_TRUE(
          EnableFailpoints(absl::StrCat(point, "=error(full)@", skip, "*1"))
              .ok());
      const Status s = SaveTwo(Path("m"), 2, 200'000);
      DisableFailpoints();
      if (s.ok()) break;
      ++failures;
      const float value = ValueOf(Path("m"));
      if (value == 2 && std::string(point) == "checkpoint.flush_folder") {
        // After the index has its name the new checkpoint is the one.
        ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
        continue;
      }
      ASSERT_EQ(value, 1) << point << skip;
      EXPECT_EQ(Files(), before) << point << skip;
    }
    EXPECT_GE(failures, 1) << point;
    ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
    for (const std::string& name : Files())
      EXPECT_EQ(name.find("tempstate"), name.npos) << name;
  }
}

// A file-size limit stands for a disk that is full.
TEST_F(CheckpointTest, AFullDiskIsAnErrorAndTheOldCheckpointStays) {
  ASSERT_TRUE(SaveTwo(Path("m"), 1).ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status s = SaveTwo(Path("m"), 2, 1'000'000);
    _exit(s.code() == StatusCode::kFailedPrecondition &&
                  std::string(s.message()).find("File too large") !=
                      std::string::npos
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(ValueOf(Path("m")), 1);
  EXPECT_EQ(Files().size(), 2u);
}

// ---- Parts of the format ----------------------------------------------------

TEST_F(CheckpointTest, TablesOfManyBlocksAreReadAndSearched) {
  std::map<std::string, std::string> entries;
  std::mt19937 random(11);
  for (int i = 0; i < (kSanitized ? 600 : 3000); ++i)
    entries[absl::StrCat("key/", random() % 100'000, "/", i)] =
        std::string(random() % 900, static_cast<char>('a' + i % 26));
  for (const auto compression :
       {TableCompression::kNone, TableCompression::kSnappy}) {
    const auto bytes = MakeTable(entries, compression);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto table = Table::FromBytes(*bytes, "table");
    ASSERT_TRUE(table.ok()) << table.status();
    std::map<std::string, std::string> read;
    ASSERT_TRUE((*table)
                    ->ForEach([&](std::string_view k, std::string_view v) {
                      read.emplace(k, v);
                      return OkStatus();
                    })
                    .ok());
    EXPECT_EQ(read, entries);
    for (const auto& [key, value] : entries) {
      const auto found = (*table)->Lookup(key);
      ASSERT_TRUE(found.ok() && found->has_value()) << key;
      EXPECT_EQ(**found, value);
    }
    for (const char* const key : {"", "key/", "zzz", "key/5"})
      EXPECT_FALSE((*table)->Lookup(key)->has_value());
  }
}

// As TensorFlow's ordered_code_test lists them.
TEST_F(CheckpointTest, CodesOfNumbersAndStringsSortAsTheyDo) {
  const auto code = [](int64_t v) {
    std::string out;
    AppendOrderedSigned(v, &out);
    return out;
  };
  EXPECT_EQ(code(0), "\x80");
  EXPECT_EQ(code(63), "\xbf");
  EXPECT_EQ(code(64), "\xc0\x40");
  EXPECT_EQ(code(-1), "\x7f");
  EXPECT_EQ(code(-64), "\x40");
  EXPECT_EQ(code(-65), "\x3f\xbf");
  std::string before;
  for (int64_t v = INT64_MIN; v < INT64_MAX / 3; v = v / 3 + (v < 0 ? 1 : 0)) {
    if (v == 0) break;
    EXPECT_TRUE(before.empty() || before < code(v)) << v;
    before = code(v);
  }
  before = code(0);
  for (int64_t v = 1; v < INT64_MAX / 3; v *= 3) {
    EXPECT_LT(before, code(v)) << v;
    before = code(v);
  }
  EXPECT_LT(before, code(INT64_MAX));
  EXPECT_EQ(code(INT64_MAX).size(), 10u);
  std::string text;
  AppendOrderedString(std::string_view("a\0b\xff", 4), &text);
  EXPECT_EQ(text, std::string("a\0\xff"
                              "b\xff\0\0\1",
                              8));
  std::string number;
  AppendOrderedUnsigned(0, &number);
  AppendOrderedUnsigned(258, &number);
  EXPECT_EQ(number, std::string("\0\2\1\2", 4));
}

TEST_F(CheckpointTest, SlicesAreParsedAndChecked) {
  const auto part = ParseShapeAndSlice("10 20 0,4:-");
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->shape, Shape({10, 20}));
  EXPECT_EQ(part->slice_shape, Shape({4, 20}));
  EXPECT_EQ(part->slice.ToString(), "0,4:-");
  for (const char* const bad :
       {"", "10", "10 x", "10 1", "10 0,0", "10 -1,2", "10 9,2", "10 20 0,4",
        "-10 -", "a -", "10 0,4,5", "10 0,99999999999999999999"})
    EXPECT_EQ(ParseShapeAndSlice(bad).status().code(),
              StatusCode::kInvalidArgument)
        << bad;
  EXPECT_TRUE(TensorSlice::Parse("0,3")->Covers(Shape({3})));
  EXPECT_FALSE(TensorSlice::Parse("0,2")->Covers(Shape({3})));
}

TEST_F(CheckpointTest, ChecksumsOfPartsAreJoined) {
  std::mt19937 random(3);
  std::string bytes(100'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  const std::string_view all(bytes);
  for (const size_t cut : {0, 1, 7, 4096, 99'999, 100'000})
    EXPECT_EQ(JoinCrc32c(Crc32c(all.substr(0, cut)), Crc32c(all.substr(cut)),
                         all.size() - cut),
              Crc32c(all))
        << cut;
}

}  // namespace
}  // namespace sluice
