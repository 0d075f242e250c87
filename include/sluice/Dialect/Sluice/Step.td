// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of the incremental step in the model dialect: when rows are computed, and which are kept
// (docs/generation.md). Apart from Sluice.td, as few programs need it.

#ifndef SLUICE_STEP_TD
#define SLUICE_STEP_TD

include "sluice/Dialect/Sluice/Sluice.td"

def Sluice_ScheduleOp : Sluice_Op<"schedule", [Symbol]> {
  let summary = "Which rows a step computes";
  let description = [{
    Step t, which appends token t, computes rows N(t - 1) up to N(t), N(t) = max(0, min(count(t)))
    and N(-1) = 0; nothing where these are equal. `due` is the other way round: row m is computed at
    step max(due(m)). The first row comes at step `first`; from there N(t + period) = N(t) + rise.
    No step computes more than `burst` rows. Both maps have one dimension and are made of sums,
    multiples and divisions by constants, rounded down.

    With `segments` of an axis, t counts its closed segments instead: a step that leaves c of them
    closed, and found b, computes rows N(b) up to N(c), and the first step all below N(c).

    Example:

    ```mlir
    sluice.schedule @fourth count (t) -> ((t + 1) floordiv 4) due (m)
        -> (m * 4 + 3) first 3 period 4 rise 1 burst 1
    sluice.schedule @closed segments of @segments count (t) -> (t) due (m)
        -> (m + 1) first 1 period 1 rise 1 burst 1
    ```

    Constraints:
    - S-028: `count` and `due` have one dimension, no symbol and at least one result.
    - S-029: `period`, `rise` and `burst` are at least 1.
    - S-069: `segments` names an axis of segments.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<FlatSymbolRefAttr>:$segments,
                   AffineMapAttr:$count,
                       AffineMapAttr:$due, I64Attr:$first, I64Attr:$period, I64Attr:$rise,
                           I64Attr:$burst);
  let assemblyFormat = [{
    $sym_name (`segments` `of` $segments^)? `count` custom<RowMap>($count) `due`
        custom<RowMap>($due) `first` $first `period` $period `rise` $rise `burst` $burst attr-dict
  }];
  let hasVerifier = 1;
}

def Sluice_StateOp : Sluice_Op<"state", [Symbol]> {
  let summary = "Rows of a value that later steps read: a ring, a batch row";
  let description = [{
    Row q stands in slot q mod `ring`; the type gives scale, width and storage. `all`: some read
    reaches back without limit, and the ring is the value's capacity, ceil(context / factor). Saved
    and loaded by name. A row before 0 is null and stands in no slot.

    Example:

    ```mlir
    sluice.state @keys ring 4 : !sluice.seq<@bytes, 8, f32>
    sluice.state @whole ring 4 all : !sluice.seq<@patches, 8, f32>
    ```

    Constraints:
    - S-030: `ring` is at least 1.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$ring, UnitAttr:$all,
                   TypeAttrOf<Sluice_Sequence>:$type);
  let assemblyFormat = "$sym_name `ring` $ring (`all` $all^)? `:` $type attr-dict";
  let hasVerifier = 1;
}

def Sluice_DueOp : Sluice_Op<"due", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The rows of a value that a step computes";
  let description = [{
    Only rows of the schedule are computed of the op that makes `value`, and readers of `value`
    itself read those rows alone.

    Example:

    ```mlir
    sluice.due %x by @each : !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-031: `schedule` names a schedule.
    - S-032: the value is stored, and not the result of a lazy op.
  }];
  let arguments = (ins Sluice_Sequence:$value, FlatSymbolRefAttr:$schedule);
  let assemblyFormat = "$value `by` $schedule attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Sluice_KeepOp : Sluice_Op<"keep", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Stores this step's rows of a value; its result is the rows that its state holds";
  let description = [{
    Result row q is row q of `value`, for the newest `ring` rows up to this step. Reading any other
    row from 0 on would be an error, and the obligations of the step say that none is read.

    Example:

    ```mlir
    %rows = sluice.keep %x in @window : !sluice.seq<@bytes, 8, f32> -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-033: `state` names a state.
    - S-034: value, state and result have one type.
  }];
  let arguments = (ins Sluice_Sequence:$value, FlatSymbolRefAttr:$state);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$value `in` $state attr-dict `:` type($value) `->` type($result)";
}

#endif
