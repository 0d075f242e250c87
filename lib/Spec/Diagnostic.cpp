// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Spec/Diagnostic.h"

#include "sluice/Support/Text.h"

namespace sluice::spec {

std::string toString(const SourceLocation &location) {
  std::string file = showPath(location.file);
  if (location.line == 0) {
    return file;
  }
  return file + ":" + std::to_string(location.line) + ":" + std::to_string(location.column);
}

std::string Diagnostic::format() const {
  std::string place = toString(location);
  return place.empty() ? message : place + ": " + message;
}

} // namespace sluice::spec
