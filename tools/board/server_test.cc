#include "tools/board/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "summary/event_writer.h"
#include "tools/board/event_log.h"
#include "tools/board/testing/sample_log.h"

namespace sluice::board {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Reply {
  int status = 0;
  std::string type, body;
  json parsed() const { return json::parse(body, nullptr, false); }
  std::string error() const {
    const json j = parsed();
    return j.is_object() ? j.value("error", "") : "";
  }
};

// A server of the sample log, which all tests share since none changes it.
class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new std::string((std::filesystem::temp_directory_path() /
                               ("sluice_board_" + std::to_string(getpid())))
                                  .string());
    const Status written = WriteSampleLog(*folder_);
    ASSERT_TRUE(written.ok()) << written;
    server_ = Serve(*folder_).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
    std::filesystem::remove_all(*folder_);
    delete folder_;
  }
  static std::unique_ptr<Server> Serve(const std::string& folder,
                                       const ServerOptions& options = {}) {
    auto server = Server::Start(folder, options);
    EXPECT_TRUE(server.ok()) << server.status();
    (*server)->log().Refresh();
    return *std::move(server);
  }
  static Reply Get(const std::string& path, const Server& server = *server_,
                   const httplib::Headers& headers = {}) {
    httplib::Client client("127.0.0.1", server.port());
    const auto result = client.Get(path, headers);
    if (!result) {
      ADD_FAILURE() << path << ": no answer";
      return {};
    }
    return {result->status, result->get_header_value("Content-Type"),
            result->body};
  }

  static std::string* folder_;
  static Server* server_;
};
std::string* ServerTest::folder_ = nullptr;
Server* ServerTest::server_ = nullptr;

TEST_F(ServerTest, ServesThePageAndAllItsFiles) {
  const Reply page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  EXPECT_THAT(page.body, HasSubstr("<title>Sluice board</title>"));
  // What the page and its modules load is there.
  std::vector<std::string> left = {"/page/board.js"};
  EXPECT_THAT(page.body, HasSubstr("/page/board.js"));
  EXPECT_EQ(Get("/page/board.css").status, 200);
  for (size_t i = 0; i < left.size(); ++i) {
    const Reply module = Get(left[i]);
    EXPECT_EQ(module.status, 200) << left[i];
    EXPECT_THAT(module.type, HasSubstr("text/javascript"));
    size_t at = 0;
    while ((at = module.body.find("from \"./", at)) != std::string::npos) {
      at += 8;
      const std::string next =
          "/page/" + module.body.substr(at, module.body.find('"', at) - at);
      if (std::find(left.begin(), left.end(), next) == left.end())
        left.push_back(next);
    }
  }
  EXPECT_GT(left.size(), 5u);
  // It needs nothing from elsewhere.
  for (const std::string& path : left)
    EXPECT_EQ(Get(path).body.find("https://"), std::string::npos) << path;
}

TEST_F(ServerTest, TellsRunsAndTags) {
  const json state = Get("/api/state").parsed();
  EXPECT_EQ(state["folder"], *folder_);
  EXPECT_EQ(state["problem"], "");
  ASSERT_EQ(state["runs"].size(), 2u);
  EXPECT_EQ(state["runs"][0]["name"], "baseline");
  const json& wide = state["runs"][1];
  for (const char* kind : {"scalars", "histograms", "images", "audio", "text",
                           "tensors", "profiles"})
    EXPECT_TRUE(wide["tags"].contains(kind)) << kind;
  EXPECT_GT(wide["graph"].get<int64_t>(), 0);
  const std::string version = state["version"].dump();
  EXPECT_FALSE(Get("/api/state?version=" + version).parsed().contains("runs"));
  EXPECT_TRUE(Get("/api/state?version=1").parsed().contains("runs"));
}

TEST_F(ServerTest, GivesScalarsOfSeveralRuns) {
  const json s =
      Get("/api/scalars?tag=loss/train&run=wide&run=baseline").parsed();
  ASSERT_EQ(s["runs"].size(), 2u);
  EXPECT_EQ(s["runs"]["wide"]["step"].size(), 400u);
  EXPECT_EQ(s["runs"]["wide"]["step"][399], 399);
  EXPECT_EQ(s["runs"]["wide"]["value"].size(), 400u);
}

TEST_F(ServerTest, GivesHistogramsTextsAndSteps) {
  const json h = Get("/api/histograms?run=wide&tag=dense/kernel").parsed();
  EXPECT_EQ(h["rows"].size(), 40u);
  const json t = Get("/api/text?run=wide&tag=samples/caption").parsed();
  EXPECT_EQ(t["values"].size(), 4u);
  EXPECT_THAT(t["values"][1]["cells"][0].get<std::string>(),
              HasSubstr("Step 100"));
  const json i =
      Get("/api/values?kind=images&run=wide&tag=samples/generated/image")
          .parsed();
  ASSERT_EQ(i["values"].size(), 4u);
  EXPECT_EQ(i["values"][0]["width"], 24);
  EXPECT_EQ(i["values"][0]["parts"], 1);
}

TEST_F(ServerTest, GivesImagesAndSounds) {
  const Reply image =
      Get("/api/blob?kind=images&run=wide&tag=samples/generated/image&index=2");
  EXPECT_EQ(image.type, "image/png");
  EXPECT_TRUE(image.body.starts_with("\x89PNG"));
  const Reply sound =
      Get("/api/blob?kind=audio&run=wide&tag=samples/tone/audio&index=0");
  EXPECT_EQ(sound.type, "audio/wav");
  EXPECT_TRUE(sound.body.starts_with("RIFF"));
}

TEST_F(ServerTest, GivesAProjectionWithLabels) {
  const json p = Get("/api/projection?run=wide&tag=embedding&index=3").parsed();
  EXPECT_EQ(p["x"].size(), 12u);
  ASSERT_EQ(p["labels"].size(), 12u);
  EXPECT_EQ(p["labels"][7], "dog");
  EXPECT_GT(p["variance"][0].get<double>(), 0.2);
}

TEST_F(ServerTest, GivesTheGraphAsBoxes) {
  const json g = Get("/api/graph?run=wide").parsed();
  std::map<std::string, int> kinds;
  for (const json& b : g["boxes"]) ++kinds[b["kind"].get<std::string>()];
  EXPECT_EQ(kinds["graph"], 1);
  for (const char* kind : {"scope", "loop", "branch", "function", "gradients"})
    EXPECT_GE(kinds[kind], 1) << kind;
  EXPECT_GE(kinds["branch"], 2);
  std::map<std::string, json> nodes;
  for (const json& n : g["nodes"]) nodes[n["name"].get<std::string>()] = n;
  ASSERT_TRUE(nodes.contains("image"));
  EXPECT_EQ(nodes["image"]["op"], "Placeholder");
  EXPECT_EQ(nodes["image"]["kind"], "input");
  for (size_t i = 1; i < g["boxes"].size(); ++i)
    EXPECT_LT(g["boxes"][i]["outer"].get<size_t>(), i);
  int back = 0;
  for (const json& e : g["edges"]) {
    ASSERT_LT(e["from"].get<size_t>(), g["nodes"].size());
    ASSERT_LT(e["to"].get<size_t>(), g["nodes"].size());
    back += e["back"].get<bool>();
  }
  EXPECT_GE(back, 2);  // The loop has two variables.
}

TEST_F(ServerTest, GivesTheTimelineOfAStep) {
  const json t =
      Get("/api/timeline?run=wide&tag=train%20step&index=1").parsed();
  EXPECT_EQ(t["step"], 100);
  EXPECT_GT(t["us"].get<double>(), 0);
  ASSERT_GE(t["rows"].size(), 1u);
  int products = 0;
  for (const json& row : t["rows"]) {
    EXPECT_THAT(row["device"].get<std::string>(), HasSubstr("CPU:0"));
    double end = 0;
    for (const json& bar : row["bars"]) {
      EXPECT_GE(bar[0].get<double>(), end - 1e-3);
      end = bar[0].get<double>() + bar[1].get<double>();
      products += bar[3].get<std::string>().find("MatMul") != std::string::npos;
    }
  }
  EXPECT_GE(products, 3);
}

TEST_F(ServerTest, NamesWhatIsWrongWithARequest) {
  const auto expect = [](const std::string& path, int status,
                         const std::string& error) {
    const Reply r = Get(path);
    EXPECT_EQ(r.status, status) << path << ": " << r.body;
    EXPECT_THAT(r.error(), HasSubstr(error)) << path;
  };
  expect("/api/scalars", 400, "'tag'");
  expect("/api/scalars?tag=loss", 400, "run");
  expect("/api/scalars?tag=none&run=wide", 404, "'none'");
  expect("/api/scalars?tag=loss/train&run=none", 404, "'none'");
  expect("/api/state?version=x", 400, "'x'");
  expect("/api/histograms?run=wide", 400, "'tag'");
  expect("/api/histograms?run=wide&tag=loss/train", 404, "histograms");
  expect("/api/values?run=wide&tag=t&kind=pictures", 400, "'pictures'");
  expect("/api/values?run=wide&tag=loss/train&kind=scalars", 400, "kind");
  expect("/api/projection?run=wide&tag=embedding&index=99", 400, "99");
  expect("/api/projection?run=wide&tag=embedding&index=-1", 400, "'-1'");
  expect("/api/projection?run=wide&tag=embedding/labels&index=0", 400,
         "matrix");
  expect("/api/blob?kind=text&run=wide&tag=samples/caption&index=0", 400,
         "text");
  expect(
      "/api/blob?kind=images&run=wide&tag=samples/generated/image&index=0"
      "&part=5",
      400, "part");
  expect("/api/graph", 400, "'run'");
  expect("/api/graph?run=baseline", 404, "graph");
  expect("/api/timeline?run=wide&tag=none&index=0", 404, "'none'");
  expect("/api/none", 404, "/api/none");
}

TEST_F(ServerTest, ServesNoFilesOfTheMachine) {
  for (const char* path :
       {"/etc/passwd", "/../../../../etc/passwd", "/page/../../../etc/passwd",
        "/page/%2e%2e/%2e%2e/etc/passwd", "/library/../../../../etc/passwd",
        "/library/..%2f..%2f..%2f..%2fetc%2fpasswd", "/library/dygraph.js.map",
        "/api/blob?kind=images&run=../../etc&tag=passwd&index=0"}) {
    const Reply r = Get(path);
    EXPECT_EQ(r.status, 404) << path;
    EXPECT_EQ(r.body.find("root:"), std::string::npos) << path;
  }
}

TEST_F(ServerTest, AnswersOnlyGet) {
  httplib::Client client("127.0.0.1", server_->port());
  EXPECT_EQ(client.Post("/api/state", "x", "text/plain")->status, 405);
  EXPECT_EQ(client.Delete("/api/state")->status, 405);
  EXPECT_EQ(client.Head("/")->status, 200);
}

TEST_F(ServerTest, RefusesOtherHostsOnALoopbackAddress) {
  const std::string port = std::to_string(server_->port());
  for (const char* host : {"evil.example", "127.evil.example", "127.0.0.1.evil",
                           "localhost.evil", "128.0.0.1", "[::2]"})
    EXPECT_EQ(
        Get("/api/state", *server_, {{"Host", host + (":" + port)}}).status,
        403)
        << host;
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.10", "[::1]"})
    EXPECT_EQ(
        Get("/api/state", *server_, {{"Host", host + (":" + port)}}).status,
        200)
        << host;
}

TEST_F(ServerTest, ShowsThatThereIsNothing) {
  const auto none = Serve(*folder_ + "/none");
  EXPECT_THAT(Get("/api/state", *none).parsed()["problem"].get<std::string>(),
              HasSubstr("found nothing"));
  EXPECT_EQ(Get("/", *none).status, 200);
  const std::string empty = *folder_ + "_empty";
  std::filesystem::create_directories(empty);
  const auto nothing = Serve(empty);
  const json state = Get("/api/state", *nothing).parsed();
  EXPECT_EQ(state["problem"], "");
  EXPECT_EQ(state["runs"].size(), 0u);
  std::filesystem::remove_all(empty);
}

TEST_F(ServerTest, ShowsWhatIsWrittenWhileItServes) {
  const std::string folder = *folder_ + "_live";
  {
    const auto writer = EventWriter::Open(folder);
    ASSERT_TRUE(writer.ok());
    const auto server = Serve(folder, {.refresh_ms = 10});
    ASSERT_TRUE((*writer)->AddScalar("loss", 1, 1).ok());
    ASSERT_TRUE((*writer)->Flush().ok());
    // (However long it takes; a server that never looks again hangs here, until
    // the test's timeout.)
    while (Get("/api/scalars?tag=loss&run=.", *server).status != 200)
      std::this_thread::yield();
  }
  std::filesystem::remove_all(folder);
}

TEST_F(ServerTest, SaysWhatToInstallForThePlotLibrary) {
  const auto server = Serve(*folder_, {.plot_library = "/nowhere"});
  const Reply r = Get("/library/dygraph.min.js", *server);
  EXPECT_EQ(r.status, 404);
  EXPECT_THAT(r.error(), HasSubstr("libjs-dygraphs"));
}

TEST_F(ServerTest, NamesAPortOrHostThatItCannotHave) {
  const auto taken = Server::Start(*folder_, {.port = server_->port()});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr(std::to_string(server_->port())));
  for (const int port : {0, server_->port()}) {
    const auto elsewhere =
        Server::Start(*folder_, {.host = "192.0.2.1", .port = port});
    ASSERT_FALSE(elsewhere.ok());
    EXPECT_THAT(std::string(elsewhere.status().message()),
                HasSubstr("host: expected an address of this machine, got "
                          "'192.0.2.1'"));
  }
}

}  // namespace
}  // namespace sluice::board
