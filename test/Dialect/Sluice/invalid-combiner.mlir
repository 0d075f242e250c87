// Combiners of groups with their masks, and regions that read a term.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @combiner_of_another_identity(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 0, f32>, %bits: !sluice.seq<@fine, 0, f32>) {
  // expected-error@+1 {{S-130: expected an identity that the combiner leaves alone on either side, found 0.000000e+00 : f32, which makes 0 of 1}}
  %g = sluice.shorten %x factor 4 combine identity 0.0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    sluice.yield %c : f32
  } : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @average_of_a_product(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 0, f32>, %bits: !sluice.seq<@fine, 0, f32>) {
  // expected-error@+1 {{S-131: expected an average to be a sum of all rows, found another combiner}}
  %g = sluice.shorten %x factor 4 combine identity 1.0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    sluice.yield %c : f32
  } {mean} : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @average_of_some_rows(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 0, f32>, %bits: !sluice.seq<@fine, 0, f32>) {
  // expected-error@+1 {{S-131: expected an average to be a sum of all rows, found a mask}}
  %g = sluice.shorten %x factor 4 mask %bits : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 0, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @mask_of_another_scale(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 0, f32>, %bits: !sluice.seq<@fine, 0, f32>) {
  // expected-error@+1 {{S-132: expected a mask of one number per row, f32 or bf16, on scale}}
  %g = sluice.shorten %x factor 4 mask %y sum : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@coarse, 0, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
sluice.scale @coarse on @t factor 4
func.func @mask_past_the_end(%x: !sluice.seq<@fine, 4, f32>, %y: !sluice.seq<@coarse, 0, f32>, %bits: !sluice.seq<@fine, 0, f32>) {
  %later = sluice.shift %bits by 1 : (!sluice.seq<@fine, 0, f32>) -> !sluice.seq<@fine, 0, f32>
  // expected-error@+1 {{S-133: expected a mask that is stored, found that of a map of positions}}
  %g = sluice.shorten %x factor 4 mask %later sum : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 0, f32>) -> !sluice.seq<@coarse, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @region_without_its_term(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-009: expected a score region over (score, p, q, head, bias), found 4 arguments}}
  %o, %l = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x1xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @term_as_an_integer(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-009: expected a score region over (score, p, q, head, bias), found 5 arguments of 'f32', 'i32', 'i32', 'i32', 'i32'}}
  %o, %l = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, tensor<3x1xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @region_without_its_product(%x: !sluice.seq<@fine, 4, f32>) {
  // expected-error@+1 {{S-009: expected a score region over (score, p, q, head, product), found 4 arguments}}
  %o, %l = sluice.attention %x, %x, %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>)
      -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @one_term_for_two(%x: !sluice.seq<@fine, 4, f32>, %b: tensor<3x1xf32>) {
  // expected-error@+1 {{S-009: expected a score region over (score, p, q, head, product, bias), found 5 arguments}}
  %o, %l = sluice.attention %x, %x, %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
    sluice.yield %e : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>,
       tensor<3x1xf32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @fine on @t factor 1
func.func @derivative_without_the_product(%x: !sluice.seq<@fine, 4, f32>, %l: !sluice.seq<@fine, 1, f32>) {
  // expected-error@+1 {{S-009: expected a derivative region over (score, p, q, head, product, gradient), found 5 arguments}}
  %d:3 = sluice.attention_backward %x, %x, %x, %x, %l, %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %t: f32):
    sluice.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    sluice.yield %g : f32
  } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 1, f32>,
       !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>)
      -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>)
  return
}
