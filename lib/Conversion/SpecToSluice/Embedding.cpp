// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts embeddings: rows of tables by token, by position, and by a hash of the last tokens.
#include "SpecToSluice.h"
#include "Tables.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include <functional>
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

static Value createInteger(StageContext &c, int64_t value) {
  return arith::ConstantOp::create(c.b, c.b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

/// Replaces the token that ended the previous document, and all tokens before it, by zeros. The
/// tokens are the last ones, newest first.
static SmallVector<Value> clearOtherDocument(StageContext &c, ArrayRef<ScalarValue> last,
                                             std::optional<int64_t> end) {
  SmallVector<Value> own(last);
  Value isBefore;
  for (size_t i = 1; end && i < own.size(); ++i) {
    Value token = createInteger(c, *end);
    Value isEnd = arith::CmpIOp::create(c.b, arith::CmpIPredicate::eq, own[i], token);
    isBefore = isBefore ? Value(arith::OrIOp::create(c.b, isBefore, isEnd)) : isEnd;
    own[i] = arith::SelectOp::create(c.b, isBefore, createInteger(c, 0), own[i]);
  }
  return own;
}

/// Returns the polynomial of the last tokens, oldest first, mod 2^31 and then mod the rows of a
/// table. Tokens before the first are 0.
static Value createHash(StageContext &c, spec::EmbeddingOp op, ArrayRef<ScalarValue> last) {
  constexpr uint32_t prime = 2654435761;
  SmallVector<Value> own = clearOtherDocument(c, last, op.getDocumentEnd());
  Value sum = own.back();
  for (Value token : llvm::reverse(ArrayRef(own).drop_back())) {
    sum =
        arith::AddIOp::create(c.b, arith::MulIOp::create(c.b, sum, createInteger(c, prime)), token);
  }
  Value positive = arith::AndIOp::create(c.b, sum, createInteger(c, 0x7fffffff));
  return arith::RemSIOp::create(c.b, positive, createInteger(c, *op.getNgramRows()));
}

/// Appends rows of tables by a hash of the last n tokens (Pagnoni et al. 2024, section 3.2.1).
static void appendNgrams(StageContext &c, spec::EmbeddingOp op, SmallVectorImpl<Value> &terms) {
  Value tokens = c.getTokens();
  SmallVector<Value> last = {tokens};
  for (int64_t size : op.getNgrams().value_or(ArrayRef<int64_t>())) {
    for (auto by = static_cast<int64_t>(last.size()); by < size; ++by) {
      c.setName("before." + std::to_string(by));
      last.push_back(c.createShift(tokens, by));
    }
    std::string part = "ngram." + std::to_string(size);
    c.setName(part + ".hash");
    Value hash = c.createMap(last, [&](ArrayRef<ScalarValue> v) { return createHash(c, op, v); });
    c.setName(part);
    terms.push_back(EmbedOp::create(c.b, c.getSequence(1, c.getWidth(), c.residualType), hash,
                                    c.readOwn(part + ".weight")));
  }
}

/// Returns rows of the token table, or a linear map of the numbers that the data has for each
/// token.
static Value embedInput(StageContext &c, spec::EmbeddingOp op) {
  StringRef name = op.getInput().value_or("");
  spec::InputOp input = name.empty() ? spec::InputOp() : c.model.findInput(name);
  if (input && input.isNumbers()) {
    Value rows = LabelsOp::create(c.b, c.getTokenSequence(input.getRowWidth()), c.getTokens(), name,
                                  /*numbers=*/true);
    return c.createLinear("", rows, c.residualType);
  }
  return EmbedOp::create(c.b, c.getSequence(1, c.getWidth(), c.residualType), c.getTokens(name),
                         c.readOwn("token.weight"));
}

static Value convertEmbedding(StageContext &c, spec::EmbeddingOp op) {
  c.setName("token");
  SmallVector<Value> terms = {embedInput(c, op)};
  appendNgrams(c, op, terms);
  size_t averaged = terms.size();
  if (op.getPositions() != spec::PositionTable::none) {
    bool isLearned = op.getPositions() == spec::PositionTable::learned;
    c.setName("position");
    terms.push_back(
        PositionOp::create(c.b, c.getSequence(1, c.getWidth(), c.residualType),
                           isLearned ? c.readOwn("position.weight") : c.read(sinusoidalName)));
  }
  bool drops = c.purpose == Purpose::Train && op.getDropout() > 0;
  if (terms.size() == 1 && !drops && op.getScale() == 1) {
    return terms[0];
  }
  c.setName("sum");
  return c.createMap(terms, [&](ArrayRef<ScalarValue> v) {
    auto rest = v.begin() + averaged;
    ScalarValue sum = std::accumulate(v.begin() + 1, rest, v[0], std::plus<ScalarValue>());
    double scale = op.getScale() / static_cast<double>(averaged);
    sum = scale == 1 ? sum : sum * scale;
    sum = std::accumulate(rest, v.end(), sum, std::plus<ScalarValue>());
    return c.createDropout(sum, op.getDropout(), c.getWidth());
  });
}

void spec_to_sluice::populateEmbeddingConversions(StageConversions &conversions) {
  conversions.add(convertEmbedding);
}
