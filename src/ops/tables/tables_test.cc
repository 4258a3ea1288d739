// Tables in sessions: what the recorded cases (tests/cases/*_tables) do not
// show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "io/file.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TablesTest : public ::testing::Test {
 protected:
  TablesTest() : use_(g_) {}

  Output MakeTable(const std::string& op, DType key, DType value,
                   AttrMap attrs = {}) {
    attrs["key_dtype"] = key;
    attrs["value_dtype"] = value;
    return Build(op, {}, attrs);
  }
  static Output Find(Output table, const Tensor& keys, const Tensor& missing) {
    return Build("LookupTableFindV2",
                 {table, Constant(keys), Constant(missing)});
  }
  static Node* Fill(const char* op, Output table, const Tensor& keys,
                    const Tensor& values) {
    return BuildNode(op, {table, Constant(keys), Constant(values)}, {});
  }
  static Tensor Words(std::initializer_list<std::string> words) {
    return Tensor::Vector<std::string>(words);
  }
  static Tensor Numbers(std::initializer_list<int64_t> numbers) {
    return Tensor::Vector<int64_t>(numbers);
  }

  Graph g_;
  WithGraph use_;
};

TEST_F(TablesTest, EveryTypeIsStoredAndFound) {
  const std::vector<Tensor> keys = {Tensor::Vector<int32_t>({3, -4}),
                                    Numbers({3, -4}), Words({"x", ""})};
  const std::vector<Tensor> values = {Tensor::Vector<bool>({true, false}),
                                      Tensor::Vector<int32_t>({7, -8}),
                                      Numbers({7, -8}),
                                      Tensor::Vector<float>({0.5, -1}),
                                      Tensor::Vector<double>({0.5, -1}),
                                      Words({"long enough to allocate", ""})};
  for (const char* op : {"HashTableV2", "MutableHashTableV2"}) {
    for (const Tensor& k : keys) {
      for (const Tensor& v : values) {
        const Output table = MakeTable(op, k.dtype(), v.dtype());
        const Output found = Find(table, k, *v.Rows(0, 1).Reshaped(Shape()));
        const Output exported =
            Build("LookupTableExportV2", {table},
                  {{"Tkeys", k.dtype()}, {"Tvalues", v.dtype()}});
        Node* const fill =
            Fill(std::string(op)[0] == 'H' ? "InitializeTableV2"
                                           : "LookupTableInsertV2",
                 table, k, v);
        ASSERT_TRUE(g_.status().ok()) << g_.status();
        Session session(g_);
        ASSERT_TRUE(session.RunTargets({fill}).ok());
        const auto got = session.Run(
            {found, Output(exported.node, 0), Output(exported.node, 1)});
        ASSERT_TRUE(got.ok()) << got.status();
        // (Exported in the order in which they were inserted.)
        EXPECT_TRUE((*got)[0].Identical(v)) << (*got)[0].ToString();
        EXPECT_TRUE((*got)[1].Identical(k)) << (*got)[1].ToString();
        EXPECT_TRUE((*got)[2].Identical(v)) << (*got)[2].ToString();
      }
    }
  }
}

TEST_F(TablesTest, KeysThatDifferInOneByteAreOtherKeys) {
  // Many, so that some of each length have hashes that look alike.
  std::vector<std::string> inserted, others;
  for (size_t size = 0; size <= 40; ++size) {
    inserted.emplace_back(size, 'a');
    for (size_t at = 0; at < size; ++at)
      for (char c = 1; c < 'a'; ++c) {
        std::string key(size, 'a');
        key[at] = c;
        (c % 2 == 0 ? inserted : others).push_back(std::move(key));
      }
  }
  const auto count = static_cast<int64_t>(inserted.size());
  Tensor numbers(DType::kInt64, Shape({count}));
  std::iota(numbers.raw<int64_t>(), numbers.raw<int64_t>() + count, int64_t{0});
  const Output table = MakeTable("HashTableV2", DType::kString, DType::kInt64);
  const Tensor keys = Tensor::Vector<std::string>(inserted);
  const Tensor none = Tensor::Scalar(int64_t{-1});
  Session session(g_);
  ASSERT_TRUE(
      session.RunTargets({Fill("InitializeTableV2", table, keys, numbers)})
          .ok());
  EXPECT_TRUE(session.Run(Find(table, keys, none))->Identical(numbers));
  EXPECT_THAT(
      session.Run(Find(table, Tensor::Vector<std::string>(others), none))
          ->ToVector<int64_t>(),
      Each(-1));
}

TEST_F(TablesTest, OtherTypesHaveNoTable) {
  const Output table = MakeTable("HashTableV2", DType::kFloat, DType::kInt64);
  const Output size = Build("LookupTableSizeV2", {table});
  EXPECT_EQ(Session(g_).Run(size).status().code(), StatusCode::kUnimplemented);
}

TEST_F(TablesTest, ErrorsSayWhatWasExpected) {
  const Output table = MakeTable("HashTableV2", DType::kString, DType::kInt64);
  Session session(g_);
  const Status early =
      session.Run(Find(table, Words({"a"}), Tensor::Scalar(int64_t{0})))
          .status();
  EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("not initialized"));
  const Status types =
      session.Run(Find(table, Words({"a"}), Tensor::Scalar(0))).status();
  EXPECT_EQ(types.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(types.message()),
              HasSubstr("expected types string->int64, got string->int32"));
  const Status twice = session.RunTargets(
      {Fill("InitializeTableV2", table, Words({"a", "a"}), Numbers({1, 2}))});
  EXPECT_EQ(twice.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("key number 1, \"a\""));
  const Output v =
      Build("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape()}});
  const Status other = session.Run(Build("LookupTableSizeV2", {v})).status();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("expected a table, got Variable"));
}

TEST_F(TablesTest, ATableOfNoKeysIsNotInitialised) {
  const Output table = MakeTable("HashTableV2", DType::kString, DType::kInt64);
  const Output found = Find(table, Words({"a"}), Tensor::Scalar<int64_t>(-1));
  Session session(g_);
  for (const char* op : {"InitializeTableV2", "LookupTableImportV2"})
    EXPECT_THAT(session.RunTargets({Fill(op, table, Words({}), Numbers({}))})
                    .ToString(),
                HasSubstr("keys and values cannot be empty tensors"));
  EXPECT_EQ(session.Run(found).status().code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session
                  .RunTargets({Fill("InitializeTableV2", table, Words({"a"}),
                                    Numbers({5}))})
                  .ok());
  EXPECT_THAT(session.Run(found)->ToVector<int64_t>(), ElementsAre(5));
}

TEST_F(TablesTest, ANameIsSharedByNodesOfOneKindAndType) {
  const AttrMap shared = {{"shared_name", "words"}};
  const Output a =
      MakeTable("MutableHashTableV2", DType::kString, DType::kInt64, shared);
  const Output b =
      MakeTable("MutableHashTableV2", DType::kString, DType::kInt64, shared);
  const Output wrong =
      MakeTable("MutableHashTableV2", DType::kInt64, DType::kInt64, shared);
  const Output kind =
      MakeTable("HashTableV2", DType::kString, DType::kInt64, shared);
  Session session(g_);
  ASSERT_TRUE(session
                  .RunTargets({Fill("LookupTableInsertV2", a, Words({"x"}),
                                    Numbers({5}))})
                  .ok());
  EXPECT_EQ(session.Run(Build("LookupTableSizeV2", {b}))->scalar<int64_t>(), 1);
  for (const Output& other : {wrong, kind})
    EXPECT_EQ(session.Run(Build("LookupTableSizeV2", {other})).status().code(),
              StatusCode::kInvalidArgument);
}

TEST_F(TablesTest, ShapesFollowFromTheNodeOfTheTable) {
  const Output table =
      MakeTable("MutableHashTableOfTensorsV2", DType::kString, DType::kFloat,
                {{"value_shape", PartialShape({3})}});
  const Output keys =
      Build("Placeholder", {},
            {{"dtype", DType::kString}, {"shape", PartialShape({-1, 2})}});
  const Output found =
      Build("LookupTableFindV2",
            {table, keys, Constant(Tensor::Vector<float>({1, 2, 3}))});
  EXPECT_EQ(found.shape().ToString(), "[?,2,3]");
}

TEST_F(TablesTest, RemovingAndInsertingKeepsTheOthers) {
  const Output table =
      MakeTable("MutableHashTableV2", DType::kInt64, DType::kInt64);
  Session session(g_);
  const auto run = [&](Node* n) { ASSERT_TRUE(session.RunTargets({n}).ok()); };
  run(Fill("LookupTableInsertV2", table, Numbers({1, 2, 3, 4}),
           Numbers({10, 20, 30, 40})));
  run(BuildNode("LookupTableRemoveV2", {table, Constant(Numbers({1, 4, 9}))},
                {}));
  run(Fill("LookupTableInsertV2", table, Numbers({5, 2}), Numbers({50, 21})));
  const Tensor none = Tensor::Scalar(int64_t{-1});
  EXPECT_THAT(session.Run(Find(table, Numbers({1, 2, 3, 4, 5}), none))
                  ->ToVector<int64_t>(),
              ElementsAre(-1, 21, 30, -1, 50));
}

TEST_F(TablesTest, AFileFillsATable) {
  const std::string path = "/tmp/sluice_vocabulary_" + std::to_string(getpid());
  const auto init = [&](Output table, int64_t key, int64_t value,
                        AttrMap attrs = {}) {
    attrs["key_index"] = key;
    attrs["value_index"] = value;
    return BuildNode("InitializeTableFromTextFileV2",
                     {table, Constant(Tensor::Scalar(path))}, attrs);
  };
  struct {
    const char* text;
    int64_t key, value;
    AttrMap attrs;
    DType key_type, value_type;
    const char* result;  // Keys and values; or part of the error.
  } cases[] = {
      {"a\nb\r\nc",
       -2,
       -1,
       {},
       DType::kString,
       DType::kInt64,
       R"("a" "b" "c"|0 1 2)"},
      {"a\nb\nc",
       -2,
       -1,
       {{"vocab_size", 2}, {"offset", 5}},
       DType::kString,
       DType::kInt64,
       R"("a" "b"|5 6)"},
      {"a\t1\tx\nb\t2\ty\n",
       2,
       1,
       {},
       DType::kString,
       DType::kFloat,
       R"("x" "y"|1 2)"},
      {"a,1\nb,2\n",
       1,
       0,
       {{"delimiter", ","}},
       DType::kInt32,
       DType::kString,
       R"(1 2|"a" "b")"},
      {"a\nb", -1, -2, {}, DType::kInt64, DType::kString, R"(0 1|"a" "b")"},
      {"a\nb",
       -2,
       -1,
       {{"vocab_size", 3}},
       DType::kString,
       DType::kInt64,
       "expected 3 lines"},
      {"a\t1\nb\n",
       0,
       1,
       {},
       DType::kString,
       DType::kInt64,
       "line 1: expected at least 2 columns, got 1"},
      {"a\t1\nb\tx\n",
       0,
       1,
       {},
       DType::kString,
       DType::kInt64,
       "line 1: expected a valid int64, got 'x'"},
      {"a\n\nb\n", -2, -1, {}, DType::kString, DType::kInt64, "one at byte 2"},
      {"a\na\n",
       -2,
       -1,
       {},
       DType::kString,
       DType::kInt64,
       "different value for same key"},
      {"", -2, -1, {}, DType::kString, DType::kInt64, "at least one line"},
      {"a",
       -2,
       -1,
       {},
       DType::kString,
       DType::kInt32,
       "int64 values for line numbers"},
      {"a",
       -2,
       -1,
       {{"delimiter", "ab"}},
       DType::kString,
       DType::kInt64,
       "expected one character"},
  };
  for (const auto& c : cases) {
    ASSERT_TRUE(WriteFile(path, c.text).ok());
    const Output table = MakeTable("HashTableV2", c.key_type, c.value_type);
    Node* const fill = init(table, c.key, c.value, c.attrs);
    const Output all =
        Build("LookupTableExportV2", {table},
              {{"Tkeys", c.key_type}, {"Tvalues", c.value_type}});
    ASSERT_TRUE(g_.status().ok()) << g_.status();
    Session session(g_);
    const Status filled = session.RunTargets({fill});
    if (!filled.ok()) {
      EXPECT_THAT(std::string(filled.message()), HasSubstr(c.result));
      continue;
    }
    // Nothing happens the second time.
    EXPECT_TRUE(session.RunTargets({fill}).ok());
    const auto got = session.Run({Output(all.node, 0), Output(all.node, 1)});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(absl::StrCat((*got)[0].Summarize(9), "|", (*got)[1].Summarize(9)),
              c.result);
  }
  unlink(path.c_str());
  const Output table = MakeTable("HashTableV2", DType::kString, DType::kInt64);
  EXPECT_EQ(Session(g_).RunTargets({init(table, -2, -1)}).code(),
            StatusCode::kNotFound);
}

TEST_F(TablesTest, ThreadsSeeWholeInsertions) {
  const Output table =
      MakeTable("MutableHashTableV2", DType::kInt64, DType::kInt64);
  const Output value =
      Build("Placeholder", {},
            {{"dtype", DType::kInt64}, {"shape", PartialShape({2})}});
  const Tensor keys = Numbers({1, 2});
  Node* const insert =
      BuildNode("LookupTableInsertV2", {table, Constant(keys), value}, {});
  const Output found = Find(table, keys, Tensor::Scalar(int64_t{0}));
  Session session(g_);
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 200; ++i) {
        const Tensor v = Tensor::Vector<int64_t>({4 * i + t, 4 * i + t});
        const Status s = session.Run({{value, v}}, {}, {insert}).status();
        const auto got = session.Run(found);
        if (!s.ok() || !got.ok() ||
            got->data<int64_t>()[0] != got->data<int64_t>()[1])
          wrong = true;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace sluice
