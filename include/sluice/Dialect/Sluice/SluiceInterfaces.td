// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The questions every op of the model dialect answers. Analyses and transforms ask through these
// and never switch over op kinds.

#ifndef SLUICE_INTERFACES_TD
#define SLUICE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def CausalFlowInterface : OpInterface<"CausalFlowInterface"> {
  let description = [{
    Which operand positions a result position can read. Structural: a path of reads, whatever the
    values. Parameters, constant tables and random numbers are not positions.
  }];
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<[{
      The exact relation D(p, q) of sequence operand `operand`: dims (p, q), symbol n the operand's
      valid length. Result position p >= 0 reads operand position q. Positions outside [0, n) are
      read as a defined null, so the set is not clipped to them where the op's map reaches past
      them. None for operands that are no sequences, and for targets (which may look ahead).
    }], "std::optional<::mlir::IntegerSet>", "getRelation", (ins "unsigned":$operand)>,
    InterfaceMethod<[{
      The latest q that p reads of `operand`, as an expression of d0 = p, non-decreasing; none when
      there is no bound (the whole sequence is read). Only asked where getRelation answers.
    }], "::mlir::AffineExpr", "getLatest", (ins "unsigned":$operand)>,
    InterfaceMethod<[{
      The numbers that data decides in `operand`'s relation: term i is symbol 1 + i of getRelation
      and of getLatest (symbol 0 stays n). A term that a relation reads must also be read as a row:
      its value is an operand of the op, or its result.
    }], "::llvm::SmallVector<::sluice::SegmentTerm, 2>", "getSegmentTerms",
        (ins "unsigned":$operand), [{}], [{ return {}; }]>,
    InterfaceMethod<[{
      All of it for one result. An op whose results read an operand in different ways (the counts
      and the ends of segments) says so here; what it says above is then of its first result.
    }], "::sluice::PositionReads", "getReads", (ins "unsigned":$result, "unsigned":$operand), [{}],
        [{
      (void)result;
      std::optional<::mlir::IntegerSet> relation = $_op.getRelation(operand);
      return {relation, relation ? $_op.getLatest(operand) : ::mlir::AffineExpr(),
              $_op.getSegmentTerms(operand)};
    }]>,
    InterfaceMethod<"The targets that a row is scored against: what getRelation leaves out.",
    "::llvm::SmallVector<::sluice::dispatch::RowRead>", "getTargetReads", (ins), [{}],
        [{ return {}; }]>,
    InterfaceMethod<[{
      Whether the result is a map onto the first operand and not stored: past the end of its scale
      it is read through to the operand, and is not null. Dispatches are formed of such an op by the
      role access.
    }], "bool", "isLazy", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      The sequence whose positions the rows of `result` name, as where segments end: row p says a
      position that must exist. Null where rows are no positions.
    }], "::mlir::Value", "getNamedPositions", (ins "unsigned":$result), [{}], [{
      (void)result;
      return {};
    }]>,
    InterfaceMethod<"What `result` is in the neutral graph of certificates (docs/certificate.md); "
                    "which rows it reads is said beside it.",
    "std::string", "getNeutralName", (ins "unsigned":$result), [{}], [{
      (void)result;
      return $_op->getName().stripDialect().str();
    }]>,
    InterfaceMethod<"Why no incremental step computes several rows of it at once; empty where one "
                    "may.", "::llvm::StringRef",
    "getBurstRefusal", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"By how many positions of its scale it looks back, or less than 0 ahead; none "
                    "where it is no shift.",
    "std::optional<int64_t>", "getShift", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      Whether a row reads, of its operand's row, only what stands there for its own place in the
      group (RowReadsInterface::getMemberRead).
    }], "bool", "readsMember", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"What to change in a spec where it reads what is not there yet; empty where "
                    "nothing of its own would help.",
    "::sluice::OpRemedy", "getRemedy", (ins), [{}], [{ return {}; }]>,
  ];
}

def AxesInterface : OpInterface<"AxesInterface"> {
  let description = "An op in which sequences of two axes may meet: attention, and its gradient.";
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"What the results have the rows of.", "::mlir::Value", "getQuery", (ins)>,
    InterfaceMethod<"What it reads of the other axis.", "::mlir::Value", "getKey", (ins)>,
  ];
}

def FactorInterface : OpInterface<"FactorInterface"> {
  let description = [{
    An op that multiplies rows by a weight: both in the type that the weight is read in
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
    An op between a scale and its segments, where sequences of both meet; its verifier says how. It
    makes a segmentation, or its last two operands are the counts and ends of one.
  }];
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"The counts of the segmentation, on the scale that is cut.", "::mlir::Value",
                    "getCounts", (ins)>,
    InterfaceMethod<"Whether `operand` holds boundary bits: of these a step needs their number "
                    "alone.",
    "bool", "readsBits", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return false;
    }]>,
    InterfaceMethod<"Whether `operand` holds rows that move between the scales, and not what says "
                    "where segments are.",
    "bool", "movesRows", (ins "unsigned":$operand), [{}], [{
      return operand + 2 < $_op->getNumOperands() && !$_op.readsBits(operand);
    }]>,
    InterfaceMethod<"Whether it makes the segmentation.", "bool", "makesSegmentation", (ins), [{}],
                    [{
      return $_op.getCounts().getDefiningOp() == $_op.getOperation();
    }]>,
    InterfaceMethod<"Segments that lie between a row and the rows that it moves, those at both "
                    "ends with them, at most.",
    "int64_t", "getSegmentsSpanned", (ins), [{}], [{ return 1; }]>,
  ];
}

def DifferentiableInterface : OpInterface<"DifferentiableInterface"> {
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<[{
      Builds the backward ops. `results` holds the gradient of each result (null where none is
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
    InterfaceMethod<[{Floating-point operations, least bytes moved and bytes kept for backward,
                      for the module's whole
      batch at full length; multiply-add counts two, causal work is counted once.}],
    "::sluice::Cost", "getCost", (ins)>,
  ];
}

def ReferenceInterface : OpInterface<"ReferenceInterface"> {
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"Evaluates the op in float64: slow and obvious, the oracle. Reads operands "
                    "and sets results in `evaluator`.",
    "void", "evaluateDouble", (ins "::sluice::reference::Evaluator<double> &":$evaluator)>,
    InterfaceMethod<"The same text in float32: its distance from float64 is the yardstick of "
                    "compiled code.",
    "void", "evaluateFloat", (ins "::sluice::reference::Evaluator<float> &":$evaluator)>,
  ];
}

def FusionInterface : OpInterface<"FusionInterface"> {
  let description = "How an op becomes part of a dispatch: its one lowering.";
  let cppNamespace = "::sluice";
  let methods = [
    InterfaceMethod<"What the op may become part of.", "::sluice::FusionRole", "getFusionRole",
                    (ins),
    [{ return ConcreteOp::fusionRole; }]>,
    InterfaceMethod<[{
      For role access: rewrites `source` (a position of this op's result) into the operand's
      position. Returns the operand.
    }],
    "::mlir::Value", "composeAccess", (ins "::sluice::AccessChain &":$chain), [{}],
        [{ return ::mlir::Value(); }]>,
    InterfaceMethod<[{For roles elementwise, rows: emits the computation of one row (or,
        in an epilogue, of one element) and
      sets the results' values in `body`.}],
    "::mlir::LogicalResult", "emitBody", (ins "::sluice::BodyBuilder &":$body), [{}],
        [{ return ::mlir::failure(); }]>,
    InterfaceMethod<"Rows of its first operand that one row reads; the row's own where it reads "
                    "no groups.",
    "::sluice::RowGroup", "getRowGroup", (ins), [{}], [{ return ::sluice::RowGroup(); }]>,
    InterfaceMethod<"Whether its row is the k rows of a group side by side, which no body reads "
                    "until they are stored.",
    "bool", "yieldsGroup", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"For role contraction, of rows by operand 1: whether this is read [in, out], "
                    "as a linear map's gradient reads its weight.",
    "bool", "multipliesByInput", (ins), [{ return ConcreteOp::isMultipliedByInput; }]>,
    InterfaceMethod<"For role alone: builds the op's own dispatches and sets its results' tensors "
                    "in `emitter`.",
    "::mlir::LogicalResult", "emitDispatches", (ins "::sluice::DispatchEmitter &":$emitter), [{}],
        [{ return ::mlir::failure(); }]>,
  ];
}

#endif
