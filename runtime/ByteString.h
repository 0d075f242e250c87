// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strings of JSON that hold any bytes, as names of files do.
#pragma once

#include "StrictJson.h"

namespace sluice::runtime {

/// Sets `object[key]` to a text. Where the text is not UTF-8, which JSON cannot hold,
/// `object[key + "_hex"]` has its bytes in hexadecimal, and printing replaces the wrong ones of
/// `object[key]` by U+FFFD.
void setByteString(nlohmann::json &object, const std::string &key, const std::string &text);

/// Returns the text that `setByteString` wrote. Throws UserError.
std::string getByteString(const StrictJson &object, const std::string &key);

/// Returns the bytes of a string in hexadecimal. Throws UserError.
std::string parseHex(const StrictJson &json);

/// Checks for UTF-8.
bool isUtf8(std::string_view text);

} // namespace sluice::runtime
