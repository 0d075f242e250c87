// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Describe.h"

using namespace sluice;
using namespace sluice::editor;
using spec::Op;
using spec::Primitive;

namespace {

/// Longer lists are cut: a hover is read at a glance.
constexpr size_t mostLines = 24;

std::string code(const std::string &text) { return "`" + text + "`"; }

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "[" + text + "]";
}

/// 12345678 as "12,345,678".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3;) {
    i -= 3;
    text.insert(i, ",");
  }
  return text;
}

/// A stage's primitive ones: those whose weights are named after it.
std::vector<Primitive> partsOf(const spec::Stage &stage, const std::vector<Primitive> &all) {
  std::vector<Primitive> parts;
  for (const Primitive &primitive : all) {
    if (primitive.prefix == stage.prefix || primitive.prefix.starts_with(stage.prefix + ".")) {
      parts.push_back(primitive);
    }
  }
  return parts;
}

std::string resultText(const spec::Model &model, const Primitive &last) {
  if (last.op() == Op::Loss) {
    return "- reads scale factor " + std::to_string(last.factor) + "\n- result " +
           code(shapeText({model.batch, model.context})) + " = [batch, context] nats\n";
  }
  if (const auto *made = std::get_if<spec::Boundaries>(&last.settings)) {
    return "- result " + code(shapeText({model.batch, model.context})) +
           " = [batch, context] bits, at most " + std::to_string(made->capacity) + " a row\n";
  }
  if (!last.segments.empty()) {
    return "- rows are the segments of " + code(last.segments) + ", as many as each text has\n";
  }
  bool head = last.op() == Op::Head;
  if (head && last.factor > 1) {
    return "- reads scale factor " + std::to_string(last.factor) + "\n- result " +
           code(shapeText({model.batch, model.context, model.vocabulary})) +
           " = [batch, context, vocabulary]\n";
  }
  int64_t length = (model.context + last.factor - 1) / last.factor;
  std::string tokens =
      last.factor == 1 ? "context" : "ceil(context / " + std::to_string(last.factor) + ")";
  std::string shape = shapeText({model.batch, length, head ? model.vocabulary : last.width});
  return "- scale factor " + std::to_string(last.factor) +
         (last.factor == 1 ? " (one position a token)" : "") + "\n- result " + code(shape) +
         " = [batch, " + tokens + ", " + (head ? "vocabulary" : "width") + "]\n";
}

/// " 4", and where the window is another, " 4 window 8"
std::string groupText(int64_t factor, const std::optional<int64_t> &window) {
  bool isApart = window && *window != factor;
  return " " + std::to_string(factor) + (isApart ? " window " + std::to_string(*window) : "");
}

/// "shift 3", "layer"
std::string shortName(const Primitive &primitive) {
  std::string text(spec::name(primitive.op()));
  if (const auto *shift = std::get_if<spec::Shift>(&primitive.settings)) {
    text += " " + std::to_string(shift->by);
  } else if (const auto *shorten = std::get_if<spec::Shorten>(&primitive.settings)) {
    text += shorten->segments.empty() ? groupText(shorten->factor, shorten->window)
                                      : " " + shorten->segments;
  } else if (const auto *upsample = std::get_if<spec::Upsample>(&primitive.settings)) {
    text += upsample->segments.empty() ? groupText(upsample->factor, upsample->window)
                                       : " " + upsample->segments;
  }
  return text;
}

/// "2 x layer, norm, shift 3, shorten 4, ..."
std::string expansionText(const std::vector<Primitive> &parts) {
  std::string text;
  size_t items = 0;
  for (size_t i = 0; i < parts.size(); ++items) {
    size_t next = i + 1;
    while (next < parts.size() && shortName(parts[next]) == shortName(parts[i]) &&
           parts[next].factor == parts[i].factor) {
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

std::string weightsText(const std::vector<spec::Tensor> &tensors,
                        const std::vector<Primitive> &parts) {
  std::string lines;
  int64_t elements = 0;
  size_t count = 0;
  for (const spec::Tensor &tensor : tensors) {
    if (tensor.stage < parts.front().id || tensor.stage > parts.back().id) {
      continue;
    }
    elements += tensor.elements();
    if (count++ < mostLines) {
      lines += "  - " + code(tensor.name) + " " + code(shapeText(tensor.shape)) + "\n";
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

std::string editor::describeStage(const spec::Model &model, size_t index) {
  if (index >= model.stages.size()) {
    return "";
  }
  const spec::Stage &stage = model.stages[index];
  std::vector<Primitive> all = spec::expand(model);
  std::vector<Primitive> parts = partsOf(stage, all);
  if (parts.empty()) {
    return "";
  }
  std::string text = resultText(model, parts.back());
  bool isComposite = stage.op() == Op::Layers || stage.op() == Op::Hourglass ||
                     stage.op() == Op::TopDown || stage.op() == Op::BottomUp ||
                     spec::composedOf(stage.settings);
  if (isComposite) {
    text += "- expands to " + expansionText(parts) + "\n";
  }
  return text + weightsText(spec::tensors(model, all), parts);
}

std::string editor::describeKey(const spec::KeyInfo &key) {
  std::string text = "**" + std::string(key.name) + "**: " + std::string(key.meaning) + "\n\n- " +
                     std::string(key.type) + "\n";
  if (!key.words.empty()) {
    std::string values;
    for (std::string_view value : key.words) {
      values += (values.empty() ? "" : ", ") + code(std::string(value));
    }
    text += "- values: " + values + "\n";
  }
  bool required = key.otherwise.starts_with("required");
  return text + "- " + (required ? "" : "default: ") + std::string(key.otherwise) + "\n";
}

std::string editor::describeModel(const spec::Model &model) {
  return "**" + model.name + "**: " + grouped(spec::parameterCount(model)) + " parameters, " +
         std::to_string(model.stages.size()) + " stages, " + grouped(model.context) +
         " tokens a row\n";
}
