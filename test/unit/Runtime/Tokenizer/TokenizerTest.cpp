// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decoding inverts encoding for every byte; files of tokenizers are checked.
#include "Fixture.h"

#include "sluice/Runtime/Tokenizer/Tokenizer.h"
#include "sluice/Runtime/Tokenizer/TrainTokenizer.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Hash.h"

#include <map>
#include <random>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using namespace std::string_literals;

namespace {

/// Text whose pieces look like control symbols and pieces of bytes, with many spaces and characters
/// of two to four bytes.
std::string buildTrainingText() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text +=
        "<s> the lower tower <0x0A> </s><unk>\r\n  two  spaces\tand a tab  \n"
        "na\xc3\xafve \xe2\x82\xac 20 \xe2\x96\x81mark\xe2\x96\x81 \xe2\x96\x85 \xf0\x9f\x98\x80 "
        "newer newest wider widest " +
        std::to_string(i * 7919) + "\n\n";
  }
  return text + "\xff\xfe not UTF-8 \xed\xa0\x80\n" + std::string(20000, 'x') +
         "\n"; // and a long line
}

ByteFile makeText(const std::string &name, const std::string &text) {
  return {name, FileContents(std::vector<uint8_t>(text.begin(), text.end()))};
}

Tokenizer train(const std::string &kind, int64_t vocabulary = 400, double coverage = 1) {
  return trainTokenizer({makeText("a", buildTrainingText()), makeText("b", "another file\n")},
                        {vocabulary, kind, coverage});
}

const std::string codes = "#version: 0.2\nl o\nlo w\ne r</w>\nn e\nne w\nlow er</w>\n\xc3\xaf v\n"
                          "new er</w>\ne s\nes t</w>\n@ @\n";

/// Returns one tokenizer of each kind, which is trained once.
const Tokenizer &getTokenizer(const std::string &kind) {
  static std::map<std::string, Tokenizer> all;
  auto found = all.find(kind);
  if (found == all.end()) {
    bool isCodes = kind == "subword-nmt";
    found =
        all.emplace(kind, isCodes ? Tokenizer::fromModel(SubwordFormat::SubwordNmt, codes, "codes")
                                  : train(kind))
            .first;
  }
  return found->second;
}

void expectRoundTrip(const Tokenizer &tokenizer, const std::string &text) {
  std::vector<int32_t> ids = tokenizer.encode(asBytes(text));
  ASSERT_EQ(toHex(asBytes(tokenizer.decode(ids))), toHex(asBytes(text))) << tokenizer.kind();
  TokenDecoder decoder(tokenizer);
  std::string streamed;
  for (int32_t id : ids) {
    streamed += decoder.push(id);
  }
  ASSERT_EQ(streamed + decoder.finish(), text) << tokenizer.kind();
}

class EachKind : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tokenizers, EachKind,
                         testing::Values("bpe", "unigram", "characters", "subword-nmt"));

TEST_P(EachKind, KeepsEdgeCases) {
  const Tokenizer &tokenizer = getTokenizer(GetParam());
  EXPECT_EQ(tokenizer.kind(), GetParam());
  for (const std::string &text : {""s,
                                  " "s,
                                  "  a  b  "s,
                                  "a"s,
                                  "\n"s,
                                  "\n\n a \n"s,
                                  "\r\n"s,
                                  "a \r\n b\r"s,
                                  "\t\ta\t"s,
                                  "a\0b"s,
                                  "\0"s,
                                  "<s>"s,
                                  "</s> <unk>"s,
                                  "<0x0A>"s,
                                  "<0x0A><0xFF>\n"s,
                                  "@@ a@@ b"s,
                                  "\xe2\x96\x81"s,
                                  "a\xe2\x96\x81 \xe2\x96\x81"s,
                                  "\xe2\x96\x85"s,
                                  "\xe2\x81\x87"s,
                                  "\xef\xbf\xbd"s,
                                  "\xef\xbb\xbfx"s,
                                  "\xff"s,
                                  "a\xff b"s,
                                  "\xe2\x96"s,
                                  "\xe2\x96 \x81"s,
                                  "\xc3\x28"s,
                                  "\xed\xa0\x80"s,
                                  "\xf4\x90\x80\x80"s,
                                  "\xc0\x80"s,
                                  "e\xcc\x81 \xc3\xa9"s,
                                  "lower newer newest na\xc3\xafve \xc3\xaf \xc3\xaf"s,
                                  "low\xc3\xaf low"s,
                                  std::string(9000, 'a'),
                                  std::string(9000, ' '),
                                  std::string(5000, 'a') + " b",
                                  std::string(1365, '.') + std::string(3000, '\xe2')}) {
    expectRoundTrip(tokenizer, text);
  }
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    expectRoundTrip(tokenizer, std::string(1, static_cast<char>(byte)));
    all += static_cast<char>(byte);
  }
  expectRoundTrip(tokenizer, all + all);
  expectRoundTrip(tokenizer, buildTrainingText());
}

TEST_P(EachKind, KeepsRandomBytes) {
  const Tokenizer &tokenizer = getTokenizer(GetParam());
  const std::vector<std::string> words = {
      " ",   "  ",   "\n",  "low",          "er",           "\xc3",
      "\0"s, "<s>",  "\r",  "\xe2\x96\x81", "\xe2\x82\xac", "@@",
      "new", "<0x0", "est", "\xf0\x9f\x98", "\x80",         "\xaf"};
  std::mt19937 random(7);
  for (int i = 0; i < 10000; ++i) {
    std::string text;
    for (size_t count = random() % 24; count > 0; --count) {
      text += random() % 4 == 0 ? std::string(1, static_cast<char>(random()))
                                : words[random() % words.size()];
    }
    ASSERT_NO_FATAL_FAILURE(expectRoundTrip(tokenizer, text)) << i;
  }
}

TEST_P(EachKind, EncodesLinesApart) {
  const Tokenizer &tokenizer = getTokenizer(GetParam());
  std::vector<int32_t> joined;
  for (const char *line : {"lower \xff newer\n", "\n", " two  words \r\n", "low"}) {
    std::vector<int32_t> ids = tokenizer.encode(asBytes(line));
    joined.insert(joined.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(tokenizer.encode(asBytes("lower \xff newer\n\n two  words \r\nlow")), joined);
}

TEST_P(EachKind, ReadsItsFile) {
  TemporaryFolder folder;
  const Tokenizer &tokenizer = getTokenizer(GetParam());
  tokenizer.save(folder / "t.tok");
  EXPECT_EQ(recognizeFile(folder / "t.tok"), FileKind::Tokenizer);
  Tokenizer copy = Tokenizer::open(folder / "t.tok");
  EXPECT_EQ(copy.hash(), tokenizer.hash());
  EXPECT_EQ(copy.size(), tokenizer.size());
  EXPECT_EQ(copy.model(), tokenizer.model());
  EXPECT_EQ(copy.encode(asBytes("a lower word\n")), tokenizer.encode(asBytes("a lower word\n")));
  std::string file = readFile(folder / "t.tok");
  EXPECT_EQ(toHex(asBytes(file).last(32)), copy.hash());
  EXPECT_EQ(sha256Hex(file.substr(0, file.size() - 32)), copy.hash());
}

TEST(Tokenizer, StreamsWholeCharacters) {
  Tokenizer tokenizer = train("characters", 275);
  std::string text = "na\xc3\xafve \xf0\x9f\x98\x80!\xff\xe2\x82";
  TokenDecoder decoder(tokenizer);
  std::vector<std::string> pieces;
  for (int32_t id : tokenizer.encode(asBytes(text))) {
    if (std::string piece = decoder.push(id); !piece.empty()) {
      pieces.push_back(piece);
    }
  }
  EXPECT_EQ(pieces, (std::vector<std::string>{"n", "a", "\xc3\xaf", "v", "e", " ",
                                              "\xf0\x9f\x98\x80", "!", "\xff"}));
  EXPECT_EQ(decoder.finish(), "\xe2\x82");
  // A start that no continuation follows is returned with the byte that shows it.
  std::vector<int32_t> start = tokenizer.encode(asBytes("\xe2\x82"));
  EXPECT_EQ(decoder.push(start[0]) + decoder.push(start[1]), "");
  EXPECT_EQ(decoder.push(tokenizer.encode(asBytes("n"))[0]), "\xe2\x82n");
}

TEST(Tokenizer, TrainsTheSameModelAgain) {
  for (const char *kind : {"bpe", "unigram", "characters"}) {
    EXPECT_EQ(train(kind).hash(), train(kind).hash()) << kind;
  }
}

TEST(Tokenizer, LearnsPiecesOfTheText) {
  const Tokenizer &tokenizer = getTokenizer("bpe");
  EXPECT_EQ(tokenizer.size(), 400);
  std::string text = "the lower tower newest widest\n";
  EXPECT_LT(tokenizer.encode(asBytes(text)).size(), text.size() / 2);
  // Ids: <unk>, then the bytes, then pieces. A line break is a byte.
  EXPECT_EQ(tokenizer.encode(asBytes("\n")), std::vector<int32_t>{1 + '\n'});
  EXPECT_EQ(tokenizer.encode(asBytes("\xff")), std::vector<int32_t>{1 + 0xff});
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0}), "\xef\xbf\xbd");
  EXPECT_EQ(userError([&] { tokenizer.decode(std::vector<int32_t>{400}); }),
            "token ids: expected 0 to 399, found 400; name the tokenizer that they are from");
}

TEST(Tokenizer, EncodesPartsBetweenBytes) {
  const Tokenizer &tokenizer = getTokenizer("unigram");
  for (const std::string &bytes : {"\xe2\x96\x81"s, "\0"s, "\n"s, "\xff"s, "\xe2\x96"s}) {
    std::vector<int32_t> expected = tokenizer.encode(asBytes("the lower"));
    for (char c : bytes) {
      expected.push_back(1 + static_cast<uint8_t>(c));
    }
    std::vector<int32_t> rest = tokenizer.encode(asBytes(" newest"));
    expected.insert(expected.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokenizer.encode(asBytes("the lower" + bytes + " newest")), expected);
  }
}

TEST(Tokenizer, RejectsTextsToTrainOn) {
  EXPECT_EQ(userError([] { trainTokenizer({makeText("a", "\n\n\xff\n")}, {300, "bpe", 1}); }),
            "--data: expected text in UTF-8 to train on, found no character of it except line "
            "breaks; give a text");
  EXPECT_EQ(userError([] { trainTokenizer({makeText("a", "abc abd")}, {260, "bpe", 1}); }),
            "--vocabulary: expected at least 262 (<unk>, 256 bytes, and the characters that are "
            "100% of the text), found 260; raise it, or lower --coverage");
}

TEST(Tokenizer, RejectsDamagedFiles) {
  TemporaryFolder folder;
  Path path = folder / "t.tok";
  train("characters", 300).save(path);
  std::string file = readFile(path),
              again = "copy it again, or write it anew with sluice tokenizer";
  auto message = [&](const std::string &contents) {
    writeFile(path, contents);
    std::string text = userError([&] { Tokenizer::open(path); });
    return text.substr(std::min(text.size(), path.native().size()));
  };
  for (size_t size : {size_t(8), size_t(23), size_t(24), file.size() / 2, file.size() - 1}) {
    EXPECT_EQ(message(file.substr(0, size)),
              ": expected a tokenizer, found one that is cut short; " + again);
  }
  for (size_t at : {size_t(12), size_t(40), file.size() - 40, file.size() - 1}) {
    std::string changed = file;
    changed[at] ^= 1;
    EXPECT_EQ(message(changed),
              ": expected a tokenizer, found one that is damaged: its checksum differs; " + again);
  }
  EXPECT_EQ(message(file + "x"),
            ": expected a tokenizer, found one that is damaged: its checksum differs; " + again);
  std::string newer = file;
  newer[8] = 9;
  EXPECT_EQ(message(newer), ": expected a tokenizer, found one of version 9 where this program "
                            "reads 1; write it anew with this version of sluice tokenizer");
}

TEST(Tokenizer, RejectsOtherFiles) {
  TemporaryFolder folder;
  Path path = folder / "x";
  auto message = [&](const std::string &contents) {
    writeFile(path, contents);
    std::string text = userError([&] { Tokenizer::open(path); });
    return text.substr(std::min(text.size(), path.native().size()));
  };
  std::string shown = path.native(), own = "name a file that sluice tokenizer wrote";
  EXPECT_EQ(message("to be or not\n"), ": expected a tokenizer, found another file; " + own);
  EXPECT_EQ(message(""), ": expected a tokenizer, found another file; " + own);
  EXPECT_EQ(message("PK\x03\x04"), ": expected a tokenizer, found a ZIP archive; " + own);
  EXPECT_EQ(message(codes), ": expected a tokenizer, found codes of subword-nmt; import it: sluice "
                            "tokenizer --import " +
                                shown + " -o TOK");
  EXPECT_EQ(message(std::string(train("bpe").model())),
            ": expected a tokenizer, found a SentencePiece model; import it: sluice tokenizer "
            "--import " +
                shown + " -o TOK");
  EXPECT_EQ(message(R"({"version": "1.0", "truncation": null, "added_tokens": []})"),
            ": expected a tokenizer, found a tokenizer of Hugging Face (tokenizer.json); it is not "
            "read; train a tokenizer: sluice tokenizer --data FILE --vocabulary N -o TOK");
}

// The values were computed with PyPI's subword-nmt 0.3.8, `apply-bpe -c` with these codes.
TEST(Tokenizer, EncodesAsSubwordNmt) {
  const Tokenizer &tokenizer = getTokenizer("subword-nmt");
  auto show = [&](const std::string &text) {
    std::string shown;
    for (int32_t id : tokenizer.encode(asBytes(text))) {
      std::string token = tokenizer.decode(std::vector<int32_t>{id, id});
      bool endsWord = token.find(' ') != std::string::npos; // "low low"
      shown += token.substr(0, token.size() / 2) + (endsWord ? " " : "@@ ");
    }
    return shown;
  };
  EXPECT_EQ(show("lower newer low"), "lower newer lo@@ w ");
  EXPECT_EQ(show("newest lowest"), "new@@ est low@@ est ");
  EXPECT_EQ(show("er rr e o"), "er r@@ r e o ");
  EXPECT_EQ(show("@@@@@"), "@@@@ @@@@ @ ");
  EXPECT_EQ(show("\xc3\xafv\xc3\xaf"), "\xc3\xafv@@ \xc3\xaf ");
}

TEST(Tokenizer, FindsTheEndsOfWords) {
  const Tokenizer &codes = getTokenizer("subword-nmt");
  EXPECT_EQ(codes.findWordEnds(codes.encode(asBytes("lower newer low"))),
            (std::vector<int32_t>{1, 1, 0, 1}));
  // A byte is not followed by an implied space: the space, a byte, begins the next word.
  EXPECT_EQ(codes.findWordEnds(codes.encode(asBytes("er! er"))),
            (std::vector<int32_t>{0, 0, 1, 0, 1}));
  const Tokenizer &pieces = getTokenizer("bpe");
  std::string text = "lower zq  tower";
  std::vector<int32_t> ids = pieces.encode(asBytes(text)), ends = pieces.findWordEnds(ids);
  std::vector<std::string> words(1);
  for (size_t i = 0; i < ids.size(); ++i) {
    words.back() += pieces.decode(std::span(ids).subspan(i, 1));
    if (ends[i] != 0 && i + 1 < ids.size()) {
      words.emplace_back();
    }
  }
  EXPECT_EQ(words.front(), "lower");
  EXPECT_EQ(words[1], " zq");
  EXPECT_EQ(words.back().substr(words.back().size() - 6), " tower");
  EXPECT_TRUE(pieces.findWordEnds({}).empty());
}

TEST(Tokenizer, ImportsModels) {
  TemporaryFolder folder;
  const Tokenizer &tokenizer = getTokenizer("bpe");
  writeFile(folder / "own.model", std::string(tokenizer.model()));
  ImportedTokenizer own = importTokenizer(folder / "own.model");
  EXPECT_EQ(own.tokenizer.hash(), tokenizer.hash());
  EXPECT_TRUE(own.notes.empty());
  // A model that adds a space in front and removes others, as SentencePiece's defaults do.
  std::string changing = std::string(tokenizer.model()) + "\x1a\x04\x18\x01\x20\x01";
  EXPECT_EQ(userError([&] { Tokenizer::fromModel(SubwordFormat::SentencePiece, changing, "m"); }),
            "m: expected a SentencePiece model that normalizes nothing, found one that changes "
            "text before it is encoded; import it: sluice tokenizer --import M.model -o TOK "
            "switches this off");
  writeFile(folder / "other.model", changing);
  ImportedTokenizer other = importTokenizer(folder / "other.model");
  ASSERT_EQ(other.notes.size(), 1u);
  EXPECT_EQ(other.notes[0], (folder / "other.model").native() +
                                ": switched off what changes text: the space before a text, the "
                                "removal of spaces");
  expectRoundTrip(other.tokenizer, "  two  spaces ");
  EXPECT_EQ(other.tokenizer.encode(asBytes("a lower")), tokenizer.encode(asBytes("a lower")));
  writeFile(folder / "codes", codes);
  EXPECT_EQ(importTokenizer(folder / "codes").tokenizer.hash(), getTokenizer("subword-nmt").hash());
}

TEST(Tokenizer, RejectsModels) {
  auto reject = [](SubwordFormat format, const std::string &model) {
    return userError([&] { Tokenizer::fromModel(format, model, "m"); });
  };
  std::string model(train("characters", 300).model());
  EXPECT_EQ(reject(SubwordFormat::SentencePiece, model.substr(0, 100)),
            "m: expected a SentencePiece model, found one that is cut short or damaged; give a "
            "file that SentencePiece wrote");
  EXPECT_EQ(reject(SubwordFormat::SentencePiece, model + "\x0a\x08\x0a\x01"
                                                         "e\x15\0\0\0\0"s),
            "m: expected a SentencePiece model, found the piece \"e\" twice; give a file that "
            "SentencePiece wrote");
  std::string withoutByte = model;
  withoutByte.replace(withoutByte.find("<0x41>"), 6, "<0xZZ>");
  EXPECT_EQ(reject(SubwordFormat::SentencePiece, withoutByte),
            "m: expected <0x00> to <0xFF> as pieces of bytes, found \"<0xZZ>\"; train the model "
            "again");
  EXPECT_EQ(reject(SubwordFormat::SubwordNmt, "#version: 0.1\na b\n"),
            "m: line 1: expected #version: 0.2, found \"#version: 0.1\"; give the file that "
            "subword-nmt learn-bpe wrote");
  EXPECT_EQ(reject(SubwordFormat::SubwordNmt, "#version: 0.2\na b\nabc\n"),
            "m: line 3: expected two symbols with a space between them, found \"abc\"; give the "
            "file that subword-nmt learn-bpe wrote");
}

} // namespace
