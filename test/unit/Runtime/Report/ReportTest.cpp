// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "Report/Chart.h"
#include "sluice/Runtime/Data/SegmentedText.h"
#include "sluice/Runtime/Report/Report.h"
#include "sluice/Runtime/Train/RunRecord.h"
#include "sluice/Support/Json.h"

#include <cmath>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

bool has(const std::string &page, const std::string &piece) {
  return page.find(piece) != std::string::npos;
}

TEST(Report, HoldsCurvesSamplesAndCosts) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl",
            "{\"step\":1,\"bits_per_byte\":7.5,\"learning_rate\":0.1}\n"
            "{\"step\":2,\"bits_per_byte\":6.5,\"eval_bits_per_byte\":6.75}\n{\"step\":3,\"bits");
  writeFile(run / "samples.jsonl", "{\"step\":2,\"prompt\":\"<b>\",\"text\":\" & \\u00e9\"}\n");
  writeFile(run / "costs.json",
            R"({"name":"tiny","parameters":1234,"proof":{"verdict":"proved"}})");
  writeFile(run / "ngram.json", R"({"orders":[{"order":3,"bits_per_byte":2.5}]})");
  writeFile(run / "spec.json", "{\"name\": \"<tiny>\"}\n");
  writeFile(run / "causality.svg", "<svg/>");
  std::string page = makeReport(run.path);
  EXPECT_TRUE(has(page, "<h1>tiny</h1>"));
  EXPECT_TRUE(has(page, "<pre>{&quot;name&quot;: &quot;&lt;tiny&gt;&quot;}\n</pre>")) << page;
  EXPECT_TRUE(has(page, "6.5000 bits per byte"));
  EXPECT_TRUE(has(page, "6.7500 bits per byte"));
  EXPECT_TRUE(has(page, "trigram, Witten-Bell</th><td>2.5000 bits per byte")) << page;
  EXPECT_TRUE(has(page, "trigram, held out: 2.50, beyond the axis</li>")) << page;
  EXPECT_TRUE(has(page, "Damaged lines of metrics.jsonl, which are left out here: 1.")) << page;
  EXPECT_TRUE(has(page, "&lt;b&gt;</b> &amp; \u00e9")) << page;
  EXPECT_TRUE(has(page, "base64,PHN2Zy8+")); // "<svg/>"
  EXPECT_FALSE(has(page, "http"));
  EXPECT_FALSE(has(page, "<script"));
}

TEST(Report, ShowsTheCausalityCheck) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":7.5}\n");
  writeFile(run / "causality.svg", "<svg/>");
  Causality causality{
      "proved & sound", {"a.json:1:2: warning: row <t>"}, "<svg id=\"drawn\"></svg>"};
  std::string page = makeReport(run.path, causality);
  EXPECT_TRUE(has(page, "<p class=\"lines\">proved &amp; sound</p>")) << page;
  EXPECT_TRUE(has(page, "<li>a.json:1:2: warning: row &lt;t&gt;</li>")) << page;
  EXPECT_TRUE(has(page, "<figure class=\"picture\"><svg id=\"drawn\"></svg></figure>")) << page;
  EXPECT_FALSE(has(page, "base64")) << "the picture is drawn anew";
}

TEST(Report, ReportsDataTimeHyperparametersAndASmoothedLoss) {
  TemporaryFolder run;
  std::string lines;
  for (int step = 1; step <= 60; ++step) { // 64 tokens a step at 32 a second: 2 s each
    lines += Json{{"step", step}, {"bits_per_byte", step}, {"tokens_per_s", 32.0}}.dump() + "\n";
  }
  writeFile(run / "metrics.jsonl", lines);
  writeFile(run / "costs.json", R"({"context": 16, "batch": 4, "proof": {"verdict": "proved"}})");
  writeRunRecord(run.path, {.steps = 100,
                            .seed = 7,
                            .specHash = "a",
                            .changes = {{10, {"training.clip=2"}, "b"}},
                            .data = {{"a.txt", 1920, true}, {"b.txt", 3, false}},
                            .heldOut = {},
                            .weights = {}});
  std::string page = makeReport(run.path, std::nullopt, {{"training.learning_rate", "0.001"}});
  EXPECT_TRUE(has(page, "<td>60 of 100</td>")) << page;
  EXPECT_TRUE(has(page, "<td>2 min 0 s</td>")) << page;
  EXPECT_TRUE(has(page, "training loss, smoothed</th><td>35.5000 bits per byte<small>mean of "
                        "the last 50 logged steps</small>"))
      << page;
  EXPECT_TRUE(has(page, "2 files, 1920 bytes: a.txt; skipped, too short: b.txt")) << page;
  EXPECT_TRUE(has(page, "3840<small>2.00 times the training text")) << page;
  EXPECT_TRUE(has(page, "changed after step 10</th><td>training.clip=2")) << page;
  EXPECT_TRUE(has(page, "training.learning_rate</th><td>0.001")) << page;
  EXPECT_FALSE(has(page, "--allow-leak")) << page;
}

TEST(Report, MarksLeaks) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":7.5,\"leak_allowed\":true}\n");
  EXPECT_TRUE(has(makeReport(run.path), "--allow-leak"));
  writeFile(run / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":7.5}\n");
  writeFile(run / "costs.json", R"({"proof": {"verdict": "leak-allowed"}})");
  EXPECT_TRUE(has(makeReport(run.path), "--allow-leak"));
}

TEST(Report, ComparesRuns) {
  TemporaryFolder a, b;
  writeFile(a / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":7.5}\n");
  writeFile(b / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":6.5,\"leak_allowed\":true}\n");
  std::string page = makeComparison({{a.path, {{"width", "16"}, {"context", "8"}}},
                                     {b.path, {{"width", "32"}, {"context", "8"}, {"x", "<"}}}});
  EXPECT_TRUE(has(page, "<th>width</th><td>16</td><td>32</td>")) << page;
  EXPECT_TRUE(has(page, "<th>x</th><td>\u2013</td><td>&lt;</td>")) << page;
  EXPECT_FALSE(has(page, "<th>context</th>")) << "it is the same in both";
  EXPECT_TRUE(
      has(page, "training loss, last step, bits per byte</th><td>7.5000</td><td>6.5000</td>"))
      << page;
  size_t chart = page.find("<svg class=\"chart\"");
  size_t first = page.find("<polyline", chart), second = page.find("<polyline", first + 1);
  EXPECT_LT(second, page.find("</svg>", chart)) << "two curves in the first chart";
  EXPECT_TRUE(has(page, b.path.string() + " was trained from an artifact")) << page;
  EXPECT_FALSE(has(page, a.path.string() + " was trained from an artifact")) << page;
}

TEST(Report, ComparesAtTheLastCommonEvaluation) {
  TemporaryFolder a, b;
  std::string both = "{\"step\":5,\"eval_bits_per_byte\":4.5,\"eval_tokens\":64}\n"
                     "{\"step\":10,\"eval_bits_per_byte\":4,\"eval_tokens\":64}\n";
  writeFile(a / "metrics.jsonl", both);
  writeFile(b / "metrics.jsonl",
            both + "{\"step\":12,\"eval_bits_per_byte\":3.5,\"eval_tokens\":64}\n");
  RunRecord record = {.steps = 12,
                      .seed = 7,
                      .specHash = "a",
                      .changes = {{0, {"training.clip=2"}, "b"}},
                      .data = {},
                      .heldOut = {{"c.txt", 65, true}},
                      .weights = {}};
  writeRunRecord(a.path, record);
  record.heldOut[0].bytes = 500;
  writeRunRecord(b.path, record);
  std::string page = makeComparison({{a.path, {}}, {b.path, {}}});
  EXPECT_TRUE(
      has(page, "held-out text at step 10, bits per byte</th><td>4.0000</td><td>4.0000</td>"))
      << page;
  EXPECT_TRUE(has(page, "held-out text, last evaluation, bits per byte</th><td>4.0000<small>step "
                        "10</small></td><td>3.5000<small>step 12, the first 64 tokens "
                        "alone</small></td>"))
      << "runs of different lengths share a row: " << page;
  EXPECT_TRUE(has(page, "best evaluation, bits per byte</th><td>4.0000<small>step 10, its weights "
                        "were not kept</small></td><td>3.5000<small>step 12, "))
      << page;
  EXPECT_TRUE(has(page, ", best: 4.0000 at step 10</li>") &&
              has(page, ", best: 3.5000 at step 12</li>"))
      << page;
  EXPECT_TRUE(has(makeReport(a.path), "set from the start</th><td>training.clip=2"));
}

TEST(Report, MarksBestStepAndDivergence) {
  TemporaryFolder run;
  std::string lines;
  for (int step : {50, 100, 150, 200}) { // overfits after step 100
    lines +=
        Json{{"step", step}, {"eval_bits_per_byte", 4 + std::abs(step - 100) / 50.0}}.dump() + "\n";
  }
  writeFile(run / "metrics.jsonl", lines);
  std::filesystem::create_directories(run / "checkpoints/100");
  std::string page = makeReport(run.path);
  EXPECT_TRUE(has(page,
                  "best evaluation</th><td>4.0000 bits per byte<small>step 100, its weights are "
                  "checkpoints/100</small>"))
      << page;
  // Half of the width of curves, the foot of the chart.
  EXPECT_TRUE(has(page, "<circle r=\"6\" fill=\"none\" stroke=\"#c2410c\" stroke-width=\"1.6\" "
                        "cx=\"379.0\""))
      << page;
  EXPECT_TRUE(has(page, "</svg>best: 4.0000 at step 100</li>")) << page;
  EXPECT_FALSE(has(page, "<th>diverged</th>"));
  writeFile(run / "metrics.jsonl", lines + "{\"step\":250,\"diverged\":true}\n");
  EXPECT_TRUE(has(makeReport(run.path),
                  "diverged</th><td class=\"text\">found at step 250, and still at the last"));
}

TEST(Report, ReportsBitsPerCharacterOrTheReasonForNone) {
  TemporaryFolder a, b;
  writeFile(a / "metrics.jsonl",
            "{\"step\":1,\"eval_bits_per_byte\":4,\"eval_bits_per_character\":5}\n"
            "{\"step\":2,\"eval_bits_per_byte\":3,\"eval_bits_per_character\":4.5}\n");
  writeFile(a / "eval.json", R"({"bits_per_byte": 2, "bits_per_character": 2.5})");
  writeFile(b / "metrics.jsonl", "{\"step\":1,\"eval_bits_per_byte\":4,\"eval_bits_per_character\":"
                                 "null,\"eval_no_characters\":\"t: byte 3 is not UTF-8\"}\n");
  writeFile(b / "eval.json",
            R"({"bits_per_byte": 2, "bits_per_character": null, "no_characters": "why <"})");
  std::string page = makeReport(a.path);
  EXPECT_TRUE(has(page, "<td>3.0000 bits per byte<small>step 2, 4.5000 bits per character</small>"))
      << page;
  EXPECT_TRUE(has(page, "<td>2.0000 bits per byte<small>2.5000 bits per character, ")) << page;
  EXPECT_TRUE(has(page, "held out, per character</li>")) << page;
  page = makeReport(b.path);
  EXPECT_TRUE(has(
      page,
      "4.0000 bits per byte<small>step 1, no bits per character (t: byte 3 is not UTF-8)</small>"))
      << page;
  EXPECT_TRUE(has(page, "no bits per character (why &lt;)")) << page;
  EXPECT_FALSE(has(page, "held out, per character</li>")) << "there is no such number";
  page = makeComparison({{a.path, {}}, {b.path, {}}});
  EXPECT_TRUE(has(page, "at step 1, bits per byte</th><td>4.0000<small>5.0000 bits per character"
                        "</small>"))
      << page;
  EXPECT_TRUE(has(page, "<figcaption>Held-out text, bits per character</figcaption>")) << page;
}

TEST(Report, ReportsTheMeasuredShortening) {
  TemporaryFolder a, b;
  // A half and a quarter of the tokens end segments, then none: a quarter of all.
  writeFile(a / "metrics.jsonl", "{\"step\":1,\"shortening_factor\":{\"words\":2}}\n"
                                 "{\"step\":2,\"shortening_factor\":{\"words\":4}}\n"
                                 "{\"step\":3,\"shortening_factor\":{\"words\":null},"
                                 "\"eval_shortening_factor\":{\"words\":5}}\n");
  writeFile(b / "metrics.jsonl", "{\"step\":1,\"shortening_factor\":{\"words\":null},"
                                 "\"eval_shortening_factor\":{\"words\":null}}\n");
  std::string page = makeReport(a.path);
  EXPECT_TRUE(has(page, "tokens a segment of words, training</th><td>4.000<small>mean of the "
                        "last 3 logged steps"))
      << page;
  EXPECT_TRUE(has(page, "tokens a segment of words, held-out text</th><td>5.000<small>step 3"))
      << page;
  EXPECT_TRUE(has(page, "<figcaption>Tokens a segment</figcaption>")) << page;
  EXPECT_TRUE(has(page, "words, training</li>") && has(page, "words, held out</li>")) << page;
  EXPECT_FALSE(has(makeReport(b.path), "<figcaption>Tokens a segment")) << "there is no factor";
  page = makeComparison({{a.path, {}}, {b.path, {}}});
  EXPECT_TRUE(has(page, "<figcaption>Tokens a segment, training</figcaption>")) << page;
  EXPECT_TRUE(has(page, "words, training</th><td>4.000<small>mean of the last 3 logged "
                        "steps</small></td><td>no segments<small>mean of the last 1 logged steps"))
      << page;
}

TEST(Report, ShowsBoundariesAndCountsSegments) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl", "{\"step\":1}\n");
  SegmentedText words;
  words.name = "words";
  words.isPredicted = true;
  words.mostShown = 7;
  std::string text = "<é> a|b" + std::string(20, 'x');
  for (size_t i = 0; i < text.size(); ++i) { // boundaries cut é, and end the text
    words.add(std::string_view(text).substr(i, 1),
              i == 1 || i == 4 || i + 1 == text.size() ? 0.95 : 0.25);
  }
  std::string page =
      makeReport(run.path, std::nullopt, {}, {"The <text>.", {words}, {"No & such."}});
  EXPECT_TRUE(has(page, "<p>The &lt;text&gt;.</p>") && has(page, "No &amp; such.")) << page;
  EXPECT_TRUE(
      has(page, "<pre>&lt;\\xc3<b class=\"cut\">|</b>\\xa9&gt; <b class=\"cut\">|</b>a|</pre>"))
      << page;
  EXPECT_TRUE(has(page, "<td>3 in 28 tokens</td>") && has(page, "<td>9.333</td>")) << page;
  EXPECT_TRUE(has(page, "<th>2</th><td>1</td>") && has(page, "<th>3</th><td>1</td>")) << page;
  EXPECT_TRUE(has(page, "<th>17\u201332</th><td>1</td>")) << page;
  EXPECT_TRUE(has(page, "<th>0.2\u20130.3</th><td>25</td>")) << page;
  EXPECT_TRUE(has(page, "<th>0.9\u20131.0</th><td>3</td>")) << page;
  EXPECT_FALSE(has(makeReport(run.path), "Segments"));
}

TEST(SegmentedText, CountsAndMarks) {
  auto cut = [](const std::string &text, bool begins) { // at spaces
    SegmentedText cut;
    cut.begins = begins;
    cut.mostShown = 6;
    for (char byte : text) {
      cut.add({&byte, 1}, byte == ' ' ? 1 : 0);
    }
    cut.finish();
    return cut;
  };
  using LengthCounts = std::map<int64_t, int64_t>;
  SegmentedText ended = cut("to be or", false);
  EXPECT_EQ(ended.marked(), "to |be |");
  EXPECT_EQ(ended.lengths, (LengthCounts{{3, 2}})) << "what no boundary ends is no segment";
  SegmentedText begun = cut("to be or", true);
  EXPECT_EQ(begun.marked(), "to| be| ");
  EXPECT_EQ(begun.lengths, (LengthCounts{{2, 1}, {3, 2}}));
  EXPECT_EQ(cut(" a", true).marked(), " a") << "no segment stands before the first";
}

TEST(Report, TicksAreRoundNumbersInsideTheAxes) {
  int digits = 0;
  using Ticks = std::vector<double>;
  EXPECT_EQ(axisTicks(0, 1000, 1, digits), (Ticks{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(digits, 0);
  EXPECT_EQ(axisTicks(0, 3, 1, digits), (Ticks{0, 1, 2, 3}));
  Ticks around = axisTicks(-0.3, 0.61, 0, digits);
  EXPECT_EQ(digits, 1);
  ASSERT_EQ(around.size(), 5u);
  EXPECT_FALSE(std::signbit(around[1])) << "it would be shown as -0.0";
  for (double high : {1e-4, 0.07, 0.3, 1.0, 7.0, 55.0, 1e5, 3e8}) {
    Ticks ticks = axisTicks(high / 3, high, 0, digits);
    EXPECT_GE(ticks.size(), 3u) << high;
    EXPECT_LE(ticks.size(), 8u) << high;
    EXPECT_GE(ticks.front(), high / 3 * (1 - 1e-9));
    EXPECT_LE(ticks.back(), high * (1 + 1e-9));
  }
}

TEST(Report, ComparesRunsOfDifferentLengthsAtTheShorterEnd) {
  TemporaryFolder folder;
  for (int steps : {60, 100}) {
    std::filesystem::path run = folder / ("run-" + std::to_string(steps));
    std::filesystem::create_directory(run);
    std::string lines;
    for (int step = 1; step <= steps; ++step) {
      lines += Json{{"step", step}, {"bits_per_byte", step}}.dump() + "\n";
    }
    writeFile(run / "metrics.jsonl", lines);
  }
  std::string page = makeComparison({{folder / "run-60", {}}, {folder / "run-100", {}}});
  EXPECT_TRUE(has(page, "<h1>Runs compared: run-60, run-100</h1>")) << "the folder is the same";
  EXPECT_TRUE(has(page, "<th>steps</th><td>60</td><td>100</td>")) << page;
  EXPECT_TRUE(has(page, "training loss, smoothed, at step 60, bits per byte</th><td>35.5000</td>"
                        "<td>35.5000</td>"))
      << page;
}

TEST(Report, ComparisonShowsNgramModelsOnlyOfACommonText) {
  TemporaryFolder a, b;
  for (const TemporaryFolder *run : {&a, &b}) {
    writeFile(*run / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":2}\n");
    writeFile(*run / "ngram.json", R"({"orders":[{"order":5,"bits_per_byte":2.1}]})");
  }
  EXPECT_TRUE(has(makeComparison({{a.path, {}}, {b.path, {}}}), "</svg>5-gram, held out: 2.10"));
  writeFile(b / "ngram.json", R"({"orders":[{"order":5,"bits_per_byte":2.2}]})");
  std::string page = makeComparison({{a.path, {}}, {b.path, {}}});
  EXPECT_FALSE(has(page, "</svg>5-gram")) << "these are of different texts";
  EXPECT_TRUE(has(page, "5-gram, Witten-Bell, bits per byte</th><td>2.1000</td><td>2.2000</td>"))
      << page;
}

TEST(Report, ShowsLossAgainstOtherLabelsInNats) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl", "{\"step\":1,\"loss\":1.5,\"eval_bits_per_byte\":2}\n");
  std::string page = makeReport(run.path);
  EXPECT_TRUE(has(page, "training loss, last step</th><td>1.5000 nats<small>against smoothed"))
      << page;
  EXPECT_FALSE(has(page, "training, each step")) << page;
}

TEST(Report, DrawsTheCurveAsAFile) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":7.5}\n"
                                   "{\"step\":2,\"bits_per_byte\":6.5}\n");
  writeFile(run / "eval.json", R"({"bits_per_byte": 7})");
  std::string picture = makeCurve(run.path);
  EXPECT_TRUE(picture.starts_with("<svg xmlns=")) << picture;
  EXPECT_TRUE(has(picture, ">evaluation: 7.00</text>")) << picture;
  writeFile(run / "metrics.jsonl", "{\"step\":1}\n");
  writeFile(run / "eval.json", "{}");
  EXPECT_TRUE(has(userError([&] { makeCurve(run.path); }),
                  "expected bits per byte, token or chunk to draw"));
}

TEST(Report, TablesAndPicturesScrollSeparately) {
  TemporaryFolder run;
  writeFile(run / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":7.5}\n");
  for (const std::string &page :
       {makeReport(run.path, Causality{"proved", {}, "<svg></svg>"}, {{"width", "16"}}),
        makeComparison({{run.path, {{"width", "16"}}}})}) {
    EXPECT_TRUE(has(page, "name=\"viewport\"")) << "phones would show a page of 980 pixels";
    EXPECT_TRUE(has(page, ".scroll{overflow-x:auto;") && has(page, ".picture{overflow-x:auto}"));
    for (size_t at = page.find("<table"); at != std::string::npos;
         at = page.find("<table", at + 1)) {
      std::string box = "<div class=\"scroll\">";
      EXPECT_EQ(page.substr(at - box.size(), box.size()), box) << page.substr(at, 80);
    }
  }
}

TEST(Report, RejectsOtherFolders) {
  TemporaryFolder folder;
  EXPECT_TRUE(has(userError([&] { makeReport(folder.path); }), "metrics.jsonl"));
  EXPECT_TRUE(has(userError([&] { makeReport(folder / "missing"); }), "directory"));
}

} // namespace
