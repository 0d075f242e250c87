// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flags of the commands that read data, and opening the texts of commands with text input only.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// Adds --raw, which reads files as raw bytes.
void addRaw(CLI::App &command, bool &isRaw);

/// Adds --tokenizer; `otherwise` explains calls without it.
void addTokenizer(CLI::App &command, std::string &tokenizer, const std::string &otherwise);

/// Opens the tokenizer `tokenizer`, a file or a run with one, or, if that is empty, the tokenizer
/// of the run to which `weights` belongs; returns null if there is none. Throws UserError if it is
/// not the tokenizer of the weights (of `step`, if `weights` is a run), or if it has more ids than
/// `vocabulary`.
std::shared_ptr<const runtime::TextEncoder> findEncoder(const std::string &tokenizer,
                                                        const std::string &weights,
                                                        int64_t vocabulary,
                                                        std::optional<int64_t> step = {});

/// Opens texts or token ids as runtime::readByteFiles does, and prints their notes.
std::vector<runtime::ByteFile> openTexts(const std::vector<std::string> &names, int64_t vocabulary,
                                         int64_t least, const std::string &why,
                                         const runtime::ReadingOptions &reading);

} // namespace sluice::cli
