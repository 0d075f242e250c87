// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Attention.h"
#include "Scalar.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Origin.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::pytorch;

/// Returns the columns of queries, keys or values; the whole sequence if these are all.
static std::string printColumns(MethodBody &body, Value sequence, int64_t first, int64_t count) {
  std::string text = body.read(sequence);
  if (count == cast<SequenceType>(sequence.getType()).getWidth()) {
    return text;
  }
  return text + "[..., " + (first == 0 ? "" : std::to_string(first)) + ":" +
         std::to_string(first + count) + "]";
}

/// Returns the row of a table, or of R, that belongs to each query and key.
static std::string printDistances(MethodBody &body, AttentionOp op, const std::string &rows,
                                  int64_t first) {
  body.use("distances");
  dispatch::DistanceTerms terms = op.getTerms();
  std::string text =
      "distances(" + body.getLength(op.getQuery()) + ", " + body.getLength(op.getKey());
  auto add = [&](StringRef name, int64_t number, int64_t usual) {
    text += number == usual ? "" : ", " + name.str() + "=" + std::to_string(number);
  };
  add("query", terms.distance.query, 1);
  add("key", terms.distance.key, 1);
  add("offset", terms.distance.offset, 0);
  add("first", first, 0);
  return text + ", rows=" + rows + ")";
}

/// Returns the tensors that the score region has as arguments after the head.
static std::string printTerms(MethodBody &body, AttentionOp op) {
  dispatch::DistanceTerms terms = op.getTerms();
  std::string text;
  if (terms.rows) {
    bool isTable = terms.hasRowTable();
    int64_t count = isTable ? cast<RankedTensorType>(terms.rows.getType()).getDimSize(0) : 0;
    std::string rows = isTable ? body.readParameter(terms.rows) : body.read(terms.rows);
    body.use("distance_product");
    text += "distance_product(" + body.read(terms.query) + ", " + rows + ", " +
            std::to_string(op.getHeads()) + ", " +
            printDistances(body, op, isTable ? std::to_string(count) : body.getLength(terms.rows),
                           isTable ? terms.firstDistance(count) : 0) +
            "), ";
  }
  if (terms.bias) {
    int64_t count = cast<RankedTensorType>(terms.bias.getType()).getDimSize(0);
    body.use("distance_bias");
    text += "distance_bias(" + body.readParameter(terms.bias) + ", " +
            printDistances(body, op, std::to_string(count), terms.firstDistance(count)) + "), ";
  }
  return StringRef(text).rtrim().str();
}

static void print(MethodBody &body, AttentionOp op) {
  if (op.getDropout().convertToDouble() != 0) {
    body.reject(op, " with dropout");
    return;
  }
  body.use("attention");
  int64_t size = op.getHeadSize(), heads = op.getHeads(), keyHeads = op.getKvHeads();
  std::string indent = "    ";
  std::string query = printColumns(body, op.getQuery(), op.getQueryColumn(), heads * size),
              key = printColumns(body, op.getKey(), op.getKeyColumn(), keyHeads * size),
              value = printColumns(body, op.getValue(), op.getValueColumn(), keyHeads * size);
  std::string text = "attention(\n            " + query + ", " + key + ", " + value + ",\n" +
                     "            heads=" + std::to_string(heads) +
                     ", kv_heads=" + std::to_string(keyHeads) +
                     ", mask=lambda p, q, n: " + printRelation(op.getMask()) + ",\n";
  SmallVector<std::string> arguments{"s", "p", "q", "h"};
  dispatch::DistanceTerms terms = op.getTerms();
  if (terms.rows) {
    arguments.push_back("r");
  }
  if (terms.bias) {
    arguments.push_back("b");
  }
  text += "            score=" + body.printFunction(op, op.getScore(), arguments, "score", false);
  if (std::string printed = printTerms(body, op); !printed.empty()) {
    text += ",\n            terms=(" + printed + ")";
  }
  if (Value table = op.getRotary()) {
    text += ",\n            rotary=" + body.readParameter(table);
  }
  if (std::string count = body.getCount(op.getKey()); count != "None") {
    text += ",\n            count=" + count;
  }
  if (auto range = op.getRange(); !range.empty()) {
    text += ",\n            ranges=(" + body.read(range[0]) + ", " + body.read(range[1]) + ")";
  }
  body.define(op.getOutput(), text + ")");
}

static void print(MethodBody &body, HashedBucketsOp op) {
  body.use("hashed_buckets");
  body.define(op.getResult(), "hashed_buckets(" + body.read(op.getInput()) + ", " +
                                  body.readParameter(op.getRotations()) + ", " +
                                  std::to_string(op.getHashes()) + ", \"" +
                                  escapeText(getOriginStage(op)) + "\", " +
                                  body.getNames().addBuckets() + ")");
}

static void print(MethodBody &body, HashedAttentionOp op) {
  if (op.getSorted()) {
    body.reject(op, " of sorted rows");
    return;
  }
  body.use("hashed_attention");
  body.define(op.getOutput(), "hashed_attention(" + body.read(op.getQuery()) + ", " +
                                  body.read(op.getValue()) + ", " + body.read(op.getBuckets()) +
                                  ", heads=" + std::to_string(op.getHeads()) +
                                  ", chunk=" + std::to_string(op.getChunk()) + ")");
}

bool pytorch::printAttention(MethodBody &body, Operation *operation) {
  return TypeSwitch<Operation *, bool>(operation)
      .Case<AttentionOp, HashedBucketsOp, HashedAttentionOp>(
          [&](auto op) { return print(body, op), true; })
      .Default(false);
}
