// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces that dispatches and backward ops share.

#ifndef SLUICE_DISPATCH_INTERFACES_TD
#define SLUICE_DISPATCH_INTERFACES_TD

include "mlir/IR/OpBase.td"

def RowReadsInterface : OpInterface<"RowReadsInterface"> {
  let description = [{
    Row dependences of results on operands, as the op specifies them (accesses, masks), so that they
    can be recomputed after a pass and compared with the dependences before it.
  }];
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<[{
      Returns all accesses of row p of result `result`, any number per operand. std::nullopt if the
      result does not have one row per position (a parameter's gradient, a mean).
    }], "std::optional<::llvm::SmallVector<::sluice::dispatch::RowRead>>", "getRowReads",
        (ins "unsigned":$result)>,
    InterfaceMethod<"Returns true if the numbers of `result` depend on the number of valid rows, "
                    "like the gradient of a mean.",
    "bool", "readsLength", (ins "unsigned":$result), [{}], [{
      (void)result;
      return false;
    }]>,
    InterfaceMethod<[{
      If a row of the result is the k concatenated rows of a group: returns the accesses of the row
      at fine position p, for a user that needs only this row (`sluice.unfold`). std::nullopt if the
      op does not distinguish them.
    }], "std::optional<::sluice::dispatch::RowRead>", "getMemberRead", (ins), [{}],
        [{ return std::nullopt; }]>,
  ];
}

def KernelInterface : OpInterface<"KernelInterface"> {
  let description = "Accesses of a dispatch to its operands and results in memory.";
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"Returns the rows that the dispatch runs over.",
                    "::sluice::dispatch::DomainAttr",
                    "getDomain">,
    InterfaceMethod<"Sets the rows that the dispatch runs over.", "void", "setDomainAttr",
                    (ins "::sluice::dispatch::DomainAttr":$domain)>,
    InterfaceMethod<"Returns the scalar that enables the launch; null without a guard.",
                    "::mlir::StringAttr", "getGuardAttr">,
    InterfaceMethod<"Sets the guard; null removes it.", "void", "setGuardAttr",
                    (ins "::mlir::StringAttr":$guard)>,
    InterfaceMethod<"Returns true if the dispatch belongs to the backward pass.", "bool",
                    "getBackward">,
    InterfaceMethod<"Moves the dispatch to the backward pass or out of it.", "void", "setBackward",
                    (ins "bool":$backward)>,
    InterfaceMethod<"Sets the name that profiles show; null removes it.", "void", "setLabelAttr",
                    (ins "::mlir::StringAttr":$label)>,
    InterfaceMethod<"Returns true if the dispatch repeats another one of its function.", "bool",
                    "getRecomputed">,
    InterfaceMethod<"Marks a dispatch that repeats another one. The mark keeps cse from merging "
                    "the two, which would undo the savings.", "void", "setRecomputed",
                    (ins "bool":$recomputed)>,
    InterfaceMethod<"Returns the access of `operand`; null if the operand has a fixed role in the "
                    "op.",
    "::sluice::dispatch::AccessAttr", "getAccess", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return {};
    }]>,
    InterfaceMethod<"Returns the rows of `result`: the rows of the domain, of keys, or of "
                    "distances.",
    "::sluice::dispatch::DomainAttr", "getResultDomain", (ins "unsigned":$result), [{}], [{
      (void)result;
      return $_op.getDomain();
    }]>,
    InterfaceMethod<"Returns true if `result` has a row, or a number, for each row of its domain.",
    "bool", "followsDomain", (ins "unsigned":$result), [{}], [{
      (void)result;
      return true;
    }]>,
    InterfaceMethod<"Returns true if the invalid rows of `result` are written as zeros.",
    "bool", "zeroesInvalid", (ins "unsigned":$result), [{}], [{
      (void)result;
      return false;
    }]>,
    InterfaceMethod<"For a domain with an axis: returns true if no row of `result` past the "
                    "axis's rows in a batch is written.",
    "bool", "staysWithinAxis", (ins "unsigned":$result), [{}], [{
      (void)result;
      return false;
    }]>,
    InterfaceMethod<"Returns the factor of the valid length of an operand with rows of sequences; "
                    "std::nullopt for other operands.",
    "std::optional<int64_t>", "getRowFactor", (ins "unsigned":$operand), [{}], [{
      return ::sluice::dispatch::findRowFactor($_op, operand);
    }]>,
    InterfaceMethod<"Returns true if it computes segments, so that other dispatches have "
                    "data-dependent accesses.",
    "bool", "makesSegments", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Returns true if only row j of the domain accesses row j of `operand`.",
    "bool", "readsOwnRows", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return false;
    }]>,
    InterfaceMethod<[{
      For a scheduled dispatch: returns the rows of `operand` that a launch loads once for all due
      rows. std::nullopt if each due row loads its own.
    }], "std::optional<::sluice::dispatch::SharedRead>", "getSharedRead",
        (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return std::nullopt;
    }]>,
    InterfaceMethod<[{
      Returns true if a GPU kernel loads no tile of `operand` without valid rows. Kernels that may
      load such tiles override this.
    }], "bool", "skipsInvalid", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return true;
    }]>,
    InterfaceMethod<"Returns the rows of such a tile, aligned to a multiple of this number, for a "
                    "GPU kernel of `blocks` blocks.",
    "int64_t", "getTileRows", (ins "int64_t":$blocks), [{}], [{
      (void)blocks;
      return 1;
    }]>,
  ];
}

def DrawInterface : OpInterface<"DrawInterface"> {
  let description = [{
    A dispatch that may draw random numbers. Draws are indexed by the rows of the batch; with
    `draws_by_update`, row b of the batch has the number b of the device scalar draw_rows, i64
    [batch]: its place in the update, or the index of its line in the epoch. Draws are then indexed
    as if every axis had `draw_parts` times as many positions, so that they do not depend on the
    shape of the batch.
  }];
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"Returns true if it draws random numbers.", "bool", "drawsNumbers", (ins)>,
    InterfaceMethod<"Returns true if `draws_by_update` is set.", "bool", "getDrawsByUpdate", (ins)>,
    InterfaceMethod<"Sets or clears `draws_by_update`.", "void", "setDrawsByUpdate",
                    (ins "bool":$by)>,
    InterfaceMethod<"Returns `draw_parts`.", "uint64_t", "getDrawParts", (ins)>,
    InterfaceMethod<"Sets `draw_parts`.", "void", "setDrawParts", (ins "uint64_t":$parts)>,
  ];
}

def SharedMemoryInterface : OpInterface<"SharedMemoryInterface"> {
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"Returns the results that alias an operand, each with that operand.",
    "::llvm::SmallVector<std::pair<::mlir::Value, ::mlir::Value>>", "getShared", (ins)>,
  ];
}

#endif
