# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation in llama.cpp, by the functions of its C interface in the package llama-cpp-python. Texts that generate together are sequences
of one batch. Next to weights in f32, keys and values are f32 too, without flash attention, which computes in f16; next to other weights both
are llama.cpp's defaults, which are faster there: keys and values in f16, with flash attention."""
import ctypes
from pathlib import Path

import llama_cpp
import numpy

from stepping import serve


@llama_cpp.llama_log_callback
def drop_messages(_level, _text, _data):
    pass


class Stepper:
    def __init__(self, settings):
        llama_cpp.llama_log_set(drop_messages, None)
        llama_cpp.llama_backend_init()
        self.settings = settings
        path = Path(settings["folder"]) / f"model-{settings['type']}.gguf"
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path.name}")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.version = llama_cpp.__version__
        self.batch = llama_cpp.llama_batch_init(settings["texts"] * settings["prompt"], 0, 1)
        self.contexts = {}

    def make_context(self, rows):
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = rows * -(-self.settings["context"] // 256) * 256  # shared by the sequences, which have multiples of 256
        parameters.n_batch = parameters.n_ubatch = rows * self.settings["prompt"]
        parameters.n_seq_max = rows
        parameters.n_threads = parameters.n_threads_batch = self.settings["threads"]
        parameters.no_perf = True
        if self.settings["type"] == "f32":
            parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
            parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not context:
            raise RuntimeError(f"llama.cpp makes no context for {rows} texts")
        return context

    def start(self, rows):
        if rows not in self.contexts:
            self.contexts[rows] = self.make_context(rows)
        self.context, self.rows, self.position = self.contexts[rows], rows, 0
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def place(self, tokens):
        count = tokens.shape[1]
        for row, column in numpy.ndindex(tokens.shape):
            place = row * count + column
            self.batch.token[place] = int(tokens[row, column])
            self.batch.pos[place] = self.position + column
            self.batch.n_seq_id[place] = 1
            self.batch.seq_id[place][0] = row
            self.batch.logits[place] = column == count - 1
        self.batch.n_tokens = tokens.size
        self.position += count

    def run(self):
        status = llama_cpp.llama_decode(self.context, self.batch)
        self.output = llama_cpp.llama_get_logits(self.context)  # waits for the result
        if status != 0:
            raise RuntimeError(f"llama_decode: status {status}")

    def logits(self):
        """Returns the rows that llama.cpp computed: those of tokens with `logits`, in the order of the batch."""
        pointer = ctypes.cast(self.output, ctypes.POINTER(ctypes.c_float))
        return numpy.ctypeslib.as_array(pointer, (self.rows, self.vocabulary))


serve(Stepper)
