// Logits and tokens on the scale of the losses; targets that have a name.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @wide(%z: !sluice.seq<@s1, 5, f32>, %t: !sluice.seq<@s1, 0, i32>) {
  // expected-error@+1 {{S-145: expected rows of f32, tokens as the function is given them, and one f32 for each on their scale, found '!sluice.seq<@s1, 5, f32>', '!sluice.seq<@s1, 0, i32>' and '!sluice.seq<@s1, 1, f32>'}}
  %l = sluice.soft_loss %z, %t against "teacher" : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 1, f32>
  return
}

// -----

sluice.axis @tokens
sluice.scale @s1 on @tokens factor 1
func.func @nameless(%z: !sluice.seq<@s1, 5, f32>, %t: !sluice.seq<@s1, 0, i32>) {
  // expected-error@+1 {{S-145: expected the name of the targets, found none}}
  %l = sluice.soft_loss %z, %t against "" : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
  return
}
