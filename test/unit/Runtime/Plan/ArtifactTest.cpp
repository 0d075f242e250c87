// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Support/Error.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

std::span<const uint8_t> countBytes(const std::string &text) { return asBytes(text); }

TEST(Artifact, TrailerMatchesTheFormat) {
  std::string elf = bigramLibrary(), sealed = withTrailer(elf);
  auto trailer = makeTrailer(countBytes(elf));
  EXPECT_EQ(sealed.substr(elf.size()), std::string(trailer.begin(), trailer.end()));
}

TEST(Artifact, LoadsPlanConstantsAndCode) {
  TemporaryFolder folder;
  auto artifact = bigramArtifact(folder);
  EXPECT_EQ(artifact->plan().model.name, "bigram");
  EXPECT_EQ(artifact->plan().kernels.size(), artifact->kernels().size());
  EXPECT_EQ(artifact->constants().size(), 64u);
  // The code of a model without bf16 runs where instructions on bf16 or whole numbers are wanted.
  std::string best = machineTargets().front();
  bool hasMore = best == "cpu-amx" || best.starts_with("cpu-avx512-");
  std::string expected = hasMore ? "cpu-avx512" : best;
  EXPECT_EQ(artifact->target(), expected);
  EXPECT_EQ(Artifact::load(folder / "bigram.slc", best)->target(), expected);
}

TEST(Artifact, TargetCanBeForced) {
  TemporaryFolder folder;
  bigramArtifact(folder);
  EXPECT_EQ(Artifact::load(folder / "bigram.slc", "cpu-avx2")->target(), "cpu-avx2");
  ::setenv("SLUICE_CPU_TARGET", "cpu-avx2", 1);
  EXPECT_EQ(Artifact::load(folder / "bigram.slc")->target(), "cpu-avx2");
  ::setenv("SLUICE_CPU_TARGET", "cpu-none", 1);
  EXPECT_NE(userError([&] { Artifact::load(folder / "bigram.slc"); }).find("cpu-none"),
            std::string::npos);
  ::unsetenv("SLUICE_CPU_TARGET");
}

// Two artifacts open at the same time, and one after another, are different libraries.
TEST(Artifact, LoadsRepeatedly) {
  TemporaryFolder folder;
  auto first = bigramArtifact(folder);
  auto second = bigramArtifact(folder);
  EXPECT_NE(first->kernels()[0].function, second->kernels()[0].function);
  first.reset();
  EXPECT_EQ(bigramArtifact(folder)->plan().model.name, "bigram");
}

TEST(Artifact, RejectsEveryDamagedByte) {
  std::string whole = withTrailer(bigramLibrary());
  auto refused = [&](size_t at, int flip) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ flip);
    EXPECT_THROW(checkTrailer(countBytes(damaged), "x"), UserError) << "byte " << at;
  };
  for (size_t at = 0; at < whole.size(); at += 97) {
    refused(at, 1 << (at % 8));
  }
  for (size_t at = whole.size() - trailerBytes; at < whole.size(); ++at) {
    refused(at, 0x80);
  }
}

TEST(Artifact, RejectsEveryTruncation) {
  std::string whole = withTrailer(bigramLibrary());
  for (size_t length = 0; length < whole.size();
       length += (length < 200 || length + 200 > whole.size() ? 1 : 89)) {
    EXPECT_THROW(checkTrailer(countBytes(whole).first(length), "x"), UserError)
        << length << " bytes";
  }
  EXPECT_THROW(checkTrailer(countBytes(whole + " "), "x"), UserError);
}

TEST(Artifact, RejectsAnotherFormatVersion) {
  std::string elf = bigramLibrary();
  auto trailer = makeTrailer(countBytes(elf));
  trailer[8] = 1;
  // The trailer's own checksum must match, else it is rejected.
  std::string head(trailer.begin(), trailer.begin() + 56);
  std::string sealed = withTrailer(head); // hashes are of `head`, at 24 of its trailer
  std::string own = sealed.substr(head.size() + 24, 8);
  std::string message = userError([&] { checkTrailer(countBytes(elf + head + own), "x"); });
  EXPECT_NE(message.find("found format 1"), std::string::npos) << message;
}

TEST(Artifact, RejectsOtherFiles) {
  TemporaryFolder folder;
  writeFile(folder / "text", "hello");
  writeFile(folder / "empty", "");
  writeFile(folder / "noelf", withTrailer("this is sealed but is no shared object"));
  EXPECT_NE(userError([&] { Artifact::load(folder / "text"); }).find("expected a Sluice artifact"),
            std::string::npos);
  EXPECT_NE(userError([&] { Artifact::load(folder / "empty"); }).find("expected a Sluice artifact"),
            std::string::npos);
  EXPECT_NE(userError([&] { Artifact::load(folder / "noelf"); }).find("does not load"),
            std::string::npos);
  EXPECT_NE(userError([&] { Artifact::load(folder / "missing"); }).find("no such file"),
            std::string::npos);
  EXPECT_NE(userError([&] { Artifact::load(folder.path); }).find("directory"), std::string::npos);
}

} // namespace
