// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The recurrence over rows. A part of Dispatch.td, which includes it.

def Dispatch_RecurrenceOp : Dispatch_KernelOp<"recurrence", [SingleBlock]> {
  let summary = "Rows that depend on the previous row: a contraction and a cell per row";
  let description = !strconcat([{
    Computes the rows of a sequence one after another, with `reversed` from the last one. The
    *previous* row of row p is row p - 1, or p + 1 if `reversed`. Let H be `columns`. The body is
    scalar code that runs for each column j < H. A tensor of m H columns holds m *groups*, and
    column j has m numbers of it: columns j, H + j, ... The arguments of the body are the numbers of

      1. with `weighted`, the product of the first operand, the weight, and the previous row of
         result 0: the weight is [N, K], K the columns of that row, or with `by_input` [K, N];
      2. each other operand, its row found by its access `row[p + c]`;
      3. the previous row of each of the first `carried` results.

    It yields the numbers of each result at row p. The product and the numbers of the previous row
    are zeros where there is no such row, and where it is *cut off*. With `resets` the last operand
    holds one number per row, and a row whose number is greater than 0.5 is cut off from its
    previous row. So are rows `reset_at`, `reset_at` + `reset_every`, ..., if `reset_every` is not
    0. A kernel may rely on `reset_within` n > 0: at most n rows from one such number to the next,
    or from the first row. With `adjoint`, a row is cut off where its previous row has such a number
    or is such a row, and operands at other rows than p are zeros where row p has or is. Rows that
    are not valid are not written.

    In a scheduled domain the rows that are due are computed in their order. The rings of carried
    results keep the previous row.

    Example:

    ```mlir
    %h, %c = dispatch.recurrence %u, %x attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>, columns = 4 : i64,
        carried = 2 : i64, weighted, accesses = [#dispatch.access<row, factor = 1>]} {
    ^bb0(%product: f32, %sum: f32, %before: f32, %cell: f32):
      %both = arith.addf %product, %sum : f32
      %next = arith.addf %both, %cell : f32
      dispatch.yield %both, %next : f32, f32
    } : (tensor<4x4xf32>, tensor<2x16x4xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x4xf32>)
    ```

    Constraints:
    - D-081: tensors of rows are [B, T, m H], H at least 1: results f32, operands f32 or bf16.
    - D-082: the weight is f32 or bf16, as many columns as result 0 (rows with `by_input`), and
      a multiple of H rows (columns).
    - D-083: `carried` is at most the number of results, and at least 1 with `weighted`.
    - D-084: the numbers of `resets` are f32 or i32, one per row; `reset_every` and `reset_within`
      are at least 0, and `reset_within` is 0 without `resets`.
    - D-085: the body's arguments and yielded values are f32, as many as listed above.
    - D-086: accesses of operands are `row[p + c]`.
  }], scheduleConstraints, accessConstraints);
  let arguments = !con((ins Variadic<AnyRankedTensor>:$all_operands, Dispatch_Domain:$domain,
                        ArrayAttr:$accesses, I64Attr:$columns, I64Attr:$carried,
                        UnitAttr:$weighted, UnitAttr:$by_input, UnitAttr:$reversed,
                        UnitAttr:$adjoint, UnitAttr:$resets,
                        DefaultValuedAttr<I64Attr, "0">:$reset_every,
                        DefaultValuedAttr<I64Attr, "0">:$reset_at,
                        DefaultValuedAttr<I64Attr, "0">:$reset_within, OptionalAttr<StrAttr>:$label,
                        OptionalAttr<StrAttr>:$guard), planning);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{operands attr-dict-with-keyword $body `:` functional-type(operands,
      results)}];
  let extraClassDeclaration = [{
    /// Returns the weight; null without one.
    ::mlir::Value getWeight() {
      return getWeighted() ? ::mlir::Value(getAllOperands().front()) : ::mlir::Value();
    }
    /// Returns the numbers that cut rows off; null without `resets`.
    ::mlir::Value getBits() {
      return getResets() ? ::mlir::Value(getAllOperands().drop_back(countSchedule()).back())
                         : ::mlir::Value();
    }
    /// Returns the operands with an access.
    ::mlir::OperandRange getInputs() {
      return getAllOperands().drop_front(getWeighted() ? 1 : 0)
          .drop_back(countSchedule() + (getResets() ? 1 : 0));
    }
    /// Returns the number of groups of a tensor of rows.
    int64_t countGroups(::mlir::Value rows) {
      return ::llvm::cast<::mlir::RankedTensorType>(rows.getType()).getShape().back() /
             static_cast<int64_t>(getColumns());
    }
    /// Returns the number of groups of the product; 0 without a weight.
    int64_t countProductGroups();
    /// Returns the number of columns of a row that the weight multiplies; 0 without a weight.
    int64_t countInnerColumns();
    /// Returns how far an input's row is after row p.
    int64_t getOffset(unsigned input);
    AccessAttr getAccess(unsigned operand);
    std::optional<int64_t> getRowFactor(unsigned operand);
    bool staysWithinAxis(unsigned) { return true; }

  private:
    unsigned countSchedule() { return getDomain().getScheduled() ? 1 : 0; }

  public:
  }];
  let hasVerifier = 1;
}
