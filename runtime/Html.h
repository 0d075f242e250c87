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

/// The rules of charts, for pages and SVG files.
extern const char *const chartStyle;

std::string base64(const std::string &text);

/// "1 h 2 min", "3 min 20 s", "4.5 s"
std::string showDuration(double seconds);

/// The start and the end of a page. A wide page has room for tables with a column per run.
std::string pageStart(const std::string &title, bool isWide = false);
std::string pageEnd();

/// The start and the end of a table. One that is wider than the page scrolls by itself.
std::string tableStart(const std::string &kind = "");
std::string tableEnd();

/// A cell of a table: a value that stays on one line where it is short, and a note under it.
void writeCell(std::ostringstream &out, const std::string &value, const std::string &note = "");

/// A row of a table: a name, a value and a note.
void writeRow(std::ostringstream &out, const std::string &name, const std::string &value,
              const std::string &note = "");

} // namespace sluice::runtime
