// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pieces of HTML pages.
#pragma once

#include <sstream>
#include <string>

namespace sluice::runtime {

/// printf's %.*f.
std::string showNumber(double value, int digits);

/// Text as HTML shows it; control characters, which a page may not hold, become U+FFFD.
std::string escapeHtml(const std::string &text);

std::string base64(const std::string &text);

/// "1 h 2 min", "3 min 20 s", "4.5 s"
std::string showDuration(double seconds);

/// What stands before and behind a page's contents.
std::string pageStart(const std::string &title);
std::string pageEnd();

/// A row of a table: a name and a value.
void writeRow(std::ostringstream &out, const std::string &name, const std::string &value);

} // namespace sluice::runtime
