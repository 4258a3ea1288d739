// The page in a real browser: Debian's chromium-headless-shell or chromium.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <thread>

#include "base/sanitizers.h"
#include "io/file.h"
#include "io/image.h"
#include "summary/event_writer.h"
#include "tools/board/event_log.h"
#include "tools/board/server.h"
#include "tools/board/testing/sample_log.h"

namespace sluice::board {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// "" if there is none.
std::string FindBrowser() {
  for (const char* name : {"chromium-headless-shell", "chromium"}) {
    const std::string path = std::string("/usr/bin/") + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

class PageTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new std::string((std::filesystem::temp_directory_path() /
                               ("sluice_page_" + std::to_string(getpid())))
                                  .string());
    const Status written = WriteSampleLog(*folder_ + "/log");
    ASSERT_TRUE(written.ok()) << written;
    auto server = Server::Start(*folder_ + "/log");
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
    server_->log().Refresh();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
    std::filesystem::remove_all(*folder_);
    delete folder_;
  }
  void SetUp() override {
    // (What it asks of the server is also in server_test.cc.)
    if (kSanitized) GTEST_SKIP() << "the browser does the work";
    browser_ = FindBrowser();
    if (browser_.empty())
      GTEST_SKIP() << "no browser: apt-get install chromium-headless-shell";
    if (access("/usr/share/javascript/dygraphs/dygraph.min.js", R_OK) != 0)
      GTEST_SKIP() << "no plot library: apt-get install libjs-dygraphs";
  }

  // What the browser prints, once the page has been at it for some seconds of
  // the browser's own time.
  std::string Browse(const std::string& how, const std::string& hash,
                     const Server& server = *server_, int ms = 5000) {
    const std::string command =
        browser_ + " --headless --no-sandbox --disable-gpu --hide-scrollbars" +
        " --user-data-dir=" + *folder_ + "/profile --window-size=1400,900" +
        " --virtual-time-budget=" + std::to_string(ms) + " " + how + " '" +
        server.url() + "#" + hash + "' 2>/dev/null";
    FILE* out = popen(command.c_str(), "r");
    if (out == nullptr) return "";
    std::string text;
    char buffer[65536];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), out)) > 0;)
      text.append(buffer, n);
    EXPECT_EQ(pclose(out), 0) << command;
    return text;
  }
  // The page's elements at the end; no error happened.
  std::string Dom(const std::string& hash, const Server& server = *server_,
                  int ms = 5000) {
    std::string dom = Browse("--dump-dom", hash, server, ms);
    EXPECT_THAT(dom, HasSubstr("data-errors=\"0\"")) << hash;
    return dom;
  }
  // The largest value of an attribute; -1 without one.
  static int Most(const std::string& dom, const std::string& attribute) {
    int most = -1;
    const std::regex value(attribute + "=\"([0-9]+)\"");
    for (std::sregex_iterator it(dom.begin(), dom.end(), value), end; it != end;
         ++it)
      most = std::max(most, std::stoi((*it)[1]));
    return most;
  }
  // Pixels of a picture of the page that are of a colour, 0xrrggbb.
  std::map<uint32_t, int64_t> Colours(const std::string& hash) {
    const std::string path = *folder_ + "/page.png";
    Browse("--screenshot=" + path, hash);
    std::map<uint32_t, int64_t> colours;
    const Result<std::string> file = ReadFile(path);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return colours;
    const Result<Tensor> image = DecodeImage(*file, {.channels = 3});
    EXPECT_TRUE(image.ok()) << image.status();
    if (!image.ok()) return colours;
    EXPECT_EQ(image->num_elements(), 1400 * 900 * 3);
    const auto p = image->flat<uint8_t>();
    for (int64_t i = 0; i < image->num_elements(); i += 3)
      ++colours[uint32_t{p[i]} << 16 | uint32_t{p[i + 1]} << 8 | p[i + 2]];
    return colours;
  }

  static std::string* folder_;
  static Server* server_;
  std::string browser_;
};
std::string* PageTest::folder_ = nullptr;
Server* PageTest::server_ = nullptr;

TEST_F(PageTest, DrawsTheCurvesOfAllRuns) {
  const std::string dom = Dom("tab=scalars");
  EXPECT_THAT(dom, HasSubstr("data-tag=\"loss/train\""));
  EXPECT_THAT(dom, HasSubstr("class=\"dygraph-axis-label"));
  EXPECT_EQ(Most(dom, "data-curves"), 2);
  for (const char* text : {"baseline", "Live", "accuracy", "learning_rate"})
    EXPECT_THAT(dom, HasSubstr(text));
}

TEST_F(PageTest, IsLightOrDark) {
  // The colours of the cards and of the first run's curves in each theme, which
  // board.css and common.js choose.
  auto light = Colours("tab=scalars&theme=light&smoothing=0");
  EXPECT_GT(light[0xffffff], 200'000);
  EXPECT_GT(light[0x0072b2], 500);
  EXPECT_EQ(light[0x182028], 0);
  auto dark = Colours("tab=scalars&theme=dark&smoothing=0");
  EXPECT_GT(dark[0x182028], 200'000);
  EXPECT_GT(dark[0x56b4e9], 500);
  EXPECT_LT(dark[0xffffff], 1000);
}

TEST_F(PageTest, HasAllAxes) {
  EXPECT_THAT(Dom("tab=scalars&axis=relative&log_scale=true&smoothing=0.99"),
              HasSubstr("time since the run began (hours)"));
  const std::string wall = Dom("tab=scalars&axis=wall&log_scale=true");
  EXPECT_EQ(Most(wall, "data-curves"), 2);
  // Labels of times: "14:05", or "45.250" for parts of a second.
  EXPECT_TRUE(std::regex_search(
      wall, std::regex("dygraph-axis-label-x[^>]*>[0-9]{1,2}[:.][0-9]{2}")));
}

TEST_F(PageTest, FiltersTagsByARegularExpression) {
  const std::string dom = Dom("tab=scalars&scalar_filter=^loss/t");
  EXPECT_THAT(dom, HasSubstr("data-tag=\"loss/train\""));
  EXPECT_THAT(dom, Not(HasSubstr("data-tag=\"loss/validation\"")));
}

TEST_F(PageTest, ShowsImagesSoundsAndTexts) {
  const std::string images = Dom("tab=images");
  EXPECT_THAT(images, HasSubstr("alt=\"samples/generated/image at step 300\""));
  EXPECT_THAT(images, HasSubstr("class=\"small\""));  // It was loaded.
  EXPECT_THAT(Dom("tab=audio"), HasSubstr("<audio"));
  const std::string text = Dom("tab=text");
  EXPECT_THAT(text, HasSubstr("<strong>hello</strong>"));
  EXPECT_THAT(text, HasSubstr("&lt;script&gt;"));  // It stayed text.
}

TEST_F(PageTest, DrawsHistogramsBothWays) {
  for (const char* mode : {"ridges", "heat"}) {
    const std::string hash =
        std::string("tab=histograms&theme=light&") + "histogram_mode=" + mode;
    EXPECT_THAT(Dom(hash), HasSubstr("Histograms of dense/kernel of run wide"));
    // Much of it is neither ground nor text.
    int64_t colourful = 0;
    for (const auto& [c, n] : Colours(hash))
      if (std::abs(static_cast<int>(c >> 16) - static_cast<int>(c & 255)) > 40)
        colourful += n;
    EXPECT_GT(colourful, 30'000) << mode;
  }
}

TEST_F(PageTest, DrawsAnEmbedding) {
  EXPECT_EQ(Most(Dom("tab=projector"), "data-points"), 12);
}

TEST_F(PageTest, DrawsTheGraphClosedAndOpen) {
  const std::string closed = Dom("tab=graph&theme=dark");
  EXPECT_THAT(closed, HasSubstr("aria-expanded=\"false\""));
  const std::string open = Dom("tab=graph&graph_open=all");
  for (const char* kind :
       {"loop", "branch", "function", "gradients", "scope", "input"})
    EXPECT_THAT(open, HasSubstr(std::string("data-kind=\"") + kind + "\""));
  EXPECT_GT(Most(open, "data-items"), Most(closed, "data-items"));
  EXPECT_GT(Most(closed, "data-edges"), 5);
}

TEST_F(PageTest, DrawsTheTimelineOfAStep) {
  const std::string dom = Dom("tab=timeline&theme=dark");
  EXPECT_GT(Most(dom, "data-bars"), 20);
  EXPECT_GE(Most(dom, "data-rows"), 1);
  EXPECT_THAT(dom, HasSubstr("Time by op"));
  EXPECT_THAT(dom, HasSubstr("MatMul"));
}

TEST_F(PageTest, GoesOnWhileTheLogGrows) {
  const std::string folder = *folder_ + "/live";
  const auto writer = EventWriter::Open(folder + "/run", {.flush_ms = 5});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->AddScalar("loss", 1, 0).ok());
  const auto server = Server::Start(folder, {.refresh_ms = 1});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::jthread growing([&](const std::stop_token& done) {
    for (int64_t step = 1; !done.stop_requested(); ++step) {
      (void)(*writer)->AddScalar("loss", 1, step);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  // Twenty seconds of the browser's time, in which the page asks ten times.
  const std::string dom = Dom("tab=scalars", **server, 20'000);
  EXPECT_GT(Most(dom, "data-updates"), 2);
  EXPECT_EQ(Most(dom, "data-curves"), 1);
}

TEST_F(PageTest, SaysWhatIsMissing) {
  const auto none = Server::Start(*folder_ + "/none");
  ASSERT_TRUE(none.ok()) << none.status();
  (*none)->log().Refresh();
  EXPECT_THAT(Dom("", **none), HasSubstr("found nothing"));
  // A corrupt file is named, beside the runs that can be read.
  const std::string folder = *folder_ + "/corrupt";
  ASSERT_TRUE(WriteSampleLog(folder).ok());
  std::filesystem::create_directories(folder + "/bad");
  ASSERT_TRUE(
      WriteFile(folder + "/bad/events.out.tfevents.1.x", std::string(100, 'x'))
          .ok());
  const auto server = Server::Start(folder);
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->log().Refresh();
  const std::string dom = Dom("tab=scalars", **server);
  EXPECT_THAT(dom, HasSubstr("bad/events.out.tfevents.1.x"));
  EXPECT_EQ(Most(dom, "data-curves"), 2);
}

}  // namespace
}  // namespace sluice::board
