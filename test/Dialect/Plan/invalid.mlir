// Plans that violate guarantees of memory planning and the kernel ABI: each edit is rejected, with both
// values.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

func.func @place() -> tensor<8xf32> {
  // expected-error@+1 {{P-001: expected a place CLASS:NAME, of class parameter, compute, quantized, scale, gradient, flat, scalar, constant, input, output, state, found "weight:w"}}
  %w = plan.bind "weight:w" : tensor<8xf32>
  return %w : tensor<8xf32>
}

// -----

func.func @place_without_name(%w: tensor<8xf32>) {
  // expected-error@+1 {{P-001: expected a place CLASS:NAME, of class parameter, compute, quantized, scale, gradient, flat, scalar, constant, input, output, state, found "state:"}}
  plan.store "state:", %w : tensor<8xf32>
  return
}

// -----

func.func @shape() -> tensor<?xf32> {
  // expected-error@+1 {{P-002: expected a tensor of a static shape, found 'tensor<?xf32>'}}
  %w = plan.bind "input:x" : tensor<?xf32>
  return %w : tensor<?xf32>
}

// -----

func.func @view_of_more(%x: tensor<2x3xi64>) -> tensor<7xi64> {
  // expected-error@+1 {{P-003: expected equally many elements of one type, of rank 2 or less, found 'tensor<2x3xi64>' and 'tensor<7xi64>'}}
  %y = plan.view %x : tensor<2x3xi64> -> tensor<7xi64>
  return %y : tensor<7xi64>
}

// -----

func.func @view_of_padded_rows(%x: tensor<1x2x3xf32>) -> tensor<6xf32> {
  // expected-error@+1 {{P-003: expected equally many elements of one type, of rank 2 or less, found 'tensor<1x2x3xf32>' and 'tensor<6xf32>'}}
  %y = plan.view %x : tensor<1x2x3xf32> -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// -----

// expected-error@+1 {{P-004: expected an offset and bytes of at least 0 on device 0, found -64, 8 on device 0}}
plan.buffer "scalar:length" at -64 bytes 8 device 0

// -----

// expected-error@+1 {{P-001: expected a place CLASS:NAME}}
plan.buffer "temporaries" at 64 bytes 8 device 0

// -----

// expected-error@+1 {{P-005: expected bytes of at least 0, of which at most all are written, found 3 of 2 that are written}}
plan.kernel @k {bytes = 1.0 : f64, flops = 1.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 3 : i64}

// -----

// expected-error@+1 {{P-006: expected a dictionary for each target, found 2 : i64 for "items"}}
plan.kernel @k {bytes = 1.0 : f64, flops = 1.0 : f64, kind = "row", variants = {items = 2 : i64}, operand_bytes = array<i64>, written = 0 : i64}

// -----

plan.entry @evaluate.plan {
  // expected-error@+1 {{'plan.bind' op P-007: expected launches and all-reduces alone in a plan.entry}}
  %w = plan.bind "parameter:w" : tensor<8xf32>
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    // expected-error@+1 {{P-008: expected a plan.kernel of the module, found @gone}}
    plan.launch @gone ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    // expected-error@+1 {{P-009: expected 8 arguments for @norm, found 7}}
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0]) phase "update" after []
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    // expected-error@+1 {{P-010: expected argument 0 to have its 128 bytes in the arena of 1024 bytes, found it at 1000}}
    plan.launch @norm ([1000, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
  }
}

// -----

module {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    // expected-error@+1 {{P-010: expected the module attribute plan.arena_bytes, an i64, found none}}
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    // expected-error@+1 {{P-011: expected scalar:rows at 8, found 16}}
    plan.launch @norm ([64, 40, 0, 16, 16, 24, 0, 0]) phase "update" after []
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    // expected-error@+1 {{P-011: expected scalar:length.words at 0, found no such buffer}}
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after [] {axis = "words"}
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
    // expected-error@+1 {{P-012: expected ascending numbers of launches before this one, 1, found 1}}
    plan.launch @add ([64, 64, 0, 8, 16, 24, 0, 0]) phase "update" after [0, 1] {guard = "finite"}
  }
}

// -----

// The first writes the bytes that the second reads.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @evaluate.plan {
    // expected-note@+1 {{launch 0}}
    plan.launch @add ([64, 256, 0, 8, 16, 24, 0, 0]) phase "forward" after []
    // expected-error@+1 {{P-013: expected to be after launch 0, which touches the same bytes, found to be after [] alone}}
    plan.launch @add ([256, 512, 0, 8, 16, 24, 0, 0]) phase "forward" after []
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
    // expected-error@+1 {{P-014: expected a buffer scalar:sane, found none}}
    plan.launch @add ([64, 64, 0, 8, 16, 24, 0, 0]) phase "update" after [0] {guard = "sane"}
  }
}

// -----

// It touches other bytes than the launch that writes its guard, and does not name it: their order is
// undefined.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @evaluate.plan {
    plan.launch @norm ([512, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
    // expected-error@+1 {{P-014: expected a launch without a guard before this one to write the guard's scalar finite, found none}}
    plan.launch @add ([64, 64, 0, 8, 16, 24, 0, 0]) phase "update" after [] {guard = "finite"}
  }
}

// -----

// A device may start such a launch anyway.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @step.plan {
    plan.launch @norm ([64, 44, 0, 8, 16, 24, 0, 0]) phase "forward" after []
    // expected-error@+1 {{P-015: expected a scheduled kernel, which writes nothing where no row is due, for the guard due.0, found @add}}
    plan.launch @add ([256, 512, 0, 8, 16, 24, 0, 0]) phase "forward" after [] {guard = "due.0"}
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
    // expected-error@+1 {{P-016: expected a guard that forbids an update, as this launch writes flat:parameters, found none}}
    plan.launch @add ([64, 64, 0, 8, 16, 24, 0, 0]) phase "update" after [0]
  }
}

// -----

// If the launch is skipped, a reader of the bytes of the arena's names finds their earlier contents.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
    // expected-error@+1 {{P-017: expected results in named memory, as the guard finite may forbid the launch, found 128 bytes at 256}}
    plan.launch @add ([64, 256, 0, 8, 16, 24, 0, 0]) phase "update" after [0] {guard = "finite"}
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "scalar:due.0" at 44 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  // expected-error@+1 {{P-018: expected one buffer for each place, found two for scalar:rows}}
  plan.buffer "scalar:rows" at 512 bytes 8 device 0
  plan.entry @update.plan {
  }
}

// -----

// The arena's first byte is no exception: a launch without a workspace names offset 0.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @update.plan {
    plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
    // expected-error@+1 {{P-017: expected results in named memory, as the guard finite may forbid the launch, found 128 bytes at 0}}
    plan.launch @add ([64, 0, 0, 8, 16, 24, 0, 0]) phase "update" after [0] {guard = "finite"}
  }
}

// -----

// expected-error@+1 {{P-019: expected workspace_bytes, an i64 of at least 0, found -64 : i64 for "cpu"}}
plan.kernel @k {bytes = 1.0 : f64, flops = 1.0 : f64, kind = "row", variants = {cpu = {workspace_bytes = -64 : i64}}, operand_bytes = array<i64>, written = 0 : i64}

// -----

// expected-error@+1 {{P-019: expected workspace_bytes, an i64 of at least 0, found 64 : i32 for "cpu"}}
plan.kernel @k {bytes = 1.0 : f64, flops = 1.0 : f64, kind = "row", variants = {cpu = {workspace_bytes = 64 : i32}}, operand_bytes = array<i64>, written = 0 : i64}

// -----

// expected-error@+1 {{P-019: expected counters, an i64 of at least 0, found "two" for "sm_80"}}
plan.kernel @k {bytes = 1.0 : f64, flops = 1.0 : f64, kind = "row", variants = {sm_80 = {counters = "two", workspace_bytes = 64 : i64}}, operand_bytes = array<i64>, written = 0 : i64}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @sum {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {cpu = {workspace_bytes = 256 : i64}}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.entry @evaluate.plan {
    // expected-error@+1 {{P-020: expected the workspace's 256 bytes, and 0 of counters in front of them, in the arena of 1024 bytes from a multiple of 64 on, found them at 832}}
    plan.launch @sum ([64, 40, 0, 8, 16, 24, 0, 832]) phase "forward" after []
  }
}

// -----

// Vectors start at cache lines.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @sum {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {cpu = {workspace_bytes = 256 : i64}}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.entry @evaluate.plan {
    // expected-error@+1 {{P-020: expected the workspace's 256 bytes, and 0 of counters in front of them, in the arena of 1024 bytes from a multiple of 64 on, found them at 520}}
    plan.launch @sum ([64, 40, 0, 8, 16, 24, 0, 520]) phase "forward" after []
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @sum {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {cpu = {workspace_bytes = 64 : i64, counters = 32 : i64}}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.entry @evaluate.plan {
    // expected-error@+1 {{P-020: expected the workspace's 64 bytes, and 128 of counters in front of them, in the arena of 1024 bytes from a multiple of 64 on, found them at 64}}
    plan.launch @sum ([64, 40, 0, 8, 16, 24, 0, 64]) phase "forward" after []
  }
}

// -----

// Two launches share the workspace, and are unordered.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:finite" at 40 bytes 4 device 0
  plan.buffer "flat:parameters" at 64 bytes 128 device 0
  plan.kernel @sum {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {cpu = {workspace_bytes = 256 : i64}}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
  plan.entry @evaluate.plan {
    // expected-note@+1 {{launch 0}}
    plan.launch @sum ([64, 40, 0, 8, 16, 24, 0, 512]) phase "forward" after []
    // expected-error@+1 {{P-013: expected to be after launch 0, which touches the same bytes, found to be after [] alone}}
    plan.launch @sum ([64, 44, 0, 8, 16, 24, 0, 512]) phase "forward" after []
  }
}

// -----

// Two results are interleaved row by row, and the third launch reads the second's.
module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @"evaluate@4.plan" {
    plan.launch @add ([64, 256, 0, 8, 16, 24, 0, 0]) phase "forward" after [] {runs = array<i64: 1, 2, 64, 32>}
    // expected-note@+1 {{launch 1}}
    plan.launch @add ([64, 288, 0, 8, 16, 24, 0, 0]) phase "forward" after [] {runs = array<i64: 1, 2, 64, 32>}
    // expected-error@+1 {{P-013: expected to be after launch 1, which touches the same bytes, found to be after [] alone}}
    plan.launch @add ([288, 512, 0, 8, 16, 24, 0, 0]) phase "forward" after [] {runs = array<i64: 0, 2, 64, 32>}
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
  plan.entry @"evaluate@4.plan" {
    // expected-error@+1 {{P-022: expected runs as four numbers for each operand that has some, in rising order: its number, how many follow one another in it, how far apart they begin, and their bytes; found array<i64: 1, 3, 64, 32>}}
    plan.launch @add ([64, 256, 0, 8, 16, 24, 0, 0]) phase "forward" after [] {runs = array<i64: 1, 3, 64, 32>}
  }
}

// -----

module attributes {plan.arena_bytes = 1024 : i64} {
  // expected-error@+1 {{P-021: expected the 128 bytes of flat:parameters in the arena of 1024 bytes, found them at 960}}
  plan.buffer "flat:parameters" at 960 bytes 128 device 0
}

// -----

func.func @inside() {
  // expected-error@+1 {{'plan.entry' op expects parent op 'builtin.module'}}
  plan.entry @evaluate.plan {
  }
  return
}
