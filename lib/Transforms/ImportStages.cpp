// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each primitive stage as ops of the model dialect (docs/spec.md gives the equations).
#include "ImportStages.h"

#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/Format.h"
#include <cmath>
#include <numbers>
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

std::string importing::scaleName(int64_t factor, StringRef axis) {
  return (axis.empty() ? "" : axis.str() + ".") + "s" + std::to_string(factor);
}

std::string importing::rotaryName(double base, int64_t headSize, int64_t positions) {
  std::string text;
  llvm::raw_string_ostream(text) << "rotary." << llvm::format("%.17g", base) << '.' << headSize
                                 << '.' << positions;
  return text;
}

std::string importing::distancesName(const Model &model, int64_t factor, int64_t width,
                                     bool countsRows) {
  return sinusoidalName.str() + "." + std::to_string(factor) + (countsRows ? ".rows" : "") +
         (width == model.width ? "" : ".width." + std::to_string(width));
}

std::string importing::rotationsName(const Primitive &stage) {
  return stage.prefix + ".attention.rotations";
}

Location importing::locationOf(MLIRContext *context, const SourceLocation &location) {
  return FileLineColLoc::get(context, location.file, location.line, location.column);
}

static Type typeOf(Builder &b, NumberType type) {
  return type == NumberType::Bf16 ? Type(b.getBF16Type()) : Type(b.getF32Type());
}

StageWriter::StageWriter(func::FuncOp function, const Model &model, Purpose purpose)
    : function(function), model(model), purpose(purpose),
      b(function.getLoc(), function.getContext()), computeType(typeOf(b, model.precision.compute)),
      residualType(typeOf(b, model.precision.residual)) {
  b.setInsertionPointToEnd(&function.getBody().front());
  for (auto parameter : function->getParentOfType<ModuleOp>().getOps<ParameterOp>()) {
    parameters[parameter.getSymName()] = parameter;
  }
}

void StageWriter::write(const Primitive &primitive) {
  current = &primitive;
  name(spec::name(primitive.op()));
  size_t told = terms.size();
  streams.push_back(
      std::visit([this](const auto &settings) { return stage(settings); }, primitive.settings));
  if (primitive.isFrozen && primitive.op() != spec::Op::Head) {
    for (Term &term : llvm::drop_begin(terms, told)) {
      term.factor = 0; // told, and minimized by nothing
    }
  }
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

void StageWriter::name(StringRef part, const SourceLocation &place) {
  b.setLoc(NameLoc::get(b.getStringAttr(current->prefix + "." + part),
                        locationOf(b.getContext(), place)));
}

SequenceType StageWriter::sequence(int64_t factor, int64_t width, Type element) {
  const std::string &axis = current->segments.empty() ? current->axis : current->segments;
  auto scale = FlatSymbolRefAttr::get(b.getContext(), scaleName(factor, axis));
  return SequenceType::get(b.getContext(), scale, width, element);
}

Value StageWriter::tokensOf(const std::string &input) {
  auto found = std::ranges::find(model.inputs, input, &Input::name);
  auto named = static_cast<unsigned>(found - model.inputs.begin());
  return function.getArgument(input.empty() ? 0 : 1 + named);
}

Value StageWriter::read(const std::string &symbol) { return read(symbol, b.getF32Type()); }

Value StageWriter::readWeight(const std::string &symbol) { return read(symbol, computeType); }

Value StageWriter::read(const std::string &symbol, Type element) {
  auto found = parameters.find(symbol);
  if (found == parameters.end()) {
    return {};
  }
  Value &value = reads[{b.getStringAttr(symbol), element}];
  if (!value) {
    auto type = cast<RankedTensorType>(found->second.getType());
    value = ReadOp::create(b, type.clone(element), symbol);
  }
  return value;
}

Value StageWriter::parameter(const std::string &name) { return read(current->prefix + "." + name); }

Value StageWriter::number(double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
}

Value StageWriter::map(ValueRange inputs, Scalars code) {
  auto op = MapOp::create(b, inputs.front().getType(), inputs);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody());
  SmallVector<Value> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool isWhole = cast<SequenceType>(inputs[i].getType()).getElement().isInteger();
    arguments.push_back(
        block->addArgument(isWhole ? Type(b.getI32Type()) : b.getF32Type(), b.getLoc()));
  }
  Value result = code(arguments);
  YieldOp::create(b, ValueRange{result});
  return op.getResult();
}

Value StageWriter::drop(Value x, double rate, int64_t width) {
  if (purpose != Purpose::Train || rate == 0) {
    return x;
  }
  Value draw = dispatch::RandomOp::create(b, b.getF32Type(), nextRandom++, width);
  Value kept = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, draw, number(rate));
  Value keep = arith::SelectOp::create(b, kept, number(1 / (1 - rate)), number(0));
  return arith::MulFOp::create(b, x, keep);
}

Value StageWriter::norm(const std::string &block, NormKind kind, double epsilon, Value x,
                        Type element) {
  std::string tensors = block.empty() ? "" : block + ".norm.";
  name(block.empty() ? "norm" : block + ".norm");
  auto type = cast<SequenceType>(x.getType());
  auto statistic = SequenceType::get(b.getContext(), type.getScale(), 0, b.getF32Type());
  auto result = SequenceType::get(b.getContext(), type.getScale(), type.getWidth(), element);
  return NormOp::create(b, result, statistic, statistic, x, parameter(tensors + "weight"),
                        parameter(tensors + "bias"), kind == NormKind::Rms, llvm::APFloat(epsilon))
      .getResult();
}

Value StageWriter::linear(const std::string &part, Value x, Type element) {
  std::string tensors = part.empty() ? "" : part + ".";
  name(part.empty() ? "linear" : part);
  Value weight = readWeight(current->prefix + "." + tensors + "weight");
  int64_t width = cast<RankedTensorType>(weight.getType()).getDimSize(0);
  auto type =
      SequenceType::get(b.getContext(), cast<SequenceType>(x.getType()).getScale(), width, element);
  return LinearOp::create(b, type, x, weight, parameter(tensors + "bias"));
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// x Phi(x), with the error function or with its approximation by tanh (Hendrycks and Gimpel,
/// section 2).
static Value gelu(ImplicitLocOpBuilder &b, Value x, bool byTanh,
                  function_ref<Value(double)> number) {
  Value inner;
  if (byTanh) {
    Value cube = arith::MulFOp::create(b, arith::MulFOp::create(b, x, x), x);
    Value sum = arith::AddFOp::create(b, x, arith::MulFOp::create(b, cube, number(0.044715)));
    inner = math::TanhOp::create(
        b, arith::MulFOp::create(b, sum, number(std::sqrt(2 / std::numbers::pi))));
  } else {
    inner = math::ErfOp::create(b, arith::MulFOp::create(b, x, number(std::numbers::sqrt2 / 2)));
  }
  Value half = arith::MulFOp::create(b, x, number(0.5));
  return arith::MulFOp::create(b, half, arith::AddFOp::create(b, inner, number(1)));
}

Value importing::activate(ImplicitLocOpBuilder &b, Activation activation, Value x,
                          function_ref<Value(double)> number) {
  bool isRelu = activation == Activation::Relu || activation == Activation::ReluSquared;
  if (!isRelu) {
    return gelu(b, x, activation == Activation::GeluTanh, number);
  }
  Value kept = arith::MaximumFOp::create(b, x, number(0));
  return activation == Activation::Relu ? kept : arith::MulFOp::create(b, kept, kept).getResult();
}

Value StageWriter::feedForward(const Layer &settings, Value x) {
  auto constant = [this](double value) { return number(value); };
  Value hidden;
  if (settings.activation == Activation::SwiGlu) {
    Value gate = linear("feed_forward.gate", x, computeType);
    Value in = linear("feed_forward.in", x, computeType);
    name("feed_forward.activation");
    hidden = map({gate, in}, [&](ArrayRef<Value> v) -> Value {
      Value decay = math::ExpOp::create(b, arith::NegFOp::create(b, v[0]));
      Value silu = arith::DivFOp::create(b, v[0], arith::AddFOp::create(b, decay, number(1)));
      return arith::MulFOp::create(b, silu, v[1]);
    });
  } else {
    Value in = linear("feed_forward.in", x, computeType);
    name("feed_forward.activation");
    hidden = map(
        in, [&](ArrayRef<Value> v) { return activate(b, settings.activation, v[0], constant); });
  }
  return linear("feed_forward.out", hidden, residualType);
}

/// x + drop(inner(norm(x))), without the norm where streams come normed, or norm(x +
/// drop(inner(x))).
Value StageWriter::residual(const Layer &settings, const std::string &block, Value x,
                            function_ref<Value(Value)> inner) {
  bool pre = settings.placement == Placement::Pre;
  bool isNormed = block == "attention" && !settings.attentionNorm;
  auto normalize = [&](Value v) {
    return norm(block, settings.norm, settings.epsilon, v, pre ? computeType : residualType);
  };
  Value branch = inner(pre && !isNormed ? normalize(x) : x);
  name(block + ".sum");
  Value sum = map({x, branch}, [&](ArrayRef<Value> v) -> Value {
    return arith::AddFOp::create(b, v[0], drop(v[1], settings.dropout, current->width));
  });
  return pre ? sum : normalize(sum);
}

Value StageWriter::stage(const Layer &settings) {
  Value x = streams[current->input];
  x = residual(settings, "attention", x, [&](Value v) { return attention(settings, v); });
  return residual(settings, "feed_forward", x, [&](Value v) { return feedForward(settings, v); });
}

//===----------------------------------------------------------------------===//
// Other stages
//===----------------------------------------------------------------------===//

/// The last tokens, newest first, with zeros for the one that ended the document before and all
/// before that.
SmallVector<Value> StageWriter::ofDocument(ArrayRef<Value> last, std::optional<int64_t> end) {
  SmallVector<Value> own(last);
  auto whole = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  Value isBefore;
  for (size_t i = 1; end && i < own.size(); ++i) {
    Value isEnd = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, own[i], whole(*end));
    isBefore = isBefore ? Value(arith::OrIOp::create(b, isBefore, isEnd)) : isEnd;
    own[i] = arith::SelectOp::create(b, isBefore, whole(0), own[i]);
  }
  return own;
}

/// Rows of tables by the last n tokens (Pagnoni et al. 2024, section 3.2.1). The hash is their
/// polynomial, oldest token first, mod 2^31 and then mod the rows. Tokens before the first are 0.
SmallVector<Value> StageWriter::ngrams(const Embedding &settings, Value tokens) {
  constexpr uint32_t prime = 2654435761;
  auto whole = [&](uint32_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  SmallVector<Value> last = {tokens}, rows;
  for (int64_t size : settings.ngrams) {
    for (auto by = static_cast<int64_t>(last.size()); by < size; ++by) {
      name("before." + std::to_string(by));
      last.push_back(sluice::ShiftOp::create(b, tokens.getType(), tokens, by));
    }
    std::string part = "ngram." + std::to_string(size);
    name(part + ".hash");
    Value hash = map(last, [&](ArrayRef<Value> v) -> Value {
      SmallVector<Value> own = ofDocument(v, settings.documentEnd);
      Value sum = own.back();
      for (Value token : llvm::reverse(ArrayRef(own).drop_back())) {
        sum = arith::AddIOp::create(b, arith::MulIOp::create(b, sum, whole(prime)), token);
      }
      Value positive = arith::AndIOp::create(b, sum, whole(0x7fffffff));
      return arith::RemSIOp::create(b, positive, whole(static_cast<uint32_t>(settings.ngramRows)));
    });
    name(part);
    rows.push_back(EmbedOp::create(b, sequence(1, current->width, residualType), hash,
                                   parameter(part + ".weight")));
  }
  return rows;
}

/// A linear map of what data say of each token.
Value StageWriter::embedNumbers(const Numbers &numbers) {
  Value rows = LabelsOp::create(b, sequence(1, numbers.width, b.getF32Type()), tokensOf(""),
                                numbers.name, /*numbers=*/true);
  return linear("", rows, residualType);
}

Value StageWriter::stage(const Embedding &settings) {
  std::string table = current->prefix + ".token.weight";
  embedding = settings.input.empty() ? table : embedding;
  SequenceType type = sequence(1, current->width, residualType);
  name("token");
  const Numbers *numbers = model.findNumbers(settings.input);
  SmallVector<Value> terms = {
      numbers ? embedNumbers(*numbers)
              : EmbedOp::create(b, type, tokensOf(settings.input), read(table)).getResult()};
  if (!settings.ngrams.empty()) {
    terms.append(ngrams(settings, tokensOf(settings.input)));
  }
  size_t averaged = terms.size();
  if (settings.positions != Positions::None) {
    bool learned = settings.positions == Positions::Learned;
    name("position");
    terms.push_back(PositionOp::create(
        b, type, learned ? parameter("position.weight") : read(sinusoidalName.str())));
  }
  if (terms.size() == 1 && (purpose != Purpose::Train || settings.dropout == 0)) {
    return terms[0];
  }
  name("sum");
  return map(terms, [&](ArrayRef<Value> v) {
    auto plus = [&](Value sum, Value x) { return arith::AddFOp::create(b, sum, x).getResult(); };
    Value sum = std::accumulate(v.begin() + 1, v.begin() + averaged, v[0], plus);
    if (averaged > 1) {
      sum = arith::MulFOp::create(b, sum, number(1.0 / static_cast<double>(averaged)));
    }
    sum = std::accumulate(v.begin() + averaged, v.end(), sum, plus);
    return drop(sum, settings.dropout, current->width);
  });
}

Value StageWriter::stage(const spec::Norm &settings) {
  return norm("", settings.norm, settings.epsilon, streams[current->input], residualType);
}

Value StageWriter::stage(const Shift &settings) {
  Value x = streams[current->input];
  if (settings.isLearned) {
    return StartOp::create(b, x.getType(), x, parameter("start.weight"), settings.by);
  }
  return sluice::ShiftOp::create(b, x.getType(), x, settings.by);
}

Value StageWriter::stage(const Shorten &settings) {
  Value x = streams[current->input];
  bool linearly = settings.method == Shortening::Linear;
  if (!settings.segments.empty()) {
    return poolSegments(settings);
  }
  if (settings.concatenates) {
    return concatenate(settings);
  }
  int64_t rows = settings.rows(), window = rows == settings.factor ? 0 : rows;
  if (settings.factor == 1 && rows == 1) {
    return linearly ? linear("", x, residualType) : x;
  }
  if (linearly) {
    name("fold");
    x = FoldOp::create(b, sequence(current->factor, rows * current->width, computeType), x,
                       settings.factor, window);
  } else {
    x = ShortenOp::create(
        b, sequence(current->factor, current->width, residualType), x, settings.factor,
        settings.method == Shortening::Max ? dispatch::ReduceKind::Max : dispatch::ReduceKind::Add,
        window, /*mean=*/settings.method != Shortening::Max);
  }
  return linearly ? linear("", x, residualType) : x;
}

/// A transposed convolution of w = j k columns is a linear map of j groups at a time: row r of
/// group m is the sum over i < j of W_(r + k i) x[m - i].
Value StageWriter::stage(const Upsample &settings) {
  if (!settings.segments.empty()) {
    return spreadSegments(settings);
  }
  if (settings.splits) {
    return split(settings);
  }
  Value x = streams[current->input];
  bool linearly = settings.method == Upsampling::Linear;
  if (int64_t groups = settings.groups(); groups > 1) {
    auto coarse = cast<SequenceType>(x.getType());
    name("window");
    x = FoldOp::create(
        b,
        SequenceType::get(b.getContext(), coarse.getScale(), groups * current->width, computeType),
        x, 1, groups);
  }
  if (linearly) {
    x = linear("", x, residualType);
  }
  if (settings.factor == 1) {
    return x;
  }
  SequenceType type = sequence(current->factor, current->width, residualType);
  name(linearly ? "unfold" : "upsample");
  return linearly ? UnfoldOp::create(b, type, x, settings.factor).getResult()
                  : UpsampleOp::create(b, type, x, settings.factor).getResult();
}

Value StageWriter::stage(const Add &) {
  return map({streams[current->input], streams[current->second]},
             [&](ArrayRef<Value> v) -> Value { return arith::AddFOp::create(b, v[0], v[1]); });
}

Value StageWriter::stored(StringRef part, Value x) {
  if (!isLazy(x)) {
    return x;
  }
  name(part);
  return map(x, [](ArrayRef<Value> v) { return v[0]; });
}

/// The two products are one of [W | V] and rows side by side, without the rows being written so.
Value StageWriter::stage(const Project &settings) {
  SmallVector<Value> terms = {linear("", stored("rows", streams[current->input]), residualType)};
  if (current->second >= 0) {
    Value z = stored("with.rows", streams[current->second]);
    terms.push_back(linear("with", z, residualType));
  }
  if (terms.size() == 1 && !settings.activation) {
    return terms.front();
  }
  name("project");
  auto constant = [this](double value) { return number(value); };
  return map(terms, [&](ArrayRef<Value> v) {
    Value sum = v.size() == 1 ? v[0] : arith::AddFOp::create(b, v[0], v[1]).getResult();
    return settings.activation ? activate(b, *settings.activation, sum, constant) : sum;
  });
}

Value StageWriter::stage(const Dropout &settings) {
  Value x = streams[current->input];
  if (purpose != Purpose::Train || settings.rate == 0) {
    return x;
  }
  return map(x, [&](ArrayRef<Value> v) { return drop(v[0], settings.rate, current->width); });
}

Value StageWriter::stage(const Layers &) { llvm_unreachable("expanded"); }
Value StageWriter::stage(const Hourglass &) { llvm_unreachable("expanded"); }
Value StageWriter::stage(const TopDown &) { llvm_unreachable("expanded"); }
Value StageWriter::stage(const BottomUp &) { llvm_unreachable("expanded"); }
Value StageWriter::stage(const Composed &) { llvm_unreachable("expanded"); }
