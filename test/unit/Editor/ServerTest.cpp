// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The server with a check that the test controls.

#include "sluice/Editor/Server.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Editor/VerdictJson.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

const std::string uri = "file:///a%20b.json";

std::string buildSpec(const std::string &name) {
  return R"({"sluice": 1, "vocabulary": 9, "context": 8, "batch": 2, "width": 4, "name": ")" +
         name + R"(", "stages": [{"op": "embedding"}, {"op": "head"}]})";
}

spec::SourceLocation getStagePlace(const ParsedSpec &spec, size_t index) {
  auto stages = spec.getModel().getBody().getOps<spec::StageInterface>();
  mlir::Operation *stage = *std::next(stages.begin(), static_cast<std::ptrdiff_t>(index));
  auto place = mlir::cast<mlir::FileLineColLoc>(spec::getKeyLoc(stage, ""));
  return {place.getFilename().str(), place.getLine(), place.getColumn()};
}

class Server : public testing::Test {
protected:
  /// Leaks for names that contain "leak"; blocks for documents called "slow".
  CausalVerdict check(const ParsedSpec &spec, const std::atomic<bool> &cancelled) {
    ++checks;
    std::string name = spec.getModel().getName()->str();
    if (name == "slow") {
      started.set_value();
      gate.get_future().wait();
    }
    if (name == "long") {
      throw NotChecked{"too long"};
    }
    if (name == "endless") {
      while (!cancelled) {
        std::this_thread::yield();
      }
      throw NotChecked{"cancelled"};
    }
    if (name == "throw") {
      throw std::runtime_error("out of luck");
    }
    CausalVerdict verdict;
    verdict.kind = VerdictKind::Proved;
    verdict.modes = {"eval"};
    if (name != "fine") {
      verdict.kind = VerdictKind::Leak;
      verdict.place = getStagePlace(spec, 1);
      verdict.message = name;
      verdict.refusedMode = "eval";
    }
    verdict.warnings = {{WarningKind::Waste, getStagePlace(spec, 0), "careful"}};
    verdict.notes = {{WarningKind::BoundedContext, getStagePlace(spec, 1), "by the way"}};
    return verdict;
  }

  void start(std::optional<int> rest = 0) {
    server.emplace([this](const json &message) { take(message); },
                   [this](const ParsedSpec &spec, const std::atomic<bool> &cancelled) {
                     return check(spec, cancelled);
                   },
                   rest ? std::optional(Examiner::Duration(*rest)) : std::nullopt, "1");
    send({{"id", 0}, {"method", "initialize"}, {"params", {{"capabilities", json::object()}}}});
  }

  void send(json message) {
    message["jsonrpc"] = "2.0";
    server->receive({message.dump(), {}});
  }
  void open(const std::string &text, int version = 1) {
    send({{"method", "textDocument/didOpen"},
          {"params", {{"textDocument", {{"uri", uri}, {"version", version}, {"text", text}}}}}});
  }
  void change(const std::string &text, int version) {
    send({{"method", "textDocument/didChange"},
          {"params",
           {{"textDocument", {{"uri", uri}, {"version", version}}},
            {"contentChanges", {{{"text", "ignored"}}, {{"text", text}}}}}}});
  }
  void notify(const char *method) {
    send({{"method", method}, {"params", {{"textDocument", {{"uri", uri}}}}}});
  }

  void take(const json &message) {
    std::lock_guard lock(mutex);
    if (message.contains("method")) {
      published.push_back(message["params"]);
      arrived.notify_all();
    }
  }
  /// The `count`th published diagnostics.
  json wait(size_t count) {
    std::unique_lock lock(mutex);
    bool there =
        arrived.wait_for(lock, std::chrono::seconds(30), [&] { return published.size() >= count; });
    EXPECT_TRUE(there);
    return there ? published[count - 1] : json();
  }

  std::atomic<int> checks = 0;
  std::promise<void> gate, started;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<json> published;
  std::optional<SpecServer> server; // last: its thread uses the rest
};

TEST_F(Server, ChecksDuringContinuousTyping) {
  start(std::nullopt);
  open(buildSpec("leak"), 3);
  ASSERT_EQ(published.size(), 1u); // no wait
  EXPECT_EQ(published[0]["version"], 3);
  change(buildSpec("leak"), 4);
  ASSERT_EQ(published.size(), 2u);
  EXPECT_EQ(published[1]["version"], 4);
  EXPECT_EQ(checks, 2);
}

TEST_F(Server, PublishesErrorsVerdictsAndWarnings) {
  start();
  open("{", 4);
  json params = wait(1);
  EXPECT_EQ(params["uri"], uri);
  EXPECT_EQ(params["version"], 4);
  EXPECT_EQ(params["diagnostics"][0]["severity"], 1);
  change(buildSpec("leak"), 5);
  json found = wait(2)["diagnostics"];
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]["message"], "leak (mode eval)");
  EXPECT_EQ(found[0]["code"], "leak");
  size_t head = buildSpec("leak").find(R"({"op": "head"})");
  EXPECT_EQ(found[0]["range"]["start"]["character"], head);
  EXPECT_EQ(found[0]["range"]["end"]["character"], head + 14);
  EXPECT_EQ(found[1]["severity"], 2);
  EXPECT_EQ(found[1]["message"], "careful");
  EXPECT_EQ(found[1]["code"], "waste");
  EXPECT_EQ(found[1]["range"]["end"]["character"], head - 2);
  EXPECT_EQ(found[2]["severity"], 3);
  change(buildSpec("fine"), 6);
  EXPECT_EQ(wait(3)["diagnostics"].size(), 2u); // warning and note
}

TEST_F(Server, ChecksOnlyTheNewestText) {
  start(100);
  open(buildSpec("fine"));
  wait(1);
  for (int version = 2; version <= 20; ++version) {
    change(buildSpec("text" + std::to_string(version)), version);
  }
  EXPECT_EQ(wait(2)["version"], 20);
  // A machine may pause 100 ms between two changes, but not between all of them.
  EXPECT_LT(checks, 20);
}

TEST_F(Server, NeverPublishesAnOutdatedVerdict) {
  start();
  open(buildSpec("slow"));
  started.get_future().wait();
  change(buildSpec("fine"), 2); // while the check of the first text runs
  gate.set_value();
  EXPECT_EQ(wait(1)["version"], 2);
}

TEST_F(Server, AnswersWhileACheckRuns) {
  start();
  open(buildSpec("slow"));
  started.get_future().wait();
  notify("textDocument/didClose");
  EXPECT_EQ(wait(1)["diagnostics"], json::array());
  gate.set_value();
  server.reset();                  // waits for the check
  EXPECT_EQ(published.size(), 1u); // nothing about a document that is closed
}

TEST_F(Server, SavingDoesNotWait) {
  start(60000);
  open(buildSpec("fine"));
  wait(1);
  change(buildSpec("leak"), 2);
  notify("textDocument/didSave");
  EXPECT_EQ(wait(2)["version"], 2);
}

TEST_F(Server, ReportsFailingCheckAsADiagnostic) {
  start();
  open(buildSpec("throw"));
  std::string message = wait(1)["diagnostics"][0]["message"];
  EXPECT_NE(message.find("out of luck"), std::string::npos) << message;
}

TEST_F(Server, NewerTextCancelsTheOlderCheck) {
  start();
  open(buildSpec("endless"));
  while (checks == 0) {
    std::this_thread::yield();
  }
  change(buildSpec("leak"), 2);
  EXPECT_EQ(wait(1)["version"], 2);
  change(buildSpec("endless"), 3);
  server.reset(); // and so does the end
  EXPECT_EQ(published.size(), 1u);
}

TEST_F(Server, ReportsUncheckedText) {
  start();
  open(buildSpec("long"));
  json found = wait(1)["diagnostics"];
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["message"], "too long");
  EXPECT_EQ(found[0]["severity"], 3);
}

TEST_F(Server, RejectsPartialText) {
  start();
  open(buildSpec("fine"));
  wait(1);
  send({{"method", "textDocument/didChange"},
        {"params",
         {{"textDocument", {{"uri", uri}, {"version", 2}}},
          {"contentChanges", {{{"text", "x"}, {"range", json::object()}}}}}}});
  change(buildSpec("leak"), 3);
  EXPECT_EQ(wait(2)["version"], 3);
}

TEST(VerdictJson, RoundTrips) {
  CausalVerdict verdict;
  verdict.kind = VerdictKind::Misaligned;
  verdict.modes = {"eval", "train"};
  verdict.losses = {{"eval", {"f", 1, 2}, 3}};
  verdict.obligations = 4;
  verdict.refusedMode = "generate";
  verdict.place = {"f", 5, 6};
  verdict.message = "m";
  verdict.witness = {7, 8, 9, {{{"f", 10, 11}, "shorten", 12, 13}}, Replay::Changed, 0.5};
  verdict.warnings = {{WarningKind::DeadStage, {"f", 14, 15}, "w"}};
  verdict.notes = {{WarningKind::NotEnumerated, {"f", 16, 17}, "n"}};
  json there = verdictToJson(verdict);
  CausalVerdict back = verdictFromJson(there);
  EXPECT_EQ(verdictToJson(back), there);
  EXPECT_EQ(back.format(), verdict.format());
  EXPECT_EQ(back.warnings[0].format(), verdict.warnings[0].format());
  EXPECT_EQ(back.losses[0].offset, 3);
  EXPECT_THROW(verdictFromJson(json::array()), json::exception);
}

TEST(FileOf, IsThePath) {
  EXPECT_EQ(getFilePath("file:///a%20b%C3%A9.json"), "/a b\xC3\xA9.json");
  EXPECT_EQ(getFilePath("file:///100%"), "/100%");
  EXPECT_EQ(getFilePath("untitled:1"), "untitled:1");
}

} // namespace
