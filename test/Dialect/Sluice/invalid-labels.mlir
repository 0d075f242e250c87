// Labels are of the tokens as they are given, one f32 each.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @wide(%t: !sluice.seq<@s1, 0, i32>) {
  // expected-error@+1 {{S-120: expected tokens as the function is given them, and one f32 for each on their scale, found '!sluice.seq<@s1, 0, i32>' and '!sluice.seq<@s1, 1, f32>'}}
  %l = sluice.labels "words" of %t : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 1, f32>
  return
}
