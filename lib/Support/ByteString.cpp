// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/ByteString.h"

#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

namespace sluice {

bool isUtf8(std::string_view text) { return !countCharacters(text, 0, text.size()).invalid; }

void setByteString(nlohmann::json &object, const std::string &key, const std::string &text) {
  object[key] = text;
  if (!isUtf8(text)) {
    object[key + "_hex"] = toHex(asBytes(text));
  }
}

std::string parseHex(const StrictJson &json) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = json.string(), bytes;
  if (text.size() % 2 != 0 || text.find_first_not_of(digits) != std::string::npos) {
    json.failType("bytes in hexadecimal, two digits each");
  }
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(digits.find(text[i]) * 16 + digits.find(text[i + 1]));
  }
  return bytes;
}

std::string getByteString(const StrictJson &object, const std::string &key) {
  std::string hex = key + "_hex";
  return object.has(hex.c_str()) ? parseHex(object.at(hex)) : object.at(key).string();
}

} // namespace sluice
