// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
#include "Tables.h"

#include "StageContext.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string spec_to_sluice::getRotaryName(spec::ModelOp model, spec::LayerOp op) {
  std::string text;
  llvm::raw_string_ostream(text) << "rotary." << llvm::format("%.17g", *op.getRotary()) << '.'
                                 << *op.getHeadSize() << '.' << model.countRows(getRowsType(op));
  return text;
}

std::string spec_to_sluice::getDistancesName(spec::ModelOp model, spec::LayerOp op) {
  int64_t width = getRowsType(op).getWidth();
  bool countsRows = op.getDistances() == spec::DistanceUnit::rows;
  return sinusoidalName.str() + "." + std::to_string(op.getDistanceStep()) +
         (countsRows ? ".rows" : "") +
         (width == model.getWidth() ? "" : ".width." + std::to_string(width));
}

std::string spec_to_sluice::getRuleName(spec::BoundariesOp op) {
  spec::StreamType rows = getRowsType(op);
  bool isGiven = rows.getAxis() == spec::AxisKind::input;
  if (*op.getRule() != spec::SegmentRule::every) {
    StringRef input = op.getBits() ? *op.getBits() : isGiven ? rows.getName().getValue() : "";
    return "boundaries." + spec::stringifySegmentRule(*op.getRule()).str() +
           (input.empty() ? "" : "." + input.str());
  }
  return "boundaries.every." + std::to_string(*op.getFactor()) +
         (op.beginsSegments() ? ".starts"
          : op.followsCode()  ? ".code"
                              : "") +
         (getSegmentsName(rows).empty() ? "" : ".segments") +
         (isGiven ? "." + rows.getName().str() : "") +
         (rows.getFactor() == 1 ? "" : "." + std::to_string(rows.getFactor()));
}

std::string spec_to_sluice::getFirstRowName(spec::ModelOp model, spec::BoundariesOp op) {
  return "boundaries.first." + std::to_string(model.countRows(getRowsType(op)));
}

std::string spec_to_sluice::getDocumentEndName(spec::BoundariesOp op) {
  return "boundaries.document_end." + std::to_string(*op.getDocumentEnd());
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

/// Returns true for bytes like a space: not an ASCII letter or digit, and not a continuation byte
/// of UTF-8.
static bool isSpaceLike(int64_t byte) {
  bool isWord =
      (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
  return !isWord && (byte & 0xC0) != 0x80;
}

/// Returns the tokens, or positions, that have a bit by the rule of a stage.
static SmallVector<int64_t> getMembers(spec::BoundariesOp op, int64_t rows) {
  SmallVector<int64_t> members;
  if (*op.getRule() == spec::SegmentRule::every) {
    int64_t k = *op.getFactor();
    for (int64_t row = op.beginsSegments() || op.followsCode() ? 0 : k - 1; row < rows; row += k) {
      members.push_back(row);
    }
  } else if (*op.getRule() == spec::SegmentRule::bits) {
    for (int64_t token = 1; token < rows; ++token) {
      members.push_back(token);
    }
  } else if (*op.getRule() == spec::SegmentRule::space_like) {
    for (int64_t byte = 0; byte < std::min<int64_t>(rows, 256); ++byte) {
      if (isSpaceLike(byte)) {
        members.push_back(byte);
      }
    }
  } else {
    for (char byte : {'\t', '\n', '\v', '\f', '\r', ' '}) {
      if (byte < rows) {
        members.push_back(byte);
      }
    }
  }
  return members;
}

namespace {

class TableWriter {
public:
  TableWriter(ImplicitLocOpBuilder &builder, spec::ModelOp model) : b(builder), model(model) {}

  void run();

private:
  void add(const Twine &name, ArrayRef<int64_t> shape, StringRef initial, double base,
           int64_t stride = 1, DenseI64ArrayAttr members = {});
  void addBits(const std::string &name, int64_t rows, ArrayRef<int64_t> members) {
    add(name, {rows, 1}, "members", 0, 1, b.getDenseI64ArrayAttr(members));
  }
  void addStage(spec::LayerOp op);
  void addStage(spec::BoundariesOp op);

  ImplicitLocOpBuilder &b;
  spec::ModelOp model;
  llvm::StringSet<> known;
  llvm::StringMap<int64_t> distances; ///< rows by table, for the layer with the most
};

} // namespace

/// Adds a table unless one of this name exists.
void TableWriter::add(const Twine &name, ArrayRef<int64_t> shape, StringRef initial, double base,
                      int64_t stride, DenseI64ArrayAttr members) {
  std::string symbol = name.str();
  if (known.insert(symbol).second) {
    ParameterOp::create(b, symbol, RankedTensorType::get(shape, b.getF32Type()),
                        b.getStrArrayAttr({symbol}), ArrayRef<int64_t>(shape[0]), initial,
                        llvm::APFloat(0.0), llvm::APFloat(base),
                        /*decay=*/false, /*frozen=*/true, stride, members);
  }
}

void TableWriter::addStage(spec::LayerOp op) {
  int64_t size = *op.getHeadSize();
  if (op.getRotary()) {
    add(getRotaryName(model, op), {model.countRows(getRowsType(op)), size}, "rotary",
        *op.getRotary());
  }
  if (op.isXl()) {
    std::string name = getDistancesName(model, op);
    bool countsRows = op.getDistances() == spec::DistanceUnit::rows;
    add(name, {distances[name], getRowsType(op).getWidth()}, "sinusoidal", 10000,
        countsRows ? 1 : op.getDistanceStep());
  }
  if (op.getLsh()) {
    add(*op.getPath() + "." + rotationsPart,
        {op.getLsh()->getHashes() * op.getLsh()->getBuckets() / 2, *op.getHeads() * size},
        "rotations", 0);
  }
}

void TableWriter::addStage(spec::BoundariesOp op) {
  using spec::SegmentRule;
  spec::StreamType stream = getRowsType(op);
  bool isGiven = stream.getAxis() == spec::AxisKind::input;
  int64_t positions = model.countRows(stream), vocabulary = model.getVocabulary();
  if (isGiven) {
    vocabulary =
        model.findInput(op.getBits() ? *op.getBits() : stream.getName().getValue()).getTokenCount();
  }
  bool isEvery = op.getRule() == SegmentRule::every;
  if (isEvery || op.getRule() == SegmentRule::whitespace || op.getRule() == SegmentRule::bits ||
      op.getRule() == SegmentRule::space_like) {
    int64_t rows = isEvery ? positions : vocabulary;
    addBits(getRuleName(op), rows, getMembers(op, rows));
  }
  if (op.getDocumentEnd()) {
    addBits(getDocumentEndName(op), vocabulary, {*op.getDocumentEnd()});
  }
  if ((op.beginsSegments() && (op.getPredictor() || !isEvery)) || op.getSpike()) {
    addBits(getFirstRowName(model, op), positions, {0});
  }
}

void TableWriter::run() {
  int64_t sinusoids = 0; // positions of the longest axis that has sinusoids
  for (auto op : model.getBody().getOps<spec::LayerOp>()) {
    if (op.isXl()) {
      int64_t &most = distances[getDistancesName(model, op)];
      most = std::max(most, op.getDistanceCount());
    }
  }
  for (auto stage : model.getBody().getOps<spec::StageInterface>()) {
    b.setLoc(spec::getKeyLoc(stage, ""));
    llvm::TypeSwitch<Operation *>(stage)
        .Case<spec::LayerOp, spec::BoundariesOp>([&](auto op) { addStage(op); })
        .Case([&](spec::EmbeddingOp op) {
          if (op.getPositions() == spec::PositionTable::sinusoidal) {
            sinusoids = std::max(sinusoids, model.getContextOfInput(op.getInput().value_or("")));
          }
        });
  }
  if (sinusoids > 0) {
    add(sinusoidalName, {sinusoids, model.getWidth()}, "sinusoidal", 10000);
  }
}

void spec_to_sluice::addTables(ImplicitLocOpBuilder &builder, spec::ModelOp model) {
  TableWriter(builder, model).run();
}
