// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/IrMessages.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace sluice::editor;
using nlohmann::json;

namespace {

class Rpc : public testing::Test {
protected:
  Rpc() {
    dispatcher.onRequest("initialize", [](const json &) { return json::object(); });
    dispatcher.onRequest("double",
                         [](const json &params) { return json(2 * params.at("x").get<int>()); });
    dispatcher.onRequest("fail", [](const json &) -> json { throw std::runtime_error("oh"); });
    dispatcher.onNotification("note", [this](const json &params) { notes += params.at("x"); });
  }

  /// The answer to one body; null if there is none.
  json answer(const std::string &body) {
    sent = nullptr;
    dispatcher.receive({body, {}});
    return sent;
  }
  int getErrorCode(const std::string &body) { return answer(body).at("error").at("code"); }
  void initialize() { answer(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{}})"); }

  json sent;
  std::string notes;
  Dispatcher dispatcher{[this](const json &message) { sent = message; }};
};

TEST_F(Rpc, AnswersCalls) {
  initialize();
  EXPECT_EQ(answer(R"({"jsonrpc":"2.0","id":"a","method":"double","params":{"x":4}})"),
            json({{"jsonrpc", "2.0"}, {"id", "a"}, {"result", 8}}));
}

TEST_F(Rpc, RejectsWithCodesOfTheProtocol) {
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"double"})"), -32002);
  initialize();
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{}})"), -32600);
  EXPECT_EQ(getErrorCode("{nonsense"), -32700);
  EXPECT_EQ(getErrorCode("\xff"), -32700);
  EXPECT_EQ(getErrorCode("[]"), -32600);
  EXPECT_EQ(getErrorCode("17"), -32600);
  EXPECT_EQ(getErrorCode(R"({"id":1,"method":"double","params":{"x":4}})"), -32600);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":7})"), -32600);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"double","params":"x"})"), -32600);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":{},"method":"double"})"), -32600);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"triple"})"), -32601);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"double","params":{"x":"y"}})"),
            -32602);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"double","params":[1]})"), -32602);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"fail"})"), -32603);
  EXPECT_EQ(getErrorCode(std::string(100000, '[')), -32600);
  std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"double","params":)" + deep + "}"),
            -32600);
}

TEST_F(Rpc, RejectsNumbersOutsideDouble) {
  initialize();
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1e999,"method":"double","params":{"x":4}})"),
            -32700);
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":1,"method":"double","params":{"x":-1e999}})"),
            -32700);
}

TEST_F(Rpc, DoesNotAnswerNotifications) {
  EXPECT_TRUE(answer(R"({"jsonrpc":"2.0","method":"note","params":{"x":"early"}})").is_null());
  initialize();
  EXPECT_TRUE(answer(R"({"jsonrpc":"2.0","method":"note","params":{"x":"a"}})").is_null());
  EXPECT_TRUE(answer(R"({"jsonrpc":"2.0","method":"note","params":{}})").is_null());
  EXPECT_TRUE(
      answer(R"({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}})").is_null());
  EXPECT_TRUE(answer(R"({"jsonrpc":"2.0","id":1,"result":null})").is_null());
  EXPECT_EQ(notes, "a");
}

TEST_F(Rpc, ExitsAsTheProtocolRequires) {
  initialize();
  EXPECT_FALSE(dispatcher.exitStatus());
  EXPECT_TRUE(answer(R"({"jsonrpc":"2.0","id":2,"method":"shutdown"})").at("result").is_null());
  EXPECT_EQ(getErrorCode(R"({"jsonrpc":"2.0","id":3,"method":"double","params":{"x":1}})"), -32600);
  answer(R"({"jsonrpc":"2.0","method":"exit"})");
  EXPECT_EQ(dispatcher.exitStatus(), 0);
}

TEST_F(Rpc, ExitWithoutShutdownFails) {
  answer(R"({"jsonrpc":"2.0","method":"exit"})");
  EXPECT_EQ(dispatcher.exitStatus(), 1);
}

TEST(RpcFrames, AreReadOneByOne) {
  std::istringstream in("Content-Length: 2\r\n\r\n{}"
                        "content-type: x\r\nCONTENT-LENGTH:3\r\n\r\n[1]");
  EXPECT_EQ(readMessage(in)->body, "{}");
  EXPECT_EQ(readMessage(in)->body, "[1]");
  EXPECT_FALSE(readMessage(in));
}

TEST(RpcFrames, BrokenHeadersAreReportedAndSkipped) {
  std::istringstream in("Something: else\r\n\r\nContent-Length: many\r\n\r\n"
                        "Content-Length: -1\r\n\r\nContent-Length: 99999999999999999999\r\n\r\n"
                        "Content-Length: 2\r\n\r\n{}Content-Length: 9\r\n\r\n{");
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(readMessage(in)->failure) << i;
  }
  EXPECT_EQ(readMessage(in)->body, "{}");
  EXPECT_TRUE(readMessage(in)->failure); // cut off
  EXPECT_FALSE(readMessage(in));
}

TEST(RpcFrames, CountBytesAndReplaceInvalidText) {
  EXPECT_EQ(frame("\xC3\xA9"), "Content-Length: 4\r\n\r\n\"\xC3\xA9\"");
  EXPECT_EQ(frame("\xff"), "Content-Length: 5\r\n\r\n\"\xEF\xBF\xBD\"");
}

TEST(IrMessages, RejectsDeepNesting) {
  auto answerTo = [](const std::string &method, const json &params) {
    json message = {{"jsonrpc", "2.0"}, {"method", method}, {"params", params}};
    return refuseIrMessage({message.dump(), {}});
  };
  auto open = [&](const std::string &text) {
    return answerTo("textDocument/didOpen",
                    {{"textDocument", {{"uri", "file:///a"}, {"text", text}}}});
  };
  EXPECT_EQ(refuseIrMessage({std::string(100000, '['), {}})->at("error").at("code"), -32600);
  EXPECT_EQ(refuseIrMessage({R"({"jsonrpc":"2.0","id":1e999})", {}})->at("error").at("code"),
            -32700);
  for (const char *part : {"[", "(", "{", "tuple<", "(d0) -> (", "\"x\" {"}) {
    std::string deep;
    for (int i = 0; i < 501; ++i) {
      deep += part;
    }
    json params = open(deep).value_or(json()).value("params", json());
    EXPECT_EQ(params.value("uri", ""), "file:///a") << part;
    EXPECT_EQ(params["diagnostics"].size(), 1u);
  }
  // Characters that are not brackets: in strings, comments, arrows and comparisons.
  std::string flat;
  for (int i = 0; i < 1000; ++i) {
    flat += "\"[[\\\"[\" // ((\n d0 <= 3 -> {}";
  }
  EXPECT_FALSE(open(flat));
  EXPECT_FALSE(answerTo("textDocument/hover", {{"textDocument", {{"uri", "file:///a"}}}}));
  json changes = {{{"text", ""}}, {{"text", std::string(501, '<')}}};
  EXPECT_TRUE(answerTo("textDocument/didChange",
                       {{"textDocument", {{"uri", "file:///a"}}}, {"contentChanges", changes}}));
}

} // namespace
