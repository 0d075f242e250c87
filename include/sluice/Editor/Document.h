// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Editor/Outline.h"
#include "sluice/Editor/Text.h"

#include <string>

namespace sluice::editor {

/// One text with its lines and its shape.
struct Document {
  explicit Document(std::string text)
      : text(std::move(text)), lines(this->text), outline(this->text) {}
  Document(const Document &) = delete; // lines and outline look into the text
  Document &operator=(const Document &) = delete;

  const std::string text;
  const Text lines;
  const Outline outline;
};

} // namespace sluice::editor
