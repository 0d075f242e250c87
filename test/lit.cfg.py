# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""lit: runs the RUN lines of .mlir and .test files under test/ with the programs of the build."""
import os
import shutil

import lit.formats

config.name = "Sluice"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "causality", "e2e", "fuzz", "golden", "unit"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.sluice_build, "test")

# The build's own programs first, then LLVM's FileCheck, not, count.
path = [os.path.join(config.sluice_build, "bin"), config.llvm_tools, config.environment.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
# The cache of the test run (scripts/test.sh), or else one of the build: never the user's.
config.environment["SLUICE_KERNEL_CACHE"] = os.environ.get(
    "SLUICE_KERNEL_CACHE", os.path.join(config.sluice_build, "test-kernel-cache"))
config.environment["SLUICE_KERNEL_CACHE_SIZE"] = os.environ.get("SLUICE_KERNEL_CACHE_SIZE", "16GiB")
config.substitutions.append(("%models", os.path.join(config.sluice_source, "models")))
config.substitutions.append(("%docs", os.path.join(config.sluice_source, "docs")))

if "quick" not in lit_config.params:
    config.available_features.add("slow")
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
