// The error messages for files that contain no GraphDef.
#include "tools/sluice/graph_file.h"

#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "sluice/sluice.h"

namespace sluice::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] =
    "node { name: 'x' op: 'Placeholder' "
    "attr { key: 'dtype' value { type: DT_FLOAT } } }\n"
    "node { name: 'y' op: 'Neg' input: 'x' "
    "attr { key: 'T' value { type: DT_FLOAT } } }\n";

class GraphFile : public ::testing::Test {
 protected:
  GraphFile() { std::filesystem::create_directories(dir_); }
  ~GraphFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  void Reads(const std::string& path) {
    Graph g;
    const Status s = ImportGraphDefFile(path, g);
    EXPECT_TRUE(s.ok()) << s;
    EXPECT_NE(g.FindNode("y"), nullptr) << path;
  }
  void Refuses(const std::string& path, const std::string& part) {
    Graph g;
    const Status s = ImportGraphDefFile(path, g);
    EXPECT_FALSE(s.ok()) << path;
    EXPECT_THAT(std::string(s.message()), HasSubstr(part));
    EXPECT_THAT(std::string(s.message()), HasSubstr(path));
  }
  // A field that contains a message or a string.
  static std::string Field(int number, const std::string& bytes) {
    return std::string({static_cast<char>(number << 3 | 2),
                        static_cast<char>(bytes.size())}) +
           bytes;
  }
  const std::string dir_ =
      ::testing::TempDir() + "sluice_graph_file_" + std::to_string(getpid()) +
      "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(GraphFile, FormatIsDetectedByContent) {
  const std::string binary = *ParseTextGraphDef(kText);
  for (const char* name : {"g.pb", "g.pbtxt", "g.txt", "graph", "g.data"}) {
    Reads(Write(name, kText));
    Reads(Write(name, binary));
  }
}

TEST_F(GraphFile, OtherFileKindsAreNamedInErrors) {
  Refuses(Write("README.md", "# Sluice\n\nA dataflow system"),
          "expected a GraphDef, binary or text, got a text file of another "
          "kind, which begins '# Sluice'");
  Refuses(Write("x.json", "{\"node\": 1}"), "begins '{\"node\": 1}'");
  Refuses(Write("notes.txt", "node counts of all graphs"),
          "a text file of another kind");
  Refuses(Write("empty.pb", ""), "got an empty file");
  Refuses(Write("empty.pbtxt", ""), "got an empty file");
  Refuses(Write("blank.pbtxt", " \n\n"), "got a file of white space");
  Refuses(Write("x.npy", "\x93NUMPY\1"), "a .npy array");
  Refuses(Write("x.npz", "PK\3\4\24"), "a zip archive");
  Refuses(Write("g.pb.gz", "\x1f\x8b\x08"), "a gzip file");
  Refuses(Write("a.png", "\x89PNG\r\n\x1a\n\0\1"), "an image (PNG)");
  Refuses(Write("w.h5", "\x89HDF\r\n"), "an HDF5 file");
  Refuses(Write("program", std::string("\x7f"
                                       "ELF\2\1\1\0",
                                       8)),
          "a program (ELF)");
  Refuses(Write("random", "\xde\xad\xbe\xef\1\2\3"),
          "7 bytes of another format");
}

TEST_F(GraphFile, OneWithoutNodesIsRefused) {
  for (const char* text :
       {"# A comment.\n# Another one.\n", "versions { producer: 26 }\n"})
    Refuses(Write("g.pbtxt", text),
            "expected a GraphDef with nodes, got one without");
  Refuses(Write("g.pb", *ParseTextGraphDef("versions { producer: 26 }")),
          "expected a GraphDef with nodes, got one without");
}

TEST_F(GraphFile, TextErrorNamesLineAndColumn) {
  Refuses(Write("g.pbtxt", "# by hand\nnode {\n  name: 'a'\n  opp: 'b' }"),
          "line 4, column 6");
  Refuses(Write("g.pb", "node {\n  name: 'a'\n  opp: 'b' }"), "opp");
}

TEST_F(GraphFile, TruncationErrorNamesTheNode) {
  const std::string binary = *ParseTextGraphDef(kText);
  const size_t first = 2 + static_cast<unsigned char>(binary[1]);
  Refuses(Write("g.pb", binary.substr(0, first - 3)),
          absl::StrCat("got a truncated one: ", first - 3,
                       " bytes, which end within node 1"));
  Refuses(Write("g.pb", binary.substr(0, first + 9)), "within node 2");
  // Every prefix is an error, except those that end between nodes.
  for (size_t n = 1; n < binary.size(); ++n) {
    if (n == first) continue;
    Graph g;
    EXPECT_FALSE(ImportGraphDefFile(Write("g.pb", binary.substr(0, n)), g).ok())
        << n;
  }
}

TEST_F(GraphFile, RelatedFormatsAreRecognized) {
  const std::string graph = *ParseTextGraphDef(kText);
  // MetaGraphDef: meta info, with a list of ops, and the graph. SavedModel: its
  // version and MetaGraphDefs.
  const std::string meta =
      Field(1, Field(2, Field(1, Field(1, "Neg")))) + "\x12" +
      std::string(1, static_cast<char>((graph.size() & 0x7f) | 0x80)) +
      std::string(1, static_cast<char>(graph.size() >> 7)) + graph;
  Refuses(Write("model.meta", meta), "got a MetaGraphDef");
  const std::string saved =
      std::string("\x08\x01\x12") +
      std::string(1, static_cast<char>((meta.size() & 0x7f) | 0x80)) +
      std::string(1, static_cast<char>(meta.size() >> 7)) + meta;
  Refuses(Write("saved_model.pb", saved), "got a SavedModel");
}

TEST_F(GraphFile, FolderErrorsNameTheKindOfFolder) {
  EXPECT_THAT(WhyNoGraphFile(dir_), HasSubstr("', a folder"));
  EXPECT_THAT(WhyNoGraphFile(dir_ + "/none"), HasSubstr("does not exist"));
  Write("graph.pb", "");
  Write("meta.json", "{}");
  EXPECT_THAT(WhyNoGraphFile(dir_), HasSubstr("a recorded case (its graph is " +
                                              dir_ + "/graph.pb)"));
  Write("saved_model.pb", "");
  std::filesystem::remove(dir_ + "/meta.json");
  EXPECT_THAT(WhyNoGraphFile(dir_), HasSubstr("the folder of a SavedModel"));
  EXPECT_EQ(WhyNoGraphFile(dir_ + "/graph.pb"), "");
}

}  // namespace
}  // namespace sluice::cli
