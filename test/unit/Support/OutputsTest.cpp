// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of outputs: an output replaces no input, no part of a run and no other kind of file.
#include "Fixture.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Outputs.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class Outputs : public testing::Test {
protected:
  Outputs() {
    std::filesystem::create_directories(folder / "run/checkpoints/10");
    std::filesystem::create_directories(folder / "run/data");
    writeFile(folder / "run/data/data-1", "copy of a stream");
    for (const char *name : {"run/latest", "run/checkpoints/10/state.json"}) {
      writeFile(folder / name, "10\n");
    }
    writeFile(folder / "run/checkpoints/10/weights.safetensors", "weights");
    writeFile(folder / "run/metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
    writeFile(folder / "run/spec.json", "{\"sluice\": 1}");
    writeFile(folder / "run/report.html", "<!doctype html>");
    writeFile(folder / "run/losses", "numbers of the user");
    writeFile(folder / "picture.svg", "<svg>");
    writeFile(folder / "data", "text");
    writeFile(folder / "empty", "");
  }

  void accepts(const std::string &name, FileKind kind, bool force = false) {
    EXPECT_NO_THROW(checkOutputs({{"--out", folder / name, kind}}, {folder / "data"}, force))
        << name;
  }
  void refuses(const std::string &name, FileKind kind, const std::string &piece,
               bool force = false) {
    std::string message = userError(
        [&] { checkOutputs({{"--out", folder / name, kind}}, {folder / "data"}, force); });
    EXPECT_NE(message.find(piece), std::string::npos) << name << ": " << message;
  }

  TemporaryFolder folder;
};

TEST_F(Outputs, NeverReplaceAnInput) {
  std::filesystem::create_symlink("data", folder / "link");
  std::filesystem::create_hard_link(folder / "data", folder / "hard");
  for (const char *name : {"data", "link", "hard", "run/../data"}) {
    for (bool force : {false, true}) {
      refuses(name, FileKind::Text, "found one that this command reads; name another file", force);
    }
  }
}

TEST_F(Outputs, NeverReplaceAnInputOfARun) {
  std::filesystem::create_hard_link(folder / "run/checkpoints/10/weights.safetensors",
                                    folder / "weights");
  std::filesystem::create_hard_link(folder / "run/metrics.jsonl", folder / "metrics");
  std::filesystem::create_hard_link(folder / "run/data/data-1", folder / "copy");
  auto refusal = [&](const char *output, const char *input) {
    return userError(
        [&] { checkOutputs({{"--out", folder / output, FileKind::Npy}}, {folder / input}, true); });
  };
  for (auto [output, input] :
       {std::pair("weights", "run"), std::pair("metrics", "run"), std::pair("copy", "run"),
        std::pair("weights", "run/checkpoints/10")}) {
    EXPECT_NE(refusal(output, input).find("found one that this command reads"), std::string::npos)
        << output << " of " << input;
  }
  accepts("weights", FileKind::Npy, true);
}

TEST_F(Outputs, NeverReplaceAPartOfARun) {
  std::filesystem::create_symlink("run/latest", folder / "link");
  for (const char *name : {"run/metrics.jsonl", "run/latest", "run/spec.json", "run/run.json",
                           "link", "run/checkpoints/10/weights.safetensors", "run/checkpoints/new",
                           "run/data/data-1", "run/data/held-out-2"}) {
    for (FileKind kind : {FileKind::Npy, FileKind::Metrics, FileKind::Weights, FileKind::Spec}) {
      refuses(name, kind, "expected --out to name a file of its own, found a part of the", true);
    }
  }
  refuses("run/losses", FileKind::Npy, "found a part of the run", true);
  accepts("run/report.html", FileKind::Html);
  accepts("run/new.npy", FileKind::Npy);
  accepts("run/data/data-new", FileKind::Npy);
  // A copy of a checkpoint alone.
  std::filesystem::rename(folder / "run/checkpoints/10", folder / "copy");
  refuses("copy/weights.safetensors", FileKind::Weights, "a part of the checkpoint", true);
  accepts("copy/losses.npy", FileKind::Npy);
}

TEST_F(Outputs, ReplaceOnlyTheirOwnKind) {
  accepts("picture.svg", FileKind::Svg);
  accepts("empty", FileKind::Npy);
  accepts("new", FileKind::Artifact);
  bigramArtifact(folder);
  refuses(
      "bigram.slc", FileKind::Smt,
      "expected --out to name a new file or an SMT-LIB script to replace, found a Sluice artifact; "
      "name another file, or give --force");
  accepts("bigram.slc", FileKind::Smt, /*force=*/true);
  accepts("bigram.slc", FileKind::Artifact);
  refuses("picture.svg", FileKind::Html, "found a picture (SVG)");
}

TEST_F(Outputs, RejectNameOfAnotherFormat) {
  refuses("x.png", FileKind::Svg,
          "found a name that ends in .png; name " + (folder / "x.svg").string());
  refuses("x.JSON", FileKind::Artifact, "x.sla, or give --force");
  refuses("x.svg", FileKind::Html, "x.html");
  accepts("x.png", FileKind::Svg, /*force=*/true);
  accepts("x.svg", FileKind::Svg);
  accepts("x.dat", FileKind::Npy);
  accepts("x", FileKind::Html);
}

TEST_F(Outputs, RejectOnePathForTwoOutputs) {
  std::filesystem::create_symlink("new", folder / "link");
  for (const char *other : {"new", "run/../new", "link"}) {
    std::string message = userError([&] {
      checkOutputs(
          {{"--a", folder / "new", FileKind::Text}, {"--b", folder / other, FileKind::Text}}, {},
          true);
    });
    EXPECT_NE(message.find("expected different files for --a and --b, found both at"),
              std::string::npos)
        << message;
  }
}

TEST_F(Outputs, RequireNewOrOwnFolder) {
  auto check = [&](const char *name, bool force) {
    auto isEarlier = [&] { return isThere(folder / name / "plan.json"); };
    checkOutputFolder("--extract", folder / name, {"spec.json", "plan.json"}, isEarlier, {}, force);
  };
  check("new", false);
  std::filesystem::create_directory(folder / "mine");
  writeFile(folder / "mine/other", "x");
  check("mine", false);
  writeFile(folder / "mine/spec.json", "{}");
  EXPECT_NE(userError([&] { check("mine", false); }).find("found spec.json in it"),
            std::string::npos);
  check("mine", true);
  writeFile(folder / "mine/plan.json", "{}");
  check("mine", false);
  for (const char *name : {"run", "run/checkpoints/10", "run/checkpoints/new"}) {
    std::string message = userError([&] { check(name, true); });
    EXPECT_NE(message.find("; name another "), std::string::npos) << name << message;
  }
}

TEST_F(Outputs, RejectARunAsTheFolderOfNewNames) {
  auto check = [&](const char *name) {
    return userError([&] {
      Path path = *name == '\0' ? Path() : folder / name;
      checkOutputFolder("--out", path, {"model.py"}, nullptr, {}, /*force=*/true);
    });
  };
  EXPECT_NE(check("run").find("expected --out to name a directory of its own, found a run"),
            std::string::npos);
  EXPECT_NE(check("run/checkpoints/10").find("found a checkpoint"), std::string::npos);
  EXPECT_NE(check("data").find("expected --out to name a directory, found"), std::string::npos);
  EXPECT_NE(check("").find("found an empty name"), std::string::npos);
}

} // namespace
