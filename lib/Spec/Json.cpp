// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Json.h"

namespace sluice::spec {

static void refuseByteOrderMark(std::string_view text, const std::string &file) {
  for (std::string_view mark : {"\xEF\xBB\xBF", "\xFF\xFE", "\xFE\xFF"}) {
    if (text.starts_with(mark)) {
      throw Failure{{{file, 1, 1},
                     "expected plain UTF-8, found a byte-order mark; save the file as UTF-8 "
                     "without it"}};
    }
  }
}

JsonValue parseJson(std::string_view text, const std::string &file) {
  refuseByteOrderMark(text, file);
  JsonValue root;
  constexpr JsonNouns nouns{"an object with the model's spec ({ ... })", "spec"};
  if (std::optional<JsonError> error = parsePlacedJson(text, nouns, root)) {
    throw Failure{{{file, error->position.line, error->position.column}, error->message}};
  }
  return root;
}

} // namespace sluice::spec
