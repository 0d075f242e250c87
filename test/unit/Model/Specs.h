// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Specs of odd sizes, a few lines each.
#pragma once

#include <string>
#include <vector>

namespace sluice::testing {

struct Family {
  const char *name;
  const char *text;
};

/// One spec per family of architectures; together every stage, setting and method of docs/spec.md.
const std::vector<Family> &families();

/// Families with named inputs in addition to their tokens, without a step.
const std::vector<Family> &familiesOfInputs();

/// Families with segments of segments, and groups and segments of each other.
const std::vector<Family> &familiesOfSegments();
/// Families of routers, whose gates have another derivative than the computed function.
const std::vector<Family> &familiesOfRouters();

/// A stack of width 32 on a context of 24: `stages` are between embedding and head.
std::string buildStack(const std::string &stages);

} // namespace sluice::testing
