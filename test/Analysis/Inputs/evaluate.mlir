  func.func @evaluate(%t: !tokens) -> !sluice.seq<@s1, 0, f32> {
    %e = sluice.read @e : tensor<5x4xf32>
    %x = sluice.embed %t, %e : (!tokens, tensor<5x4xf32>) -> !row
