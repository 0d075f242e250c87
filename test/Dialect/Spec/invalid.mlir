// IR that the reader of specs does not create: each is an error, not an assertion failure.
// RUN: sluice-opt %s --split-input-file --verify-diagnostics

// A stage outside a model.
func.func private @stream() -> !spec.stream<tokens, 8>
%x = func.call @stream() : () -> !spec.stream<tokens, 8>
// expected-error @+1 {{'spec.norm' op expects parent op 'spec.model'}}
%y = spec.norm %x : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>

// -----

// An op of another dialect gives a stream.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected an object or a stage of a spec in a spec.model, found builtin.unrealized_conversion_cast}}
  %1 = builtin.unrealized_conversion_cast %0 : !spec.stream<tokens, 8> to !spec.stream<tokens, 16>
  spec.head %1 {path = "stages.1"} : (!spec.stream<tokens, 16>) -> ()
}

// -----

// Segments where a stream is expected.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %w = spec.boundaries %0 {name = "words", path = "stages.1", rule = #spec<rule whitespace>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of !spec.stream<tokens, 8>>
  // expected-error @+1 {{'spec.megabyte' op operand #0 must be A sequence of rows on a scale}}
  %1 = spec.megabyte %w {layers = [1, 1], patch = 4 : i64, path = "stages.2"} : (!spec.segmentation<"words" of !spec.stream<tokens, 8>>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// A stream where segments are expected.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.shorten' op operand #1 must be A division of a stream's rows into segments}}
  %1 = spec.shorten %0, %0 {path = "stages.1"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<segments("words"), 8>
}

// -----

// A result type other than the operand's.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a result of type '!spec.stream<tokens by 2, 8>' of spec.shorten, found '!spec.stream<tokens by 4, 8>'}}
  %1 = spec.shorten %0 {factor = 2 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 4, 8>
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a result of type '!spec.stream<tokens, 8>' of spec.layers, found '!spec.stream<tokens, 16>'}}
  %1 = spec.layers %0 {count = 1 : i64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 16>
}

// -----

// Segments inside a composite stage have its names.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a result of type '!spec.segmentation<"spacebyte" of <tokens, 8>>' of spec.spacebyte, found '!spec.segmentation<"words" of <tokens, 8>>'}}
  %1, %2 = spec.spacebyte %0 {global = {heads = 2 : i64}, layers = [1, 1, 1], local = {heads = 2 : i64}, path = "stages.1"} : (!spec.stream<tokens, 8>) -> (!spec.stream<tokens, 8>, !spec.segmentation<"words" of !spec.stream<tokens, 8>>)
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected at most 1 results of spec.megabyte, found 2}}
  %1, %2 = spec.megabyte %0 {layers = [1, 1], patch = 4 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> (!spec.stream<tokens, 8>, !spec.segmentation<"words" of !spec.stream<tokens, 8>>)
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Attributes of composite stages: missing, or of another kind.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.layers' op requires attribute 'count'}}
  %1 = spec.layers %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.megabyte' op attribute 'layers' failed to satisfy constraint}}
  %1 = spec.megabyte %0 {layers = [1], patch = 4 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.hnet' op attribute 'layers' failed to satisfy constraint}}
  %1 = spec.hnet %0 {layers = [1, [1, "many", 1], 1], path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.hnet' op attribute 'boundaries' failed to satisfy constraint}}
  %1 = spec.hnet %0 {boundaries = ["router"], layers = [1, 1, 1], path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.hnet' op attribute 'width' failed to satisfy constraint}}
  %1 = spec.hnet %0 {layers = [1, 1, 1], path = "stages.1", width = array<i64: 0>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected attributes of a layers stage in "local", found "haeds"}}
  %1 = spec.megabyte %0 {layers = [1, 1], local = {haeds = 2 : i64}, patch = 4 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected settings of a layers stage in "global": attribute 'heads' failed to satisfy constraint}}
  %1 = spec.megabyte %0 {global = {heads = "two"}, layers = [1, 1], patch = 4 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected settings of a boundaries stage in "boundaries": attribute 'factor' failed to satisfy constraint}}
  %1 = spec.dynamic %0 {boundaries = {factor = 0 : i64, rule = #spec<rule every>}, layers = [1, 1, 1], path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Attributes of primitive stages.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected "factor" in a shorten stage, found none}}
  %1 = spec.shorten %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.upsample' op attribute 'factor' failed to satisfy constraint}}
  %1 = spec.upsample %0 {factor = 0 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a word for "method" that a shorten stage takes, found #spec<shorten_method attention>}}
  %1 = spec.shorten %0 {factor = 2 : i64, method = #spec<shorten_method attention>, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected the attribute "key_value_heads" of spec.layer, which the reader of specs derives from others, found none; add it}}
  %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a mask in "over" for each of several sources, found 1 for 2}}
  %1 = spec.layer %0, %0, %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.layer' op attribute 'scales' failed to satisfy constraint}}
  %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1", scales = []} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a mask "block" from 0 or more to more than that, found 0 to 0}}
  %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<block>, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected the attribute "weight" of spec.boundaries}}
  %1 = spec.boundaries %0 {at = #spec<at start>, name = "words", path = "stages.1", ratio = #spec.target<6.0 : f64>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of !spec.stream<tokens, 8>>
}

// -----

// A stream without rows of numbers.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a factor from 1 to 2147483647 and a width of at least 1 of a stream, found 0 and 8}}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens by 0, 8>
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a name of the axis of a stream unless it is "tokens", found none of "segments"}}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<segments, 8>
}

// -----

// Inputs of a model.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected "role" of an input of numbers, found none; add it}}
  spec.input @teacher {axis = #spec<input_axis tokens>, type = #spec<contents numbers>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected the name of an input, found "source"}}
  %0 = spec.embedding {input = "source", path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{'spec.training' op attribute 'betas' failed to satisfy constraint}}
  spec.training {betas = array<f64: 0.9>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Decays of moments outside their interval, in f32 too.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a number >= 0 and < 1 for "betas", found 2}}
  spec.training {betas = array<f64: 0.9, 2.0>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a number >= 0 and < 1 for "betas", found nan}}
  spec.training {betas = array<f64: 0x7FF8000000000000, 0.95>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a number >= 0 and < 1 in f32 for "betas", found 1}}
  spec.training {betas = array<f64: 0.9, 0.999999999>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Names of inputs that a plan reserves, or that are not words.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected the name of an input: a lower-case letter, then such letters, digits and _, and no word that sluice uses itself, found "tokens"; choose another, such as "source"}}
  spec.input @tokens {length = 4 : i64}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected the name of an input: a lower-case letter, then such letters, digits and _, and no word that sluice uses itself, found "a b"; choose another, such as "source"}}
  spec.input @"a b" {length = 4 : i64}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Names of results and of models that JSON cannot have.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a string that is not empty for "to", found ""}}
  %0 = spec.embedding {path = "stages.0", to = ""} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected text in UTF-8 for "to", found "a\xff"}}
  %0 = spec.embedding {path = "stages.0", to = "a\FF"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// expected-error @+1 {{expected text in UTF-8 for "name", found "m\xff"}}
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m\FF", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Numbers outside the intervals of their keys, and numbers out of the range of f32.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a number >= 0 and < 1 that f32 has room for, for "rate", found -5.000000e-01 : f64}}
  %1 = spec.dropout %0 {path = "stages.1", rate = -0.5 : f64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a number > 0 that f32 has room for, for "rotary", found 1.000000e+300 : f64}}
  %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1", rotary = 1.0e300 : f64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a number > 0 that f32 has room for, for "learning_rate", found -1.000000e+00 : f64}}
  spec.training {learning_rate = -1.0 : f64}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a number > 1 that f32 has room for, for "ratio", found #spec.target<}}
  %1 = spec.boundaries %0 {at = #spec<at start>, name = "w", path = "stages.1", ratio = #spec.target<0.5 : f64>, weight = 1.0 : f64} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"w" of <tokens, 8>>
  spec.head %0 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a number >= 0 and < 1 that f32 has room for, for "dropout", found 2.000000e+00 : f64}}
  %1 = spec.megabyte %0 {layers = [1, 1], local = {dropout = 2.0 : f64, heads = 2 : i64}, patch = 4 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Undeclared attributes, such as a key with a typo.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected attributes of spec.norm alone, found "epsilom"}}
  %1 = spec.norm %0 {epsilom = 0.1 : f64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.norm' op attribute 'first_tokens' failed to satisfy constraint}}
  %1 = spec.norm %0 {first_tokens = -7 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Settings that are given twice, or after the stages.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  spec.training {learning_rate = 0.1 : f64}
  // expected-error @+1 {{expected one spec.training in a model, found another; remove one}}
  spec.training {learning_rate = 0.2 : f64}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected inputs and settings before the stages, found spec.input after one; move it up}}
  spec.input @source {length = 4 : i64}
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Two results of one name.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0", to = "a"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a name that no earlier result has, found "a"; choose another}}
  %1 = spec.norm %0 {path = "stages.1", to = "a"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Segments defined from themselves: following their rows does not terminate.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-note @+3 {{operand defined here}}
  // expected-error @+1 {{operand #0 does not dominate this use}}
  %1 = spec.norm %2 {path = "stages.1"} : (!spec.stream<segments("w"), 8>) -> !spec.stream<segments("w"), 8>
  %2 = spec.norm %1 {path = "stages.2"} : (!spec.stream<segments("w"), 8>) -> !spec.stream<segments("w"), 8>
  %3 = spec.boundaries %2 {name = "w", path = "stages.3", rule = #spec<rule whitespace>} : (!spec.stream<segments("w"), 8>) -> !spec.segmentation<"w" of <segments("w"), 8>>
  spec.head %0 {path = "stages.4"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Levels inside one another, one more than the limit.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{'spec.hnet' op attribute 'layers' failed to satisfy constraint}}
  %1 = spec.hnet %0 {global = {heads = 2 : i64}, layers = [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, [1, 1, 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], local = {heads = 2 : i64}, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
