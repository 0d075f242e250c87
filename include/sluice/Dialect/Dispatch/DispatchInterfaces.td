// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The questions that dispatches and backward ops answer alike.

#ifndef SLUICE_DISPATCH_INTERFACES_TD
#define SLUICE_DISPATCH_INTERFACES_TD

include "mlir/IR/OpBase.td"

def RowReadsInterface : OpInterface<"RowReadsInterface"> {
  let description = [{
    Which rows of its operands a row of a result reads, as the op itself says it (accesses, masks),
    so that dependences can be read again after a pass and compared with what they were.
  }];
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<[{
      What row p of result `result` reads: any number of reads an operand, together all of them.
      None where the result is not one row a position (a parameter's gradient, a mean).
    }], "std::optional<::llvm::SmallVector<::sluice::dispatch::RowRead>>", "getRowReads",
        (ins "unsigned":$result)>,
    InterfaceMethod<"Whether the numbers of `result` depend on how many rows are valid, as the "
                    "gradient of a mean does.",
    "bool", "readsLength", (ins "unsigned":$result), [{}], [{
      (void)result;
      return false;
    }]>,
    InterfaceMethod<[{
      Where a row of the result is the k rows of a group side by side: what the one at position p of
      the fine scale reads, for a reader that takes no other (`sluice.unfold`). None where that is
      not said apart.
    }], "std::optional<::sluice::dispatch::RowRead>", "getMemberRead", (ins), [{}],
        [{ return std::nullopt; }]>,
  ];
}

def KernelInterface : OpInterface<"KernelInterface"> {
  let description = "What a dispatch reads and writes of its operands and results in memory.";
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"The rows that the dispatch runs over.", "::sluice::dispatch::DomainAttr",
                    "getDomain">,
    InterfaceMethod<"Sets the rows that the dispatch runs over.", "void", "setDomainAttr",
                    (ins "::sluice::dispatch::DomainAttr":$domain)>,
    InterfaceMethod<"The scalar that decides whether the launch runs; null without a guard.",
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
    InterfaceMethod<"The access of `operand`; null where the op names it by a role of its own.",
    "::sluice::dispatch::AccessAttr", "getAccess", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return {};
    }]>,
    InterfaceMethod<"The rows that `result` has: those of the domain, of keys, or of distances.",
    "::sluice::dispatch::DomainAttr", "getResultDomain", (ins "unsigned":$result), [{}], [{
      (void)result;
      return $_op.getDomain();
    }]>,
    InterfaceMethod<"Whether `result` has a row, or a number, for each row of its domain.",
    "bool", "followsDomain", (ins "unsigned":$result), [{}], [{
      (void)result;
      return true;
    }]>,
    InterfaceMethod<"Whether the rows of `result` that are not valid are written, as zeros.",
    "bool", "zeroesInvalid", (ins "unsigned":$result), [{}], [{
      (void)result;
      return false;
    }]>,
    InterfaceMethod<"Where the domain has an axis: whether no row of `result` behind those that "
                    "the axis has in a batch is written.",
    "bool", "staysWithinAxis", (ins "unsigned":$result), [{}], [{
      (void)result;
      return false;
    }]>,
    InterfaceMethod<"The factor of the valid length of an operand that holds rows of sequences; "
                    "none for any other.",
    "std::optional<int64_t>", "getRowFactor", (ins "unsigned":$operand), [{}], [{
      return ::sluice::dispatch::findRowFactor($_op, operand);
    }]>,
    InterfaceMethod<"Whether it finds where segments are, so that data decides which rows other "
                    "dispatches read.",
    "bool", "makesSegments", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Whether row j of `operand` is read for row j of the domain alone.",
    "bool", "readsOwnRows", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return false;
    }]>,
    InterfaceMethod<[{
      Of a scheduled dispatch: what the rows of a launch read of `operand` together, each of them
      once, however many rows are due. None where each reads its own.
    }], "std::optional<::sluice::dispatch::SharedRead>", "getSharedRead",
        (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return std::nullopt;
    }]>,
    InterfaceMethod<[{
      Whether a GPU kernel reads no tile of rows of `operand` in which none is valid. A kernel that
      may read others says so.
    }], "bool", "skipsInvalid", (ins "unsigned":$operand), [{}], [{
      (void)operand;
      return true;
    }]>,
    InterfaceMethod<"Rows of such a tile, from a multiple of their number on, where a GPU kernel "
                    "has `blocks` blocks.",
    "int64_t", "getTileRows", (ins "int64_t":$blocks), [{}], [{
      (void)blocks;
      return 1;
    }]>,
  ];
}

def DrawInterface : OpInterface<"DrawInterface"> {
  let description = [{
    A dispatch that may draw random numbers. They are drawn by the rows of the batch; with
    `draws_by_update` by those of the update, of which the batch's first has the number that the
    device scalar first_row says.
  }];
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"Whether it draws any.", "bool", "drawsNumbers", (ins)>,
    InterfaceMethod<"Whether it has `draws_by_update`.", "bool", "getDrawsByUpdate", (ins)>,
    InterfaceMethod<"Gives or takes `draws_by_update`.", "void", "setDrawsByUpdate",
                    (ins "bool":$by)>,
  ];
}

def SharedMemoryInterface : OpInterface<"SharedMemoryInterface"> {
  let cppNamespace = "::sluice::dispatch";
  let methods = [
    InterfaceMethod<"Results that must have an operand's memory, each with that operand.",
    "::llvm::SmallVector<std::pair<::mlir::Value, ::mlir::Value>>", "getShared", (ins)>,
  ];
}

#endif
