// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/pickle.h"

#include <doctest/doctest.h>

#include <cstring>

#include "checkpoint/testing.h"

namespace zaya {

namespace {

using namespace std::string_literals;
using Kind = Pickle::Kind;

constexpr std::string_view kAllowed[] = {"collections OrderedDict", "torch Size"};

// The pickle keeps views of the bytes.
struct Read {
  explicit Read(std::string bytes)
      : text(std::move(bytes)),
        pickle(std::as_bytes(std::span(text.data(), text.size())), kAllowed, "f") {}
  std::string text;
  Pickle pickle;
};

std::string failure_of(const std::string& bytes) {
  return error_of(ErrorKind::damaged, [&] { Read{bytes}; });
}

}  // namespace

TEST_CASE("values of all kinds are read") {
  CHECK(Read("N."s).pickle.kind(0) == Kind::none);
  CHECK(Read("\x88."s).pickle.boolean(0, "x"));
  CHECK(!Read("\x89."s).pickle.boolean(0, "x"));
  CHECK(Read("K\xff."s).pickle.integer(0, "x") == 255);
  CHECK(Read("M\xff\xff."s).pickle.integer(0, "x") == 65535);
  CHECK(Read("J\xff\xff\xff\xff."s).pickle.integer(0, "x") == -1);
  CHECK(Read("\x8a\0."s).pickle.integer(0, "x") == 0);
  CHECK(Read("\x8a\1\x80."s).pickle.integer(0, "x") == -128);
  CHECK(Read("\x8a\5\0\0\0\0\1."s).pickle.integer(0, "x") == std::int64_t{1} << 32);
  CHECK(Read("G\x3f\xe0\0\0\0\0\0\0."s).pickle.real(0, "x") == 0.5);
  CHECK(Read("\x8c\2ab."s).pickle.text(0, "x") == "ab");
  CHECK(Read("X\2\0\0\0ab."s).pickle.text(0, "x") == "ab");
}

TEST_CASE("containers, the memo, classes, states and storages are read as they were written") {
  // {"a": (1, [2, 3]), "b": the same tuple}
  const Read dict("\x80\2}(\x8c\1aK\1](K\2K\3e\x86q\0\x8c\1bh\0u."s);
  const Pickle& pickle = dict.pickle;
  const auto a = pickle.find(pickle.root(), "a", "x"), b = pickle.find(pickle.root(), "b", "x");
  REQUIRE(a);
  CHECK(a == b);
  CHECK(!pickle.find(pickle.root(), "c", "x"));
  const auto items = pickle.items(*a, Kind::tuple, "x");
  REQUIRE(items.size() == 2);
  CHECK(pickle.integer(items[0], "x") == 1);
  CHECK(pickle.items(items[1], Kind::list, "x").size() == 2);

  const Read object("ctorch\nSize\n(K\6K\4t\x85R}\x8c\1k\x88sb."s);
  const Pickle::Ref root = object.pickle.root();
  CHECK(object.pickle.class_of(root, "x") == "torch Size");
  CHECK(object.pickle.items(object.pickle.arguments(root), Kind::tuple, "x").size() == 1);
  REQUIRE(object.pickle.state(root));
  CHECK(object.pickle.boolean(*object.pickle.find(*object.pickle.state(root), "k", "x"), "x"));

  const Read storage("(\x8c\1k\x85tQ."s);
  CHECK(storage.pickle.kind(storage.pickle.persistent_id(storage.pickle.root(), "x")) ==
        Kind::tuple);
  // A list that holds itself is no trouble for the reader.
  const Read cycle("]q\0h\0a."s);
  CHECK(cycle.pickle.items(cycle.pickle.root(), Kind::list, "x")[0] == cycle.pickle.root());
}

TEST_CASE("classes and functions outside of the list are refused by name, however spelled") {
  for (const std::string& bytes :
       {"cposix\nsystem\n(\x8c\2idtR."s, "\x8c\5posix\x8c\6system\x93\x8c\2id\x85R."s}) {
    CHECK(failure_of(bytes).find("names \"posix system\"") != std::string::npos);
  }
  CHECK(failure_of("ctorch Size\n\n."s).find("names") != std::string::npos);
}

TEST_CASE("operations outside of the list are refused by their code") {
  // INST, OBJ, BUILD of old kinds, EXT1, BINBYTES, DUP, POP, INT, NEXT_BUFFER, EMPTY_SET,
  // NEWOBJ_EX.
  for (const char code :
       "iodl\x82\x42"
       "C20I\x97\x8f\x92PSV\x8b"s) {
    std::string bytes = "N";
    bytes += code;
    CHECK(failure_of(bytes + "\0\0\0\0N."s).find("which is not known here") != std::string::npos);
  }
}

TEST_CASE("a pickle that breaks the rules of its stack is refused") {
  for (const std::string& bytes : {
           ""s,
           "."s,                            // nothing to end with
           "NN."s,                          // two values
           "(N."s,                          // a mark left over
           "N.N"s,                          // goes on
           "t."s,                           // no mark
           "N\x86."s,                       // one value for a pair
           "N(\x85t."s,                     // takes from below the mark
           "Na."s,                          // appends a value to nothing
           "NNa."s,                         // to something that is no list
           "}Ns."s,                         // a key without a value
           "}(Nu."s,                        //
           "]NNs."s,                        // items of a list
           "h\0."s,                         // an empty memo
           "Nq\1."s,                        // a number left out
           "Nr\xff\xff\xff\xff."s,          // a request for memory
           "NR."s,                          // calls without a class
           "N)R."s,                         // calls None
           "ctorch\nSize\nNR."s,            // arguments that are no tuple
           "NNb."s,                         // a state for None
           "ctorch\nSize\n)RNbNb."s,        // a second state
           "\x8a\x09\0\0\0\0\0\0\0\0\1."s,  // 72 bits
           "\x80\6N."s,                     // protocol 6
           "\x95\xff\0\0\0\0\0\0\0N."s,     // a frame behind the end
           "X\xff\xff\xff\xffN."s,          // a text behind the end
           "\x8c\2\xc3\x28."s,              // not UTF-8
           "ctorch"s,                       // no line end
           "\x8c\1a\x93."s,
           "NN\x93."s,  // a class named by what is no text
       }) {
    CAPTURE(bytes);
    const std::string failure = failure_of(bytes);
    CHECK(failure.starts_with("f: the pickle "));
  }
}

TEST_CASE("a value of another kind is refused with both kinds") {
  const Read read("K\1."s);
  CHECK(error_of(ErrorKind::damaged, [&] { read.pickle.text(0, "the name"); }) ==
        "f: the name is an integer, expected a text");
}

}  // namespace zaya
