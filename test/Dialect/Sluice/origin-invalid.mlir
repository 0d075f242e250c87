// An origin has a stage and a part.
// RUN: sluice-opt %s --verify-diagnostics

// expected-error @+1 {{expected ','}}
module {} loc(fused<#sluice.origin<stage = "stages.1">>["model.json":7:5])
