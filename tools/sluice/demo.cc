#include "tools/sluice/demo.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/sluice/demo_data.h"
#include "tools/sluice/demo_page.h"
#include "tools/sluice/demo_text.h"
#include "tools/sluice/demo_train.h"

namespace sluice {
namespace {

using demo::ImageData;
using demo::Training;

struct DemoOptions {
  int classifier_epochs = 20;
  int convnet_epochs = 7;
  int epochs = 0;  // For both networks; 0: defaults.
  std::string out = "sluice-demo";
  std::string data = demo::kFashionMnistDir;
  uint64_t seed = 1;
  bool synthetic = false;
  bool pipeline = false;
  std::string text = demo::kText;
  int text_steps = 600;
};

struct Goal {
  const char* title;
  const char* file;
  demo::ModelFn* build;
  int epochs, batch;
  double accuracy;
  bool int8;
};

// The accuracy that the int8 network may lose.
constexpr double kInt8Loss = 0.01;

void PrintInt8(const demo::Int8Figures& f) {
  const auto line = [](const char* name, const demo::InferenceFigures& i) {
    std::printf("    %-6s %.2f%% right, %7.1f kB, %9.0f images/s\n", name,
                100 * i.accuracy, static_cast<double>(i.bytes) / 1000,
                i.images_per_second);
  };
  std::printf("  The same for inference, as float and as int8:\n");
  line("float", f.before);
  line("int8", f.after);
}

Status Write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? OkStatus() : Unavailable("cannot write ", path.string());
}

Result<ImageData> Load(const DemoOptions& options) {
  if (options.synthetic) return demo::MakeImages(options.seed);
  Result<ImageData> data = demo::LoadFashionMnist(options.data);
  if (data.status().code() == StatusCode::kNotFound)
    return NotFound(data.status().message(),
                    "\n  install the Debian package dataset-fashion-mnist, "
                    "name its folder with --data,\n  or use synthetic images: "
                    "sluice demo --synthetic");
  return data;
}

// Indents the model's text.
std::string Indented(const std::string& text) {
  std::string out = "    | ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    | ";
  }
  return out;
}

Status Run(const DemoOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const ImageData data, Load(options));
  const std::filesystem::path out(options.out);
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error)
    return Unavailable("cannot make the folder ", options.out, ": ",
                       error.message());
  std::printf("%s: %lld training images, %lld test images\n", data.name.c_str(),
              static_cast<long long>(data.train.count()),
              static_cast<long long>(data.test.count()));
  const Goal goals[] = {
      {"Classifier of Figure 1 (784-100-10)", "trace-classifier.json",
       demo::BuildClassifier,
       options.epochs > 0 ? options.epochs : options.classifier_epochs, 100,
       0.87, false},
      {"Small convolutional network", "trace-convnet.json", demo::BuildConvNet,
       options.epochs > 0 ? options.epochs : options.convnet_epochs, 50, 0.90,
       true},
  };
  std::vector<Training> trainings;
  for (const Goal& goal : goals) {
    demo::TrainOptions how;
    how.title = goal.title;
    how.epochs = goal.epochs;
    how.batch = goal.batch;
    how.seed = options.seed;
    how.terminal = isatty(STDOUT_FILENO) != 0;
    how.int8 = goal.int8;
    how.pipeline = options.pipeline;
    SLUICE_ASSIGN_OR_RETURN(Training t, demo::Train(goal.build, data, how));
    SLUICE_RETURN_IF_ERROR(Write(out / goal.file, t.trace));
    std::printf(
        "  %.2f%% of the test images classified correctly; %.0f images/s, "
        "%.0f us per step, %.1f s of training\n",
        100 * t.final_accuracy, t.images_per_second, t.step_us, t.seconds);
    if (t.int8) PrintInt8(*t.int8);
    trainings.push_back(std::move(t));
  }
  std::optional<demo::TextTraining> text;
  if (options.text != demo::kText || std::filesystem::exists(options.text)) {
    demo::TextOptions how;
    how.path = options.text;
    how.steps = options.text_steps;
    how.seed = options.seed;
    how.terminal = isatty(STDOUT_FILENO) != 0;
    SLUICE_ASSIGN_OR_RETURN(text, demo::TrainOnText(how));
    std::printf("%s\n", Indented(text->last_words).c_str());
  } else {
    std::printf("No text at %s: no language model (name one with --text)\n",
                demo::kText);
  }
  SLUICE_RETURN_IF_ERROR(
      Write(out / "index.html",
            demo::MakePage(data, trainings, text ? &*text : nullptr)));
  std::printf("page:   %s\n", (out / "index.html").c_str());
  for (const Goal& goal : goals)
    std::printf("trace:  %s (open in ui.perfetto.dev)\n",
                (out / goal.file).c_str());
  // With fewer epochs or other images there is no goal.
  if (options.epochs > 0 || options.synthetic) return OkStatus();
  for (const Training& t : trainings)
    if (t.int8 && t.int8->after.accuracy < t.int8->before.accuracy - kInt8Loss)
      return Internal(t.title,
                      ": expected int8 to lose less than one point, "
                      "got ",
                      100 * t.int8->after.accuracy, "% of ",
                      100 * t.int8->before.accuracy, "%");
  for (size_t i = 0; i < trainings.size(); ++i)
    if (trainings[i].final_accuracy < goals[i].accuracy)
      return Internal(goals[i].title, ": expected a test accuracy of ",
                      100 * goals[i].accuracy, "%, got ",
                      100 * trainings[i].final_accuracy, "%");
  return OkStatus();
}

}  // namespace

int DemoMain(int argc, char** argv) {
  DemoOptions options;
  CLI::App app(
      "Trains the classifier of Figure 1 of the OSDI'16 paper and a small "
      "convolutional network on Fashion-MNIST, then a language model, which "
      "writes by itself.",
      "sluice demo");
  app.add_option("--epochs", options.epochs,
                 "Epochs of both networks (default 20 and 7)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--out", options.out, "Folder for the page and the traces")
      ->capture_default_str();
  app.add_option("--seed", options.seed,
                 "Seed of the initial values and the order of the images")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--data", options.data, "Folder with the four idx files")
      ->capture_default_str();
  app.add_flag("--synthetic", options.synthetic,
               "Use synthetic images instead of Fashion-MNIST");
  app.add_flag("--pipeline", options.pipeline,
               "Take the batches from a pipeline in the graph");
  app.add_option("--text", options.text, "Text file for the language model")
      ->capture_default_str();
  app.add_option("--text-steps", options.text_steps,
                 "Training steps of the language model")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // --help is an "error" of code 0.
    if (e.get_exit_code() == 0) return app.exit(e);
    std::fprintf(stderr, "sluice demo: %s; see sluice demo --help\n", e.what());
    return 2;
  }
  const Status s = Run(options);
  if (s.ok()) return 0;
  std::fprintf(stderr, "sluice demo: %s\n", std::string(s.message()).c_str());
  return 1;
}

}  // namespace sluice
