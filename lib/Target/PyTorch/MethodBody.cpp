// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MethodBody.h"
#include "Attention.h"
#include "Helpers.h"
#include "Ops.h"
#include "Scalar.h"
#include "Segments.h"
#include "sluice/Dialect/Sluice/Origin.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::pytorch;

std::string pytorch::toIdentifier(StringRef name) {
  std::string text;
  for (char c : name) {
    text += llvm::isAlnum(c) ? c : '_';
  }
  // Lengths such as n4, intermediate results such as t0, and counts such as source_count.
  StringRef number = StringRef(text).drop_front(text.empty() ? 0 : 1);
  bool isNumbered = (text.starts_with("n") || text.starts_with("t")) && !number.empty() &&
                    llvm::all_of(number, llvm::isDigit);
  bool isBad = text.empty() || llvm::isDigit(text.front()) || isNumbered ||
               StringRef(text).ends_with("_count");
  // Keywords of Python, and names that exported files use.
  static const std::set<std::string> taken{
      "False",      "None",     "True",     "and",    "as",     "assert", "async",  "await",
      "break",      "class",    "continue", "def",    "del",    "elif",   "else",   "except",
      "finally",    "for",      "from",     "global", "if",     "import", "in",     "is",
      "lambda",     "nonlocal", "not",      "or",     "pass",   "raise",  "return", "try",
      "while",      "with",     "yield",    "self",   "tokens", "means",  "torch",  "math",
      "ValueError", "nn",       "F",        "B",      "n",      "w"};
  return isBad || taken.contains(text) || isHelper(text) ? "x_" + text : text;
}

void MethodBody::use(StringRef helper) { addHelper(names.helpers, helper); }

std::string pytorch::escapeText(StringRef text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\\' || c == '"') {
      escaped += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      escaped +=
          "\\x" + llvm::utohexstr(static_cast<unsigned char>(c), /*LowerCase=*/true, /*Width=*/2);
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string FileNames::getInputId(StringRef name) {
  std::string &id = inputIds[name];
  if (id.empty()) {
    std::string base = toIdentifier(name);
    id = base;
    for (int count = 2; !taken.insert(id).second; ++count) {
      id = base + "_" + std::to_string(count);
    }
  }
  return id;
}

void FileNames::addArgument(const std::string &id, const std::string &what) {
  if (llvm::none_of(inputs, [&](const auto &input) { return input.first == id; })) {
    inputs.emplace_back(id, what);
  }
}

std::string FileNames::addInput(StringRef name, const std::string &what) {
  std::string id = getInputId(name);
  addArgument(id, what);
  return id;
}

std::string FileNames::addBuckets() {
  addArgument(bucketsArgument.str(),
              "a dict from stages to int [B, rows, hashes], the buckets of LSH attention; "
              "computed if left out");
  return bucketsArgument.str();
}

void MethodBody::reject(Operation *op, const std::string &what) {
  StringRef stage = getOriginStage(op);
  names.reject((stage.empty() ? "" : stage.str() + ": ") +
               "expected an op with a printer for PyTorch, found " +
               op->getName().getStringRef().str() + what);
}

std::string MethodBody::addName(Operation *op, StringRef fallback) {
  StringRef part = fallback.empty() ? getOriginPart(op) : fallback;
  std::string base = toIdentifier(part.empty() ? op->getName().stripDialect() : part);
  std::string name;
  do {
    int count = ++names.uses[base];
    name = count == 1 ? base : base + "_" + std::to_string(count);
  } while (!names.taken.insert(name).second);
  return name;
}

/// Breaks a long statement after the arguments of its first call.
static std::string wrap(const std::string &text) {
  constexpr size_t most = 92; // and the indent of a method
  size_t open = text.find('(');
  if (text.size() <= most || open == std::string::npos || text.find('\n') != std::string::npos) {
    return text;
  }
  std::string wrapped = text.substr(0, open + 1) + "\n           ", part;
  size_t used = 0;
  auto add = [&] {
    if (used > 0 && used + part.size() > most - 4) {
      wrapped += "\n           ";
      used = 0;
    }
    wrapped += (part.front() == ' ' ? "" : " ") + part;
    used += part.size();
    part.clear();
  };
  int depth = 0;
  for (char c : text.substr(open + 1)) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    part += c;
    if (c == ',' && depth == 0) {
      add();
    }
  }
  add();
  return wrapped;
}

void MethodBody::line(const std::string &text) { text_ += "        " + wrap(text) + "\n"; }

std::string MethodBody::getName(Value value) {
  auto found = names.values.find(value);
  if (found == names.values.end()) {
    reject(value.getDefiningOp(), ", whose result number " +
                                      std::to_string(cast<OpResult>(value).getResultNumber()) +
                                      " is used");
    return "None";
  }
  if (!own.contains(value) && !isa<BlockArgument>(value)) {
    foreign.insert(value);
  }
  return found->second;
}

std::string MethodBody::printWeight(StringRef name) {
  if (stage.empty() || !name.consume_front(stage + ".")) {
    return "self.get_weight(\"" + name.str() + "\")";
  }
  if (stageStart) {
    text_.insert(*stageStart, "        w = self.get_weights(\"" + stage + "\")\n");
    stageStart.reset();
  }
  return "w(\"" + name.str() + "\")";
}

std::string MethodBody::readParameter(Value value) {
  auto read = value.getDefiningOp<ReadOp>();
  if (!read) {
    reject(value.getDefiningOp(), " as the source of a parameter");
    return "None";
  }
  auto parameter = module.lookupSymbol<ParameterOp>(read.getParameter());
  std::string text;
  for (Attribute name : parameter.getNames()) {
    text += (text.empty() ? "" : ", ") + printWeight(cast<StringAttr>(name).getValue());
  }
  text = parameter.getNames().size() > 1 ? "torch.cat((" + text + "))" : text;
  if (cast<RankedTensorType>(value.getType()).getElementType().isBF16()) {
    use("bf16");
    text = "bf16(" + text + ")";
  }
  return text;
}

std::string MethodBody::readLazy(Value value, StringRef null) {
  std::string fill = null.empty() ? "" : ", null=" + null.str();
  if (auto shift = value.getDefiningOp<ShiftOp>()) {
    use("shift");
    return "shift(" + readLazy(shift.getInput(), null) + ", " +
           std::to_string(static_cast<int64_t>(shift.getBy())) + fill + ")";
  }
  if (auto upsample = value.getDefiningOp<UpsampleOp>()) {
    return readLazy(upsample.getInput(), null) + ".repeat_interleave(" +
           std::to_string(upsample.getFactor()) + ", 1)";
  }
  if (auto unfold = value.getDefiningOp<UnfoldOp>()) {
    return readLazy(unfold.getInput(), null) + ".unflatten(2, (" +
           std::to_string(unfold.getFactor()) + ", -1)).flatten(1, 2)";
  }
  return getName(value);
}

std::string MethodBody::read(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value); argument && targets > 0) {
    return getName(value) +
           (argument.getArgNumber() == 0 ? "[:, :-" + std::to_string(targets) + "]" : "");
  }
  if (!isa_and_nonnull<ShiftOp, UpsampleOp, UnfoldOp>(value.getDefiningOp())) {
    return getName(value);
  }
  use("fit_rows");
  std::string text = "fit_rows(" + readLazy(value) + ", " + getLength(value) + ")";
  return text;
}

std::string MethodBody::getBatch() {
  usesBatch = true;
  return "B";
}

std::string MethodBody::getLength(Value sequence) {
  auto type = cast<SequenceType>(sequence.getType());
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(module, type.getScale());
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(module, scale.getAxisAttr());
  int64_t factor = scale.getFactor();
  if (axis.getSegments()) {
    return std::to_string(getPositions(module, type));
  }
  if (factor == 0) {
    return "1";
  }
  if (axis.getCapacity()) {
    std::string name = names.getInputId(axis.getSymName());
    return factor == 1 ? name + ".shape[1]"
                       : "-(-" + name + ".shape[1] // " + std::to_string(factor) + ")";
  }
  usesLength = true;
  if (factor == 1) {
    return "n";
  }
  lengths[factor] = "n" + std::to_string(factor);
  return lengths[factor];
}

std::string MethodBody::getCount(Value sequence) {
  auto type = cast<SequenceType>(sequence.getType());
  if (!isGiven(module, type)) {
    return "None";
  }
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(module, type.getScale());
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(module, scale.getAxisAttr());
  std::string count;
  if (axis.getSegments()) {
    for (const auto &[value, name] : names.values) {
      auto segment = value.getDefiningOp<SegmentOp>();
      bool isOfAxis =
          segment && value == segment.getCounts() &&
          getAxisName(module, cast<SequenceType>(segment.getEnds().getType())) == axis.getSymName();
      if (isOfAxis) {
        count = getName(value) + "[:, -1]";
      }
    }
  } else {
    std::string name = names.getInputId(axis.getSymName());
    counts[name] = "(" + name + " >= 0).sum(1)";
    count = name + "_count";
  }
  int64_t factor = scale.getFactor();
  return factor == 1 ? count : "-(-" + count + " // " + std::to_string(factor) + ")";
}

void MethodBody::define(Value result, const std::string &expression, bool isRounded) {
  std::string name = addName(result.getDefiningOp());
  names.values[result] = name;
  own.insert(result);
  bool isBf16 = cast<SequenceType>(result.getType()).getElement().isBF16();
  if (isBf16 && !isRounded) {
    use("bf16");
  }
  line(name + " = " + (isBf16 && !isRounded ? "bf16(" + expression + ")" : expression));
}

void MethodBody::defineAll(ValueRange results, const std::string &expression) {
  SmallVector<std::string> list;
  for (Value result : results) {
    Operation *op = result.getDefiningOp();
    list.push_back(isa<SegmentOp>(op) ? addName(op, list.empty() ? "counts" : "ends")
                                      : addName(op));
    names.values[result] = list.back();
    own.insert(result);
  }
  line(llvm::join(list, ", ") + (list.size() == 1 ? "," : "") + " = " + expression);
}

std::string MethodBody::printFunction(Operation *op, Region &region,
                                      ArrayRef<std::string> arguments, StringRef name,
                                      bool isTuple) {
  Operation *unknown = nullptr;
  ScalarCode code = printScalar(region, arguments, {}, unknown);
  if (unknown) {
    reject(op, " with " + unknown->getName().getStringRef().str());
    return "None";
  }
  std::string list = llvm::join(arguments, ", ");
  std::string result = llvm::join(code.results, ", ");
  result = isTuple ? "(" + result + (code.results.size() == 1 ? ",)" : ")") : result;
  if (code.statements.empty()) {
    return "lambda " + list + ": " + result;
  }
  std::string function = addName(op, name);
  line("def " + function + "(" + list + "):");
  for (const std::string &statement : code.statements) {
    line("    " + statement);
  }
  line("    return " + result);
  return function;
}

void MethodBody::printOp(Operation *op) {
  if (isa<ReadOp>(op)) {
    return; // printed where it is used
  }
  bool isLazy = isa<ShiftOp, UpsampleOp, UnfoldOp>(op);
  StringRef origin = getOriginStage(op);
  if (!origin.empty() && origin != stage) {
    stage = origin.str();
    line("# " + stage +
         (isLazy ? ": its " + op->getName().stripDialect().str() + " is printed where it is read"
                 : ""));
    stageStart = text_.size();
  }
  if (isLazy) {
    return;
  }
  if (!printRows(*this, op) && !printAttention(*this, op) && !printSegments(*this, op)) {
    reject(op, "");
  }
}

void MethodBody::print(ArrayRef<Operation *> ops) {
  for (Operation *op : ops) {
    for (Value result : op->getResults()) {
      own.insert(result);
    }
    printOp(op);
    if (!names.mistake.empty()) {
      return;
    }
  }
}

std::string MethodBody::finish() const {
  std::string header;
  auto add = [&](const std::string &text) { header += "        " + text + "\n"; };
  if (usesBatch) {
    add("B = tokens.shape[0]");
  }
  if (usesLength) {
    add("n = tokens.shape[1]" + (targets == 0 ? "" : " - " + std::to_string(targets)));
  }
  for (const auto &[factor, name] : lengths) {
    add(name + " = -(-n // " + std::to_string(factor) + ")");
  }
  for (const auto &[name, count] : counts) {
    add(name + "_count = " + count);
  }
  return header + text_;
}
