// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strings in JSON that may have any bytes, such as names of files.
#pragma once

#include "sluice/Support/StrictJson.h"

namespace sluice {

/// Sets `object[key]` to a text. For a text that is not UTF-8, which JSON cannot represent, also
/// sets `object[key + "_hex"]` to its bytes in hexadecimal; printing replaces the invalid bytes of
/// `object[key]` by U+FFFD.
void setByteString(nlohmann::json &object, const std::string &key, const std::string &text);

/// Returns the text that `setByteString` wrote. Throws UserError.
std::string getByteString(const StrictJson &object, const std::string &key);

/// Returns the bytes of a string in hexadecimal. Throws UserError.
std::string parseHex(const StrictJson &json);

/// Checks for valid UTF-8.
bool isUtf8(std::string_view text);

} // namespace sluice
