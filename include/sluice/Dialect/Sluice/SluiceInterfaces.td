// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces of the model dialect's ops. Analyses and transforms use these instead of switching
// over op kinds.

#ifndef SLUICE_INTERFACES_TD
#define SLUICE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def CausalFlowInterface : OpInterface<"CausalFlowInterface"> {
  let description = [{
    Dependences of result positions on operand positions. They are structural, independent of the
    values. Parameters, constant tables and random numbers are not positions.
  }];
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<[{
      Returns the exact relation D(p, q) of the sequence operand `operand`: result position p >= 0
      depends on operand position q. Dims are (p, q), symbol n is the operand's valid length.
      Positions outside [0, n) are a defined null, so the set is not clipped to [0, n). std::nullopt
      for operands that are not sequences, and for targets (which may look ahead).
    }], "std::optional<::mlir::IntegerSet>", "getRelation", (ins "unsigned":$operand)>,
    InterfaceMethod<[{
      Returns the maximum q in `operand` that p depends on, as a non-decreasing expression of d0 =
      p; null if there is no bound (dependence on the whole sequence). Called only if getRelation
      returns a relation.
    }], "::mlir::AffineExpr", "getLatest", (ins "unsigned":$operand)>,
    InterfaceMethod<[{
      Returns the data-dependent terms of `operand`'s relation: term i is symbol 1 + i of
      getRelation and of getLatest (symbol 0 is n). The value of a term must be an operand or a
      result of the op.
    }], "::llvm::SmallVector<::sluice::SegmentTerm, 2>", "getSegmentTerms",
        (ins "unsigned":$operand), [{}], [{ return {}; }]>,
    InterfaceMethod<[{
      Returns relation, bound and terms for one result. An op whose results have different
      dependences (the counts and the ends of segments) overrides this; the methods above then
      describe its first result.
    }], "::sluice::PositionReads", "getReads", (ins "unsigned":$result, "unsigned":$operand), [{}],
        [{
      (void)result;
      std::optional<::mlir::IntegerSet> relation = $_op.getRelation(operand);
      return {relation, relation ? $_op.getLatest(operand) : ::mlir::AffineExpr(),
              $_op.getSegmentTerms(operand)};
    }]>,
    InterfaceMethod<"Returns the accesses of targets that a row is scored against, which "
                    "getRelation omits.",
    "::llvm::SmallVector<::sluice::dispatch::RowRead>", "getTargetReads", (ins), [{}],
        [{ return {}; }]>,
    InterfaceMethod<[{
      Returns true if the result is an access map of the first operand and not stored: past the end
      of its scale it accesses the operand, and is not null. Such an op has the fusion role Access.
    }], "bool", "isLazy", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Returns the sequence whose positions are the values of `result`'s rows, for example the ends
      of segments: each row must be a position that exists. Null if rows are not positions.
    }], "::mlir::Value", "getNamedPositions", (ins "unsigned":$result), [{}], [{
      (void)result;
      return {};
    }]>,
    InterfaceMethod<"Returns the op name of `result` in the neutral graph of certificates "
                    "(docs/certificate.md).",
    "std::string", "getNeutralName", (ins "unsigned":$result), [{}], [{
      (void)result;
      return $_op->getName().stripDialect().str();
    }]>,
    InterfaceMethod<[{
      Returns the number of *carried* results, the first ones, of a recurrence: row p of a result is
      computed from row p - 1 of each carried result and from row p of each operand. The relations
      of such an op hold by induction over p.
    }], "unsigned", "countCarried", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Returns the reason why no decode step computes several rows at once; empty "
                    "if a step may.", "::llvm::StringRef",
    "getBurstRefusal", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Returns the delay in positions of its scale, negative for a look-ahead; "
                    "std::nullopt if the op is not a shift.",
    "std::optional<int64_t>", "getShift", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      Returns true if a row depends only on the columns of its operand's row for its own place in
      the group (RowReadsInterface::getMemberRead).
    }], "bool", "readsMember", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Returns the change to a spec that repairs a non-causal access by this op; "
                    "empty if no setting of the op would.",
    "::sluice::OpRemedy", "getRemedy", (ins), [{}], [{ return {}; }]>,
  ];
}

def AxesInterface : OpInterface<"AxesInterface"> {
  let description = "An op with sequences of up to two axes: attention, and its gradient.";
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"Returns the sequence of queries, whose rows are the rows of the results.",
                    "::mlir::Value", "getQuery", (ins)>,
    InterfaceMethod<"Returns the sequence of keys, which may be on another axis.", "::mlir::Value",
                    "getKey", (ins)>,
  ];
}

def FactorInterface : OpInterface<"FactorInterface"> {
  let description = [{
    An op that multiplies rows by a weight, both in the type of the weight operand
    (`sluice-convert-factors`).
  }];
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"The rows.", "::mlir::OpOperand &", "getInputMutable", (ins)>,
    InterfaceMethod<"The weight.", "::mlir::Value", "getWeight", (ins)>,
  ];
}

def SegmentsInterface : OpInterface<"SegmentsInterface"> {
  let description = [{
    An op between a scale and its segments, with sequences of both, as its verifier specifies. It
    defines a segmentation, or its last two operands are the counts and ends of one.
  }];
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"Returns the counts of the segmentation, on the segmented scale.",
                    "::mlir::Value",
                    "getCounts", (ins)>,
    InterfaceMethod<"Returns true if `operand` has boundary bits, of which a decode step needs "
                    "only the number.",
    "bool", "readsBits", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return false;
    }]>,
    InterfaceMethod<"Returns true if `operand` has rows that move between the scales, and is not "
                    "part of the segmentation.",
    "bool", "movesRows", (ins "unsigned":$operand), [{}], [{
      return operand + 2 < $_op->getNumOperands() && !$_op.readsBits(operand);
    }]>,
    InterfaceMethod<"Returns true if the op defines the segmentation.", "bool", "makesSegmentation",
                    (ins), [{}],
                    [{
      return $_op.getCounts().getDefiningOp() == $_op.getOperation();
    }]>,
    InterfaceMethod<"Returns the maximum number of segments from a row to the rows that it moves, "
                    "both ends included.",
    "int64_t", "getSegmentsSpanned", (ins), [{}], [{ return 1; }]>,
  ];
}

def DifferentiableInterface : OpInterface<"DifferentiableInterface"> {
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<[{
      Builds the backward ops. `results` contains the gradient of each result (null if none is
      needed). `operands` holds, for each operand that is a parameter (a tensor), the gradient
      accumulated so far or null; on return, for each operand that has a gradient: of a sequence,
      this op's contribution; of a parameter, the accumulated gradient with this op's added.
    }], "::mlir::LogicalResult", "buildBackward",
    (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$results,
         "::llvm::MutableArrayRef<::mlir::Value>":$operands)>,
  ];
}

def CostInterface : OpInterface<"CostInterface"> {
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<[{Returns floating-point operations, minimum bytes moved and bytes stored for
    the backward pass, for the module's whole batch at full length; multiply-add counts two, masked
    work is not counted.}], "::sluice::Cost", "getCost", (ins)>,
  ];
}

def ReferenceInterface : OpInterface<"ReferenceInterface"> {
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"Evaluates the op in float64, as the reference for compiled code. Reads "
                    "operands and sets results in `evaluator`.",
    "void", "evaluateDouble", (ins "::sluice::reference::Evaluator<double> &":$evaluator)>,
    InterfaceMethod<"Evaluates the same source in float32: its distance from float64 scales the "
                    "tolerance for compiled code.",
    "void", "evaluateFloat", (ins "::sluice::reference::Evaluator<float> &":$evaluator)>,
  ];
}

def FusionInterface : OpInterface<"FusionInterface"> {
  let description = "Lowering of an op to part of a dispatch.";
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"Returns the op's role in a dispatch.", "::sluice::FusionRole", "getFusionRole",
                    (ins),
    [{ return ConcreteOp::fusionRole; }]>,
    InterfaceMethod<[{
      For role Access: composes the access chain, from a position of this op's result, with the map
      to the operand's position. Returns the operand.
    }],
    "::mlir::Value", "composeAccess", (ins "::sluice::AccessChain &":$chain), [{}],
        [{ return ::mlir::Value(); }]>,
    InterfaceMethod<[{For roles elementwise, rows: emits the computation of one row (or,
        in an epilogue, of one element) and
      sets the results' values in `body`.}],
    "::mlir::LogicalResult", "emitBody", (ins "::sluice::BodyBuilder &":$body), [{}],
        [{ return ::mlir::failure(); }]>,
    InterfaceMethod<"Returns the rows of its first operand that one row depends on; by default "
                    "the same row.",
    "::sluice::RowGroup", "getRowGroup", (ins), [{}], [{ return ::sluice::RowGroup(); }]>,
    InterfaceMethod<"Returns true if its row is the k concatenated rows of a group, which must be "
                    "stored before another body accesses them.",
    "bool", "yieldsGroup", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"For role Contraction, of rows by operand 1: returns true if that operand is "
                    "indexed [in, out], as in a linear map's input gradient.",
    "bool", "multipliesByInput", (ins), [{ return ConcreteOp::isMultipliedByInput; }]>,
    InterfaceMethod<"For role Alone: builds the op's own dispatches and sets its results' tensors "
                    "in `emitter`.",
    "::mlir::LogicalResult", "emitDispatches", (ins "::sluice::DispatchEmitter &":$emitter), [{}],
        [{ return ::mlir::failure(); }]>,
  ];
}

#endif
