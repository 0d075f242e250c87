// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/NpyHeader.h"

#include "sluice/Support/Text.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string_view>
#include <utility>

namespace sluice::runtime {
namespace {

constexpr std::string_view npyMagic = "\x93NUMPY";
/// NumPy's limit on a header, since Python's parser is slow and recursive.
constexpr size_t longestHeader = 10000;
constexpr int deepest = 64;

struct Problem {
  std::string text;
};

/// A Python literal. Distinguishes only the types that a header may have.
struct Literal {
  enum Kind { String, Integer, Bool, Tuple, Dictionary, Other } kind = Other;
  std::string text;              // the value of a string, in UTF-8
  int64_t number = 0;            // the value of an integer or a bool
  std::vector<Literal> elements; // for a dictionary: key, value, key, ...
  size_t begin = 0, end = 0;     // offsets in the header
};

bool isNamePart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

void appendUtf8(std::string &text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>((0xF0 << (3 - more) & 0xFF) | code >> 6 * more);
  while (more-- > 0) {
    text += static_cast<char>(0x80 | (code >> 6 * more & 0x3F));
  }
}

/// Checks for digits of a base with single underscores between them.
bool isDigits(std::string_view text, int base) {
  bool isAfterDigit = false;
  for (char c : text) {
    int digit = c >= '0' && c <= '9' ? c - '0' : std::tolower(c) - 'a' + 10;
    bool isDigit = std::isalnum(static_cast<unsigned char>(c)) != 0 && digit < base;
    if (!isDigit && (c != '_' || !isAfterDigit)) {
      return false;
    }
    isAfterDigit = isDigit;
  }
  return isAfterDigit;
}

/// Returns the base of a Python integer, and its digits; base 0 if the text is not an integer.
std::pair<int, std::string_view> splitInteger(std::string_view token) {
  if (token.size() > 2 && token[0] == '0') {
    int mark = std::tolower(token[1]);
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    std::string_view digits = token.substr(token[2] == '_' ? 3 : 2);
    if (base != 0) {
      return {isDigits(digits, base) ? base : 0, digits};
    }
  }
  bool isZero = token.find_first_not_of("0_") == std::string_view::npos;
  bool isInteger = isDigits(token, 10) && (token[0] != '0' || isZero);
  return {isInteger ? 10 : 0, token};
}

bool isFloat(std::string_view token) {
  size_t mark = token.find_first_of("eE");
  if (mark != std::string_view::npos) {
    std::string_view power = token.substr(mark + 1);
    power.remove_prefix(power.starts_with('+') || power.starts_with('-') ? 1 : 0);
    if (!isDigits(power, 10)) {
      return false;
    }
    token = token.substr(0, mark);
  }
  size_t dot = token.find('.');
  std::string_view whole = token.substr(0, dot),
                   part = dot == std::string_view::npos ? "" : token.substr(dot + 1);
  return (whole.empty() || isDigits(whole, 10)) && (part.empty() || isDigits(part, 10)) &&
         whole.size() + part.size() > 0;
}

/// Reads one expression as `ast.literal_eval` does. Python's complex numbers, `...`, `set()` and
/// characters by name are rejected, as no header needs them.
class LiteralReader {
public:
  /// `isOld`: integers may end in L, as Python 2 wrote them.
  LiteralReader(std::string_view text, bool isOld, bool isLatin1)
      : text(text), isOld(isOld), isLatin1(isLatin1) {}

  Literal readAll() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) {
      ++at;
    }
    skipSpace(); // empty lines and comments; the expression after them must not be indented
    if (at > 0 && text.find('\n') < at && (text[at - 1] == ' ' || text[at - 1] == '\t')) {
      fail("indented text");
    }
    Literal literal = read();
    depth = 0;
    skipSpace();
    if (at != text.size()) {
      fail("text after the dictionary");
    }
    return literal;
  }

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw Problem{what + " at byte " + std::to_string(at) + " of the header"};
  }
  bool accept(char c) {
    skipSpace();
    bool isThere = at < text.size() && text[at] == c;
    at += isThere ? 1 : 0;
    return isThere;
  }
  void skipSpace() {
    while (at < text.size()) {
      std::string_view rest = text.substr(at);
      if (std::string_view(" \t\r\n\f").find(rest[0]) != std::string_view::npos) {
        ++at;
      } else if (rest[0] == '#') {
        at = std::min(text.find('\n', at), text.size());
      } else if (rest.starts_with("\\\n")) {
        at += 2;
      } else {
        return;
      }
    }
  }

  Literal read() {
    if (++depth > deepest) {
      fail("literals that nest more than " + std::to_string(deepest) + " deep");
    }
    skipSpace();
    size_t begin = at;
    char c = at < text.size() ? text[at] : '\0';
    Literal literal;
    if (c == '{') {
      literal = readBraces();
    } else if (c == '(' || c == '[') {
      literal = readList(c == '(' ? ')' : ']');
    } else if (c == '\'' || c == '"') {
      literal = readStrings("");
    } else if (c == '-' || c == '+') {
      ++at;
      skipSpace();
      literal = readNumber();
      literal.number *= c == '-' ? -1 : 1;
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') {
      literal = readNumber();
    } else {
      literal = readName();
    }
    literal.begin = begin;
    literal.end = at;
    --depth;
    return literal;
  }

  /// Parses a dictionary or a set.
  Literal readBraces() {
    Literal literal;
    literal.kind = Literal::Dictionary;
    ++at;
    bool hasComma = false;
    while (!accept('}')) {
      bool isFirst = literal.elements.empty();
      if (!isFirst && !hasComma) {
        fail("no comma or brace");
      }
      literal.elements.push_back(read());
      bool isPair = accept(':');
      if (isFirst && !isPair) {
        literal.kind = Literal::Other;
      }
      if (isPair != (literal.kind == Literal::Dictionary)) {
        fail("a key without a value, or a value without a key");
      }
      if (isPair) {
        literal.elements.push_back(read());
      }
      hasComma = accept(',');
    }
    return literal;
  }

  /// Parses a tuple, a list, or one expression in parentheses.
  Literal readList(char close) {
    Literal literal;
    literal.kind = close == ')' ? Literal::Tuple : Literal::Other;
    ++at;
    bool hasComma = false;
    while (!accept(close)) {
      if (!literal.elements.empty() && !hasComma) {
        fail("no comma or closing bracket");
      }
      literal.elements.push_back(read());
      hasComma = accept(',');
    }
    if (close == ')' && literal.elements.size() == 1 && !hasComma) {
      Literal inner = std::move(literal.elements.front());
      return inner;
    }
    return literal;
  }

  Literal readNumber() {
    size_t begin = at;
    while (at < text.size() && (isNamePart(text[at]) || text[at] == '.' ||
                                ((text[at] == '+' || text[at] == '-') && at > begin &&
                                 (text[at - 1] == 'e' || text[at - 1] == 'E')))) {
      ++at;
    }
    std::string_view token = text.substr(begin, at - begin);
    if (isOld && token.ends_with('L')) {
      token.remove_suffix(1);
    } else if (isOld && !token.empty()) {
      size_t before = at;
      if (!accept('L') || (at < text.size() && isNamePart(text[at]))) {
        at = before;
      }
    }
    Literal literal;
    auto [base, digits] = token.empty() ? std::pair(0, token) : splitInteger(token);
    if (base == 0) {
      if (token.empty() || !isFloat(token)) {
        at = begin;
        fail("no literal");
      }
      return literal;
    }
    literal.kind = Literal::Integer;
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    for (char c : digits) {
      if (c != '_') {
        int digit = c <= '9' ? c - '0' : std::tolower(c) - 'a' + 10;
        literal.number =
            literal.number > (most - digit) / base ? most : literal.number * base + digit;
      }
    }
    return literal;
  }

  Literal readName() {
    size_t begin = at;
    while (at < text.size() && isNamePart(text[at])) {
      ++at;
    }
    std::string name(text.substr(begin, at - begin));
    if (at < text.size() && (text[at] == '\'' || text[at] == '"')) {
      std::ranges::transform(name, name.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (name == "r" || name == "u" || name == "b" || name == "br" || name == "rb") {
        return readStrings(name);
      }
    }
    Literal literal;
    if (name == "True" || name == "False") {
      literal.kind = Literal::Bool;
      literal.number = name == "True" ? 1 : 0;
    } else if (name != "None") {
      at = begin;
      fail("no literal");
    }
    return literal;
  }

  /// Parses a string. Adjacent strings are concatenated.
  Literal readStrings(std::string prefix) {
    Literal literal;
    bool areBytes = prefix.find('b') != std::string::npos;
    literal.kind = areBytes ? Literal::Other : Literal::String;
    while (true) {
      readString(prefix.find('r') != std::string::npos, areBytes, literal.text);
      size_t before = at;
      skipSpace();
      prefix.clear();
      while (at < text.size() && prefix.size() < 2 &&
             std::isalpha(static_cast<unsigned char>(text[at])) != 0) {
        prefix += static_cast<char>(std::tolower(text[at++]));
      }
      bool isPrefix = prefix.empty() || prefix == "r" || prefix == "u" || prefix == "b" ||
                      prefix == "br" || prefix == "rb";
      if (!isPrefix || at == text.size() || (text[at] != '\'' && text[at] != '"')) {
        at = before;
        return literal;
      }
      if ((prefix.find('b') != std::string::npos) != areBytes) {
        fail("bytes next to a string");
      }
    }
  }

  void readString(bool isRaw, bool areBytes, std::string &into) {
    std::string_view quote = text.substr(at, 1);
    std::string tripled = std::string(3, quote[0]);
    bool isLong = text.substr(at).starts_with(tripled);
    quote = isLong ? std::string_view(tripled) : quote;
    for (at += quote.size(); !text.substr(at).starts_with(quote);) {
      if (at >= text.size() || (text[at] == '\n' && !isLong)) {
        fail("a string without an end");
      }
      char c = text[at];
      if (c == '\\' && !isRaw) {
        readEscape(areBytes, into);
        continue;
      }
      if (c == '\\' && at + 1 < text.size()) { // raw: both characters stay, even for a quote
        into += c;
        c = text[++at];
      }
      appendUtf8OrByte(c, into);
      ++at;
    }
    at += quote.size();
  }

  void appendUtf8OrByte(char c, std::string &into) const {
    if (isLatin1) {
      appendUtf8(into, static_cast<unsigned char>(c));
    } else {
      into += c;
    }
  }

  void readEscape(bool areBytes, std::string &into) {
    constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
    char c = at + 1 < text.size() ? text[at + 1] : '\0';
    if (at + 1 >= text.size()) {
      fail("a string without an end");
    }
    at += 2;
    if (size_t known = from.find(c); known != std::string_view::npos) {
      into += to[known];
    } else if (c == '\n') { // the line continues
    } else if (c >= '0' && c <= '7') {
      uint32_t code = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i) {
        code = code * 8 + static_cast<uint32_t>(text[at++] - '0');
      }
      appendUtf8(into, code);
    } else if (c == 'x' || (!areBytes && (c == 'u' || c == 'U'))) {
      size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      std::string_view digits = text.substr(at, count);
      bool isHex = digits.size() == count && std::ranges::all_of(digits, [](unsigned char d) {
                     return std::isxdigit(d) != 0;
                   });
      uint64_t code = isHex ? std::stoull(std::string(digits), nullptr, 16) : 0;
      if (!isHex || code > 0x10FFFF) {
        fail("an escape without its digits");
      }
      appendUtf8(into, static_cast<uint32_t>(code));
      at += count;
    } else if (c == 'N' && !areBytes) {
      fail("a character by its name");
    } else { // not an escape
      into += '\\';
      --at;
    }
  }

  std::string_view text;
  bool isOld, isLatin1;
  size_t at = 0;
  int depth = 0;
};

/// Returns the header's text, and sets the offset of the numbers.
std::string_view cutText(std::span<const uint8_t> file, size_t &start) {
  if (!isNpy(file) || file.size() < npyMagic.size() + 2) {
    throw Problem{"no .npy file"};
  }
  int major = file[6], minor = file[7];
  if (major < 1 || major > 3 || minor != 0) {
    throw Problem{"version " + std::to_string(major) + "." + std::to_string(minor) +
                  " of the format, where 1.0, 2.0 and 3.0 are known"};
  }
  size_t prefix = major == 1 ? 10 : 12, length = 0;
  if (file.size() < prefix) {
    throw Problem{"a header that is cut short"};
  }
  for (size_t i = prefix; i-- > 8;) {
    length = length << 8 | file[i];
  }
  if (length > file.size() - prefix) {
    throw Problem{"a header that is cut short"};
  }
  start = prefix + length;
  return {reinterpret_cast<const char *>(file.data()) + prefix, length};
}

/// Normalizes line ends as Python does.
std::string normalize(std::string_view text) {
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    bool isPair = text.substr(i).starts_with("\r\n");
    i += isPair ? 1 : 0;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  return lines;
}

void checkText(std::string_view text, bool isUtf8) {
  size_t characters = text.size();
  if (isUtf8) {
    CharacterCount count = countCharacters(text, 0, text.size());
    if (count.invalid) {
      throw Problem{"a header that is not UTF-8"};
    }
    characters = static_cast<size_t>(count.characters);
  }
  if (characters > longestHeader) {
    throw Problem{"a header of more than " + std::to_string(longestHeader) + " characters"};
  }
  if (text.find('\0') != std::string_view::npos) {
    throw Problem{"a header with a byte 0"};
  }
}

void readMembers(const Literal &dictionary, std::string_view text, NpyHeader &header) {
  const Literal *type = nullptr, *order = nullptr, *shape = nullptr;
  for (size_t i = 0; i + 1 < dictionary.elements.size(); i += 2) {
    const Literal &key = dictionary.elements[i], *value = &dictionary.elements[i + 1];
    bool isString = key.kind == Literal::String;
    const Literal **member = !isString                     ? nullptr
                             : key.text == "descr"         ? &type
                             : key.text == "fortran_order" ? &order
                             : key.text == "shape"         ? &shape
                                                           : nullptr;
    if (member == nullptr) {
      throw Problem{"a header with the key " +
                    quote(isString ? key.text : text.substr(key.begin, key.end - key.begin))};
    }
    *member = value;
  }
  for (auto [member, name] :
       {std::pair(type, "descr"), {order, "fortran_order"}, {shape, "shape"}}) {
    if (member == nullptr) {
      throw Problem{std::string("a header without the key \"") + name + "\""};
    }
  }
  if (order->kind != Literal::Bool) {
    throw Problem{"a \"fortran_order\" that is neither True nor False"};
  }
  bool areIntegers =
      shape->kind == Literal::Tuple && std::ranges::all_of(shape->elements, [](const Literal &l) {
        return l.kind == Literal::Integer || l.kind == Literal::Bool;
      });
  if (!areIntegers) {
    throw Problem{"a \"shape\" that is not a tuple of integers"};
  }
  header.isText = type->kind == Literal::String;
  header.type = header.isText ? type->text : text.substr(type->begin, type->end - type->begin);
  header.fortranOrder = order->number != 0;
  for (const Literal &size : shape->elements) {
    header.shape.push_back(size.number);
  }
}

} // namespace

bool isNpy(std::span<const uint8_t> file) {
  return file.size() >= npyMagic.size() &&
         std::equal(npyMagic.begin(), npyMagic.end(), file.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

NpyHeader parseNpyHeader(std::span<const uint8_t> file) {
  NpyHeader header;
  try {
    std::string_view bytes = cutText(file, header.start);
    int version = file[6];
    checkText(bytes, version == 3);
    std::string text = normalize(bytes);
    Literal dictionary = LiteralReader(text, version < 3, version < 3).readAll();
    if (dictionary.kind != Literal::Dictionary) {
      throw Problem{"a header that is not a dictionary"};
    }
    readMembers(dictionary, text, header);
  } catch (const Problem &problem) {
    header.problem = problem.text;
  }
  return header;
}

/// Checks for one of the names of a type. `codes` may follow a mark of little-endian order.
static bool hasType(const NpyHeader &header, std::initializer_list<std::string_view> names,
                    std::initializer_list<std::string_view> codes) {
  std::string_view name = header.type;
  if (!header.isText || std::ranges::find(names, name) != names.end()) {
    return header.isText;
  }
  if (!name.empty() && std::string_view("<=|").find(name[0]) != std::string_view::npos) {
    name.remove_prefix(1);
  }
  return std::ranges::find(codes, name) != codes.end();
}

bool NpyHeader::isF32() const { return hasType(*this, {"float32", "single"}, {"f4", "f"}); }
bool NpyHeader::isUint16() const { return hasType(*this, {"uint16", "ushort"}, {"u2", "H"}); }
bool NpyHeader::isInt32() const { return hasType(*this, {"int32", "intc"}, {"i4", "i"}); }

std::string NpyHeader::showShape() const {
  std::string text;
  for (int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

} // namespace sluice::runtime
