// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short ways to write specs in tests.

#ifndef SLUICE_TEST_UNIT_SPEC_SPECS_H
#define SLUICE_TEST_UNIT_SPEC_SPECS_H

#include "sluice/Spec/Expansion.h"

#include <gtest/gtest.h>

namespace sluice::spec {

/// A spec of width 12 and 2 heads whose stages between embedding and head are `stages`, each
/// followed by a comma. They start on line 7.
inline std::string specText(const std::string &stages,
                            const std::string &defaults = R"("heads": 2)",
                            const std::string &embedding = "", const std::string &head = "") {
  return R"({
  "sluice": 1,
  "vocabulary": 11, "context": 9, "batch": 2, "width": 12,
  "defaults": { )" +
         defaults + R"( },
  "stages": [
    { "op": "embedding")" +
         embedding + " },\n" + stages + R"(
    { "op": "head")" +
         head + " }\n  ]\n}\n";
}

/// The model of a spec that must be good.
inline Model readGood(const std::string &text) {
  Diagnostic error;
  std::optional<Model> model = readText(text, "dir/test.json", error);
  if (!model) {
    ADD_FAILURE() << error.format() << "\n" << text;
    return {};
  }
  return std::move(*model);
}

} // namespace sluice::spec

#endif // SLUICE_TEST_UNIT_SPEC_SPECS_H
