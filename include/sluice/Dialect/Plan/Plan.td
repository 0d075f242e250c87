// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect: named memory, launches, entry points. docs/plan-and-artifact.md specifies its
// file format.

#ifndef SLUICE_PLAN_TD
#define SLUICE_PLAN_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::sluice::plan";
  let summary = "Buffers in one arena, launches, entry points";
  let description = [{
    Before memory is planned, `plan.bind`, `plan.view` and `plan.store` name memory that outlives an
    entry point. Planning turns each function of dispatches into a `plan.entry` of `plan.launch`es
    over `plan.buffer`s.

    An entry is verified against its module, because the runtime trusts it. The arguments of each
    launch are in the arena (`plan.arena_bytes` of the module) and at the scalars' places. The arena
    also contains the buffers and the launch's workspace, at a multiple of 64 bytes, which begins
    with the kernel's `counters`. A launch is ordered after each earlier launch that accesses the
    same bytes. [Dispatches](dispatch.md) define the guard of a launch; its scalar has a buffer and
    is written before.
  }];
  /// Attributes of a module of dispatches: the losses that an objective reports, the factors that
  /// steps draw and the bytes of the arena. A function for one of the factors has that `factor` and
  /// the name of the entry that it is a variant `of`. `offsets` are the byte offsets of a
  /// dispatch's results, for readers of the IR: no pass uses them.
  let discardableAttrs = (ins "::mlir::ArrayAttr":$losses, "::mlir::DenseI64ArrayAttr":$factors,
                          "::mlir::IntegerAttr":$arena_bytes, "::mlir::StringAttr":$of,
                          "::mlir::IntegerAttr":$factor, "::mlir::IntegerAttr":$shape,
                          "::mlir::DenseI64ArrayAttr":$offsets);
}

/// Named memory, which outlives an entry point.
def Plan_NamedMemory : Resource<"::sluice::plan::NamedMemory">;

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_BindOp : Plan_Op<"bind", [MemoryEffects<[MemRead<Plan_NamedMemory>]>]> {
  let summary = "Loads the contents of named memory, as a tensor";
  let description = [{
    Reads the place at this point: earlier stores to it are visible, later stores are not. `place`
    is `class:name`: parameter:NAME, compute:NAME, quantized:NAME, scale:NAME, gradient:NAME,
    flat:NAME, scalar:NAME, constant:NAME, input:NAME, output:NAME, state:NAME.

    Example:

    ```mlir
    %weight = plan.bind "parameter:head.weight" : tensor<4x6xf32>
    ```

    Constraints:
    - P-001: `place` is CLASS:NAME of a class above.
    - P-002: the tensor has a static shape.
  }];
  let arguments = (ins StrAttr:$place);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = "$place attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Plan_ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "The same memory under another shape";
  let description = [{
    Both have the same number of elements of one type, and rank 1 or 2: rows of rank 3 are padded.

    Example:

    ```mlir
    %flat = plan.view %weight : tensor<4x6xf32> -> tensor<24xf32>
    ```

    Constraints:
    - P-003: both types have one element type, the same number of elements and rank 2 or
      less.
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Plan_StoreOp : Plan_Op<"store", [MemoryEffects<[MemWrite<Plan_NamedMemory>]>]> {
  let summary = "Writes a tensor to named memory";
  let description = [{
    It moves no data: the dispatch that computes `value` writes to the place. So memory planning
    rejects a function that uses an earlier `plan.bind` of the place after that dispatch.

    Example:

    ```mlir
    plan.store "gradient:head.weight", %gradient : tensor<4x6xf32>
    ```

    Constraints:
    - P-001: `place` is CLASS:NAME of a class above.
    - P-002: the tensor has a static shape.
  }];
  let arguments = (ins StrAttr:$place, AnyRankedTensor:$value);
  let assemblyFormat = "$place `,` $value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Plan_BufferOp : Plan_Op<"buffer"> {
  let summary = "A range of the arena";
  let description = [{
    Example:

    ```mlir
    plan.buffer "scalar:step" at 0 bytes 8 device 0
    ```

    Constraints:
    - P-001: `place` is CLASS:NAME of a class of `plan.bind`.
    - P-004: `offset` and `bytes` are at least 0, and `device` is 0.
    - P-018: a place has one buffer.
    - P-021: the buffer is in the arena.
  }];
  let arguments = (ins StrAttr:$place, I64Attr:$offset, I64Attr:$bytes, I64Attr:$device);
  let assemblyFormat = "$place `at` $offset `bytes` $bytes `device` $device attr-dict";
  let hasVerifier = 1;
}

def Plan_KernelOp : Plan_Op<"kernel", [Symbol]> {
  let summary = "A kernel: one dispatch shape, generated once for all its launches";
  let description = [{
    `operand_bytes` are the sizes of the dispatch's operands, then of its results, the last
    `written` of them. `draws_by_update` and `scheduled` are the dispatch's attributes.

    Example:

    ```mlir
    plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "rows",
        variants = {"cpu-avx2" = {items = 2 : i64}}, operand_bytes = array<i64: 64, 64>,
            written = 1 : i64}
    ```

    Constraints:
    - P-005: bytes are at least 0, and `written` is at most their number.
    - P-006: a variant is a dictionary.
    - P-019: the numbers of a variant are i64 of at least 0.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind, DictionaryAttr:$variants,
                   F64Attr:$flops, F64Attr:$bytes,
                       DenseI64ArrayAttr:$operand_bytes, I64Attr:$written,
                           UnitAttr:$draws_by_update, UnitAttr:$scheduled);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

def Plan_EntryOp : Plan_Op<"entry", [Symbol, HasParent<"::mlir::ModuleOp">, NoTerminator,
                                     SingleBlock,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "An entry point: launches in order";
  let description = [{
    In a model whose steps draw their factor, `factor` marks the variant of the entry `of` for a
    factor other than the first. In a model whose lines are batched by length, `shape` numbers the
    batch shape of the variant, from 1.

    Example:

    ```mlir
    module attributes {plan.arena_bytes = 192 : i64} {
      plan.buffer "scalar:length" at 0 bytes 8 device 0
      plan.buffer "scalar:rows" at 8 bytes 8 device 0
      plan.buffer "scalar:step" at 16 bytes 8 device 0
      plan.buffer "scalar:seed" at 24 bytes 8 device 0
      plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "rows", variants = {},
          operand_bytes = array<i64: 64, 64>, written = 1 : i64}
      plan.entry @evaluate {
        plan.launch @norm([64, 128, 0, 8, 16, 24, 0, 0]) phase "forward" after []
      }
    }
    ```

    Constraints:
    - P-007: the body holds launches and all-reduces alone.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$of,
                   OptionalAttr<I64Attr>:$factor, OptionalAttr<I64Attr>:$shape);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{$sym_name (`of` $of^ (`factor` $factor^)? (`shape` $shape^)?)?
                         attr-dict-with-keyword $body}];
}

def Plan_LaunchOp : Plan_Op<"launch", [HasParent<"EntryOp">]> {
  let summary = "Runs a kernel over its items";
  let description = [{
    `arguments` are byte offsets into the arena: of operands and results, of the scalars length,
    rows, step and seed, and of draw_rows if the kernel draws by the update. Then come the first
    random stream, a plain integer, and the workspace's offset. The kernel's variant specifies the
    number of items. `after` lists the launches of this entry that must complete before, by
    ascending index. `guard` names an i32 scalar that must be one. `axis` is the axis of segments
    whose rows it runs over; without one, the tokens' length determines the number of rows.

    `runs` has four numbers for each operand or result that the launch accesses in part, because of
    its length bucket: the operand's number, the number of runs of bytes, their stride, and the
    bytes per run. The launch accesses no bytes between the runs. It accesses all of every other
    operand.

    Example:

    ```mlir
    module attributes {plan.arena_bytes = 192 : i64} {
      plan.buffer "scalar:length" at 0 bytes 8 device 0
      plan.buffer "scalar:rows" at 8 bytes 8 device 0
      plan.buffer "scalar:step" at 16 bytes 8 device 0
      plan.buffer "scalar:seed" at 24 bytes 8 device 0
      plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "rows", variants = {},
          operand_bytes = array<i64: 64, 64>, written = 1 : i64}
      plan.entry @evaluate {
        plan.launch @norm([64, 128, 0, 8, 16, 24, 0, 0]) phase "forward" after []
        plan.launch @norm([128, 64, 0, 8, 16, 24, 0, 0]) phase "forward" after [0]
      }
    }
    ```

    Constraints:
    - P-008: `kernel` names a `plan.kernel` of the module.
    - P-009: there is one argument per operand, result and scalar, then the stream and the
      workspace.
    - P-010: the module has `plan.arena_bytes`, an i64, and each operand and result is in
      the arena.
    - P-011: the scalars are the buffers of their places.
    - P-012: `after` holds ascending numbers of earlier launches.
    - P-013: `after` orders the launch after each earlier one that touches the same bytes,
      of which one writes.
    - P-014: the scalar of the guard has a buffer, and an earlier launch without a guard
      writes it.
    - P-015: under a guard that allows, the kernel is scheduled.
    - P-016: a launch that writes parameters, moments or compute copies has a guard that
      forbids, but in `initialize` and `prepare`.
    - P-017: under a guard that forbids, results are in named memory.
    - P-020: the workspace, with its counters, is in the arena at a multiple of its
      alignment.
    - P-022: `runs` is four numbers per operand that has some, in ascending order.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, DenseI64ArrayAttr:$arguments, StrAttr:$phase,
                       DenseI64ArrayAttr:$after, OptionalAttr<StrAttr>:$guard,
                           OptionalAttr<StrAttr>:$axis,
                       OptionalAttr<DenseI64ArrayAttr>:$runs);
  let assemblyFormat = "$kernel `(` $arguments `)` `phase` $phase `after` $after attr-dict";
}

def Plan_AllReduceOp : Plan_Op<"all_reduce", [HasParent<"EntryOp">]> {
  let summary = "Sums a bucket of the gradients over processes";
  let description = [{
    The place in a backward pass where a bucket, a range of flat:gradients, is complete. Processes
    that compute the batches of one update begin to exchange it here, while later launches run. Its
    sum, in the order of the processes, is complete before the entry `update` needs it. One process
    does nothing here.

    `offset` and `bytes` are the bucket's place in the arena. `after` lists launches of this entry
    that must complete before, by ascending index. Indices count launches only.

    Processes may run different variants of an entry for one update. So all entries exchange the
    buckets in one order, from the last to the first: a backward pass completes gradients in about
    this order.

    Example:

    ```mlir
    module attributes {plan.arena_bytes = 384 : i64} {
      plan.buffer "scalar:length" at 0 bytes 8 device 0
      plan.buffer "scalar:rows" at 8 bytes 8 device 0
      plan.buffer "scalar:step" at 16 bytes 8 device 0
      plan.buffer "scalar:seed" at 24 bytes 8 device 0
      plan.buffer "flat:gradients" at 256 bytes 128 device 0
      plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {},
          operand_bytes = array<i64: 64, 64>, written = 1 : i64}
      plan.entry @gradient {
        plan.launch @sums([64, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
        plan.all_reduce 1 at 320 bytes 64 after [0]
        plan.launch @sums([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
        plan.all_reduce 0 at 256 bytes 64 after [1]
      }
    }
    ```

    Constraints:
    - P-023: the bucket has a multiple of 64 bytes, at least one, within flat:gradients.
    - P-024: the all-reduces of an entry have the buckets from the last to 0, adjacent in memory,
      and cover flat:gradients. The entry is `gradient` or a variant of it.
    - P-025: `after` holds ascending numbers of earlier launches, and orders the op after each one
      that writes the bucket.
    - P-026: no later launch writes the bucket, or the length of an axis of segments: an entry may
      begin again, with more memory, after a launch that writes a length.
  }];
  let arguments = (ins I64Attr:$bucket, I64Attr:$offset, I64Attr:$bytes,
                       DenseI64ArrayAttr:$after);
  let assemblyFormat = "$bucket `at` $offset `bytes` $bytes `after` $after attr-dict";
}

#endif
