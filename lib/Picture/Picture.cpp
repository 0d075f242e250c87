// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Renders bands as SVG. Colors and fonts are attributes instead of style sheets, because the text
// is embedded in other pages.
#include "sluice/Picture/Picture.h"
#include "Svg.h"
#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::svg;

namespace {

constexpr double boxHeight = 22, gap = 54, top = 66, bottom = 84, laneWidth = 26;
constexpr const char *ink = "#1c2430", *quiet = "#66727f", *line = "#c5ccd4", *paper = "#ffffff",
                     *empty = "#f4f6f8", *seen = "#2f6fb5", *fan = "#8fb8e0", *blind = "#f2b84b",
                     *blindLine = "#a86f00", *leak = "#d3212d";

bool isSeen(const Picture &picture, size_t band, int64_t position) {
  const std::vector<bool> &set = picture.bands[band].seen;
  return position >= 0 && static_cast<size_t>(position) < set.size() &&
         set[static_cast<size_t>(position)];
}

/// Returns true if the row cannot see a token although it sees an older one.
bool isHole(const Picture &picture, int64_t token) {
  const std::vector<bool> &tokens = picture.bands.front().seen;
  auto end = tokens.begin() + token;
  return !picture.leak && token <= picture.row && !*end &&
         std::find(tokens.begin(), end, true) != end;
}

bool isLeak(const Picture &picture, int64_t token) {
  return picture.leak == token ||
         std::find(picture.leaks.begin(), picture.leaks.end(), token) != picture.leaks.end();
}

bool isNextTo(const PictureEdge &edge) { return edge.above == edge.below + 1; }

/// Adjacent positions `from` to `to` that read the same run `first` to `last`.
struct Joined {
  int64_t from, to, first, last;
  bool marked;
};

/// Joins adjacent positions that read the same run, with seen positions separate from the others: a
/// group is one shape, and so are the rows of an upsampling.
std::vector<Joined> joinReads(const Picture &picture, const PictureEdge &edge) {
  std::vector<Joined> joined;
  for (const PictureEdge::PictureRead &read : edge.reads) {
    bool marked = isSeen(picture, edge.above, read.position);
    if (!joined.empty() && joined.back().marked == marked && joined.back().first == read.first &&
        joined.back().last == read.last) {
      joined.back().to = read.position;
    } else {
      joined.push_back({read.position, read.position, read.first, read.last, marked});
    }
  }
  return joined;
}

class Drawing : private Canvas {
public:
  explicit Drawing(const Picture &picture) : picture(picture) {
    cell = std::clamp(std::floor(780.0 / static_cast<double>(std::max<int64_t>(1, picture.length))),
                      3.0, 34.0);
    for (const PictureBand &band : picture.bands) {
      left = std::max(left, 32 + 7.2 * static_cast<double>(band.label.size()));
    }
    for (const PictureEdge &edge : picture.edges) {
      left = std::max(left, 48 + 6.4 * static_cast<double>(edge.label.size()));
    }
    assignLanes();
    width = left + cell * static_cast<double>(picture.length) + 28 +
            laneWidth * static_cast<double>(lanes);
    width = std::max(width, 640.0);
    height = top + bottom + static_cast<double>(picture.bands.size()) * (boxHeight + gap) - gap;
  }
  std::string draw();

private:
  //===-- Coordinates
  double x(double token) const { return left + cell * token; }
  double bandTop(size_t band) const {
    return height - bottom - boxHeight - static_cast<double>(band) * (boxHeight + gap);
  }
  double bandBottom(size_t band) const { return bandTop(band) + boxHeight; }
  /// Returns the left and right end of a run of positions, limited to the sequence.
  std::pair<double, double> span(size_t band, int64_t first, int64_t last) const {
    const std::vector<int64_t> &starts = picture.bands[band].starts;
    auto f = static_cast<double>(picture.bands[band].factor),
         n = static_cast<double>(picture.length);
    if (!starts.empty()) { // the text ends open segments
      auto at = [&](int64_t i) {
        return i + 1 < static_cast<int64_t>(starts.size())
                   ? std::min(n, static_cast<double>(starts[static_cast<size_t>(i)]))
                   : n;
      };
      return {x(at(first)), x(at(last + 1))};
    }
    return {x(std::min(n, f * static_cast<double>(first))),
            x(std::min(n, f * static_cast<double>(last + 1)))};
  }
  double middle(size_t band, int64_t position) const {
    auto [from, to] = span(band, position, position);
    return (from + to) / 2;
  }

  //===-- Parts
  void assignLanes();
  std::string drawHead(double total);
  void drawBand(size_t band);
  void drawBox(size_t band, int64_t position);
  void drawEdge(const PictureEdge &edge);
  void drawAttention(const PictureEdge &edge);
  void drawReads(const PictureEdge &edge);
  void drawLane(const PictureEdge &edge, size_t lane);
  void drawTokens();
  void drawLeak();
  struct PictureEntry {
    enum { Box, Dashed, Line, DashedLine, Arrow, Shape, Bold } mark;
    const char *fill, *stroke;
    std::string words;
  };
  std::vector<PictureEntry> legend() const;
  double drawLegend();
  double drawAdvice(double y);

  const Picture &picture;
  std::vector<size_t> laneOf; ///< lanes of edges that skip bands
  size_t lanes = 0;
  double left = 210; ///< space for labels
  double cell, width, height;
};

} // namespace

//===----------------------------------------------------------------------===//
// Bands
//===----------------------------------------------------------------------===//

void Drawing::drawBox(size_t band, int64_t position) {
  auto [from, to] = span(band, position, position);
  bool marked = isSeen(picture, band, position);
  const std::vector<int64_t> &starts = picture.bands[band].starts;
  bool tooLate = starts.empty() ? picture.bands[band].factor == 1 && position > picture.row
                                : starts[static_cast<size_t>(position)] > picture.row;
  bool isBlind = band == 0 && isHole(picture, position);
  bool leaks = band == 0 && isLeak(picture, position);
  bool dashed = tooLate && !leaks && cell > 6;
  const char *fill = leaks ? leak : marked ? seen : isBlind ? blind : tooLate ? paper : empty;
  double inset = cell > 6 ? 1 : 0.3;
  const char *kind = leaks ? "leak" : marked ? "seen" : isBlind ? "blind" : "unseen";
  const char *stroke = isBlind ? blindLine : leaks ? leak : marked ? seen : line;
  add(emptyElement("rect", attributes("class", std::string("box ") + kind, "x", from + inset, "y",
                                      bandTop(band), "width", to - from - 2 * inset, "height",
                                      boxHeight, "rx", std::min(3.0, cell / 4), "fill", fill,
                                      "stroke", stroke, "stroke-dasharray", dashed ? "2 2" : "",
                                      "stroke-width", cell < 6 ? "0.4" : "")));
}

void Drawing::drawBand(size_t band) {
  const PictureBand &what = picture.bands[band];
  out += startTag("g", attributes("class", "band"));
  if (what.place.line > 0) {
    // The picture does not depend on the folder of the file.
    spec::SourceLocation place = what.place;
    place.file = place.file.substr(place.file.rfind('/') + 1);
    out += element("title", escapeXml(spec::toString(place)));
  }
  out += "\n";
  double y = bandTop(band) + boxHeight / 2;
  text({left - 16, y - 1}, what.label, ink, 12.5, "end", true);
  std::string scale = "scale " + std::to_string(what.factor) +
                      (what.axis.empty() ? "" : " of segments: " + what.axis);
  text({left - 16, y + 12}, scale, quiet, 10.5, "end");
  for (size_t i = 0; i < what.seen.size(); ++i) {
    drawBox(band, static_cast<int64_t>(i));
  }
  out += "</g>\n";
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

/// Assigns the edges that skip bands to lanes on the right, short edges innermost.
void Drawing::assignLanes() {
  laneOf.assign(picture.edges.size(), 0);
  std::vector<size_t> skipping;
  for (size_t i = 0; i < picture.edges.size(); ++i) {
    if (!isNextTo(picture.edges[i])) {
      skipping.push_back(i);
    }
  }
  std::sort(skipping.begin(), skipping.end(), [&](size_t i, size_t j) {
    const PictureEdge &a = picture.edges[i], &b = picture.edges[j];
    return std::pair(a.above - a.below, i) < std::pair(b.above - b.below, j);
  });
  for (size_t n = 0; n < skipping.size(); ++n) {
    const PictureEdge &edge = picture.edges[skipping[n]];
    size_t lane = 0;
    auto isTaken = [&](size_t candidate) {
      for (size_t m = 0; m < n; ++m) {
        const PictureEdge &other = picture.edges[skipping[m]];
        if (laneOf[skipping[m]] == candidate && other.below <= edge.above &&
            edge.below <= other.above) {
          return true;
        }
      }
      return false;
    };
    while (isTaken(lane)) {
      ++lane;
    }
    laneOf[skipping[n]] = lane;
    lanes = std::max(lanes, lane + 1);
  }
}

/// Draws groups and upsampled rows as shapes, shifts as arrows, and other reads as lines.
void Drawing::drawReads(const PictureEdge &edge) {
  bool isGroup = edge.kind == PictureEdge::Kind::Group;
  const PictureBand &upper = picture.bands[edge.above], &lower = picture.bands[edge.below];
  bool isShape = isGroup || upper.factor != lower.factor || upper.axis != lower.axis;
  double above = bandBottom(edge.above), below = bandTop(edge.below);
  std::vector<Joined> joined = joinReads(picture, edge);
  for (const Joined &reads : joined) {
    bool isCovered = std::any_of(joined.begin(), joined.end(), [&](const Joined &other) {
      return !reads.marked && other.marked && other.first == reads.first &&
             other.last == reads.last;
    });
    if (isCovered) {
      continue;
    }
    auto [from, to] = span(edge.above, reads.from, reads.to);
    auto [low, high] = span(edge.below, reads.first, reads.last);
    double inset = cell > 6 ? 2 : 0.5;
    if (isShape) {
      polygon(
          isGroup ? "group" : "spread",
          {{from + inset, above}, {to - inset, above}, {high - inset, below}, {low + inset, below}},
          reads.marked ? fan : empty, reads.marked ? 0.5 : 0.3, reads.marked ? seen : line);
    }
    Point source{(low + high) / 2, below}, sink{(from + to) / 2, above};
    if (reads.marked && edge.shifts) {
      arrow("shift", source, sink, seen);
    } else if (reads.marked && !isShape) {
      segment("own", source, sink, seen, 1.2);
    }
  }
}

/// Draws the reads of the latest position as a shaded fan and, with a window, also the reads of the
/// earliest position.
void Drawing::drawAttention(const PictureEdge &edge) {
  std::vector<PictureEdge::PictureRead> reads;
  for (const PictureEdge::PictureRead &read : edge.reads) {
    if (isSeen(picture, edge.above, read.position)) {
      reads.push_back(read);
    }
  }
  if (reads.empty()) {
    return;
  }
  bool moves = reads.front().first != reads.back().first && reads.size() > 1;
  for (const auto *read : {moves ? &reads.front() : nullptr, &reads.back()}) {
    if (!read) {
      continue;
    }
    auto [from, to] = span(edge.above, read->position, read->position);
    auto [low, high] = span(edge.below, read->first, read->last);
    double center = (from + to) / 2, half = std::min(6.0, (to - from) / 2 - 1);
    polygon("fan",
            {{center - half, bandBottom(edge.above)},
             {center + half, bandBottom(edge.above)},
             {high - 2, bandTop(edge.below)},
             {low + 2, bandTop(edge.below)}},
            fan, 0.4, fan);
  }
}

void Drawing::drawEdge(const PictureEdge &edge) {
  if (edge.kind == PictureEdge::Kind::Attention || edge.kind == PictureEdge::Kind::Scan) {
    drawAttention(edge);
  } else {
    drawReads(edge);
  }
  if (!edge.label.empty()) {
    text({left - 16, bandBottom(edge.above) + gap / 2 + 4}, "\u2191 " + edge.label, seen, 11,
         "end");
  }
}

/// Draws an edge that skips bands on the right of the bands. Its label is at a gap where no other
/// edge ends.
void Drawing::drawLane(const PictureEdge &edge, size_t lane) {
  double right = x(static_cast<double>(picture.length)),
         at = right + 14 + laneWidth * static_cast<double>(lane);
  double shift = 6 * static_cast<double>(std::min<size_t>(lane, 2));
  double from = bandTop(edge.below) + 3 + shift, to = bandBottom(edge.above) - 3 - shift;
  std::string path = "M" + number(right + 3) + " " + number(from) + "H" + number(at - 5) + "Q" +
                     number(at) + " " + number(from) + " " + number(at) + " " + number(from - 5) +
                     "V" + number(to + 5) + "Q" + number(at) + " " + number(to) + " " +
                     number(at - 5) + " " + number(to) + "H" + number(right + 10);
  add(emptyElement("path", attributes("class", "skip", "d", path, "fill", "none", "stroke", quiet,
                                      "stroke-width", 1.4)));
  polygon("arrow-head", {{right + 3, to}, {right + 10, to - 3.5}, {right + 10, to + 3.5}}, quiet, 1,
          quiet);
  size_t gapAbove = edge.below + (edge.above - edge.below) / 2; // the gap above this band
  std::string turn =
      "translate(" + number(at + 4) + " " + number(bandTop(gapAbove) - gap / 2) + ") rotate(90)";
  add(element(
      "text", escapeXml(edge.label.empty() ? "skip" : edge.label),
      attributes("transform", turn, "font-size", 10.5, "text-anchor", "middle", "fill", quiet)));
}

//===----------------------------------------------------------------------===//
// Tokens and words around
//===----------------------------------------------------------------------===//

void Drawing::drawTokens() {
  int64_t every = cell >= 20 ? 1 : cell >= 10 ? 4 : cell >= 5 ? 16 : 64;
  double y = bandBottom(0) + 14;
  for (int64_t token = 0; token < picture.length; token += every) {
    bool isRow = token == picture.row;
    text({middle(0, token), y}, std::to_string(token), isRow ? ink : quiet, 10.5, "middle", isRow);
  }
  for (size_t token = 0; cell >= 7 && token < picture.text.size(); ++token) {
    auto at = static_cast<int64_t>(token);
    bool isDark = isSeen(picture, 0, at) || isLeak(picture, at);
    text({middle(0, at), bandTop(0) + boxHeight / 2 + 4}, picture.text[token], isDark ? paper : ink,
         12, "middle", false);
  }
  size_t last = picture.bands.size() - 1;
  double at = middle(last, picture.row);
  arrow("predicts", {at, bandTop(last)}, {at, bandTop(last) - 18}, ink);
  text({at, bandTop(last) - 23},
       "row " + std::to_string(picture.row) + " predicts token " + std::to_string(picture.target),
       ink, 12, at > width * 0.7 ? "end" : "middle", true);
}

/// Draws the leak. A read that only depends on the existence of a token has no path from that
/// token, and is a dashed line.
void Drawing::drawLeak() {
  auto at = [&](size_t i) {
    auto [band, position] = picture.leakPath[i];
    return Point{middle(band, position), bandTop(band) + boxHeight / 2};
  };
  for (size_t i = 0; i + 1 < picture.leakPath.size(); ++i) {
    segment("leak-path", at(i), at(i + 1), leak, 3, picture.leakByGrowing && i == 0);
  }
  for (size_t i = 0; i < picture.leakPath.size(); ++i) {
    add(emptyElement("circle", attributes("class", "leak-step", "r", 4, "fill", leak, "cx", at(i).x,
                                          "cy", at(i).y)));
  }
}

std::string Drawing::drawHead(double total) {
  std::string row = "row " + std::to_string(picture.row);
  std::string what = picture.name + ": what " + row + " reads";
  if (picture.leak) {
    std::string token = "token " + std::to_string(*picture.leak);
    size_t others = picture.leaks.empty() ? 0 : picture.leaks.size() - 1;
    std::string all = others == 0
                          ? token + ", which it must not see"
                          : token + " and " + std::to_string(others) + " more " +
                                (others == 1 ? "token" : "tokens") + " that it must not see";
    what = picture.name + ": " + row +
           (picture.leakByGrowing ? " changes once " + token + " is there" : " reads " + all);
  }
  std::string desc = "Streams of the model over " + std::to_string(picture.length) +
                     " tokens, from the tokens up:";
  for (const PictureBand &band : picture.bands) {
    desc += (&band == &picture.bands.front() ? " " : "; ") + band.label + " (scale " +
            std::to_string(band.factor) + ")";
  }
  if (picture.leak) {
    desc += ". Row " + std::to_string(picture.row) + " reads token " +
            std::to_string(*picture.leak) + ", a leak";
  }
  std::string body = std::move(out);
  out.clear();
  add(startTag("svg", attributes("xmlns", "http://www.w3.org/2000/svg", "viewBox",
                                 "0 0 " + number(width) + " " + number(total), "width", width,
                                 "height", total, "role", "img", "font-family",
                                 "system-ui, 'DejaVu Sans', sans-serif")));
  add(element("title", escapeXml(what)));
  add(element("desc", escapeXml(desc + ".")));
  add(emptyElement("rect",
                   attributes("class", "ground", "width", width, "height", total, "fill", paper)));
  text({16, 24}, what, picture.leak ? leak : ink, 15, "start", true);
  return out + body;
}

/// Returns the legend entries for the marks of this picture.
std::vector<Drawing::PictureEntry> Drawing::legend() const {
  std::vector<PictureEntry> entries = {{PictureEntry::Box, seen, seen, "read by the row"},
                                       {PictureEntry::Box, empty, line, "not read"}};
  auto add = [&](bool there, PictureEntry entry) {
    if (there) {
      entries.push_back(std::move(entry));
    }
  };
  auto has = [&](const char *mark) {
    return out.find("class=\"" + std::string(mark) + "\"") != std::string::npos;
  };
  bool many = picture.leaks.size() > 1;
  add(picture.leak && picture.leakByGrowing && !many,
      {PictureEntry::Box, leak, leak, "a token whose coming changes the row"});
  add(picture.leak && picture.leakByGrowing && many,
      {PictureEntry::Box, leak, leak, "tokens whose coming changes the row"});
  add(picture.leak && !picture.leakByGrowing,
      {PictureEntry::Box, leak, leak,
       many ? "tokens that the row reads and must not see"
            : "a token that the row reads and must not see"});
  add(has("leak-path"), {PictureEntry::Line, leak, leak, "the way from that token to the row"});
  add(has("leak-path") && picture.leakByGrowing,
      {PictureEntry::DashedLine, leak, leak, "it exists from that token on"});
  add(has("box blind"),
      {PictureEntry::Box, blind, blindLine, "a token that it cannot see, though older ones"});
  add(out.find("stroke-dasharray=\"2 2\"") != std::string::npos,
      {PictureEntry::Dashed, paper, line, "later than the row"});
  add(has("group"), {PictureEntry::Shape, fan, seen, "a group that makes one position"});
  add(has("spread"), {PictureEntry::Shape, fan, seen, "one position handed to several"});
  bool isScanned = std::any_of(picture.edges.begin(), picture.edges.end(), [](const auto &edge) {
    return edge.kind == PictureEdge::Kind::Scan;
  });
  add(has("fan"),
      {PictureEntry::Shape, fan, fan,
       isScanned ? "what attention, an average or maxima read, the latest and the first position"
                 : "what attention reads, the latest and the first position"});
  add(has("shift"), {PictureEntry::Arrow, seen, seen, "read through a shift"});
  add(has("own"), {PictureEntry::Line, seen, seen, "its own position"});
  add(has("skip"), {PictureEntry::Line, quiet, quiet, "a stream that is read further up"});
  add(true, {PictureEntry::Bold, ink, ink, "the row's own token"});
  return entries;
}

/// Draws the legend in as many lines as it needs; returns the height of the lines after the first.
double Drawing::drawLegend() {
  constexpr double lineHeight = 19;
  double y = height - 24, at = left;
  for (const PictureEntry &entry : legend()) {
    double room = 40 + 6.2 * static_cast<double>(entry.words.size());
    if (at > left && at + room > width) {
      at = left;
      y += lineHeight;
    }
    Point from{at, y - 3.5}, to{at + 13, y - 3.5};
    switch (entry.mark) {
    case PictureEntry::Box:
    case PictureEntry::Dashed:
      add(emptyElement("rect",
                       attributes("x", at, "y", y - 10, "width", 13, "height", 13, "rx", 2, "fill",
                                  entry.fill, "stroke", entry.stroke, "stroke-dasharray",
                                  entry.mark == PictureEntry::Dashed ? "2 2" : "")));
      break;
    case PictureEntry::Line:
    case PictureEntry::DashedLine:
      segment("key", from, to, entry.stroke, 2, entry.mark == PictureEntry::DashedLine);
      break;
    case PictureEntry::Arrow:
      arrow("key", {at + 6.5, y + 3}, {at + 6.5, y - 11}, entry.stroke);
      break;
    case PictureEntry::Shape:
      polygon("key", {{at + 4, y - 10}, {at + 9, y - 10}, {at + 13, y + 3}, {at, y + 3}},
              entry.fill, 0.5, entry.stroke);
      break;
    case PictureEntry::Bold:
      text({at, y + 1}, std::to_string(picture.row), ink, 10.5, "start", true);
      break;
    }
    text({at + 19, y + 1}, entry.words, quiet, 11);
    at += room;
  }
  return y - (height - 24);
}

/// Draws the advice below `y` in as many lines as it needs; returns their height.
double Drawing::drawAdvice(double y) {
  constexpr double lineHeight = 17, letter = 6.6;
  auto room = static_cast<size_t>((width - 32) / letter);
  std::string rest = picture.advice.empty() ? "" : "Advice: " + picture.advice;
  double more = 0;
  while (!rest.empty()) {
    size_t end = rest.size() <= room ? rest.size() : rest.rfind(' ', room);
    end = end == std::string::npos || end == 0 ? std::min(rest.find(' '), rest.size()) : end;
    text({16, y + more}, rest.substr(0, end), ink, 12, "start", false);
    rest.erase(0, std::min(end + 1, rest.size()));
    more += lineHeight;
  }
  return more;
}

std::string Drawing::draw() {
  for (size_t i = 0; i < picture.edges.size(); ++i) {
    if (isNextTo(picture.edges[i])) {
      drawEdge(picture.edges[i]);
    } else {
      drawLane(picture.edges[i], laneOf[i]);
    }
  }
  for (size_t band = 0; band < picture.bands.size(); ++band) {
    drawBand(band);
  }
  drawTokens();
  drawLeak();
  double more = drawLegend();
  more += drawAdvice(height + more);
  return drawHead(height + more) + "</svg>\n";
}

std::string sluice::renderSvg(const Picture &picture) { return Drawing(picture).draw(); }
