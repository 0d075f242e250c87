// RUN: sluice-opt %s -split-input-file -verify-diagnostics

sluice.axis @t
// expected-error@+1 {{S-001: expected a factor of at least 1, found -2}}
sluice.scale @s on @t factor -2

// -----

func.func @map(%a: !sluice.seq<@s1, 4, f32>, %b: !sluice.seq<@s2, 4, f32>) {
  // expected-note@+1 {{the operand on scale @s2 comes from here}}
  %c = sluice.shift %b by 1 : (!sluice.seq<@s2, 4, f32>) -> !sluice.seq<@s2, 4, f32>
  // expected-error@+1 {{S-002: sequences of different scales meet: @s2 and @s1}}
  %y = sluice.map(%a, %c) {
  ^bb0(%x: f32, %z: f32):
    sluice.yield %x : f32
  } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s2, 4, f32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

func.func @map(%a: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-003: expected operands of width 5, found 4}}
  %y = sluice.map(%a) {
  ^bb0(%x: f32):
    sluice.yield %x : f32
  } : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 5, f32>
  return
}

// -----

func.func @map(%a: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-004: expected 1 arguments of the body, found 2}}
  %y = sluice.map(%a) {
  ^bb0(%x: f32, %z: f32):
    sluice.yield %x : f32
  } : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

func.func @linear(%x: !sluice.seq<@s1, 4, f32>, %w: tensor<4x5xf32>) {
  // expected-error@+1 {{S-005: expected a weight of 4 columns, found 'tensor<4x5xf32>'}}
  %y = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x5xf32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

func.func @linear(%x: !sluice.seq<@s1, 4, f32>, %w: tensor<5x4xf32>) {
  // expected-error@+1 {{S-006: expected a result of width 5, found 4}}
  %y = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

func.func @attention(%x: !sluice.seq<@s1, 12, f32>) {
  // expected-error@+1 {{S-007: expected a mask over (p, q) with symbol n}}
  %o, %l = sluice.attention %x, %x, %x attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q) : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @attention(%x: !sluice.seq<@s1, 12, f32>) {
  // expected-error@+1 {{S-008: expected heads divisible by key/value heads, found 3 and 2}}
  %o, %l = sluice.attention %x, %x, %x attributes {heads = 3 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @attention(%x: !sluice.seq<@s1, 12, f32>) {
  // expected-error@+1 {{S-009: expected a score region over (score, p, q, head), found 1 arguments}}
  %o, %l = sluice.attention %x, %x, %x attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32):
    sluice.yield %s : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @shorten(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-010: a scale is not defined}}
  %y = sluice.shorten %x factor 4 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 2
// expected-note@+1 {{the coarse scale is defined here}}
sluice.scale @coarse on @t factor 4
func.func @upsample(%x: !sluice.seq<@coarse, 4, f32>) {
  // expected-error@+1 {{S-011: expected scales a factor of 4 apart, found factors 2 and 4}}
  %y = sluice.upsample %x factor 4 : (!sluice.seq<@coarse, 4, f32>) -> !sluice.seq<@fine, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @fold(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-012: expected coarse rows of 16 columns, found 4}}
  %y = sluice.fold %x factor 4 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

func.func @read() {
  // expected-error@+1 {{S-025: expected a parameter to be read as f32 or bf16, found 'f16'}}
  %w = sluice.read @w : tensor<5x4xf16>
  return
}

// -----

// expected-error@+1 {{S-028: expected maps of one dimension with results, found affine_map<(d0, d1) -> (d0)>}}
sluice.schedule @s count (t, u) -> (t) due (m) -> (m) first 0 period 1 rise 1 burst 1

// -----

// expected-error@+1 {{S-029: expected period, rise and burst of at least 1, found 0}}
sluice.schedule @s count (t) -> (t) due (m) -> (m) first 0 period 1 rise 1 burst 0

// -----

sluice.axis @target
// expected-error@+1 {{S-069: expected an axis of segments, found @target}}
sluice.schedule @s segments of @target count (d0) -> (d0) due (d0) -> (d0 + 1) first 1 period 1 rise 1 burst 1

// -----

// expected-error@+1 {{S-030: expected a ring of at least 1 row, found 0}}
sluice.state @s ring 0 : !sluice.seq<@s1, 4, f32>

// -----

func.func @step(%x: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-031: expected a defined schedule, found @s}}
  sluice.due %x by @s : <@s1, 4, f32>
  return
}

// -----

sluice.schedule @s count (t) -> (t + 1) due (m) -> (m) first 0 period 1 rise 1 burst 1
func.func @step(%x: !sluice.seq<@s1, 4, f32>) {
  %y = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
  // expected-error@+1 {{S-032: expected a value that is stored, found the result of sluice.shift, which is read through}}
  sluice.due %y by @s : <@s1, 4, f32>
  return
}

// -----

func.func @step(%x: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-033: expected a defined state, found @s}}
  %k = sluice.keep %x in @s : <@s1, 4, f32> -> <@s1, 4, f32>
  return
}

// -----

sluice.state @s ring 2 : !sluice.seq<@s1, 8, f32>
func.func @step(%x: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-034: expected value, state and result of one type}}
  %k = sluice.keep %x in @s : <@s1, 4, f32> -> <@s1, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @keys_and_values_of_two_scales(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 4, f32>) {
  // expected-error@+1 {{S-035: expected keys and values on one scale, found @fine and @coarse}}
  %o, %l = sluice.attention %x, %x, %y attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@coarse, 4, f32>)
      -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @output_on_the_keys_scale(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 4, f32>) {
  // expected-error@+1 {{S-035: expected queries and outputs on one scale, found @fine and @coarse}}
  %o, %l = sluice.attention %x, %y, %y attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 4, f32>)
      -> (!sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @one_gradient_of_two_scales(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 4, f32>, %l: !sluice.seq<@fine, 1, f32>) {
  // expected-error@+1 {{S-036: expected a gradient of '!sluice.seq<@coarse, 4, f32>', found '!sluice.seq<@fine, 4, f32>'}}
  %d = sluice.attention_backward %x, %y, %y, %x, %l, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    sluice.yield %g : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 4, f32>, !sluice.seq<@fine, 4, f32>,
       !sluice.seq<@fine, 1, f32>, !sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @one_sequence_by_distance(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-044: expected, after the sequences, none or two of terms by distance}}
  %o, %l = sluice.attention %x, %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, 
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @no_table_of_biases(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-044: expected, after the sequences}}
  %o, %l = sluice.attention %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @biases_of_other_heads(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<3x2xf32>) {
  // expected-error@+1 {{S-045: expected terms by distance of 4 columns per row, or of 1 numbers per distance}}
  %o, %l = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x2xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @distances_of_later_keys(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-046: expected a mask that requires q <= p}}
  %o, %l = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q + 1 >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x1xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @distances_that_grow(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-080: expected a distance a * p - b * q + c with a and b of at least 1, found affine_map<(d0, d1) -> (d0 + d1)>}}
  %o, %l = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      distance = affine_map<(p, q) -> (p + q)>,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x1xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @distances_of_one_scale(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-081: expected queries and keys whose factors are 1 and 1 times that of a step of distance, found 4, 1 and 4}}
  %o, %l = sluice.attention %y, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@coarse, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x1xf32>) -> (!sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @distances_below_zero(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-046: expected a mask that requires a distance of at least 0}}
  %o, %l = sluice.attention %y, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      distance = affine_map<(p, q) -> (p * 4 - q)>,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p * 4 + 3 - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@coarse, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x1xf32>) -> (!sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @no_middle_row(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<4x1xf32>) {
  // expected-error@+1 {{S-150: expected tables of an odd number of rows with "centered"}}
  %o, %l = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias, centered,
      distance = affine_map<(p, q) -> (p - q + 8)>,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (n - 1 - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<4x1xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @rows_of_one_direction(%x: !sluice.seq<@fine, 4, f32>, %r: tensor<3x4xf32>) {
  // expected-error@+1 {{S-150: expected a table of rows by distance only with "centered"}}
  %o, %l = sluice.attention %x, %x, %x, %x, %r attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x4xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

func.func @captured(%a: !sluice.seq<@s1, 4, f32>, %outside: f32) {
  // expected-note@+1 {{required by region isolation constraints}}
  %y = sluice.map(%a) {
  ^bb0(%x: f32):
    // expected-error@+1 {{using value defined outside the region}}
    %sum = arith.addf %x, %outside : f32
    sluice.yield %sum : f32
  } : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @fine on @tokens factor 1
sluice.scale @coarse on @tokens factor 4
func.func @choice(%x: !sluice.seq<@fine, 4, f32>, %g: !sluice.seq<@coarse, 8, f32>) {
  // expected-error@+1 {{S-038: expected a gradient of 4 columns on scale @coarse, found '!sluice.seq<@coarse, 8, f32>'}}
  %z = sluice.shorten_max_backward %x, %g factor 4 : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@coarse, 8, f32>) -> !sluice.seq<@coarse, 16, f32>
  return
}

// -----

func.func @objective_counts(%l: !sluice.seq<@fine, 0, f32>) {
  // expected-error@+1 {{S-050: expected at least one loss, and a name, a factor and a first row for each, found 1 losses, 2 names, 1 factors and 1 first rows}}
  sluice.objective %l {names = ["next", "bag"], factors = array<f64: 1.0>, first = array<i64: 0>} : !sluice.seq<@fine, 0, f32>
  return
}

// -----

func.func @objective_weights(%l: !sluice.seq<@fine, 0, f32>) {
  // expected-error@+1 {{S-050: expected weights, or an empty name, for each loss, found 2 of 1 losses}}
  sluice.objective %l {names = ["next"], factors = array<f64: 1.0>, first = array<i64: 0>, weights = ["mask", ""]} : !sluice.seq<@fine, 0, f32>
  return
}

// -----

func.func @objective_of_rows(%l: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-051: expected losses of one f32 per row, found '!sluice.seq<@fine, 4, f32>'}}
  sluice.objective %l {names = ["next"], factors = array<f64: 1.0>, first = array<i64: 0>} : !sluice.seq<@fine, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @window(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-095: expected a window and a factor of at least 1, found -1 and 4}}
  %y = sluice.shorten %x factor 4 window -1 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @window_columns(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-012: expected coarse rows of 24 columns, found 16}}
  %y = sluice.fold %x factor 4 window 6 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 16, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @coarse on @t factor 4
func.func @windows_of_nothing(%x: !sluice.seq<@coarse, 4, f32>) {
  // expected-error@+1 {{S-096: expected a factor and a window of at least 1, found 4 and 0}}
  %y = sluice.overlap_add %x factor 4 window 0 : (!sluice.seq<@coarse, 4, f32>) -> !sluice.seq<@coarse, 16, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @coarse on @t factor 4
func.func @windows_of_other_columns(%x: !sluice.seq<@coarse, 12, f32>) {
  // expected-error@+1 {{S-097: expected rows of 6 times as many columns as a position has, or as many, found '!sluice.seq<@coarse, 12, f32>' for groups of 4 in '!sluice.seq<@coarse, 16, f32>'}}
  %y = sluice.overlap_add %x factor 4 window 6 : (!sluice.seq<@coarse, 12, f32>) -> !sluice.seq<@coarse, 16, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @coarse on @t factor 4
func.func @windows_of_a_map(%x: !sluice.seq<@coarse, 24, f32>) {
  %s = sluice.shift %x by 1 : (!sluice.seq<@coarse, 24, f32>) -> !sluice.seq<@coarse, 24, f32>
  // expected-error@+1 {{S-098: expected rows that are stored, found those of a map of positions}}
  %y = sluice.overlap_add %s factor 4 window 6 : (!sluice.seq<@coarse, 24, f32>) -> !sluice.seq<@coarse, 16, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @start_of_no_rows(%x: !sluice.seq<@fine, 4, f32>, %r: tensor<4xf32>) {
  // expected-error@+1 {{S-083: expected at least 1 row before the input's first, found 0}}
  %y = sluice.start %x, %r by 0 : (!sluice.seq<@fine, 4, f32>, tensor<4xf32>) -> !sluice.seq<@fine, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @start_with_another_row(%x: !sluice.seq<@fine, 4, f32>, %r: tensor<3xf32>) {
  // expected-error@+1 {{S-084: expected an input and a row like those of the result, '!sluice.seq<@fine, 4, f32>', found '!sluice.seq<@fine, 4, f32>' and 'tensor<3xf32>'}}
  %y = sluice.start %x, %r by 2 : (!sluice.seq<@fine, 4, f32>, tensor<3xf32>) -> !sluice.seq<@fine, 4, f32>
  return
}

// -----

// expected-error@+1 {{S-042: expected a capacity and a vocabulary, or neither, found one}}
"sluice.axis"() {sym_name = "source", capacity = 5 : i64} : () -> ()

// -----

// expected-error@+1 {{S-151: expected streams of a given axis with a vocabulary of at least 1, an i64, each, found otherwise for "class"}}
sluice.axis @target streams {class = 2 : i64}

// -----

// expected-error@+1 {{S-151: expected streams of a given axis with a vocabulary of at least 1, an i64, each, found otherwise for "class"}}
sluice.axis @source given 5 vocabulary 7 streams {class = 0 : i64}

// -----

func.func @add_gradients(%a: tensor<2x3x4xf32>) {
  // expected-error@+1 {{S-149: expected gradients that are f32 vectors or matrices, found 'tensor<2x3x4xf32>'}}
  %b = sluice.add_gradients %a, %a : tensor<2x3x4xf32>
  return
}
