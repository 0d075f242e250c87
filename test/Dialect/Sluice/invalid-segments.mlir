// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-form-dispatches

// expected-error@+1 {{S-058: expected a capacity of segments of at least 1 and below 2^31, and a least distance of at least 1, found 0 and 1}}
sluice.axis @words segments of @s1 capacity 0

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @given given 4 vocabulary 7
  sluice.scale @s1 on @given factor 1
  sluice.axis @words segments of @s1 capacity 4
  sluice.scale @w1 on @words factor 1
  // expected-error@+1 {{S-059: expected segments of a scale of the tokens that are predicted, of their segments, or of a given axis, found @w1}}
  sluice.axis @pairs segments of @w1 capacity 2
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @ends(%b: !sluice.seq<@s1, 1, f32>) {
  // expected-error@+1 {{S-060: expected ends on the scale of factor 1 of an axis of segments of @s1}}
  %c, %e = sluice.segment %b : (!sluice.seq<@s1, 1, f32>) -> (!sluice.seq<@s1, 0, i32>, !sluice.seq<@s1, 0, i32>)
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
sluice.axis @words segments of @s1 capacity 4
sluice.scale @w1 on @words factor 1
func.func @whole(%b: !sluice.seq<@s1, 1, f32>) {
  // expected-error@+1 {{S-061: expected counts of one i32 per position}}
  %c, %e = sluice.segment %b : (!sluice.seq<@s1, 1, f32>) -> (!sluice.seq<@s1, 0, f32>, !sluice.seq<@w1, 0, i32>)
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
sluice.axis @words segments of @s1 capacity 4
sluice.scale @w1 on @words factor 1
func.func @rows(%x: !sluice.seq<@w1, 2, f32>, %c: !sluice.seq<@s1, 0, i32>, %e: !sluice.seq<@w1, 0, i32>) {
  // expected-error@+1 {{S-062: expected rows on @s1 and on @w1 of as many columns}}
  %y = sluice.spread_segments %x, %c, %e by 1
    : (!sluice.seq<@w1, 2, f32>, !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@s1, 3, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
sluice.axis @words segments of @s1 capacity 4
sluice.scale @w1 on @words factor 1
func.func @bits(%b: !sluice.seq<@s1, 2, f32>) {
  // expected-error@+1 {{S-063: expected bits of one f32 per position on @s1}}
  %c, %e = sluice.segment %b : (!sluice.seq<@s1, 2, f32>) -> (!sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>)
  return
}

// -----

func.func @columns(%x: !sluice.seq<@s1, 2, f32>) {
  // expected-error@+1 {{S-064: expected sequences of one scale}}
  %y = sluice.total %x : (!sluice.seq<@s1, 2, f32>) -> !sluice.seq<@s1, 3, f32>
  return
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.axis @words segments of @s1 capacity 4
  sluice.scale @w1 on @words factor 1
  func.func @between(%x: !sluice.seq<@s1, 2, f32>, %k: !sluice.seq<@w1, 2, f32>) {
    // expected-error@+1 {{S-065: expected queries and keys of one axis where neither is given}}
    %y, %l = sluice.attention %x, %k, %k attributes {heads = 1, kv_heads = 1, head_size = 2, query_column = 0,
      key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@s1, 2, f32>, !sluice.seq<@w1, 2, f32>, !sluice.seq<@w1, 2, f32>)
        -> (!sluice.seq<@s1, 2, f32>, !sluice.seq<@s1, 1, f32>)
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.axis @words segments of @s1 capacity 4
  sluice.scale @w1 on @words factor 1
  func.func @twice(%b: !sluice.seq<@s1, 1, f32>, %d: !sluice.seq<@s1, 1, f32>) {
    %c, %e = sluice.segment %b : (!sluice.seq<@s1, 1, f32>) -> (!sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>)
    // expected-error@+1 {{S-066: expected one sluice.segment for the axis @words, found two}}
    %f, %g = sluice.segment %d : (!sluice.seq<@s1, 1, f32>) -> (!sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>)
    return
  }
}

// -----

// expected-error@+1 {{S-058: expected segments of a scale with a capacity, and none where the axis is given, found otherwise}}
"sluice.axis"() {sym_name = "words", segments = @s1} : () -> ()

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
sluice.axis @words segments of @s1 capacity 4
sluice.scale @w1 on @words factor 1
func.func @heads(%q: !sluice.seq<@w1, 4, f32>, %x: !sluice.seq<@s1, 4, f32>, %c: !sluice.seq<@s1, 0, i32>, %e: !sluice.seq<@w1, 0, i32>) {
  // expected-error@+1 {{S-129: expected queries, keys, values and results of as many columns, equally many for each of 3 heads}}
  %y, %l = sluice.attend_segments %q, %x, %x, %c, %e heads 3 : (!sluice.seq<@w1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>,
    !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> (!sluice.seq<@w1, 4, f32>, !sluice.seq<@w1, 3, f32>)
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
sluice.axis @words segments of @s1 capacity 4
sluice.scale @w1 on @words factor 1
func.func @scales(%q: !sluice.seq<@w1, 4, f32>, %x: !sluice.seq<@s1, 4, f32>, %c: !sluice.seq<@s1, 0, i32>, %e: !sluice.seq<@w1, 0, i32>) {
  // expected-error@+1 {{S-147: expected keys and values on the counts' scale @s1, and on the scale of its segments queries}}
  %y, %l = sluice.attend_segments %x, %x, %x, %c, %e heads 2 : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>,
    !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> (!sluice.seq<@w1, 4, f32>, !sluice.seq<@w1, 2, f32>)
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
sluice.axis @words segments of @s1 capacity 4
sluice.scale @w1 on @words factor 1
func.func @parts(%q: !sluice.seq<@w1, 4, f32>, %x: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-148: expected one or more keys on the query's scale, and as many values, found 2 keys and 1 values}}
  %y = sluice.attend_parts %x keys(%x, %x) values(%x) heads 2
    : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @padding(%x: !sluice.seq<@s1, 2, f32>) {
  // expected-error@+1 {{S-152: expected an input and a result of one type, on a given axis, found}}
  %y = sluice.clear_padding %x fill 0.0 : (!sluice.seq<@s1, 2, f32>) -> !sluice.seq<@s1, 2, f32>
  return
}
