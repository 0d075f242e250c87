// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of the decode step in the model dialect: schedules of rows, and states such as KV caches
// (docs/generation.md). Separate from Sluice.td, because few programs need it.

#ifndef SLUICE_STEP_TD
#define SLUICE_STEP_TD

include "sluice/Dialect/Sluice/Sluice.td"

def Sluice_ScheduleOp : Sluice_Op<"schedule", [Symbol]> {
  let summary = "Schedule of the rows that each decode step computes";
  let description = [{
    Step t, which appends token t, computes rows N(t - 1) up to N(t), with N(t) = max(0,
    min(count(t))) and N(-1) = 0; no row if these are equal. `due` is the inverse: row m is computed
    at step max(due(m)). Step `first` computes the first row; from there N(t + period) = N(t) +
    rise. No step computes more than `burst` rows. Both maps have one dimension and consist of sums,
    multiples and floor divisions by constants.

    With `segments` of an axis, t counts its closed segments instead: a step that increases the
    number of closed segments from b to c computes rows N(b) up to N(c), and the first step all rows
    below N(c).

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
  let summary = "Ring buffer of the rows that later steps access, such as a KV cache; one per "
                "batch row";
  let description = [{
    Slot q mod `ring` stores row q; the type specifies scale, width and storage. With `all` the
    accesses of earlier rows are unbounded, and the ring is the value's capacity, ceil(context /
    factor). A state is saved and loaded by name. Rows before 0 are null and have no slot.

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
    The op that defines `value` computes only the rows of the schedule, and users of `value` itself
    access only these rows.

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
  let summary = "Stores this step's rows of a value in a state; the result is the state's rows";
  let description = [{
    Result row q is row q of `value`, for the newest `ring` rows up to this step. An access to any
    other row >= 0 would be an error; the proof obligations of the step exclude it.

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
