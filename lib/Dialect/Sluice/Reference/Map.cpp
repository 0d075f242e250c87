// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Scalar code over every element.
#include "Reference.h"
#include "ScalarProgram.h"
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// y[p, c] = body(x0[p, c], x1[p, c], ...). Integers in sequences are below 2^24, which every
/// number type represents. An operand that row p does not depend on (MapOp::getRelation) is NaN
/// there: in a step its row may not exist, and a select must not choose it.
template <typename T> static void evaluate(MapOp op, Evaluator<T> &evaluator) {
  const RuntimeValues &setting = evaluator.getSetting();
  int64_t columns = reference::getColumns(op.getResult()),
          capacity = sluice::getPositions(op, op.getResult().getType());
  ScalarProgram<T> body(op.getBody());
  bool isWhole = op.getResult().getType().getElement().isInteger();
  SmallVector<IntegerSet> relations;
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    relations.push_back(*op.getRelation(i));
  }
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> row(columns);
    SmallVector<bool> taken = llvm::map_to_vector(
        relations, [&](IntegerSet relation) { return contains(relation, p, p, 0); });
    for (int64_t c = 0; c < columns; ++c) {
      SmallVector<Scalar<T>> arguments;
      for (auto [input, isTaken] : llvm::zip_equal(op.getInputs(), taken)) {
        bool ofWhole = cast<SequenceType>(input.getType()).getElement().isInteger();
        T untaken = ofWhole ? T(-1e9) : std::numeric_limits<T>::quiet_NaN();
        T number = isTaken ? evaluator.at(input, b, p, c) : untaken;
        arguments.push_back(ofWhole ? Scalar<T>{.integer = static_cast<int64_t>(number)}
                                    : Scalar<T>{.real = number});
      }
      ScalarPlace place{setting.seed, setting.step, p, c, b * capacity + p};
      Scalar<T> result = body.run(arguments, place).front();
      row[c] = isWhole ? T(result.integer) : result.real;
    }
    return row;
  });
}

SLUICE_REFERENCE(MapOp)
