// Exchanges of gradients that are not complete, not disjoint or not in order: each edit is rejected.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

// The bucket is within the gradients.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    // expected-error@+1 {{P-023: expected a multiple of 64 bytes in flat:gradients, 256 to 384, found 128 bytes at 320}}
    plan.all_reduce 1 at 320 bytes 128 after [0]
  }
}

// -----

// It has complete lines.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    plan.all_reduce 1 at 320 bytes 64 after [0]
    // expected-error@+1 {{P-023: expected a multiple of 64 bytes in flat:gradients, 256 to 384, found 32 bytes at 256}}
    plan.all_reduce 0 at 256 bytes 32 after [1]
  }
}

// -----

// It is not empty.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    // expected-error@+1 {{P-023: expected a multiple of 64 bytes in flat:gradients, 256 to 384, found 0 bytes at 320}}
    plan.all_reduce 0 at 320 bytes 0 after [0]
  }
}

// -----

// Buckets are exchanged from the last to the first.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    // expected-error@+1 {{P-024: expected bucket 1 to end at 384, found bucket 0 from 256 to 320}}
    plan.all_reduce 0 at 256 bytes 64 after [1]
    plan.all_reduce 1 at 320 bytes 64 after [0]
  }
}

// -----

// They do not overlap.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    plan.all_reduce 1 at 320 bytes 64 after [0]
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    // expected-error@+1 {{P-024: expected bucket 0 to end at 320 and to begin at 256, found bucket 0 from 256 to 384}}
    plan.all_reduce 0 at 256 bytes 128 after [0, 1]
  }
}

// -----

// They cover the gradients.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    // expected-error@+1 {{P-024: expected bucket 0 to end at 384 and to begin at 256, found bucket 0 from 320 to 384}}
    plan.all_reduce 0 at 320 bytes 64 after [0]
  }
}

// -----

// Only a backward pass has them.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @evaluate.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    // expected-error@+1 {{P-024: expected to be in an entry of gradients, with the buffer flat:gradients, found @evaluate.plan}}
    plan.all_reduce 0 at 256 bytes 128 after [0]
  }
}

// -----

// The gradients have a buffer.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    // expected-error@+1 {{P-024: expected to be in an entry of gradients, with the buffer flat:gradients, found @gradient.plan without the buffer}}
    plan.all_reduce 0 at 256 bytes 128 after []
  }
}

// -----

// Launches that it follows are before it.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    // expected-error@+1 {{P-025: expected ascending numbers of launches before this one, of 1, found 1}}
    plan.all_reduce 1 at 320 bytes 64 after [0, 1]
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    plan.all_reduce 0 at 256 bytes 64 after [1]
  }
}

// -----

// It follows the launches that write its bucket.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    // expected-error@+1 {{P-025: expected to be after launch 0, which writes the bucket, found to be after [] alone}}
    plan.all_reduce 1 at 320 bytes 64 after []
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    plan.all_reduce 0 at 256 bytes 64 after [1]
  }
}

// -----

// No later launch writes its bucket.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    // expected-error@+1 {{P-026: expected launch 1, which writes the bucket, before this op, found it after}}
    plan.all_reduce 0 at 256 bytes 128 after [0]
    // expected-note@+1 {{launch 1}}
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
  }
}

// -----

// The entry does not begin again after it.
module attributes {plan.arena_bytes = 384 : i64} {
  plan.buffer "scalar:length" at 0 bytes 8 device 0
  plan.buffer "scalar:rows" at 8 bytes 8 device 0
  plan.buffer "scalar:step" at 16 bytes 8 device 0
  plan.buffer "scalar:seed" at 24 bytes 8 device 0
  plan.buffer "scalar:length.words" at 64 bytes 64 device 0
  plan.buffer "flat:gradients" at 256 bytes 128 device 0
  plan.kernel @sums {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 64, 64>, written = 1 : i64}
  plan.entry @gradient.plan {
    plan.launch @sums ([128, 320, 0, 8, 16, 24, 0, 0]) phase "backward" after []
    plan.launch @sums ([320, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
    // expected-error@+1 {{P-026: expected launch 2, which writes the length of an axis, before this op, found it after}}
    plan.all_reduce 0 at 256 bytes 128 after [1]
    // expected-note@+1 {{launch 2}}
    plan.launch @sums ([320, 64, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
  }
}
