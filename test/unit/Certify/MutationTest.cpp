// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A certificate with anything changed is refused, or proves the same: a bound may be looser than
// it need be, a row be computed later, kept longer or make room for more. Then enumeration of all
// paths, and of all steps, must confirm the change.
#include "Corpus.h"

using namespace sluice::test;

namespace {

const std::vector<std::string> subjects = {
    "models/tiny/hourglass.json",
    "models/tiny/nested.json",
    "test/causality/causal/dropout.json",
    "test/causality/causal/factors-2-3-7-nested.json",
    "test/causality/causal/hourglass-at-once-linear.json",
    "test/causality/causal/shift-larger.json",
    "test/causality/causal/upsample-in-two-steps.json",
    "test/causality/causal/windows.json",
};

CorpusCase subject(const std::string &path) {
  return readCase(std::string(SLUICE_SOURCE_DIR) + "/" + path);
}

} // namespace

TEST(Mutation, RejectsDeletedLine) {
  for (const std::string &path : subjects) {
    CorpusCase original = subject(path);
    ASSERT_EQ(original.check().status, 0) << original.check().message;
    std::vector<std::string> lines = splitLines(original.certificate.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(original.checkText(with(lines, i, "")).status, 1) << path << ": " << lines[i];
    }
  }
}

TEST(Mutation, RejectsRepeatedSwappedOrAddedLine) {
  CorpusCase original = subject("models/tiny/hourglass.json");
  std::vector<std::string> lines = splitLines(original.certificate.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(original.checkText(with(lines, i, lines[i] + lines[i])).status, 1) << lines[i];
    EXPECT_EQ(original.checkText(with(lines, i, lines[i] + "\n")).status, 1) << lines[i];
    std::vector<std::string> swapped = lines;
    std::swap(swapped[i], swapped[i + 1 < lines.size() ? i + 1 : 0]);
    EXPECT_EQ(original.checkText(join(swapped)).status, 1) << lines[i];
  }
}

TEST(Mutation, RejectsTruncatedCertificate) {
  CorpusCase original = subject("models/tiny/vanilla.json");
  const std::string &text = original.certificate.text;
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(original.checkText(text.substr(0, length)).status, 1) << length;
  }
}

TEST(Mutation, RejectsChangedNumberUnlessTheBoundHolds) {
  int refused = 0, looser = 0;
  for (const std::string &path : subjects) {
    CorpusCase original = subject(path);
    std::vector<std::string> lines = splitLines(original.certificate.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      for (const std::string &mutant : numberMutants(lines[i])) {
        std::string text = with(lines, i, mutant);
        if (original.checkText(text).status == 1) {
          ++refused;
          continue;
        }
        ++looser;
        bool isFree = false;
        for (const char *start : {"bound ", "schedule ", "keep ", "burst "}) {
          isFree |= mutant.starts_with(start);
        }
        EXPECT_TRUE(isFree) << path << ": " << mutant;
        certify::Answer walked = original.checkText(text, /*enumerate=*/true);
        EXPECT_EQ(walked.status, 0) << path << ": " << mutant << walked.message;
      }
    }
  }
  EXPECT_GT(refused, 5000);
  RecordProperty("looser", looser);
  std::cout << refused << " refused, " << looser << " looser bounds that hold\n";
}

/// The statement of the step without one number, of every value that has one.
TEST(Mutation, RingsBurstsAndSchedulesAreMinimum) {
  int count = 0;
  for (const std::string &path : subjects) {
    CorpusCase original = subject(path);
    std::vector<std::string> lines = splitLines(original.certificate.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::istringstream words(lines[i]);
      std::string kind, value, number;
      words >> kind >> value >> number;
      bool isRing = kind == "keep" && number != "all" && number != "0";
      if (isRing || kind == "burst") {
        std::string less = std::to_string(std::stoll(number) - 1);
        std::string text = with(lines, i, kind + " " + value + " " + less + "\n");
        EXPECT_EQ(original.checkText(text).status, 1) << path << ": " << lines[i];
        ++count;
      } else if (kind == "schedule") {
        std::string early = lines[i].substr(0, lines[i].size() - 2) + " - 1)\n";
        EXPECT_EQ(original.checkText(with(lines, i, early)).status, 1) << path << ": " << early;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 400);
}

// The certificate's text has no hash of itself: with the other spec's hash inserted, a rejection is
// due to the text.
TEST(Mutation, RejectsCertificateOfAnotherSpec) {
  std::vector<CorpusCase> leaky;
  for (const std::string &path : specsUnder("test/causality/leaky")) {
    leaky.push_back(readCase(path));
  }
  int tried = 0;
  for (const std::string &path : specsUnder("test/causality/causal")) {
    std::vector<std::string> lines = splitLines(readCase(path).certificate.text);
    for (const CorpusCase &other : leaky) {
      EXPECT_EQ(other.checkText(join(lines)).status, 1) << path << " for " << other.spec.name;
      std::string hash = splitLines(other.certificate.text)[1];
      EXPECT_EQ(other.checkText(with(lines, 1, hash)).status, 1)
          << path << " for " << other.spec.name;
      ++tried;
    }
  }
  EXPECT_GT(tried, 200);
}

// An additional space or comment in the spec is another spec: the certificate names the bytes of
// the spec.
TEST(Mutation, RejectsChangedSpec) {
  CorpusCase original = subject("models/tiny/vanilla.json");
  CorpusCase changed = original;
  changed.spec.text += "\n";
  certify::Answer answer = changed.check();
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.message.find("sha256"), std::string::npos) << answer.message;
}
