// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distinguishes files by their contents.
#include "Fixture.h"

#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/FileMixUp.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

FileKind kindOfText(const std::string &text) { return recognize(asBytes(text)); }

TEST(FileKind, RecognizesFilesOfSluice) {
  TemporaryFolder folder;
  bigramArtifact(folder);
  EXPECT_EQ(recognizeFile(folder / "bigram.slc"), FileKind::Artifact);
  {
    NpyWriter array(folder / "a.npy", {1});
    array.append(std::vector<float>{1});
    array.finish();
  }
  EXPECT_EQ(recognizeFile(folder / "a.npy"), FileKind::Npy);
  std::vector<float> numbers(3);
  std::vector<NamedTensor> tensors = {{"x", {3}, numbers}};
  EXPECT_EQ(recognize(encodeSafetensors(tensors)), FileKind::Weights);
  EXPECT_EQ(recognize(encodeSafetensors(tensors, {{"sluice.session", "{}"}})), FileKind::Session);
  for (char second : {2, 3, 4, 5}) { // sizes of headers that begin as a pickle does
    std::string file = {'\x80', second, 0, 0, 0, 0, 0, 0};
    file += "{\"a\":" + std::string(second * 256 + 128 - 5, ' ');
    EXPECT_EQ(kindOfText(file), FileKind::Weights);
  }
  EXPECT_EQ(kindOfText("<svg xmlns=\"http://www.w3.org/2000/svg\">"), FileKind::Svg);
  EXPECT_EQ(kindOfText("<?xml version=\"1.0\"?>\n<svg>"), FileKind::Svg);
  EXPECT_EQ(kindOfText("\n<!DOCTYPE HTML>"), FileKind::Html);
  EXPECT_EQ(kindOfText("sluice-certificate 3\n"), FileKind::Certificate);
  EXPECT_EQ(kindOfText("; Obligations\n(set-logic ALL)\n"), FileKind::Smt);
  EXPECT_EQ(kindOfText("{\"text\":0,\"position\":1,\"token\":2,\"segments\":{}}\n"),
            FileKind::Trace);
  EXPECT_EQ(kindOfText("{\"step\":1,\"loss\":2.5}\n"), FileKind::Metrics);
  EXPECT_EQ(kindOfText("{\n  \"format\": \"sluice-tuning\""), FileKind::Tuning);
  EXPECT_EQ(kindOfText("{\n  \"sluice\" : 1, \"name\": \"x\""), FileKind::Spec);
  EXPECT_EQ(kindOfText("{\"name\": \"sluice\"}"), FileKind::Json);
  EXPECT_EQ(kindOfText("SLUICTOK\x01"), FileKind::Tokenizer);
  EXPECT_EQ(kindOfText("SLUICIDS\x01"), FileKind::TokenCache);
  EXPECT_EQ(kindOfText("to be or not\n"), FileKind::Text);
  EXPECT_EQ(kindOfText(""), FileKind::Empty);
}

TEST(FileKind, RecognizesOtherFiles) {
  using namespace std::string_literals;
  EXPECT_EQ(kindOfText("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n"),
            FileKind::LfsPointer);
  EXPECT_EQ(kindOfText("PK\x03\x04\0\0archive/data.pkl"s), FileKind::PyTorch);
  EXPECT_EQ(kindOfText("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s),
            FileKind::PyTorch);
  EXPECT_EQ(kindOfText("\x80\x04\x95."s), FileKind::Pickle);
  EXPECT_EQ(kindOfText("\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02\x0a\x10"s),
            FileKind::SentencePiece);
  EXPECT_EQ(kindOfText("\n\n\n\n\n\n"), FileKind::Text);
  EXPECT_EQ(kindOfText("#version: 0.2\ne r</w>\n"), FileKind::SubwordCodes);
  EXPECT_EQ(kindOfText("#version 0.2\n"), FileKind::Text);
  EXPECT_EQ(kindOfText(R"({"version": "1.0", "truncation": null, "added_tokens": [)"),
            FileKind::HuggingFaceTokenizer);
  EXPECT_EQ(kindOfText("PK\x03\x04\0\0x.npy"s), FileKind::Npz);
  EXPECT_EQ(kindOfText("GGUF\x03\0\0\0"s), FileKind::Gguf);
  EXPECT_EQ(kindOfText("\x1f\x8b\x08\0"s), FileKind::Gzip);
  EXPECT_EQ(kindOfText("PAR1....PAR1"), FileKind::Parquet);
  EXPECT_EQ(kindOfText("\x01\x02"), FileKind::Binary);
  EXPECT_EQ(kindOfText("\x80"), FileKind::Text); // Latin-1: too short for a pickle
}

TEST(FileKind, RecognizesFolders) {
  TemporaryFolder folder;
  EXPECT_EQ(recognizeFile(folder.path), FileKind::Folder);
  EXPECT_EQ(recognizeFile(folder / "none"), FileKind::Missing);
  std::filesystem::create_directories(folder / "checkpoints/10");
  EXPECT_EQ(recognizeFile(folder.path), FileKind::Folder) << "many projects have such a folder";
  writeFile(folder / "latest", "10\n");
  EXPECT_EQ(recognizeFile(folder.path), FileKind::Run);
  writeFile(folder / "checkpoints/10/state.json", "{}");
  writeFile(folder / "checkpoints/10/weights.safetensors", "");
  EXPECT_EQ(recognizeFile(folder / "checkpoints/10"), FileKind::Checkpoint);
}

TEST(FileKind, ReportsSwappedFilesAndLeavesBrokenOnesToTheirParser) {
  TemporaryFolder folder;
  writeFile(folder / "pointer", "version https://git-lfs.github.com/spec/v1\n");
  writeFile(folder / "page", "<!doctype html><html>");
  writeFile(folder / "spec.json", "{\"sluice\": 1}");
  auto message = [&](const char *name, FileKind kind) {
    return userError([&] { requireKind(folder / name, kind, "the weights"); });
  };
  EXPECT_NE(message("pointer", FileKind::Weights)
                .find("pointer: expected the weights, found a Git LFS pointer"),
            std::string::npos);
  EXPECT_NE(message("pointer", FileKind::Artifact).find("git lfs pull"), std::string::npos);
  EXPECT_NE(message("page", FileKind::Weights).find("found an HTML page; "), std::string::npos);
  EXPECT_NE(message("spec.json", FileKind::Artifact).find("compile it first: sluice compile "),
            std::string::npos);
  writeFile(folder / "text", "{ broken");
  writeFile(folder / "cut", "\x01\x02\x03");
  requireKind(folder / "text", FileKind::Spec, "a spec");
  requireKind(folder / "cut", FileKind::Weights, "weights");
  requireKind(folder / "missing", FileKind::Weights, "weights");
}

} // namespace
