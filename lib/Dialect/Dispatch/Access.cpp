// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses and prints accesses; parameters with their default are omitted.
#include "sluice/Dialect/Dispatch/Dispatch.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace sluice::dispatch;

/// Returns the names of d0, d1 and s0: the position (for an index, its value), the row of a group,
/// the valid length.
static SmallVector<std::pair<StringRef, AffineExpr>, 3> getVariables(AccessKind kind,
                                                                     MLIRContext *context) {
  bool isFound = kind == AccessKind::Gather || kind == AccessKind::Range;
  return {{isFound ? "v" : "p", getAffineDimExpr(0, context)},
          {"i", getAffineDimExpr(1, context)},
          {"n", getAffineSymbolExpr(0, context)}};
}

/// Prints `expression` with the names of its variables: "p * 4 + i - 3".
static void printExpression(AsmPrinter &printer, AffineExpr expression, AccessKind kind) {
  std::string text;
  llvm::raw_string_ostream(text) << expression;
  auto variables = getVariables(kind, expression.getContext());
  for (size_t at = 0; at < text.size();) {
    StringRef rest = StringRef(text).drop_front(at);
    size_t length = rest.take_while(llvm::isAlnum).size();
    StringRef word = rest.take_front(std::max<size_t>(length, 1));
    printer << llvm::StringSwitch<StringRef>(word)
                   .Case("d0", variables[0].first)
                   .Case("d1", variables[1].first)
                   .Case("s0", variables[2].first)
                   .Default(word);
    at += word.size();
  }
}

void AccessAttr::print(AsmPrinter &printer) const {
  AffineExpr position = getMap().getValue().getResult(0),
             column = getColumn().getValue().getResult(0);
  printer << '<' << stringifyAccessKind(getKind());
  if (position != getAffineDimExpr(0, getContext())) {
    printer << '[';
    printExpression(printer, position, getKind());
    printer << ']';
  }
  auto printNumber = [&](StringRef name, int64_t number, int64_t ordinary) {
    if (number != ordinary) {
      printer << ", " << name << " = " << number;
    }
  };
  printNumber("group", getGroup(), 1);
  printNumber("factor", getSourceFactor(), 0);
  if (column != getAffineConstantExpr(0, getContext())) {
    printer << ", column = ";
    printExpression(printer, column, AccessKind::Row);
  }
  printNumber("index", getIndex(), -1);
  printNumber("last", getLast(), -1);
  printNumber("list", getList(), -1);
  printNumber("weight", getWeight(), -1);
  printNumber("drawn", getDrawn(), -1);
  if (getSoftmax()) {
    printer << ", softmax = ";
    printer.printAttribute(getSoftmax());
  }
  if (getOutside()) {
    printer << ", outside = ";
    printer.printAttribute(getOutside());
  }
  printer << (getExtended() ? ", extended>" : ">");
}

Attribute AccessAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  SMLoc start = parser.getCurrentLocation();
  FailureOr<AccessKind> kind = failure();
  if (parser.parseLess() || failed(kind = FieldParser<AccessKind>::parse(parser))) {
    return {};
  }
  auto variables = getVariables(*kind, context), ofColumn = getVariables(AccessKind::Row, context);
  AffineExpr position = variables[0].second, column = getAffineConstantExpr(0, context);
  if (succeeded(parser.parseOptionalLSquare()) &&
      (parser.parseAffineExpr(variables, position) || parser.parseRSquare())) {
    return {};
  }
  int64_t group = 1, factor = 0, index = -1, last = -1, list = -1, weight = -1, drawn = -1;
  FloatAttr outside;
  SoftmaxAttr softmax;
  bool isExtended = false;
  // Clears `name` if the parameter is `expected`.
  auto parseNumber = [&](StringRef &name, StringRef expected, int64_t &number) -> ParseResult {
    if (name != expected) {
      return success();
    }
    name = "";
    return failure(parser.parseEqual() || parser.parseInteger(number));
  };
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc place = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parseNumber(name, "group", group) ||
        parseNumber(name, "factor", factor) || parseNumber(name, "index", index) ||
        parseNumber(name, "last", last) || parseNumber(name, "list", list) ||
        parseNumber(name, "weight", weight) || parseNumber(name, "drawn", drawn)) {
      return {};
    }
    if (name == "column") {
      if (parser.parseEqual() || parser.parseAffineExpr(ArrayRef(ofColumn).drop_back(), column)) {
        return {};
      }
    } else if (name == "outside") {
      if (parser.parseEqual() || parser.parseAttribute(outside)) {
        return {};
      }
    } else if (name == "softmax") {
      if (parser.parseEqual() || parser.parseAttribute(softmax)) {
        return {};
      }
    } else if (name == "extended") {
      isExtended = true;
    } else if (!name.empty()) {
      parser.emitError(place, "expected group, factor, column, index, last, list, weight, drawn, "
                              "softmax, outside or extended");
      return {};
    }
  }
  if (parser.parseGreater()) {
    return {};
  }
  unsigned columnDims = column.isFunctionOfDim(1) ? 2 : 1;
  return parser.getChecked<AccessAttr>(
      start, context, *kind, AffineMapAttr::get(AffineMap::get(2, 1, position)), group, factor,
      AffineMapAttr::get(AffineMap::get(columnDims, 0, column)), index, outside, last, isExtended,
      list, weight, drawn, softmax);
}

bool AccessAttr::isIdentity() const {
  AffineMap map = getMap().getValue();
  return getKind() == AccessKind::Row && getGroup() == 1 &&
         map.getResult(0) == getAffineDimExpr(0, map.getContext()) &&
         getColumn().getValue().isSingleConstant() &&
         getColumn().getValue().getSingleConstantResult() == 0;
}
