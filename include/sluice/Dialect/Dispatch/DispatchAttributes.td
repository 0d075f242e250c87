// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Domains and accesses. A part of Dispatch.td, which includes it.

class Dispatch_Attr<string name, string mnemonic_, list<Trait> traits = []>
    : AttrDef<Dispatch_Dialect, name, traits> { let mnemonic = mnemonic_; }

def Dispatch_Domain : Dispatch_Attr<"Domain", "domain"> {
  let summary = "The rows a dispatch runs over";
  let description = [{
    Row r = b * positions + p, 0 <= b < batch, 0 <= p < positions. With `factor` f > 0 row (b, p) is
    valid when b < rows and p < ceil(length / f), `rows` and `length` being device scalars; with f =
    0 every row is valid.

    With `axis` the length is element b of `length.AXIS` instead, i64 [batch, 1], also for every
    access of row b: the number of rows of batch row b on that axis. An earlier dispatch stores it:
    from the bits of segments, or from the host's counts of lines and given rows. Factors are
    relative to the axis, and are 0 for rows of another axis.

    A *scheduled* domain runs over a part of the rows that differs by batch row. The dispatch's last
    operand is then its *schedule*, i64 [batch, 3]: for batch row b the first position `start`, the
    number of rows `count`, 0 to `positions`, and the sequence's length in tokens, with start +
    count <= ceil(length / factor). Rows (b, j) with j < count are valid and have position p = start
    + j; the valid length at factor f is ceil(length / f), instead of the device scalars. Every
    operand or result [B, T, ...] of rows is a *ring* buffer there: row q mod T has position q. If T
    covers the capacity, this is row q, so a whole sequence is a special case. Rows that are not
    valid are neither computed nor written.
  }];
  let parameters = (ins "int64_t":$batch, "int64_t":$positions, "int64_t":$factor,
                        DefaultValuedParameter<"bool", "false">:$scheduled,
                        OptionalParameter<"::mlir::StringAttr">:$axis);
  let builders = [AttrBuilder<(ins "int64_t":$batch, "int64_t":$positions, "int64_t":$factor,
                                   CArg<"bool", "false">:$scheduled), [{
    return $_get($_ctxt, batch, positions, factor, scheduled, ::mlir::StringAttr());
  }]>];
  let assemblyFormat = [{`<` `batch` `=` $batch `,` `positions` `=` $positions `,`
                         `factor` `=` $factor
                         (`,` `scheduled` `=` $scheduled^)? (`axis` `=` $axis^)? `>`}];
  let extraClassDeclaration = [{
    /// Returns the number of rows of one launch, valid or not.
    int64_t getLaunchRows() const { return getBatch() * getPositions(); }
  }];
}

def Dispatch_Softmax : Dispatch_Attr<"Softmax", "softmax"> {
  let summary = "Weights of a range: the entries of a row of a softmax map";
  let description = [{
    The weight between row p of the domain and row q of the range is exp(f(s + t) - n), with f(x) =
    x for x > 0, else `leak` x. s is the number of p of operand `source`, t the number of q of
    operand `target`, and n the number of p of operand `norm`, the logarithm of the sum of
    exponentials. With `transposed` p and q are exchanged. With `slope` the weight is multiplied by
    the derivative of f at s + t. The three operands are f32 [B, T'] with access `row`.

    ```mlir
    #dispatch.softmax<source = 0, target = 1, norm = 2, leak = 2.000000e-01 : f32>
    ```
  }];
  let parameters = (ins "int64_t":$source, "int64_t":$target, "int64_t":$norm,
                    "::mlir::FloatAttr":$leak,
                    DefaultValuedParameter<"bool", "false">:$transposed,
                    DefaultValuedParameter<"bool", "false">:$slope);
  let assemblyFormat = [{`<` `source` `=` $source `,` `target` `=` $target `,` `norm` `=` $norm
                         `,` `leak` `=` $leak (`transposed` `=` $transposed^)?
                         (`slope` `=` $slope^)? `>`}];
}

def Dispatch_AccessKind : I32EnumAttr<"AccessKind",
    "how a row of an operand or a result is found", [
    I32EnumAttrCase<"Row", 0, "row">, I32EnumAttrCase<"Table", 1, "table">,
    I32EnumAttrCase<"Gather", 2, "gather">, I32EnumAttrCase<"Vector", 3, "vector">,
    I32EnumAttrCase<"Scalar", 4, "scalar">, I32EnumAttrCase<"Flat", 5, "flat">,
    I32EnumAttrCase<"Columns", 6, "columns">, I32EnumAttrCase<"Range", 7, "range">]> {
  let cppNamespace = "::sluice::dispatch";
  let genSpecializedAttr = 0;
}

def Dispatch_Access : Dispatch_Attr<"Access", "access"> {
  let summary = "The rows of an operand (or result) that a row of the domain accesses";
  let description = [{
    | kind | tensor | row read for (b, p) | body argument |
    |---|---|---|---|
    | `row` | [B, T', d] | (b, map(p, i)[N']) for i < group | tensor<d> (group 1), tensor<group x d> |
    | `row` | [B, T'] | (b, map(p, 0)[N']) | element |
    | `table` | [T', d] | map(p, 0) | tensor<d> |
    | `gather` | [V, d] | v, the value (i32) of body argument `index` | tensor<d> |
    | `gather` | [B, T', d] | (b, map(v, 0)[N']) | tensor<d> |
    | `gather` | [B, T'] | (b, map(v, 0)[N']) | element |
    | `range` | [B, T', d] | the sum of (b, q), map(v, 0)[N'] <= q < map(w, 1)[N'] | tensor<d> |
    | `range` | [B, T'] | the same | element |
    | `range` with `list` | [B, T', d] | the sum of (b, l[q]), l of operand `list`, i32 [B, E] | tensor<d> |
    | `range` with `drawn` | [B, T'], i32 | the number of rows in the range that are drawn | i32 |
    | `vector` | [d] | | tensor<d> |
    | `scalar` | rank 0 | | element |
    | `flat` | [R, d] or [R] | r | tensor<d>, element |
    | `flat` with `group` > 1 | [R, d] | map(p, i) for i < group | tensor<group x d> |
    | `columns` (results only) | [parts, d] | sums over the rows of each part | tensor<d> yielded |

    `map` is (p, i)[N'] -> position, N' = ceil(length / source_factor) the valid length of the
    source. If source_factor is 0, N' is T'; but in a scheduled domain the sequence then has no end,
    because its ring contains every accessed row. A position outside [0, N') is loaded as zeros.
    `column` is (p) or (p, i) -> first column, so that a row of k d columns can be loaded as k rows
    of d (zero: the whole row or its first d columns). If the first column is negative, zeros are
    loaded too. With `outside` a position outside is loaded as that number, the identity of the
    combiner of the rows. Of one row, columns outside [0, d) are that number too, so that an
    argument may have more columns than the operand. Results use `row` with the identity map,
    `flat`, `vector` and `scalar` (domains of one row), or `columns`. A result of access `row` or
    `flat` whose yield is tensor<k x d> is stored as one row of k d columns.

    The assembly form has the kind and the position, then the parameters that differ from their
    defaults: position p, group 1, factor 0, column 0, no index. In a position, `p` is the position
    of the row, `v` the value of an index (of `gather` and `range`), `i` the row of the group and
    `n` is N'. In a column, `p` and `i` are the same.

    ```mlir
    #dispatch.access<row>
    #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1, outside = 0xFF800000 : f32>
    #dispatch.access<row[p floordiv 3], factor = 3, column = (p mod 3) * 8>
    #dispatch.access<range[v + 1], factor = 1, index = 0, last = 1>
    #dispatch.access<range[v + 16], index = 0, last = 1, list = 0, weight = 2>
    #dispatch.access<range[i * n], factor = 1, weight = 2, drawn = 0>
    ```

    An index is an argument of access `row`; an index of a range may be a gathered element too. For
    a range, v is the value of argument `index` and w the value of argument `last`; both are p if
    the argument is -1. Rows outside [0, N') are skipped, and the sum is in the order of q. With an
    infinite `outside` the result is the maximum of each column instead, minus infinity without
    rows. With `extended`, for elements of i32 only, a position below 0 is loaded as itself and a
    position >= N' as the maximum i32: so an ascending sequence continues.

    With `list` a range counts entries of that operand, i32 [B, E], and each entry is the position
    of a row; entries outside [0, E) are skipped, and positions outside [0, N') are zeros. With
    `weight` the row at position q is multiplied by number q of that operand, f32 [B, T'], before it
    is added. With `softmax` it is multiplied by a number of both rows instead, an
    `#dispatch.softmax`, with or without a list.

    With `drawn` only rows q are added whose pair with p is drawn. The operand of that number, i32
    [B, T'], has a number for each row of the source. Let a = min(p, q) and c = max(p, q). The pair
    is drawn if p and q differ and have the same number k, and a word is at least 2^31. It is the
    first of Philox4x32-10 with the counter (a, c, 0, 0) and the key (k, 0) (Salmon et al. 2011).
    This is a symmetric choice of half of all pairs of rows with one number, of which nothing is
    stored.
  }];
  let parameters = (ins "::sluice::dispatch::AccessKind":$kind, "::mlir::AffineMapAttr":$map,
                    "int64_t":$group,
                        "int64_t":$source_factor, "::mlir::AffineMapAttr":$column, "int64_t":$index,
                        OptionalParameter<"::mlir::FloatAttr">:$outside,
                        DefaultValuedParameter<"int64_t", "-1">:$last,
                        DefaultValuedParameter<"bool", "false">:$extended,
                        DefaultValuedParameter<"int64_t", "-1">:$list,
                        DefaultValuedParameter<"int64_t", "-1">:$weight,
                        DefaultValuedParameter<"int64_t", "-1">:$drawn,
                        OptionalParameter<"::sluice::dispatch::SoftmaxAttr">:$softmax);
  let builders = [
    AttrBuilder<(ins "AccessKind":$kind), [{
      auto two = ::mlir::AffineMap::get(2, 1, ::mlir::getAffineDimExpr(0, $_ctxt));
      auto zero = ::mlir::AffineMap::get(1, 0, ::mlir::getAffineConstantExpr(0, $_ctxt));
      return $_get($_ctxt, kind, ::mlir::AffineMapAttr::get(two), 1, 0,
                   ::mlir::AffineMapAttr::get(zero), -1,
                   ::mlir::FloatAttr(), -1, false, -1, -1, -1, SoftmaxAttr());
    }]>,
    AttrBuilder<(ins "AccessKind":$kind, "::mlir::AffineMapAttr":$map, "int64_t":$group,
                 "int64_t":$source_factor,
                     "::mlir::AffineMapAttr":$column, "int64_t":$index,
                         "::mlir::FloatAttr":$outside, CArg<"int64_t", "-1">:$last,
                         CArg<"bool", "false">:$extended), [{
      return $_get($_ctxt, kind, map, group, source_factor, column, index, outside, last, extended,
                   -1, -1, -1, SoftmaxAttr());
    }]>,
    AttrBuilder<(ins "AccessKind":$kind, "::mlir::AffineMap":$map, "int64_t":$group,
                 "int64_t":$source_factor), [{
      auto zero = ::mlir::AffineMap::get(1, 0, ::mlir::getAffineConstantExpr(0, $_ctxt));
      return $_get($_ctxt, kind, ::mlir::AffineMapAttr::get(map), group, source_factor,
                   ::mlir::AffineMapAttr::get(zero), -1,
                   ::mlir::FloatAttr(), -1, false, -1, -1, -1, SoftmaxAttr());
    }]>];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns true for row p of the source itself: identity map, one row, whole width.
    bool isIdentity() const;
    /// Returns the number of levels of index arguments: 0 without an index; a gather has indices of
    /// level 0, and a range has indices of levels 0 and 1.
    unsigned getLevel() const {
      return getKind() == AccessKind::Range ? 2 : getKind() == AccessKind::Gather ? 1 : 0;
    }
    /// Returns how a range combines its rows: their sum, or the maximum of each column.
    ReduceKind getRangeKind() const { return getOutside() ? ReduceKind::Max : ReduceKind::Add; }
    /// Returns true if a range counts entries of a list, which are positions of rows.
    bool isListed() const { return getList() >= 0; }
    /// Returns true if a range has only rows that are drawn.
    bool isDrawn() const { return getDrawn() >= 0; }
    /// Returns the other arguments whose operands the access loads: indices, list, weights and the
    /// number by which rows are drawn.
    ::llvm::SmallVector<unsigned> getIndices() const;
  }];
}
