// Hostile calls of queues, datasets, coordinators and files of records.
#include <cstdlib>
#include <filesystem>

#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

HOSTILE(Queues,
        "Queue::Fifo Queue::Padding Queue::Shuffling Queue::Priority "
        "Queue::Failed Queue::Of Queue::Enqueue Queue::EnqueueMany "
        "Queue::Dequeue Queue::DequeueMany Queue::DequeueUpTo Queue::Next "
        "Queue::NextBatch Queue::Widen Queue::Close "
        "Queue::IsClosed Queue::Size Queue::handle Queue::components "
        "Component::Component") {
  ExpectRecorded("expected", [] { Queue::Fifo({}); });
  ExpectRecorded("expected", [] {
    Queue::Fifo({{DType::kInvalid, PartialShape()}});
  });
  const auto one = [](const PartialShape& shape) {
    return std::vector<Component>{Component(DType::kFloat, shape)};
  };
  // What a queue refuses is known when a step makes it.
  const auto size_of = [](const std::function<Queue()>& make) {
    Graph g;
    const WithGraph use(g);
    const Queue q = make();
    Session session(g);
    return session.Run(q.Size()).status();
  };
  ExpectRefused(size_of([&] { return Queue::Padding(one(PartialShape())); }),
                "shapes: expected");
  ExpectRefused(size_of([&] { return Queue::Priority(one(PartialShape())); }),
                "shapes: expected");
  ExpectRefused(size_of([&] {
                  return Queue::Shuffling(one(PartialShape::Scalar()),
                                          {.min_after_dequeue = -1});
                }),
                "min_after_dequeue");
  ExpectRefused(size_of([&] {
                  return Queue::Shuffling(
                      one(PartialShape::Scalar()),
                      {.capacity = 2, .min_after_dequeue = 2});
                }),
                "min_after_dequeue");
  EXPECT_TRUE(size_of([&] {
                return Queue::Fifo(one(PartialShape::Scalar()),
                                   {.capacity = -kHuge});
              }).ok());

  for (const bool failed : {false, true}) {
    const auto none = [&] {
      return failed ? Queue::Failed(BuildError(InvalidArgument("no queue")))
                    : Queue();
    };
    const std::string message = failed ? "no queue" : "expected";
    EXPECT_TRUE(none().components().empty());
    EXPECT_NULL(none().handle());
    ExpectRecorded(message, [&] { EXPECT_NULL(none().Enqueue({})); });
    ExpectRecorded(message, [&] { EXPECT_NULL(none().EnqueueMany({})); });
    ExpectRecorded(message, [&] { none().Dequeue(); });
    ExpectRecorded(message, [&] { none().DequeueMany(1); });
    ExpectRecorded(message, [&] { none().DequeueUpTo(1); });
    ExpectRecorded(message, [&] { EXPECT_NULL(none().Next().has_value); });
    ExpectRecorded(message, [&] { EXPECT_NULL(none().NextBatch(1).count); });
    Queue widened = none();
    widened.Widen({Component(DType::kFloat)});
    EXPECT_TRUE(widened.components().empty());
    ExpectRecorded(message, [&] { EXPECT_NULL(none().Close()); });
    ExpectRecorded(message, [&] { EXPECT_NULL(none().IsClosed()); });
    ExpectRecorded(message, [&] { EXPECT_NULL(none().Size()); });
  }

  const auto queue = [&] {
    return Queue::Fifo({{DType::kFloat, {2}}, {DType::kInt32, {}}});
  };
  const Tensor row = Tensor::Vector<float>({1, 2});
  ExpectRecorded("expected 2 components, got 1",
                 [&] { queue().Enqueue({row}); });
  ExpectRecorded("component 0 of type float, got string", [&] {
    queue().Enqueue({"text", 1});
  });
  ExpectRecorded("expected", [&] { queue().Enqueue({row, 1.5}); });
  ExpectRecorded("expected", [&] { queue().Enqueue({Output(), 1}); });
  ExpectRecorded("of another", [&] { queue().Enqueue({Elsewhere(), 1}); });
  ExpectRecorded("expected", [&] { queue().DequeueMany("many"); });
  ExpectRecorded("expected", [&] { queue().DequeueMany(-1); });
  ExpectRecorded("expected", [&] { queue().NextBatch("many"); });
  ExpectRecorded("expected", [] { Queue::Of(Output(), {}).Dequeue(); });
  Graph g;
  const WithGraph use(g);
  const Queue q = queue();
  Session session(g);
  ExpectRefused(session.RunTargets({q.Enqueue({Tensor::Scalar(1.0f), 1})}),
                "Shape mismatch");
  ExpectRefused(session.RunTargets({q.EnqueueMany({1.0f, 1})}), "dimension");
  EXPECT_TRUE(session.RunTargets({q.Close()}).ok());
  ExpectRefused(session.Run(q.Dequeue()), "closed");
}

HOSTILE(Barriers,
        "Barrier::Make Barrier::Insert Barrier::Take Barrier::Close "
        "Barrier::ReadySize Barrier::IncompleteSize Barrier::handle "
        "Barrier::components") {
  ExpectRecorded("expected", [] { Barrier::Make({}); });
  ExpectRecorded("with a type", [] {
    Barrier::Make({{DType::kInvalid, PartialShape()}});
  });
  const Barrier none;
  EXPECT_NULL(none.handle());
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.Insert("a", 0, 1)); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.Take(1).keys); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.Close()); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.ReadySize()); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.IncompleteSize()); });

  Graph g;
  const WithGraph use(g);
  const Barrier barrier = Barrier::Make({{DType::kFloat, {2}}});
  EXPECT_EQ(barrier.components().size(), 1U);
  const Tensor key = Tensor::Vector<std::string>({"a"});
  for (const int c : {-1, 1})
    ExpectRecorded("component from 0 to 0",
                   [&] { EXPECT_NULL(barrier.Insert(key, c, {1.0f})); });
  Node* const short_row = barrier.Insert(key, 0, Tensor::Vector<float>({1}));
  const Barrier unknown = Barrier::Make({{DType::kFloat, PartialShape()}});
  Node* const no_elements =
      unknown.Insert(key, 0, Tensor(DType::kFloat, Shape({1, 0})));
  const Barrier bounded =
      Barrier::Make({{DType::kFloat, {2}}}, {.capacity = 3});
  Session session(g);
  ExpectRefused(session.RunTargets({no_elements}), "no elements");
  ExpectRefused(session.Run(bounded.ReadySize()), "capacity");
  ExpectRefused(session.RunTargets({short_row}), "Shape mismatch");
}

HOSTILE(HashTables,
        "LookupTable::Lookup LookupTable::Size LookupTable::Export "
        "LookupTable::handle LookupTable::key_type LookupTable::value_type "
        "HashTable::FromTensors HashTable::FromTextFile HashTable::initializer "
        "MutableHashTable::Make MutableHashTable::Insert "
        "MutableHashTable::Remove MutableHashTable::Import") {
  const HashTable none;
  EXPECT_NULL(none.handle());
  EXPECT_NULL(none.initializer());
  EXPECT_EQ(none.key_type(), DType::kInvalid);
  EXPECT_EQ(none.value_type(), DType::kInvalid);
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.Lookup("a", 1)); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.Size()); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(none.Export().keys); });
  const MutableHashTable empty;
  ExpectRecorded("expected", [&] { EXPECT_NULL(empty.Insert("a", 1)); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(empty.Remove("a")); });
  ExpectRecorded("expected", [&] { EXPECT_NULL(empty.Import("a", 1)); });
  ExpectRecorded("with a type", [] {
    MutableHashTable::Make(DType::kInvalid, DType::kInt64);
  });
  ExpectRecorded("expected", [] { HashTable::FromTensors(Output(), {1}); });
  ExpectRecorded("of another",
                 [] { HashTable::FromTensors(Elsewhere(), {1}); });

  Graph g;
  const WithGraph use(g);
  Session session(g);
  const auto filled = [&](const HashTable& t) {
    return session.RunTargets({t.initializer()});
  };
  const Tensor keys = Tensor::Vector<int64_t>({1, 1});
  ExpectRefused(filled(HashTable::FromTensors(keys, {1, 2})), "one value");
  const Tensor nothing = *Tensor::Zeros(DType::kInt64, {0});
  ExpectRefused(filled(HashTable::FromTensors(nothing, nothing)),
                "at least one key");
  ExpectRefused(filled(HashTable::FromTextFile("no/such/file")),
                "no/such/file");
  ExpectRefused(filled(HashTable::FromTextFile("x", {.delimiter = "ab"})),
                "delimiter");
  ExpectRecorded("key_index",
                 [] { HashTable::FromTextFile("x", {.key_column = -3}); });
  const HashTable unset = HashTable::FromTensors(keys, {1, 1});
  ExpectRefused(session.Run(unset.Lookup({int64_t{1}}, 0)), "initialised");
}

HOSTILE(Coordinators,
        "Coordinator::Start Coordinator::RequestStop Coordinator::ShouldStop "
        "Coordinator::WaitForStop Coordinator::Join "
        "Coordinator::cancellation") {
  Coordinator c;
  ExpectRefused(c.Start(nullptr), "expected a function");
  EXPECT_FALSE(c.ShouldStop());
  EXPECT_FALSE(c.WaitForStop(-kHuge));
  c.RequestStop(InvalidArgument("first"));
  c.RequestStop(InvalidArgument("second"));
  EXPECT_TRUE(c.WaitForStop(kHuge));
  EXPECT_TRUE(c.cancellation()->cancelled());
  ExpectRefused(c.Join(), "first");
  ExpectRefused(c.Join(), "first");
  ExpectRefused(c.Start([] { return OkStatus(); }), "joined");
}

HOSTILE(
    Datasets,
    "Dataset::Range Dataset::FromTensors Dataset::FromFiles Dataset::TfRecords "
    "Dataset::TextLines Dataset::FixedLengthRecords "
    "Dataset::FromQueue Dataset::Map Dataset::Filter Dataset::Scan "
    "Dataset::FlatMap Dataset::Interleave Dataset::Enumerate "
    "Dataset::IgnoreErrors Dataset::Repeat Dataset::Take Dataset::Skip "
    "Dataset::TakeWhile "
    "Dataset::Concatenate Dataset::Zip Dataset::Shuffle Dataset::Batch "
    "Dataset::BucketByLength Dataset::Prefetch Dataset::MakeIterator "
    "Dataset::node DatasetIterator::Next DatasetIterator::TryNext "
    "DatasetIterator::Start DatasetIterator::Stop DatasetIterator::Join "
    "DatasetIterator::Stages DatasetIterator::StatusLine "
    "DatasetIterator::ignored_errors DatasetIterator::Running "
    "DatasetIterator::Rewind DatasetIterator::position "
    "Session::options") {
  using Element = Dataset::Element;
  const auto same = [](Output x) { return x; };
  const auto is_built = [](const std::function<Dataset()>& make) {
    return [make] { make().MakeIterator().Next(); };
  };
  const auto range = [] { return Dataset::Range(3); };
  const std::pair<const char*, std::function<Dataset()>> builds[] = {
      {"expected", [] { return Dataset::Range(1.5); }},
      {"expected", [] { return Dataset::Range(Output()); }},
      {"of another", [] { return Dataset::Range(Elsewhere()); }},
      {"at least one tensor", [] { return Dataset::FromTensors({}); }},
      {"rank", [] { return Dataset::FromTensors({1.0f}); }},
      {"expected", [] { return Dataset::FromFiles(3); }},
      {"expected", [] { return Dataset::TfRecords(Output()); }},
      {"expected", [] { return Dataset::TextLines(Output()); }},
      {"expected", [] { return Dataset::FixedLengthRecords(1, 1); }},
      {"expected", [] { return Dataset::FromQueue(Queue()); }},
      {"parallel: expected at least 1, got 0",
       [&] { return range().Map(same, {.parallel = 0}); }},
      {"expected to take 1 tensors, got one that takes 2",
       [&] { return range().Map([](Output x, Output) { return x; }); }},
      {"expected",
       [&] { return range().Map([](Output) { return Output(); }); }},
      {"expected",
       [&] { return range().Map([](Output) { return Element{}; }); }},
      {"expected a function",
       [&] { return range().Map(std::function<Output(Output)>()); }},
      {"one boolean scalar",
       [&] { return range().Filter([](Output) { return Element{}; }); }},
      {"bool", [&] { return range().TakeWhile(same); }},
      {"bool", [&] { return range().Filter(same); }},
      {"state has 1 tensors, got 0",
       [&] {
         return range().Scan({1}, [](const Element&, const Element& x) {
           return std::pair{Element{}, x};
         });
       }},
      {"expected a function", [&] { return range().Scan({1}, nullptr); }},
      {"no stages with queues",
       [&] {
         return range().FlatMap(
             [](Output x) { return Dataset::Range(x).Prefetch(1); });
       }},
      {"no stages with queues",
       [&] {
         return range().Interleave(
             [](Output x) { return Dataset::Range(x).Shuffle(3).Batch(2); });
       }},
      {"buffer: expected at least 1", [&] { return range().Shuffle(-1); }},
      {"size: expected at least 1", [&] { return range().Batch(0); }},
      {"count: expected at least 1", [&] { return range().Prefetch(0); }},
      {"expected 1 batch sizes",
       [&] { return range().BucketByLength(same, {}, {}); }},
      {"batch_sizes: expected at least 1",
       [&] {
         return range().BucketByLength(same, {1}, {0, 1});
       }},
      {"one integer scalar",
       [&] {
         return range().BucketByLength([](Output) { return Element{}; }, {1},
                                       {1, 1});
       }},
      {"expected",
       [&] { return Dataset::Zip(Dataset::FromQueue(Queue()), range()); }}};
  for (const auto& [message, make] : builds) {
    SCOPED_TRACE(message);
    ExpectRecorded(message, is_built(make));
  }
  // The two have other types.
  ExpectRecorded("of type", is_built([&] {
                   return range().Concatenate(
                       Dataset::FromTensors({Tensor::Vector<float>({1})}));
                 }));

  // These are defined: nothing, or everything.
  Graph g;
  const WithGraph use(g);
  const auto count = [&](const Dataset& d) {
    DatasetIterator it = d.MakeIterator();
    const Element next = it.Next();
    Session session(g);
    EXPECT_TRUE(it.Start(session).ok());
    int n = 0;
    while (session.Run(next).ok()) ++n;
    return n;
  };
  EXPECT_EQ(count(Dataset::Range(-3)), 0);
  EXPECT_EQ(count(range().Take(-1)), 0);
  EXPECT_EQ(count(range().Take(kHuge)), 3);
  EXPECT_EQ(count(range().Skip(-kHuge)), 3);
  EXPECT_EQ(count(range().Skip(kHuge)), 0);
  EXPECT_EQ(count(range().Repeat(0)), 0);
  EXPECT_EQ(count(range().Batch(kHuge)), 1);
  EXPECT_EQ(count(range().Prefetch(kHuge)), 3);
  EXPECT_EQ(count(range().IgnoreErrors()), 3);
  EXPECT_EQ(count(range().Enumerate()), 3);
  EXPECT_NE(range().node(), nullptr);

  // An iterator of nothing.
  DatasetIterator none;
  Session session(g);
  EXPECT_NE(session.options().resources, nullptr);
  ExpectRefused(none.Start(session), "MakeIterator");
  ExpectRefused(none.Join(), "MakeIterator");
  ExpectRefused(none.Stages(session), "MakeIterator");
  EXPECT_THAT(none.StatusLine(session), testing::HasSubstr("MakeIterator"));
  EXPECT_EQ(none.ignored_errors(), 0);
  none.Stop();
  none.Stop(session);
  EXPECT_FALSE(none.Running(session));
  ExpectRefused(none.Rewind(session), "MakeIterator");
  ExpectRefused(range().MakeIterator().Rewind(session), "position is saved");
  EXPECT_EQ(none.position().rewind, nullptr);
  EXPECT_FALSE(range().MakeIterator().position().taken.valid());
  EXPECT_TRUE(none == DatasetIterator());
  ExpectRecorded("MakeIterator", [&] { EXPECT_NULL(none.Next()[0]); });
  ExpectRecorded("MakeIterator",
                 [&] { EXPECT_NULL(none.TryNext().has_value); });
  // A session of another graph, and one that is closed.
  DatasetIterator it = range().MakeIterator();
  Graph other;
  Session elsewhere(other);
  EXPECT_FALSE(it.Start(elsewhere).ok());
  EXPECT_TRUE(session.Close().ok());
  EXPECT_FALSE(it.Start(session).ok());
  EXPECT_FALSE(it.Stages(session).ok());
  it.Stop();
  it.Stop();
  it.Stop(session);
  EXPECT_FALSE(it.Running(session));
  EXPECT_FALSE(it == none);
}

HOSTILE(FilesOfRecords,
        "ParseRecordCompression OpenFileSource MakeMemorySource "
        "MakeInflatingSource ByteSource::Read ByteSource::Skip "
        "RecordReader::Open "
        "RecordReader::FromSource RecordReader::Read RecordReader::offset "
        "MakeExample "
        "RecordReader::SkipTo RecordReader::ended_early RecordWriter::Open "
        "RecordWriter::Write "
        "RecordWriter::Flush RecordWriter::Close") {
  for (const char* name : {"zlib", "ZIP", "\n"})
    ExpectRefused(ParseRecordCompression(name), "expected");
  const Tensor text = Tensor::Scalar<std::string>("x");
  ExpectRefused(MakeExample({{"a", Tensor()}}), "feature 'a'");
  ExpectRefused(MakeExample({{"a", text}, {"a", text}}), "got several");
  ExpectRefused(MakeExample({{"a", *Tensor::Zeros(DType::kComplex64, {2})}}),
                "complex64");
  EXPECT_TRUE(MakeExample({}).ok());
  const std::string missing = testing::TempDir() + "/no/such/file";
  ExpectRefused(OpenFileSource(missing), missing);
  ExpectRefused(RecordReader::Open(missing), missing);
  ExpectRefused(RecordWriter::Open(missing), missing);
  EXPECT_FALSE(OpenFileSource("").ok());
  char byte = 0;
  EXPECT_EQ(*MakeMemorySource("")->Read(&byte, 1), 0);
  EXPECT_EQ(*MakeMemorySource("abc")->Skip(kHuge), 3);
  EXPECT_EQ(*MakeMemorySource("abc")->Skip(0), 0);
  for (const auto compression :
       {RecordCompression::kZlib, RecordCompression::kGzip}) {
    auto inflating =
        MakeInflatingSource(MakeMemorySource("garbage"), compression, "f");
    ASSERT_TRUE(inflating.ok());
    ExpectRefused((*inflating)->Read(&byte, 1), "f");
  }
  const auto read = [](const std::string& bytes) {
    auto reader = *RecordReader::FromSource(MakeMemorySource(bytes), "f");
    std::string_view record;
    const Status s = reader->Read(&record);
    EXPECT_EQ(reader->Read(&record), s);
    EXPECT_GE(reader->offset(), 0);
    return s;
  };
  EXPECT_EQ(read("").code(), StatusCode::kOutOfRange);
  for (const std::string& bytes :
       {std::string(1, 'x'), std::string(12, '\0'), std::string(16, '\xff'),
        std::string(100, 'a')})
    EXPECT_EQ(read(bytes).code(), StatusCode::kDataLoss);
  auto empty = *RecordReader::FromSource(MakeMemorySource(""), "f");
  ExpectRefused(empty->SkipTo(-1), "");
  EXPECT_EQ(empty->SkipTo(kHuge).code(), StatusCode::kOutOfRange);

  const std::string path = testing::TempDir() + "/hostile_records";
  auto writer = *RecordWriter::Open(path);
  EXPECT_TRUE(writer->Write("").ok());
  EXPECT_TRUE(writer->Flush().ok());
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_EQ(writer->Write("x").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Flush().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Close().code(), StatusCode::kFailedPrecondition);
  std::filesystem::remove(path);
}

HOSTILE(EventFiles,
        "EventWriter::Open EventWriter::AddSummary EventWriter::AddScalar "
        "EventWriter::AddHistogram EventWriter::AddImages "
        "EventWriter::AddAudio EventWriter::AddText EventWriter::AddGraph "
        "EventWriter::AddMetaGraph EventWriter::AddRunMetadata "
        "EventWriter::AddSession EventWriter::AddEvent EventWriter::Flush "
        "EventWriter::Close EventWriter::path SerializeRunMetadata "
        "TimelineLabel") {
  RunMetadata odd;
  odd.events.resize(2);
  odd.events[1].node = std::string(3, '\0');
  odd.events[1].start_ns = -1'000'000'000;
  odd.events[1].end_ns = -2'000'000'000;
  EXPECT_FALSE(SerializeRunMetadata(odd).empty());
  EXPECT_EQ(TimelineLabel(TraceEvent()), " = : ");

  ExpectRefused(EventWriter::Open("").status(), "folder ''");
  ExpectRefused(EventWriter::Open("/dev/null/x").status(), "/dev/null/x");
  const std::string folder = testing::TempDir() + "/hostile_events";
  const auto opened = EventWriter::Open(
      folder, {.flush_ms = -kHuge, .max_pending_bytes = -kHuge});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EventWriter& log = **opened;
  EXPECT_TRUE(std::filesystem::exists(log.path()));
  ExpectRefused(log.AddSummary("x", 0), "summary: expected");
  ExpectRefused(log.AddEvent("x"), "event: expected");
  EXPECT_TRUE(log.AddScalar("", std::nan(""), -kHuge).ok());
  ExpectRefused(log.AddHistogram("h", Tensor(), 0), "values: expected");
  ExpectRefused(log.AddHistogram("h", Tensor::Scalar<std::string>("x"), 0),
                "values: expected");
  ExpectRefused(log.AddImages("i", Tensor(), 0), "tensor: expected");
  ExpectRefused(log.AddImages("i", Tensor::Scalar(1.0f), 0, -kHuge),
                "tensor: expected");
  EXPECT_TRUE(
      log.AddImages("i", Tensor(DType::kFloat, {0, 1, 1, 1}), 0, -kHuge).ok());
  ExpectRefused(log.AddAudio("a", Tensor(), 8000, 0), "tensor: expected");
  ExpectRefused(log.AddAudio("a", Tensor(DType::kFloat, {1, 1}), -1, 0),
                "sample_rate: expected");
  ExpectRefused(log.AddText("t", Tensor(), 0), "tensor: expected");
  EXPECT_TRUE(log.AddGraph("").ok());
  EXPECT_TRUE(log.AddMetaGraph("not a message").ok());
  EXPECT_TRUE(log.AddRunMetadata("", "", -kHuge).ok());
  EXPECT_TRUE(log.AddSession(SessionEvent::kStop, "", kHuge).ok());
  EXPECT_TRUE(log.Flush().ok());
  EXPECT_TRUE(log.Close().ok());
  ExpectRefused(log.Close(), "closed");
  ExpectRefused(log.Flush(), "closed");
  ExpectRefused(log.AddScalar("x", 1, 1), "closed");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice
