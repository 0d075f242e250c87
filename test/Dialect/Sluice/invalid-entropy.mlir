// Invalid entropies, numbers of an update, and maps of integers.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @argument(%t: !sluice.seq<@s1, 0, i32>) {
  // expected-error@+1 {{S-125: expected an argument of i32 for a sequence of i32, and of f32 for another, found 'f32' for '!sluice.seq<@s1, 0, i32>'}}
  %r = sluice.map(%t) {
  ^bb0(%a: f32):
    sluice.yield %a : f32
  } : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @result(%t: !sluice.seq<@s1, 0, i32>) {
  // expected-error@+1 {{S-125: expected a yield of i32 for a result of i32, and of f32 for another, found 'i32' for '!sluice.seq<@s1, 0, f32>'}}
  %r = sluice.map(%t) {
  ^bb0(%a: i32):
    sluice.yield %a : i32
  } : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @wide(%x: !sluice.seq<@s1, 4, f32>) {
  // expected-error@+1 {{S-127: expected rows of f32 and one column of f32 on one scale, found '!sluice.seq<@s1, 4, f32>' and '!sluice.seq<@s1, 4, f32>'}}
  %h = sluice.entropy %x : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @update() {
  // expected-error@+1 {{S-128: expected one f32 per position, found '!sluice.seq<@s1, 0, i32>'}}
  %n = sluice.update : !sluice.seq<@s1, 0, i32>
  return
}
