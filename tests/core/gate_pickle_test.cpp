// Pickles in a .pt file that are no dict of tensors, each with the reason that its error must give.
#include <catch2/catch.hpp>

#include "engine/core/files/gate/pt_reader.h"
#include "tests/core/gate_pt_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

struct Case {
  const char* name;
  std::string pickle;
  const char* reason;
};

const std::string kX = pickle_text("x");

std::string one(const std::string& value) { return pickle_dict({kX, value}); }
std::string begin() { return "\x80\x02"; }
std::string repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

std::vector<Case> opcodes() {
  const std::string tensor = pickle_tensor({});
  return {
      {"os.system", one(pickle_call(pickle_global("os", "system"), pickle_tuple({pickle_text("true")}))),
       "global \"os system\" is not allowed in a gate checkpoint; expected a dict of tensors; hint: convert it to"},
      {"builtins.eval", one(pickle_global("builtins", "eval")), "global \"builtins eval\" is not allowed"},
      {"numpy", one(pickle_global("numpy.core.multiarray", "_reconstruct")), "_reconstruct\" is not allowed"},
      {"an unknown storage", one(pickle_global("torch", "LongStorage")),
       "torch LongStorage holds a type that gates do not use; expected torch FloatStorage, HalfStorage"},
      {"a global without an end", begin() + "ctorch" + std::string(400, 'x'), "a global without a line end"},
      {"a class instance", one("\x81"), "opcode 0x81 is not allowed in a gate checkpoint"},
      {"a float", begin() + "G", "opcode 0x47 is not allowed"},
      {"protocol 4", "\x80\x04}.", "pickle protocol 4; expected protocol 2"},
      {"no protocol", "}.", "no pickle protocol"},
      {"nothing", "", "no pickle protocol"},
      {"no STOP", begin() + "}", "the pickle ends inside an opcode or before STOP; expected STOP"},
      {"cut inside an opcode", begin() + "J\1\2", "expected 4 bytes, not 2"},
      {"bytes after STOP", one(tensor) + "xy", "2 bytes after STOP"},
      {"values left at STOP", begin() + "NN.", "values left on the stack at STOP"},
      {"a mark left at STOP", begin() + "}(.", "an opcode that finds the stack empty"},
      {"an empty stack", begin() + ".", "an opcode that finds the stack empty"},
      {"SETITEM on too little", begin() + "}Ns.", "an opcode that finds the stack empty"},
      {"SETITEM on no dict", begin() + "NNNs.", "an opcode on a value of another kind; expected a dict"},
      {"SETITEMS without a mark", begin() + "}u.", "an opcode that finds no mark"},
      {"odd SETITEMS", begin() + "}(" + kX + "u.", "a key without a value; expected pairs"},
      {"a memo miss", begin() + "h\5.", "memo place 5 is empty"},
      {"a memo of 4 GB", begin() + "}r\xff\xff\xff\xff.", "memo place 4294967295; expected at most 65535"},
      {"a memo of nothing", begin() + std::string("q\0.", 3), "an opcode that finds the stack empty"},
      {"a text of 4 GB", begin() + "X\xff\xff\xff\xffx", "a text of 4294967295 bytes; expected 1 at most"},
      {"a text that is not UTF-8", begin() + pickle_text("\xff") + ".", "a text that is not UTF-8"},
      {"an integer of 9 bytes", begin() + "\x8a\x09" + std::string(9, '\1') + ".", "an integer of 9 bytes"},
      {"2 million nested tuples", begin() + ")" + repeat("\x85", 2'000'000) + ".", "nested deeper than 32 levels"},
      {"100 marks", begin() + repeat("(", 100), "nested deeper than 32 levels"},
      {"a dict in itself", begin() + std::string("}q\0", 3) + repeat(kX + std::string("h\0s", 3), 40) + ".",
       "nested deeper than 32 levels"},
      {"a million values", begin() + "(" + repeat("N", 1'100'000), "more than 1000000 values"},
  };
}

std::vector<Case> calls() {
  const std::string rebuild = pickle_global("torch._utils", "_rebuild_tensor_v2"),
                    parameter = pickle_global("torch._utils", "_rebuild_parameter"),
                    storage = pickle_storage("FloatStorage", "0", pickle_integer(4));
  const auto tensor_of = [&](const std::vector<std::string>& items) {
    return one(pickle_call(rebuild, pickle_tuple(items)));
  };
  const std::string zero = pickle_integer(0), four = pickle_integers({4}), step = pickle_integers({1});
  return {
      {"a tensor of 2 arguments", tensor_of({storage, zero}), "_rebuild_tensor_v2 with 2 arguments; expected 6 or 7"},
      {"a tensor of 8 arguments", tensor_of({storage, zero, four, step, "\x89", pickle_ordered_dict(), "N", "N"}),
       "_rebuild_tensor_v2 with 8 arguments"},
      {"a tensor of no storage", tensor_of({"N", zero, four, step, "\x89", pickle_ordered_dict()}),
       "_rebuild_tensor_v2 with a wrong argument 1"},
      {"an offset that is a text", tensor_of({storage, kX, four, step, "\x89", pickle_ordered_dict()}),
       "_rebuild_tensor_v2 with a wrong argument 2"},
      {"metadata", tensor_of({storage, zero, four, step, "\x89", pickle_ordered_dict(), "}"}),
       "_rebuild_tensor_v2 with a wrong argument 7"},
      {"a parameter of 1 argument", one(pickle_call(parameter, pickle_tuple({pickle_tensor({})}))),
       "_rebuild_parameter with 1 arguments; expected 3"},
      {"a parameter of no tensor", one(pickle_call(parameter, pickle_tuple({"N", "\x88", pickle_ordered_dict()}))),
       "_rebuild_parameter with a wrong argument"},
      {"an OrderedDict of something",
       one(pickle_call(pickle_global("collections", "OrderedDict"), pickle_tuple({"N"}))),
       "OrderedDict with 1 arguments; expected none"},
      {"a call of a storage", one(pickle_call(pickle_global("torch", "FloatStorage"), ")")),
       "a call of torch FloatStorage"},
      {"a call of a text", one(pickle_call(kX, ")")),
       "an opcode on a value of another kind; expected a function's name"},
      {"a call without a tuple", one(rebuild + "NR"), "expected a tuple of arguments"},
      {"attributes of a plain dict", begin() + "}}b.", "attributes of a plain dict"},
      {"attributes that are no dict", begin() + pickle_ordered_dict() + "Nb.", "expected a dict of attributes"},
      {"a persistent object of 2", one(pickle_tuple({pickle_text("storage"), "N"}) + "Q"),
       "an unknown persistent object"},
      {"a persistent module",
       one(pickle_tuple({pickle_text("module"), pickle_global("torch", "FloatStorage"), kX, kX, zero}) + "Q"),
       "an unknown persistent object; expected a storage"},
      {"a storage of a function", one(pickle_tuple({pickle_text("storage"), rebuild, kX, kX, zero}) + "Q"),
       "a storage of type torch._utils _rebuild_tensor_v2"},
  };
}

std::vector<Case> tensors() {
  const auto huge = std::int64_t{1} << 62;
  return {
      {"not a dict", begin() + "N.", "data.pkl: not a dict; expected name -> tensor"},
      {"a number", one("K\7"), "x: not a tensor; expected a dict of tensors"},
      {"a dict of dicts", one("}"), "x: not a tensor; expected a dict of tensors; hint: if the tensors are nested"},
      {"a key that is a number", pickle_dict({"K\7", pickle_tensor({})}), "data.pkl: a key that is not a text"},
      {"a name twice", pickle_dict({kX, pickle_tensor({}), kX, pickle_tensor({})}), "x: a tensor twice"},
      {"no such record", one(pickle_tensor({.key = "7"})), "x: no record \"data/7\" in the archive"},
      {"a record elsewhere", one(pickle_tensor({.key = "../version"})), "x: no record \"data/../version\""},
      {"a record shorter by one", one(pickle_tensor({.stored = 5, .shape = {5}})),
       "x: a storage of 5 elements of F32; expected as many as fit in its record of 16 bytes"},
      {"10^9 elements over 16 bytes", one(pickle_tensor({.stored = 1'000'000'000, .shape = {1'000'000'000}})),
       "x: a storage of 1000000000 elements of F32"},
      {"bytes past 64 bits", one(pickle_tensor({.stored = huge})), "x: a storage of 4611686018427387904 elements"},
      {"a negative storage", one(pickle_tensor({.stored = -4})), "x: a storage of -4 elements"},
      {"a storage of half the type", one(pickle_tensor({.type = "HalfStorage"})), "x: a storage of 4 elements of F16"},
      {"a negative offset", one(pickle_tensor({.offset = -1})), "x: storage offset -1; expected 0 or more"},
      {"an offset past the end", one(pickle_tensor({.offset = 1})),
       "at offset 1; expected elements within its storage of 4"},
      {"a shape past the end", one(pickle_tensor({.shape = {5}})), "x: shape [5] with strides [1] at offset 0"},
      {"a stride past the end", one(pickle_tensor({.shape = {2, 2}, .stride = {3, 1}})), "with strides [3, 1]"},
      {"a stride that overflows", one(pickle_tensor({.shape = {4, 4}, .stride = {huge, huge}})),
       "expected elements within"},
      {"a repeated view of 10^12", one(pickle_tensor({.shape = {1'000'000, 1'000'000}, .stride = {0, 0}})),
       "with strides [0, 0]"},
      {"a negative size", one(pickle_tensor({.shape = {-4}})), "x: size -4; expected 0 or more"},
      {"a negative stride", one(pickle_tensor({.stride = {-1}})), "x: stride -1; expected 0 or more"},
      {"fewer strides than sizes", one(pickle_tensor({.shape = {2, 2}, .stride = {1}})), "x: 1 strides; expected 2"},
      {"no elements", one(pickle_tensor({.shape = {0}})), "x: shape [0]; expected a tensor with elements"},
      {"9 dimensions", one(pickle_tensor({.shape = std::vector<std::int64_t>(9, 1)})),
       "x: 9 dimensions; expected at most"},
      {"a hostile name", pickle_dict({pickle_text("\x1b[31m\nx"), "N"}), "\\x1B[31m\\x0Ax: not a tensor"},
  };
}

std::vector<float> read(const std::filesystem::path& path, const std::string& name = "x") {
  const PtFile file = PtFile::open(path);
  return file.read(file.tensors().at(name));
}

}  // namespace

TEST_CASE("gate pickle: what is no dict of tensors is refused in one line with its reason", "[core][gate]") {
  const TempFolder folder;
  for (const auto& cases : {opcodes(), calls(), tensors()}) {
    for (const Case& c : cases) {
      CAPTURE(c.name);
      const auto path = folder.write("a.pt", small_file(c.pickle));
      const std::string line = error_of([&] { read(path); });
      CHECK_THAT(line, Catch::StartsWith(path.string() + ": ") && Catch::Contains(c.reason));
      CHECK(line.find('\n') == line.npos);
    }
  }
}

TEST_CASE("gate pickle: parameters, shared storages, views and a state_dict's attributes are read", "[core][gate]") {
  const TempFolder folder;
  const auto values = [&](const std::string& pickle) { return read(folder.write("a.pt", small_file(pickle))); };
  CHECK(values(one(pickle_parameter(pickle_tensor({})))) == std::vector<float>{1, -2, 0.5f, 4});
  CHECK(values(one(pickle_tensor({.shape = {2, 2}, .stride = {1, 2}}))) == std::vector<float>{1, 0.5f, -2, 4});
  CHECK(values(one(pickle_tensor({.offset = 2, .shape = {2}}))) == std::vector<float>{0.5f, 4});
  CHECK(values(one(pickle_tensor({.shape = {}, .stride = {}}))) == std::vector<float>{1});
  // Strides of axes of size 1 mean nothing, and real files have odd ones.
  const auto huge = std::int64_t{1} << 62;
  CHECK(values(one(pickle_tensor({.shape = {1, 4, 1}, .stride = {huge, 1, huge}}))) ==
        std::vector<float>{1, -2, 0.5f, 4});
  CHECK(values(pickle_dict({kX, pickle_tensor({.offset = 1, .shape = {3}}), pickle_text("y"), pickle_tensor({})})) ==
        std::vector<float>{-2, 0.5f, 4});
  const std::string state = begin() + pickle_ordered_dict() + "(" + kX + pickle_tensor({}) + "u}" +
                            pickle_text("_metadata") + pickle_ordered_dict() + "sb.";
  CHECK(values(state) == std::vector<float>{1, -2, 0.5f, 4});
}

TEST_CASE("gate pickle: half precision becomes float32 exactly", "[core][gate]") {
  std::vector<ZipPart> parts = small_parts(one(pickle_tensor({.type = "HalfStorage", .stored = 8, .shape = {8}})));
  // 1, -2, 2^-24, 65504, 0, -0, infinity, 1 + 2^-10
  parts[2].data = le(0x3c00, 2) + le(0xc000, 2) + le(1, 2) + le(0x7bff, 2) + le(0, 2) + le(0x8000, 2) + le(0x7c00, 2) +
                  le(0x3c01, 2);
  const TempFolder folder;
  const auto values = read(folder.write("a.pt", zip_file(parts)));
  CHECK(values == std::vector<float>{1, -2, 0x1p-24f, 65504, 0, 0, HUGE_VALF, 1.0009765625f});
  CHECK(std::signbit(values[5]));

  parts[0].data = one(pickle_tensor({.type = "BFloat16Storage", .stored = 8, .shape = {2}}));
  parts[2].data.replace(0, 4, le(0x3f80, 2) + le(0xc2f7, 2));
  CHECK(read(folder.write("b.pt", zip_file(parts))) == std::vector<float>{1, -123.5f});
}
