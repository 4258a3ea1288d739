// Readers in steps: in both spellings, what they read from files that are whole
// and broken, steps that share a reader, that wait and that end early, and
// states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_count_test_util.h"
#include "client/operators.h"
#include "client/variables.h"
#include "graph/device_scope.h"
#include "io/file.h"
#include "io/records.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

using Record = std::pair<std::string, std::string>;

// What `bytes` compress to in zlib's or gzip's format.
std::string Compressed(const std::string& bytes, bool gzip) {
  z_stream z = {};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + (gzip ? 16 : 0), 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string out(compressBound(bytes.size()) + 100, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

// A graph with a reader and a queue of names of files, and its session. Files
// are in a folder of the test, which is removed; keys are without it.
class ReaderStepsTest : public ::testing::Test {
 protected:
  ReaderStepsTest() : use_(graph_) {
    char path[] = "/tmp/sluice_readers_XXXXXX";
    folder_ = mkdtemp(path) + std::string("/");
  }
  ~ReaderStepsTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    EXPECT_TRUE(WriteFile(folder_ + name, bytes).ok());
    return name;
  }
  std::string WriteRecords(
      const std::string& name, const std::vector<std::string>& records,
      RecordCompression compression = RecordCompression::kNone) const {
    auto writer =
        *RecordWriter::Open(folder_ + name, {.compression = compression});
    for (const std::string& r : records) EXPECT_TRUE(writer->Write(r).ok());
    EXPECT_TRUE(writer->Close().ok());
    return name;
  }

  // Adds the nodes. `suffix`: of the spelling.
  void Make(const std::string& kind, AttrMap attrs = {},
            const std::string& suffix = "V2") {
    suffix_ = suffix;
    reader_ = Build(kind + suffix, {}, attrs, "reader");
    queue_ = Build("FIFOQueue" + suffix, {},
                   {{"component_types", AttrValue::Types{DType::kString}},
                    {"shapes", AttrValue::Shapes{PartialShape(Shape())}}});
    names_ = Placeholder<std::string>(PartialShape({-1}), "names");
    put_ = BuildNode("QueueEnqueueMany" + suffix, {queue_, names_});
    close_ = BuildNode("QueueClose" + suffix, {queue_});
    size_ = Build("QueueSize" + suffix, {queue_});
    read_ = Build("ReaderRead" + suffix, {reader_, queue_}, {}, "read");
    count_ = Placeholder<int64_t>({}, "count");
    read_up_to_ = Build("ReaderReadUpTo" + suffix, {reader_, queue_, count_});
    produced_ = Build("ReaderNumRecordsProduced" + suffix, {reader_});
    completed_ = Build("ReaderNumWorkUnitsCompleted" + suffix, {reader_});
    reset_ = BuildNode("ReaderReset" + suffix, {reader_});
    serialize_ = Build("ReaderSerializeState" + suffix, {reader_});
    state_ = Placeholder<std::string>({}, "state");
    restore_ = BuildNode("ReaderRestoreState" + suffix, {reader_, state_});
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    session_ = std::make_unique<Session>(graph_);
  }
  void Put(std::vector<std::string> names, bool in_folder = true) {
    if (in_folder)
      for (std::string& n : names) n = folder_ + n;
    const Status s = session_->RunTargets(
        {put_}, {{names_, Tensor::Vector<std::string>(names)}});
    EXPECT_TRUE(s.ok()) << s;
  }
  void Close() { EXPECT_TRUE(session_->RunTargets({close_}).ok()); }

  std::string Short(std::string key) const {
    return key.starts_with(folder_) ? key.substr(folder_.size()) : key;
  }
  Record RecordOf(const std::vector<Tensor>& got) const {
    return {Short(got[0].scalar<std::string>()), got[1].scalar<std::string>()};
  }
  Result<Record> Read(const RunOptions& options = {}) {
    auto got = session_->Run({}, {read_, Output(read_.node, 1)}, {}, options);
    if (!got.ok()) return got.status();
    return RecordOf(*got);
  }
  Result<std::vector<Record>> ReadUpTo(int64_t n,
                                       const RunOptions& options = {}) {
    auto got =
        session_->Run({{count_, Tensor::Scalar(n)}},
                      {read_up_to_, Output(read_up_to_.node, 1)}, {}, options);
    if (!got.ok()) return got.status();
    std::vector<Record> records;
    const auto keys = (*got)[0].ToVector<std::string>();
    const auto values = (*got)[1].ToVector<std::string>();
    for (size_t i = 0; i < keys.size(); ++i)
      records.emplace_back(Short(keys[i]), values[i]);
    return records;
  }
  // All records, up to the end of a closed queue.
  std::vector<Record> ReadAll() {
    std::vector<Record> records;
    for (;;) {
      Result<Record> r = Read();
      if (!r.ok()) {
        EXPECT_EQ(r.status().code(), StatusCode::kOutOfRange) << r.status();
        return records;
      }
      records.push_back(*std::move(r));
    }
  }
  std::pair<int64_t, int64_t> Counts() {
    auto got = session_->Run({produced_, completed_});
    EXPECT_TRUE(got.ok()) << got.status();
    return {(*got)[0].scalar<int64_t>(), (*got)[1].scalar<int64_t>()};
  }
  int QueueSize() { return session_->Run(size_)->scalar<int32_t>(); }
  Result<std::string> State() {
    auto got = session_->Run(serialize_);
    if (!got.ok()) return got.status();
    return got->scalar<std::string>();
  }
  Status Restore(const std::string& state) {
    return session_->RunTargets({restore_}, {{state_, Tensor::Scalar(state)}});
  }

  Graph graph_;
  WithGraph use_;
  std::string folder_, suffix_;
  Output reader_, queue_, names_, size_, read_, count_, read_up_to_, produced_,
      completed_, serialize_, state_;
  Node *put_ = nullptr, *close_ = nullptr, *reset_ = nullptr,
       *restore_ = nullptr;
  std::unique_ptr<Session> session_;
};

// ---- Formats ----------------------------------------------------------------

class ReaderSpellingsTest : public ReaderStepsTest,
                            public ::testing::WithParamInterface<std::string> {
};
INSTANTIATE_TEST_SUITE_P(Spellings, ReaderSpellingsTest,
                         ::testing::Values("V2", ""));

TEST_P(ReaderSpellingsTest, LinesOfFilesHaveTheirNumbers) {
  Make("TextLineReader", {}, GetParam());
  Put({Write("a", "one\r\ntwo\n\nfour"), Write("empty", ""),
       Write("b", "x\n")});
  Close();
  EXPECT_EQ(Counts(), std::pair(0l, 0l));
  EXPECT_EQ(*Read(), Record("a:1", "one"));
  EXPECT_EQ(Counts(), std::pair(1l, 0l));
  EXPECT_THAT(ReadAll(), ElementsAre(Pair("a:2", "two"), Pair("a:3", ""),
                                     Pair("a:4", "four"), Pair("b:1", "x")));
  EXPECT_EQ(Counts(), std::pair(5l, 3l));
  EXPECT_TRUE(session_->RunTargets({reset_}).ok());
  EXPECT_EQ(Counts(), std::pair(0l, 0l));
}

TEST_P(ReaderSpellingsTest, WholeFilesHaveTheirNames) {
  Make("WholeFileReader", {}, GetParam());
  Put({Write("a", "all\nof it"), Write("empty", "")});
  Close();
  EXPECT_EQ(*Read(), Record("a", "all\nof it"));
  EXPECT_EQ(Counts(), std::pair(1l, 1l));
  EXPECT_EQ(*Read(), Record("empty", ""));
  EXPECT_EQ(Read().status().code(), StatusCode::kOutOfRange);
}

TEST_P(ReaderSpellingsTest, WorkItemsThemselvesMayBeTheRecords) {
  Make("IdentityReader", {}, GetParam());
  Put({"u", "v"}, false);
  EXPECT_EQ(*Read(), Record("u", "u"));
  EXPECT_THAT(*ReadUpTo(5), ElementsAre(Pair("v", "v")));
  EXPECT_EQ(Counts(), std::pair(2l, 2l));
}

TEST_P(ReaderSpellingsTest, RecordsHaveTheirOffsets) {
  for (const auto& [name, compression] :
       std::map<std::string, RecordCompression>{
           {"", RecordCompression::kNone},
           {"ZLIB", RecordCompression::kZlib},
           {"GZIP", RecordCompression::kGzip}}) {
    Make("TFRecordReader", {{"compression_type", name}}, GetParam());
    Put({WriteRecords("r", {"first", "", "third"}, compression)});
    Close();
    EXPECT_THAT(ReadAll(), ElementsAre(Pair("r:0", "first"), Pair("r:21", ""),
                                       Pair("r:37", "third")))
        << name;
  }
}

TEST_P(ReaderSpellingsTest, RecordsOfOneLengthHaveTheirNumbers) {
  Make("FixedLengthRecordReader",
       {{"header_bytes", 2}, {"record_bytes", 2}, {"footer_bytes", 3}},
       GetParam());
  // Of the second file one byte is left, and the third has no record.
  Put({Write("a", "HHaabbFFF"), Write("b", "HHaabFFF"), Write("c", "HHFFF")});
  Close();
  EXPECT_THAT(ReadAll(), ElementsAre(Pair("a:0", "aa"), Pair("a:1", "bb"),
                                     Pair("b:0", "aa")));
  EXPECT_EQ(Counts(), std::pair(3l, 3l));
}

TEST_F(ReaderStepsTest, RecordsMayOverlapOrHaveGaps) {
  const std::string f = Write("f", "Habcdefghi");
  const auto read = [&](int64_t hop) {
    Make("FixedLengthRecordReader",
         {{"header_bytes", 1}, {"record_bytes", 3}, {"hop_bytes", hop}});
    Put({f});
    Close();
    std::vector<std::string> values;
    for (const Record& r : ReadAll()) {
      EXPECT_EQ(r.first, "f:" + std::to_string(values.size()));
      values.push_back(r.second);
    }
    return values;
  };
  EXPECT_THAT(read(0), ElementsAre("abc", "def", "ghi"));
  EXPECT_THAT(read(2), ElementsAre("abc", "cde", "efg", "ghi"));
  EXPECT_THAT(read(5), ElementsAre("abc", "fgh"));
  EXPECT_THAT(read(50), ElementsAre("abc"));
}

TEST_F(ReaderStepsTest, CompressedFilesOfOneLengthAreRead) {
  std::mt19937 rng(19);
  std::string bytes(300'000, '\0');
  for (char& c : bytes) c = static_cast<char>(rng() % 7);
  for (const bool gzip : {false, true}) {
    Make("FixedLengthRecordReader",
         {{"record_bytes", 1000}, {"encoding", gzip ? "GZIP" : "ZLIB"}});
    Put({Write("z", Compressed(bytes, gzip))});
    Close();
    std::string all;
    for (const Record& r : ReadAll()) all += r.second;
    EXPECT_TRUE(all == bytes);
  }
}

TEST_F(ReaderStepsTest, HeadersOfTextsAreLeftOut) {
  Make("TextLineReader", {{"skip_header_lines", 2}});
  Put({Write("a", "h\nh\nx\ny"), Write("short", "h\n"),
       Write("none", "h\nh\n")});
  Close();
  EXPECT_THAT(ReadAll(), ElementsAre(Pair("a:3", "x"), Pair("a:4", "y")));
  EXPECT_EQ(Counts(), std::pair(2l, 3l));
}

TEST_F(ReaderStepsTest, AReadOfManyEndsWithItsFile) {
  Make("TextLineReader");
  Put({Write("empty", ""), Write("a", "1\n2\n3\n"), Write("b", "4\n")});
  EXPECT_THAT(*ReadUpTo(2), ElementsAre(Pair("a:1", "1"), Pair("a:2", "2")));
  EXPECT_EQ(Counts(), std::pair(2l, 1l));
  EXPECT_THAT(*ReadUpTo(2), ElementsAre(Pair("a:3", "3")));
  EXPECT_EQ(Counts(), std::pair(3l, 2l));
  EXPECT_THAT(*ReadUpTo(0), IsEmpty());
  EXPECT_THAT(*ReadUpTo(1'000'000'000), ElementsAre(Pair("b:1", "4")));
  const Status s = ReadUpTo(-1).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
}

TEST_F(ReaderStepsTest, FilesThatAreLongerThanABlockAreReadInBlocks) {
  std::mt19937 rng(23);
  std::string text;
  std::vector<std::string> lines;
  while (text.size() < 600'000) {
    lines.emplace_back(rng() % 50 == 0 ? rng() % 20'000 : rng() % 100, 'x');
    for (char& c : lines.back()) c = static_cast<char>('a' + rng() % 26);
    text += lines.back() + "\n";
  }
  Make("TextLineReader");
  Put({Write("a", text)});
  const auto got = ReadUpTo(1 << 30);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ((*got)[i], Record("a:" + std::to_string(i + 1), lines[i]));
}

// ---- Errors -----------------------------------------------------------------

TEST_F(ReaderStepsTest, AFileThatCannotBeOpenedIsPassedOver) {
  for (const char* kind : {"TextLineReader", "WholeFileReader"}) {
    Make(kind);
    Put({"missing", Write("a", "x")});
    const Status s = Read().status();
    EXPECT_EQ(s.code(), StatusCode::kNotFound) << s;
    EXPECT_THAT(s.ToString(), AllOf(HasSubstr("missing"),
                                    HasSubstr("No such file or directory")));
    EXPECT_EQ(Counts(), std::pair(0l, 0l));
    EXPECT_EQ(Read()->second, "x");
  }
}

TEST_F(ReaderStepsTest, AFolderIsNoFile) {
  for (const char* kind :
       {"TextLineReader", "WholeFileReader", "TFRecordReader"}) {
    Make(kind);
    Put({""});
    EXPECT_FALSE(Read().ok());
    Put({Write("a", "")});
    Close();
    EXPECT_THAT(ReadAll(), SizeIs(std::string(kind)[0] == 'W' ? 1 : 0));
  }
}

TEST_F(ReaderStepsTest, ACorruptRecordEndsItsFile) {
  const std::string good = WriteRecords("good", {"first", "second", "third"});
  std::string bytes = *ReadFile(folder_ + good);
  bytes[21 + 12] ^= 1;
  Make("TFRecordReader");
  Put({Write("bad", bytes), Write("cut", bytes.substr(0, 30)), good});
  EXPECT_EQ(*Read(), Record("bad:0", "first"));
  Status s = Read().status();
  EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  EXPECT_THAT(s.ToString(),
              AllOf(HasSubstr("bad' at byte 21"), HasSubstr("corrupted record"),
                    HasSubstr("read")));
  EXPECT_EQ(Counts(), std::pair(1l, 1l));
  // The records before an error are not lost with it.
  EXPECT_THAT(*ReadUpTo(9), ElementsAre(Pair("cut:0", "first")));
  s = ReadUpTo(9).status();
  EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  EXPECT_THAT(s.ToString(), AllOf(HasSubstr("cut' at byte 21"),
                                  HasSubstr("truncated record")));
  EXPECT_THAT(*ReadUpTo(9), SizeIs(3));
  EXPECT_EQ(Counts(), std::pair(5l, 3l));
}

TEST_F(ReaderStepsTest, BrokenCompressionIsAnError) {
  const std::string z = Compressed(std::string(3000, 'x'), false);
  Make("FixedLengthRecordReader",
       {{"record_bytes", 1000}, {"encoding", "ZLIB"}});
  Put({Write("plain", "not compressed"),
       Write("cut", z.substr(0, z.size() - 5)), Write("good", z)});
  EXPECT_EQ(Read().status().code(), StatusCode::kDataLoss);
  while (Read().ok()) continue;  // What precedes the cut is given.
  EXPECT_THAT(*ReadUpTo(9), SizeIs(3));
}

TEST_F(ReaderStepsTest, AFileShorterThanItsHeaderIsAnError) {
  Make("FixedLengthRecordReader", {{"record_bytes", 1}, {"header_bytes", 9}});
  Put({Write("a", "short"), Write("b", "123456789x")});
  const Status s = Read().status();
  EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  EXPECT_THAT(s.ToString(), HasSubstr("expected a header of 9 bytes, got 5"));
  EXPECT_EQ(*Read(), Record("b:0", "x"));
}

TEST_F(ReaderStepsTest, ImpossibleReadersAreRefused) {
  const auto fails = [&](const std::string& kind, const AttrMap& attrs,
                         const std::string& text) {
    Make(kind, attrs);
    const Status s = session_->Run(produced_).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(s.ToString(), HasSubstr(text));
  };
  fails("TextLineReader", {{"skip_header_lines", -1}},
        "skip_header_lines must be >= 0 not -1");
  const std::string fixed = "FixedLengthRecordReader";
  fails(fixed, {{"record_bytes", 0}}, "record_bytes must be >= 1 not 0");
  fails(fixed, {{"record_bytes", 1}, {"header_bytes", -2}}, "header_bytes");
  fails(fixed, {{"record_bytes", 1}, {"footer_bytes", -2}}, "footer_bytes");
  fails(fixed, {{"record_bytes", 1}, {"hop_bytes", -2}}, "hop_bytes");
  fails(fixed, {{"record_bytes", int64_t{1} << 60}}, "record_bytes");
  fails(fixed, {{"record_bytes", 1}, {"encoding", "LZ4"}},
        "encoding: expected '', 'ZLIB' or 'GZIP', got 'LZ4'");
  fails("TFRecordReader", {{"compression_type", "LZ4"}}, "compression_type");
}

TEST_F(ReaderStepsTest, AQueueOfSomethingElseIsRefused) {
  Make("IdentityReader");
  const auto queue = [](AttrValue::Types types, AttrValue::Shapes shapes) {
    return Build("FIFOQueueV2", {},
                 {{"component_types", types}, {"shapes", shapes}});
  };
  const auto fails = [&](const Output& q, const std::string& text) {
    Session session(graph_);
    const Status s = session.Run(Build("ReaderReadV2", {reader_, q})).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(s.ToString(), HasSubstr(text));
  };
  fails(queue({DType::kInt64}, {}),
        "Expected queue with single string component");
  fails(queue({DType::kString, DType::kString}, {}),
        "Expected queue with single string component");
  fails(reader_, "expected another kind of resource");
  // Elements of any shape have to have one element.
  const Output q = queue({DType::kString}, {});
  Session session(graph_);
  ASSERT_TRUE(session
                  .RunTargets({BuildNode(
                      "QueueEnqueueV2",
                      {q, Constant(Tensor::Vector<std::string>({"a", "b"}))})})
                  .ok());
  EXPECT_THAT(
      session.Run(Build("ReaderReadV2", {reader_, q})).status().ToString(),
      HasSubstr("one-element string tensor, got shape [2]"));
}

TEST_F(ReaderStepsTest, ASharedReaderMustBeDeclaredAlike) {
  const auto handle = [](const std::string& kind, AttrMap attrs) {
    attrs["shared_name"] = "same";
    return Build("ReaderNumRecordsProducedV2", {Build(kind, {}, attrs)});
  };
  const Output text = handle("TextLineReaderV2", {});
  const Output again = handle("TextLineReaderV2", {});
  const Output other = handle("TextLineReaderV2", {{"skip_header_lines", 1}});
  const Output kind = handle("IdentityReaderV2", {});
  Session session(graph_);
  ASSERT_TRUE(session.Run(text).ok());
  EXPECT_TRUE(session.Run(again).ok());
  EXPECT_THAT(session.Run(other).status().ToString(),
              HasSubstr("'same' has skip_header_lines 0 but requested"));
  EXPECT_THAT(session.Run(kind).status().ToString(),
              HasSubstr("Expected IdentityReader, found TextLineReader"));
}

// ---- Steps that wait --------------------------------------------------------

// Steps that have begun, wait for a record, and can be cancelled.
class WaitingReads {
 public:
  WaitingReads(Session* session, const Output& read, const Output& x,
               const Output& first)
      : session_(session), read_(read), x_(x), first_(first) {}
  void Begin() {
    auto run =
        session_->StartPartialRun({x_}, {first_, read_, Output(read_.node, 1)});
    ASSERT_TRUE(run.ok()) << run.status();
    runs_.push_back(*std::move(run));
    ASSERT_TRUE(runs_.back()->Run({{x_, Tensor::Scalar(1.0f)}}, {first_}).ok());
  }
  std::string Value(size_t i) {
    const auto got = runs_[i]->Run({}, {Output(read_.node, 1)});
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? (*got)[0].scalar<std::string>() : "";
  }
  void Cancel(size_t i) { runs_[i].reset(); }

 private:
  Session* const session_;
  const Output read_, x_, first_;
  std::vector<std::unique_ptr<Session::PartialRun>> runs_;
};

class ReaderWaitsTest : public ReaderStepsTest {
 protected:
  // As Make, with a read that starts in a stage of its own.
  WaitingReads MakeWaiting(const std::string& kind) {
    const Output x = Placeholder<float>({}, "x");
    Make(kind);
    Output read;
    {
      ControlDependencies after({x.node});
      read = Build("ReaderReadV2", {reader_, queue_}, {}, "waiting_read");
    }
    const Output first = -x;
    session_ = std::make_unique<Session>(graph_);
    return WaitingReads(session_.get(), read, x, first);
  }
};

TEST_F(ReaderWaitsTest, ReadsThatWaitHoldNoThreadAndAreServedInOrder) {
  WaitingReads reads = MakeWaiting("TextLineReader");
  reads.Begin();  // (Whatever starts threads has done so.)
  const size_t threads = NumThreads();
  for (int i = 1; i < 60; ++i) reads.Begin();
  EXPECT_LE(NumThreads(), threads);
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i) + "\n";
  Put({Write("a", text)});
  EXPECT_EQ(Counts(), std::pair(40l, 1l));
  text.clear();
  for (int i = 40; i < 60; ++i) text += std::to_string(i) + "\n";
  Put({Write("b", text)});
  for (size_t i = 0; i < 60; ++i) EXPECT_EQ(reads.Value(i), std::to_string(i));
}

TEST_F(ReaderWaitsTest, ManyWorkItemsServeManyReads) {
  WaitingReads reads = MakeWaiting("IdentityReader");
  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) {
    reads.Begin();
    names.push_back(std::to_string(i));
  }
  Put(names, false);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(reads.Value(i), names[i]);
  EXPECT_EQ(QueueSize(), 0);
}

TEST_F(ReaderWaitsTest, AReadThatIsCancelledLeavesItsWorkToTheNext) {
  WaitingReads reads = MakeWaiting("IdentityReader");
  for (int i = 0; i < 4; ++i) reads.Begin();
  reads.Cancel(0);
  reads.Cancel(2);
  Put({"a", "b", "c"}, false);
  EXPECT_EQ(reads.Value(1), "a");
  EXPECT_EQ(reads.Value(3), "b");
  EXPECT_EQ(QueueSize(), 1);
  EXPECT_EQ(*Read(), Record("c", "c"));
}

TEST_F(ReaderWaitsTest, AReadThatIsCancelledTakesNothingFromTheQueue) {
  WaitingReads reads = MakeWaiting("IdentityReader");
  reads.Begin();
  reads.Cancel(0);
  Put({"a"}, false);
  EXPECT_EQ(QueueSize(), 1);
  EXPECT_EQ(Counts(), std::pair(0l, 0l));
}

TEST_F(ReaderStepsTest, AStepThatFailsOrIsLateWaitsNoLonger) {
  Make("TextLineReader");
  RunOptions late;
  late.timeout_ms = 10;
  const Status s = Read(late).status();
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded) << s;
  EXPECT_THAT(s.ToString(), AllOf(HasSubstr("read"), HasSubstr("still waits")));
  Cancellation cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread canceller([&] { cancellation.Cancel(); });
  EXPECT_EQ(Read(options).status().code(), StatusCode::kCancelled);
  canceller.join();
  Put({Write("a", "x\n")});
  EXPECT_EQ(*Read(), Record("a:1", "x"));
}

TEST_F(ReaderStepsTest, ClosingTheQueueEndsTheReadsThatWait) {
  Make("TextLineReader");
  std::vector<std::thread> steps;
  for (int i = 0; i < 3; ++i)
    steps.emplace_back([&] {
      const Status s = Read().status();
      EXPECT_EQ(s.code(), StatusCode::kOutOfRange) << s;
      EXPECT_THAT(s.ToString(),
                  HasSubstr("is closed and has insufficient elements "
                            "(requested 1, current size 0)"));
    });
  Close();
  for (std::thread& t : steps) t.join();
}

TEST_F(ReaderStepsTest, ASessionThatIsClosedEndsTheReadsThatWait) {
  Make("TextLineReader");
  std::thread step([&] { EXPECT_FALSE(Read().ok()); });
  ASSERT_TRUE(session_->Close().ok());
  step.join();
}

TEST_F(ReaderStepsTest, OneStepMayEnqueueWhatItReads) {
  Make("IdentityReader");
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    SessionOptions options;
    options.scheduler_seed = seed;
    Session session(graph_, options);
    for (int i = 0; i < 20; ++i) {
      const auto got = session.Run(
          {{names_, Tensor::Vector<std::string>({"a"})}}, {read_}, {put_});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ((*got)[0].scalar<std::string>(), "a");
    }
  }
}

// Steps read, enqueue and are cancelled on several threads: each line arrives
// once, unless the step that read it failed.
TEST_F(ReaderStepsTest, NoRecordIsLostOrDoubledWhateverIsCancelled) {
  constexpr int kFiles = 40, kLines = 25;
  Make("TextLineReader");
  std::vector<std::string> files;
  for (int f = 0; f < kFiles; ++f) {
    std::string text;
    for (int i = 0; i < kLines; ++i)
      text += std::to_string(f * kLines + i) + "\n";
    files.push_back(Write("f" + std::to_string(f), text));
  }
  std::mutex mu;
  std::vector<int> seen(kFiles * kLines);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 rng(100 + t);
      for (bool more = true; more;) {
        Cancellation cancellation;
        RunOptions options;
        options.cancellation = &cancellation;
        // (Before the step: it may begin to wait, and is cancelled at once.)
        std::thread canceller;
        const bool cancel = rng() % 4 == 0;
        if (cancel) canceller = std::thread([&] { cancellation.Cancel(); });
        const auto got = ReadUpTo(1 + static_cast<int64_t>(rng() % 7), options);
        if (canceller.joinable()) canceller.join();
        std::lock_guard<std::mutex> lock(mu);
        if (got.ok()) {
          for (const Record& r : *got) ++seen[std::stoul(r.second)];
        } else if (got.status().code() == StatusCode::kOutOfRange) {
          more = false;
        } else {
          EXPECT_EQ(got.status().code(), StatusCode::kCancelled)
              << got.status();
        }
      }
    });
  for (const std::string& f : files) Put({f});
  Close();
  for (std::thread& t : threads) t.join();
  const auto [produced, completed] = Counts();
  EXPECT_EQ(produced, kFiles * kLines);
  EXPECT_EQ(completed, kFiles);
  // (A step that had its records when it was cancelled may have lost them; none
  // of another step.)
  for (const int n : seen) EXPECT_LE(n, 1);
}

// ---- States -----------------------------------------------------------------

TEST_F(ReaderStepsTest, AStateIsTensorFlowsMessage) {
  Make("IdentityReader");
  EXPECT_EQ(*State(), "");
  Put({"u", "vw"}, false);
  ASSERT_TRUE(ReadUpTo(1).ok());
  ASSERT_TRUE(ReadUpTo(1).ok());
  const std::string state("\x08\x02\x10\x02\x18\x02\"\x02vw");
  EXPECT_EQ(*State(), state);
  ASSERT_TRUE(Restore("\x08\x01\x10\x02\x18\x07\"\x01z").ok());
  EXPECT_EQ(Counts(), std::pair(7l, 2l));
  ASSERT_TRUE(Restore(state).ok());
  EXPECT_EQ(Counts(), std::pair(2l, 2l));
  EXPECT_EQ(*State(), state);
  // Fields that it does not know are left out.
  ASSERT_TRUE(Restore("\x08\x01\x10\x01(\x05").ok());
  EXPECT_EQ(*State(), "\x08\x01\x10\x01");
}

TEST_F(ReaderStepsTest, AStateThatIsNoneResetsTheReader) {
  Make("IdentityReader");
  const auto fails = [&](const std::string& state, const std::string& text) {
    Put({"a"}, false);
    ASSERT_TRUE(Read().ok());
    EXPECT_NE(Counts(), std::pair(0l, 0l));
    const Status s = Restore(state);
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(s.ToString(),
                AllOf(HasSubstr(text), HasSubstr("IdentityReader 'reader")));
    EXPECT_EQ(Counts(), std::pair(0l, 0l));
  };
  fails("\xff", "Could not parse state for");
  fails("\"\x05z", "Could not parse state for");
  fails("\x08\x02\x10\x01", "Inconsistent work started vs. finished");
  fails("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "Unexpected negative value when restoring in");
  fails("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "Unexpected large value when restoring in");
}

TEST_F(ReaderStepsTest, AReaderGoesOnInTheMiddleOfAFile) {
  std::string text;
  std::vector<std::string> numbers;
  for (int i = 0; i < 7; ++i) numbers.push_back(std::to_string(1000 + i));
  for (const std::string& n : numbers) text += n + "\n";
  const std::string zipped = Write("zipped", Compressed(text, true));
  Write("text", text);
  WriteRecords("records", numbers);
  WriteRecords("records_z", numbers, RecordCompression::kZlib);
  const struct {
    const char *kind, *file;
    AttrMap attrs;
  } cases[] = {{"TextLineReader", "text", {{"skip_header_lines", 1}}},
               {"FixedLengthRecordReader",
                "text",
                {{"header_bytes", 5}, {"record_bytes", 4}, {"hop_bytes", 5}}},
               {"FixedLengthRecordReader",
                "zipped",
                {{"record_bytes", 4}, {"hop_bytes", 5}, {"encoding", "GZIP"}}},
               {"TFRecordReader", "records", {}},
               {"TFRecordReader", "records_z", {{"compression_type", "ZLIB"}}}};
  for (const auto& c : cases) {
    Make(c.kind, c.attrs);
    Put({c.file});
    Close();
    const std::vector<Record> all = ReadAll();
    ASSERT_GE(all.size(), 6u);
    for (size_t n = 1; n <= all.size(); ++n) {
      // In one session up to record n, then in another.
      session_ = std::make_unique<Session>(graph_);
      Put({c.file});
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(*Read(), all[i]);
      const std::string state = *State();
      session_ = std::make_unique<Session>(graph_);
      ASSERT_TRUE(Restore(state).ok());
      EXPECT_EQ(*State(), state);
      EXPECT_EQ(Counts(), std::pair(static_cast<int64_t>(n), 0l));
      Close();
      EXPECT_EQ(ReadAll(),
                std::vector<Record>(
                    all.begin() + static_cast<std::ptrdiff_t>(n), all.end()))
          << c.kind << " " << n;
      EXPECT_EQ(Counts(), std::pair(static_cast<int64_t>(all.size()), 1l));
    }
  }
}

TEST_F(ReaderStepsTest, APlaceBeyondTheEndOfItsFileIsAnError) {
  for (const char* kind : {"TextLineReader", "TFRecordReader"}) {
    Make(kind);
    WriteRecords("f", {"one\n", "two\n", "three"});
    Put({"f"});
    ASSERT_TRUE(Read().ok());
    ASSERT_TRUE(Read().ok());
    const std::string state = *State();
    Write("f", "");
    ASSERT_TRUE(Restore(state).ok());
    const Status s = Read().status();
    EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
    EXPECT_THAT(s.ToString(), HasSubstr("truncated file"));
    EXPECT_EQ(Counts(), std::pair(2l, 1l));
  }
}

TEST_F(ReaderWaitsTest, ARestoredFileServesTheReadsThatWait) {
  WaitingReads reads = MakeWaiting("TextLineReader");
  Put({Write("a", "1\n2\n3\n")});
  ASSERT_TRUE(Read().ok());
  const std::string state = *State();
  ASSERT_TRUE(session_->RunTargets({reset_}).ok());
  for (int i = 0; i < 3; ++i) reads.Begin();
  ASSERT_TRUE(Restore(state).ok());
  EXPECT_EQ(reads.Value(0), "2");
  EXPECT_EQ(reads.Value(1), "3");
  Put({Write("b", "4\n")});
  EXPECT_EQ(reads.Value(2), "4");
}

}  // namespace
}  // namespace sluice
