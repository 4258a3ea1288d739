#include "io/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/escaping.h"
#include "io/crc32c.h"
#include "io/file.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Crc32cTest, GivesTheChecksumsOfRfc3720) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(MaskCrc(0), 0xa282ead8u);
}

// Each path that this processor has, whichever of them Crc32c takes.
TEST(Crc32cTest, IsTheSameOnEveryPathAndInParts) {
  const std::vector<Crc32cPath> paths = Crc32cPaths();
  const auto portable = paths[0].crc;
  EXPECT_EQ(portable("123456789", 0), 0xe3069283u);
  std::mt19937 rng(20240611);
  std::string bytes(20000, '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  for (size_t n = 0; n <= bytes.size(); n += 1 + n / 3) {
    const size_t from = rng() % (bytes.size() - n + 1);
    const std::string_view part(bytes.data() + from, n);
    const uint32_t want = portable(part, 0);
    EXPECT_EQ(Crc32c(part), want) << n;
    const size_t cut = rng() % (n + 1);
    for (const Crc32cPath& path : paths) {
      EXPECT_EQ(path.crc(part, 0), want) << path.name << ", " << n;
      EXPECT_EQ(path.crc(part.substr(cut), path.crc(part.substr(0, cut), 0)),
                want)
          << path.name << ", " << n << " in two";
    }
  }
}

// A file that is removed again.
class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() : path_("/tmp/sluice_records_" + std::to_string(getpid())) {}
  ~RecordsTest() override { unlink(path_.c_str()); }

  void WriteAll(const std::vector<std::string>& records,
                RecordCompression compression = RecordCompression::kNone) {
    const auto writer = RecordWriter::Open(path_, {.compression = compression});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const std::string& r : records) ASSERT_TRUE((*writer)->Write(r).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }
  // The records up to the end or an error.
  static std::vector<std::string> ReadAll(RecordReader* reader, Status* end) {
    std::vector<std::string> out;
    std::string_view record;
    while ((*end = reader->Read(&record)).ok()) out.emplace_back(record);
    return out;
  }
  static std::vector<std::string> ReadBytes(
      const std::string& bytes, Status* end,
      RecordCompression compression = RecordCompression::kNone) {
    auto reader = RecordReader::FromSource(MakeMemorySource(bytes), "bytes",
                                           {.compression = compression});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return ReadAll(reader->get(), end);
  }
  std::string Bytes() const { return *ReadFile(path_); }

  const std::string path_;
};

// Written by TensorFlow: "a", "" and "bcd".
constexpr char kPlain[] =
    "01000000000000000175de4161786ee428000000000000000029039807d8ea82a203000000"
    "00000000b099490e626364f22033a9";
constexpr char kZlib[] =
    "789c63648000c6d27b8e8915794f34a07c064de619ec375e352d6286f237ccf4e44b4a4ef9"
    "a460bc12000b5d0c55";
constexpr char kGzip[] =
    "1f8b080000000000000363648000c6d27b8e8915794f34a07c064de619ec375e352d6286f2"
    "37ccf4e44b4a4ef9a460bc12000c2bf68634000000";

TEST_F(RecordsTest, TensorFlowsFilesAreReadAndWrittenAlike) {
  const std::vector<std::string> want = {"a", "", "bcd"};
  Status end;
  const std::string plain = absl::HexStringToBytes(kPlain);
  EXPECT_EQ(ReadBytes(plain, &end), want) << end;
  EXPECT_EQ(
      ReadBytes(absl::HexStringToBytes(kZlib), &end, RecordCompression::kZlib),
      want)
      << end;
  EXPECT_EQ(
      ReadBytes(absl::HexStringToBytes(kGzip), &end, RecordCompression::kGzip),
      want)
      << end;
  WriteAll(want);
  EXPECT_EQ(Bytes(), plain);
}

TEST_F(RecordsTest, WhatIsWrittenIsRead) {
  std::mt19937 rng(7);
  std::vector<std::string> records = {"", "a", std::string(3 << 20, 'x')};
  for (int i = 0; i < 2000; ++i) {
    records.emplace_back(rng() % 700, '\0');
    for (char& c : records.back()) c = static_cast<char>(rng() % 11);
  }
  for (const auto compression :
       {RecordCompression::kNone, RecordCompression::kZlib,
        RecordCompression::kGzip}) {
    WriteAll(records, compression);
    auto reader = RecordReader::Open(path_, {.compression = compression});
    ASSERT_TRUE(reader.ok()) << reader.status();
    Status end;
    EXPECT_EQ(ReadAll(reader->get(), &end), records);
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
  }
}

TEST_F(RecordsTest, AFlushedRecordIsVisibleAndAClosedWriterRefuses) {
  auto writer = *RecordWriter::Open(path_);
  ASSERT_TRUE(writer->Write("one").ok());
  ASSERT_TRUE(writer->Flush().ok());
  Status end;
  EXPECT_EQ(ReadBytes(Bytes(), &end), std::vector<std::string>{"one"});
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(writer->Write("two").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Flush().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Close().code(), StatusCode::kFailedPrecondition);
}

std::string RandomBytes(size_t n) {
  std::mt19937 rng(11);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  return bytes;
}

TEST_F(RecordsTest, AfterAFailedWriteTheRecordIsNotReadAgain) {
  for (const auto compression :
       {RecordCompression::kNone, RecordCompression::kZlib,
        RecordCompression::kGzip}) {
    auto writer =
        *RecordWriter::Open("/dev/full", {.compression = compression});
    auto record = std::make_unique<std::string>(RandomBytes(1 << 20));
    const Status failed = writer->Write(*record);
    EXPECT_FALSE(failed.ok());
    record.reset();
    EXPECT_EQ(writer->Write("more"), failed);
    EXPECT_EQ(writer->Flush(), failed);
    EXPECT_EQ(writer->Close(), failed);
    EXPECT_EQ(writer->Close().code(), StatusCode::kFailedPrecondition);
    // (The destructor closes another one.)
    auto forgotten =
        *RecordWriter::Open("/dev/full", {.compression = compression});
    record = std::make_unique<std::string>(RandomBytes(1 << 20));
    EXPECT_FALSE(forgotten->Write(*record).ok());
    record.reset();
  }
}

// Limits how long files of this process may become; longer ones fail to be
// written in part.
class ScopedFileLimit {
 public:
  explicit ScopedFileLimit(rlim_t bytes)
      : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~ScopedFileLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }
  ScopedFileLimit(const ScopedFileLimit&) = delete;
  ScopedFileLimit& operator=(const ScopedFileLimit&) = delete;

 private:
  void (*const handler_)(int);
  rlimit before_ = {};
};

// Also when the file could be written again, nothing is written twice.
TEST_F(RecordsTest, NothingIsWrittenAfterAWriteThatFailedInPart) {
  const std::string record = RandomBytes(400'000);
  for (const auto compression :
       {RecordCompression::kNone, RecordCompression::kZlib,
        RecordCompression::kGzip})
    for (const int64_t collects : {0, 100'000}) {
      const RecordOptions options{.compression = compression,
                                  .input_buffer_bytes = collects,
                                  .buffer_bytes = 1000};
      auto writer = *RecordWriter::Open(path_, options);
      constexpr size_t kLimit = 12'345;
      Status failed;
      {
        const ScopedFileLimit limit(kLimit);
        failed = writer->Write(record);
      }
      EXPECT_FALSE(failed.ok());
      const std::string written = Bytes();
      EXPECT_EQ(written.size(), kLimit);
      EXPECT_EQ(writer->Write("more"), failed);
      EXPECT_EQ(writer->Flush(), failed);
      EXPECT_EQ(writer->Close(), failed);
      EXPECT_TRUE(Bytes() == written);
    }
}

TEST_F(RecordsTest, EveryTruncationIsFound) {
  WriteAll({"first", "second"});
  const std::string all = Bytes();
  const size_t first = 12 + 5 + 4;
  for (size_t n = 0; n < all.size(); ++n) {
    Status end;
    const auto got = ReadBytes(all.substr(0, n), &end);
    EXPECT_EQ(got.size(), n < first ? 0u : 1u) << n;
    if (n == 0 || n == first) {
      EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << n << ": " << end;
    } else {
      EXPECT_EQ(end.code(), StatusCode::kDataLoss) << n << ": " << end;
      EXPECT_THAT(std::string(end.message()),
                  AllOf(HasSubstr("'bytes'"), HasSubstr("truncated record"),
                        HasSubstr(n < first ? "at byte 0" : "at byte 21")));
    }
  }
}

TEST_F(RecordsTest, EveryFlippedBitIsFound) {
  WriteAll({"first", "second"});
  const std::string all = Bytes();
  for (size_t bit = 0; bit < 8 * all.size(); ++bit) {
    std::string bytes = all;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    Status end;
    const auto got = ReadBytes(bytes, &end);
    EXPECT_EQ(got.size(), bit / 8 < 21 ? 0u : 1u) << bit;
    EXPECT_EQ(end.code(), StatusCode::kDataLoss) << bit << ": " << end;
  }
}

// Longer than a block of the buffer, and with pieces of a long record.
TEST_F(RecordsTest, FlippedBitsOfLongRecordsAreFound) {
  std::mt19937 rng(3);
  std::vector<std::string> records = {std::string(400'000, '\0'), "short",
                                      std::string(131'072, '\0')};
  for (std::string& r : records)
    for (char& c : r) c = static_cast<char>(rng());
  WriteAll(records);
  const std::string all = Bytes();
  Status end;
  EXPECT_EQ(ReadBytes(all, &end), records) << end;
  for (int i = 0; i < 40; ++i) {
    std::string bytes = all;
    const size_t at = rng() % all.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << i % 8));
    ReadBytes(bytes, &end);
    EXPECT_EQ(end.code(), StatusCode::kDataLoss) << at << ": " << end;
    ReadBytes(all.substr(0, at), &end);
    EXPECT_EQ(end.code(), at == 0 || at == 400'016 || at == 400'037
                              ? StatusCode::kOutOfRange
                              : StatusCode::kDataLoss)
        << at << ": " << end;
  }
}

TEST_F(RecordsTest, ALengthAloneCostsNoMemory) {
  std::string header(12, '\0');
  header[4] = 1;  // 4 GiB.
  const uint32_t crc = MaskCrc(Crc32c({header.data(), 8}));
  std::memcpy(header.data() + 8, &crc, 4);
  Status end;
  EXPECT_TRUE(ReadBytes(header, &end).empty());
  EXPECT_EQ(end.code(), StatusCode::kResourceExhausted) << end;
  auto reader =
      *RecordReader::FromSource(MakeMemorySource(header), "bytes",
                                {.max_record_bytes = int64_t{1} << 40});
  std::string_view record;
  EXPECT_EQ(reader->Read(&record).code(), StatusCode::kDataLoss);
}

TEST_F(RecordsTest, BrokenCompressionIsFound) {
  for (const auto compression :
       {RecordCompression::kZlib, RecordCompression::kGzip}) {
    WriteAll({"first", "second"}, compression);
    const std::string all = Bytes();
    Status end;
    ReadBytes(all.substr(0, all.size() - 3), &end, compression);
    EXPECT_EQ(end.code(), StatusCode::kDataLoss) << end;
    EXPECT_TRUE(ReadBytes("plain", &end, compression).empty());
    EXPECT_EQ(end.code(), StatusCode::kDataLoss) << end;
    EXPECT_TRUE(ReadBytes("", &end, compression).empty());
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
    // Files that are joined are one stream.
    EXPECT_EQ(ReadBytes(all + all, &end, compression).size(), 4u);
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
  }
}

TEST_F(RecordsTest, FlushedCompressedRecordsAreReadToTheirEnd) {
  for (const auto compression :
       {RecordCompression::kZlib, RecordCompression::kGzip}) {
    auto writer = *RecordWriter::Open(path_, {.compression = compression});
    ASSERT_TRUE(writer->Flush().ok());
    Status end;
    EXPECT_TRUE(ReadBytes(Bytes(), &end, compression).empty());
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
    ASSERT_TRUE(writer->Write("first").ok());
    ASSERT_TRUE(writer->Flush().ok());
    ASSERT_TRUE(writer->Write(std::string(100'000, 'x')).ok());
    ASSERT_TRUE(writer->Flush().ok());
    const std::string flushed = Bytes();
    EXPECT_EQ(ReadBytes(flushed, &end, compression).size(), 2u);
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
    // Cut off anywhere else, it is damaged.
    int whole = 0;
    for (size_t size = 1; size < flushed.size(); ++size) {
      (void)ReadBytes(flushed.substr(0, size), &end, compression);
      if (end.code() == StatusCode::kOutOfRange) {
        ++whole;
      } else {
        EXPECT_EQ(end.code(), StatusCode::kDataLoss) << size;
      }
    }
    EXPECT_EQ(whole, 2);  // After the first and the second flush.
    ASSERT_TRUE(writer->Close().ok());
    EXPECT_EQ(ReadBytes(Bytes(), &end, compression).size(), 2u);
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
  }
}

TEST_F(RecordsTest, ZlibParametersOfAWriter) {
  const auto size = [&](const RecordOptions& options) {
    auto writer = *RecordWriter::Open(path_, options);
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(writer->Write("record " + std::to_string(i % 7)).ok());
    const size_t before_close = Bytes().size();
    EXPECT_TRUE(writer->Close().ok());
    Status end;
    EXPECT_EQ(ReadBytes(Bytes(), &end, options.compression).size(), 100u);
    EXPECT_EQ(end.code(), StatusCode::kOutOfRange) << end;
    return std::pair{before_close, Bytes().size()};
  };
  for (const auto compression :
       {RecordCompression::kZlib, RecordCompression::kGzip}) {
    const auto plain = size({.compression = compression});
    EXPECT_EQ(plain.first, 0u);
    EXPECT_GT(size({.compression = compression, .flush_mode = 2}).second,
              plain.second + 400);  // An empty block for each record.
    EXPECT_GT(size({.compression = compression, .strategy = 2}).second,
              plain.second);  // Huffman codes only.
    size({.compression = compression, .window_bits = 9, .mem_level = 1});
    // What is flushed is in the file, however much a writer may hold.
    for (const int flush_mode : {1, 2, 3, 5}) {
      const RecordOptions options{.compression = compression,
                                  .flush_mode = flush_mode};
      EXPECT_GT(size(options).first, 200u) << flush_mode;
      auto writer = *RecordWriter::Open(path_, options);
      for (int i = 0; i < 10; ++i)
        ASSERT_TRUE(writer->Write("record " + std::to_string(i)).ok());
      Status end;
      const size_t read = ReadBytes(Bytes(), &end, compression).size();
      const bool whole = flush_mode == 2 || flush_mode == 3;
      EXPECT_EQ(end.code(),
                whole ? StatusCode::kOutOfRange : StatusCode::kDataLoss)
          << flush_mode << ' ' << end;
      EXPECT_GE(read, flush_mode == 5 ? 9u : 10u) << flush_mode;
      ASSERT_TRUE(writer->Close().ok());
    }
  }
  EXPECT_GT(size({.buffer_bytes = 100}).first, 1000u);
  // A hundred records are 2,400 bytes: collected, they are flushed twice.
  RecordOptions collects{.compression = RecordCompression::kZlib,
                         .flush_mode = 2};
  const auto one_by_one = size(collects);
  collects.input_buffer_bytes = 1000;
  const auto together = size(collects);
  EXPECT_GT(together.first, 0u);
  EXPECT_LT(together.second, one_by_one.second - 400);
  collects.input_buffer_bytes = 1 << 20;
  EXPECT_EQ(size(collects).first, 0u);
  const RecordOptions refused[] = {
      {.window_bits = 8},        {.window_bits = 16}, {.mem_level = 0},
      {.mem_level = 10},         {.strategy = 5},     {.flush_mode = 4},
      {.flush_mode = 6},         {.flush_mode = -1},  {.buffer_bytes = 0},
      {.input_buffer_bytes = -1}};
  for (const RecordOptions& options : refused)
    EXPECT_EQ(RecordWriter::Open(path_, options).status().code(),
              StatusCode::kInvalidArgument);
}

TEST_F(RecordsTest, ReadingGoesOnAtAnOffset) {
  WriteAll({"first", "second", "third"});
  auto reader = *RecordReader::Open(path_);
  std::string_view record;
  ASSERT_TRUE(reader->Read(&record).ok());
  const int64_t offset = reader->offset();
  EXPECT_EQ(offset, 21);
  auto other = *RecordReader::Open(path_);
  ASSERT_TRUE(other->SkipTo(offset).ok());
  ASSERT_TRUE(other->Read(&record).ok());
  EXPECT_EQ(record, "second");
  EXPECT_EQ(other->SkipTo(3).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(other->SkipTo(1000).code(), StatusCode::kOutOfRange);
}

TEST_F(RecordsTest, MissingFilesAndUnknownCompressionsAreErrors) {
  EXPECT_EQ(RecordReader::Open("/nowhere/at/all").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(RecordWriter::Open("/nowhere/at/all").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(ParseRecordCompression("LZ4").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(*ParseRecordCompression("GZIP"), RecordCompression::kGzip);
  EXPECT_FALSE(RecordReader::FromSource(nullptr, "none").ok());
}

}  // namespace
}  // namespace sluice
