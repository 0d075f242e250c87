-- Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Plays a user of Neovim whose init.lua is the snippet of docs/editors.md: opens a leaky spec, reads the error and a hover,
-- types the missing shift, then opens model IR with an unknown op. Prints "ok NAME" or "FAIL NAME" for each check.
local work = vim.env.work
local function check(name, found, why)
  io.stdout:write((found and "ok " or "FAIL ") .. name .. (found and "\n" or "\n  " .. tostring(why) .. "\n"))
end
local function find_error(piece)
  for _, each in ipairs(vim.diagnostic.get(0, { severity = vim.diagnostic.severity.ERROR })) do
    if each.message:find(piece, 1, true) then return each end
  end
end
local limit = 60000

vim.cmd("edit " .. work .. "/leak.json")
vim.wait(limit, function() return find_error("not causal") end, 50)
local leak = find_error("not causal")
check("Neovim: a leak is an error", leak, vim.inspect(vim.diagnostic.get(0)))
check("Neovim: at its stage", leak and leak.lnum == 5, vim.inspect(leak))
local place = { textDocument = { uri = vim.uri_from_bufnr(0) }, position = { line = 5, character = 5 } }
local answers = vim.lsp.buf_request_sync(0, "textDocument/hover", place, limit)
check("Neovim: hover", vim.inspect(answers):find("shorten", 1, true), vim.inspect(answers))
vim.api.nvim_buf_set_lines(0, 5, 5, false, { '    { "op": "shift", "by": 3 },' })
vim.wait(limit, function() return not find_error("not causal") end, 50)
check("Neovim: the missing shift ends the error", not find_error("not causal"), vim.inspect(vim.diagnostic.get(0)))

vim.cmd("edit! " .. work .. "/unknown.mlir")
vim.wait(limit, function() return find_error("sluice.nothing") end, 50)
check("Neovim: an unknown op of IR is an error", find_error("sluice.nothing"), vim.inspect(vim.diagnostic.get(0)))
vim.cmd("qall!")
