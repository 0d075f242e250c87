// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Html.h"

#include "sluice/Support/Format.h"

#include <cmath>
#include <cstdint>

namespace sluice::runtime {

const char *const chartStyle =
    ".chart text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#52606d}"
    ".grid{stroke:#e4e8ec}.tick{stroke:#9aa5b1}.level{stroke:#52606d;stroke-width:1.2}";

namespace {

// A page suits screens of any width. Tables and pictures that need more space scroll in a box of
// their own (.scroll), so that the page itself never scrolls sideways. On narrow screens charts
// shrink and have larger text.
constexpr const char *style =
    R"(body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1c2430}body.wide{max-width:84rem}
h1{font-size:1.6rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d6dbe1}h3{font-size:.95rem;margin:.8rem 0 .2rem}
.scroll{overflow-x:auto;max-width:100%}table{border-collapse:collapse}
th{text-align:left;font-weight:500;padding:.15rem 1.5rem .15rem 0;vertical-align:top;min-width:7rem;white-space:nowrap}td{padding:.15rem 1rem .15rem 0;vertical-align:top;white-space:nowrap}
td.text{white-space:normal;overflow-wrap:anywhere;min-width:11rem}td small{display:block;white-space:normal;overflow-wrap:anywhere;color:#52606d;min-width:7rem;max-width:32rem}
.runs th,.runs td{border-top:1px solid #e4e8ec}.runs th:first-child{position:sticky;left:0;background:#fff;white-space:normal;min-width:13rem}.runs tr:first-child th{overflow-wrap:anywhere;border:0;white-space:normal}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:0 2rem}
figure{margin:1rem 0;min-width:0}figcaption{font-weight:500}svg{width:100%;height:auto}
.picture{overflow-x:auto}.picture svg,.picture img{min-width:40rem;width:100%}
.legend{list-style:none;margin:.2rem 0;padding:0;font-size:.85rem}.legend li{display:inline-block;margin-right:1.2rem;overflow-wrap:anywhere}
.legend svg{width:22px;height:12px;margin-right:6px}
li,.lines{overflow-wrap:anywhere}.lines{white-space:pre-line}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f7f9;padding:.7rem;border-radius:4px}
.cut{color:#c2410c}.histogram th{min-width:0;white-space:nowrap}.histogram td:last-child{width:100%}.histogram div{background:#2563a8;height:.8rem;margin-top:.4rem}.histogram td{text-align:right}
.leak{background:#fdecea;border-left:4px solid #c2410c;padding:.7rem 1rem;overflow-wrap:anywhere}
@media(max-width:40rem){.chart text{font-size:20px}th{padding-right:1rem;min-width:5rem;white-space:normal}.runs th:first-child{min-width:6rem;max-width:8rem}})";

} // namespace

std::string base64(const std::string &text) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < text.size() ? static_cast<uint8_t>(text[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      result += i + j > text.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
    }
  }
  return result;
}

std::string showDuration(double seconds) {
  if (seconds < 60) {
    return format("%.1f s", seconds);
  }
  auto whole = static_cast<long long>(std::llround(seconds));
  return whole < 3600 ? format("%lld min %lld s", whole / 60, whole % 60)
                      : format("%lld h %lld min", whole / 3600, whole % 3600 / 60);
}

std::string pageStart(const std::string &title, bool isWide) {
  std::string rules = std::string(chartStyle) + "\n" + style;
  return "<!doctype html>\n" + startTag("html", attributes("lang", "en")) +
         element("head", startTag("meta", attributes("charset", "utf-8")) +
                             startTag("meta", attributes("name", "viewport", "content",
                                                         "width=device-width, initial-scale=1")) +
                             textElement("title", title) + "\n" + element("style", rules)) +
         "\n" + startTag("body", attributes("class", isWide ? "wide" : "")) +
         textElement("h1", title) + "\n";
}

std::string pageEnd() { return "</body></html>\n"; }

std::string tableStart(const std::string &kind) {
  return startTag("div", attributes("class", "scroll")) +
         startTag("table", attributes("class", kind)) + "\n";
}

std::string tableEnd() { return "</table></div>\n"; }

std::string buildCell(const std::string &value, const std::string &note) {
  constexpr size_t mostOnOneLine = 32;
  return element("td", escapeHtml(value) + (note.empty() ? "" : textElement("small", note)),
                 attributes("class", value.size() > mostOnOneLine ? "text" : ""));
}

void writeRow(std::ostringstream &out, const std::string &name, const std::string &value,
              const std::string &note) {
  out << element("tr", textElement("th", name) + buildCell(value, note)) << "\n";
}

} // namespace sluice::runtime
