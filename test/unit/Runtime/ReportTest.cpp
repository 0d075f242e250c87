// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Report.h"

using namespace sluice::runtime;
using namespace sluice::test;

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
  writeFile(run / "causality.svg", "<svg/>");
  std::string page = makeReport(run.path);
  EXPECT_TRUE(has(page, "<h1>tiny</h1>"));
  EXPECT_TRUE(has(page, "6.5000 bits per byte"));
  EXPECT_TRUE(has(page, "6.7500 bits per byte"));
  EXPECT_TRUE(has(page, "3-gram"));
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

TEST(Report, RefusesWhatIsNoRun) {
  TemporaryFolder folder;
  EXPECT_TRUE(has(userError([&] { makeReport(folder.path); }), "metrics.jsonl"));
  EXPECT_TRUE(has(userError([&] { makeReport(folder / "missing"); }), "directory"));
}

} // namespace
