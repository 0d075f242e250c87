// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ReportSegments.h"

#include "Html.h"
#include "sluice/Support/Text.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

/// A row of a histogram.
struct Bin {
  std::string label;
  int64_t count = 0;
};

/// Bins lengths: one length per bin up to 16, then bins that double: 17-32, 33-64.
std::vector<Bin> binLengths(const std::map<int64_t, int64_t> &lengths) {
  constexpr int64_t single = 16;
  std::vector<Bin> bins;
  if (lengths.empty()) {
    return bins;
  }
  int64_t longest = lengths.rbegin()->first;
  for (int64_t first = 1, last = 1; first <= longest;
       first = last + 1, last = first <= single ? first : 2 * last) {
    Bin bin{std::to_string(first) + (last > first ? "\u2013" + std::to_string(last) : "")};
    for (auto at = lengths.lower_bound(first); at != lengths.end() && at->first <= last; ++at) {
      bin.count += at->second;
    }
    bins.push_back(std::move(bin));
  }
  return bins;
}

std::vector<Bin> binCertainties(const std::vector<int64_t> &certainties) {
  std::vector<Bin> bins;
  for (size_t i = 0; i < certainties.size(); ++i) {
    double width = 1 / static_cast<double>(certainties.size());
    bins.push_back({showNumber(static_cast<double>(i) * width, 1) + "\u2013" +
                        showNumber(static_cast<double>(i + 1) * width, 1),
                    certainties[i]});
  }
  return bins;
}

void writeHistogram(std::ostringstream &out, const std::string &counted, const std::string &what,
                    const std::vector<Bin> &bins) {
  if (bins.empty()) {
    return;
  }
  int64_t most = 1;
  for (const Bin &bin : bins) {
    most = std::max(most, bin.count);
  }
  out << tableStart("histogram")
      << element("tr", textElement("th", counted) + textElement("th", what) + textElement("th", ""))
      << "\n";
  for (const Bin &bin : bins) {
    double share = static_cast<double>(bin.count) / static_cast<double>(most);
    std::string bar =
        textElement("div", "", attributes("style", "width:" + showNumber(100 * share, 1) + "%"));
    out << element("tr", textElement("th", bin.label) +
                             textElement("td", std::to_string(bin.count)) + element("td", bar))
        << "\n";
  }
  out << tableEnd();
}

/// Writes a text with boundaries. The bytes of a character that a boundary splits are shown as
/// \xff, as is everything that a page could misinterpret.
void writeText(std::ostringstream &out, const SegmentedText &cut) {
  std::string text, boundary = textElement("b", "|", attributes("class", "cut"));
  for (const std::string &piece : cut.pieces) {
    text += (&piece == &cut.pieces.front() ? "" : boundary) + escapeHtml(showMessage(piece));
  }
  out << element("pre", text) << "\n";
}

} // namespace

void writeSegments(std::ostringstream &out, const ShownSegments &shown) {
  if (shown.cuts.empty() && shown.notes.empty()) {
    return;
  }
  out << textElement("h2", "Segments") << "\n";
  for (const std::string &note : shown.notes) {
    out << textElement("p", note, attributes("class", "lines")) << "\n";
  }
  if (!shown.cuts.empty()) {
    out << textElement("p", shown.source) << "\n";
  }
  for (const SegmentedText &cut : shown.cuts) {
    out << textElement("h3", cut.name) << "\n" << tableStart();
    writeRow(out, "boundaries",
             std::to_string(cut.ends) + " in " + std::to_string(cut.tokens) + " tokens");
    if (cut.ends > 0) {
      writeRow(out, "tokens a boundary",
               showNumber(static_cast<double>(cut.tokens) / static_cast<double>(cut.ends), 3));
    }
    out << tableEnd();
    writeText(out, cut);
    writeHistogram(out, "tokens of a segment", "segments", binLengths(cut.lengths));
    if (cut.isPredicted) {
      writeHistogram(out, "probability of a boundary", "tokens", binCertainties(cut.certainties));
    }
  }
}

} // namespace sluice::runtime
