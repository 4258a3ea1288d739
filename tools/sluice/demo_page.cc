#include "tools/sluice/demo_page.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zlib.h"

namespace sluice::demo {
namespace {

constexpr const char* kColours[] = {"#2a78d6", "#1b9e6b", "#b0562a"};

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice demo</title><style>
:root{--ink:#1a1c20;--soft:#5c6370;--line:#dfe3e8;--card:#fff;--page:#f5f6f8;
--good:#1b9e6b;--bad:#d1453b}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#9aa3af;
--line:#343a43;--card:#1d2127;--page:#14171b}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;margin:0}h2{font-size:18px;margin:40px 0 12px}
p{margin:10px 0 8px;color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));
gap:16px;margin-top:24px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:18px 20px}
.card h3{margin:0 0 4px;font-size:15px;display:flex;align-items:center;gap:8px}
.dot{width:10px;height:10px;border-radius:50%;display:inline-block}
.big{font-size:34px;font-weight:650;letter-spacing:-.02em}
.facts{display:grid;grid-template-columns:1fr 1fr;gap:2px 16px;margin-top:8px;
font-size:13px;color:var(--soft)}
.facts b{color:var(--ink);font-weight:600;font-variant-numeric:tabular-nums}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(84px,1fr));
gap:10px}
.shot{background:var(--card);border:2px solid var(--good);border-radius:8px;
padding:6px;font-size:11px;line-height:1.25;text-align:center}
.shot.wrong{border-color:var(--bad)}
.shot img{width:100%;image-rendering:pixelated;border-radius:4px;display:block;
margin-bottom:4px;background:#000}
.shot{color:var(--soft)}.shot b{color:var(--bad)}
.scroll{overflow-x:auto}
table{width:100%;border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums}
td,th{padding:4px 6px;text-align:right;font-weight:400;white-space:nowrap}
th{color:var(--soft)}
</style></head><body><main>
)";

std::string Number(double v) {
  std::string s = absl::StrFormat("%.0f", v);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, ",");
  return s;
}

std::string Escaped(const std::string& s) {
  std::string out;
  for (char c : s) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string Card(const Training& t, const char* colour) {
  const auto fact = [](const std::string& value, const char* what) {
    return absl::StrCat("<span><b>", value, "</b> ", what, "</span>");
  };
  return absl::StrCat(
      "<div class=card><h3><span class=dot style=\"background:", colour,
      "\"></span>", Escaped(t.title), "</h3><div class=big>",
      absl::StrFormat("%.2f%%", 100 * t.final_accuracy),
      "</div><p>accuracy on the test images</p><div class=facts>",
      fact(Number(t.images_per_second), "images/s"),
      fact(absl::StrFormat("%.1f s", t.seconds), "of training"),
      fact(Number(t.step_us) + " &micro;s", "per step"),
      fact(Number(t.parameters), "parameters"), "</div></div>\n");
}

// One chart: lines of points, over epochs.
class Chart {
 public:
  Chart(const char* title, double low, double high, double epochs, bool percent)
      : low_(low), high_(high), epochs_(epochs), percent_(percent) {
    body_ = absl::StrFormat(
        "<div class=card><h3>%s</h3><svg viewBox=\"0 0 %d %d\" role=img "
        "aria-label=\"%s\">",
        title, kWidth, kHeight, title);
    const int lines =
        percent ? static_cast<int>((high - low) / kFivePercent) : 4;
    for (int i = 0; i <= lines; ++i) {
      const double v = low + (high - low) * i / lines;
      absl::StrAppendFormat(&body_,
                            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
                            "stroke=\"var(--line)\"/><text x=\"%d\" y=\"%.1f\" "
                            "text-anchor=\"end\">%s</text>",
                            kLeft, kWidth - kRight, Y(v), Y(v), kLeft - 8,
                            Y(v) + 4,
                            percent ? absl::StrFormat("%.0f%%", 100 * v)
                                    : absl::StrFormat("%.2f", v));
    }
    const int every = std::max(1, static_cast<int>(epochs) / 8);
    for (int e = 0; e <= static_cast<int>(epochs); e += every)
      absl::StrAppendFormat(
          &body_, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>",
          X(e), kHeight - 8, e);
  }

  void Line(const std::vector<Point>& points, const char* colour, bool marks) {
    std::string path;
    for (const Point& p : points)
      if (p.value >= low_ && p.value <= high_)
        absl::StrAppendFormat(&path, "%.1f,%.1f ", X(p.epoch), Y(p.value));
    absl::StrAppendFormat(
        &body_,
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" "
        "stroke-linejoin=\"round\" opacity=\"%s\" points=\"%s\"/>",
        colour, marks ? "2.5" : "1.5", marks ? "1" : "0.55", path);
    if (!marks) return;
    for (const Point& p : points)
      absl::StrAppendFormat(
          &body_,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\">"
          "<title>epoch %.0f: %s</title></circle>",
          X(p.epoch), Y(p.value), colour, p.epoch,
          percent_ ? absl::StrFormat("%.2f%%", 100 * p.value)
                   : absl::StrFormat("%.4f", p.value));
  }

  std::string Finish(const char* note) {
    return absl::StrCat(body_, "</svg><p>", note, "</p></div>\n");
  }

 private:
  static constexpr double kFivePercent = 0.0499;  // Rounded down.
  static constexpr int kWidth = 500, kHeight = 270, kLeft = 48, kRight = 12;
  double X(double epoch) const {
    return kLeft + epoch / epochs_ * (kWidth - kLeft - kRight);
  }
  double Y(double v) const {
    const double at = (std::clamp(v, low_, high_) - low_) / (high_ - low_);
    return kHeight - 30 - at * (kHeight - 44);
  }
  const double low_, high_, epochs_;
  const bool percent_;
  std::string body_;
};

std::string Charts(const std::vector<Training>& trainings) {
  double epochs = 1, lowest = 1, most_loss = 0;
  for (const Training& t : trainings) {
    epochs = std::max(epochs, t.test_accuracy.back().epoch);
    for (const Point& p : t.test_accuracy) lowest = std::min(lowest, p.value);
    // The losses of the first batches would flatten the rest of the curve.
    for (const Point& p : t.loss)
      if (p.epoch > 0.1) most_loss = std::max(most_loss, p.value);
  }
  lowest = std::floor(std::max(0.0, lowest - 0.06) * 20) / 20;
  most_loss = std::ceil(std::max(most_loss, 0.1) / 0.4) * 0.4;  // 4 lines.
  Chart accuracy("Accuracy", lowest, 1, epochs, true);
  Chart loss("Loss", 0, most_loss, epochs, false);
  for (size_t i = 0; i < trainings.size(); ++i) {
    const char* colour = kColours[i % std::size(kColours)];
    accuracy.Line(trainings[i].train_accuracy, colour, false);
    accuracy.Line(trainings[i].test_accuracy, colour, true);
    loss.Line(trainings[i].loss, colour, false);
  }
  return absl::StrCat(
      "<h2>Learning curves</h2><div class=cards>",
      accuracy.Finish("By epoch. Dots: test images, after each epoch; thin: "
                      "training batches, averaged."),
      loss.Finish("Cross-entropy of the training batches, averaged."),
      "</div>");
}

std::string Shot(const ImageData& data, const Training& t, int64_t i) {
  const size_t at = static_cast<size_t>(i);
  const int label = data.test.labels[at], guess = t.guesses[at];
  const std::string png = EncodePng(data.test.image(i), kSide, kSide);
  const std::string& truth = data.classes[static_cast<size_t>(label)];
  const std::string text =
      label == guess
          ? Escaped(truth)
          : absl::StrCat("<b>",
                         Escaped(data.classes[static_cast<size_t>(guess)]),
                         "</b><br>is ", Escaped(truth));
  return absl::StrCat(
      "<div class=\"shot", label == guess ? "" : " wrong", "\" title=\"image ",
      i, ", ", absl::StrFormat("%.0f%%", 100 * t.probabilities[at]),
      " sure\"><img alt=\"", Escaped(truth), "\" src=\"data:image/png;base64,",
      absl::Base64Escape(png), "\">", text, "</div>\n");
}

// Right ones in order, then wrong ones, the most confident mistakes first.
std::string Grid(const ImageData& data, const Training& t) {
  constexpr size_t kRight = 33, kWrong = 33;
  std::vector<int64_t> right, wrong;
  for (int64_t i = 0; i < data.test.count(); ++i) {
    const size_t at = static_cast<size_t>(i);
    (t.guesses[at] == data.test.labels[at] ? right : wrong).push_back(i);
  }
  std::sort(wrong.begin(), wrong.end(), [&t](int64_t a, int64_t b) {
    return t.probabilities[static_cast<size_t>(a)] >
           t.probabilities[static_cast<size_t>(b)];
  });
  const size_t mistakes = wrong.size();
  right.resize(std::min(right.size(), kRight));
  wrong.resize(std::min(wrong.size(), kWrong));
  std::string out =
      absl::StrCat("<h2>Test images: ", Escaped(t.title),
                   "</h2><p>The first correct ones:</p><div class=grid>");
  for (int64_t i : right) out += Shot(data, t, i);
  absl::StrAppend(&out, "</div><p>Of its ", Number(double(mistakes)),
                  " mistakes, the most confident ones:</p>"
                  "<div class=grid>");
  for (int64_t i : wrong) out += Shot(data, t, i);
  return out + "</div>";
}

std::string Confusions(const ImageData& data, const Training& t) {
  std::array<std::array<int, kClasses>, kClasses> counts = {};
  for (size_t i = 0; i < t.guesses.size(); ++i)
    ++counts[data.test.labels[i]][t.guesses[i]];
  std::string out =
      "<h2>Confusion matrix</h2><p>Rows: the true class; columns: "
      "the prediction.</p><div class=\"card scroll\"><table><tr><th>"
      "</th>";
  for (const std::string& c : data.classes)
    absl::StrAppend(&out, "<th>", Escaped(c), "</th>");
  out += "</tr>";
  for (size_t row = 0; row < kClasses; ++row) {
    absl::StrAppend(&out, "<tr><th>", Escaped(data.classes[row]), "</th>");
    int total = 0;
    for (int n : counts[row]) total += n;
    for (size_t column = 0; column < kClasses; ++column) {
      const int n = counts[row][column];
      const double share = total == 0 ? 0 : double(n) / total;
      absl::StrAppendFormat(
          &out, "<td style=\"background:rgba(%s,%.2f)\">%s</td>",
          row == column ? "27,158,107" : "209,69,59",
          row == column ? 0.55 * share : std::min(0.75, 3 * share),
          n == 0 ? "" : absl::StrCat(n));
    }
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string Language(const TextTraining& t) {
  double most = 1;
  for (const Point& p : t.bits) most = std::max(most, p.value);
  Chart bits("Bits per character", 0, std::ceil(most / 2) * 2,
             t.bits.empty() ? 1 : t.bits.back().epoch, false);
  bits.Line(t.bits, kColours[0], false);
  const auto words = [](const char* title, const std::string& s) {
    return absl::StrCat("<div class=card><h3>", title,
                        "</h3><pre style=\"white-space:pre-wrap\">", Escaped(s),
                        "</pre></div>");
  };
  return absl::StrCat(
      "<h2>A language model of ", Escaped(t.path), "</h2><p>An LSTM of ",
      Number(t.parameters), " parameters learns ",
      Number(static_cast<double>(t.characters)),
      " characters, each from those before it: a loop along the text, and one "
      "back along it for the gradients. ",
      absl::StrFormat("%.1f s of training, %.1f ms per step, ", t.seconds,
                      t.step_ms),
      Number(t.characters_per_second),
      " characters/s. Then it writes: a loop in the graph draws each character "
      "and feeds it back, ",
      Number(t.written_per_second), " per second.</p><div class=cards>",
      bits.Finish("By step, averaged: how many bits it takes to tell the model "
                  "the next character."),
      words("Its text after a tenth of the training", t.first_words),
      words("Its text after the training", t.last_words), "</div>");
}

void AppendBig32(std::string* out, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8)
    *out += static_cast<char>(v >> shift & 0xff);
}

void AppendChunk(std::string* out, const std::string& type_and_data) {
  AppendBig32(out, static_cast<uint32_t>(type_and_data.size() - 4));
  *out += type_and_data;
  AppendBig32(out, static_cast<uint32_t>(crc32(
                       0, reinterpret_cast<const Bytef*>(type_and_data.data()),
                       static_cast<uInt>(type_and_data.size()))));
}

}  // namespace

std::string EncodePng(const uint8_t* pixels, int width, int height) {
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += '\0';  // No filter.
    rows.append(reinterpret_cast<const char*>(pixels + y * width),
                static_cast<size_t>(width));
  }
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 9);
  packed.resize(size);
  std::string png = "\x89PNG\r\n\x1a\n", header = "IHDR";
  AppendBig32(&header, static_cast<uint32_t>(width));
  AppendBig32(&header, static_cast<uint32_t>(height));
  header += std::string("\x08\x00\x00\x00\x00", 5);  // 8 bits, grey.
  AppendChunk(&png, header);
  AppendChunk(&png, "IDAT" + packed);
  AppendChunk(&png, "IEND");
  return png;
}

std::string MakePage(const ImageData& data,
                     const std::vector<Training>& trainings,
                     const TextTraining* text) {
  std::string out = kHead;
  absl::StrAppend(&out, "<h1>Sluice demo: ", Escaped(data.name), "</h1><p>",
                  Number(static_cast<double>(data.train.count())),
                  " training images, ",
                  Number(static_cast<double>(data.test.count())),
                  " test images, ", kClasses,
                  " classes; trained on this machine's CPU.</p>"
                  "<div class=cards>");
  for (size_t i = 0; i < trainings.size(); ++i)
    out += Card(trainings[i], kColours[i % std::size(kColours)]);
  out += "</div>" + Charts(trainings);
  if (!trainings.empty()) {
    out += Grid(data, trainings.back());
    out += Confusions(data, trainings.back());
  }
  if (text != nullptr) out += Language(*text);
  return out + "</main></body></html>\n";
}

}  // namespace sluice::demo
