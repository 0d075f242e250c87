// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of rows and scales, and losses.
#include "Ops.h"
#include "Scalar.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::pytorch;

static std::string quote(StringRef text) { return "\"" + escapeText(text) + "\""; }

static bool isBf16(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType().isBF16();
}

/// Returns x W^T + b, whose factors are rounded as the weight is.
static std::string printProduct(MethodBody &body, Value input, Value weight, Value bias) {
  std::string rows = body.read(input);
  bool isStoredWide = cast<SequenceType>(input.getType()).getElement().isF32();
  if (isBf16(weight) && isStoredWide) {
    body.use("bf16");
    rows = "bf16(" + rows + ")";
  }
  return "F.linear(" + rows + ", " + body.readParameter(weight) +
         (bias ? ", " + body.readParameter(bias) : "") + ")";
}

static void print(MethodBody &body, NormOp op) {
  std::string width = std::to_string(cast<SequenceType>(op.getInput().getType()).getWidth());
  std::string epsilon = printNumber(op.getEpsilon()), gain = body.readParameter(op.getGain());
  std::string bias = op.getBias() ? body.readParameter(op.getBias()) : "";
  if (op.getRms()) {
    body.define(op.getResult(), "F.rms_norm(" + body.read(op.getInput()) + ", (" + width + ",), " +
                                    gain + ", " + epsilon + ")" +
                                    (bias.empty() ? "" : " + " + bias));
    return;
  }
  body.define(op.getResult(), "F.layer_norm(" + body.read(op.getInput()) + ", (" + width + ",), " +
                                  gain + ", " + (bias.empty() ? "None" : bias) + ", " + epsilon +
                                  ")");
}

/// Returns the function of torch that an expression of x computes; empty if there is none.
static std::string findActivation(const std::string &expression) {
  return llvm::StringSwitch<std::string>(expression)
      .Case("x * 0.5 * (torch.tanh((x + x * x * x * 0.044715) * 0.7978846) + 1.0)",
            "F.gelu(x, approximate=\"tanh\")")
      .Case("x * 0.5 * (torch.erf(x * 0.70710677) + 1.0)", "F.gelu(x)")
      .Case("x.clamp(min=0.0)", "F.relu(x)")
      .Case("x / (torch.exp(-x) + 1.0)", "F.silu(x)")
      .Case("1.0 / (torch.exp(-x) + 1.0)", "torch.sigmoid(x)")
      .Default("");
}

static void print(MethodBody &body, MapOp op) {
  SmallVector<std::string> arguments;
  for (Value input : op.getInputs()) {
    arguments.push_back(body.read(input));
  }
  SequenceType type = op.getResult().getType();
  std::string length = body.getLength(op.getResult());
  ScalarPlaces places{"torch.arange(" + length + ", device=tokens.device)" +
                          (type.getWidth() == 0 ? "" : "[:, None]"),
                      "torch.arange(" + std::to_string(type.getWidth()) +
                          ", device=tokens.device)"};
  Operation *unknown = nullptr;
  if (arguments.size() == 1) {
    std::string x = "x";
    ScalarCode code = printScalar(op.getBody(), x, places, unknown);
    std::string activation =
        !unknown && code.statements.empty() ? findActivation(code.results.front()) : "";
    if (!activation.empty()) {
      size_t at = activation.find("(x") + 1;
      body.define(op.getResult(), activation.replace(at, 1, arguments.front()));
      return;
    }
  }
  ScalarCode code = printScalar(op.getBody(), arguments, places, unknown);
  if (unknown) {
    body.reject(op, " with " + unknown->getName().getStringRef().str());
    return;
  }
  if (code.usesStraightThrough) {
    body.use("straight_through");
  }
  for (const std::string &statement : code.statements) {
    body.line(statement);
  }
  std::string text = code.results.front();
  if (code.isNumber || op.getInputs().empty()) {
    std::string shape = "(" + body.getBatch() + ", " + length +
                        (type.getWidth() == 0 ? "" : ", " + std::to_string(type.getWidth())) + ")";
    text = code.isNumber ? "torch.full(" + shape + ", " + text + ", device=tokens.device)"
                         : "(" + text + ").expand" + shape;
  }
  body.define(op.getResult(), text);
}

static std::string printWindows(MethodBody &body, StringRef helper, Value input, Value result,
                                int64_t factor, int64_t window, StringRef null = "") {
  body.use(helper);
  return helper.str() + "(" + body.readLazy(input, null) + ", " + body.getLength(result) + ", " +
         std::to_string(factor) + ", " + std::to_string(window == 0 ? factor : window) + ")";
}

static void print(MethodBody &body, ShortenOp op) {
  int64_t factor = op.getFactor(), window = op.getWindow();
  if (op.getMask() || !(op.isSum() || op.isMax())) {
    body.reject(op, op.getMask() ? " with a mask" : " with a combiner that is no sum or maximum");
    return;
  }
  std::string text =
      op.isMax() ? printWindows(body, "max_windows", op.getInput(), op.getResult(), factor, window,
                                "-math.inf")
                 : printWindows(body, "windows", op.getInput(), op.getResult(), factor, window) +
                       (op.getMean() ? ".mean(2)" : ".sum(2)");
  body.define(op.getResult(), text);
}

/// Adds the targets of a loss as an argument. Returns its name.
static std::string addDistributions(MethodBody &body, StringRef target) {
  return body.getNames().addInput(target, "float [B, rows, vocabulary]: the distributions \"" +
                                              escapeText(target) +
                                              "\" that a loss is scored against");
}

static void print(MethodBody &body, CrossEntropyOp op) {
  if (isa<SequenceType>(op.getWeight().getType())) { // the losses of another op
    body.define(op.getLosses(), body.read(op.getWeight()));
    return;
  }
  std::string logits = printProduct(body, op.getInput(), op.getWeight(), op.getBias());
  std::string first = op.getFirst() == 0 ? "" : ", first=" + std::to_string(op.getFirst());
  if (!op.getTarget().empty()) {
    body.use("soft_cross_entropy");
    std::string target = addDistributions(body, op.getTarget());
    body.define(op.getLosses(), "soft_cross_entropy(" + logits + ", " + target + first + ")");
    return;
  }
  body.use("cross_entropy");
  float smoothing = op.getSmoothing().convertToFloat();
  body.define(op.getLosses(),
              "cross_entropy(" + logits + ", tokens, " + std::to_string(op.getOffset()) + first +
                  (smoothing == 0 ? "" : ", smoothing=" + printNumber(op.getSmoothing())) + ")");
}

static void print(MethodBody &body, SoftLossOp op) {
  std::string target = addDistributions(body, op.getTarget());
  body.use("soft_cross_entropy");
  body.define(op.getLosses(),
              "soft_cross_entropy(" + body.read(op.getLogits()) + ", " + target +
                  (op.getFirst() == 0 ? "" : ", first=" + std::to_string(op.getFirst())) + ")");
}

static void print(MethodBody &body, ObjectiveOp op) {
  StringRef mean = op.getPadded() ? "mean_line_loss" : "mean_loss";
  body.use(mean);
  std::string sum;
  body.line("means = {");
  for (auto [i, losses] : llvm::enumerate(op.getLosses())) {
    std::string name = cast<StringAttr>(op.getNames()[i]).str(), weights;
    StringRef input = op.getWeights() ? cast<StringAttr>((*op.getWeights())[i]).getValue() : "";
    weights = input.empty() ? "" : body.getNames().getInputId(input);
    for (auto counted : op->getBlock()->getOps<WeightSumOp>()) {
      if (!input.empty() && counted.getName() == input) {
        weights = body.read(counted.getWeights());
      }
    }
    int64_t first = op.getFirst()[i];
    body.line("    " + quote(name) + ": " + mean.str() + "(" + body.read(losses) +
              (op.getPadded() ? ", tokens" : "") +
              (first == 0 ? "" : ", first=" + std::to_string(first)) +
              (weights.empty() ? "" : ", weights=" + weights) + "),");
    double factor = op.getFactors()[i];
    sum += (sum.empty() ? "" : " + ") + (factor == 1 ? "" : printNumber(APFloat(factor)) + " * ") +
           "means[" + quote(name) + "]";
  }
  body.line("}");
  body.line("return " + sum + ", means");
}

static void print(MethodBody &body, CountedRowsOp op) {
  body.use("counted_rows");
  body.define(op.getResult(),
              "counted_rows(" + body.getBatch() + ", " + body.getLength(op.getResult()) + ", " +
                  std::to_string(op.getFirst()) + ", " + std::to_string(op.getEvery()) + ", " +
                  std::to_string(op.getParts()) + ", tokens.device)" +
                  (op.getPadded() ? " * (tokens[:, 1:] >= 0)" : ""));
}

static void print(MethodBody &body, ContrastOp op) {
  body.use("contrast");
  body.define(op.getLosses(), "contrast(" + body.read(op.getRows()) + ", " +
                                  body.read(op.getCandidates()) +
                                  (op.getValid() ? ", valid=" + body.read(op.getValid()) : "") +
                                  ", parts=" + std::to_string(op.getParts()) + ")");
}

static void print(MethodBody &body, ClearPaddingOp op) {
  bool hasColumns = cast<SequenceType>(op.getResult().getType()).getWidth() != 0;
  std::string valid = "torch.arange(" + body.getLength(op.getInput()) +
                      ", device=tokens.device) < " + body.getCount(op.getInput()) + "[:, None]";
  body.define(op.getResult(), "torch.where(" + (hasColumns ? "(" + valid + ")[..., None]" : valid) +
                                  ", " + body.read(op.getInput()) + ", " +
                                  printNumber(op.getFill()) + ")");
}

bool pytorch::printRows(MethodBody &body, Operation *operation) {
  return TypeSwitch<Operation *, bool>(operation)
      .Case<NormOp, MapOp, ShortenOp, CrossEntropyOp, SoftLossOp, ObjectiveOp, CountedRowsOp,
            ContrastOp, ClearPaddingOp>([&](auto op) { return print(body, op), true; })
      .Case([&](EmbedOp op) {
        // Padding is -1; its rows are not used. Texts have none without a given axis.
        auto types = op->getParentOfType<func::FuncOp>().getArgumentTypes();
        bool hasPadding =
            llvm::any_of(types, [&](Type type) { return isGiven(op, cast<SequenceType>(type)); });
        std::string tokens = body.read(op.getTokens()) + (hasPadding ? ".clamp(min=0)" : "");
        body.define(op.getResult(),
                    "F.embedding(" + tokens + ", " + body.readParameter(op.getTable()) + ")");
        return true;
      })
      .Case([&](PositionOp op) {
        std::string table = body.readParameter(op.getTable()),
                    length = body.getLength(op.getResult());
        body.define(op.getResult(),
                    table + "[:" + length + "].expand(" + body.getBatch() + ", -1, -1)");
        return true;
      })
      .Case([&](LinearOp op) {
        body.define(op.getResult(),
                    printProduct(body, op.getInput(), op.getWeight(), op.getBias()));
        return true;
      })
      .Case([&](StartOp op) {
        body.use("start");
        body.define(op.getResult(), "start(" + body.read(op.getInput()) + ", " +
                                        body.readParameter(op.getNull()) + ", " +
                                        std::to_string(static_cast<int64_t>(op.getBy())) + ")");
        return true;
      })
      .Case([&](FoldOp op) {
        body.define(op.getResult(), printWindows(body, "windows", op.getInput(), op.getResult(),
                                                 op.getFactor(), op.getWindow()) +
                                        ".flatten(2)");
        return true;
      })
      .Case([&](SumColumnsOp op) {
        body.define(op.getResult(), body.read(op.getInput()) + ".sum(-1)");
        return true;
      })
      .Case([&](RepeatColumnsOp op) {
        int64_t width = cast<SequenceType>(op.getResult().getType()).getWidth();
        body.define(op.getResult(), body.read(op.getInput()) + "[..., None].expand(-1, -1, " +
                                        std::to_string(width) + ")");
        return true;
      })
      .Case([&](TotalOp op) {
        std::string input = body.read(op.getInput());
        body.define(op.getResult(), input + ".sum(1, keepdim=True).expand_as(" + input + ")");
        return true;
      })
      .Case([&](EntropyOp op) {
        body.use("entropy");
        body.define(op.getResult(), "entropy(" + body.read(op.getLogits()) + ")");
        return true;
      })
      .Case([&](LabelsOp op) {
        std::string input =
            body.getNames().addInput(op.getLabel(), "float [B, rows]: the numbers \"" +
                                                        escapeText(op.getLabel()) + "\" of tokens");
        body.define(op.getResult(), input);
        return true;
      })
      .Case([&](WeightSumOp) { return true; }) // printed with the objective
      .Default(false);
}
