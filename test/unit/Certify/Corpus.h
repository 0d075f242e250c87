// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Specs, their certificates as the compiler writes them, and the checker's verdicts.
#pragma once

#include "Bound.h"
#include "Certify.h"
#include "Graph.h"
#include "sluice/Certificate/Certificate.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Explain/CheckCausality.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace sluice::test {

inline std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> specsUnder(const std::string &folder) {
  std::vector<std::string> result;
  std::string root = std::string(SLUICE_SOURCE_DIR) + "/" + folder;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".json") {
      result.push_back(entry.path().string());
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// A spec, the prover's verdict, and the certificate that claims a proof, correct or not.
struct CorpusCase {
  certify::CertificateSource spec, certificate;
  bool proved = false;

  certify::Answer check(bool enumerate = false) const {
    return certify::certify(spec, certificate, enumerate);
  }
  certify::Answer checkText(const std::string &text, bool enumerate = false) const {
    return certify::certify(spec, {certificate.name, text}, enumerate);
  }
};

inline CorpusCase makeCase(const std::string &name, const std::string &text) {
  spec::Diagnostic error;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::optional<ParsedSpec> spec = parseSpec(context, text, name, error);
  if (!spec) {
    llvm::report_fatal_error(llvm::Twine(error.format()));
  }
  std::vector<ImportedVariant> variants = importVariants(*spec);
  CorpusCase result = {{name, text}, {"certificate", formatCertificate(variants, text)}};
  result.proved = checkCausality(variants, /*replay=*/false).isProved();
  return result;
}

inline CorpusCase readCase(const std::string &path) { return makeCase(path, readText(path)); }

/// The checker's enumeration of all paths, without any certificate: status 1 for a leak.
inline certify::Answer enumerateSpec(const certify::CertificateSource &spec) {
  try {
    for (const certify::Model &model : certify::deriveModels(spec.text)) {
      certify::enumerate(model.evaluate, {});
      if (model.train.values.size() != model.evaluate.values.size()) {
        certify::enumerate(model.train, {});
      }
    }
    return {};
  } catch (const certify::Refusal &leak) {
    return {1, leak.what()};
  } catch (const certify::BadInput &tooLong) {
    return {2, tooLong.what()};
  }
}

inline std::vector<std::string> splitLines(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line + "\n");
  }
  return lines;
}

inline std::string join(const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines) {
    text += line;
  }
  return text;
}

inline std::string with(std::vector<std::string> lines, size_t at, const std::string &line) {
  lines[at] = line;
  return join(lines);
}

/// Every line that differs from `line` in one number by one: places of digits and their
/// replacements.
inline std::vector<std::string> numberMutants(const std::string &line) {
  std::vector<std::string> mutants;
  for (size_t at = 0, end = 0; at < line.size(); at = std::max(end, at + 1)) {
    for (end = at; end < line.size() && isdigit(static_cast<unsigned char>(line[end])); ++end) {
    }
    if (end == at || end - at > 18) {
      continue;
    }
    int64_t number = std::stoll(line.substr(at, end - at));
    for (int64_t change : {-1, 1}) {
      mutants.push_back(line.substr(0, at) + std::to_string(number + change) + line.substr(end));
    }
  }
  return mutants;
}

} // namespace sluice::test
