// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Shell.h"

#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <string_view>

std::string sluice::quoteForShell(const std::string &text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) {
    return text;
  }
  // Messages show other bytes as escapes, which a shell only interprets in $'...'.
  bool isShownWhole = showText(text) == text && text.find_first_of("\n\t") == std::string::npos;
  std::string quoted = isShownWhole ? "'" : "$'";
  for (char each : text) {
    bool isPrintable = each >= ' ' && each <= '~';
    if (isShownWhole) {
      quoted += each == '\'' ? std::string("'\\''") : std::string(1, each);
    } else if (isPrintable) {
      quoted += (each == '\'' || each == '\\' ? "\\" : "") + std::string(1, each);
    } else {
      quoted += "\\x" + toHex(asBytes(std::string_view(&each, 1)));
    }
  }
  return quoted + "'";
}
