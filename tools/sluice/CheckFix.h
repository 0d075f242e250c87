// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The spec that `sluice check` reads, from a file or standard input, and where --fix writes it.
#pragma once

#include "sluice/Driver/Driver.h"
#include "sluice/Support/Files.h"

#include <iosfwd>

namespace sluice::cli {

class SpecFixer {
public:
  /// `spec` is a path, or "-". Throws UserError where the fixed spec could not be written.
  SpecFixer(const std::string &spec, const std::string &output, bool isAsked, bool force);

  /// Files that the command reads.
  std::vector<runtime::Path> inputs() const;
  /// Sets the spec of a request. Throws UserError for what --fix does not go with.
  void prepare(driver::CheckRequest &request, bool json);
  /// Where the verdict is printed: standard output, unless the fixed spec is.
  std::ostream &talk() const;
  /// Proves the edited spec once more, writes it and prints what changed. `text` is the spec that
  /// was checked. Throws ExitStatus 1 where there is no edit to write.
  void finish(driver::CheckRequest request, const CausalVerdict &verdict,
              const std::string &text) const;

private:
  bool isStream() const { return spec == "-"; }
  void write(const std::string &original, const std::string &fixed) const;

  std::string spec, output;
  bool isAsked, isJson = false;
};

} // namespace sluice::cli
