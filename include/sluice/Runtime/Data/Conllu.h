// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dependency trees and graphs of the CoNLL-U format (universaldependencies.org/format.html).
#pragma once

#include "sluice/Runtime/Data/Edges.h"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// A sentence of a CoNLL-U file. A multiword token such as 1-2 is one word with the form of the
/// token and the edges of the syntactic words in it.
struct ConlluSentence {
  std::vector<std::string> words;
  Edges edges;      ///< between `words`, of HEAD and DEPS; roots and empty nodes have none
  size_t place = 0; ///< line of the file, from 1, at which the sentence begins
};

/// Parses a CoNLL-U file. Throws UserError with `file` and the line for text of another format: a
/// line without 10 fields, ids that do not ascend by 1, a head that is no word of the sentence.
std::vector<ConlluSentence> parseConllu(std::string_view text, const std::string &file);

} // namespace sluice::runtime
