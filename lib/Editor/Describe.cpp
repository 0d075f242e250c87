// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Describe.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::editor;

namespace {

/// Longer lists are cut, as a hover is read at a glance.
constexpr size_t mostLines = 24;

std::string code(StringRef text) { return ("`" + text + "`").str(); }

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "[" + text + "]";
}

/// Formats 12345678 as "12,345,678".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3;) {
    i -= 3;
    text.insert(i, ",");
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Expanded specs
//===----------------------------------------------------------------------===//

std::vector<Operation *> listStages(spec::ModelOp model) {
  std::vector<Operation *> stages;
  for (Operation &op : model.getBody().getOps()) {
    if (isa<spec::StageInterface>(op)) {
      stages.push_back(&op);
    }
  }
  return stages;
}

StringRef getPath(Operation *op) {
  auto weight = dyn_cast<spec::WeightOp>(op);
  return weight ? weight.getPath() : cast<spec::StageInterface>(op).getPathAttr().getValue();
}

/// Returns true for a stage or weight that belongs to the stage of this path, or to one inside it.
bool isPartOfStage(Operation *op, StringRef stage) {
  StringRef path = getPath(op);
  return path.consume_front(stage) && (path.empty() || path.starts_with("."));
}

std::vector<Operation *> listParts(spec::ModelOp model, StringRef stage) {
  std::vector<Operation *> parts = listStages(model);
  std::erase_if(parts, [&](Operation *op) { return !isPartOfStage(op, stage); });
  return parts;
}

int64_t countElements(spec::WeightOp weight) {
  int64_t elements = 1;
  for (int64_t size : weight.getShape()) {
    elements *= size;
  }
  return elements;
}

/// Returns the stream that a stage computes or cuts or, for a head or a loss, reads.
spec::StreamType getStream(Operation *stage) {
  Type type =
      stage->getNumResults() > 0 ? stage->getResult(0).getType() : stage->getOperand(0).getType();
  auto segments = dyn_cast<spec::SegmentationType>(type);
  return segments ? segments.getStream() : cast<spec::StreamType>(type);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Returns "context", "ceil(context / 4)", or on the axis of an input "context of source".
std::string rowsText(spec::StreamType stream) {
  std::string context = "context";
  if (StringAttr input = stream.getName()) {
    context += " of " + input.str();
  }
  int64_t factor = stream.getFactor();
  return factor == 1 ? context : "ceil(" + context + " / " + std::to_string(factor) + ")";
}

std::string resultText(spec::ModelOp model, Operation *last) {
  int64_t batch = model.getBatch(), context = model.getLength();
  spec::StreamType stream = getStream(last);
  int64_t factor = stream.getFactor(), rows = model.countRows(stream);
  std::string scale = std::to_string(factor);
  if (isa<spec::LossOp, spec::ContrastOp>(last)) {
    return "- reads scale factor " + scale + "\n- result " + code(shapeText({batch, context})) +
           " = [batch, context] nats\n";
  }
  bool isOfSegments = stream.getAxis() == spec::AxisKind::segments;
  if (auto cut = dyn_cast<spec::BoundariesOp>(last)) {
    std::string shape = code(shapeText({batch, rows})) + " = [batch, " + rowsText(stream) + "]";
    std::string segments = isOfSegments ? code(stream.getName().getValue()) : "";
    return "- result " +
           (isOfSegments ? "a bit for each segment of " + segments : shape + " bits") +
           ", at most " + std::to_string(cut.getMostSegments()) + " a row\n";
  }
  if (isOfSegments) {
    return "- rows are the segments of " + code(stream.getName().getValue()) +
           ", as many as each text has\n";
  }
  bool isHead = isa<spec::HeadOp>(last);
  if (isHead && factor > 1) {
    return "- reads scale factor " + scale + "\n- result " +
           code(shapeText({batch, context, model.getVocabulary()})) +
           " = [batch, context, vocabulary]\n";
  }
  int64_t width = isHead ? model.getVocabulary() : stream.getWidth();
  return "- scale factor " + scale + (factor == 1 ? " (one position per token)" : "") +
         "\n- result " + code(shapeText({batch, rows, width})) + " = [batch, " + rowsText(stream) +
         ", " + (isHead ? "vocabulary" : "width") + "]\n";
}

/// Returns " 4" or, with a different window, " 4 window 8".
std::string groupText(int64_t factor, std::optional<int64_t> window) {
  bool isApart = window && *window != factor;
  return " " + std::to_string(factor) + (isApart ? " window " + std::to_string(*window) : "");
}

/// Returns the groups or segments of a shorten or an upsample stage.
template <class Stage> std::string groupText(Stage stage) {
  if (Value segments = stage.getSegments()) {
    return " " + cast<spec::SegmentationType>(segments.getType()).getName().str();
  }
  return groupText(*stage.getFactor(), stage.getWindow());
}

/// Returns "shift 3", "layer".
std::string shortName(Operation *stage) {
  std::string text = stage->getName().stripDialect().str();
  if (auto shift = dyn_cast<spec::ShiftOp>(stage)) {
    return text + " " + std::to_string(shift.getBy());
  }
  if (auto shorten = dyn_cast<spec::ShortenOp>(stage)) {
    return text + groupText(shorten);
  }
  auto upsample = dyn_cast<spec::UpsampleOp>(stage);
  return upsample ? text + groupText(upsample) : text;
}

/// Returns "2 x layer, norm, shift 3, shorten 4, ..."
std::string expansionText(ArrayRef<Operation *> parts) {
  std::string text;
  size_t items = 0;
  for (size_t i = 0; i < parts.size(); ++items) {
    size_t next = i + 1;
    while (next < parts.size() && shortName(parts[next]) == shortName(parts[i]) &&
           getStream(parts[next]).getFactor() == getStream(parts[i]).getFactor()) {
      ++next;
    }
    if (items == mostLines) {
      return text + ", ...";
    }
    text += (text.empty() ? "" : ", ") +
            (next - i > 1 ? std::to_string(next - i) + " x " : std::string()) + shortName(parts[i]);
    i = next;
  }
  return text;
}

std::string weightsText(spec::ModelOp model, StringRef stage) {
  std::string lines;
  int64_t elements = 0;
  size_t count = 0;
  for (auto weight : model.getBody().getOps<spec::WeightOp>()) {
    if (!isPartOfStage(weight, stage)) {
      continue;
    }
    elements += countElements(weight);
    if (count++ < mostLines) {
      lines += "  - " + code(weight.getSymName()) + " " + code(shapeText(weight.getShape())) + "\n";
    }
  }
  if (count == 0) {
    return "- no weights\n";
  }
  std::string more =
      count > mostLines ? "  - and " + std::to_string(count - mostLines) + " more\n" : "";
  return "- " + grouped(elements) + " parameters:\n" + lines + more;
}

} // namespace

std::string editor::describeStage(const ParsedSpec &spec, size_t index) {
  std::vector<Operation *> stages = listStages(spec.getModel());
  if (index >= stages.size()) {
    return "";
  }
  StringRef path = getPath(stages[index]);
  ParsedSpec expanded = spec.expand(0);
  spec::ModelOp model = expanded.getModel();
  std::vector<Operation *> parts = listParts(model, path);
  std::string text = resultText(model, parts.back());
  bool isComposite = getPath(parts.front()) != path;
  if (isComposite) {
    text += "- expands to " + expansionText(parts) + "\n";
  }
  return text + weightsText(model, path);
}

std::string editor::describeKey(const spec::KeyInfo &key) {
  std::string text = "**" + std::string(key.name) + "**: " + std::string(key.meaning) + "\n\n- " +
                     std::string(key.type) + "\n";
  if (!key.words.empty()) {
    std::string values;
    for (std::string_view value : key.words) {
      values += (values.empty() ? "" : ", ") + code(value);
    }
    text += "- values: " + values + "\n";
  }
  bool required = key.otherwise.starts_with("required");
  return text + "- " + (required ? "" : "default: ") + std::string(key.otherwise) + "\n";
}

std::string editor::describeModel(const ParsedSpec &spec) {
  int64_t elements = 0;
  ParsedSpec expanded = spec.expand(0);
  for (auto weight : expanded.getModel().getBody().getOps<spec::WeightOp>()) {
    elements += countElements(weight);
  }
  spec::ModelOp model = spec.getModel();
  return "**" + model.getName()->str() + "**: " + grouped(elements) + " parameters, " +
         std::to_string(listStages(model).size()) + " stages, " + grouped(model.getLength()) +
         " tokens a row\n";
}
