// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file: helpers, parameters, methods.
#include "sluice/Target/PyTorch/PyTorch.h"
#include "Helpers.h"
#include "MethodBody.h"
#include "Scalar.h"
#include "sluice/Dialect/Sluice/Hashed.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::pytorch;

namespace {

/// Prints the class.
class FilePrinter {
public:
  explicit FilePrinter(ModuleOp module)
      : module(module), evaluate(module.lookupSymbol<func::FuncOp>("evaluate")),
        predict(module.lookupSymbol<func::FuncOp>("predict")) {}

  llvm::Expected<std::string> run();

private:
  void nameArguments(func::FuncOp function);
  void matchOps();
  std::string printParameters();
  std::string printMethods();
  std::string printSignature(StringRef method) const;
  std::string printLimit(int64_t targets) const;
  std::string printHidden(ArrayRef<Operation *> ops, ArrayRef<Value> results);
  std::string listInputs(bool isCall) const;
  std::string callHidden(ArrayRef<Value> values, StringRef tokens) const;

  ModuleOp module;
  func::FuncOp evaluate, predict;
  FileNames names;
  SmallVector<Operation *> shared, ofEvaluate, ofPredict;
  DenseMap<Value, Value> same; ///< values of shared ops: of @predict, and of @evaluate
};

} // namespace

/// Names the tokens of each axis, the first argument has the predicted tokens, and takes the names
/// of inputs that ops read, so that no variable has them.
void FilePrinter::nameArguments(func::FuncOp function) {
  function.walk([&](HashedBucketsOp) { names.taken.insert(bucketsArgument.str()); });
  for (BlockArgument argument : function.getArguments()) {
    auto type = cast<SequenceType>(argument.getType());
    if (argument.getArgNumber() == 0) {
      names.values[argument] = "tokens";
      continue;
    }
    std::optional<InputTokens> tokens = findInputTokens(argument);
    std::string name = tokens ? tokens->name.str() : getAxisName(function, type);
    names.values[argument] = names.addInput(name, "int [B, rows]: tokens of \"" + escapeText(name) +
                                                      "\", with -1 after the last token of a text");
    names.hasLines |= isGiven(function, type);
  }
  function.walk([&](Operation *op) {
    StringRef input =
        TypeSwitch<Operation *, StringRef>(op)
            .Case<DegreesOp, GraphSumOp>([](auto edges) { return edges.getEdges(); })
            .Case([](LabelsOp labels) { return labels.getLabel(); })
            .Case<CrossEntropyOp, SoftLossOp>([](auto scored) { return scored.getTarget(); })
            .Case([](GraphAttentionOp attention) {
              return attention.getEdges().value_or(StringRef());
            })
            .Default(StringRef());
    if (!input.empty()) {
      names.getInputId(input);
    }
  });
}

/// Finds the leading ops that both functions have.
void FilePrinter::matchOps() {
  auto list = [](func::FuncOp function) {
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front().without_terminator()) {
      ops.push_back(&op);
    }
    return ops;
  };
  ofEvaluate = list(evaluate);
  if (!predict) {
    return;
  }
  ofPredict = list(predict);
  bool hasSameArguments = llvm::equal(evaluate.getArgumentTypes(), predict.getArgumentTypes());
  for (auto [theirs, ours] : llvm::zip(predict.getArguments(), evaluate.getArguments())) {
    same[theirs] = ours;
  }
  size_t count = 0;
  while (hasSameArguments && count < std::min(ofEvaluate.size(), ofPredict.size())) {
    Operation *ours = ofEvaluate[count], *theirs = ofPredict[count];
    bool isSame = OperationEquivalence::isEquivalentTo(
        theirs, ours, [&](Value left, Value right) { return success(same.lookup(left) == right); },
        [&](Value left, Value right) { same[left] = right; },
        OperationEquivalence::IgnoreLocations);
    if (!isSame) {
      break;
    }
    for (auto [left, right] : llvm::zip_equal(theirs->getResults(), ours->getResults())) {
      same[left] = right;
    }
    ++count;
  }
  shared.assign(ofEvaluate.begin(), ofEvaluate.begin() + count);
  ofEvaluate.erase(ofEvaluate.begin(), ofEvaluate.begin() + count);
  ofPredict.erase(ofPredict.begin(), ofPredict.begin() + count);
}

/// Returns the statements of the constructor that create parameters and tables.
std::string FilePrinter::printParameters() {
  std::string text;
  auto isRead = [&](ParameterOp parameter) {
    return !SymbolTable::symbolKnownUseEmpty(parameter, module);
  };
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!isRead(parameter)) {
      continue;
    }
    auto type = cast<RankedTensorType>(parameter.getType());
    StringRef initial = parameter.getInitial();
    for (auto [attribute, size] : llvm::zip_equal(parameter.getNames(), parameter.getSizes())) {
      std::string name = "\"" + escapeText(cast<StringAttr>(attribute).getValue()) + "\"",
                  shape = std::to_string(size);
      for (int64_t extent : type.getShape().drop_front()) {
        shape += ", " + std::to_string(extent);
      }
      shape = type.getRank() == 1 ? "(" + shape + ",)" : "(" + shape + ")";
      if (!parameter.getFrozen()) {
        bool isHeld = parameter.getHeld();
        text += "        self.add_weight(" + name + ", " + shape +
                (isHeld ? ", trained=False" : "") + ")\n";
        continue;
      }
      std::string table;
      if (initial == "rotary" || initial == "sinusoidal") {
        addHelper(names.helpers, "angle_table");
        table = "angle_table(" + std::to_string(size) + ", " + std::to_string(type.getDimSize(1)) +
                ", " + printNumber(parameter.getBase()) + ", \"" + initial.str() + "\"" +
                (parameter.getStride() == 1 ? ""
                                            : ", stride=" + std::to_string(parameter.getStride())) +
                ")";
      } else if (initial == "members") {
        addHelper(names.helpers, "member_table");
        std::string members;
        for (int64_t member : parameter.getMembers().value_or(ArrayRef<int64_t>())) {
          members += (members.empty() ? "" : ", ") + std::to_string(member);
        }
        table = "member_table(" + shape + ", [" + members + "])";
      } else if (initial == "rotations") {
        addHelper(names.helpers, "rotation_table");
        auto seed = getFact<SluiceDialect::SeedAttrHelper>(module);
        table = "rotation_table" + shape.substr(0, shape.size() - 1) + ", " +
                std::to_string(seed ? seed.getInt() : 0) + ", " + name + ")";
      } else if (initial == "zeros" || initial == "ones") {
        table = "torch." + initial.str() + shape;
      } else {
        names.reject(parameter.getSymName().str() +
                     ": expected a table with a printer for PyTorch, found one with the "
                     "values \"" +
                     initial.str() + "\"");
      }
      text += "        self.add_table(" + name + ", " + table + ")\n";
    }
  }
  return text;
}

std::string FilePrinter::listInputs(bool isCall) const {
  std::string text;
  for (const auto &[name, what] : names.inputs) {
    text += ", " + name + (isCall ? "" : "=None");
  }
  return text;
}

std::string FilePrinter::printSignature(StringRef method) const {
  return "    def " + method.str() + "(self, tokens" + listInputs(/*isCall=*/false) + "):\n";
}

std::string FilePrinter::callHidden(ArrayRef<Value> values, StringRef tokens) const {
  std::string list;
  for (Value value : values) {
    list += (list.empty() ? "" : ", ") + names.values.lookup(value);
  }
  return "        " + list + " = self.hidden(" + tokens.str() + listInputs(/*isCall=*/true) + ")\n";
}

/// Returns the statements that check the length of the texts, which have `targets` tokens more than
/// rows. Tables of positions end at the context, and nothing was trained beyond it.
std::string FilePrinter::printLimit(int64_t targets) const {
  std::string most = std::to_string(getContext(module) + targets);
  return "        if tokens.shape[1] > " + most +
         ":\n            raise ValueError(f\"expected at most " + most +
         " tokens in a text, found {tokens.shape[1]}\")\n";
}

/// Prints the methods. A method returns the values of shared ops that the others use.
std::string FilePrinter::printMethods() {
  MethodBody hidden(module, names, /*targets=*/0), losses(module, names, /*targets=*/1),
      forward(module, names, /*targets=*/0);
  hidden.print(shared);
  for (auto [theirs, ours] : same) {
    if (auto found = names.values.find(ours); found != names.values.end()) {
      std::string name = found->second; // a new entry may move the others
      names.values[theirs] = name;
    }
  }
  std::string result;
  if (predict) {
    forward.print(ofPredict);
    result = forward.read(predict.getBody().front().getTerminator()->getOperand(0));
  }
  losses.print(ofEvaluate);
  if (!names.mistake.empty()) {
    return "";
  }
  SetVector<Value> returned;
  for (Value value : forward.getForeign()) {
    returned.insert(same.lookup(value));
  }
  returned.insert_range(losses.getForeign());
  ArrayRef<Value> values = returned.getArrayRef();
  std::string list;
  for (Value value : values) {
    list += (list.empty() ? "" : ", ") + names.values.lookup(value);
  }
  std::string text;
  if (predict) {
    text += printSignature("forward") +
            "        \"\"\"The logits of the next token after each token: [B, rows, vocabulary]."
            "\"\"\"\n" +
            printLimit(/*targets=*/0) + (values.empty() ? "" : callHidden(values, "tokens")) +
            forward.finish() + "        return " + result + "\n\n";
  }
  text += printSignature("losses") +
          "        \"\"\"The objective, and the mean of each loss, in nats. Row p of the rows\n"
          "        before the last token is scored against token p + 1.\"\"\"\n" +
          printLimit(/*targets=*/1) + (values.empty() ? "" : callHidden(values, "tokens[:, :-1]")) +
          losses.finish();
  if (!values.empty()) {
    text += "\n" + printSignature("hidden") +
            "        \"\"\"The values that both `forward` and `losses` use.\"\"\"\n" +
            hidden.finish() + "        return " + list + "\n";
  }
  return text;
}

static const StringRef storage = R"(
    def add_weight(self, name, shape, trained=True):
        weight = nn.Parameter(torch.zeros(shape), requires_grad=trained)
        *path, leaf = name.split(".")
        owner = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner._modules[part]
        owner.register_parameter(leaf, weight)

    def add_table(self, name, table):
        self.register_buffer(name.replace(".", "_"), table, persistent=False)

    def get_weight(self, name):
        table = self._buffers.get(name.replace(".", "_"))
        if table is not None:
            return table
        *path, leaf = name.split(".")
        owner = self
        for part in path:  # torch.compile takes no attributes that are keywords, such as "in"
            owner = owner._modules[part]
        return owner._parameters[leaf]

    def get_weights(self, stage):
        return lambda name: self.get_weight(f"{stage}.{name}")
)";

static const StringRef loader = R"(

def load(folder=None):
    """The model with the weights of `weights.safetensors` in `folder`, by default this file's."""
    model = Model()
    path = Path(folder or Path(__file__).parent) / "weights.safetensors"
    model.load_state_dict(load_file(path))
    return model.eval()
)";

llvm::Expected<std::string> FilePrinter::run() {
  if (!evaluate) {
    return llvm::createStringError("expected a function @evaluate, found none");
  }
  nameArguments(evaluate);
  if (predict) {
    nameArguments(predict);
  }
  matchOps();
  std::string methods = printMethods(), parameters = printParameters();
  if (!names.mistake.empty()) {
    return llvm::createStringError(names.mistake);
  }
  auto name = getFact<SluiceDialect::NameAttrHelper>(module);
  std::string text = "\"\"\"" + (name ? escapeText(name.getValue()) : "A model") +
                     ", exported by sluice from its model IR.\n\nB texts of `rows` tokens each, "
                     "at most " +
                     std::to_string(getContext(module)) + ".";
  if (names.hasLines) {
    text += " A text is a line: 10, its bytes,\nand 10 if there is room; -1 follows the last token "
            "of shorter lines.";
  }
  for (const auto &[input, what] : names.inputs) {
    text += "\n" + input + ": " + what + ".";
  }
  text += "\n\"\"\"\nimport math\nfrom pathlib import Path\n\nimport torch\nimport "
          "torch.nn.functional as F\nfrom safetensors.torch import load_file\nfrom torch import "
          "nn\n";
  return text + printHelpers(names.helpers) +
         "\n\nclass Model(nn.Module):\n    def "
         "__init__(self):\n        super().__init__()\n" +
         parameters + storage.str() + "\n" + methods + loader.str();
}

llvm::Expected<std::string> sluice::printPyTorch(ModuleOp module) {
  return FilePrinter(module).run();
}
