// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the spec of `sluice check` from a file or standard input, and writes it for --fix.
#pragma once

#include "sluice/Driver/Driver.h"
#include "sluice/Support/Files.h"

#include <iosfwd>

namespace sluice::cli {

class SpecFixer {
public:
  /// `spec` is a path, or "-". Throws UserError if the fixed spec could not be written.
  SpecFixer(const std::string &spec, const std::string &output, bool isAsked, bool force);

  /// Returns the files that the command reads.
  std::vector<Path> inputs() const;
  /// Sets the spec of a request. Throws UserError for flags that exclude --fix.
  void prepare(driver::CheckRequest &request, bool json);
  /// Returns the stream for the verdict: standard output, unless the fixed spec is written there.
  std::ostream &talk() const;
  /// Proves the edited spec again, writes it and prints the changes. `text` is the checked spec.
  /// Throws ExitStatus 1 if there is no edit to write.
  void finish(driver::CheckRequest request, const CausalVerdict &verdict,
              const std::string &text) const;

private:
  bool isStream() const { return spec == "-"; }
  void write(const std::string &original, const std::string &fixed) const;

  std::string spec, output;
  bool isAsked, isJson = false;
};

} // namespace sluice::cli
