// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Html.h"

#include "sluice/Runtime/Format.h"

#include <cmath>
#include <cstdint>

namespace sluice::runtime {

namespace {

constexpr const char *style = R"(<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1c2430}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d6dbe1}h3{font-size:.95rem;margin:.8rem 0 .2rem}
table{border-collapse:collapse}th{text-align:left;font-weight:500;padding:.15rem 1.5rem .15rem 0;vertical-align:top;white-space:nowrap}td{padding:.15rem 1rem .15rem 0;vertical-align:top;overflow-wrap:anywhere}
figure{margin:1rem 0}figcaption{font-weight:500}svg{width:100%;height:auto}.chart text{font:12px system-ui,sans-serif;fill:#52606d;paint-order:stroke;stroke:#fff;stroke-width:4px}
.grid{stroke:#e4e8ec}.tick{stroke:#9aa5b1}li,.lines{overflow-wrap:anywhere}.lines{white-space:pre-line}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f7f9;padding:.7rem;border-radius:4px}
.cut{color:#c2410c}.histogram div{background:#2563a8;height:.8rem;margin-top:.4rem}.histogram td{text-align:right}
.leak{background:#fdecea;border-left:4px solid #c2410c;padding:.7rem 1rem}
</style>)";

} // namespace

std::string showNumber(double value, int digits) { return format("%.*f", digits, value); }

std::string escapeHtml(const std::string &text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default: // an untrained model writes control characters
      result +=
          static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\t' ? "\ufffd" : std::string(1, c);
    }
  }
  return result;
}

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

std::string pageStart(const std::string &title) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
         escapeHtml(title) + "</title>\n" + style + "</head>\n<body><h1>" + escapeHtml(title) +
         "</h1>\n";
}

std::string pageEnd() { return "</body></html>\n"; }

void writeRow(std::ostringstream &out, const std::string &name, const std::string &value) {
  out << "<tr><th>" << escapeHtml(name) << "</th><td>" << escapeHtml(value) << "</td></tr>\n";
}

} // namespace sluice::runtime
