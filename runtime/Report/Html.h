// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds pieces of HTML pages.
#pragma once

#include "sluice/Support/Markup.h"

#include <sstream>
#include <string>

namespace sluice::runtime {

/// The style rules of charts, for pages and SVG files.
extern const char *const chartStyle;

std::string base64(const std::string &text);

/// Returns "1 h 2 min", "3 min 20 s" or "4.5 s".
std::string showDuration(double seconds);

/// Return the start and the end of a page. A wide page has space for tables with a column per run.
std::string pageStart(const std::string &title, bool isWide = false);
std::string pageEnd();

/// Return the start and the end of a table. A table that is wider than the page scrolls by itself.
std::string tableStart(const std::string &kind = "");
std::string tableEnd();

/// Returns a cell of a table: a value, in one line if it is short, and a note below it.
std::string buildCell(const std::string &value, const std::string &note = "");

/// Writes a row of a table: a name, a value and a note.
void writeRow(std::ostringstream &out, const std::string &name, const std::string &value,
              const std::string &note = "");

} // namespace sluice::runtime
